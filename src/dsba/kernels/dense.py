"""The dense form of DSBA and DSA: many iterations in one call, O(p (edges + N)) work each.

The arithmetic of one row is in functions of its own, as a node that rebuilds the rows of others
(``replay.py``) must come to the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dsba.kernels.cache import njit
from dsba.kernels.mixing import COLUMNS, mix_block, mix_row
from dsba.kernels.samples import dot_block, resolve


@njit(cache=True)
def sample_delta(op: Any, backward: bool, b: Any, t: float, s: Any, y: float, phi: Any, g: Any, delta: Any) -> None:
    """One sample's new table entry and the change: delta <- g(u) - phi, phi <- g(u).

    Backward (DSBA): b = A_i v without the old entry, and u solves u + t s g(u) = b + t s phi.
    Forward (DSA): u = b.
    """
    if backward:
        for c in range(phi.size):
            b[c] += t * s[c] * phi[c]
        resolve(op, b, t, s, y, delta, g)
    else:
        op.forward(b, y, g)
    for c in range(phi.size):
        delta[c] = g[c] - phi[c]
        phi[c] = g[c]


@njit(cache=True)
def add_delta(
    indptr: Any, indices: Any, data: Any, row: int, coef: Any, step: Any, later: float, z: Any, carry: Any
) -> None:
    """z <- z + diag(step) A_i' coef,  carry <- carry + later A_i' coef.

    Both are made from the product A_i' coef, which is all that some receivers of a delta get.
    """
    for c in range(coef.size):
        for e in range(indptr[row + c], indptr[row + c + 1]):
            j = indices[e]
            v = coef[c] * data[e]
            z[j] += step[j] * v
            carry[j] += later * v


@njit(cache=True)
def column_blocks(n_regular: int, p: int) -> Any:
    """0 .. p cut into blocks of at most COLUMNS columns, each with lambda or without it throughout."""
    edges = [0]
    while edges[-1] < p:
        end = n_regular if edges[-1] < n_regular else p
        edges.append(min(edges[-1] + COLUMNS, end))
    return np.array(edges)


@njit(cache=True)
def _look_ahead(Z: Any, Z_prev: Any, n: int, first: int, last: int, ahead: Any) -> None:
    """Row n of ``ahead`` <- 2 z - z_prev on columns first..last-1."""
    for j in range(first, last):
        ahead[n, j - first] = 2.0 * Z[n, j] - Z_prev[n, j]


@njit(cache=True)
def _land(Z: Any, Z_prev: Any, carry: Any, alpha: float, coef: Any, n: int, first: int, last: int, out: Any) -> None:
    """out_n, the mixed row <- z + r (out_n - z + alpha carry - damp (z - z_prev)); carry_n <- 0."""
    r, damp = coef
    for j in range(first, last):
        gain = out[n, j] - Z[n, j] + alpha * carry[n, j] - damp * (Z[n, j] - Z_prev[n, j])
        out[n, j] = Z[n, j] + r * gain
        carry[n, j] = 0.0


@njit(cache=True)
def free_step(
    mixing: Any, Z: Any, Z_prev: Any, carry: Any, alpha: float, coef: Any, first: int, last: int, ahead: Any, out: Any
) -> None:
    """out <- Z + r (W~(2Z - Z_prev) - Z + alpha carry - damp (Z - Z_prev)) on some columns; carry <- 0."""
    for n in range(Z.shape[0]):
        _look_ahead(Z, Z_prev, n, first, last, ahead)
    mix_block(mixing, ahead, 0, last - first, out[:, first:last])
    for n in range(Z.shape[0]):
        _land(Z, Z_prev, carry, alpha, coef, n, first, last, out)


@njit(cache=True)
def free_row(
    mixing: Any, Z: Any, Z_prev: Any, carry: Any, alpha: float, coef: Any, coef_free: Any, n_regular: int,
    blocks: Any, n: int, ahead: Any, out: Any,
) -> None:  # fmt: skip
    """Row n alone of ``free_step``, on all columns."""
    indptr, nodes, _ = mixing
    for b in range(blocks.size - 1):
        first, last = blocks[b], blocks[b + 1]
        for e in range(indptr[n], indptr[n + 1]):
            _look_ahead(Z, Z_prev, nodes[e], first, last, ahead)
        mix_row(mixing, n, ahead, 0, last - first, out[n, first:last])
        _land(Z, Z_prev, carry, alpha, coef if first < n_regular else coef_free, n, first, last, out)


@njit(cache=True)
def _touch_samples(
    op: Any, backward: bool, alpha: float, A: Any, y: Any, s: Any, weight: Any, start: Any, samples: Any,
    step: Any, phi: Any, carry: Any, now: Any, new: Any,
) -> None:  # fmt: skip
    """Each row's sample: its change goes into ``new``, which is Z+ without it, and into the carry."""
    indptr, indices, data = A
    k = phi.shape[1]
    b, g, delta = np.empty(k), np.empty(k), np.empty(k)
    for n in range(samples.size):
        i = start[n] + samples[n]
        dot_block(indptr, indices, data, i * k, new[n] if backward else now[n], b)
        sample_delta(op, backward, b, alpha * weight[i], s[i], y[i], phi[i], g, delta)
        delta *= weight[i]
        later = 1.0 - 1.0 / (start[n + 1] - start[n])
        add_delta(indptr, indices, data, i * k, delta, step, later, new[n], carry[n])


@njit(cache=True)
def finish_dense(
    op: Any, backward: bool, alpha: float, A: Any, y: Any, s: Any, weight: Any, start: Any, samples: Any,
    step: Any, coef: Any, coef_free: Any, n_regular: int, Z: Any, Z_prev: Any, phi: Any, carry: Any, new: Any,
) -> None:  # fmt: skip
    """One iteration from where the rows have met: ``new`` is W~(2Z - Z_prev), and becomes Z+."""
    for n in range(Z.shape[0]):
        _land(Z, Z_prev, carry, alpha, coef, n, 0, n_regular, new)
        _land(Z, Z_prev, carry, alpha, coef_free, n, n_regular, Z.shape[1], new)
    _touch_samples(op, backward, alpha, A, y, s, weight, start, samples, step, phi, carry, Z, new)


@njit(cache=True)
def advance_dense(
    op: Any, backward: bool, alpha: float, A: Any, y: Any, s: Any, weight: Any, start: Any, samples: Any,
    mixing: Any, step: Any, coef: Any, coef_free: Any, n_regular: int, Z: Any, Z_prev: Any, phi: Any, carry: Any,
) -> None:  # fmt: skip
    """As many iterations as ``samples`` has rows, in place.

    ``coef`` and ``coef_free`` are (r, damp) for the coordinates with and without lambda, ``step`` is
    -alpha r per coordinate and ``s`` the squared norms in the metric r.
    """
    n_nodes, p = Z.shape
    now, old, new = Z, Z_prev, np.empty_like(Z)
    blocks, ahead = column_blocks(n_regular, p), np.empty((n_nodes, COLUMNS))
    for t in range(samples.shape[0]):
        for c in range(blocks.size - 1):
            first, last = blocks[c], blocks[c + 1]
            free_step(mixing, now, old, carry, alpha, coef if first < n_regular else coef_free, first, last, ahead, new)
        _touch_samples(op, backward, alpha, A, y, s, weight, start, samples[t], step, phi, carry, now, new)
        now, old, new = new, now, old
    if samples.shape[0] % 3 != 0:  # the three buffers turn; give Z and Z_prev their own again
        latest, before = now.copy(), old.copy()
        Z[:], Z_prev[:] = latest, before
