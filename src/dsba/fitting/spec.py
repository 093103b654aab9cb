"""What a fit may be told, said once: ``dsba.fit``, the commands and the study file have their options from here.

An option is one field of ``FitSpec``: its name, its default, its check with the sentence of a refusal, and its help.
"""

# ruff: noqa: RUF009 (``option`` gives a field)

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dsba._system.docstrings import add_parameters
from dsba.algorithms import Algorithm
from dsba.errors import InputError, as_integer, as_number, require_known, shortened
from dsba.fitting.disclosure import Guards
from dsba.graph.topology import Topology
from dsba.operators import Operator
from dsba.operators.penalties import Penalty
from dsba.types import Level

MISSING_POLICIES = ("error", "drop", "mean", "indicator")
RARE_POLICIES = ("error", "merge")
CLASSICAL = "classical"
COVARIANCES = (CLASSICAL, "HC0", "HC1", "HC2", "HC3", "site", "cluster")
PRECISION, FREQUENCY, SAMPLING = WEIGHT_KINDS = ("precision", "frequency", "sampling")
STRATA, TIES = ("", "site", "none"), ("efron", "breslow")
FOR_TABLES, FOR_ARRAYS = "tables", "arrays"
Levels = Mapping[str, Sequence[Level]]
Check = Callable[[str, Any], Any]


class Option(NamedTuple):
    """What there is to know of an option beside its name, its type and its default."""

    help: str
    check: Check
    data: str | None = None
    """``FOR_TABLES`` or ``FOR_ARRAYS`` (and LIBSVM files) if the option is for these only."""
    usual: tuple[Any, Any] = (None, None)
    """What None stands for, with arrays and with tables."""
    shown: str = ""
    """The first of these as the help shows it, where it is no number."""

    def sentence(self, tables_only: bool = False) -> str:
        """The help, and the default where it depends on the data."""
        arrays, tables = self.usual
        if tables is None:
            return f"{self.help}."
        others = f"{self.shown or f'{arrays:g}'} by default, {tables:g} for tables"
        return f"{self.help}; {f'{tables:g} by default' if tables_only else others}."


def option(default: Any, *about: Any, **more: Any) -> Any:
    """A field of the specification; ``about`` are the fields of ``Option``."""
    return field(default=default, metadata={"option": Option(*about, **more)})


table_option = partial(option, data=FOR_TABLES)


# Checks ------------------------------------------------------------------------------------------


def _any(name: str, value: Any) -> Any:
    return value


def _is(kind: Any, called: str) -> Check:
    def check(name: str, value: Any) -> Any:
        if value is not None and not isinstance(value, kind):
            raise InputError(f"{name} must be {called}, got {shortened(repr(value))}.")
        return value

    return check


_text, _flag = _is(str, "a text"), _is(bool, "True or False")
_seed: Check = partial(as_integer, at_least=0)


def _one_of(known: Sequence[str]) -> Check:
    def check(name: str, value: Any) -> Any:
        require_known(name.replace("_", " "), value, known)
        return value

    return check


def _number(name: str, value: Any) -> float | None:
    return None if value is None else as_number(name, value, at_least=0.0)


def _finite(name: str, value: Any) -> float | None:
    number = _number(name, value)
    if number is not None and not math.isfinite(number):
        raise InputError(f"{name} must be a finite number, got {value!r}.")
    return number


def _share(name: str, value: Any) -> float:
    if not 0.0 <= as_number(name, value) < 1.0:
        raise InputError(f"the held-out share must be at least 0 and below 1, got {value!r}.")
    return float(value)


def _names(name: str, value: Any) -> tuple[str, ...] | None:
    _is((list, tuple), "a list of column names")(name, value)
    return None if value is None else tuple(map(str, value))


def _level(name: str, level: Any) -> Any:
    """A level that NumPy gave as a value of JSON's types."""
    return level.item() if isinstance(level, np.generic) else level


def _levels(name: str, levels: Any) -> Levels:
    """Levels by column, as tuples of plain values."""
    levels = {} if levels is None else levels
    lists = list(levels.values()) if isinstance(levels, Mapping) else [None]
    if any(isinstance(one, str) or not isinstance(one, Iterable) for one in lists):
        raise InputError("levels must be given as a list for each column, such as {'sex': ['F', 'M']}.")
    return {str(column): tuple(_level(name, level) for level in one) for column, one in levels.items()}


