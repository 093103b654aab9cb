"""Functions that single out a row, found before any number of theirs is summed.

The mean of exp(-1000 (age - 32)^2) crp tells crp of a person aged 32. So the sites first count rows by the magnitude of
a function: the square of how far each is from the site's median, in powers of two below the largest of all sites. The
counts bound the squares of the others from above. A row that makes up more than the limit of this and of the site's own
squares ends the run, and so do fewer rows than a cell must have that are away from the median at the other sites.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dsba.fitting.disclosure import DERIVED, Guards
from dsba.fitting.rows import finite_largest
from dsba.network import Group, counted
from dsba.tables.schema import end_together
from dsba.types import Array

MAGNITUDES = 64  # powers of two below the largest square; smaller ones are counted together


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
    """Sentences about functions of which a row here makes up most, or by which a site here could single out others'."""
    far = [np.abs(X - np.median(X, axis=0)) if len(X) else X for X in functions]
    largest = np.array([X.max(axis=0, initial=0.0) for X in far])
    top = finite_largest(group, np.frexp(largest.max(axis=0))[1].astype(np.float64))
    squares = [np.ldexp(X, -top.astype(np.int64)) ** 2 for X in far]  # below 1
    places = [np.where(X > 0.0, np.minimum(-np.frexp(X)[1], MAGNITUDES), MAGNITUDES) for X in squares]
    own = [np.array([np.bincount(at, minlength=MAGNITUDES + 1) for at in one.T]) for one in places]
    total = np.array(counted(group, np.array([one.ravel() for one in own], np.float64))).reshape(len(names), -1)
    found = list[str]()
    for site, X, counts in zip(sites, squares, own, strict=True):
        spread = X.sum(axis=0) + (total - counts) @ 0.5 ** np.arange(MAGNITUDES + 1.0)
        above = X.max(axis=0, initial=0.0) > limits.dominance * DERIVED * spread
        if above.any() and limits.dominance < 1.0:
            found.append(limits.dominated(site, [name for name, over in zip(names, above, strict=True) if over]))
    apart = np.array([one[:, :MAGNITUDES].sum(axis=1) for one in own])
    return found + limits.few_elsewhere(sites, names, apart, total[:, :MAGNITUDES].sum(axis=1))
