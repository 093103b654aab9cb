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

from dsba.kernels.batches import BatchPlan, batch_delta
from dsba.kernels.cache import njit, part
from dsba.kernels.mixing import COLUMNS, difference_row
from dsba.kernels.samples import Samples, dot_block, resolve
from dsba.types import Array, Indices


class Recursion(NamedTuple):
    """The numbers of DSBA (``backward``) or DSA."""

    backward: bool
    alpha: float
    shrink: Array  # s = 1 - r, per coordinate
    coef: tuple[float, float]  # (s, damp) of the coordinates with lambda,
    coef_free: tuple[float, float]  # and of those without
    n_regular: int  # where the coordinates without lambda begin
    norms: Array  # the samples' squared norms in the metric r (Q x k)


class KernelComponents(NamedTuple):
    """What kernels need of the components of an iteration: its numbers, the samples held here, and their batches."""

    rule: Recursion
    samples: Samples  # with the weights of components
    first: Indices  # the first component of every node, and the end
    largest: int  # samples of the largest component held here
    batches: BatchPlan | tuple[()] = ()  # empty: a component is one sample

    @property
    def single(self) -> bool:
        """Whether a component is one sample."""
        return not self.batches

    def of_node(self, n: int) -> KernelComponents:
        """Those of one node, counted from its own first sample."""
        first, last = self.first[n : n + 2].tolist()
        own, rule = slice(*self.samples.start[n : n + 2].tolist()), self.rule
        held = (
            rule._replace(norms=rule.norms[own]),
            self.samples.of_node(n),
            np.array([0, last - first]),
            self.largest,
        )
        return KernelComponents(*held, self.batches and self.batches.part(first, last))


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
def component_range(batches: Any, S: int) -> Any:
    """The first sample of component S, and the one after its last."""
    if len(batches) == 0:
        return S, S + 1
    return batches.cuts[S], batches.cuts[S + 1]


@part()
def component_delta(op: Any, rule: Any, samples: Any, batches: Any, S: int, scratch: Any, phi: Any, delta: Any) -> None:
    """delta <- the weighted change of component S; its entries of the table change. ``scratch``: images and room."""
    v, g = scratch
    if len(batches) == 0:
        sample_delta(op, rule, samples, S, phi[S], v[0], g[0], delta)
    else:
        b = batches.cuts[S + 1] - batches.cuts[S]
        batch_delta(op, rule, samples, batches, S, (v[:b], g[:b]), phi, delta)


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


@part(allocates=True)
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
def read_component(A: Any, batches: Any, S: int, z: Any, V: Any, slot: int) -> None:
    """V[slot] <- A_i z for the samples i of component S."""
    if len(batches) == 0:
        dot_block(A, S * V.shape[2], z, V[slot, 0])
    else:
        for i in range(batches.cuts[S], batches.cuts[S + 1]):
            dot_block(A, i * V.shape[2], z, V[slot, i - batches.cuts[S]])


@part()
def touch_component(op: Any, rule: Any, samples: Any, batches: Any, at: Any, scratch: Any, rows: Any, phi: Any) -> None:
    """At (row n, slot of V, component S, 1/q): the change of S goes into the row.

    ``scratch`` has V with the images, room for maps, and the change.
    """
    (n, slot, S, share), (V, g, delta), k = at, scratch, phi.shape[1]
    if len(batches) == 0:
        sample_delta(op, rule, samples, S, phi[S], V[slot, 0], g[0], delta)
        add_delta(samples.A, S * k, delta, rule, share, rows, n)
    else:
        b = batches.cuts[S + 1] - batches.cuts[S]
        batch_delta(op, rule, samples, batches, S, (V[slot, :b], g[:b]), phi, delta)
        for i in range(batches.cuts[S], batches.cuts[S + 1]):
            place = (i - batches.cuts[S]) * k
            add_delta(samples.A, i * k, delta[place : place + k], rule, share, rows, n)


@part()
def _read_components(samples: Any, parts: Any, drawn: Any, Z: Any, V: Any) -> None:
    """V_n <- the images of each row's component; ``parts``: the nodes' first components, and the batches."""
    first, batches = parts
    for n in range(drawn.size):
        read_component(samples.A, batches, first[n] + drawn[n], Z[n], V, n)


@part(allocates=True)
def _touch_components(op: Any, rule: Any, samples: Any, parts: Any, drawn: Any, rows: Any, phi: Any, V: Any) -> None:
    """Each row's component, V_n its images: its change goes into the rows."""
    g = np.empty(V.shape[1:])
    scratch = (V, g, np.empty(g.size))
    for n in range(drawn.size):
        first = parts[0][n]
        at = (n, n, first + drawn[n], 1.0 / (parts[0][n + 1] - first))
        touch_component(op, rule, samples, parts[1], at, scratch, rows, phi)


@njit(allocates=True, cache=True)
def finish_dense(op: Any, components: Any, drawn: Any, rows: Any, phi: Any, apart: Any) -> None:
    """One iteration after the rows were exchanged: ``apart`` is (I - W~)(Z + U)."""
    rule, samples, first, largest, batches = components
    parts, V = (first, batches), np.empty((drawn.size, largest, phi.shape[1]))
    if not rule.backward:
        _read_components(samples, parts, drawn, rows.Z, V)
    for n in range(apart.shape[0]):
        land(rule, rows, n, 0, rule.n_regular, apart[n])
        land(rule, rows, n, rule.n_regular, apart.shape[1], apart[n, rule.n_regular :])
    if rule.backward:
        _read_components(samples, parts, drawn, rows.Z, V)
    _touch_components(op, rule, samples, parts, drawn, rows, phi, V)


@njit(allocates=True, cache=True)
def advance_dense(op: Any, components: Any, drawn: Any, mixing: Any, rows: Any, phi: Any) -> None:
    """As many iterations as ``drawn`` has rows, in place."""
    rule, samples, first, largest, batches = components  # once: the fields of a tuple are counted when it is passed on
    parts, (n_nodes, p) = (first, batches), rows.Z.shape
    blocks, ahead, apart = column_blocks(rule.n_regular, p), np.empty((n_nodes, COLUMNS)), np.empty(COLUMNS)
    V = np.empty((n_nodes, largest, phi.shape[1]))
    for t in range(drawn.shape[0]):
        if not rule.backward:
            _read_components(samples, parts, drawn[t], rows.Z, V)
        free_step(rule, mixing, rows, blocks, ahead, apart)
        if rule.backward:
            _read_components(samples, parts, drawn[t], rows.Z, V)
        _touch_components(op, rule, samples, parts, drawn[t], rows, phi, V)
