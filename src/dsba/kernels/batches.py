"""Batches of samples as components of DSBA and DSA: one backward step on a batch is an equation in R^(b k).

A batch S of b samples has the component  B_S(z) = sum_i w_i A_i' g_i(A_i z),  w_i being the samples' weights times
q'/q (``problem/components.py``); the ``Samples`` of these kernels have them. With t_i = alpha w_i and the Gram
matrices G_c of the rows c of all its A_i, in the metric r of the iteration, the images u_i = A_i z of a backward step
from images v_i solve

    u_ic + sum_j G_c[i, j] t_j g_j(u_j)_c = v_ic.

Rows of different numbers c share no columns, so there are k small Gram matrices and no large one. Newton's iteration
solves the equation: by elimination, or for large batches of losses of one score by conjugate gradients, whose products
with G take b^2 operations and not b^3.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dsba.kernels.cache import njit, part

MAX_BATCH_NEWTON = 200
ENOUGH = 2e-15  # of the sizes of what is added up in the equation
DIRECT = 8  # samples of a batch up to which elimination is as fast as conjugate gradients
POWERS = 4  # iterations for an eigenvalue
SHORTEST = 1e-9  # the shortest part of a Newton step that is tried; below it, what is left is rounding


class BatchPlan(NamedTuple):
    """The batches of the nodes held here, and what of them stays the same during a run."""

    cuts: npt.NDArray[np.int64]  # the first sample of every batch, and the end
    gram: npt.NDArray[np.float64]  # batch by batch, k matrices b x b
    at: npt.NDArray[np.int64]  # where a batch's matrices begin, and the end
    large: tuple[()] | None  # None where no batch is for conjugate gradients, so that these are not compiled

    def part(self, first: int, last: int) -> BatchPlan:
        """The batches first..last-1, counted from the first sample of the first one."""
        cuts, at = self.cuts[first : last + 1], self.at[first : last + 1]
        return BatchPlan(cuts - cuts[0], self.gram[at[0] : at[-1]], at - at[0], self.large)


@njit(cache=True)
def rows_apart(indptr: Any, indices: Any, k: int, kind: Any) -> bool:
    """Whether rows of different numbers c share no column; ``kind`` is scratch, one entry a column, all -1."""
    for row in range(indptr.size - 1):
        for e in range(indptr[row], indptr[row + 1]):
            j = indices[e]
            if kind[j] == -1:
                kind[j] = row % k
            elif kind[j] != row % k:
                return False
    return True


@part(inline="always")
def _gram_batch(A: Any, k: int, lo: int, hi: int, r: Any, scratch: Any, out: Any) -> None:
    """out_c[i, j] <- a_ic' diag(r) a_jc for the samples lo..hi-1; ``scratch`` is one zero a column, and stays so."""
    indptr, indices, data = A
    b = hi - lo
    for i in range(b):
        for c in range(k):
            row = (lo + i) * k + c
            for e in range(indptr[row], indptr[row + 1]):
                scratch[indices[e]] = r[indices[e]] * data[e]
            for j in range(i + 1):
                other, total = (lo + j) * k + c, 0.0
                for e in range(indptr[other], indptr[other + 1]):
                    total += scratch[indices[e]] * data[e]
                out[(c * b + i) * b + j] = total
                out[(c * b + j) * b + i] = total
            for e in range(indptr[row], indptr[row + 1]):
                scratch[indices[e]] = 0.0


@njit(allocates=True, cache=True)
def gram_batches(A: Any, k: int, cuts: Any, at: Any, r: Any, out: Any) -> None:
    """The Gram matrices of all batches, in the metric diag(r)."""
    scratch = np.zeros(r.size)
    for S in range(cuts.size - 1):
        _gram_batch(A, k, cuts[S], cuts[S + 1], r, scratch, out[at[S] : at[S + 1]])


