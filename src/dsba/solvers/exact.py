"""Small systems and lassos by single operations of IEEE arithmetic: every process comes to the same bits by itself."""

from __future__ import annotations

import numpy as np

from dsba.kernels.elimination import descend, eliminate
from dsba.network import exact_sum
from dsba.types import Array

SOLVED_PIVOT = 1e-12  # the share of a column that the columns before it do not explain: below, the system is not solved
SWEEPS, MOST_TRIED_SIGNS = 30, 200  # of coordinate descent before the signs are tried, and how often
NO_MOVE = 1e-15  # of the largest coefficient: a sweep that moves nothing further is the last one


def eliminated(H: Array, R: Array) -> Array | None:
    """x (a matrix) with H x = R for a symmetric H; None if H is not positive definite by a margin."""
    diagonal = H.diagonal()
    if not (np.isfinite(H).all() and (diagonal > 0.0).all()):
        return None
    roots, p = np.sqrt(diagonal), len(H)
    A = np.hstack([H / roots[:, None] / roots, R / roots[:, None]])
    return A[:, p:] / roots[:, None] if eliminate(A, SOLVED_PIVOT) > SOLVED_PIVOT else None


def dot(x: Array, y: Array) -> float:
    """x'y as an exact sum: the same bits on every processor."""
    return float(exact_sum.total((x * y)[:, None])[0]) if x.size else 0.0


def times(H: Array, x: Array) -> Array:
    """H x for a symmetric H, as exact sums."""
    return exact_sum.total(H * x[:, None])


def lasso(H: Array, pull: Array, l1: Array, start: Array) -> Array:
    """The minimum of z'Hz/2 - pull'z + sum l1 |z|: coordinate descent finds the signs, elimination the numbers."""
    z, move = start.copy(), np.inf
    for _ in range(MOST_TRIED_SIGNS):
        exact = _with_signs(H, pull, l1, z)
        if exact is not None or move <= NO_MOVE * np.abs(z).max(initial=0.0):
            return z if exact is None else exact
        move = descend(H, pull - times(H, z), l1, z, SWEEPS)
    return z


def _with_signs(H: Array, pull: Array, l1: Array, z: Array) -> Array | None:
    """The minimum if the signs are those of z; None if they are not, or if a coefficient at 0 would move."""
    active = (z != 0.0) | (l1 == 0.0)
    exact, signs = np.zeros_like(z), np.sign(z)
    solved = eliminated(H[np.ix_(active, active)], (pull - l1 * signs)[active][:, None])
    if solved is None:
        return None
    exact[active] = solved[:, 0]
    slack = np.abs(pull - times(H, exact))[~active] - l1[~active]
    flipped = (np.sign(exact) != signs) & (l1 > 0.0)
    return None if flipped.any() or (slack > 1e-12 * np.abs(pull).max()).any() else exact
