"""What sites agree on before anything is learned: columns, types, levels, labels, missing values.

Sites ask each other only through the group. Of each site everybody is told its name, its rows, the types and missing
counts of the model's columns, and which levels and labels occur. Counts per level and sums of columns are told pooled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from dsba.errors import InputError, as_number, unknown_name
from dsba.fitting.formula import Formula, parse
from dsba.fitting.guards import Guards
from dsba.network import Group, require_agreement

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[np.float64]
Level = str | int | float | bool

SITE = "site"  # every formula may name it, as a factor
MISSING = ("error", "drop", "mean", "indicator")
RARE = ("error", "merge")
MOST_LEVELS = 50  # a text column with more is an identifier, which must never travel
MISSING_LEVEL, MERGED_LEVEL = "(missing)", "(other)"


class Site(NamedTuple):
    """The rows of one node."""

    name: str
    frame: pd.DataFrame


@dataclass(frozen=True)
class Wishes:
    """What the model is to make of the tables. All processes must have the same wishes."""

    formula: Formula
    labels: str = "real"
    """What the operator takes: "real", "count", "binary" or "multiclass"."""
    missing: str = "error"
    rare: str = "error"
    weights: str | None = None
    offset: str | None = None
    exposure: str | None = None
    """A column whose logarithm is an offset."""
    test_share: float = 0.0
    """The share of each site's rows that is held out."""

    def __post_init__(self) -> None:
        if not 0.0 <= as_number("test_share", self.test_share) < 1.0:
            raise InputError(f"the held-out share must be at least 0 and below 1, got {self.test_share!r}.")
        for kind, name, known in (("missing", self.missing, MISSING), ("rare levels", self.rare, RARE)):
            if name not in known:
                raise unknown_name(kind, name, known)

    @property
    def extras(self) -> tuple[str, ...]:
        """Columns that are not in the formula. They must be numbers without gaps."""
        return tuple(name for name in (self.weights, self.offset, self.exposure) if name is not None)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column of the tables that is read."""
        names = (*self.formula.response, *self.formula.columns, *self.extras)
        return tuple(dict.fromkeys(names))

    def facts(self) -> dict[str, Any]:
        return {**vars(self), "formula": str(self.formula)}


@dataclass(frozen=True)
class Part:
    """What a site tells of itself."""

    site: str
    rows: NonNegativeInt
    kinds: dict[str, str]
    missing: dict[str, NonNegativeInt]
    guards: Guards = field(default_factory=Guards)
    """The guards of the site."""


@dataclass(frozen=True)
class Schema:
    """What the sites agreed on. It is all that is needed to turn any table into the columns of the model."""

    wishes: Wishes
    parts: tuple[Part, ...]
    levels: dict[str, tuple[Level, ...]]
    """The levels of every factor, sorted; the first is the reference level."""
    merged: dict[str, tuple[Level, ...]]
    """Levels that became ``MERGED_LEVEL``."""
    classes: tuple[Level, ...] | None
    """The labels of a classification, sorted; of two, the second is the event."""
    means: dict[str, float]
    """Pooled means of the number columns with missing values, where they are filled in."""
    told: tuple[str, ...] = field(default=())
    """The sentences of guards that did not end the fit."""

    def facts(self) -> dict[str, Any]:
        """In JSON's types, for the file of a model."""
        return {**TypeAdapter(Schema).dump_python(self, mode="json"), "wishes": self.wishes.facts()}

    @classmethod
    def from_facts(cls, facts: Any) -> Schema:
        """What ``facts`` gave. The formula is parsed again: nothing but a formula is ever evaluated."""
        try:
            wishes = Wishes(**{**facts["wishes"], "formula": parse(facts["wishes"]["formula"])})
            return TypeAdapter(Schema).validate_python({**facts, "wishes": wishes})
        except (ValidationError, KeyError, TypeError):
            raise InputError("the schema of the model is damaged: a part is missing or of another type.") from None

    @property
    def indicators(self) -> tuple[str, ...]:
        """The number columns that get a column of their own for missing values."""
        return tuple(self.means) if self.wishes.missing == "indicator" else ()


