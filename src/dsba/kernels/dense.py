"""The dense form of DSBA and DSA: many iterations in one call, O(p (edges + N)) work each.

The arithmetic of one row is in functions of its own, as a node that rebuilds the rows of others
(``replay.py``) must come to the same bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dsba.kernels.cache import njit
from dsba.kernels.mixing import COLUMNS, mix_block, mix_row
from dsba.kernels.samples import dot_block, resolve

Array = npt.NDArray[np.float64]


class Recursion(NamedTuple):
    """The numbers of DSBA (``backward``) or DSA: Z+ = Z + r (W~(2Z - Z_prev) - Z - damp (Z - Z_prev) + ...)."""

    backward: bool
    alpha: float
    step: Array  # -alpha r, per coordinate
    coef: tuple[float, float]  # (r, damp) of the coordinates with lambda,
    coef_free: tuple[float, float]  # and of those without
    n_regular: int  # where the coordinates without lambda begin
    norms: Array  # the samples' squared norms in the metric r (Q x k)


class Rows(NamedTuple):
    """Stacked rows: the iterates of now and before, and the carries."""

    Z: Array
    Z_prev: Array
    carry: Array


@njit(cache=True)
def sample_delta(op: Any, rule: Any, samples: Any, i: int, phi: Any, b: Any, g: Any, delta: Any) -> None:
    """Sample i's new table entry and its weighted change: delta <- weight (g(u) - phi), phi <- g(u).

    Backward (DSBA): b = A_i v without the old entry, and u solves u + t s g(u) = b + t s phi, t = alpha weight.
    Forward (DSA): u = b.
    """
    y, weight = samples.y[i], samples.weight[i]
    if rule.backward:
        t, s = rule.alpha * weight, rule.norms[i]
        for c in range(phi.size):
            b[c] += t * s[c] * phi[c]
        resolve(op, b, t, s, y, delta, g)
    else:
        op.forward(b, y, g)
    for c in range(phi.size):
        delta[c] = weight * (g[c] - phi[c])
        phi[c] = g[c]


@njit(cache=True)
def add_delta(A: Any, row: int, coef: Any, step: Any, later: float, z: Any, carry: Any) -> None:
    """z <- z + diag(step) A_i' coef,  carry <- carry + later A_i' coef.

    Both are made from the product A_i' coef, which is all that some receivers of a delta get.
    """
    indptr, indices, data = A
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
def _look_ahead(rows: Any, n: int, first: int, last: int, ahead: Any) -> None:
    """Row n of ``ahead`` <- 2 z - z_prev on columns first..last-1."""
    Z, Z_prev = rows.Z, rows.Z_prev
    for j in range(first, last):
        ahead[n, j - first] = 2.0 * Z[n, j] - Z_prev[n, j]


@njit(cache=True)
def _land(rule: Any, rows: Any, n: int, first: int, last: int, out: Any) -> None:
    """out_n, the mixed row <- z + r (out_n - z + alpha carry - damp (z - z_prev)); carry_n <- 0."""
    Z, Z_prev, carry = rows
    r, damp = rule.coef if first < rule.n_regular else rule.coef_free
    for j in range(first, last):
        gain = out[n, j] - Z[n, j] + rule.alpha * carry[n, j] - damp * (Z[n, j] - Z_prev[n, j])
        out[n, j] = Z[n, j] + r * gain
        carry[n, j] = 0.0


@njit(cache=True)
def free_step(rule: Any, mixing: Any, rows: Any, first: int, last: int, ahead: Any, out: Any) -> None:
    """out <- Z + r (W~(2Z - Z_prev) - Z + alpha carry - damp (Z - Z_prev)) on some columns; carry <- 0."""
    for n in range(rows.Z.shape[0]):
        _look_ahead(rows, n, first, last, ahead)
    mix_block(mixing, ahead, 0, last - first, out[:, first:last])
    for n in range(rows.Z.shape[0]):
        _land(rule, rows, n, first, last, out)


@njit(cache=True)
def free_row(rule: Any, mixing: Any, rows: Any, blocks: Any, n: int, ahead: Any, out: Any) -> None:
    """Row n alone of ``free_step``, on all columns."""
    indptr, nodes, _ = mixing
    for b in range(blocks.size - 1):
        first, last = blocks[b], blocks[b + 1]
        for e in range(indptr[n], indptr[n + 1]):
            _look_ahead(rows, nodes[e], first, last, ahead)
        mix_row(mixing, n, ahead, 0, last - first, out[n, first:last])
        _land(rule, rows, n, first, last, out)


@njit(cache=True)
def _touch_samples(op: Any, rule: Any, samples: Any, drawn: Any, rows: Any, phi: Any, new: Any) -> None:
    """Each row's sample: its change goes into ``new``, which is Z+ without it, and into the carry."""
    k, start = phi.shape[1], samples.start
    b, g, delta = np.empty(k), np.empty(k), np.empty(k)
    for n in range(drawn.size):
        i = start[n] + drawn[n]
        dot_block(samples.A, i * k, new[n] if rule.backward else rows.Z[n], b)
        sample_delta(op, rule, samples, i, phi[i], b, g, delta)
        later = 1.0 - 1.0 / (start[n + 1] - start[n])
        add_delta(samples.A, i * k, delta, rule.step, later, new[n], rows.carry[n])


@njit(cache=True)
def finish_dense(op: Any, rule: Any, samples: Any, drawn: Any, rows: Any, phi: Any, new: Any) -> None:
    """One iteration from where the rows have met: ``new`` is W~(2Z - Z_prev), and becomes Z+."""
    for n in range(new.shape[0]):
        _land(rule, rows, n, 0, rule.n_regular, new)
        _land(rule, rows, n, rule.n_regular, new.shape[1], new)
    _touch_samples(op, rule, samples, drawn, rows, phi, new)


@njit(cache=True)
def advance_dense(op: Any, rule: Any, samples: Any, drawn: Any, mixing: Any, rows: Any, phi: Any) -> None:
    """As many iterations as ``drawn`` has rows, in place."""
    n_nodes, p = rows.Z.shape
    now, old, new = rows.Z, rows.Z_prev, np.empty_like(rows.Z)
    blocks, ahead = column_blocks(rule.n_regular, p), np.empty((n_nodes, COLUMNS))
    for t in range(drawn.shape[0]):
        current = Rows(now, old, rows.carry)
        for c in range(blocks.size - 1):
            free_step(rule, mixing, current, blocks[c], blocks[c + 1], ahead, new)
        _touch_samples(op, rule, samples, drawn[t], current, phi, new)
        now, old, new = new, now, old
    if drawn.shape[0] % 3 != 0:  # the three buffers turn; give Z and Z_prev their own again
        latest, before = now.copy(), old.copy()
        rows.Z[:], rows.Z_prev[:] = latest, before
