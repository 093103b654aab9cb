"""Functions that single out a row, found before any number of theirs is summed.

The mean of exp(-1000 (age - 32)^2) crp tells crp of a person aged 32, and so would a count of rows by its magnitude. So
a site counts rows by the square of how far they are from its median, in intervals of a factor of 16, and tells of those
with at least k of its rows (k: the rows that a cell must have). If a row makes up more than the limit of the others'
least squares and of the site's own, all rows are counted, and if it still does, the run ends.

Where no two sites have k rows away from the median, the sites count these rows. All that may show few rows is asked of
one function after the other, and the first one that does ends the run: many functions would spell a value of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dsba.errors import NetworkError
from dsba.fitting.disclosure import DERIVED, Guards
from dsba.fitting.rows import finite_largest
from dsba.network import Group, counted
from dsba.tables.schema import end_together, few_apart
from dsba.types import Array, Flags, Integers

MAGNITUDES = 64  # powers of two below the largest square that is counted
WIDE_INTERVAL = 4  # powers of two in an interval that tells of no few rows
LEAST_MAGNITUDE = -2400  # below every magnitude


def peak_sums(names: int) -> list[int]:
    """The numbers in the questions about so many functions, one of which is asked again, as sums of these sizes."""
    return [names, (MAGNITUDES + 1) * names, 1, MAGNITUDES + 1, 1]


def require_spread(
    names: Sequence[str], functions: Sequence[Array], sites: Sequence[str], limits: Guards, group: Group
) -> list[str]:
    """Between processes an error at all of them if a row of any site makes up most of a function.

    ``functions`` has one matrix for each site here, a column for each name. One process asks as well, so that a model
    has the same rounds on every network, and gets the sentences.
    """
    if not names or limits.dominance >= 1.0:
        return []
    found, some = peak_complaints(names, functions, sites, limits, group)
    if some:
        end_together(group, next(iter(found), None) if group.size > 1 else None)
    return found


def peak_complaints(
    names: Sequence[str], functions: Sequence[Array], sites: Sequence[str], limits: Guards, group: Group
) -> tuple[list[str], bool]:
    """Sentences about functions of which a row here makes up most, or by which a site could single out few rows.

    And whether any process may have such a sentence.
    """
    few = max(1, limits.rows_per_level)
    far = [np.abs(X - np.median(X, axis=0)) if len(X) else X for X in functions]
    asked = _Histograms.of(far, few, WIDE_INTERVAL, group)
    found = few_apart(names, asked.apart, asked.sites_with, sites, limits, group)
    if limits.dominance >= 1.0:
        return found, True
    suspect, at = [bool(found), *np.any(asked.above(far, limits), axis=0).tolist()], -1
    while 0 < (at := _first_of(suspect, at + 1, group)) <= len(names):
        one = [X[:, [at - 1]] for X in far]
        above = _Histograms.of(one, 1, 1, group).above(one, limits)
        if any(counted(group, above.astype(np.float64))):
            held = zip(sites, above, strict=True)
            return [limits.dominated(site, [names[at - 1]]) for site, over in held if over], True
    return found, at == 0


class _Histograms(NamedTuple):
    """The rows of functions by magnitude, in intervals of a width; those with few rows of a site are left out."""

    top: Integers
    """The largest magnitude that is counted, of each function."""
    own: Array
    """The histograms of each site here."""
    total: Array
    """Those of all sites together."""
    apart: Array
    """Of each site here, how many rows are away from the median."""
    sites_with: Array
    """How many sites have enough of these."""

    @classmethod
    def of(cls, far: Sequence[Array], few: int, width: int, group: Group) -> _Histograms:
        places = [_magnitudes(X) // width * width for X in far]
        largest = np.array([[_largest(column, few) for column in M.T] for M in places])
        top = finite_largest(group, largest.max(axis=0).astype(np.float64)).astype(np.int64)
        own = np.array([[_histogram(column, few) for column in (top - M).T] for M in places])
        bound = np.maximum(top - MAGNITUDES, LEAST_MAGNITUDE)
        apart = np.array([np.count_nonzero(_magnitudes(X) > bound, axis=0) for X in far])
        numbers = np.concatenate([own, apart[:, :, None] >= few], axis=2).astype(np.float64)
        total = np.reshape(counted(group, numbers.reshape(len(far), -1)), numbers.shape[1:])
        return cls(top, own, total[:, :-1], apart, total[:, -1])

    def above(self, far: Sequence[Array], limits: Guards) -> Flags:
        """Of each site here and function, whether a row makes up more than the limit of all squares that are known."""
        found = []
        for X, own in zip(far, self.own, strict=True):
            unit = np.maximum(self.top, _magnitudes(X).max(axis=0, initial=LEAST_MAGNITUDE)) // 2
            squares = np.ldexp(X, -unit) ** 2
            others = (self.total - own) @ 0.5 ** np.arange(MAGNITUDES)
            spread = squares.sum(axis=0) + np.ldexp(2.0 * others, self.top - 2 * unit)
            found.append(squares.max(axis=0, initial=0.0) > limits.dominance * DERIVED * spread)
        return np.array(found)


def _first_of(flags: Sequence[bool], start: int, group: Group) -> int:
    """The first place from ``start`` on that has a flag at any process; their number if there is none."""
    own = next((j for j in range(start, len(flags)) if flags[j]), len(flags))
    first = -int(finite_largest(group, np.array([-float(own)]))[0])
    if not start <= first <= len(flags):  # which would pass over a place of this process
        raise NetworkError("the next function to ask about is none of them: another process sent a wrong place.")
    return first


def _magnitudes(X: Array) -> Integers:
    """The powers of two below the squares."""
    return np.floor(2.0 * np.log2(X, out=np.full_like(X, LEAST_MAGNITUDE / 2.0), where=X > 0.0)).astype(np.int64)


def _largest(magnitudes: Integers, few: int) -> int:
    values, rows = np.unique(magnitudes, return_counts=True)
    return int(values[rows >= few].max(initial=LEAST_MAGNITUDE))


def _histogram(below: Integers, few: int) -> Array:
    """Rows by how far their magnitude is below the largest."""
    rows = np.bincount(below[(below >= 0) & (below < MAGNITUDES)], minlength=MAGNITUDES)
    return np.where(rows >= few, rows, 0)