@part(inline="always")
def solve_in_place(M: Any, x: Any) -> None:
    """x <- M^-1 x by elimination with row exchanges; M is used up. The same bits on every machine and thread."""
    n = x.size
    for p in range(n):
        best = p
        for i in range(p + 1, n):
            if abs(M[i, p]) > abs(M[best, p]):
                best = i
        if best != p:
            for j in range(p, n):
                M[p, j], M[best, j] = M[best, j], M[p, j]
            x[p], x[best] = x[best], x[p]
        pivot = M[p, p + 1 :]
        for i in range(p + 1, n):
            factor = M[i, p] / M[p, p]
            if factor != 0.0:
                row = M[i, p + 1 :]  # a slice, as in ``gram_times``
                for j in range(row.size):
                    row[j] -= factor * pivot[j]
                x[i] -= factor * x[p]
    for p in range(n - 1, -1, -1):
        for j in range(p + 1, n):
            x[p] -= M[p, j] * x[j]
        x[p] /= M[p, p]


@part()
def _copy(entries: Any, out: Any) -> None:
    """out <- entries, matrices of one shape. Numba compiles a loop in a tenth of the time of ``out[:] = entries``."""
    for i in range(out.shape[0]):
        for c in range(out.shape[1]):
            out[i, c] = entries[i, c]


@part()
def _times_gram(gram: Any, t: Any, g: Any, out: Any) -> None:
    """out_ic <- sum_j G_c[i, j] t_j g_jc."""
    b, k = g.shape
    for i in range(b):
        for c in range(k):
            total = 0.0
            for j in range(b):
                total += gram[(c * b + i) * b + j] * (t[j] * g[j, c])
            out[i, c] = total


@part()
def _excess(op: Any, gram: Any, t: Any, y: Any, v: Any, u: Any, g: Any, F: Any) -> Any:
    """g <- g(u),  F <- u + G t g - v; the norm of F, and the size of what was added up."""
    b, k = u.shape
    for i in range(b):
        op.forward(u[i], y[i], g[i])
    _times_gram(gram, t, g, F)
    total, size = 0.0, 0.0
    for i in range(b):
        for c in range(k):
            size += F[i, c] * F[i, c] + u[i, c] * u[i, c] + v[i, c] * v[i, c]
            F[i, c] += u[i, c] - v[i, c]
            total += F[i, c] * F[i, c]
    return math.sqrt(total), math.sqrt(size)


@part()
def _newton_direction(op: Any, gram: Any, t: Any, y: Any, u: Any, F: Any, M: Any, slope: Any) -> None:
    """F <- (I + G t g')^-1 F."""
    b, k = u.shape
    for j in range(b):
        op.jacobian(u[j], y[j], slope)
        for i in range(b):
            for c in range(k):
                entry = gram[(c * b + i) * b + j] * t[j]
                for d in range(k):
                    M[i * k + c, j * k + d] = entry * slope[c, d]
        for c in range(k):
            M[j * k + c, j * k + c] += 1.0
    solve_in_place(M, F.reshape(-1))


@part(allocates=True)
def _resolve(op: Any, gram: Any, t: Any, y: Any, v: Any, u: Any, g: Any) -> None:
    """u, g <- the solution of u + G t g(u) = v and g there: Newton from 0, its steps halved until the excess falls.

    An iteration of its own, because it is compiled into the kernels, and its bits are the same on every machine.
    At long steps the undamped iteration runs in circles. The matrix is never singular, as G is symmetric and
    positive and g monotone, so a short enough step always lowers the excess.
    """
    b, k = u.shape
    F, trial, new = np.empty((b, k)), np.empty((b, k)), np.empty((b, k))
    M, slope = np.empty((b * k, b * k)), np.empty((k, k))
    for i in range(b):
        for c in range(k):
            u[i, c] = 0.0
    norm, size = _excess(op, gram, t, y, v, u, g, F)
    for _ in range(MAX_BATCH_NEWTON):
        if not norm > ENOUGH * size:
            return
        _newton_direction(op, gram, t, y, u, F, M, slope)
        part, lower = 1.0, False
        while not lower and part > SHORTEST:
            for i in range(b):
                for c in range(k):
                    trial[i, c] = u[i, c] - part * F[i, c]
            excess, size = _excess(op, gram, t, y, v, trial, g, new)
            lower = excess < norm
            part *= 0.5
        if not lower:
            for i in range(b):
                op.forward(u[i], y[i], g[i])
            return
        _copy(trial, u)
        _copy(new, F)
        norm = excess


