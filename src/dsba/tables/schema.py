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
from datetime import date, datetime, time, timedelta
from itertools import chain, product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter, ValidationError

from dsba.data.text_tables import NUMBER
from dsba.errors import InputError, noted, printable
from dsba.fitting.disclosure import Guards, is_steered
from dsba.fitting.model import Schema, SitePart
from dsba.fitting.spec import FREQUENCY
from dsba.network import Group, counted, require_agreement, summed
from dsba.network.contract import TOTALS, other_form
from dsba.tables.terms import SITE, ModelTerms, SiteTable, absent_column
from dsba.types import Array, Integers, Level

if TYPE_CHECKING:
    import pandas as pd


MOST_MARKS = 3  # of different texts among numbers, for a column to look like one of numbers
MOST_LEVELS = 50  # a text column with more is an identifier, which must never travel
BY_MEANS = ("mean", "indicator")  # what may be done with missing values so that gaps get a mean
MISSING_LEVEL, MERGED_LEVEL = "(missing)", "(other)"
COLUMN_KINDS = ("date", "mixed", "number", "text", "truth")  # of columns that are not empty
DATES = {date, datetime, time, timedelta}  # as databases and other programs give them
TRUTH = {"false": False, "true": True}
KIND_WORDS = {"number": "a number", "text": "text", "truth": "true or false", "date": "a date", "mixed": "a mixture"}


OwnLevels = Mapping[str, Sequence[Sequence[Level]]]  # of each site here, by column


class Held(NamedTuple):
    """What a site knows of its own table. Others learn sums of it only."""

    site: str
    rows: int
    missing: dict[str, int]
    used: int
    """The rows that enter the model."""
    gaps: dict[str, int]
    """The missing values among them."""
    apart: dict[str, int]
    """Of columns that may need a mean first, how many of these rows differ from the median."""
    kinds: dict[str, str]


def agree(sites: Sequence[SiteTable], terms: ModelTerms, group: Group, guards: Guards | None = None) -> Schema:
    """Agree with all processes on a schema, or end at all of them with one sentence.

    No site tells which levels it has of columns whose levels are listed in ``terms``.
    """
    require_agreement(group, terms.spec.alike())
    return _Agreement(sites, terms, group, guards or Guards()).schema()


