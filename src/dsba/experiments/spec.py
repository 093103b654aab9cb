"""What an experiment is: data x problems x networks x splits x methods x seeds, in TOML or in Python.

Everything is checked before anything runs; an error names the line and the key.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from dsba import algorithms, operators, plugins
from dsba.algorithms import Algorithm
from dsba.data import registry
from dsba.errors import InputError, shortened, unknown_name
from dsba.problem import Problem
from dsba.report import titles
from dsba.report.index import AXES, METRICS
from dsba.topology import FAMILIES, Topology

BUDGETS = ("max_passes", "max_seconds", "max_doubles", "max_rounds")

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, strict=True)]
Seed = Annotated[int, Field(ge=0, strict=True)]
Known = str  # a name that a validator looks up


class Part(BaseModel):
    """A table of the file: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def content(self) -> dict[str, Any]:
        """What was set, defaults included, for identifiers and for TOML."""
        return self.model_dump(mode="json", exclude_none=True)


class Data(Part):
    """A data set: an embedded name, a name in $DSBA_DATA or the cache, or the path of a LIBSVM file."""

    name: str
    label: str = ""  # shown in figures; by default the registry's title, or the file's name
    test: str | None = None  # the test set; by default the file beside it that ends in .t (or .tst for .trn)
    positive: Literal["half"] | tuple[float, ...] | None = None  # which classes are +1; "half": the first half

    @property
    def title(self) -> str:
        return titles.data_title(self.name, self.label)

    @property
    def binarisation(self) -> Literal["half"] | tuple[float, ...] | None:
        """``positive``, or "half" for a set that is known to have more than two classes."""
        known = registry.REGISTRY.get(self.name)
        return self.positive or ("half" if known and known.classes > 2 else None)


class Problems(Part):
    """An operator with its regularisation; ``lam`` missing is 1/(10 Q)."""

    operator: Known = "logistic"
    lam: Positive | None = None
    regularize: Literal["weights", "all"] = "weights"

    @field_validator("operator")
    @classmethod
    def _known(cls, name: str) -> str:
        operators.get(name)
        return name

    @property
    def title(self) -> str:
        return titles.problem_title(self.operator, self.lam, self.regularize)


class Network(Part):
    """A graph with its mixing matrix; ``edges`` is a file of node pairs and replaces ``graph``."""

    graph: Known = "random"
    n_nodes: Count = 10
    p: Annotated[float, Field(ge=0, le=1)] = 0.4
    seed: Seed = 0
    mixing: Literal["laplacian", "metropolis"] = "laplacian"
    tau: Positive | None = None
    edges: str | None = None

    @field_validator("graph")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in FAMILIES:
            raise unknown_name("graph", name, FAMILIES)
        return name

    @model_validator(mode="after")
    def _buildable(self) -> Self:
        _ = self.topology
        return self

    @cached_property
    def topology(self) -> Topology:
        weights: dict[str, Any] = {"mixing": self.mixing, "tau": self.tau}
        if self.edges is not None:
            return Topology.from_edges(self.edges, **weights)
        return Topology.family(self.graph, self.n_nodes, p=self.p, seed=self.seed, **weights)

    @property
    def title(self) -> str:
        graph = Path(self.edges).stem if self.edges else self.graph
        return titles.network_title(graph, self.p, self.topology.n_nodes, self.mixing)


class Method(Part):
    """An algorithm, how it communicates, its step size; further keys are the algorithm's options.

    ``step_size`` is "tune", a rule's name such as "auto", or a number. A budget replaces the one of [stop].
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    algorithm: Known
    label: str = ""
    step_size: Positive | str = "tune"
    communication: Literal["dense", "sparse", "cached"] = "dense"
    max_passes: Positive | None = None
    max_seconds: Positive | None = None
    max_doubles: Positive | None = None
    max_rounds: Positive | None = None

    @field_validator("algorithm")
    @classmethod
    def _known(cls, name: str) -> str:
        algorithms.get(name)
        return name

    @model_validator(mode="after")
    def _options_known(self) -> Self:
        self.build(1.0)
        return self

    @property
    def title(self) -> str:
        return titles.method_title(self.algorithm, self.communication, self.label)

    @property
    def budgets(self) -> dict[str, float]:
        """The method's own budgets."""
        return {name: value for name in BUDGETS if (value := getattr(self, name)) is not None}

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    @property
    def tuned(self) -> bool:
        return self.step_size == "tune"

    def build(self, step_size: float | str, **parameters: Any) -> Algorithm:
        """The algorithm object with this step size."""
        how = {} if self.communication == "dense" else {"communication": self.communication}
        return algorithms.get(self.algorithm, **{"step_size": step_size, **how, **self.options, **parameters})

    def same_iterates(self) -> Method:
        """The method whose iterates are the same: communication changes what is sent, never the result."""
        return self.model_copy(update={"communication": "dense", "label": ""})


