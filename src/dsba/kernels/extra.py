"""EXTRA's mixing in one sweep over blocks of columns, and whole iterations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dsba.kernels.samples import add_operator_rows

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
            _settle(D[n], shrink[first:last], Z[n, first:last], P[n, first:last], out[n, first:last])


@njit(cache=True)
def _meet(w: float, z: Any, other: Any, D: Any, D_other: Any) -> None:
    for j in range(z.size):
        d = w * (z[j] - other[j])
        D[j] += d
        D_other[j] -= d


@njit(cache=True)
def _settle(D: Any, shrink: Any, z: Any, p: Any, out: Any) -> None:
    for j in range(z.size):
        out[j] = z[j] - 2.0 * D[j] - p[j] - shrink[j] * z[j]
        p[j] += D[j]


@njit(cache=True, nogil=True)
def extra_iterations(count: int, mixing: Any, alpha: float, shrink: Any, data: Any, Z: Any, P: Any, out: Any) -> None:
    """Iterations from Z to ``out`` and from there to Z, and so on.

    Every other one goes through the nodes backwards: what was read last is still in cache.
    """
    for t in range(count):
        extra_mix(0, Z.shape[1], mixing, shrink, Z, P, out)
        add_operator_rows(0, Z.shape[0], *data, -alpha, Z, out, t % 2 == 1)
        Z, out = out, Z