@njit(allocates=True, cache=True)
def resolve_batch(op: Any, gram: Any, t: Any, y: Any, v: Any, u: Any, g: Any) -> None:
    """``_resolve`` by itself: the kernels of whole iterations contain it, without the way in from Python."""
    _resolve(op, gram, t, y, v, u, g)


@part()
def gram_times(gram: Any, x: Any, out: Any) -> None:
    """out <- G x for one symmetric matrix, column by column: vectors without another order of the sums.

    A column is a slice of its own, because LLVM makes vectors of indices that begin at 0, and none of ``at + i``.
    """
    b = x.size
    for i in range(b):
        out[i] = 0.0
    for j in range(0, b - b % 4, 4):
        at, x0, x1, x2, x3 = j * b, x[j], x[j + 1], x[j + 2], x[j + 3]
        g0, g1, g2 = gram[at : at + b], gram[at + b : at + 2 * b], gram[at + 2 * b : at + 3 * b]
        g3 = gram[at + 3 * b : at + 4 * b]
        for i in range(b):
            out[i] += (g0[i] * x0 + g1[i] * x1) + (g2[i] * x2 + g3[i] * x3)
    for j in range(b - b % 4, b):
        column, xj = gram[j * b : (j + 1) * b], x[j]
        for i in range(b):
            out[i] += column[i] * xj


@part()
def _score_excess(op: Any, gram: Any, t: Any, y: Any, v: Any, u: Any, g: Any, rooms: Any) -> Any:
    """``_excess`` for k = 1; ``rooms`` are F and as much room."""
    b, (F, scratch) = t.size, rooms
    for i in range(b):
        op.forward(u[i], y[i], g[i])
        scratch[i] = t[i] * g[i, 0]
    gram_times(gram, scratch, F)
    total, size = 0.0, 0.0
    for i in range(b):
        size += F[i] * F[i] + u[i, 0] * u[i, 0] + v[i, 0] * v[i, 0]
        F[i] += u[i, 0] - v[i, 0]
        total += F[i] * F[i]
    return math.sqrt(total), math.sqrt(size)


@part()
def _conjugate_direction(gram: Any, R: Any, F: Any, enough: float, rooms: Any) -> None:
    """F <- (I + G R^2)^-1 F = F - G R w, with (I + R G R) w = R F to ``enough`` times its norm or b steps."""
    b = R.size
    w, r, p, Ap, room = rooms[0], rooms[1], rooms[2], rooms[3], rooms[4]
    square, least = 0.0, 0.0
    for i in range(b):
        w[i], r[i] = 0.0, R[i] * F[i]
        p[i] = r[i]
        square += r[i] * r[i]
    least = enough * enough * square
    for _ in range(b):
        if not square > least:
            break
        for i in range(b):
            room[i] = R[i] * p[i]
        gram_times(gram, room, Ap)
        curvature = 0.0
        for i in range(b):
            Ap[i] = p[i] + R[i] * Ap[i]
            curvature += p[i] * Ap[i]
        step, before, square = square / curvature, square, 0.0
        for i in range(b):
            w[i] += step * p[i]
            r[i] -= step * Ap[i]
            square += r[i] * r[i]
        for i in range(b):
            p[i] = r[i] + square / before * p[i]
    for i in range(b):
        room[i] = R[i] * w[i]
    gram_times(gram, room, Ap)
    for i in range(b):
        F[i] -= Ap[i]


@part(allocates=True)
def _resolve_scores(op: Any, gram: Any, t: Any, y: Any, v: Any, u: Any, g: Any) -> bool:
    """As ``_resolve``, for k = 1 and from the scores in u; False if it did not come to the end."""
    b = t.size
    F, R, slope, rooms, trial = np.empty(b), np.empty(b), np.empty((1, 1)), np.empty((6, b)), np.empty((b, 1))
    new = rooms[5]
    norm, size = _score_excess(op, gram, t, y, v, u, g, (F, rooms[0]))
    forcing = 0.1
    for _ in range(MAX_BATCH_NEWTON):
        if not norm > ENOUGH * size:
            return True
        for i in range(b):
            op.jacobian(u[i], y[i], slope)
            R[i] = math.sqrt(t[i] * slope[0, 0])
        _conjugate_direction(gram, R, F, max(min(forcing, norm / size), 0.1 * ENOUGH * size / norm), rooms)
        part, lower = 1.0, False
        while not lower and part > SHORTEST:
            for i in range(b):
                trial[i, 0] = u[i, 0] - part * F[i]
            excess, size = _score_excess(op, gram, t, y, v, trial, g, (new, rooms[0]))
            lower = excess < norm
            part *= 0.5
        if not lower:
            for i in range(b):
                op.forward(u[i], y[i], g[i])
            return norm < 1e3 * ENOUGH * size
        forcing = min(0.1, excess / norm)
        norm = excess
        for i in range(b):
            u[i, 0], F[i] = trial[i, 0], new[i]
    return False