class Stop(Part):
    """When runs end. ``tol`` is the relative residual; ``gap_tol`` counts where there is an objective."""

    max_passes: Positive = 60.0
    gap_tol: Positive | None = None
    tol: Positive | None = None
    max_seconds: Positive | None = None
    max_doubles: Positive | None = None
    max_rounds: Positive | None = None
    record_every: Positive = 1.0
    record_first: Positive | None = 0.0625  # stochastic methods have moved far before their first pass


class Tune(Part):
    """Successive halving: all of a method's grid for a few passes, the better half for twice as many, ..."""

    passes: Positive | None = None  # of the last round, between the last two candidates; max_passes by default
    seeds: tuple[Seed, ...] = ()  # the seeds to judge by; the experiment's first one by default


class Experiment(Part):
    """The whole: every combination of data, problem, network, split, method and seed is a run."""

    title: str = "Comparison"
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = (0,)
    splits: Annotated[tuple[Literal["random", "label"], ...], Field(min_length=1)] = ("random",)
    metrics: tuple[Known, ...] = ()  # drawn in the figures; by default gap, or AUC and distance
    axes: Annotated[tuple[Known, ...], Field(min_length=1)] = ("passes", "doubles_max")
    stop: Stop = Stop()
    tune: Tune = Tune()
    data: Annotated[tuple[Data, ...], Field(min_length=1)]
    problem: Annotated[tuple[Problems, ...], Field(min_length=1)]
    network: Annotated[tuple[Network, ...], Field(min_length=1)] = (Network(),)
    method: Annotated[tuple[Method, ...], Field(min_length=1)]

    @field_validator("metrics", "axes")
    @classmethod
    def _columns(cls, names: tuple[str, ...], info: Any) -> tuple[str, ...]:
        known = METRICS if info.field_name == "metrics" else AXES
        for name in names:
            if name not in known:
                raise unknown_name(info.field_name.removesuffix("s"), name, known)
        return names

    @model_validator(mode="after")
    def _no_repeats(self) -> Self:
        named: dict[str, list[Any]] = {
            "methods": [m.title for m in self.method],
            "data sets": [d.title for d in self.data],
            "seeds": list(self.seeds),
            "seeds of [tune]": list(self.tune.seeds),
        }
        for kind, labels in named.items():
            repeated = next((label for i, label in enumerate(labels) if label in labels[:i]), None)
            if repeated is not None:
                raise ValueError(f"two {kind} are called {repeated!r}: give each its own label")
        return self

    @property
    def plugins(self) -> list[str]:
        """The names that stand for code outside of dsba."""
        return plugins_in(self.content())

    def to_toml(self, plugins: Mapping[str, str] | None = None) -> str:
        """The experiment as a file that ``dsba compare`` reads; ``plugins`` gives names other places."""
        content = _renamed(self.content(), plugins or {})
        plain = {k: v for k, v in content.items() if not isinstance(v, dict) and not _is_tables(v)}
        lines = _assignments(plain)
        for key, value in content.items():
            for table in value if _is_tables(value) else [value] if isinstance(value, dict) else []:
                lines += ["", f"[[{key}]]" if _is_tables(value) else f"[{key}]", *_assignments(table)]
        return "\n".join(lines) + "\n"


def _is_classification(problem: Problems) -> bool:
    return operators.get(problem.operator).labels in ("binary", "multiclass")


def refusal(method: Method, problem: Problems, n_nodes: int) -> str | None:
    """Why the method does not apply to the problem, asked of a toy of its kind; None where it does."""
    n_nodes = min(n_nodes, 2)  # some methods are for a single node
    labels = np.array([-1.0, 1.0] * 2) if _is_classification(problem) else np.ones(4)
    toy = Problem.from_arrays(np.eye(4), labels, problem.operator, n_nodes, problem.lam, regularize=problem.regularize)
    algorithm = method.build("auto" if method.tuned else method.step_size)
    if (reason := algorithm.refusal(toy)) is None and isinstance(algorithm.step_size, str):
        rules = algorithm.step_sizes(toy, Topology.complete(n_nodes))
        if algorithm.step_size not in rules:
            raise unknown_name(f"step size of {method.title}", algorithm.step_size, [*rules, "tune"])
    return reason


# Plugins -----------------------------------------------------------------------------------------

CODE = {"problem": "operator", "method": "algorithm"}  # tables, and the key that may name code


def plugins_in(content: Mapping[str, Any]) -> list[str]:
    """The names in an experiment that stand for code outside of dsba, before any of it is loaded."""
    found: list[str] = []
    for table, key in CODE.items():
        entries: Any = content.get(table, ())
        for entry in entries if isinstance(entries, list | tuple) else ():
            name = entry.get(key) if isinstance(entry, Mapping) else None
            found += [name] if isinstance(name, str) and plugins.is_plugin(name) else []
    return list(dict.fromkeys(found))


