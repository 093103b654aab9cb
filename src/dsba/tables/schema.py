"""What sites agree on before anything is learned: columns, types, levels, labels, missing values.

Sites ask each other only through the group. Of each site everybody is told its name, its guards, and the levels and
labels that may occur there: those that were listed for all sites, or, without such a list, those that do occur.
Everything else is a sum over all sites: rows, missing values, types of columns, rows of each level, sums of columns.
A site that does not fit the others finds it out by itself, and says so without a number of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter, ValidationError

from dsba.errors import InputError, noted
from dsba.fitting.disclosure import Guards
from dsba.fitting.model import Schema, SitePart
from dsba.network import Group, counted, require_agreement, summed
from dsba.network.contract import TOTALS, other_form
from dsba.tables.terms import SITE, ModelTerms, SiteTable, absent_column
from dsba.types import Level

if TYPE_CHECKING:
    import pandas as pd


MOST_LEVELS = 50  # a text column with more is an identifier, which must never travel
MISSING_LEVEL, MERGED_LEVEL = "(missing)", "(other)"
COLUMN_KINDS = ("date", "mixed", "number", "text", "truth")  # of columns that are not empty
TRUTH = {"false": False, "true": True}


class Held(NamedTuple):
    """What a site knows of its own table. Others learn sums of it only."""

    site: str
    rows: int
    missing: dict[str, int]
    gaps: dict[str, int]
    """The missing values among the rows that enter the model."""
    kinds: dict[str, str]


class PooledColumns(NamedTuple):
    """The same over all sites: rows, missing values by column, and by column the number of sites with each kind."""

    rows: int
    missing: dict[str, int]
    gaps: dict[str, int]
    kinds: dict[str, dict[str, int]]


def agree(sites: Sequence[SiteTable], terms: ModelTerms, group: Group, guards: Guards | None = None) -> Schema:
    """Agree with all processes on a schema, or end at all of them with one sentence.

    Of columns whose levels are listed in ``terms`` no site tells which of them it has.
    """
    guards = guards or Guards()
    require_agreement(group, terms.spec.alike())
    parts = _parts(sites, terms, group, guards)
    usable = [SiteTable(site.name, usable_rows(site.frame, terms)) for site in sites]
    few = [guards.too_few_rows(site.name, len(site.frame)) for site in usable]
    told = speak(group, [guards.too_few_sites(len(parts)), *few])  # before any sum of the data
    held = [held_at(site, terms) for site in sites]
    pooled = _pooled(held, terms, group)
    _require_one_meaning_of_site(pooled, len(parts))
    kinds = _agreed_kinds(pooled, held, terms, group)
    _check_missing(pooled, held, terms, kinds)
    labels, factors = _levelled(terms, kinds)
    require_levelled(terms, (*labels, *factors), kinds)
    own = {column: [plain(frame[column]) for _, frame in usable] for column in (*labels, *factors)}
    complaint = _no_rows(usable) or _bad_numbers(usable, terms, kinds) or _too_many_levels(own, usable, terms)
    end_together(group, complaint or unlisted(own, [site.name for site in usable], terms, kinds))
    found = _found_levels(own, usable, terms, kinds, group)
    classes = _agreed_labels({name: found[name] for name in labels}, own, usable, terms)
    names = _ordered_sites([part.site for part in parts], terms)
    rare = {column: found[column] for column in factors}
    levels, merged, said = _agreed_levels(rare, names, pooled, terms, guards)
    means = _pooled_means(usable, pooled, terms, kinds, group)
    spoken = (*told, *speak(group, said))
    spec = replace(terms.spec, event=None, levels={}, guards=Guards())  # levels and classes have the order now
    return Schema(spec, terms.labels, parts, pooled.rows, kinds, pooled.missing, levels, merged, classes, means, spoken)


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
        return TypeAdapter(list[kind]).validate_python(group.share(own, discloses=TOTALS))
    except ValidationError as error:
        raise other_form(error.errors(include_input=False, include_url=False)[0]["loc"][0]) from None


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


def _parts(sites: Sequence[SiteTable], terms: ModelTerms, group: Group, guards: Guards) -> tuple[SitePart, ...]:
    own = [asdict(SitePart(site.name, guards)) for site in sites]
    complaint = absent_column({name: list(map(str, frame.columns)) for name, frame in sites}, terms)
    parts = tuple(part for parts in share_unless(group, complaint, own, list[SitePart]) for part in parts)
    names = [part.site for part in parts]
    if len(set(names)) < len(names):
        raise InputError(f"two sites have the same name {next(n for n in names if names.count(n) > 1)!r}.")
    return parts


def held_at(site: SiteTable, terms: ModelTerms) -> Held:
    """The rows, missing values and types of the model's columns at a site."""
    columns = [column for column in terms.columns if column in site.frame.columns]
    usable = usable_rows(site.frame, terms)
    missing, gaps = ({column: int(rows[column].isna().sum()) for column in columns} for rows in (site.frame, usable))
    return Held(site.name, len(site.frame), missing, gaps, {column: kind_of(site.frame[column]) for column in columns})