def agree(sites: Sequence[Site], wishes: Wishes, group: Group, guards: Guards | None = None) -> Schema:
    """Agree with all processes on a schema, or end at all of them with one sentence."""
    guards = guards or Guards()
    require_agreement(group, wishes.facts())
    parts = _parts(sites, wishes, group, guards)
    names = [part.site for part in parts]
    if len(set(names)) < len(names):
        raise InputError(f"two sites have the same name {next(n for n in names if names.count(n) > 1)!r}.")
    kinds = _agreed_kinds(parts, wishes)
    _check_missing(parts, wishes, kinds)
    usable = [Site(site.name, usable_rows(site.frame, wishes)) for site in sites]
    told = speak(
        group, [guards.too_few_sites(len(parts)), *(guards.too_few_rows(s.name, len(s.frame)) for s in usable)]
    )
    labels, found = _shared_levels(usable, wishes, kinds, group)
    if any(len(levels) != len(parts) for levels in (*found.values(), *([labels] if labels else []))):
        raise InputError("the sites told levels for another number of tables than they have.")
    classes = _agreed_labels(labels, parts, wishes)
    levels, merged, rare = _agreed_levels(usable, parts, wishes, found, group, guards)
    means = _pooled_means(usable, parts, wishes, kinds, group)
    return Schema(wishes, parts, levels, merged, classes, means, (*told, *speak(group, rare)))


def speak(group: Group, sentences: Sequence[str | None]) -> tuple[str, ...]:
    """A guard of any process ends the fit at all of them. In one process its sentence is only told."""
    everyone = shared(group, [sentence for sentence in sentences if sentence], list[str])
    spoken = tuple(dict.fromkeys(sentence for said in everyone for sentence in said))
    if spoken and group.size > 1:
        raise InputError(spoken[0])
    return spoken


def shared(group: Group, own: Any, kind: Any) -> list[Any]:
    """Every process's value. What others sent is read like a file: it must be of the kind that is wanted."""
    try:
        return TypeAdapter(list[kind]).validate_python(group.share(own))
    except ValidationError as error:
        raise _other_form(error.errors(include_input=False, include_url=False)[0]["loc"][0]) from None


def _other_form(rank: Any) -> InputError:
    return InputError(f"rank {rank} sent an answer of another form than was asked for.")


def share_unless(group: Group, complaint: str | None, own: Any, kind: Any) -> list[Any]:
    """Every process's value; an error at all processes if one of them has a complaint."""
    answers = shared(group, (complaint, None if complaint else own), tuple[str, None] | tuple[None, kind])
    for sentence, _ in answers:
        if sentence is not None:
            raise InputError(sentence)
    return [value for _, value in answers]


def end_together(group: Group, complaint: str | None) -> None:
    """An error at all processes if one of them has a complaint."""
    share_unless(group, complaint, None, None)


# Columns and types -------------------------------------------------------------------------------


def _parts(sites: Sequence[Site], wishes: Wishes, group: Group, guards: Guards) -> tuple[Part, ...]:
    own = []
    for name, frame in sites:
        held = [column for column in wishes.columns if column in frame.columns]
        kinds = {column: kind_of(frame[column]) for column in held}
        missing = {column: int(frame[column].isna().sum()) for column in held}
        own.append(asdict(Part(name, len(frame), kinds, missing, guards)))
    complaint = absent_column({name: list(map(str, frame.columns)) for name, frame in sites}, wishes)
    return tuple(part for parts in share_unless(group, complaint, own, list[Part]) for part in parts)