def _renamed(content: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The content with other names for plugins."""
    changed = dict(content)
    for table, key in CODE.items():
        if isinstance(entries := content.get(table), list | tuple):
            changed[table] = [
                {**e, key: names.get(e[key], e[key])} if isinstance(e, Mapping) and isinstance(e.get(key), str) else e
                for e in entries
            ]
    return changed


def _beside(name: str, folder: Path) -> str:
    """The plugin's name with the path of its file, which is relative to the folder of the TOML file."""
    where, _, cls = name.rpartition(":")
    return f"{folder / where}:{cls}" if where.endswith(".py") else name


# Reading -----------------------------------------------------------------------------------------

Allow = Callable[[list[str]], None]  # sees the plugins that an experiment names, and raises if one must not be loaded


def read(source: str | Path | Mapping[str, Any] | Experiment, allow: Allow | None = None) -> Experiment:
    """An experiment from a TOML file, a dictionary of the same form, or as it is."""
    if isinstance(source, Experiment):
        return source
    if isinstance(source, Mapping):
        return _validated(dict(source), "the experiment", lambda place: "")
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"cannot read the experiment {path}: {reason}.") from error
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not TOML: {shortened(error)}.") from error
    content = _renamed(content, {name: _beside(name, path.parent) for name in plugins_in(content)})
    if allow is not None:
        allow(plugins_in(content))
    lines = line_numbers(text)
    return _validated(content, str(path), lambda place: _line_of(place, lines))


def _validated(content: dict[str, Any], where: str, line_of: Any) -> Experiment:
    try:
        return Experiment.model_validate(content)
    except ValidationError as error:
        first = _most_telling(error.errors())
        place = tuple(part for part in first["loc"] if not _is_type_name(part))
        if first["type"] == "value_error":  # raised for a whole table: the message quotes the key
            place += tuple(key for key in first["input"] if repr(key) in first["msg"])[:1] if _is_table(first) else ()
        key = ".".join(map(str, place))
        message = first["msg"].removeprefix("Value error, ").rstrip(".")
        got = "" if first["type"] in ("value_error", "missing") else f", got {shortened(repr(first['input']), 60)}"
        if first["type"] == "extra_forbidden":
            message, got = f"unknown key; known here: {', '.join(_keys_at(place))}", ""
        raise InputError(f"{where}{line_of(place)}: {key + ': ' if key else ''}{message}{got}.") from None


def _most_telling(errors: Sequence[Any]) -> Any:
    """A misspelt key often causes a missing one: name the misspelling."""
    return next((e for e in errors if e["type"] == "extra_forbidden"), errors[0])


def _is_table(error: Any) -> bool:
    return isinstance(error["input"], dict)


def _is_type_name(part: Any) -> bool:
    """Pydantic names the member of a union that failed; a file has no such key."""
    return isinstance(part, str) and (
        part in ("float", "str") or part.startswith(("literal[", "tuple[", "constrained"))
    )


def _keys_at(place: tuple[Any, ...]) -> list[str]:
    parts: dict[str, type[Part]] = {
        "stop": Stop, "tune": Tune, "data": Data, "problem": Problems, "network": Network,
    }  # fmt: skip
    return list(parts.get(str(place[0]), Experiment).model_fields if len(place) > 1 else Experiment.model_fields)


HEADER = re.compile(r"^\s*(\[\[?)\s*([\w.\"'-]+)\s*\]\]?")
KEY = re.compile(r"^\s*([\w\"'-]+)\s*=")


def line_numbers(text: str) -> dict[tuple[Any, ...], int]:
    """The line of every table and key of a TOML text, by its place: ("method", 1, "algorithm") -> 12."""
    lines: dict[tuple[Any, ...], int] = {}
    counts: dict[str, int] = {}
    table: tuple[Any, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := HEADER.match(line):
            name = header[2].strip("\"'")
            table = (name,)
            if header[1] == "[[":
                table = (name, counts.get(name, 0))
                counts[name] = counts.get(name, 0) + 1
            lines.setdefault(table, number)
            lines.setdefault((name,), number)
        elif key := KEY.match(line):
            lines.setdefault((*table, key[1].strip("\"'")), number)
    return lines


def _line_of(place: tuple[Any, ...], lines: Mapping[tuple[Any, ...], int]) -> str:
    for length in range(len(place), 0, -1):
        if place[:length] in lines:
            return f", line {lines[place[:length]]}"
    return ""


# Writing -----------------------------------------------------------------------------------------


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _assignments(table: Mapping[str, Any]) -> list[str]:
    # JSON's strings, numbers, booleans and lists are TOML's, too
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in table.items() if value not in ("", [])]