def _pooled(held: Sequence[Held], terms: ModelTerms, group: Group) -> PooledColumns:
    """One sum over all sites."""
    columns = terms.columns

    def row(one: Held) -> list[float]:
        kinds = [one.kinds.get(column) == kind for column in columns for kind in COLUMN_KINDS]
        empty = [part.get(column, 0) for part in (one.missing, one.gaps) for column in columns]
        return [one.rows, *empty, *kinds]

    rows, *counts = counted(group, np.array([row(one) for one in held], dtype=np.float64))
    p = len(columns)
    sites = np.array(counts[2 * p :]).reshape(p, len(COLUMN_KINDS)).tolist()
    kinds = {column: dict(zip(COLUMN_KINDS, row, strict=True)) for column, row in zip(columns, sites, strict=True)}
    missing, gaps = (dict(zip(columns, part, strict=True)) for part in (counts[:p], counts[p : 2 * p]))
    return PooledColumns(rows, missing, gaps, kinds)


def _require_one_meaning_of_site(pooled: PooledColumns, sites: int) -> None:
    """An error if some tables have a column with the name that stands for the sites, and others have none."""
    if 0 < sum(pooled.kinds.get(SITE, {}).values()) < sites:
        raise InputError(
            f"some tables have a column {SITE!r} of their own and some have none: rename it, or give it to all."
        )


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


def _agreed_kinds(pooled: PooledColumns, held: Sequence[Held], terms: ModelTerms, group: Group) -> dict[str, str]:
    """One type per column; a site that differs from most others names itself."""
    agreed = {}
    for column in terms.columns:
        sites = pooled.kinds[column]
        if not any(sites.values()):
            if column == SITE:
                continue
            raise InputError(f"the column {column!r} is empty at every site.")
        usual = agreed[column] = max(COLUMN_KINDS, key=lambda kind: sites[kind])
        if sum(count > 0 for count in sites.values()) > 1:
            end_together(group, _odd_kind(column, usual, held))
            raise InputError(f"the column {column!r} is not of one type at all sites.")
        if usual in ("date", "mixed"):
            raise InputError(f"the column {column!r} is {_called(usual)}; wanted numbers or text.")
    outcomes = () if terms.of_classes else terms.formula.response
    for column in (*outcomes, *terms.formula.numbers, *terms.extras):
        if agreed.get(column) == "text":
            raise InputError(f"the column {column!r} is text, and the model needs it as a number.")
    return agreed


def _odd_kind(column: str, usual: str, held: Sequence[Held]) -> str | None:
    """A sentence about a site here that has another type of column than most sites."""
    for site in held:
        if (kind := site.kinds.get(column, "empty")) not in (usual, "empty"):
            return f"the column {column!r} is {_called(kind)} at {site.site} and {_called(usual)} elsewhere."
    return None


def _called(kind: str) -> str:
    return {"number": "a number", "text": "text", "truth": "true or false", "date": "a date"}.get(kind, "a mixture")


def is_factor(column: str, terms: ModelTerms, kinds: Mapping[str, str]) -> bool:
    """Whether the right side of the formula has the column as a factor."""
    if column == SITE and column not in kinds:
        return True
    return column in terms.formula.factors or kinds[column] == "text"


# Missing values ----------------------------------------------------------------------------------


