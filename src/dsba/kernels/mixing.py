"""Sums over neighbours, always in node order, so that every transport gives the same bits."""

from __future__ import annotations

from typing import Any

from numba import njit

COLUMNS = 512  # a block of columns that stays in cache while all nodes meet


@njit(cache=True)
def mix_rows(indptr: Any, nodes: Any, weights: Any, Z: Any, out: Any) -> None:
    """out_n <- sum_m weights_nm z_m."""
    p = Z.shape[1]
    for first in range(0, p, COLUMNS):
        last = min(first + COLUMNS, p)
        for n in range(out.shape[0]):
            for j in range(first, last):
                out[n, j] = 0.0
            for e in range(indptr[n], indptr[n + 1]):
                w, m = weights[e], nodes[e]
                for j in range(first, last):
                    out[n, j] += w * Z[m, j]
