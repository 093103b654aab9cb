"""Blocks of samples as components of DSBA and DSA: one backward step on a block is an equation in R^(b k).

A block S of b samples has the component  B_S(z) = sum_i w_i A_i' g_i(A_i z),  w_i being the samples' weights times
q'/q (``algorithms/dsba/batches.py``); the ``Samples`` of these kernels have them. With t_i = alpha w_i and the Gram
matrices G_c of the rows c of all its A_i, in the metric r of the iteration, the images u_i = A_i z of a backward step
from images v_i solve

    u_ic + sum_j G_c[i, j] t_j g_j(u_j)_c = v_ic.

Rows of different numbers c share no columns, so there are k small Gram matrices and no large one.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dsba.kernels.cache import njit, part
from dsba.kernels.dense import add_delta, column_blocks, free_row, land, look_ahead
from dsba.kernels.mixing import COLUMNS
from dsba.kernels.modes import inject_sample, read_sample
from dsba.kernels.replay import take_received
from dsba.kernels.samples import dot_block
from dsba.kernels.thread_pair import collect

MAX_BATCH_NEWTON = 200
ENOUGH = 2e-15  # of the sizes of what is added up in the equation
SHORTEST = 1e-9  # the shortest part of a Newton step that is tried; below it, what is left is rounding


class BlockPlan(NamedTuple):
    """The blocks of the nodes held here, and what of them stays the same during a run."""

    cuts: npt.NDArray[np.int64]  # the first sample of every block, and the end
    first: npt.NDArray[np.int64]  # the first block of every node, and the end
    gram: npt.NDArray[np.float64]  # block by block, k matrices b x b
    at: npt.NDArray[np.int64]  # where a block's matrices begin, and the end


class BlockParts(NamedTuple):
    """What the kernels of an iteration know of the components: the iteration's numbers, the samples, the blocks."""

    rule: Any  # Recursion
    samples: Any  # Samples, with the weights of blocks
    plan: Any  # BlockPlan


@njit(cache=True)
def rows_apart(indptr: Any, indices: Any, k: int, kind: Any) -> bool:
    """Whether no column is met by rows of different numbers c; ``kind`` is scratch, one entry a column, all -1."""
    for row in range(indptr.size - 1):
        for e in range(indptr[row], indptr[row + 1]):
            j = indices[e]
            if kind[j] == -1:
                kind[j] = row % k
            elif kind[j] != row % k:
                return False
    return True


@part()
def gram_block(A: Any, k: int, lo: int, hi: int, r: Any, scratch: Any, out: Any) -> None:
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


@njit(cache=True)
def gram_blocks(A: Any, k: int, cuts: Any, at: Any, r: Any, out: Any) -> None:
    """The Gram matrices of all blocks, in the metric diag(r)."""
    scratch = np.zeros(r.size)
    for S in range(cuts.size - 1):
        gram_block(A, k, cuts[S], cuts[S + 1], r, scratch, out[at[S] : at[S + 1]])


@part()
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
        for i in range(p + 1, n):
            factor = M[i, p] / M[p, p]
            if factor != 0.0:
                for j in range(p + 1, n):
                    M[i, j] -= factor * M[p, j]
                x[i] -= factor * x[p]
    for p in range(n - 1, -1, -1):
        for j in range(p + 1, n):
            x[p] -= M[p, j] * x[j]
        x[p] /= M[p, p]


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


@njit(cache=True)
def resolve_block(op: Any, gram: Any, t: Any, y: Any, v: Any, u: Any, g: Any) -> None:
    """u, g <- the solution of u + G t g(u) = v and g there: Newton from 0, its steps halved until the excess falls.

    An iteration of its own, because it is compiled into the kernels, and its bits are the same on every machine.
    At long steps the undamped iteration runs in circles. The matrix is never singular, as G is symmetric and
    positive and g monotone, so a short enough step always lowers the excess.
    """
    b, k = u.shape
    F, M, slope = np.empty((b, k)), np.empty((b * k, b * k)), np.empty((k, k))
    trial, new = np.empty((b, k)), np.empty((b, k))
    u[:] = 0.0
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
        u[:], F[:], norm = trial, new, excess


@part()
def block_delta(op: Any, rule: Any, samples: Any, blocks: Any, S: int, v: Any, phi: Any, delta: Any) -> None:
    """delta_i <- w_i (g_i - phi_i),  phi_i <- g_i  for the samples of block S; v are their images (b x k).

    Backward (DSBA): v is without the old entries. Forward (DSA): the images of the current point.
    """
    lo, hi = blocks.cuts[S], blocks.cuts[S + 1]
    labels, weight, old = samples.y[lo:hi], samples.weight[lo:hi], phi[lo:hi]
    b, k = v.shape
    g, u = np.empty((b, k)), np.empty((b, k))
    if rule.backward:
        t, gram = rule.alpha * weight, blocks.gram[blocks.at[S] : blocks.at[S + 1]]
        _times_gram(gram, t, old, g)
        v += g
        resolve_block(op, gram, t, labels, v, u, g)
    else:
        for i in range(b):
            op.forward(v[i], labels[i], g[i])
    for i in range(b):
        for c in range(k):
            delta[i * k + c] = weight[i] * (g[i, c] - old[i, c])
            old[i, c] = g[i, c]


# Stacked rows --------------------------------------------------------------------------------------


@part()
def _read_rows(samples: Any, blocks: Any, S: int, z: Any, v: Any) -> None:
    """v_i <- A_i z for the samples of block S."""
    for i in range(v.shape[0]):
        dot_block(samples.A, (blocks.cuts[S] + i) * v.shape[1], z, v[i])


