"""Intervals of a scale on which several sites may count rows: none has few rows of any kind, in all or at the others.

One sum over the sites tells of all intervals between candidates at how many sites each has enough rows and, by random
words, whether any site has one. No smaller count is told. So in an interval that is kept no site has a row of a kind,
or at least two sites have ``few`` each: the total, also without any one site, is 0 or at least ``few``.
"""

from __future__ import annotations

import numpy as np

from dsba.types import Array, Flags, Integers

RANDOM_WORDS = 1 << 10  # random words are below; numbers in the same sum keep their digits


def interval_numbers(places: Integers, marked: Flags, m: int, few: int) -> Array:
    """What one site adds. Its rows lie in ``places`` 0 to m - 1; ``marked`` has a column for each kind of rows."""
    start, end = np.triu_indices(m + 1, 1)
    counts = np.zeros((marked.shape[1], m + 1))
    np.add.at(counts.T, places + 1, marked.astype(np.float64))
    before = np.cumsum(counts, axis=1)
    between = before[:, end] - before[:, start]
    words = np.where(between > 0, np.random.default_rng().integers(1, RANDOM_WORDS, between.shape), 0)
    return np.concatenate([(between >= few).ravel(), words.ravel()]).astype(np.float64)


def finest_starts(total: Array, m: int) -> list[int]:
    """The first places of the finest intervals, from the left; empty if there are none. The last has the rest."""
    start, end = np.triu_indices(m + 1, 1)
    many, some = total.reshape(2, -1, len(start))
    fits = np.zeros((m + 1, m + 1), bool)
    fits[start, end] = ((many >= 2) | (some == 0)).all(axis=0) & (many >= 2).any(axis=0)
    starts = [0]
    for last in range(1, m):
        if fits[starts[-1], last]:
            starts.append(last)
    while starts and not fits[starts[-1], m]:
        starts.pop()
    return starts
