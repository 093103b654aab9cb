"""Functions that single out a row, found before any number of theirs is summed.

The mean of exp(-1000 (age - 32)^2) crp tells crp of a person aged 32. So the sites first count rows by the magnitude of
a function: how far each is from the site's median, in powers of two below the largest of all sites. The counts bound
the sum of squares from above. A row that makes up more than the limit of this bound ends the run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dsba.fitting.disclosure import DERIVED, Guards
from dsba.network import Group, counted
from dsba.tables.schema import end_together
from dsba.types import Array

MAGNITUDES = 64  # powers of two below the largest magnitude; smaller ones are counted together


def peak_sums(names: int) -> list[int]:
    """The numbers in the questions about so many functions, as sums of these sizes."""
    return [names, (MAGNITUDES + 1) * names]


def require_spread(
    names: Sequence[str], functions: Sequence[Array], sites: Sequence[str], limits: Guards, group: Group
) -> None:
    """Between processes an error at all of them if a row of any site makes up most of a function.

    ``functions`` has one matrix for each site here, a column for each name. One process asks as well, so that a model
    has the same rounds on every network; what it warns of follows from the moments.
    """
    if not names or limits.dominance >= 1.0:
        return
    far = [np.abs(X - np.median(X, axis=0)) if len(X) else X for X in functions]
    largest = np.array([X.max(axis=0, initial=0.0) for X in far])
    top = group.largest(np.frexp(largest.max(axis=0))[1].astype(np.float64))
    scaled = [np.ldexp(X, -top.astype(np.int64)) for X in far]  # below 1
    places = [np.where(X > 0.0, np.minimum(-np.frexp(X)[1], MAGNITUDES), MAGNITUDES) for X in scaled]
    kept = [np.array([np.bincount(at, minlength=MAGNITUDES + 1) for at in one.T]).ravel() for one in places]
    counts = np.array(counted(group, np.array(kept, np.float64))).reshape(len(names), -1)
    most = limits.dominance * DERIVED * (counts * 0.25 ** np.arange(MAGNITUDES + 1)).sum(axis=1)
    found = [
        limits.dominated(site, [name for name, over in zip(names, above, strict=True) if over])
        for site, X in zip(sites, scaled, strict=True)
        if (above := X.max(axis=0, initial=0.0) ** 2 > most).any()
    ]
    end_together(group, next(iter(found), None) if group.size > 1 else None)
