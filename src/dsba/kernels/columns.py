"""The lazy form with many nodes: column after column.

With a thousand nodes a column has 16 kB, and the columns of one sample do not fit into cache. So the samples of an
iteration are taken together and turned into columns. A column is moved once and read by all nodes that touch it; when
all changes are known it gets all of them. This is what ``modes.py`` does sample after sample, with the sums in another
order, and columns are independent of each other, so that threads can share them.
"""

from typing import Any, NamedTuple

import numpy as np

from dsba.kernels.cache import njit, part
from dsba.kernels.dense import sample_delta
from dsba.kernels.modes import column_at, effects_at, group_of, move_column
from dsba.kernels.simd import add_modes, read_modes, width_of
from dsba.types import Array, Indices

PIECES = 64  # of an iteration's columns, about equal; sums over a piece are added piece by piece


class Touched(NamedTuple):
    """The entries of an iteration's samples, column after column."""

    columns: Indices  # positions
    starts: Indices  # where each column's entries begin, and where the last one's end
    rows: Indices  # node times k plus the row of its block
    values: Array
    pieces: Indices  # where each piece of the columns begins, and where the last one ends


@part()
def _count_columns(A: Any, first: Any, k: int, place: Any, columns: Any, starts: Any) -> int:
    """columns <- the columns in the order of their first entry; starts_f+1 <- the entries of column f.

    ``place`` has -1 everywhere; it becomes the number that each column got here.
    """
    indptr, indices, _ = A
    found = 0
    for n in range(first.size):
        for e in range(indptr[first[n]], indptr[first[n] + k]):
            j = indices[e]
            if place[j] < 0:
                place[j], columns[found], starts[found + 1] = found, j, 0
                found += 1
            starts[place[j] + 1] += 1
    return found


@njit(allocates=True, cache=True)
def turn(A: Any, first: Any, k: int, place: Any) -> Any:
    """The blocks of k rows that begin at ``first``, as columns. ``place`` has -1 for every column, before and after."""
    indptr, indices, data = A
    size = 0
    for n in range(first.size):
        size += indptr[first[n] + k] - indptr[first[n]]
    columns, starts = np.empty(size, np.int64), np.zeros(size + 1, np.int64)
    found = _count_columns(A, first, k, place, columns, starts)
    for f in range(found):
        starts[f + 1] += starts[f]
    rows, values, next_ = np.empty(size, np.int64), np.empty(size), starts.copy()
    for n in range(first.size):
        for c in range(k):
            for e in range(indptr[first[n] + c], indptr[first[n] + c + 1]):
                f = place[indices[e]]
                rows[next_[f]], values[next_[f]] = n * k + c, data[e]
                next_[f] += 1
    for f in range(found):
        place[columns[f]] = -1
    wanted = np.arange(PIECES + 1) * size // PIECES
    return Touched(columns, starts[: found + 1], rows, values, np.searchsorted(starts[: found + 1], wanted))


@njit(cache=True, nogil=True)
def read_columns(lo: int, hi: int, plan: Any, state: Any, time: int, touched: Any, k: int, sums: Any) -> None:
    """Pieces lo..hi-1: their columns move to ``time``; sums_piece <- their part of A_i z_n, for every row."""
    width = width_of(plan.lanes, plan.basis.shape[1])
    for piece in range(lo, hi):
        for f in range(touched.pieces[piece], touched.pieces[piece + 1]):
            j = touched.columns[f]
            move_column(plan, state, j, time)
            for e in range(touched.starts[f], touched.starts[f + 1]):
                row = touched.rows[e]
                place = row // k * width
                found = read_modes(state.modes, column_at(j, width), plan.basis, place, (plan.lanes, width))
                sums[piece, row] += touched.values[e] * found


@njit(allocates=True, cache=True)
def change_samples(op: Any, rule: Any, samples: Any, first: Any, sums: Any, phi: Any, delta: Any) -> None:
    """delta_n <- the change of node n's sample, whose block begins at ``first``; its entry of the table changes."""
    k = phi.shape[1]
    b, g = np.empty(k), np.empty(k)
    for n in range(first.size):
        for c in range(k):
            b[c] = 0.0
            for piece in range(sums.shape[0]):
                b[c] += sums[piece, n * k + c]
        i = first[n] // k
        sample_delta(op, rule, samples, i, phi[i], b, g, delta[n])


@njit(cache=True, nogil=True)
def add_columns(lo: int, hi: int, plan: Any, state: Any, time: int, touched: Any, delta: Any) -> None:
    """Pieces lo..hi-1: their columns move to ``time``, and the changes of all nodes are added to them."""
    width, k = width_of(plan.lanes, plan.basis.shape[1]), delta.shape[1]
    for f in range(touched.pieces[lo], touched.pieces[hi]):
        j = touched.columns[f]
        move_column(plan, state, j, time)
        group = group_of(plan.n_regular, j)
        for e in range(touched.starts[f], touched.starts[f + 1]):
            n, c = touched.rows[e] // k, touched.rows[e] % k
            z, v = effects_at(n, group, width)
            x = touched.values[e] * delta[n, c]
            add_modes(state.modes, column_at(j, width), plan.effects, z, v, x, (plan.lanes, width))