class _Agreement:
    """What a process finds out together with the others. Every question comes after the ones that it depends on."""

    def __init__(self, sites: Sequence[SiteTable], terms: ModelTerms, group: Group, guards: Guards) -> None:
        self.terms, self.spec, self.formula, self.group, self.guards = terms, terms.spec, terms.formula, group, guards
        self.parts = self._parts(sites)
        self.limits = Guards.strictest([part.guards for part in self.parts])
        self.sites = [SiteTable(site.name, usable_rows(site.frame, terms)) for site in sites]
        few = [guards.too_few_rows(name, len(frame)) for name, frame in self.sites]
        self.notices = enforce(group, [guards.too_few_sites(len(self.parts)), *few])  # before any sum of the data
        self.held = [held_at(site, terms) for site in sites]
        self._pool()
        self.kinds = self._agreed_kinds()
        self._check_missing()

    def schema(self) -> Schema:
        terms, kinds = self.terms, self.kinds
        many = self.limits.too_many_parameters(self.formula.fewest_columns, self.used)  # their states are sums already
        if many and self.group.size > 1:
            raise InputError(many)
        labels = self.formula.response if terms.of_classes else ()
        factors = [c for c in self.formula.columns if is_factor(c, terms, kinds) and (c in kinds or c != SITE)]
        require_levelled(terms, (*labels, *factors), kinds)
        own = {column: [plain(frame[column]) for _, frame in self.sites] for column in (*labels, *factors)}
        complaint = self._no_rows() or self._bad_numbers() or self._too_many_levels(own)
        end_together(self.group, complaint or unlisted(own, [site.name for site in self.sites], terms, kinds))
        found = self._found_levels(own)
        classes = self._agreed_labels(labels[0], found, own) if labels else None
        names = self._ordered_sites()
        levels, merged, rare = self._agreed_levels({column: found[column] for column in factors})
        if SITE in self.formula.columns and SITE not in factors:
            levels[SITE] = names
        self._require_common()
        means = self._pooled_means()
        notices = (*self.notices, *enforce(self.group, [*rare, *self.elsewhere]))
        spec = replace(self.spec, event=None, levels={}, guards=Guards())  # levels and classes have the order now
        return Schema(
            spec, terms.labels, self.parts, self.rows, kinds, self.missing, levels, merged, classes, means, notices,
            odd_levels=self.odd_levels,
        )  # fmt: skip

    # Columns and types ---------------------------------------------------------------------------

    def _parts(self, sites: Sequence[SiteTable]) -> tuple[SitePart, ...]:
        own = [asdict(SitePart(site.name, self.guards)) for site in sites]
        complaint = absent_column({name: list(map(str, frame.columns)) for name, frame in sites}, self.terms)
        parts = tuple(chain(*share_unless(self.group, complaint, own, list[SitePart])))
        names = [part.site for part in parts]
        if len(set(names)) < len(names):
            raise InputError(f"two sites have the same name {next(n for n in names if names.count(n) > 1)!r}.")
        return parts

    def _pool(self) -> None:
        """One sum over all sites: rows, missing values by column, and by column the sites with each kind."""
        columns, few = self.terms.columns, max(1, self.limits.rows_per_level)
        own = [
            [one.rows, one.used, *(part.get(column, 0) for part in (one.missing, one.gaps) for column in columns)]
            + [one.kinds.get(column) == kind for column in columns for kind in COLUMN_KINDS]
            + [one.apart.get(column, 0) >= few for column in needs_means(self.terms)]
            for one in self.held
        ]
        total = iter(counted(self.group, np.array(own, dtype=np.float64)))
        self.rows, self.used = next(total), next(total)
        self.missing, self.gaps = ({column: next(total) for column in columns} for _ in range(2))
        self.sites_of_kind = {column: {kind: next(total) for kind in COLUMN_KINDS} for column in columns}
        self.sites_apart = {column: next(total) for column in needs_means(self.terms)}
        if 0 < sum(self.sites_of_kind.get(SITE, {}).values()) < len(self.parts):
            raise InputError(
                f"some tables have a column {SITE!r} of their own and some have none: rename it, or give it to all."
            )

    def _agreed_kinds(self) -> dict[str, str]:
        """One type per column; a site that differs from most others names itself."""
        agreed = {}
        for column, sites in self.sites_of_kind.items():
            if not any(sites.values()):
                if column == SITE:
                    continue
                raise InputError(f"the column {column!r} is empty at every site.")
            usual = agreed[column] = max(COLUMN_KINDS, key=lambda kind: sites[kind])
            if sum(count > 0 for count in sites.values()) > 1:
                held = [(one.site, one.kinds.get(column, "empty")) for one in self.held]
                odd = [odd_kind(column, site, kind, usual) for site, kind in held if kind not in (usual, "empty")]
                end_together(self.group, next(iter(odd), None))
                raise InputError(f"the column {column!r} is not of one type at all sites.")
            if usual in ("date", "mixed"):
                raise InputError(f"the column {column!r} is {KIND_WORDS[usual]}; wanted numbers or text.")
        outcomes = () if self.terms.of_classes else self.formula.response
        for column in (*outcomes, *self.formula.numbers, *self.terms.extras):
            if agreed.get(column) == "text":
                raise InputError(f"the column {column!r} is text, and the model needs it as a number.")
        return agreed

    # Missing values and numbers ------------------------------------------------------------------

    def _check_missing(self) -> None:
        """An error where missing values are not wanted, with their number over all sites; a note has those here."""
        policy = self.spec.missing
        for column, count in self.missing.items():
            if not count:
                continue
            filled = column in self.formula.columns and policy == "mean"
            if policy == "error":
                advice = ": say what to do, with missing = drop, mean or indicator."
            elif column in (*self.terms.extras, self.spec.clusters) and policy != "drop":
                advice = ": weights, offsets, exposures and clusters are never filled in: use missing = drop."
            elif filled and is_factor(column, self.terms, self.kinds):
                advice = ", and a factor has no mean: use missing = drop or indicator."
            else:
                continue
            own = [f"{site.missing[column]} at {site.site}" for site in self.held if site.missing.get(column)]
            raise noted(InputError(f"the column {column!r} has {count} missing values over all sites{advice}"), own)

    def _no_rows(self) -> str | None:
        """A sentence about a site of which no row enters the model."""
        for name, frame in self.sites:
            if not len(frame):
                reason = "every one lacks a value or has the weight 0"
                return f"{name} has no row that enters the model: {reason}. Leave it out."
        return None

    def _bad_numbers(self) -> str | None:
        """A sentence where numbers are not finite, or counts, weights or exposures are negative."""
        positive = {self.spec.exposure: " above 0", self.spec.weights: " at least 0"}
        if self.terms.labels == "count":
            positive |= dict.fromkeys(self.formula.response, " at least 0")
        numbers = [column for column in self.terms.columns if self.kinds.get(column) == "number"]
        for (name, frame), column in product(self.sites, numbers):
            values = frame[column].to_numpy(dtype=np.float64, na_value=np.nan)
            bound = positive.get(column, "")
            least = {" above 0": np.nextafter(0.0, 1.0), " at least 0": 0.0}.get(bound, -np.inf)
            if (np.isinf(values) | (values < least)).any():
                return f"the column {column!r} at {name} must have finite numbers{bound}, and some are not."
            if column == self.spec.weights and self.spec.weight_kind == FREQUENCY and (values % 1.0 > 0.0).any():
                return f"the column {column!r} at {name} has frequencies, and some are not whole numbers."
        return None

    def _pooled_means(self) -> dict[str, float]:
        """The means of the number columns that have missing values anywhere, over all sites' known values."""
        if not (gaps := self._filled()):
            return {}
        own = [self._sums_and_counts(frame, gaps) for _, frame in self.sites]
        totals, counts = np.split(summed(self.group, np.array(own, np.float64)), 2)
        return dict(zip(gaps, (totals / counts).tolist(), strict=True))

    def _filled(self) -> list[str]:
        """The columns of numbers whose gaps get the mean of the known values."""
        numbers = [c for c in self.formula.columns if c in self.kinds and not is_factor(c, self.terms, self.kinds)]
        return [c for c in numbers if self.gaps[c] and self.spec.missing in BY_MEANS]

    def _require_common(self) -> None:
        """Between processes an error where the first sum of a column would be of few rows: with a value, or apart."""
        filled, limits = self._filled(), self.limits
        columns, names = list(dict.fromkeys((*filled, *self.formula.averaged))), [one.site for one in self.held]
        known = np.array([self.used - self.gaps[column] for column in filled])
        own = np.array([[one.used - one.gaps[column] for column in filled] for one in self.held])
        few = [limits.few_known(c) for c, rows in zip(filled, known, strict=True) if rows < limits.rows_per_level]
        few += limits.few_elsewhere(names, filled, own, known)
        if filled and (times := self.spec.weights) and self.spec.weight_kind == FREQUENCY:  # these means are weighted
            heavy = [is_steered(frame[times].to_numpy(np.float64), limits.rows_per_level) for _, frame in self.sites]
            few += [limits.few_weighted(name) for name, found in zip(names, heavy, strict=True) if found]
        apart = np.array([[one.apart.get(column, 0) for column in columns] for one in self.held])
        sites_with = np.array([self.sites_apart[column] for column in columns])
        few += few_apart(columns, apart, sites_with, names, limits, self.group)
        if filled or (sites_with < 2).any():
            end_together(self.group, few[0] if few and self.group.size > 1 else None)

    def _sums_and_counts(self, frame: pd.DataFrame, columns: Sequence[str]) -> list[float]:
        """Of columns with gaps, over the known values. A row counts as often as its frequency says."""
        frequency = self.spec.weights if self.spec.weight_kind == FREQUENCY else None
        times = frame[frequency] if frequency is not None else 1.0
        return [(frame[c] * times).sum() for c in columns] + [(frame[c].notna() * times).sum() for c in columns]

    # Labels and levels ---------------------------------------------------------------------------

    def _too_many_levels(self, own: OwnLevels) -> str | None:
        """A sentence about a column with more levels than it may have here, before others are told anything of it."""
        most = 2 if self.terms.labels == "binary" else MOST_LEVELS
        for column, found in own.items():
            told = self.group.size > 1 and self.guards.rows_per_level > 1 and column not in self.spec.levels
            for site, levels in zip(self.sites, found, strict=True):
                if column in self.formula.response and len(levels) > most:
                    many = f"the outcome {column!r} has more than {most} values at {site.name}"
                    return f"{many}: wanted at most {most} classes."
                if len(levels) > MOST_LEVELS:
                    many = f"the column {column!r} has more than {MOST_LEVELS} levels at {site.name}"
                    numbers = "numbers with marks among them (--na-values)"
                    looks = numbers if numbers_with_marks(levels) else "an identifier, or dates as text"
                    return f"{many}: it looks like {looks}."
                alone = int((site.frame[column].value_counts() == 1).sum())
                if told and 2 * alone > int(site.frame[column].notna().sum()):
                    many = f"most rows of {site.name} have a value of {column!r} of their own"
                    return f"{many}: list its levels for all sites, or leave the column out."
        return None

    def _found_levels(self, own: OwnLevels) -> dict[str, dict[Level, int]]:
        """The levels that occur at any site, in order, with their numbers of rows: one sum over all that may occur."""
        self.odd_levels: tuple[str, ...] = ()
        self.elsewhere: list[str] = []
        if not own:
            return {}
        asked = {column: _union(found, column) for column, found in own.items() if column not in self.spec.levels}
        everyone = shared(self.group, asked, dict[str, list[Level]])
        for rank, theirs in enumerate(everyone):
            if set(theirs) != set(asked):
                raise other_form(rank)
        known = {
            column: in_order(column, [theirs.get(column, []) for theirs in everyone], self.terms, self.kinds[column])
            for column in own
        }
        cells = [(column, level) for column, levels in known.items() for level in levels]
        counts = np.array([[float((frame[c] == level).sum()) for c, level in cells] for _, frame in self.sites])
        total, sites = np.split(np.array(counted(self.group, np.hstack([counts, counts > 0.0]))), 2)
        columns = [column for column, _ in cells]
        self.elsewhere = self.limits.few_elsewhere([site.name for site in self.sites], columns, counts, total)
        numbers, self.odd_levels = iter(total.tolist()), _odd_levels(known, sites.tolist(), len(self.parts))
        pooled = {column: {level: next(numbers) for level in levels} for column, levels in known.items()}
        return {column: {level: n for level, n in rows.items() if n} for column, rows in pooled.items()}

    def _ordered_sites(self) -> tuple[Level, ...]:
        """The names of the sites as levels."""
        names = [part.site for part in self.parts]
        if SITE in self.spec.levels and (strangers := set(names) - {*in_order(SITE, [], self.terms, "text")}):
            raise InputError(f"the site {min(strangers)!r} is not among the levels of {SITE!r} that were given.")
        return tuple(level for level in in_order(SITE, [names], self.terms, "text") if level in names)

    def _agreed_labels(self, column: str, found: Mapping[str, Any], own: OwnLevels) -> tuple[Level, ...]:
        classes = tuple(found[column])
        if self.terms.labels == "binary" and len(classes) != 2:
            has = ", ".join(map(str, classes)) or "none"
            held = zip(own[column], self.sites, strict=True)
            here = [f"{', '.join(map(str, levels))} at {site.name}" for levels, site in held]
            sentence = f"the outcome {column!r} must have two values, the same at all sites, and has {has}."
            raise noted(InputError(sentence), here)
        if len(classes) < 2:
            raise InputError(f"the outcome {column!r} has one value only at all sites.")
        return classes

    def _agreed_levels(
        self, found: Mapping[str, Mapping[Level, int]]
    ) -> tuple[dict[str, tuple[Level, ...]], dict[str, tuple[Level, ...]], list[str | None]]:
        """The levels of every factor, those merged, and what the guard says of rare ones."""
        levels: dict[str, tuple[Level, ...]] = {}
        merged: dict[str, tuple[Level, ...]] = {}
        rare_levels: list[str | None] = []
        for column, rows in found.items():
            own, counts = tuple(rows), np.array(list(rows.values()))
            kept, rare = _kept(own, counts, self.guards.rows_per_level)
            if rare and self.spec.rare_levels == "merge":
                merged[column], own = rare, (*kept, MERGED_LEVEL)
            else:
                count = int((counts < self.guards.rows_per_level).sum())
                rare_levels.append(self.guards.rare_level(column, count))
            if self.gaps[column] and self.spec.missing == "indicator":
                own = (*own, MISSING_LEVEL)
            if len(own) < 2:
                raise InputError(f"the column {column!r} has one level only at all sites.")
            if twice := [level for level in (MISSING_LEVEL, MERGED_LEVEL) if own.count(level) > 1]:
                raise InputError(f"the column {column!r} has a level {twice[0]!r} of its own: rename it.")
            levels[column] = own
        return levels, merged, rare_levels


