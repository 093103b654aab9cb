"""Quantiles over all sites from counts in bins, so that no value of a row is told.

The numbers of float64 have an order that whole numbers of 64 bits share (``_keys``). A search begins with all of them
as one interval. In each round every site counts its rows in 64 parts of the interval, and the counts are added. Parts
with too few rows join their neighbours. The group that holds the rank is the next interval, and of it the part with
most rows is parted next. The search ends at a single number, at 0.1 % of the rows, or where every part would have too
few rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dsba.network import Group, counted
from dsba.types import Array

INTERVAL_PARTS = 64  # of an interval in each round
RANK_ERROR = 0.001  # of all rows: fine enough
SIGN = 1 << 63
HIGHEST_KEY = (1 << 64) - 1

Keys = npt.NDArray[np.uint64]


class Quantile(NamedTuple):
    """A number near the quantile; the share of all rows between them is ``within`` at most."""

    value: float
    within: float


@dataclass
class _Search:
    """The interval [low, high) of keys that holds the row of a rank, the rows below it and the rows in it.

    [near, far) is the part of it with most rows, ``held`` of them. It is parted further: a few rows far from all others
    stay in the interval, and do not keep the search from the others.
    """

    rank: int
    low: int
    high: int
    below: int
    rows: int
    near: int
    far: int
    held: int
    done: bool = False

    @property
    def edges(self) -> list[int]:
        width = self.far - self.near
        return sorted(
            {self.low, self.high, *(self.near + width * k // INTERVAL_PARTS for k in range(INTERVAL_PARTS + 1))}
        )

    def narrow(self, counts: Sequence[int], few: int, total: int) -> None:
        """Go on with the group of parts that holds the rank."""
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
            self.done = self.far - self.near == 1 or rows <= RANK_ERROR * total
        else:  # a part of it would have too few rows
            self.near, self.far, self.held, self.done = self.low, self.high, rows, True

    def found(self, total: int) -> Quantile:
        if self.far - self.near == 1:
            return Quantile(_number(self.near), (self.rows - self.held) / total)
        return Quantile(0.5 * (_number(self.near) + _number(self.far)), self.rows / total)


def pooled_quantiles(
    columns: Sequence[Array], probabilities: Sequence[float], group: Group, few: int
) -> list[Quantile] | None:
    """Quantiles of a column that has a part at each site here; None if fewer than ``few`` rows have a value."""
    return quantiles_of_several([(columns, probabilities)], group, few)[0]


def quantiles_of_several(
    wanted: Sequence[tuple[Sequence[Array], Sequence[float]]], group: Group, few: int
) -> list[list[Quantile] | None]:
    """The same of several columns with the probabilities of each. One sum adds what is counted in all of them."""
    if not wanted:
        return []
    keys = [[np.sort(_keys(values[np.isfinite(values)])) for values in columns] for columns, _ in wanted]
    totals = counted(group, np.array([[float(len(own)) for own in site] for site in zip(*keys, strict=True)]))
    searches = [
        [_Search(max(1, math.ceil(p * total)), 0, HIGHEST_KEY, 0, total, 0, HIGHEST_KEY, total) for p in probabilities]
        if total >= max(few, 1) else []
        for total, (_, probabilities) in zip(totals, wanted, strict=True)
    ]  # fmt: skip
    while active := [(k, search) for k, column in enumerate(searches) for search in column if not search.done]:
        edges = [(k, search.edges) for k, search in active]
        own = [np.concatenate([_counts(keys[k][n], between) for k, between in edges]) for n in range(len(keys[0]))]
        counts = iter(counted(group, np.array(own, np.float64)))
        for (k, search), (_, between) in zip(active, edges, strict=True):
            search.narrow([next(counts) for _ in between[1:]], max(few, 1), totals[k])
    return [[one.found(total) for one in found] or None for total, found in zip(totals, searches, strict=True)]


def _counts(keys: Keys, edges: Sequence[int]) -> npt.NDArray[np.int64]:
    return np.diff(np.searchsorted(keys, np.array(edges, np.uint64)))


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


def _keys(values: Array) -> Keys:
    """Whole numbers in the order of the values."""
    bits = (values + 0.0).view(np.uint64)  # -0.0 becomes 0.0
    return np.where(bits >= SIGN, ~bits, bits | np.uint64(SIGN))


def _number(key: int) -> float:
    """The value with this key; infinite ones become the largest number."""
    bits = key - SIGN if key >= SIGN else HIGHEST_KEY - key
    found = float(np.array(bits, np.uint64).view(np.float64))
    return float(np.nan_to_num(found, nan=math.copysign(np.finfo(np.float64).max, key - SIGN)))
