"""The one Newton iteration of table models, by exact sums.

Every process solves for the step by itself from the same sums. The elimination is made of single operations of IEEE
arithmetic, so that all processors come to the same bits and no step is told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dsba.algorithms.newton import INFORMATION, solved
from dsba.errors import FitError, InputError
from dsba.network import Group
from dsba.solvers.exact import dot, eliminated
from dsba.solvers.newton import falls
from dsba.tables.models.base import NOT_DETERMINED, Design, LikelihoodTerms, TableModel
from dsba.types import Array

if TYPE_CHECKING:
    from dsba.tables.disclosure import ModelWatch


MOST_STEPS = 60
MOST_HALVINGS = 40
WITHHELD_HALVINGS = 2  # lengths 1 and 1/2 may be too long for a watch; if 1/4 also is, it ends the run
LAST_DECREMENT = 1e-11  # a Newton step this short, in standard errors, is not made
STALLED_DECREMENT = 1e-7  # a step this short that is hardly shorter than the step before is rounding
NO_CURVATURE = 1e-3  # near a maximum steps below this, in standard errors, shrink fast
SLOW_SHARE = 0.3  # a step that is longer than this share of the step before, and than LONG_STEP, leads to infinity
LONG_STEP = 0.01  # in standard deviations of a column
NO_START = (
    "the likelihood cannot be summed where all coefficients are 0: the offsets or the weights of some rows are too "
    "large, or differ by too many powers of ten."
)


class Maximum(NamedTuple):
    """The parameters that maximise a likelihood, and what is known there."""

    params: Array
    terms: LikelihoodTerms
    steps: tuple[float, ...]
    """The lengths of the Newton steps in standard errors, the last one not made."""
    converged: bool
    first: float
    """The log-likelihood at the start."""


def maximised(
    model: TableModel, samples: Sequence[Design], start: Array, group: Group, watch: ModelWatch | None = None,
    dispersion: float = 1.0,
) -> Maximum:  # fmt: skip
    """Newton's iteration from ``start``; a ``FitError`` names the columns that the rows do not determine.

    The step is taken with the observed information, or with the expected one where the observed is not positive.
    ``watch`` is asked before a part of a step is sent, and once more at the end. Standard errors are measured with
    about this ``dispersion``.
    """
    held = watch is not None and watch.holds
    rows = [withheld(s) for s in samples] if held else samples
    z, terms, lengths = start, _terms(model, rows, start, group), [math.inf]
    if not np.isfinite(terms.llf):
        if watch is not None:
            watch.end()
        raise InputError(NO_START)
    first = terms.llf
    for _ in range(MOST_STEPS):
        step = _direction(model, terms)
        length = math.sqrt(max(dot(step, terms.score), 0.0) / dispersion)
        near = length <= LAST_DECREMENT or (length <= STALLED_DECREMENT and length > 0.5 * lengths[-1])
        _require_end(model, z, step, length, lengths[-1])
        lengths.append(length)
        further = None if near else _halved(model, samples, z, model.shortened(step), terms, group, watch)
        if further is None:
            break
        z, terms = further
    if watch is not None:
        watch(z, z, terms)
        watch.end()
    return Maximum(z, terms, tuple(lengths[1:]), near, first)


def inverse(H: Array, columns: int) -> Array:
    """The inverse of an information matrix; a ``FitError`` names the dependent ones among its first columns."""
    found = eliminated(H, np.eye(len(H)))
    if found is None:
        raise not_determined(H, columns)
    return found


def not_determined(H: Array, columns: int, sentence: str = NOT_DETERMINED) -> FitError:
    flat = solved(H, np.eye(len(H)))[1]
    return FitError(sentence, range(columns) if flat is None else np.flatnonzero(flat))


def _direction(model: TableModel, terms: LikelihoodTerms) -> Array:
    for matrix in (terms.observed, terms.expected):
        if (step := eliminated(matrix, terms.score[:, None])) is not None:
            return step[:, 0]
    raise not_determined(terms.expected, terms.score.size, model.undetermined)


def _require_end(model: TableModel, z: Array, step: Array, length: float, before: float) -> None:
    """An error if the likelihood rises for ever in a direction: its curvature vanishes, and steps stay long.

    Along such a direction every step leaves about 0.6 of the length, where steps to a maximum leave its square.
    """
    if sentence := model.complaint(z):
        raise InputError(sentence)
    moves = np.abs(step[: z.size - model.nuisance])
    if SLOW_SHARE * before < length < NO_CURVATURE and moves.max(initial=0.0) > LONG_STEP:
        raise FitError(model.endless, np.flatnonzero(moves > 0.1 * moves.max()))


def _halved(
    model: TableModel, samples: Sequence[Design], z: Array, step: Array, terms: LikelihoodTerms, group: Group,
    watch: ModelWatch | None,
) -> tuple[Array, LikelihoodTerms] | None:  # fmt: skip
    """The first of z + d, z + d/2, z + d/4, ... where the likelihood does not fall; None if there is none.

    A process whose watch does not let its part go sends NaN, which makes the whole sum NaN: the step is halved. Of a
    halved step the likelihood is summed first, and matrices only where it does not fall.
    """
    for halvings in range(MOST_HALVINGS):
        trial = z + 0.5**halvings * step
        with np.errstate(all="ignore"):  # a step too far may overflow: it is halved
            held = watch is not None and watch(trial, z, terms)
            rows = [withheld(s) for s in samples] if held else samples
            found = None if halvings else _terms(model, rows, trial, group)
            llf = found.llf if found else model.log_likelihood_at(rows, trial, group)
            if watch is not None and halvings >= WITHHELD_HALVINGS and not np.isfinite(llf):
                watch.end()
            if falls(-llf, -terms.llf):
                found = found or _terms(model, rows, trial, group)
                if np.isfinite(found.observed).all():
                    return trial, found
    return None


def _terms(model: TableModel, samples: Sequence[Design], z: Array, group: Group) -> LikelihoodTerms:
    """The terms of all sites at z."""
    group.about(INFORMATION, z)
    return model.terms(samples, z, group)


def withheld(sample: Design) -> Design:
    """The rows of a site that sends nothing of them: every sum over them is NaN."""
    return sample._replace(weight=np.full_like(sample.weight, np.nan))