# Asking the others -------------------------------------------------------------------------------


def enforce(group: Group, sentences: Sequence[str | None]) -> tuple[str, ...]:
    """A guard of any process ends the fit at all of them. In one process its sentence is only a notice."""
    everyone = shared(group, [sentence for sentence in sentences if sentence], list[str])
    notices = tuple(dict.fromkeys(sentence for theirs in everyone for sentence in theirs))
    if notices and group.size > 1:
        raise InputError(printable(notices[0]))
    return notices


def shared(group: Group, own: Any, kind: Any, discloses: str = TOTALS) -> list[Any]:
    """Every process's value. What others sent is read like a file: it must be of the kind that is wanted."""
    try:
        return TypeAdapter(list[kind]).validate_python(group.share(own, discloses=discloses))
    except ValidationError as error:
        raise other_form(error.errors(include_input=False, include_url=False)[0]["loc"][0]) from None


def share_unless(group: Group, complaint: str | None, own: Any, kind: Any) -> list[Any]:
    """Every process's value; an error at all processes if one of them has a complaint."""
    answers = shared(group, (complaint, None if complaint else own), tuple[str, None] | tuple[None, kind])
    for sentence, _ in answers:
        if sentence is not None:
            raise InputError(printable(sentence))
    return [value for _, value in answers]


