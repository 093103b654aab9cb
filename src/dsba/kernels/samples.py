"""One sample per node, and whole tables, on the stacked blocks A (CSR, k rows a sample)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dsba.kernels.cache import njit, part
from dsba.kernels.simd import LINE_DOUBLES, dot_and_add_lines, prefetch

NONZEROS_AHEAD = 32  # nonzeros
NEXT = 512  # entries of the next row to ask for
AT_ONCE = 64  # samples of a sweep that are read before they are added
KINK = 1e-13  # more than rounding, relative to what is added up
CACHED = 50_000  # a longer vector is not in cache: what its random reads need is asked for ahead


class Samples(NamedTuple):
    """What kernels need of the samples held here."""

    A: tuple[npt.NDArray[np.int64], npt.NDArray[Any], npt.NDArray[np.float64]]  # CSR: indptr, indices, data
    y: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]  # of each sample, c_n included
    start: npt.NDArray[np.int64]  # where each node's samples begin, and where the last one's end
    k: int  # rows of A a sample

    def of_node(self, n: int) -> Samples:
        """Those of one node, and nothing of the others."""
        (indptr, indices, data), k = self.A, self.k
        first, last = self.start[n : n + 2].tolist()
        ends = indptr[first * k : last * k + 1]
        own = slice(ends[0], ends[-1])
        A = (ends - ends[0], indices[own].astype(np.int64), data[own])
        return Samples(A, self.y[first:last], self.weight[first:last], np.array([0, last - first]), k)


@njit(cache=True)
def normalize_rows(indptr: Any, data: Any) -> None:
    """Scale every row to norm 1, empty ones aside; by its largest entry first, so that no square overflows."""
    for i in range(indptr.size - 1):
        largest, total = 0.0, 0.0
        for e in range(indptr[i], indptr[i + 1]):
            largest = max(largest, abs(data[e]))
        if largest == 0.0:
            continue
        for e in range(indptr[i], indptr[i + 1]):
            data[e] /= largest
            total += data[e] * data[e]
        for e in range(indptr[i], indptr[i + 1]):
            data[e] /= np.sqrt(total)


@njit(cache=True, nogil=True)
def forward_all(op: Any, U: Any, y: Any, G: Any) -> None:
    """G_i <- g(U_i) for all samples."""
    for i in range(U.shape[0]):
        op.forward(U[i], y[i], G[i])


@njit(cache=True)
def loss_all(op: Any, U: Any, y: Any, weight: Any, out: Any) -> None:
    """out_i <- weight_i loss(U_i, y_i)."""
    for i in range(U.shape[0]):
        out[i] = weight[i] * op.loss(U[i], y[i])


@njit(cache=True, nogil=True)
def slope_all(op: Any, u: Any, y: Any, out: Any) -> None:
    """out_i <- g'(u_i), for k = 1."""
    for i in range(u.size):
        out[i] = op.slope(u[i], y[i])


@njit(cache=True)
def envelope_all(op: Any, u: Any, t: float, y: Any, g: Any, slope: Any) -> None:
    """g_i, slope_i <- g_t(u_i) = g(the u that solves u + t g(u) = u_i) and its derivative, for k = 1 and t > 0."""
    for i in range(u.size):
        near = op.resolvent(u[i], t, y[i])
        g[i] = op.map(near, y[i])
        slope[i] = op.slope(near, y[i])
        slope[i] /= 1.0 + t * slope[i]


@part()
def gapless(indptr: Any, indices: Any, row: int, dim: int) -> bool:
    """Whether a row has no gaps and is long, so that it is worth reading as a dense one.

    Its length is looked at first: the indices of a short row would have to be waited for.
    """
    first, last = indptr[row], indptr[row + 1] - 1
    return 2 * (last - first) >= dim and indices[last] - indices[first] == last - first