@part()
def _norm(x: Any) -> float:
    """The Euclidean norm of x."""
    square = 0.0
    for i in range(x.size):
        square += x[i] * x[i]
    return math.sqrt(square)


@njit(allocates=True, cache=True)
def largest_eigenvalues(batches: Any, scale: Any, out: Any) -> None:
    """out_S <- the largest eigenvalue of diag(scale) G_S diag(scale), k = 1, by a few power iterations from ones."""
    for S in range(out.size):
        lo, hi = batches.cuts[S], batches.cuts[S + 1]
        gram, x, y = batches.gram[batches.at[S] : batches.at[S + 1]], np.empty(hi - lo), np.empty(hi - lo)
        for i in range(x.size):
            x[i] = scale[lo + i]
        for _ in range(POWERS):
            norm = _norm(x)
            for i in range(x.size):
                x[i] *= scale[lo + i] / norm if norm > 0.0 else 0.0
            gram_times(gram, x, y)
            for i in range(x.size):
                x[i] = scale[lo + i] * y[i]
        out[S] = _norm(x)


@part(allocates=True)
def _resolve_large(op: Any, gram: Any, t: Any, y: Any, old: Any, v: Any, u: Any, g: Any) -> None:
    """v <- v + G t old,  u, g <- the solution there, for k = 1 by conjugate gradients as long as they get there."""
    b = t.size
    scores, added = np.empty(b), np.empty(b)
    for i in range(b):
        scores[i] = t[i] * old[i, 0]
    gram_times(gram, scores, added)
    for i in range(b):
        v[i, 0] += added[i]
    if not _resolve_scores(op, gram, t, y, v, u, g):
        _resolve(op, gram, t, y, v, u, g)


@part(allocates=True)
def _backward(op: Any, alpha: float, weight: Any, gram: Any, large: Any, y: Any, old: Any, scratch: Any) -> None:
    """v <- the images u of a backward step,  g <- g(u);  v are images without the old entries of the table."""
    (v, g), (b, k) = scratch, old.shape
    t, u, direct = np.empty(b), np.empty((b, k)), k > 1 or b <= DIRECT
    for i in range(b):
        t[i] = alpha * weight[i]
    _copy(v, u)
    if large is not None and not direct:
        _resolve_large(op, gram, t, y, old, v, u, g)
    if direct:
        _times_gram(gram, t, old, g)
        for i in range(b):
            for c in range(k):
                v[i, c] += g[i, c]
        _resolve(op, gram, t, y, v, u, g)
    _copy(u, v)


@part(inline="always")
def batch_delta(op: Any, rule: Any, samples: Any, batches: Any, S: int, scratch: Any, phi: Any, delta: Any) -> None:
    """delta_i <- w_i (g_i - phi_i),  phi_i <- g_i  for the samples of batch S.

    ``scratch`` is v, the images of the samples (b x k), and as much room.
    Backward (DSBA): v is without the old entries, and becomes the images of the new point. Forward (DSA): the images of
    the current point.
    """
    (v, g), lo, hi = scratch, batches.cuts[S], batches.cuts[S + 1]
    labels, weight, old = samples.y[lo:hi], samples.weight[lo:hi], phi[lo:hi]
    b, k = v.shape
    if rule.backward:
        gram = batches.gram[batches.at[S] : batches.at[S + 1]]
        _backward(op, rule.alpha, weight, gram, batches.large, labels, old, (v, g))
    else:
        for i in range(b):
            op.forward(v[i], labels[i], g[i])
    for i in range(b):
        for c in range(k):
            delta[i * k + c] = weight[i] * (g[i, c] - old[i, c])
            old[i, c] = g[i, c]