def end_together(group: Group, complaint: str | None) -> None:
    """An error at all processes if one of them has a complaint."""
    share_unless(group, complaint, None, None)


def few_apart(
    names: Sequence[str], apart: Array, sites_with: Array, sites: Sequence[str], limits: Guards, group: Group
) -> list[str]:
    """Sentences about the first column by which few rows are singled out, at all sites or at all but one.

    ``apart`` are the rows of each site here away from its median; ``sites_with`` have enough of them.
    """
    few, found = max(1, limits.rows_per_level), list[str]()
    for j in np.flatnonzero(sites_with < 2).tolist():
        own = np.minimum(apart[:, [j]], few).astype(np.float64)
        (total,) = counted(group, own)
        rare = limits.rare_values(f"the column {names[j]}", total)
        found += [rare] if rare else limits.few_elsewhere(sites, [names[j]], own, np.array([total]))
        if 0 < total - few * sites_with[j] < few:  # this all sites know
            break
    return found


def needs_means(terms: ModelTerms) -> Sequence[str]:
    """The columns of which a mean may be summed before the model is made."""
    return terms.columns if terms.spec.missing in BY_MEANS else terms.formula.averaged


def _apart(values: pd.Series) -> int:
    """How many numbers differ from their median."""
    x = values.dropna().to_numpy(np.float64)
    return int(np.count_nonzero(x != np.median(x))) if len(x) else 0