@part(fastmath={"reassoc", "nsz", "contract"})
def dot_run(x: Any, first: int, z: Any, start: int, size: int) -> float:
    total = 0.0
    for j in range(size):
        total += x[first + j] * z[start + j]
    return total


@part(fastmath={"contract"})
def _add_run(scale: float, x: Any, first: int, z: Any, start: int, size: int) -> None:
    for j in range(size):
        z[start + j] += scale * x[first + j]


@part(fastmath={"contract"})
def _dot_and_add(x: Any, at: Any, z: Any, size: Any, a: float, before: Any, out: Any) -> float:
    """The product of z with the row of x at ``at``; on the way there out <- out + a times the row at ``before``."""
    lines = size - size % np.uint64(LINE_DOUBLES)
    total = dot_and_add_lines(x, at, z, lines, a, before, out)
    for j in range(lines, size):
        total += x[at + j] * z[j]
        out[j] += a * x[before + j]
    return total


@part()
def _visit_dense(op: Any, samples: Any, share: float, lo: int, hi: int, z: Any, out: Any) -> None:
    """``visit`` for samples lo..hi-1 of k = 1 and no zeros.

    A row is added while the next one comes in, so that memory, which sets the pace, is never waited for twice.
    """
    data, y, weight = samples.A[2], samples.y, samples.weight
    size = np.uint64(z.size)
    a, before = 0.0, np.uint64(lo) * size
    for i in range(lo, hi):
        at = np.uint64(i) * size
        a = share * weight[i] * op.map(_dot_and_add(data, at, z, size, a, before, out), y[i])
        before = at
    if hi > lo:
        _add_run(a, data, before, out, np.uint64(0), size)


@part()
def dot_block(A: Any, row: int, z: Any, out: Any) -> None:
    """out <- A_i z for the block that starts at ``row``; a row without gaps is read as a dense one."""
    indptr, indices, data = A
    for r in range(out.size):
        first, end = indptr[row + r], indptr[row + r + 1]
        if gapless(indptr, indices, row + r, z.size):  # unsigned: indices need no test for being negative
            out[r] = dot_run(data, np.uint64(first), z, np.uint64(indices[first]), np.uint64(end - first))
            continue
        total = 0.0
        for e in range(first, end):
            total += data[e] * z[np.uint64(indices[e])]
        out[r] = total


@part()
def norms_block(A: Any, row: int, r: Any, out: Any) -> None:
    """out <- the squared norms of A_i's rows in the metric diag(r)."""
    indptr, indices, data = A
    for c in range(out.size):
        out[c] = 0.0
        for e in range(indptr[row + c], indptr[row + c + 1]):
            out[c] += r[indices[e]] * data[e] * data[e]


@njit(cache=True)
def norms_all(A: Any, r: Any, out: Any) -> None:
    """out_i <- squared row norms of A_i in the metric diag(r), for all samples."""
    for i in range(out.shape[0]):
        norms_block(A, i * out.shape[1], r, out[i])


@part()
def add_block(A: Any, row: int, coef: Any, scale: float, r: Any, z: Any) -> None:
    """z <- z + scale diag(r) A_i' coef for the block that starts at ``row``."""
    indptr, indices, data = A
    for c in range(coef.size):
        x = scale * coef[c]
        for e in range(indptr[row + c], indptr[row + c + 1]):
            z[indices[e]] += x * r[indices[e]] * data[e]


@part()
def add_scaled(A: Any, row: int, coef: Any, scale: float, z: Any) -> None:
    """z <- z + scale A_i' coef."""
    for c in range(coef.size):
        _add_row(A, row + c, scale * coef[c], z)


@part()
def _add_row(A: Any, row: int, x: float, z: Any) -> None:
    """z <- z + x times a row."""
    indptr, indices, data = A
    first, end = indptr[row], indptr[row + 1]
    if gapless(indptr, indices, row, z.size):
        _add_run(x, data, np.uint64(first), z, np.uint64(indices[first]), np.uint64(end - first))
        return
    for e in range(np.uint64(first), np.uint64(end)):  # unsigned: as in dot_block
        z[np.uint64(indices[e])] += x * data[e]


