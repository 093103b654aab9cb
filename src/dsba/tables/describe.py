"""Table 1: what the columns of all sites hold, from sums and counts over the sites, and signs of trouble.

Counts of 1 to k - 1 rows are never shown, k being the largest minimum count of any site. Other cells must not tell
them: if a stratum has such a count, or has it without the rows of one site, the column is shown for all rows only. A
mean that one row makes up is not shown either. Nor is one of the rows of so few sites that they know each other's.
Rows without a stratum are what the strata leave of all rows, and the same rules keep them.

By site, each site that allows it is a stratum, and all others together are one: their figures are what the totals give
beside those of the sites that are shown. So the same rules keep them. A sign of trouble is found by the site itself. It
names a column and a site, and no value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dsba.errors import InputError
from dsba.fitting.disclosure import Guards
from dsba.network import Alone, Group, counted, summed
from dsba.network.contract import SITE_TOTALS, TOTALS
from dsba.tables.description import EVERYONE, Description, FactorSummary, NumberSummary
from dsba.tables.histograms import pooled_histogram
from dsba.tables.inputs import as_sites
from dsba.tables.quantiles import Quantile, quantile_search
from dsba.tables.schema import MOST_LEVELS, enforce, kind_of, odd_kind, plain, plain_value, shared
from dsba.tables.signs import marked_numbers, signs_of, strange_levels
from dsba.tables.terms import SITE, SiteTable
from dsba.tables.together import answered
from dsba.types import Array, Flags, Level

if TYPE_CHECKING:
    pass

NO_STRATUM = ""  # rows without a value of the column of strata: they count as one more, which is not shown
OTHER_SITES = "other sites"  # the stratum of all sites that do not show figures of their own rows
QUARTILES = (0.25, 0.5, 0.75)
LARGEST = 1e150  # the square of a larger number is not finite


def describe(table: Any, *, by: str | None = None, sites: str | None = None) -> Description:
    """Table 1 of a table whose rows are at several sites: only sums and counts leave a site.

    Parameters
    ----------
    table : object
        A frame, a file or the URL of a database, or a list or dict of them, as in ``dsba.fit``.
    by : str or None
        A column whose levels become columns of the table; ``sites``, or "site", for a column of each site.
    sites : str or None
        The column of a single table that names the site of each row.

    Returns
    -------
    Description
        With ``to_frame``, ``to_latex``, ``to_html`` and ``signs`` of trouble; ``print`` shows it.

    Raises
    ------
    InputError
        If ``by`` is not a column with a few levels at every site.

    Examples
    --------
    >>> import dsba, pandas as pd
    >>> table = pd.DataFrame({"age": range(40, 70), "sex": ["f", "m"] * 15, "ward": ["a", "b", "c"] * 10})
    >>> print(dsba.describe(table, by="sex", sites="ward").to_frame().loc["rows"].tolist())
    ['30', '15', '15', '']
    """
    unused = [sites] if sites and sites != by else []
    held = [SiteTable(name, frame.drop(columns=unused)) for name, frame in as_sites(table, sites)]
    return describe_sites(held, Alone(), by=by)


DeclaredColumns = dict[str, tuple[str, list[Level] | None]]
"""By column its kind and its levels: none of numbers, and None where they are not sent."""


class _SiteDeclaration(NamedTuple):
    """What a site says of its table and of its own limits."""

    name: str
    few: int
    most: float
    sites: int
    stratum: str | None
    """Where its rows are counted if Table 1 is by site; None if it has a column of that name."""
    columns: DeclaredColumns


def describe_sites(
    sites: Sequence[SiteTable], group: Group, *, by: str | None = None, guards: Guards | None = None,
    shows: bool = True, outside: Sequence[Flags] | None = None,
) -> Description:  # fmt: skip
    """The same for the sites of this process, together with those of the others.

    ``shows``: the sites here may have a column each, if Table 1 is by site. ``outside``: of each site here the rows
    that other sums of the same strata leave out.
    """
    guards = guards or Guards()
    own = [_declared(site, by, guards, shows) for site in sites]
    discloses = SITE_TOTALS if by == SITE else TOTALS
    known = [one for theirs in shared(group, own, list[_SiteDeclaration], discloses) for one in theirs]
    enforce(group, [guards.too_few_sites(len(known)), *(guards.too_few_rows(s.name, len(s.frame)) for s in sites)])
    return _Work(sites, group, known).description(by, outside)


def _declared(site: SiteTable, by: str | None, guards: Guards, shows: bool) -> _SiteDeclaration:
    """Levels are not sent if they are many, or if most are of one row."""
    found: DeclaredColumns = {}
    for column in site.frame.columns:
        kind = kind_of(site.frame[column])
        told = kind in ("text", "truth") or (kind == "number" and column == by)
        levels = plain(site.frame[column]) if told else []
        alone = int((site.frame[column].value_counts() == 1).sum()) if len(levels) > 2 else 0
        many = len(levels) > MOST_LEVELS or 2 * alone > len(levels)  # as names of persons are
        found[str(column)] = (kind, None if many or kind in ("date", "mixed") else levels)
    own = (site.name if shows else OTHER_SITES) if by == SITE and by not in site.frame.columns else None
    return _SiteDeclaration(site.name, guards.rows_per_level, guards.dominance, guards.sites, own, found)


class _Work:
    """What a process finds out together with the others; every question is asked by all in the same order."""

    def __init__(self, sites: Sequence[SiteTable], group: Group, known: Sequence[_SiteDeclaration]) -> None:
        self.sites, self.group = sites, group
        self.few, self.most = max(1, *(one.few for one in known)), min(one.most for one in known)
        self.fewest_sites = max(2, *(one.sites for one in known))
        self.declared = {one.name: one.columns for one in known}
        self.strata = {one.name: one.stratum for one in known}
        having = Counter(column for one in known for column in one.columns)
        self.columns = [column for column, count in having.items() if count == len(known)]
        self.left_out = [c for c in self.columns if any(one.columns[c][1] is None for one in known)]
        self.signs = self._odd_columns(having)
        self.own: list[int] = []  # the strata that are of one site, by its leave
        self.thin: Any = False  # strata of few rows: the cells of a column add up to its rows
        self.numbers: dict[str, list[Array]] = {}

    def description(self, by: str | None, outside: Sequence[Flags] | None) -> Description:
        strata = self._strata(by)
        if len(strata) > 1 and outside is not None and self._few_outside(strata, outside):
            few = f"fewer than {self.few} rows of a stratum of {by!r}, at all sites or at all but one, are in no model"
            self.signs.append(f"{few}: the strata are not shown, as the difference would show these rows.")
            strata = {EVERYONE: strata[EVERYONE]}
        own = [[float(where[k].sum()) for where in strata.values()] for k in range(len(self.sites))]
        counts = self._counts(own)
        if counts.alone[1:].any():
            gaps = NO_STRATUM in strata and not counts.alone[1:-1].any()
            what = f"rows without a value of {by!r}" if gaps else f"rows in a stratum of {by!r}"
            self._say_alone(what, "the strata", [np.array(n) > 0 for n in own], counts)
            strata, counts = {EVERYONE: strata[EVERYONE]}, _Counts(*(one[:1] for one in counts))
        self.thin = counts.thin
        cells = zip(counts.totals[:, 0].tolist(), counts.hidden[:, 0], strict=True)
        rows = dict(zip(strata, (None if hidden else count for count, hidden in cells), strict=True))
        every = {column: self._column(column, strata) for column in self.columns if column != by}
        columns = {column: found for column, found in every.items() if found}
        for shown in (rows, *columns.values()):
            shown.pop(NO_STRATUM, None)
        differences = {}
        if len(rows) == 3:
            first, second = list(rows)[1:]
            pairs = {c: (found[first], found[second]) for c, found in columns.items()}
            differences = {c: d for c, pair in pairs.items() if (d := _difference(*pair)) is not None}
        self.signs += marked_numbers(self.sites, self.columns)
        self.signs += signs_of(self.sites, self.numbers, {}, self.group, self.few)
        signs = sorted({sign for theirs in shared(self.group, self.signs, list[str]) for sign in theirs})
        return Description(rows, columns, differences, tuple(signs), self.few, tuple(self.left_out))

    def _odd_columns(self, having: Mapping[str, int]) -> list[str]:
        """Columns that are not at every site have no summary. The sites that differ from most others say so."""
        usual = {column for column, count in having.items() if 2 * count >= len(self.declared)}
        signs = []
        for site in self.sites:
            own = self.declared[site.name].keys()
            lacks, extra = (", ".join(map(repr, sorted(some))) for some in (usual - own, own - usual))
            signs += [f"{site.name} has no column {lacks}, which other sites have: not described."] if lacks else []
            signs += [f"{site.name} has {extra}, which most sites lack: not described."] if extra else []
        return signs

    def _strata(self, by: str | None) -> dict[str, list[Flags]]:
        """By name, which rows of each site here belong to it."""
        strata = {EVERYONE: [np.ones(len(site.frame), bool) for site in self.sites]}
        if by is None:
            return strata
        if by == SITE and None not in self.strata.values():
            return strata | self._by_site()
        if by not in self.columns or by in self.left_out:
            raise InputError(f"the column {by!r} is not a column with a few levels at every site.")
        own = sorted({str(v) for site in self.sites for v in plain(site.frame[by])})[: MOST_LEVELS + 1]
        levels = sorted({level for theirs in shared(self.group, own, list[str]) for level in theirs})
        if not 1 < len(levels) <= MOST_LEVELS:
            raise InputError(f"the column {by!r} must have 2 to {MOST_LEVELS} levels over all sites.")
        held = [site.frame[by] for site in self.sites]
        texts = [np.array([str(plain_value(value)) for value in one.tolist()], object) for one in held]
        gaps = [one.isna().to_numpy(bool) for one in held]
        parts = list(zip(texts, gaps, strict=True))
        strata |= {f"{by} = {level}": [(own == level) & ~gap for own, gap in parts] for level in levels}
        return strata | {NO_STRATUM: gaps}

    def _by_site(self) -> dict[str, list[Flags]]:
        """A stratum for each site that shows its own figures, and one for all others; nothing if they are too few."""
        names = sorted((str(one) for one in {*self.strata.values()}), key=lambda one: (one == OTHER_SITES, one))
        hidden = [*self.strata.values()].count(OTHER_SITES)
        if 0 < hidden < self.fewest_sites:
            self.signs += [
                f"{site.name} shows no figures of its own rows, and fewer than {self.fewest_sites} sites do so: no "
                "site is shown alone, as the totals without the others would be theirs."
                for site in self.sites if self.strata[site.name] == OTHER_SITES
            ]  # fmt: skip
        if 0 < hidden < self.fewest_sites or hidden == len(self.strata):
            return {}
        self.own = [stratum for stratum, name in enumerate(names, 1) if name != OTHER_SITES]
        labels = {name: name if name == OTHER_SITES else f"{SITE} = {name}" for name in names}
        return {
            label: [np.full(len(site.frame), self.strata[site.name] == name) for site in self.sites]
            for name, label in labels.items()
        }

    def _few_outside(self, strata: Mapping[str, list[Flags]], outside: Sequence[Flags]) -> bool:
        """Whether other sums leave out few rows of a stratum, or few that have a value of a column there."""
        known = [np.column_stack([np.ones(len(x)), x.notna()]) for x in (s.frame[self.columns] for s in self.sites)]
        held = enumerate(zip(known, outside, strict=True))
        own = [[n for where in strata.values() for n in (where[k] & out) @ x] for k, (x, out) in held]
        return bool(self._counts(own).thin.any())

    def _column(self, column: str, strata: Mapping[str, list[Flags]]) -> dict[str, Any]:
        kinds = {site: known[column][0] for site, known in self.declared.items() if known[column][0] != "empty"}
        if not kinds:
            return {}
        usual = max(dict.fromkeys(kinds.values()), key=list(kinds.values()).count)
        if odd := [site for site, kind in kinds.items() if kind != usual]:
            here = [site.name for site in self.sites if site.name in odd]
            self.signs += [odd_kind(column, name, kinds[name], usual) for name in here]
            return {}
        if column in self.left_out:
            return {}
        return self._numbers(column, strata) if usual == "number" else self._levels(column, strata)

    def _counts(self, own: Sequence[Sequence[float]], cells: int = 1, gaps: int | None = None) -> _Counts:
        """Counts of every stratum, in ``cells``; and which are of too few rows, or are without the rows of a site.

        The cell ``gaps`` has rows without a value, which others cannot learn.
        """
        mine = np.array(own, np.float64)
        totals = np.array(counted(self.group, mine))
        valued = np.arange(totals.size) % cells != (cells if gaps is None else gaps)
        rest = totals - mine
        few = (rest > 0) & (rest < self.few) & valued
        told = np.array(counted(self.group, np.hstack([few, mine > 0]).astype(np.float64)))
        elsewhere, sites = np.split(told, 2)
        thin = ((totals > 0) & (totals < self.few)) | (elsewhere > 0)
        alone = (sites > 0) & (sites < self.fewest_sites) & ~thin & (self.group.size > 1)
        found = _Counts(*(one.reshape(-1, cells) for one in (totals, thin, alone)))
        found.thin[:] |= self.thin
        found.alone[[stratum for stratum in self.own if stratum < len(found.alone)]] = False
        return found

    def _say_alone(self, what: str, hidden: str, held: Sequence[Flags], counts: _Counts) -> None:
        """``held``: of each site here the strata with rows."""
        for site, own in zip(self.sites, held, strict=True):
            if (own & counts.alone[:, 0]).any():
                few = f"is one of fewer than {self.fewest_sites} sites that have {what}"
                self.signs.append(f"{site.name} {few}: {hidden} would be of these sites only, and are not shown.")

    def _numbers(self, column: str, strata: Mapping[str, list[Flags]]) -> dict[str, Any]:
        values = [site.frame[column].to_numpy(np.float64, na_value=np.nan) for site in self.sites]
        self.numbers[column] = values
        kept = [[x[where[k]] for where in strata.values()] for k, x in enumerate(values)]
        whole = [[x[np.isfinite(x)] for x in own] for own in kept]
        sizes = [[float(n) for x in own for n in (np.isfinite(x).sum(), (~np.isfinite(x)).sum())] for own in kept]
        counts = self._counts(sizes, 2, gaps=1)
        counts.thin[:, 0] |= counts.alone[:, 0]
        self._say_alone(f"values of {column!r}", "their means", [np.array(n[::2]) > 0 for n in sizes], counts)
        enough = ~counts.hidden[:, 0] & (counts.totals[:, 0] >= max(self.few, 2))
        found = [
            self._moments([own[s] for own in whole], int(counts.totals[s, 0])) if shown else None
            for s, shown in enumerate(enough)
        ]
        self._hide_dominated(column, found)
        if NO_STRATUM in strata:
            found[-1] = None  # nothing more is asked about it
        searches = [
            quantile_search([own[s] for own in whole], QUARTILES, self.few) for s, one in enumerate(found) if one
        ]
        quantiles = iter(answered(searches, self.group))
        summaries = [self._number_summary(counts, s, one, one and next(quantiles)) for s, one in enumerate(found)]
        every = summaries[0]
        if every.quartiles is not None and every.n is not None:
            bins = pooled_histogram([own[0] for own in whole], every.quartiles, self.group, self.few)
            summaries[0] = every._replace(histogram=bins)
        return dict(zip(strata, summaries, strict=True))

    def _moments(self, parts: Sequence[Array], n: int) -> _Moments:
        """Rows whose squares have no number make up the spread; their site adds nothing."""
        endless = [float(np.abs(x).max(initial=0.0)) > LARGEST for x in parts]
        parts = [x[:0] if large else x for x, large in zip(parts, endless, strict=True)]
        (total,) = summed(self.group, np.array([[x.sum()] for x in parts])).tolist()
        mean = total / n
        (squares,) = summed(self.group, np.array([[((x - mean) ** 2).sum()] for x in parts])).tolist()
        most = [float(((x - mean) ** 2).max(initial=0.0)) > self.most * squares for x in parts]
        dominated = [large or one for large, one in zip(endless, most, strict=True)]
        return _Moments(total, mean, float(np.sqrt(squares / (n - 1))), dominated)

    def _hide_dominated(self, column: str, found: list[_Moments | None]) -> None:
        """Leave out means that one row makes, and those of strata, which would tell them."""
        own = [[float(one.dominated[k]) if one else 0.0 for one in found] for k in range(len(self.sites))]
        over = np.array(counted(self.group, np.array(own))) > 0
        for site, flags in zip(self.sites, own, strict=True):
            if any(flags):
                hidden = "its mean and standard deviation are not shown."
                self.signs.append(f"one row of {site.name} makes up most of the spread of {column!r}: {hidden}")
        for s, one in enumerate(found):
            if one and (over[0] or (s and over.any())):
                found[s] = one._replace(total=None, mean=None, sd=None)

    def _number_summary(
        self, counts: _Counts, stratum: int, moments: _Moments | None, quantiles: Sequence[Quantile] | None
    ) -> NumberSummary:
        hidden = bool(counts.hidden[stratum].any())
        n, missing = (None, None) if hidden else map(int, counts.totals[stratum])
        if moments is None or quantiles is None:
            return NumberSummary(n, missing, None, None, None, None, None)
        quartiles, within = tuple(one.value for one in quantiles), max(one.within for one in quantiles)
        total = None if hidden else moments.total
        return NumberSummary(n, missing, total, moments.mean, moments.sd, quartiles, within)

    def _levels(self, column: str, strata: Mapping[str, list[Flags]]) -> dict[str, Any]:
        by_site = {site: {*(known[column][1] or ())} for site, known in self.declared.items()}
        levels = sorted(set().union(*by_site.values()))
        common = {level for level in levels if sum(level in theirs for theirs in by_site.values()) > 1}
        held = [[site.frame[column][where[k]] for where in strata.values()] for k, site in enumerate(self.sites)]
        own = [[float(one.sum()) for x in parts for one in (x.isna(), *(x == v for v in levels))] for parts in held]
        counts = self._counts(own, 1 + len(levels), gaps=0)
        for site, numbers in zip(self.sites, own, strict=True):
            rows = dict(zip(levels, numbers[1:], strict=False))  # of all strata, which come first
            alone = {level: rows[level] for level in by_site[site.name] - common} if common else {}
            others = set().union(*(theirs for name, theirs in by_site.items() if name != site.name))
            share = len(site.frame) / counts.totals[0].sum()
            self.signs += strange_levels(column, site.name, alone, share, others)
        found = {}
        for s, name in enumerate(strata):
            missing, *shown = self._all_shown(counts.totals[s].tolist(), counts.hidden[s])
            known = [count for count in shown if count is not None]
            n = sum(known) if missing is not None and len(known) == len(shown) else None
            found[name] = FactorSummary(n, missing, dict(zip(levels, shown, strict=True)))
        return found

    def _all_shown(self, counts: Sequence[int], thin: Flags) -> list[int | None]:
        """Counts of levels. While the sum of the hidden ones would tell them, the next smallest is hidden as well."""
        shown = [None if few else count for count, few in zip(counts, thin, strict=True)]
        while (hidden := shown.count(None)) and (others := [count for count in shown if count]):
            if hidden > 1 and sum(counts) - sum(others) >= self.few + hidden:
                break
            shown[shown.index(min(others))] = None
        return shown


class _Counts(NamedTuple):
    """Pooled counts, a row for each stratum and a column for each cell; which of them must not be shown."""

    totals: Any
    thin: Flags
    alone: Flags
    """Which are of so few sites, between processes, that means would be their own."""

    @property
    def hidden(self) -> Flags:
        """Where any cell is thin, all strata but that of all rows are hidden: differences would tell it."""
        return self.thin | (self.thin.any() & (np.arange(len(self.thin)) > 0)[:, None])


class _Moments(NamedTuple):
    """Of one stratum; and for each site here whether one row of it makes up most of the spread."""

    total: float | None
    mean: float | None
    sd: float | None
    dominated: list[bool]


def _difference(first: NumberSummary | FactorSummary, second: NumberSummary | FactorSummary) -> float | None:
    """The standardised mean difference; of factors Yang and Dalton's distance. None where a part is not shown."""
    if isinstance(first, NumberSummary) and isinstance(second, NumberSummary):
        if first.mean is None or second.mean is None or first.sd is None or second.sd is None:
            return None
        spread = np.sqrt((first.sd**2 + second.sd**2) / 2.0)
        return float((second.mean - first.mean) / spread) if spread > 0.0 else None
    both = [list(one.counts.values()) for one in (first, second) if isinstance(one, FactorSummary)]
    if len(both) < 2 or any(count is None for counts in both for count in counts) or not all(map(any, both)):
        return None
    p, q = (np.array(counts[1:], np.float64) / sum(counts) for counts in both)  # type: ignore[arg-type]
    spread = sum(np.diag(one) - np.outer(one, one) for one in (p, q)) / 2.0
    return float(np.sqrt((p - q) @ np.linalg.pinv(spread) @ (p - q)))