# Columns of one site -----------------------------------------------------------------------------


def held_at(site: SiteTable, terms: ModelTerms) -> Held:
    """The rows, missing values and types of the model's columns at a site."""
    columns = [column for column in terms.columns if column in site.frame.columns]
    usable = usable_rows(site.frame, terms)
    missing, gaps = ({column: int(rows[column].isna().sum()) for column in columns} for rows in (site.frame, usable))
    kinds = {column: kind_of(site.frame[column]) for column in columns}
    apart = {c: _apart(usable[c]) for c in needs_means(terms) if kinds.get(c) in ("number", "truth")}
    return Held(site.name, len(site.frame), missing, len(usable), gaps, apart, kinds)


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
    return "text" if values == {str} else "date" if values <= DATES else "mixed"


def is_factor(column: str, terms: ModelTerms, kinds: Mapping[str, str]) -> bool:
    """Whether the right side of the formula has the column as a factor: text, and truth values outside arithmetic."""
    if column == SITE and (column not in kinds or column not in terms.formula.numbers):
        return True
    truth = kinds[column] == "truth" and column not in terms.formula.numbers
    return column in terms.formula.factors or kinds[column] == "text" or truth


def usable_rows(frame: pd.DataFrame, terms: ModelTerms) -> pd.DataFrame:
    """The rows that enter the model: with "drop" the complete ones, else those with an outcome; none of weight 0."""
    needed = terms.columns if terms.spec.missing == "drop" else terms.formula.response
    held = [column for column in needed if column in frame.columns]
    used = frame.loc[frame[held].notna().all(axis=1)] if held else frame
    return used.loc[used[terms.spec.weights].ne(0)] if terms.spec.weights in used.columns else used