@njit(cache=True, nogil=True)
def add_block_rows(lo: int, hi: int, A: Any, start: Any, coef: Any, out: Any) -> None:
    """out_n <- out_n + sum_i A_i' coef_i over the samples of nodes lo..hi-1."""
    for n in range(lo, hi):
        for i in range(start[n], start[n + 1]):
            add_scaled(A, i * coef.shape[1], coef[i], 1.0, out[n])


@part()
def visit(op: Any, samples: Any, i: int, share: float, z: Any, u: Any, g: Any, out: Any) -> None:
    """out <- out + share weight_i A_i' g(A_i z): one sample of a sweep over all data."""
    indptr, indices, data = samples.A
    row, last = i * u.size, indices.size - 1
    if out.size < CACHED:
        dot_block(samples.A, row, z, u)
        for e in range(indptr[row + u.size], min(indptr[row + u.size] + NEXT, last), LINE_DOUBLES):
            prefetch(data, e)  # the next row comes in while this one is added
    else:
        for c in range(u.size):
            total = 0.0
            for e in range(indptr[row + c], indptr[row + c + 1]):
                prefetch(z, indices[min(e + NONZEROS_AHEAD, last)])
                prefetch(out, indices[e])
                total += data[e] * z[np.uint64(indices[e])]
            u[c] = total
    op.forward(u, samples.y[i], g)
    add_scaled(samples.A, row, g, share * samples.weight[i], out)


@njit(cache=True, nogil=True)
def image_rows(lo: int, hi: int, A: Any, start: Any, Z: Any, out: Any) -> None:
    """out_i <- A_i z_n for every sample i of nodes lo..hi-1."""
    for n in range(lo, hi):
        for i in range(start[n], start[n + 1]):
            dot_block(A, i * out.shape[1], Z[n], out[i])


@part(fastmath={"reassoc", "nsz", "contract"})
def _dot_entries(A: Any, row: int, z: Any) -> float:
    """A row times z. In several sums at a time: one alone would wait for each addition."""
    indptr, indices, data = A
    total = 0.0
    for e in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
        total += data[e] * z[np.uint64(indices[e])]
    return total


@part()
def _dot_row(A: Any, row: int, z: Any) -> float:
    """A row times z; one without gaps is read as a dense one."""
    indptr, indices, data = A
    if gapless(indptr, indices, row, z.size):
        first, end = indptr[row], indptr[row + 1]
        return dot_run(data, np.uint64(first), z, np.uint64(indices[first]), np.uint64(end - first))
    return _dot_entries(A, row, z)


@njit(cache=True, nogil=True)
def image_all(lo: int, hi: int, A: Any, start: Any, z: Any, out: Any) -> None:
    """out_i <- A_i z for every sample i of nodes lo..hi-1, with one z for all of them."""
    for i in range(start[lo], start[hi]):
        for c in range(out.shape[1]):
            out[i, c] = _dot_row(A, i * out.shape[1] + c, z)


@njit(allocates=True, cache=True, nogil=True)
def sum_entries(lo: int, hi: int, op: Any, samples: Any, z: Any, distinct: Any, images: Any, out: Any) -> None:
    """For nodes lo..hi-1: images_i <- A_i z, and the entries of sum_i weight_i A_i' g(A_i z) in the node's columns."""
    columns, ends = distinct
    row, g = np.zeros(z.size), np.empty((AT_ONCE, samples.k))
    for n in range(lo, hi):
        for first in range(samples.start[n], samples.start[n + 1], AT_ONCE):
            _visit_some(op, samples, (first, min(first + AT_ONCE, samples.start[n + 1])), z, images, g, row)
        for e in range(np.uint64(ends[n]), np.uint64(ends[n + 1])):
            j = np.uint64(columns[e])
            out[e] = row[j]
            row[j] = 0.0


