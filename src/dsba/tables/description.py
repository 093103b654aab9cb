"""Table 1 as its readers have it: figures by column and stratum, as text, frame, LaTeX or HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from dsba.tables.exports import TextTable, figures
from dsba.tables.histograms import HistogramBin, bars
from dsba.types import Level

if TYPE_CHECKING:
    import pandas as pd

EVERYONE = "all"
HIDDEN = "hidden"  # in the place of a count


class NumberSummary(NamedTuple):
    """A column of numbers in one stratum. What too few rows would show is None."""

    n: int | None
    missing: int | None
    sum: float | None
    mean: float | None
    sd: float | None
    quartiles: tuple[float, ...] | None
    within: float | None
    """The share of rows between a quartile that is shown and the exact one, at most; numbers have nine digits."""
    histogram: tuple[HistogramBin, ...] | None = None
    """Of all rows; a stratum has none."""


class FactorSummary(NamedTuple):
    """A column of levels in one stratum; a count is None if it is of too few rows."""

    n: int | None
    missing: int | None
    counts: dict[Level, int | None]


@dataclass(frozen=True, repr=False)
class Description:
    """Table 1 of all sites: ``print`` shows it.

    Parameters
    ----------
    rows : dict[str, int or None]
        The number of rows by stratum; the stratum "all" has all rows.
    columns : dict[str, dict[str, NumberSummary or FactorSummary]]
        A summary by column and stratum.
    differences : dict[str, float]
        Standardised mean differences of the second stratum from the first, if there are two.
    signs : tuple[str, ...]
        Sentences about columns that may be wrong at a site.
    few : int
        Counts below this number are not shown.
    left_out : tuple[str, ...]
        Columns of all sites that have no summary: dates, and texts with many levels or mostly of one row each.

    Examples
    --------
    >>> import dsba, pandas as pd
    >>> table = pd.DataFrame({"age": range(40, 70), "sex": ["f", "m"] * 15, "ward": ["a", "b", "c"] * 10})
    >>> found = dsba.describe(table, sites="ward")
    >>> found.columns["age"]["all"].mean, found.signs
    (54.5, ())
    """

    rows: dict[str, int | None]
    columns: dict[str, dict[str, NumberSummary | FactorSummary]]
    differences: dict[str, float]
    signs: tuple[str, ...]
    few: int
    left_out: tuple[str, ...] = ()

    def table(self) -> TextTable:
        """Return the table for people: means with standard deviations, medians with quartiles, counts with percent.

        Returns
        -------
        TextTable
            A row for each figure, and a column for each stratum.

        Examples
        --------
        >>> print(found.table().rows[1])
        ('age, mean (sd)', '54.5 (8.8)')
        """
        strata = list(self.rows)
        rows = [("rows", *(self._count(self.rows[one]) for one in strata), "")]
        for column, found in self.columns.items():
            difference = f"{self.differences[column]:.3f}" if column in self.differences else ""
            for n, (label, cells) in enumerate(self._lines(column, [found[one] for one in strata])):
                rows.append((label, *cells, "" if n else difference))
        header = ("", *strata, "SMD")
        last = None if self.differences else -1
        return TextTable(self._title(), header[:last], tuple(row[:last] for row in rows))

    def _title(self) -> str:
        """What the table is, how near the quartiles are, and which columns are not in it."""
        every = [one for found in self.columns.values() for one in found.values()]
        within = max((one.within or 0.0 for one in every if isinstance(one, NumberSummary)), default=0.0)
        error = f" (quartiles: rank error at most {100 * within:.2g} %)" if within else ""
        left_out = f". Not described: {', '.join(self.left_out)}" if self.left_out else ""
        return f"Description of the rows{error}{left_out}"

    def to_frame(self) -> pd.DataFrame:
        """Return the cells of ``table``.

        Returns
        -------
        pandas.DataFrame
            The cells, as texts.

        Examples
        --------
        >>> found.to_frame().loc["sex = f", "all"]
        '15 (50.0 %)'
        """
        return self.table().to_frame()

    def to_latex(self) -> str:
        """Return ``table`` as LaTeX, for the package booktabs.

        Returns
        -------
        str
            A ``table``.

        Examples
        --------
        >>> "sex = f & 15" in found.to_latex()
        True
        """
        return self.table().to_latex()

    def to_html(self) -> str:
        """Return ``table`` as HTML, with small histograms of the numbers below it.

        Returns
        -------
        str
            A ``table`` without a style, and an ``svg`` for each column of numbers.

        Examples
        --------
        >>> found.to_html().count("<svg")
        1
        """
        drawn = [(c, one.histogram) for c, found in self.columns.items()
                 if isinstance(one := found[EVERYONE], NumberSummary) and one.histogram]  # fmt: skip
        return self.table().to_html() + "".join(f"{bars(column, bins)}\n" for column, bins in drawn)

    def plain(self) -> dict[str, Any]:
        """Return the description in JSON's types.

        Returns
        -------
        dict[str, Any]
            What ``dsba describe --json`` prints.

        Examples
        --------
        >>> sorted(found.plain())
        ['columns', 'differences', 'left_out', 'rows', 'signs']
        """
        columns = {c: {stratum: _plain(one) for stratum, one in found.items()} for c, found in self.columns.items()}
        lists = {"signs": list(self.signs), "left_out": list(self.left_out)}
        return {"rows": self.rows, "columns": columns, "differences": self.differences, **lists}

    def __str__(self) -> str:
        return "\n".join([str(self.table()), *(f"Look at this: {sign}" for sign in self.signs)])

    __repr__ = __str__  # what an interactive session shows

    def _repr_html_(self) -> str:
        return self.to_html() + "".join(f"<p>Look at this: {html.escape(sign)}</p>" for sign in self.signs)

    def _count(self, count: int | None) -> str:
        return HIDDEN if count is None else f"{count:,}"

    def _lines(self, column: str, found: Sequence[Any]) -> list[tuple[str, list[str]]]:
        if isinstance(found[0], NumberSummary):
            lines = [
                (f"{column}, mean (sd)", [_cell(one.mean, one.sd) for one in found]),
                (f"{column}, median (quartiles)", [_middle(one.quartiles) for one in found]),
            ]
        else:
            lines = [(f"{column} = {_visible(level)}", [self._share(one, level) for one in found])
                     for level in found[0].counts]  # fmt: skip
        if any(one.missing != 0 for one in found):
            lines.append((f"{column}, missing", [self._count(one.missing) for one in found]))
        return lines

    def _share(self, one: FactorSummary, level: Level) -> str:
        count = one.counts[level]
        percent = f" ({100.0 * count / one.n:.1f} %)" if count is not None and one.n else ""
        return self._count(count) + percent


def _plain(one: NumberSummary | FactorSummary) -> dict[str, Any]:
    known = one._asdict()
    return known | {"histogram": [b._asdict() for b in known["histogram"]]} if known.get("histogram") else known


def _visible(level: Level) -> str:
    """A level; one with spaces or signs that are not seen stands in quotes."""
    text = str(level)
    return text if text.isprintable() and text == " ".join(text.split()) else repr(text)


def _cell(value: float | None, spread: float | None) -> str:
    return "" if value is None or spread is None else f"{figures(value)} ({figures(spread, 3)})"


def _middle(quartiles: tuple[float, ...] | None) -> str:
    return "" if quartiles is None else "{1} ({0} to {2})".format(*map(figures, quartiles))