# Levels ------------------------------------------------------------------------------------------


def plain(values: pd.Series) -> list[Level]:
    """The different values of a column, without missing ones; whole numbers as integers."""
    found = {plain_value(value) for value in values.dropna().unique().tolist()}
    return sorted(found, key=lambda level: (isinstance(level, str), level))


def odd_kind(column: str, site: str, kind: str, usual: str) -> str:
    """A sentence about a column that is of another kind at a site than elsewhere."""
    marks = " Are there marks of missing values (--na-values)?" if (kind, usual) == ("text", "number") else ""
    return f"the column {column!r} is {KIND_WORDS[kind]} at {site} and {KIND_WORDS[usual]} elsewhere.{marks}"


def numbers_with_marks(levels: Sequence[Level]) -> bool:
    """Whether levels are numbers and a few texts, such as "unknown" or a point for a missing value."""
    texts = [level for level in levels if not (isinstance(level, str) and NUMBER.fullmatch(level.strip()))]
    return 0 < len(texts) <= MOST_MARKS and len(levels) - len(texts) > MOST_MARKS


def plain_value(value: Any) -> Level:
    return int(value) if isinstance(value, float) and value.is_integer() else value


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


def require_levelled(terms: ModelTerms, levelled: Sequence[str], kinds: Mapping[str, str]) -> None:
    """An error about levels that were given for a column that has none."""
    for column in terms.spec.levels:
        if column not in terms.columns:
            raise InputError(f"levels are given for {column!r}, which is not a column of the model.")
        if column in kinds and column not in (*levelled, terms.spec.clusters):
            raise InputError(f"levels are given for {column!r}, which the model takes as a number: write C().")


def unlisted(own: OwnLevels, sites: Sequence[str], terms: ModelTerms, kinds: Mapping[str, str]) -> str | None:
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


def folded(level: str) -> str:
    """Equal for levels that differ by case or spaces only."""
    return "".join(level.split()).casefold()


def _odd_levels(known: Mapping[str, Sequence[Level]], sites: Sequence[int], n_sites: int) -> tuple[str, ...]:
    """Sentences about levels that differ by case or spaces only, and about those that occur at one of several sites."""
    found, counts = list[str](), iter(sites)
    for column, levels in known.items():
        spellings: dict[str, list[str]] = {}
        for level in map(str, levels):
            spellings.setdefault(folded(level), []).append(level)
        alike = [" and ".join(map(repr, several)) for several in spellings.values() if len(several) > 1]
        found += [f"The levels {several} of {column} differ by case or spaces only." for several in alike]
        alone = [str(level) for level in levels if next(counts) == 1 and n_sites > 1]
        found += [f"The level {level!r} of {column} occurs at one site only." for level in alone]
    return tuple(found)


def _kept(levels: tuple[Level, ...], counts: Integers, fewest: int) -> tuple[tuple[Level, ...], tuple[Level, ...]]:
    """The levels with enough pooled rows, and the rest. If the rest has too few, the next rarest level joins it."""
    order = np.argsort(counts, kind="stable")
    n_rare = int((counts < fewest).sum())
    while 0 < n_rare < len(levels) and counts[order[:n_rare]].sum() < fewest:
        n_rare += 1
    rare = {levels[i] for i in order[:n_rare]}
    return tuple(v for v in levels if v not in rare), tuple(v for v in levels if v in rare)
