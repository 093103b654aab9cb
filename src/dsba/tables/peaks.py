"""Functions that single out a row, found before any number of theirs is summed.

The mean of exp(-1000 (age - 32)^2) crp tells crp of a person aged 32, and so would a count of rows by its magnitude. So
a site counts rows by the square of how far they are from its median, in intervals with at least k of its rows (k: the
rows that a cell must have): powers of two, and wider intervals for the rows that are left. Rows that are left then are
not counted. If a row makes up more than the limit of the others' squares and of the site's own, all rows are counted,
and if it still does, the run ends.

Where no two sites have k rows away from the median, the sites count these rows. All that may show few rows is asked of
one function after the other, and the first one that does ends the run: many functions would spell a value of a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dsba.fitting.disclosure import DERIVED, Guards
from dsba.network import Group, counted
from dsba.tables.schema import end_together, few_apart
from dsba.types import Array, Flags

MAGNITUDES = 64  # powers of two below the largest square that is counted
WIDTHS = (1, 2, 4, 8)  # of intervals, in powers of two
LEAST_MAGNITUDE = -2400  # below every magnitude


def peak_sums(names: int) -> list[int]:
    """The numbers in the questions about so many functions, as sums of these sizes."""
    return [names, (MAGNITUDES + 1) * names]


def require_spread(
    names: Sequence[str], functions: Sequence[Array], sites: Sequence[str], limits: Guards, group: Group
) -> list[str]:
    """Between processes an error at all of them if a row of any site makes up most of a function.

    ``functions`` has one matrix for each site here, a column for each name. One process asks as well, so that a model
    has the same rounds on every network, and gets the sentences.
    """
    if not names or limits.dominance >= 1.0:
        return []
    found = peak_complaints(names, functions, sites, limits, group)
    end_together(group, next(iter(found), None) if group.size > 1 else None)
    return found


def peak_complaints(
    names: Sequence[str], functions: Sequence[Array], sites: Sequence[str], limits: Guards, group: Group
) -> list[str]:
    """Sentences about functions of which a row here makes up most, or by which a site could single out few rows."""
    few = max(1, limits.rows_per_level)
    far = [np.abs(X - np.median(X, axis=0)) if len(X) else X for X in functions]
    asked = _Histograms.of(far, few, group)
    found = few_apart(names, np.minimum(asked.apart, few), asked.sites_with, sites, limits, group)
    if limits.dominance >= 1.0:
        return found
    suspect, at = [bool(found), *np.any(asked.above(far, limits), axis=0).tolist()], -1
    while 0 < (at := _first_of(suspect, at + 1, group)) <= len(names):
        one = [X[:, [at - 1]] for X in far]
        above = _Histograms.of(one, 1, group).above(one, limits)
        if any(counted(group, above.astype(np.float64))):
            return [limits.dominated(site, [names[at - 1]]) for site, over in zip(sites, above, strict=True) if over]
    return found


class _Histograms(NamedTuple):
    """The rows of functions by magnitude, those of an interval with few rows left out."""

    top: npt.NDArray[np.int64]
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
    def of(cls, far: Sequence[Array], few: int, group: Group) -> _Histograms:
        told = [[_told(column, few) for column in _magnitudes(X).T] for X in far]
        largest = [[max(places, default=LEAST_MAGNITUDE) for places in columns] for columns in told]
        top = group.largest(np.max(largest, axis=0).astype(np.float64)).astype(np.int64)
        own = np.array([[_counts(places, end) for places, end in zip(one, top, strict=True)] for one in told])
        apart = np.array(
            [np.count_nonzero(_magnitudes(X) > np.maximum(top - MAGNITUDES, LEAST_MAGNITUDE), axis=0) for X in far]
        )
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
    return -int(group.largest(np.array([-float(own)]))[0])


def _magnitudes(X: Array) -> npt.NDArray[np.int64]:
    """The powers of two below the squares."""
    return np.floor(2.0 * np.log2(X, out=np.full_like(X, LEAST_MAGNITUDE / 2.0), where=X > 0.0)).astype(np.int64)


def _told(magnitudes: npt.NDArray[np.int64], few: int) -> dict[int, int]:
    """Of each interval, by its middle, how many rows of a site it has: no fewer than ``few``."""
    left, found = magnitudes[magnitudes > LEAST_MAGNITUDE], dict[int, int]()
    for width in WIDTHS:
        starts, at, counts = np.unique(left // width, return_inverse=True, return_counts=True)
        for start, count in zip(starts[counts >= few].tolist(), counts[counts >= few].tolist(), strict=True):
            place = start * width + width // 2
            found[place] = found.get(place, 0) + count
        left = left[counts[at] < few]
    return found


def _counts(places: Mapping[int, int], top: int) -> Array:
    """As a histogram of the magnitudes below the largest."""
    found = np.zeros(MAGNITUDES)
    for place, count in places.items():
        if place > top - MAGNITUDES:
            found[top - place] += count
    return found