def absent_column(headers: Mapping[str, Sequence[str]], wishes: Wishes) -> str | None:
    """A sentence about a column that a site does not have; ``headers`` are the columns of each site."""
    for site, names in headers.items():
        for column in wishes.columns:
            if column not in names and column != SITE:
                close = get_close_matches(column, names, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else "."
                return f"{site} has no column {column!r}{hint}"
    return None


def kind_of(series: pd.Series) -> str:
    """What a column holds: "number", "text", "truth", "date", or "empty" where every value is missing."""
    import pandas as pd

    if series.isna().all():
        return "empty"
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.dropna().astype(series.cat.categories.dtype)
    if pd.api.types.is_bool_dtype(series.dtype):
        return "truth"
    if pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_complex_dtype(series.dtype):
        return "number"
    if pd.api.types.is_datetime64_any_dtype(series.dtype) or pd.api.types.is_timedelta64_dtype(series.dtype):
        return "date"
    values = set(map(type, series.dropna()))
    if values == {bool}:
        return "truth"
    return "text" if values == {str} else "mixed"


def _agreed_kinds(parts: Sequence[Part], wishes: Wishes) -> dict[str, str]:
    """One type per column; a site that differs from most others is named."""
    agreed = {}
    for column in wishes.columns:
        found = {part.site: part.kinds[column] for part in parts if part.kinds.get(column, "empty") != "empty"}
        if not found:
            if column == SITE:
                continue
            raise InputError(f"the column {column!r} is empty at every site.")
        usual = max(sorted(set(found.values())), key=list(found.values()).count)
        agreed[column] = usual
        if odd := [site for site, kind in found.items() if kind != usual]:
            here = _called(found[odd[0]])
            raise InputError(f"the column {column!r} is {here} at {odd[0]} and {_called(usual)} elsewhere.")
        if agreed[column] in ("date", "mixed"):
            raise InputError(f"the column {column!r} is {_called(agreed[column])}; wanted numbers or text.")
    for column in (*wishes.formula.numbers, *wishes.extras):
        if agreed.get(column) == "text":
            raise InputError(f"the column {column!r} is text, and the model needs it as a number.")
    return agreed


def _called(kind: str) -> str:
    return {"number": "a number", "text": "text", "truth": "true or false", "date": "a date"}.get(kind, "a mixture")


def is_factor(column: str, wishes: Wishes, kinds: Mapping[str, str]) -> bool:
    """Whether the right side of the formula has the column as a factor."""
    if column == SITE and column not in kinds:
        return True
    return column in wishes.formula.factors or kinds[column] == "text"


# Missing values ----------------------------------------------------------------------------------


def _check_missing(parts: Sequence[Part], wishes: Wishes, kinds: Mapping[str, str]) -> None:
    for part in parts:
        for column, count in part.missing.items():
            if not count:
                continue
            where = f"the column {column!r} has {count} missing values at {part.site}"
            if wishes.missing == "error":
                raise InputError(f"{where}: say what to do (--missing drop, mean or indicator).")
            if column in wishes.extras and wishes.missing != "drop":
                raise InputError(f"{where}: weights, offsets and exposures are never filled in (--missing drop).")
            filled = column in wishes.formula.columns and wishes.missing == "mean"
            if filled and is_factor(column, wishes, kinds):
                raise InputError(f"{where}, and a factor has no mean: use --missing drop or indicator.")


def usable_rows(frame: pd.DataFrame, wishes: Wishes) -> pd.DataFrame:
    """The rows that enter the model: with "drop" the complete ones, else those with an outcome."""
    needed = wishes.columns if wishes.missing == "drop" else wishes.formula.response
    held = [column for column in needed if column in frame.columns]
    return frame.loc[frame[held].notna().all(axis=1)] if held else frame


def _bad_numbers(sites: Sequence[Site], wishes: Wishes, kinds: Mapping[str, str]) -> str | None:
    """A sentence where numbers are not finite, or counts, weights or exposures are negative."""
    positive = {wishes.exposure: "above 0"} | {wishes.weights: "at least 0"}
    if wishes.labels == "count":
        positive |= dict.fromkeys(wishes.formula.response, "at least 0")
    for name, frame in sites:
        for column in wishes.columns:
            if kinds.get(column) != "number":
                continue
            values = frame[column].to_numpy(dtype=np.float64, na_value=np.nan)
            bad = np.isinf(values)
            bound = positive.get(column)
            if bound:
                bad |= (values <= 0) if bound == "above 0" else (values < 0)
            if bad.any():
                wanted = f"finite numbers {bound}" if bound else "finite numbers"
                return f"the column {column!r} at {name} must have {wanted}, and {bad.sum()} are not."
    return None


# Labels and levels -------------------------------------------------------------------------------


def plain(values: pd.Series) -> list[Level]:
    """The different values of a column, without missing ones; whole numbers as integers."""
    found = {plain_value(value) for value in values.dropna().unique().tolist()}
    return sorted(found, key=lambda level: (isinstance(level, str), level))


def plain_value(value: Any) -> Level:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _shared_levels(
    sites: Sequence[Site], wishes: Wishes, kinds: Mapping[str, str], group: Group
) -> tuple[list[list[Level]], dict[str, list[list[Level]]]]:
    """At every site, the labels of a classification and the levels of the factors.

    A column that looks like an identifier is refused before anybody tells anything of it.
    """
    columns = [c for c in wishes.formula.columns if is_factor(c, wishes, kinds) and (c in kinds or c != SITE)]
    labels = list(wishes.formula.response) if wishes.labels in ("binary", "multiclass") else []
    own = {column: [plain(frame[column]) for _, frame in sites] for column in (*labels, *columns)}
    many = (
        f"the outcome {column!r} has more than {MOST_LEVELS} different values at {site.name}."
        if column in labels
        else f"the column {column!r} has more than {MOST_LEVELS} levels at {site.name}: it looks like an identifier."
        for column, found in own.items()
        for site, levels in zip(sites, found, strict=True)
        if len(levels) > MOST_LEVELS
    )
    end_together(group, _bad_numbers(sites, wishes, kinds) or next(many, None))
    if not own:
        return [], {}
    everyone = shared(group, own, dict[str, list[list[Level]]])
    for rank, theirs in enumerate(everyone):
        if set(theirs) != set(own):
            raise _other_form(rank)
    joined = {column: [levels for process in everyone for levels in process[column]] for column in own}
    return joined.pop(labels[0]) if labels else [], joined


def _agreed_labels(
    everyone: Sequence[Sequence[Level]], parts: Sequence[Part], wishes: Wishes
) -> tuple[Level, ...] | None:
    if wishes.labels not in ("binary", "multiclass"):
        return None
    (column,) = wishes.formula.response
    classes = _union(everyone, column, parts)
    if wishes.labels == "binary" and len(classes) != 2:
        codings = {", ".join(map(str, found)): part.site for found, part in zip(everyone, parts, strict=True)}
        told = "; ".join(f"{coding} at {site}" for coding, site in codings.items())
        raise InputError(f"the outcome {column!r} must have two values, the same at all sites, and has {told}.")
    if len(classes) < 2:
        raise InputError(f"the outcome {column!r} has one value only at all sites.")
    return classes


def _union(found: Sequence[Sequence[Level]], column: str, parts: Sequence[Part]) -> tuple[Level, ...]:
    """All levels, sorted; an error if they are text at one site and numbers at another."""
    text = {isinstance(level, str): part.site for levels, part in zip(found, parts, strict=True) for level in levels}
    if len(text) > 1:
        raise InputError(f"the column {column!r} has text at {text[True]} and numbers at {text[False]}.")
    return tuple(sorted({level for levels in found for level in levels}))


def _agreed_levels(
    sites: Sequence[Site],
    parts: Sequence[Part],
    wishes: Wishes,
    found: Mapping[str, Sequence[Sequence[Level]]],
    group: Group,
    guards: Guards,
) -> tuple[dict[str, tuple[Level, ...]], dict[str, tuple[Level, ...]], list[str | None]]:
    """The levels of every factor, those merged, and what the guard says of rare ones."""
    unions = {column: _union(levels, column, parts) for column, levels in found.items()}
    pooled = _pooled_counts(sites, unions, group)
    levels: dict[str, tuple[Level, ...]] = {}
    merged: dict[str, tuple[Level, ...]] = {}
    said: list[str | None] = []
    for column, all_levels in unions.items():
        counts = pooled[column]
        kept, rare = _kept(all_levels, counts, guards.rows_per_level)
        if rare and wishes.rare == "merge":
            merged[column], all_levels = rare, (*kept, MERGED_LEVEL)
        else:
            said.append(guards.rare_level(column, int((counts < guards.rows_per_level).sum())))
        gaps = any(part.missing.get(column) for part in parts)
        levels[column] = (*all_levels, MISSING_LEVEL) if gaps and wishes.missing == "indicator" else all_levels
        if len(levels[column]) < 2:
            raise InputError(f"the column {column!r} has one level only at all sites.")
    if SITE in wishes.formula.columns and SITE not in found:
        levels[SITE] = tuple(sorted(part.site for part in parts))
    return levels, merged, said


def _pooled_counts(sites: Sequence[Site], levels: Mapping[str, Sequence[Level]], group: Group) -> dict[str, Array]:
    """For every factor, the number of rows of all sites with each level; one sum for all factors."""
    if not levels:
        return {}
    own = [[_count(frame[column], level) for column in levels for level in levels[column]] for _, frame in sites]
    ends = np.cumsum([len(known) for known in levels.values()])
    return dict(zip(levels, np.split(group.sum(np.array(own)), ends[:-1]), strict=True))


def _count(values: pd.Series, level: Level) -> float:
    return float((values == level).sum())


def _kept(levels: tuple[Level, ...], counts: Array, fewest: int) -> tuple[tuple[Level, ...], tuple[Level, ...]]:
    """The levels with enough pooled rows, and the rest. If the rest has too few, the next rarest level joins it."""
    order = np.argsort(counts, kind="stable")
    n_rare = int((counts < fewest).sum())
    while 0 < n_rare < len(levels) and counts[order[:n_rare]].sum() < fewest:
        n_rare += 1
    rare = {levels[i] for i in order[:n_rare]}
    return tuple(v for v in levels if v not in rare), tuple(v for v in levels if v in rare)


def _pooled_means(
    sites: Sequence[Site], parts: Sequence[Part], wishes: Wishes, kinds: Mapping[str, str], group: Group
) -> dict[str, float]:
    """The means of the number columns that have missing values anywhere, over all sites' known values."""
    if wishes.missing not in ("mean", "indicator"):
        return {}
    numbers = [c for c in wishes.formula.columns if c in kinds and not is_factor(c, wishes, kinds)]
    gaps = [column for column in numbers if any(part.missing[column] for part in parts)]
    if not gaps:
        return {}
    sums = [[float(frame[column].sum()) for column in gaps] for _, frame in sites]
    known = [[float(frame[column].notna().sum()) for column in gaps] for _, frame in sites]
    totals, counts = np.split(group.sum(np.hstack([sums, known])), 2)
    return {column: float(total / count) for column, total, count in zip(gaps, totals, counts, strict=True)}
