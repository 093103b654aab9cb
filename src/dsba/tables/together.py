"""The questions of several searches, asked in the same sums.

A search is a generator: it yields what this process's sites have to add up, one row a site, and gets the total. All
processes run the same searches, so their questions have the same sizes.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from dsba.network import Group, summed
from dsba.types import Array

FAR = 2.0**-60  # an exact sum keeps all digits of a number that is not below this times the largest one

T = TypeVar("T")


def answered(searches: Sequence[Generator[Array, Array, T]], group: Group) -> list[T]:
    """What each search returns. Together they take as many sums as the longest one."""
    found: dict[int, T] = {}
    totals: dict[int, Any] = dict.fromkeys(range(len(searches)))  # a search begins with None
    while totals:
        asked = {}
        for k, total in sorted(totals.items()):
            try:
                asked[k] = searches[k].send(total)
            except StopIteration as end:
                found[k] = end.value
        totals = _totals(asked, group)
    return [found[k] for k in range(len(searches))]


def _totals(asked: Mapping[int, Array], group: Group) -> dict[int, Array]:
    """The total of each question. One far below the largest would lose digits beside it: it is added up once more."""
    found, left = dict[int, Array](), dict(asked)
    while left:
        ends = np.cumsum([own.shape[1] for own in left.values()])[:-1]
        total = summed(group, np.hstack(list(left.values())))
        near = FAR * np.abs(total).max(initial=0.0)
        pieces = zip(list(left), np.split(total, ends), strict=True)
        kept = {k: piece for k, piece in pieces if np.abs(piece).max(initial=0.0) >= near}
        found |= kept
        left = {k: own for k, own in left.items() if k not in kept}
    return found
