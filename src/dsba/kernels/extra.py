"""EXTRA's mixing, and whole iterations."""

from typing import Any

import numpy as np

from dsba.kernels.cache import njit, part
from dsba.kernels.mixing import COLUMNS
from dsba.kernels.samples import add_operator_rows


@njit(allocates=True, cache=True, nogil=True)
def extra_mix(lo: int, hi: int, mixing: Any, shrink: Any, Z: Any, P: Any, out: Any) -> None:
    """On columns lo..hi-1, with D = (W~ - W) Z:  out <- W Z - P - alpha lam Z,  P <- P + D."""
    D = np.empty(COLUMNS)
    for first in range(lo, hi, COLUMNS):
        for n in range(Z.shape[0]):
            _mix_row(n, (first, min(first + COLUMNS, hi)), mixing, shrink, Z, P, D, out)


@part()
def _mix_row(n: int, columns: Any, mixing: Any, shrink: Any, Z: Any, P: Any, D: Any, out: Any) -> None:
    """``extra_mix`` for node n, ``shrink`` being alpha lam per column. D = Z - W~ Z is summed from differences."""
    lo, hi = columns
    indptr, nodes, weights = mixing
    z, p, row = Z[n, lo:hi], P[n, lo:hi], out[n, lo:hi]
    D[: hi - lo] = 0.0
    for e in range(indptr[n], indptr[n + 1]):
        if nodes[e] != n:
            _pull(weights[e], z, Z[nodes[e], lo:hi], D)
    _settle(D, shrink[lo:hi], z, p, row)


@part()
def _pull(w: float, z: Any, other: Any, D: Any) -> None:
    for j in range(z.size):
        D[j] += w * (z[j] - other[j])


@part()
def _settle(D: Any, shrink: Any, z: Any, p: Any, out: Any) -> None:
    for j in range(z.size):
        out[j] = z[j] - 2.0 * D[j] - p[j] - shrink[j] * z[j]
        p[j] += D[j]


@njit(allocates=True, cache=True, nogil=True)
def extra_iterations(count: int, op: Any, samples: Any, rule: Any, mixing: Any, Z: Any, P: Any, out: Any) -> None:
    """Iterations from Z to ``out`` and from there to Z, and so on, node by node: its rows stay in cache.

    ``rule`` is alpha, and alpha lam per column.

    Every other iteration goes through the nodes backwards: what was read last is still in cache.
    """
    n_nodes, dim = Z.shape
    alpha, shrink = rule
    D = np.empty(dim)
    for t in range(count):
        for m in range(n_nodes):
            n = n_nodes - 1 - m if t % 2 else m
            _mix_row(n, (0, dim), mixing, shrink, Z, P, D, out)
            add_operator_rows(n, n + 1, op, samples, -alpha, Z, out)
        Z, out = out, Z
