"""Hessians of nodes, sample by sample: the same bits whatever BLAS and however many threads a machine has."""

from typing import Any

from dsba.kernels.cache import njit, part
from dsba.kernels.samples import gapless


@njit(cache=True, nogil=True)
def add_hessians(lo: int, hi: int, A: Any, start: Any, blocks: Any, dim: int, out: Any) -> None:
    """out_n <- out_n + sum_i A_i' blocks_i A_i over the samples of nodes lo..hi-1: the upper triangle, row by row."""
    for n in range(lo, hi):
        for i in range(start[n], start[n + 1]):
            add_sample(A, i, blocks[i], dim, out[n])


@part(nogil=True)
def add_sample(A: Any, i: int, block: Any, dim: int, out: Any) -> None:
    """out <- out + the upper triangle of A_i' block A_i, row by row."""
    k = len(block)
    for c in range(k):
        for other in range(k):
            if block[c, other] != 0.0:
                add_products(A, i * k + c, i * k + other, block[c, other], dim, out)


@part(nogil=True)
def add_products(A: Any, a: int, b: int, scale: float, dim: int, out: Any) -> None:
    """out <- out + scale times the products of row a with row b that lie in the upper triangle."""
    indptr, indices, data = A
    dense = a == b and gapless(indptr, indices, a, dim)
    for e in range(indptr[a], indptr[a + 1]):
        row = indices[e]
        base, factor = row * dim - row * (row + 1) // 2, scale * data[e]
        if dense:
            first = base + row - e
            for f in range(e, indptr[a + 1]):
                out[first + f] += factor * data[f]
        else:
            for f in range(indptr[b], indptr[b + 1]):
                if indices[f] >= row:
                    out[base + indices[f]] += factor * data[f]


@njit(cache=True, nogil=True)
def add_diagonals(lo: int, hi: int, A: Any, start: Any, weights: Any, out: Any) -> None:
    """out_n <- out_n + the diagonal of sum_i A_i' diag(weights_i) A_i over the samples of nodes lo..hi-1."""
    indptr, indices, data = A
    k = weights.shape[1]
    for n in range(lo, hi):
        for i in range(start[n], start[n + 1]):
            for c in range(k):
                for e in range(indptr[i * k + c], indptr[i * k + c + 1]):
                    out[n, indices[e]] += weights[i, c] * data[e] * data[e]