@part()
def _visit_some(op: Any, samples: Any, some: Any, z: Any, images: Any, g: Any, out: Any) -> None:
    """out <- out + sum_i weight_i A_i' g(A_i z) over some samples: all are read before any is added.

    One after the other, each would have to wait for its own image.
    """
    A, k = samples.A, samples.k
    for i in range(some[0], some[1]):
        for c in range(k):
            images[i, c] = _dot_row(A, i * k + c, z)
    for i in range(some[0], some[1]):
        op.forward(images[i], samples.y[i], g[i - some[0]])
    for i in range(some[0], some[1]):
        for c in range(k):
            _add_row(A, i * k + c, samples.weight[i] * g[i - some[0], c], out)


@njit(allocates=True, cache=True, nogil=True)
def add_operator_rows(lo: int, hi: int, op: Any, samples: Any, factor: float, Z: Any, out: Any) -> None:
    """out_n <- out_n + factor (1/q_n) sum_i weight_i A_i' g(A_i z_n), one sweep over the data of nodes lo..hi-1."""
    k, start = samples.k, samples.start
    u, g = np.empty(k), np.empty(k)
    full = k == 1 and samples.A[2].size == samples.y.size * Z.shape[1]
    for n in range(lo, hi):
        z, row = Z[n], out[n]
        share = factor / (start[n + 1] - start[n])
        if full:
            _visit_dense(op, samples, share, start[n], start[n + 1], z, row)
            continue
        for i in range(start[n], start[n + 1]):
            visit(op, samples, i, share, z, u, g, row)


@njit(cache=True)
def image_samples(A: Any, ids: Any, owners: Any, Z: Any, out: Any) -> None:
    """out_e <- A_i z_n, i = ids[e], n = owners[e]."""
    for e in range(ids.size):
        dot_block(A, ids[e] * out.shape[1], Z[owners[e]], out[e])


@njit(cache=True)
def spread_samples(A: Any, weight: Any, ids: Any, owners: Any, coef: Any, r: Any, out: Any) -> None:
    """out_n <- out_n + weight_i diag(r) A_i' coef_e, i = ids[e], n = owners[e]."""
    for e in range(ids.size):
        add_block(A, ids[e] * coef.shape[1], coef[e], weight[ids[e]], r, out[owners[e]])


@part()
def resolve(op: Any, b: Any, t: float, s: Any, y: float, u: Any, g: Any) -> None:
    """u, g <- the solution of u + t s g(u) = b and g there.

    For a long step, g is read off the equation: g(u) would carry u's rounding times g', and the
    step multiplies it by t. So it is where g(u) does not fit the equation at all: u is at a kink,
    and of g's values there the equation's is the one.
    """
    op.backward(b, t, s, y, u)
    op.forward(u, y, g)
    for c in range(b.size):
        ts = t * s[c]
        off = abs(b[c] - u[c] - ts * g[c])
        if ts > 1.0 or (ts > 0.0 and off > KINK * (abs(b[c]) + abs(u[c]) + ts * abs(g[c]))):
            g[c] = (b[c] - u[c]) / ts


@njit(allocates=True, cache=True)
def backward_samples(op: Any, A: Any, y: Any, ids: Any, t: Any, r: Any, V: Any, out: Any) -> None:
    """v_n <- z with z + t_n diag(r) A_i' g(A_i z) = v_n, and out_n <- g(A_i z), i = ids[n]."""
    k = out.shape[1]
    b, s, u = np.empty(k), np.empty(k), np.empty(k)
    for n in range(ids.size):
        i = ids[n]
        dot_block(A, i * k, V[n], b)
        norms_block(A, i * k, r, s)
        resolve(op, b, t[n], s, y[i], u, out[n])
        add_block(A, i * k, out[n], -t[n], r, V[n])
