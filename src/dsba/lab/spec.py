"""What an experiment is: data x problems x networks x splits x methods x seeds.

Everything is checked before anything runs. ``reading.py`` makes an experiment of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

import tomli_w
from pydantic import Field, field_serializer, field_validator, model_validator

from dsba.data import splits
from dsba.errors import InputError, require_known, unknown_name
from dsba.graph.link import Link
from dsba.lab.index import AXES, METRICS, OTHER_COLUMNS, class_name
from dsba.lab.objects import Assigned, read_array
from dsba.lab.sections import Data, Method, NetworkSpec, Problems, Section, Seed, Stop, Tune
from dsba.storage import plugins

CODE = {"problem": "operator", "method": "algorithm"}  # sections, and the key that may name code
TAKEN_METRICS = {*METRICS, *AXES, *OTHER_COLUMNS}  # names that a user-defined metric must not have


class Experiment(Section):
    """An experiment: every combination of data, problem, network, split, method and seed is a run.

    Parameters
    ----------
    title : str
        The heading of the page.
    seeds : tuple[Seed, ...]
        Seeds of the samples; each is a run.
    splits : tuple[str or Assigned, ...]
        How rows are split over nodes; each is a case.
    metrics : tuple[str or Callable[..., float], ...]
        What the figures show; by default the gap, or AUC and distance.
    band : Literal['quartiles'] or None
        The band of several seeds; None is from the least to the largest.
    axes : tuple[str, ...]
        The horizontal axes of the figures.
    stop : Stop
        Budgets and tolerances of a run.
    tune : Tune
        Budgets of the search for step sizes.
    link : Link
        The link of the axis "time".
    data : tuple[Data, ...]
        Data sets.
    problem : tuple[Problems, ...]
        Operators, lambdas and penalties.
    network : tuple[NetworkSpec, ...]
        Graphs.
    method : tuple[Method, ...]
        Algorithms with their options.

    Raises
    ------
    pydantic.ValidationError
        If a value is not valid; ``dsba.lab.run`` turns it into an ``InputError``.

    Examples
    --------
    >>> import dsba
    >>> dsba.lab.paper(["breast-cancer"], ["ridge"]).title
    'The experiments of Shen et al. (2018)'
    """

    title: str = "Comparison"
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (0,)
    splits: Annotated[tuple[str | Assigned, ...], Field(min_length=1)] = ("random",)
    metrics: tuple[str | Callable[..., float], ...] = ()  # drawn in the figures; by default gap, or AUC and distance
    band: Literal["quartiles"] | None = None  # of several seeds; by default from the least to the largest
    axes: Annotated[tuple[str, ...], Field(min_length=1)] = ("passes", "doubles_max")
    stop: Stop = Stop()
    tune: Tune = Tune()
    link: Link = Link()
    data: Annotated[tuple[Data, ...], Field(min_length=1)]
    problem: Annotated[tuple[Problems, ...], Field(min_length=1)]
    network: Annotated[tuple[NetworkSpec, ...], Field(min_length=1)] = (NetworkSpec(),)
    method: Annotated[tuple[Method, ...], Field(min_length=1)]

    @field_validator("axes")
    @classmethod
    def _known_axes(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            require_known("axis", name, AXES)
        return names

    @field_validator("metrics")
    @classmethod
    def _known_metrics(cls, wanted: tuple[Any, ...]) -> tuple[Any, ...]:
        for one in wanted:
            name = metric_name(one)
            if isinstance(one, str) and not plugins.is_plugin(one) and one not in METRICS:
                raise unknown_name("metric", one, METRICS)
            if (callable(one) or plugins.is_plugin(one)) and (not name.isidentifier() or name in TAKEN_METRICS):
                raise InputError(f"the metric {name!r} needs another name: it becomes a column of the histories.")
        return wanted

    @field_serializer("metrics")
    def _metric_names(self, wanted: tuple[Any, ...]) -> list[str]:
        return [one if isinstance(one, str) else metric_name(one) for one in wanted]

    @field_validator("splits", mode="before")
    @classmethod
    def _arrays_of_nodes(cls, given: Any) -> Any:
        if not isinstance(given, list | tuple):
            return [given] if isinstance(given, str) else given
        return [_split(one, number, len(given)) for number, one in enumerate(given)]

    @field_serializer("splits")
    def _split_names(self, splits: tuple[Any, ...]) -> list[str]:
        return [str(one) for one in splits]

    @model_validator(mode="after")
    def _no_repeats(self) -> Self:
        sections: dict[str, Sequence[Any]] = {
            "methods": self.method, "data sets": self.data, "problems": self.problem, "networks": self.network,
        }  # fmt: skip
        named: dict[str, Sequence[Any]] = {kind: [one.title for one in given] for kind, given in sections.items()}
        named |= {"splits": list(map(str, self.splits)), "metrics": list(map(metric_name, self.metrics))}
        for kind, labels in (named | {"seeds": self.seeds, "seeds of [tune]": self.tune.seeds}).items():
            if repeated := [label for i, label in enumerate(labels) if label in labels[:i]]:
                raise ValueError(f"two {kind} are called {repeated[0]!r}: give each its own label")
        return self

    @property
    def plugins(self) -> list[str]:
        """The names that stand for code outside of dsba."""
        return list(dict.fromkeys(one for one in self._code if isinstance(one, str) and plugins.is_plugin(one)))

    @property
    def has_objects(self) -> bool:
        """Whether something was given in Python that a file cannot name."""
        arrays = [d for d in self.data if (d.rows or d.test_rows) and not d.name.endswith(".npz")]
        graphs = [n for n in self.network if n.graphs or (n.given and not n.mixing.endswith(".npy"))]
        nodes = [s for s in self.splits if not str(s).endswith(".npy") and not isinstance(s, str)]
        return self.has_code or bool(arrays or graphs or nodes)

    @property
    def has_code(self) -> bool:
        """Whether a loss, an algorithm or a metric was given as an object, which only this process knows."""
        return any(not isinstance(one, str) for one in self._code)

    @property
    def _code(self) -> list[Any]:
        return [*(p.operator for p in self.problem), *(m.algorithm for m in self.method), *self.metrics]

    def to_toml(self, plugins: Mapping[str, str] | None = None) -> str:
        """The experiment as a file that ``dsba compare`` reads.

        Parameters
        ----------
        plugins : mapping of str to str, or None
            Other places for the files of user-defined code.

        Returns
        -------
        str
            The text of the file, in TOML.
        """
        note = "# Made of Python objects: `dsba compare` needs the script that made them.\n" if self.has_objects else ""
        content = renamed(self.content(), plugins or {})
        if self.stop.record_first is None:
            content["stop"]["record_first"] = False
        return note + tomli_w.dumps(content)


def plugins_in(content: Mapping[str, Any]) -> list[str]:
    """The names in an experiment that stand for code outside of dsba, before any of it is loaded."""
    found: dict[str, str] = {}
    _each_name(content, lambda name: found.setdefault(name, name))
    return list(filter(plugins.is_plugin, found))


def renamed(content: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The content with other names for plugins."""
    return _each_name(content, lambda name: names.get(name, name))


def _each_name(content: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """The content with other names in the places that may name code."""
    changed = dict(content)
    for section, key in CODE.items():
        if isinstance(entries := content.get(section), list | tuple):
            changed[section] = [
                {**e, key: change(e[key])} if isinstance(e, Mapping) and isinstance(e.get(key), str) else e
                for e in entries
            ]
    if isinstance(wanted := content.get("metrics"), list | tuple):
        changed["metrics"] = [change(one) if isinstance(one, str) else one for one in wanted]
    return changed


def metric_name(metric: Any) -> str:
    """The column of a metric: its own name, or that of the function."""
    return class_name(metric) if isinstance(metric, str) else getattr(metric, "__name__", type(metric).__name__)


def _split(given: Any, number: int, count: int) -> str | Assigned:
    """A split by name, or the node of every row from an array or a .npy file."""
    if isinstance(given, str) and given.endswith(".npy"):
        return Assigned.of(read_array(given), given)
    if isinstance(given, str):
        splits.parsed(given)
        return given
    return given if isinstance(given, Assigned) else Assigned.of(given, "own" if count == 1 else f"own {number}")
