"""Sums over neighbours, in node order, so that every transport gives the same bits."""

from typing import Any

from dsba.kernels.cache import njit, part

COLUMNS = 512  # a block of columns that stays in cache while the rows of all nodes are mixed


@part()
def mix_row(mixing: Any, n: int, Z: Any, first: int, last: int, out: Any) -> None:
    """out <- z_n + sum_m weight_nm (z_m - z_n) on columns first..last-1.

    Written with differences, as sum_m weight_nm z_m would let the nodes' mean drift: in floating
    point the weights do not sum to one, and over many iterations that bias is what one sees.
    """
    indptr, nodes, weights = mixing
    for j in range(first, last):  # the assignment of a slice takes seconds to compile
        out[j] = Z[n, j]
    for e in range(indptr[n], indptr[n + 1]):
        w, m = weights[e], nodes[e]
        if m != n:
            for j in range(first, last):
                out[j] += w * (Z[m, j] - Z[n, j])


@part()
def difference_row(mixing: Any, n: int, Z: Any, first: int, last: int, out: Any) -> None:
    """out <- sum_m weight_nm (z_n - z_m) on columns first..last-1; ``out`` has only these."""
    indptr, nodes, weights = mixing
    for j in range(last - first):
        out[j] = 0.0
    for e in range(indptr[n], indptr[n + 1]):
        w, m = weights[e], nodes[e]
        if m != n:
            for j in range(first, last):
                out[j - first] += w * (Z[n, j] - Z[m, j])


@njit(cache=True)
def difference_rows(mixing: Any, Z: Any, out: Any) -> None:
    """out_n <- sum_m weight_nm (z_n - z_m): (I - W~) Z for the weights of W~, L_G Z for weights of one."""
    for first in range(0, Z.shape[1], COLUMNS):
        last = min(first + COLUMNS, Z.shape[1])
        for n in range(out.shape[0]):
            difference_row(mixing, n, Z, first, last, out[n, first:last])


@njit(cache=True)
def mix_rows(mixing: Any, Z: Any, out: Any) -> None:
    """out <- W~ Z."""
    for first in range(0, Z.shape[1], COLUMNS):
        for n in range(out.shape[0]):
            mix_row(mixing, n, Z, first, min(first + COLUMNS, Z.shape[1]), out[n])
