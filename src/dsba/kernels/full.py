"""EXTRA in two fused parts: the mixing by blocks of columns, the data by nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dsba.kernels.samples import visit

COLUMNS = 256  # a block of columns of all nodes that stays in cache


@njit(cache=True, nogil=True)
def extra_mix(lo: int, hi: int, mixing: Any, shrink: Any, Z: Any, P: Any, out: Any) -> None:
    """On columns lo..hi-1, with D = (W~ - W) Z:  out <- W Z - P - alpha lam Z,  P <- P + D.

    ``shrink`` is alpha lam per column. D = Z - W~ Z is summed from differences, as in ``mix_block``.
    """
    indptr, nodes, weights = mixing
    D = np.empty((Z.shape[0], COLUMNS))
    for first in range(lo, hi, COLUMNS):
        last = min(first + COLUMNS, hi)
        D[:] = 0.0
        for n in range(Z.shape[0]):
            for e in range(indptr[n], indptr[n + 1]):
                if nodes[e] > n:  # each edge once, for both its ends
                    _meet(weights[e], Z[n, first:last], Z[nodes[e], first:last], D[n], D[nodes[e]])
        for n in range(Z.shape[0]):
            for j in range(first, last):
                d = D[n, j - first]
                out[n, j] = Z[n, j] - 2.0 * d - P[n, j] - shrink[j] * Z[n, j]
                P[n, j] += d


@njit(cache=True)
def _meet(w: float, z: Any, other: Any, D: Any, D_other: Any) -> None:
    for j in range(z.size):
        d = w * (z[j] - other[j])
        D[j] += d
        D_other[j] -= d


@njit(cache=True, nogil=True)
def extra_data(
    lo: int, hi: int, op: Any, A: Any, y: Any, weight: Any, start: Any, k: int, alpha: float, Z: Any, out: Any
) -> None:
    """out_n <- out_n - alpha (1/q_n) sum_i weight_i A_i' g(A_i z_n), one sweep over the data of nodes lo..hi-1."""
    indptr, indices, data = A
    u, g = np.empty(k), np.empty(k)
    for n in range(lo, hi):
        z, row = Z[n], out[n]
        for i in range(start[n], start[n + 1]):
            scale = -alpha * weight[i] / (start[n + 1] - start[n])
            visit(op, indptr, indices, data, i * k, y[i], scale, z, u, g, row)
