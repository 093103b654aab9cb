"""The dual form of DSBA and DSA (``algorithms/dsba/dual.py``): what an iteration does after the rows were exchanged."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dsba.kernels.cache import njit, part
from dsba.kernels.dense import component_delta, component_range, read_component
from dsba.types import Array


class DualRows(NamedTuple):
    """Stacked rows: the iterates, the dual rows, and the means of the tables."""

    Z: Array
    Y: Array
    mean: Array
    scores: Array  # of the samples of all nodes here, at their last visit


@part()
def _land(rule: Any, lam: float, rows: Any, n: int, apart: Any) -> None:
    """Row n without its component: z <- z - r (d + alpha (y + mean + lam z)), y <- y + d/(2 alpha).

    ``apart`` is d/2, and r is 1 - s: as an increment of z, so that a fixed point stays one in floating point.
    """
    z, y, mean, alpha = rows.Z[n], rows.Y[n], rows.mean[n], rule.alpha
    for first, last, pull, s in ((0, rule.n_regular, lam, rule.coef[0]), (rule.n_regular, z.size, 0.0, 0.0)):
        for j in range(first, last):
            gain = 2.0 * apart[j] + alpha * (y[j] + mean[j] + pull * z[j])
            y[j] += apart[j] / alpha
            z[j] -= gain - s * gain


@part()
def _add_component(A: Any, lo: int, hi: int, delta: Any, rule: Any, share: float, rows: Any, n: int) -> None:
    """Row n takes in the change A' delta of its samples lo..hi-1; ``share`` is 1/q."""
    (indptr, indices, data), (Z, _, mean, _) = A, rows
    k = delta.size // (hi - lo)
    for row in range(lo * k, hi * k):
        for e in range(indptr[row], indptr[row + 1]):
            j, change = indices[e], delta[row - lo * k] * data[e]
            Z[n, j] -= rule.alpha * (1.0 - rule.shrink[j]) * change
            mean[n, j] += share * change


@njit(allocates=True, cache=True)
def finish_dual(op: Any, components: Any, lam: float, drawn: Any, rows: Any, phi: Any, apart: Any) -> None:
    """One iteration after the rows were exchanged: ``apart`` is (I - W~) Z. All of a node before the next one."""
    rule, samples, first, largest, batches = components
    V, g = np.empty((1, largest, phi.shape[1])), np.empty((largest, phi.shape[1]))
    delta = np.empty(g.size)
    for n in range(drawn.size):
        S = first[n] + drawn[n]
        lo, hi = component_range(batches, S)
        if not rule.backward:
            read_component(samples.A, batches, S, rows.Z[n], V, 0)
        _land(rule, lam, rows, n, apart[n])
        if rule.backward:
            read_component(samples.A, batches, S, rows.Z[n], V, 0)
        component_delta(op, rule, samples, batches, S, (V[0], g), phi, delta)
        for i in range(lo, hi):
            for c in range(phi.shape[1]):
                rows.scores[i, c] = V[0, i - lo, c]
        change = delta[: (hi - lo) * phi.shape[1]]
        _add_component(samples.A, lo, hi, change, rule, 1.0 / (first[n + 1] - first[n]), rows, n)