@part()
def _touch_block(op: Any, parts: Any, at: Any, v: Any, share: float, rows: Any, phi: Any, delta: Any) -> None:
    """At (node n, block S), v its images: the block's change goes into the rows, and into ``delta``."""
    (rule, samples, blocks), (n, S) = parts, at
    k, lo = phi.shape[1], blocks.cuts[S]
    block_delta(op, rule, samples, blocks, S, v, phi, delta)
    for i in range(v.shape[0]):
        add_delta(samples.A, (lo + i) * k, delta[i * k : (i + 1) * k], rule, share, rows, n)


@njit(cache=True)
def finish_blocks(op: Any, parts: Any, drawn: Any, rows: Any, phi: Any, apart: Any) -> None:
    """``dense.finish_dense`` with blocks: ``apart`` is (I - W~)(Z + U)."""
    rule, samples, blocks = parts
    delta = np.empty(phi.size)
    for n in range(drawn.size):
        S, share = blocks.first[n] + drawn[n], 1.0 / (blocks.first[n + 1] - blocks.first[n])
        v = np.empty((blocks.cuts[S + 1] - blocks.cuts[S], phi.shape[1]))
        if not rule.backward:
            _read_rows(samples, blocks, S, rows.Z[n], v)
        land(rule, rows, n, 0, rule.n_regular, apart[n])
        land(rule, rows, n, rule.n_regular, apart.shape[1], apart[n, rule.n_regular :])
        if rule.backward:
            _read_rows(samples, blocks, S, rows.Z[n], v)
        _touch_block(op, parts, (n, S), v, share, rows, phi, delta)


@njit(cache=True)
def advance_block_replicas(op: Any, parts: Any, place: Any, memory: Any, visit: Any, received: Any, delta: Any) -> None:
    """``replay.advance_replicas`` with a block of the node's own samples."""
    (rule, samples, blocks), (n, S, now) = parts, visit
    rows, ahead, phi = memory.rows, memory.ahead, memory.phi
    p = ahead.shape[2]
    columns, apart = column_blocks(rule.n_regular, p), np.empty(COLUMNS)
    v = np.empty((blocks.cuts[S + 1] - blocks.cuts[S], phi.shape[1]))
    take_received(rule, place, memory, now, received, columns, apart)
    if not rule.backward:
        _read_rows(samples, blocks, S, rows.Z[n], v)
    free_row(rule, place.mixing, rows, columns, n, ahead[now % 2], apart)
    if rule.backward:
        _read_rows(samples, blocks, S, rows.Z[n], v)
    _touch_block(op, parts, (n, S), v, place.share[n], rows, phi, delta)
    look_ahead(rule.alpha, rows, n, 0, p, ahead[(now + 1) % 2])


# Mode space ----------------------------------------------------------------------------------------


@part()
def _read_block(op: Any, parts: Any, visit: Any, plan: Any, state: Any, share: Any, delta: Any) -> None:
    """delta <- the change of block S at node n in iteration ``now``."""
    (rule, samples, blocks), (n, S, now) = parts, visit
    A, k, lo = (samples.A[0], plan.indices, samples.A[2]), state.phi.shape[1], blocks.cuts[S]
    v = np.empty((blocks.cuts[S + 1] - lo, k))
    for i in range(v.shape[0]):
        read_sample(plan, share, A, state, now + 1 if rule.backward else now, n, (lo + i) * k, v[i])
        collect(share, v[i])
    block_delta(op, rule, samples, blocks, S, v, state.phi, delta)


@part()
def _inject_block(parts: Any, visit: Any, plan: Any, state: Any, share: Any, delta: Any) -> None:
    """The change of block S at node n enters the state of the iteration after ``now``."""
    (_, samples, blocks), (n, S, now) = parts, visit
    A, k, lo = (samples.A[0], plan.indices, samples.A[2]), state.phi.shape[1], blocks.cuts[S]
    for i in range(blocks.cuts[S + 1] - lo):
        coef = delta[i * k : (i + 1) * k]
        inject_sample(plan, share, A, state, now + 1, (lo + i) * k, coef, n)


@njit(cache=True)
def advance_block_modes(op: Any, parts: Any, drawn: Any, plan: Any, state: Any, t0: int, share: Any) -> None:
    """``modes.advance_modes`` with blocks: all nodes read before any writes."""
    blocks = parts.plan
    n_nodes = plan.basis.shape[0]
    largest = 0
    for S in range(blocks.cuts.size - 1):
        largest = max(largest, blocks.cuts[S + 1] - blocks.cuts[S])
    delta = np.empty((n_nodes, largest * state.phi.shape[1]))
    for t in range(drawn.shape[0]):
        now = t0 + t
        for n in range(n_nodes):
            S = blocks.first[n] + drawn[t, n]
            _read_block(op, parts, (n, S, now), plan, state, share, delta[n])
        for n in range(n_nodes):
            S = blocks.first[n] + drawn[t, n]
            _inject_block(parts, (n, S, now), plan, state, share, delta[n])


@njit(cache=True)
def advance_own_block(op: Any, parts: Any, plan: Any, state: Any, visit: Any, received: Any, delta: Any) -> None:
    """``modes.advance_own_row`` with a block of the node's own samples."""
    now = visit[2]
    sources, deltas = received
    one = np.ones(1)
    for m in range(sources.size):
        inject_sample(plan, None, deltas, state, now, m, one, sources[m])
    _read_block(op, parts, (visit[0], visit[1], visit[2]), plan, state, None, delta)
    _inject_block(parts, (visit[0], visit[1], visit[2]), plan, state, None, delta)
