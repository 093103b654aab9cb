"""The dense form of DSBA and DSA: many iterations in one call, O(p (edges + N)) work each.

The state is Z, V = U + alpha carry with U = Z - Z_prev, and the carries. Without its sample an iteration is

    U+ = r (V - (I - W~)(Z + U) - damp U),      Z+ = Z + U+,      V+ = U+,      carry+ = 0,

and a delta adds -alpha r delta to Z, alpha ((1 - 1/q) - r) delta to V and (1 - 1/q) delta to the carry. All of this
is for the sake of rounding. The nodes' mean forgets nothing: an error in V stays, and in a column seldom touched
it ends up divided by alpha lam. A difference of two stored iterates would bring their rounding into V in every
iteration, a rounded r a part of every change. So V has numbers of its own, r is 1 - s with a small s, the two
large parts of a delta's effect on V cancel before they are rounded, and what Z + U+ loses is kept in ``low``.

The arithmetic of one row is in functions of its own, as a node that rebuilds the rows of others
(``replay.py``) must come to the same bits.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dsba.kernels.cache import njit, part
from dsba.kernels.mixing import COLUMNS, difference_row
from dsba.kernels.samples import dot_block, resolve
from dsba.types import Array


class Recursion(NamedTuple):
    """The numbers of DSBA (``backward``) or DSA."""

    backward: bool
    alpha: float
    shrink: Array  # s = 1 - r, per coordinate
    coef: tuple[float, float]  # (s, damp) of the coordinates with lambda,
    coef_free: tuple[float, float]  # and of those without
    n_regular: int  # where the coordinates without lambda begin
    norms: Array  # the samples' squared norms in the metric r (Q x k)


class DenseRows(NamedTuple):
    """Stacked rows: Z, V = U + alpha carry, the carries, and what rounding left of Z."""

    Z: Array
    V: Array
    carry: Array
    low: Array


@part()
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


@part()
def _raised(z: float, low: float, change: float) -> Any:
    """z + low + change as a number and what its rounding left (Kahan's sum)."""
    change += low
    new = z + change
    return new, change - (new - z)


@part()
def add_delta(A: Any, row: int, coef: Any, rule: Any, share: float, rows: Any, n: int) -> None:
    """Row n takes in its sample's change A_i' coef; ``share`` is 1/q.

    All is made from the product A_i' coef, which is all that some receivers of a delta get.
    """
    indptr, indices, data = A
    Z, V, carry, low = rows
    for c in range(coef.size):
        for e in range(indptr[row + c], indptr[row + c + 1]):
            j = indices[e]
            v, s = coef[c] * data[e], rule.shrink[j]
            Z[n, j], low[n, j] = _raised(Z[n, j], low[n, j], -rule.alpha * (1.0 - s) * v)
            V[n, j] += rule.alpha * (s - share) * v
            carry[n, j] += (1.0 - share) * v


@part()
def column_blocks(n_regular: int, p: int) -> Any:
    """0 .. p cut into blocks of at most COLUMNS columns, each with lambda or without it throughout."""
    regular, free = -(-n_regular // COLUMNS), -(-(p - n_regular) // COLUMNS)
    edges = np.empty(regular + free + 1, np.int64)
    for b in range(edges.size):
        edges[b] = min(b * COLUMNS, n_regular) if b <= regular else min(n_regular + (b - regular) * COLUMNS, p)
    return edges


@part()
def look_ahead(alpha: float, rows: Any, n: int, first: int, last: int, ahead: Any) -> None:
    """Row n of ``ahead`` <- z + u on columns first..last-1; ``ahead`` has only these."""
    Z, V, carry = rows.Z, rows.V, rows.carry
    for j in range(first, last):
        ahead[n, j - first] = Z[n, j] + (V[n, j] - alpha * carry[n, j])


@part()
def land(rule: Any, rows: Any, n: int, first: int, last: int, apart: Any) -> None:
    """Row n's iteration on columns first..last-1; ``apart`` is its row of (I - W~)(Z + U) on these."""
    Z, V, carry, low = rows
    s, damp = rule.coef if first < rule.n_regular else rule.coef_free
    for j in range(first, last):
        gain = V[n, j] - apart[j - first] - damp * (V[n, j] - rule.alpha * carry[n, j])
        u = gain - s * gain
        V[n, j] = u
        Z[n, j], low[n, j] = _raised(Z[n, j], low[n, j], u)
        carry[n, j] = 0.0


@part()
def free_step(rule: Any, mixing: Any, rows: Any, blocks: Any, ahead: Any, apart: Any) -> None:
    """One iteration of all rows without their samples; ``ahead`` and ``apart`` are scratch, COLUMNS wide."""
    for b in range(blocks.size - 1):
        first, last = blocks[b], blocks[b + 1]
        for n in range(rows.Z.shape[0]):
            look_ahead(rule.alpha, rows, n, first, last, ahead)
        for n in range(rows.Z.shape[0]):
            difference_row(mixing, n, ahead, 0, last - first, apart)
            land(rule, rows, n, first, last, apart)


@part()
def free_row(rule: Any, mixing: Any, rows: Any, blocks: Any, n: int, ahead: Any, apart: Any) -> None:
    """Row n alone of ``free_step``; here ``ahead`` is given, on all columns."""
    for b in range(blocks.size - 1):
        first, last = blocks[b], blocks[b + 1]
        difference_row(mixing, n, ahead, first, last, apart)
        land(rule, rows, n, first, last, apart)


@part()
def _read_samples(samples: Any, drawn: Any, Z: Any, B: Any) -> None:
    """B_n <- A_i z_n for each row's sample."""
    for n in range(drawn.size):
        dot_block(samples.A, (samples.start[n] + drawn[n]) * B.shape[1], Z[n], B[n])


@part()
def _touch_samples(op: Any, rule: Any, samples: Any, drawn: Any, rows: Any, phi: Any, B: Any) -> None:
    """Each row's sample, B its images: its change goes into the rows."""
    k, start = phi.shape[1], samples.start
    g, delta = np.empty(k), np.empty(k)
    for n in range(drawn.size):
        i = start[n] + drawn[n]
        sample_delta(op, rule, samples, i, phi[i], B[n], g, delta)
        add_delta(samples.A, i * k, delta, rule, 1.0 / (start[n + 1] - start[n]), rows, n)


@njit(cache=True)
def finish_dense(op: Any, rule: Any, samples: Any, drawn: Any, rows: Any, phi: Any, apart: Any) -> None:
    """One iteration from where the rows have met: ``apart`` is (I - W~)(Z + U)."""
    B = np.empty((drawn.size, phi.shape[1]))
    if not rule.backward:
        _read_samples(samples, drawn, rows.Z, B)
    for n in range(apart.shape[0]):
        land(rule, rows, n, 0, rule.n_regular, apart[n])
        land(rule, rows, n, rule.n_regular, apart.shape[1], apart[n, rule.n_regular :])
    if rule.backward:
        _read_samples(samples, drawn, rows.Z, B)
    _touch_samples(op, rule, samples, drawn, rows, phi, B)


@njit(cache=True)
def advance_dense(op: Any, rule: Any, samples: Any, drawn: Any, mixing: Any, rows: Any, phi: Any) -> None:
    """As many iterations as ``drawn`` has rows, in place."""
    n_nodes, p = rows.Z.shape
    blocks, ahead, apart = column_blocks(rule.n_regular, p), np.empty((n_nodes, COLUMNS)), np.empty(COLUMNS)
    B = np.empty((n_nodes, phi.shape[1]))
    for t in range(drawn.shape[0]):
        if not rule.backward:
            _read_samples(samples, drawn[t], rows.Z, B)
        free_step(rule, mixing, rows, blocks, ahead, apart)
        if rule.backward:
            _read_samples(samples, drawn[t], rows.Z, B)
        _touch_samples(op, rule, samples, drawn[t], rows, phi, B)