def _random(name: str, value: Any) -> str | None:
    return None if value is None else _one_of(("site",))(name, value)


def _strata(name: str, value: Any) -> str:
    """None is a choice here: one baseline hazard for all sites."""
    return _one_of(STRATA)(name, "none" if value is None else value)


def _grid(name: str, value: Any) -> tuple[float, ...] | None:
    _is((list, tuple), "a list of rising times")(name, value)
    ends = None if value is None else tuple(as_number(name, end) for end in value)
    if ends is not None and (not ends or ends[0] <= 0.0 or any(b <= a for a, b in pairwise(ends))):
        raise InputError(f"{name} must be rising times above 0, got {shortened(repr(value))}.")
    return ends


def _guards(name: str, value: Any) -> Guards:
    _is((Guards, Mapping), "given as numbers by name, such as {'sites': 2}")(name, value)
    return value if isinstance(value, Guards) else Guards.given(value)


# The specification -------------------------------------------------------------------------------


@dataclass(frozen=True)
class FitSpec:
    """Everything about a fit except the data. All processes must have the same, but for the guards of each site.

    With a formula or a target the data are tables with column names, else arrays or LIBSVM files. scikit-learn's alpha
    and C only give ``lam``.
    """

    formula: str | None = table_option(None, 'The model, such as "outcome ~ age + C(sex) + log(crp)"', _text)
    target: str | None = table_option(None, "The outcome, instead of a formula", _text)
    features: tuple[str, ...] | None = table_option(None, "The columns that explain the target", _names)
    all_features: bool = table_option(False, "All columns but the target", _flag)
    missing: str = table_option("error", "Missing values: error, drop, mean or indicator", _one_of(MISSING_POLICIES))
    cov: str = table_option(CLASSICAL, f"Standard errors: {', '.join(COVARIANCES)}", _one_of(COVARIANCES))
    clusters: str | None = table_option(None, "The column of clusters within sites, for cov = cluster", _text)
    rare_levels: str = table_option(
        "error", "Levels with fewer than 3 pooled rows: error or merge", _one_of(RARE_POLICIES)
    )
    weights: str | None = table_option(None, "The column of weights; rows of weight 0 are left out", _text)
    weight_kind: str = table_option(
        PRECISION,
        "What weights are: precision (rows count once), frequency (a row stands for so many) or sampling (robust cov)",
        _one_of(WEIGHT_KINDS),
    )
    offset: str | None = table_option(None, "A column to add to the scores", _text)
    exposure: str | None = table_option(None, "A column whose logarithm is an offset", _text)
    test_share: float = table_option(0.0, "The share of each site's rows (or of each class) to hold out", _share)
    event: Level | None = table_option(
        None, "Which of two labels is modelled; the second in sorted order if not given", _level
    )
    levels: Levels = table_option(
        None, "All levels of a column in order, the first is the reference; sorted if not given", _levels
    )
    random: str | None = table_option(None, "Linear: site gives every site a random intercept", _random)
    strata: str | None = table_option(
        "", "Cox: site (each site has its own baseline hazard) or none (all have one)", _strata
    )
    ties: str = table_option("efron", "Cox: how tied times count, efron or breslow", _one_of(TIES))
    grid: tuple[float, ...] | None = table_option(None, "Cox: the times to which others are rounded up", _grid)
    guards: Guards = table_option(Guards(), "The disclosure guards of a site", _guards)
    operator: str | Operator = option(
        "logistic", "The model: logistic, linear, poisson, cox, ..., or mine.py:Class", _any
    )
    lam: float | None = option(None, "The penalty", _finite, usual=(None, 0.0), shown="1/(10 Q)")
    intercept: bool = option(True, "Fit an intercept, which is not regularised", _flag, FOR_ARRAYS)
    normalize: bool = option(False, "Scale every row to norm 1", _flag, FOR_ARRAYS)
    graph: Any = option("random", "Who talks to whom: random, random:0.4, ring, ..., or an edge list", _any)
    mixing: str = option("laplacian", "Weights of the graph: laplacian or metropolis", _any)
    algorithm: str | Algorithm = option("auto", "The method: auto, newton, dsba, dsa, ..., or mine.py:Class", _any)
    communication: str | None = option(None, "What dsba and dsa send: dense, compressed, sparse or cached", _any)
    step_size: float | str = option("auto", "A number, or a rule's name", _any)
    max_passes: float = option(None, "Passes over the data, at most", _number, usual=(1000.0, 100.0))
    tol: float = option(None, "Stop at this relative residual", _number, usual=(1e-4, 1e-12))
    seed: int = option(0, "For drawing samples, held-out rows and a random graph", _seed)
    penalty: Penalty | None = option(None, "A penalty of the coefficients beyond lambda", _any, FOR_ARRAYS)

    def __post_init__(self) -> None:
        for name, about in OPTIONS.items():
            value = getattr(self, name)
            value = about.usual[self.of_tables] if value is None else value
            object.__setattr__(self, name, about.check(name, value))
        if self.of_tables:
            self._require_one_model()
        elif odd := self.given(FOR_TABLES):
            raise InputError(f"{odd[0]} is for tables: give a formula or a target as well.")

    def given(self, data: str) -> list[str]:
        """The options for one kind of data that are not at their defaults."""
        own = [one for one in fields(self) if OPTIONS[one.name].data == data]
        return [one.name for one in own if getattr(self, one.name) != OPTIONS[one.name].check(one.name, one.default)]

    def _require_one_model(self) -> None:
        if self.weights is None and self.weight_kind != PRECISION:
            raise InputError(f"weight_kind = {self.weight_kind} belongs to a column of weights: give weights as well.")
        if self.weight_kind == SAMPLING and self.cov == CLASSICAL:
            robust = ", ".join(name for name in COVARIANCES if name != CLASSICAL)
            raise InputError(f"sampling weights ask for robust standard errors: give cov as one of {robust}.")
        if (self.cov == "cluster") != (self.clusters is not None):
            raise InputError("cov = cluster and a column of clusters belong together: give both or neither.")
        if self.formula is not None:
            if self.target is not None or self.features is not None or self.all_features:
                raise InputError("give either a formula, or a target with features or all_features.")
        elif (self.features is None) == (not self.all_features):
            raise InputError("with a target give either features or all_features.")

    @property
    def weighting(self) -> str:
        """The column of weights and what they are, for people; nothing without weights."""
        return "" if self.weights is None else f"{self.weight_kind} weights {self.weights}"

    @property
    def weighting_counts(self) -> bool:
        """Whether weighted sums over rows are numbers of rows."""
        return self.weights is None or self.weight_kind == FREQUENCY

    @property
    def of_tables(self) -> bool:
        return self.formula is not None or self.target is not None

    def topology(self, n_nodes: int) -> Topology:
        """The graph that was asked for, with its mixing matrix."""
        return Topology.of(self.graph, n_nodes, seed=self.seed, mixing=self.mixing)

    def alike(self) -> dict[str, Any]:
        """What all processes must have alike. A network compares graphs itself, and guards are a site's own."""
        return {name: plain_of(getattr(self, name)) for name in OPTIONS if name not in ("graph", "mixing", "guards")}


def plain_of(value: Any) -> Any:
    """The value of an option in JSON's types; an object stands there as its ``repr``."""
    value = list(value) if isinstance(value, tuple) else value
    return value if isinstance(value, str | int | float | dict | list | None) else repr(value)


OPTIONS: dict[str, Option] = {one.name: one.metadata["option"] for one in fields(FitSpec)}


def describe_options(function: Callable[..., Any], names: Iterable[str]) -> None:
    """Show these options as keywords in the function's signature and docstring, in place of ``**options``."""
    known = inspect.signature(function)
    own = [one for one in known.parameters.values() if one.kind is not one.VAR_KEYWORD]
    more = [one for one in fields(FitSpec) if one.name in names and one.name not in known.parameters]
    keywords = [
        inspect.Parameter(o.name, inspect.Parameter.KEYWORD_ONLY, default=o.default, annotation=o.type) for o in more
    ]
    function.__signature__ = known.replace(parameters=[*own, *keywords])  # type: ignore[attr-defined]
    types = {one.name: str(one.type).replace(" | ", " or ") for one in fields(FitSpec)}
    entries = {name: f"{name} : {types[name]}\n    {OPTIONS[name].sentence(tables_only=True)}" for name in names}
    add_parameters(function, entries)
