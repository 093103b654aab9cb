"""The dense form of DSBA and DSA: many iterations in one call, O(p (edges + N)) work each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dsba.kernels.mixing import COLUMNS, mix_block
from dsba.kernels.samples import add_block, dot_block, resolve


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
def _free_step(
    mixing: Any,
    Z: Any,
    Z_prev: Any,
    carry: Any,
    alpha: float,
    coef: Any,
    first: int,
    last: int,
    ahead: Any,
    out: Any,
) -> None:
    """out <- Z + r (W~(2Z - Z_prev) - Z + alpha carry - damp (Z - Z_prev)) on some columns; carry <- 0."""
    r, damp = coef
    for n in range(Z.shape[0]):
        for j in range(first, last):
            ahead[n, j - first] = 2.0 * Z[n, j] - Z_prev[n, j]
    mix_block(mixing, ahead, 0, last - first, out[:, first:last])
    for n in range(Z.shape[0]):
        for j in range(first, last):
            gain = out[n, j] - Z[n, j] + alpha * carry[n, j] - damp * (Z[n, j] - Z_prev[n, j])
            out[n, j] = Z[n, j] + r * gain
            carry[n, j] = 0.0


@njit(cache=True)
def advance_dense(
    op: Any, backward: bool, alpha: float, A: Any, y: Any, s: Any, weight: Any, start: Any, samples: Any,
    mixing: Any, r: Any, coef: Any, coef_free: Any, n_regular: int, Z: Any, Z_prev: Any, phi: Any, carry: Any,
) -> None:  # fmt: skip
    """As many iterations as ``samples`` has rows, in place.

    ``coef`` and ``coef_free`` are (r, damp) for the coordinates with and without
    lambda, ``r`` the same factor per coordinate and ``s`` the squared norms in that metric.
    """
    indptr, indices, data = A
    n_nodes, p = Z.shape
    k = phi.shape[1]
    now, old, new = Z, Z_prev, np.empty_like(Z)
    ones, ahead = np.ones(p), np.empty((n_nodes, max(COLUMNS, p - n_regular)))
    b, g, delta = np.empty(k), np.empty(k), np.empty(k)
    for t in range(samples.shape[0]):
        for first in range(0, n_regular, COLUMNS):
            last = min(first + COLUMNS, n_regular)
            _free_step(mixing, now, old, carry, alpha, coef, first, last, ahead, new)
        _free_step(mixing, now, old, carry, alpha, coef_free, n_regular, p, ahead, new)
        for n in range(n_nodes):
            i = start[n] + samples[t, n]
            dot_block(indptr, indices, data, i * k, new[n] if backward else now[n], b)
            sample_delta(op, backward, b, alpha * weight[i], s[i], y[i], phi[i], g, delta)
            add_block(indptr, indices, data, i * k, delta, -alpha * weight[i], r, new[n])
            later = weight[i] * (1.0 - 1.0 / (start[n + 1] - start[n]))
            add_block(indptr, indices, data, i * k, delta, later, ones, carry[n])
        now, old, new = new, now, old
    if samples.shape[0] % 3 != 0:  # the three buffers turn; give Z and Z_prev their own again
        latest, before = now.copy(), old.copy()
        Z[:], Z_prev[:] = latest, before
