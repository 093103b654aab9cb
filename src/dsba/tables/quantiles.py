"""Quantiles over all sites from counts in bins, so that no value of a row is told.

The numbers of float64 have an order that whole numbers of 64 bits share (``_keys``). A search begins with all of them
as one interval. In each round every site counts its rows in 64 parts of the interval, and the counts are added. Parts
with too few rows join their neighbours. The group that holds the rank is the next interval, and of it the part with
most rows is parted next. The search ends where nine digits are known, at 0.1 % of the rows, or where every part would
have too few rows. Of the numbers with the same nine digits it gives the one that is shortest to write, which is the
one that was recorded.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dsba.errors import NetworkError
from dsba.network.contract import require_counts
from dsba.types import Array, Words

INTERVAL_PARTS = 64  # of an interval in each round
NINE_DIGITS = 1 << 22  # keys: of the 52 bits of a fraction 30 are then known
RANK_ERROR = 0.001  # of all rows: fine enough
SIGN = 1 << 63
HIGHEST_KEY = (1 << 64) - 1


class Quantile(NamedTuple):
    """A number near the quantile; the share of all rows between them is ``within`` at most.

    Numbers that agree in nine digits count as the same.
    """

    value: float
    within: float


@dataclass
class _Search:
    """The interval [low, high) of keys that holds the row of a rank, the rows below it and the rows in it.

    [near, far) is the part of it with most rows, ``held`` of them. It is parted further: a few rows far from all others
    stay in the interval, and do not keep the search from the others.
    """

    rank: int
    rows: int
    held: int
    low: int = 0
    high: int = HIGHEST_KEY
    below: int = 0
    near: int = 0
    far: int = HIGHEST_KEY
    done: bool = False

    @property
    def edges(self) -> list[int]:
        width = self.far - self.near
        parts = (self.near + width * k // INTERVAL_PARTS for k in range(INTERVAL_PARTS + 1))
        return sorted({self.low, self.high, *parts})

    def narrow(self, counts: Sequence[int], few: int, total: int) -> None:
        """Go on with the group of parts that holds the rank."""
        if sum(counts) != self.rows:
            raise NetworkError("an interval has other rows than its parts: another process sent a wrong count.")
        edges, before = self.edges, self.below
        for first, last in large_groups(counts, few):
            rows = sum(counts[first : last + 1])
            if self.rank <= before + rows:
                break
            before += rows
        self.low, self.high, self.below, self.rows = edges[first], edges[last + 1], before, rows
        most = max(range(first, last + 1), key=lambda part: counts[part])
        if counts[most] >= few:
            self.near, self.far, self.held = edges[most], edges[most + 1], counts[most]
            self.done = self.far - self.near <= NINE_DIGITS or rows <= RANK_ERROR * total
        else:  # a part of it would have too few rows
            self.near, self.far, self.held, self.done = self.low, self.high, rows, True

    def found(self, total: int) -> Quantile:
        near, far = _number(self.near), _number(self.far)
        if self.far - self.near <= NINE_DIGITS:
            return Quantile(_shortest(near, far), (self.rows - self.held) / total)
        return Quantile(0.5 * (near + far), self.rows / total)


def quantile_search(
    columns: Sequence[Array], probabilities: Sequence[float], few: int
) -> Generator[Array, Array, list[Quantile] | None]:
    """Quantiles of a column that has a part at each site here; None if fewer than ``few`` rows have a value.

    It is a search whose counts others may share (``together.py``). All quantiles are found in the same counts.
    """
    keys = [np.sort(_keys(values[np.isfinite(values)])) for values in columns]
    (total,) = require_counts((yield np.array([[len(own)] for own in keys], np.float64)))
    if total < max(few, 1):
        return None
    searches = [_Search(max(1, math.ceil(p * total)), total, total) for p in probabilities]
    while active := [search for search in searches if not search.done]:
        edges = [np.array(search.edges, np.uint64) for search in active]
        own = [np.concatenate([np.diff(np.searchsorted(site, between)) for between in edges]) for site in keys]
        counts = iter(require_counts((yield np.array(own, np.float64))))
        for search, between in zip(active, edges, strict=True):
            search.narrow([next(counts) for _ in between[1:]], max(few, 1), total)
    return [search.found(total) for search in searches]


def large_groups(counts: Sequence[int], few: int) -> list[tuple[int, int]]:
    """The first and last part of groups with at least ``few`` rows each, without the empty parts around them."""
    groups: list[tuple[int, int]] = []
    first, rows, last = -1, 0, -1
    for part, count in enumerate(counts):
        if not count:
            continue
        first, last, rows = (part if first < 0 else first), part, rows + count
        if rows >= few:
            groups.append((first, last))
            first, rows = -1, 0
    if first >= 0:  # too few are left for a group of their own
        groups[-1] = (groups[-1][0], last)
    return groups


def _shortest(low: float, high: float) -> float:
    """The number with the fewest decimal digits that is at least ``low`` and below ``high``."""
    middle = 0.5 * low + 0.5 * high
    digits = (float(f"{middle:.{count}e}") for count in range(17))
    return 0.0 if low <= 0.0 < high else next((x for x in digits if low <= x < high), low)


def _keys(values: Array) -> Words:
    """Whole numbers in the order of the values."""
    bits = (values + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    return np.where(bits >= SIGN, ~bits, bits | np.uint64(SIGN))


def _number(key: int) -> float:
    """The value with this key; infinite ones become the largest number."""
    bits = key - SIGN if key >= SIGN else HIGHEST_KEY - key
    found = float(np.array(bits, np.uint64).view(np.float64))
    return float(np.nan_to_num(found, nan=math.copysign(np.finfo(np.float64).max, key - SIGN)))