def _check_missing(pooled: PooledColumns, held: Sequence[Held], terms: ModelTerms, kinds: Mapping[str, str]) -> None:
    """An error where missing values are not wanted, with their number over all sites; a note has those here."""
    for column, count in pooled.missing.items():
        if not count:
            continue
        where = f"the column {column!r} has {count} missing values over all sites"
        own = [f"{site.missing[column]} at {site.site}" for site in held if site.missing.get(column)]
        if terms.spec.missing == "error":
            raise noted(InputError(f"{where}: say what to do, with missing = drop, mean or indicator."), own)
        if column in terms.extras and terms.spec.missing != "drop":
            sentence = f"{where}: weights, offsets and exposures are never filled in: use missing = drop."
            raise noted(InputError(sentence), own)
        filled = column in terms.formula.columns and terms.spec.missing == "mean"
        if filled and is_factor(column, terms, kinds):
            raise noted(InputError(f"{where}, and a factor has no mean: use missing = drop or indicator."), own)


def usable_rows(frame: pd.DataFrame, terms: ModelTerms) -> pd.DataFrame:
    """The rows that enter the model: with "drop" the complete ones, else those with an outcome; none of weight 0."""
    needed = terms.columns if terms.spec.missing == "drop" else terms.formula.response
    held = [column for column in needed if column in frame.columns]
    used = frame.loc[frame[held].notna().all(axis=1)] if held else frame
    return used.loc[used[terms.spec.weights].ne(0)] if terms.spec.weights in used.columns else used


def _no_rows(usable: Sequence[SiteTable]) -> str | None:
    """A sentence about a site of which no row enters the model."""
    for site in usable:
        if not len(site.frame):
            reason = "every one lacks a value or has the weight 0"
            return f"{site.name} has no row that enters the model: {reason}. Leave it out."
    return None


def _bad_numbers(sites: Sequence[SiteTable], terms: ModelTerms, kinds: Mapping[str, str]) -> str | None:
    """A sentence where numbers are not finite, or counts, weights or exposures are negative."""
    positive = {terms.spec.exposure: "above 0"} | {terms.spec.weights: "at least 0"}
    if terms.labels == "count":
        positive |= dict.fromkeys(terms.formula.response, "at least 0")
    for name, frame in sites:
        for column in terms.columns:
            if kinds.get(column) != "number":
                continue
            values = frame[column].to_numpy(dtype=np.float64, na_value=np.nan)
            bad = np.isinf(values)
            bound = positive.get(column)
            if bound:
                bad |= (values <= 0) if bound == "above 0" else (values < 0)
            if bad.any():
                wanted = f"finite numbers {bound}" if bound else "finite numbers"
                return f"the column {column!r} at {name} must have {wanted}, and some are not."
    return None


# Labels and levels -------------------------------------------------------------------------------


def plain(values: pd.Series) -> list[Level]:
    """The different values of a column, without missing ones; whole numbers as integers."""
    found = {plain_value(value) for value in values.dropna().unique().tolist()}
    return sorted(found, key=lambda level: (isinstance(level, str), level))


def plain_value(value: Any) -> Level:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _levelled(terms: ModelTerms, kinds: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The columns that have levels: the label of a classification, and the factors of the tables."""
    labels = list(terms.formula.response) if terms.of_classes else []
    return labels, [c for c in terms.formula.columns if is_factor(c, terms, kinds) and (c in kinds or c != SITE)]


def _too_many_levels(
    own: Mapping[str, Sequence[Sequence[Level]]], sites: Sequence[SiteTable], terms: ModelTerms
) -> str | None:
    """A sentence about a column with more levels than it may have at a site, before anybody is told anything of it."""
    most = 2 if terms.labels == "binary" else MOST_LEVELS
    for column, found in own.items():
        for site, levels in zip(sites, found, strict=True):
            if column in terms.formula.response and len(levels) > most:
                return (
                    f"the outcome {column!r} has more than {most} values at {site.name}: wanted at most {most} classes."
                )
            if len(levels) > MOST_LEVELS:
                return (
                    f"the column {column!r} has more than {MOST_LEVELS} levels at {site.name}: it looks like an "
                    "identifier."
                )
    return None


def _found_levels(
    own: Mapping[str, Sequence[Sequence[Level]]],
    sites: Sequence[SiteTable],
    terms: ModelTerms,
    kinds: Mapping[str, str],
    group: Group,
) -> dict[str, dict[Level, int]]:
    """The levels that occur at any site, in order, with their numbers of rows: one sum over all that may occur."""
    if not own:
        return {}
    asked = {column: _union(found, column) for column, found in own.items() if column not in terms.spec.levels}
    everyone = shared(group, asked, dict[str, list[Level]])
    for rank, theirs in enumerate(everyone):
        if set(theirs) != set(asked):
            raise other_form(rank)
    known = {
        column: in_order(column, [theirs.get(column, []) for theirs in everyone], terms, kinds[column])
        for column in own
    }
    counts = [[_count(frame[column], level) for column in known for level in known[column]] for _, frame in sites]
    total = iter(counted(group, np.array(counts).reshape(len(sites), -1)))
    pooled = {column: {level: next(total) for level in levels} for column, levels in known.items()}
    return {column: {level: n for level, n in rows.items() if n} for column, rows in pooled.items()}


def in_order(column: str, found: Sequence[Sequence[Level]], terms: ModelTerms, kind: str) -> list[Level]:
    """The levels of a column of this kind as they are listed, or all that were found, sorted; the event comes last."""
    listed = terms.spec.levels.get(column)
    levels = _union(found, column) if listed is None else list(dict.fromkeys(_of_kind(listed, kind)))
    if terms.spec.event is None or column not in terms.formula.response:
        return levels
    event = _of_kind([terms.spec.event], kind)
    if not event or event[0] not in levels:
        labels = ", ".join(map(str, levels))
        raise InputError(f"the event {terms.spec.event!r} is not a label of {column!r}; its labels are {labels}.")
    return [*(level for level in levels if level != event[0]), *event]


def _ordered_sites(names: Sequence[str], terms: ModelTerms) -> tuple[Level, ...]:
    """The names of the sites as levels."""
    if SITE in terms.spec.levels and (strangers := set(names) - {*in_order(SITE, [], terms, "text")}):
        raise InputError(f"the site {min(strangers)!r} is not among the levels of {SITE!r} that were given.")
    return tuple(level for level in in_order(SITE, [names], terms, "text") if level in names)


def require_levelled(terms: ModelTerms, levelled: Sequence[str], kinds: Mapping[str, str]) -> None:
    """An error about levels that were given for a column that has none."""
    for column in terms.spec.levels:
        if column not in terms.columns:
            raise InputError(f"levels are given for {column!r}, which is not a column of the model.")
        if column in kinds and column not in levelled:
            raise InputError(f"levels are given for {column!r}, which the model takes as a number: write C().")


def unlisted(
    own: Mapping[str, Sequence[Sequence[Level]]], sites: Sequence[str], terms: ModelTerms, kinds: Mapping[str, str]
) -> str | None:
    """A sentence about a site with levels that are not among those listed; ``own`` has each site's, by column."""
    for column in terms.spec.levels.keys() & own.keys():
        listed = {*_of_kind(terms.spec.levels[column], kinds[column])}
        for site, levels in zip(sites, own[column], strict=True):
            if not listed.issuperset(levels):
                return f"the column {column!r} has levels at {site} that are not among those given."
    return None


def _of_kind(levels: Sequence[Level], kind: str) -> list[Level]:
    """Levels as a column of this kind has them: a list may say "1" of a column of numbers."""
    if kind == "text":
        return [str(level) for level in levels]
    if kind == "truth":
        return [TRUTH[word] for level in levels if (word := str(level).lower()) in TRUTH]
    return [level if type(level) is int else plain_value(float(level)) for level in levels if _is_number(level)]


def _is_number(level: Level) -> bool:
    try:
        return math.isfinite(float(level))
    except (ValueError, OverflowError):
        return False


def _union(found: Sequence[Sequence[Level]], column: str) -> list[Level]:
    """All levels, sorted; an error if some are text and others are numbers."""
    levels = {level for levels in found for level in levels}
    if len({isinstance(level, str) for level in levels}) > 1:
        raise InputError(f"the column {column!r} has text at one site and numbers at another.")
    return sorted(levels)


def _agreed_labels(
    found: Mapping[str, Mapping[Level, int]],
    own: Mapping[str, Sequence[Sequence[Level]]],
    sites: Sequence[SiteTable],
    terms: ModelTerms,
) -> tuple[Level, ...] | None:
    if not found:
        return None
    ((column, rows),) = found.items()
    classes = tuple(rows)
    if terms.labels == "binary" and len(classes) != 2:
        told = ", ".join(map(str, classes)) or "none"
        here = [
            f"{', '.join(map(str, levels))} at {site.name}" for levels, site in zip(own[column], sites, strict=True)
        ]
        sentence = f"the outcome {column!r} must have two values, the same at all sites, and has {told}."
        raise noted(InputError(sentence), here)
    if len(classes) < 2:
        raise InputError(f"the outcome {column!r} has one value only at all sites.")
    return classes


def _agreed_levels(
    found: Mapping[str, Mapping[Level, int]],
    names: tuple[Level, ...],
    pooled: PooledColumns,
    terms: ModelTerms,
    guards: Guards,
) -> tuple[dict[str, tuple[Level, ...]], dict[str, tuple[Level, ...]], list[str | None]]:
    """The levels of every factor, those merged, and what the guard says of rare ones."""
    levels: dict[str, tuple[Level, ...]] = {}
    merged: dict[str, tuple[Level, ...]] = {}
    said: list[str | None] = []
    for column, rows in found.items():
        all_levels, counts = tuple(rows), np.array(list(rows.values()))
        kept, rare = _kept(all_levels, counts, guards.rows_per_level)
        if rare and terms.spec.rare_levels == "merge":
            merged[column], all_levels = rare, (*kept, MERGED_LEVEL)
        else:
            said.append(guards.rare_level(column, int((counts < guards.rows_per_level).sum())))
        gaps = pooled.gaps[column] > 0 and terms.spec.missing == "indicator"
        levels[column] = (*all_levels, MISSING_LEVEL) if gaps else all_levels
        if len(levels[column]) < 2:
            raise InputError(f"the column {column!r} has one level only at all sites.")
        if len({*levels[column]}) < len(levels[column]):
            own = MISSING_LEVEL if levels[column].count(MISSING_LEVEL) > 1 else MERGED_LEVEL
            raise InputError(f"the column {column!r} has a level {own!r} of its own: rename it.")
    if SITE in terms.formula.columns and SITE not in found:
        levels[SITE] = names
    return levels, merged, said


def _count(values: pd.Series, level: Level) -> float:
    return float((values == level).sum())


def _kept(
    levels: tuple[Level, ...], counts: npt.NDArray[Any], fewest: int
) -> tuple[tuple[Level, ...], tuple[Level, ...]]:
    """The levels with enough pooled rows, and the rest. If the rest has too few, the next rarest level joins it."""
    order = np.argsort(counts, kind="stable")
    n_rare = int((counts < fewest).sum())
    while 0 < n_rare < len(levels) and counts[order[:n_rare]].sum() < fewest:
        n_rare += 1
    rare = {levels[i] for i in order[:n_rare]}
    return tuple(v for v in levels if v not in rare), tuple(v for v in levels if v in rare)


def _pooled_means(
    sites: Sequence[SiteTable], pooled: PooledColumns, terms: ModelTerms, kinds: Mapping[str, str], group: Group
) -> dict[str, float]:
    """The means of the number columns that have missing values anywhere, over all sites' known values."""
    if terms.spec.missing not in ("mean", "indicator"):
        return {}
    numbers = [c for c in terms.formula.columns if c in kinds and not is_factor(c, terms, kinds)]
    gaps = [column for column in numbers if pooled.gaps[column]]
    if not gaps:
        return {}
    sums = [[float(frame[column].sum()) for column in gaps] for _, frame in sites]
    known = [[float(frame[column].notna().sum()) for column in gaps] for _, frame in sites]
    totals, counts = np.split(summed(group, np.hstack([sums, known])), 2)
    return {column: float(total / count) for column, total, count in zip(gaps, totals, counts, strict=True)}
