"""The lazy form of DSBA and DSA: no O(d) work per iteration (formulas in docs/architecture.md).

Between two visits a column of Z follows a fixed linear recursion. In the eigenbasis of W~ it
splits into one 2 x 2 recursion per mode, with eigenvalue w:

    z+ = (1 - r(1-w)) z + r v,      v+ = kappa r (v - (1-w) z),

where v = kappa (z - z_prev) + alpha carry, and DSBA has kappa = w, r = 1/(1 + alpha lam), DSA has
kappa = w - alpha lam, r = 1. Nothing is divided by w, so W = -I is as good as any. The k-th power
of the recursion needs two numbers, P and Q:

    z_k = P z + Q v,    v_k = P v - Q (c2 v + c1 z),    c1 = kappa (1-w),  c2 = alpha lam.

A column is moved over the whole gap since its last visit at once, and a node's change ``delta`` of
this iteration enters z with -r alpha and v with alpha ((1 - 1/q) - r kappa): the second covers the
carry of the next iteration too, so one visit per sample is enough.

Coordinates with lambda and without it (AUC's a, b, theta) are two groups with tables of their own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dsba._system.memory import own_pages
from dsba.kernels.cache import njit, part
from dsba.kernels.dense import component_delta, component_range, sample_delta
from dsba.kernels.samples import dot_run
from dsba.kernels.simd import (
    add_modes,
    lanes_of,
    move_and_add,
    move_and_read,
    move_modes,
    padded,
    prefetch,
    prefetch_column,
    read_ahead,
    read_modes,
    scatter_modes,
    width_of,
)
from dsba.kernels.thread_pair import barrier, collect, ends

GAPS = 4096  # a power of two: gaps tabulated one by one, and again in multiples of GAPS
COLUMNS_AHEAD = 12  # columns asked for before they are needed
ROWS_TOGETHER = 64  # turned into rows together
PLACES = 1024  # measured together
PIECE = 1 << 22  # nonzeros counted together


class ModePlan(NamedTuple):
    """What stays the same during a run. Index 0: coordinates with lambda, 1: without."""

    lanes: tuple[int, ...]  # for code that knows the number of modes (kernels/simd.py)
    position: npt.NDArray[np.int64]  # where a column is kept: popular ones together, free ones last
    indices: npt.NDArray[Any]  # the data's columns as positions
    middle: int  # where the second half of the columns begins if a block is one row in copies of its columns, else 0
    n_regular: int
    basis: npt.NDArray[np.float64]  # N x width, row n: node n's entry of each mode
    powers: npt.NDArray[np.float64]  # (group, level, gap, P or Q, mode)
    c1: npt.NDArray[np.float64]  # (group, mode)
    c2: npt.NDArray[np.float64]  # (group,)
    effects: npt.NDArray[np.float64]  # of one unit of each node's delta (node, z or v, group, mode)


class ModeState(NamedTuple):
    """What changes: all columns in mode space, the iteration each is as of, the table."""

    modes: npt.NDArray[np.float64]  # (column, z or v, mode)
    stamp: npt.NDArray[np.int64]
    phi: npt.NDArray[np.float64]


class Spectrum(NamedTuple):
    """Eigenvalues of W~, descending, and its eigenvectors as columns."""

    eigenvalues: npt.NDArray[np.float64]
    eigenvectors: npt.NDArray[np.float64]


def _recursion(w: Any, alpha_lam: float, backward: bool) -> tuple[Any, Any, Any]:
    """r, kappa and the 2 x 2 matrices M (row, column, mode) of the recursion, in extended precision."""
    w, x = w.astype(np.longdouble), np.longdouble(alpha_lam)
    r, kappa = (1 / (1 + x), w) if backward else (np.longdouble(1), w - x)
    return r, kappa, np.array([[1 - r * (1 - w), np.full_like(w, r)], [-kappa * r * (1 - w), kappa * r]])


def _powers(w: Any, alpha_lam: float, backward: bool) -> Any:
    """P and Q of the powers 0..GAPS-1 of M, and of M^GAPS (level, gap, P or Q, mode).

    In extended precision throughout: a rounded r would be off by gap * 1e-16 in the powers.
    """
    M = _recursion(w, alpha_lam, backward)[2]
    levels = []
    for _ in range(2):
        powers = np.repeat(np.eye(1, 2, dtype=np.longdouble)[..., None], w.size, axis=2)  # P = 1, Q = 0: first rows
        while len(powers) < GAPS:  # powers n..2n-1 are powers 0..n-1 times M^n
            powers = np.concatenate([powers, np.einsum("gbm,bcm->gcm", powers, M)])
            M = np.einsum("abm,bcm->acm", M, M)
        levels.append(powers)
    return np.array(levels, dtype=np.float64)


def column_positions(indices: Any, n_columns: int, n_regular: int) -> npt.NDArray[np.int64]:
    """Where each column is kept: by popularity in ``indices``, the free ones last."""
    popularity = np.zeros(n_columns, np.int64)
    for piece in np.array_split(indices, 1 + indices.size // PIECE):  # bincount copies what it is given
        popularity += np.bincount(piece, minlength=n_columns)
    popularity[n_regular:] = -1
    position = np.empty(n_columns, np.int64)
    position[np.argsort(-popularity, kind="stable")] = np.arange(n_columns)
    return position


def in_halves(position: Any, k: int, n_regular: int) -> tuple[npt.NDArray[np.int64], int]:
    """The positions of columns in k copies, every other column moved to a second half; and where that begins.

    Threads that share the columns (``thread_pair.py``) should be far from each other: a core asks for what follows in
    memory, too, and would take it from the core that writes there.
    """
    place, copy = np.divmod(position, k)
    middle = (n_regular // k + 1) // 2
    moved = (np.where(place % 2, middle, 0) + place // 2) * k + copy
    return np.where(position < n_regular, moved, position), middle * k


def plan_modes(blocks: Any, k: int, n_columns: int, rule: Any, lam: float, spectrum: Spectrum) -> ModePlan:
    """Tables for one step size and topology; ``blocks`` are the samples' in CSR, ``rule`` the method's recursion."""
    indptr, columns, data = blocks
    eigenvalues, eigenvectors = spectrum
    n_nodes = eigenvalues.size
    width = padded(n_nodes)
    position, middle = column_positions(columns, n_columns, rule.n_regular), 0
    whole = k > 1 and rule.n_regular % k == n_columns % k == 0  # columns without copies have no halves
    if whole and side_by_side(indptr, columns, data, k):
        position, middle = in_halves(position, k, rule.n_regular)
    indices = position.astype(columns.dtype)[columns]
    basis, c1 = np.zeros((n_nodes, width)), np.zeros((2, width))
    basis[:, :n_nodes] = eigenvectors
    powers = own_pages((2, 2, GAPS, 2, width))
    c2 = np.array([rule.alpha * lam, 0.0])
    for group in range(2 if rule.n_regular < n_columns else 1):
        kappa = eigenvalues if rule.backward else eigenvalues - c2[group]
        c1[group, :n_nodes] = kappa * (1.0 - eigenvalues)
        powers[group, ..., :n_nodes] = _powers(eigenvalues, c2[group], rule.backward)
    none = np.zeros((0, 2, 2, width))
    return ModePlan(lanes_of(width), position, indices, middle, rule.n_regular, basis, powers, c1, c2, none)


@njit(cache=True)
def side_by_side(indptr: Any, indices: Any, data: Any, k: int) -> bool:
    """Whether the k > 1 rows of every block are one row in copies of its columns, k neighbours each, as softmax's."""
    for row in range(0, indptr.size - 1, k):
        first, size = indptr[row], indptr[row + 1] - indptr[row]
        for e in range(first, first + size):
            if indices[e] % k != 0:
                return False
        for c in range(1, k):
            if indptr[row + c + 1] - indptr[row + c] != size:
                return False
            for e in range(size):
                twin = indptr[row + c] + e
                if indices[twin] != indices[first + e] + c or data[twin] != data[first + e]:
                    return False
    return k > 1


def plan_effects(rule: Any, lam: float, spectrum: Spectrum, sizes: Any, ages: Any) -> npt.NDArray[np.float64]:
    """What one unit of each node's delta does to (z, v), ``ages`` iterations later (node, z or v, group, mode)."""
    eigenvalues, eigenvectors = spectrum
    n_nodes = eigenvalues.size
    out = np.zeros((n_nodes, 2, 2, padded(n_nodes)))
    later = 1 - 1 / np.asarray(sizes, np.longdouble)[:, None]
    for group, alpha_lam in enumerate((rule.alpha * lam, 0.0)):
        r, kappa, M = _recursion(eigenvalues, alpha_lam, rule.backward)
        change = rule.alpha * eigenvectors * np.array([np.broadcast_to(-r, (n_nodes, n_nodes)), later - r * kappa])
        for age in range(int(np.max(ages)) + 1):
            due = np.flatnonzero(ages == age)
            out[due, :, group, :n_nodes] = change[:, due].swapaxes(0, 1)
            change = np.einsum("abm,bnm->anm", M, change)
    return out


def start_modes(plan: ModePlan, z0: Any, carry: Any, alpha: float) -> npt.NDArray[np.float64]:
    """All nodes at z0, so only the constant mode is there, and v = alpha carry as z = z_prev."""
    n_nodes, width = plan.basis.shape
    modes = own_pages((z0.size, 2, width))
    modes[plan.position, 0, 0] = np.sqrt(n_nodes) * z0
    if carry.any():
        modes[plan.position, 1, :n_nodes] = alpha * (carry.T @ plan.basis[:, :n_nodes])
    return modes


# Places in the arrays of a plan and a state, whose axes the classes above name. Vector instructions take a place, which
# is the number of the first element, and the arrays have ``width`` modes.


@part()
def group_of(n_regular: int, j: int) -> int:
    """The group of the column at position j: 0 with lambda, 1 without."""
    return 0 if j < n_regular else 1


@part()
def column_at(j: int, width: int) -> int:
    """Of z of the column at position j in ``modes``; v follows."""
    return j * 2 * width


@part()
def power_at(group: int, level: int, gap: int, width: int) -> int:
    """Of P of a power in ``powers``; Q follows. Level 1 has the powers of GAPS iterations."""
    return ((group * 2 + level) * GAPS + gap) * 2 * width


@part()
def effects_at(n: int, group: int, width: int) -> tuple[int, int]:
    """Of what a unit of node n's delta does to z and to v, in ``effects``."""
    z = (n * 4 + group) * width
    return z, z + 2 * width


@part()
def _leap(plan: Any, modes: Any, at: int, group: int, gap: int) -> int:
    """Move a column by multiples of GAPS until fewer than GAPS iterations remain; returns those."""
    width = width_of(plan.lanes, plan.basis.shape[1])
    powers, c1 = plan.powers, plan.c1
    while gap >= GAPS:
        leaps = min(gap // GAPS, GAPS - 1)
        power = power_at(group, 1, leaps, width)
        move_modes(modes, at, powers, power, (c1, group * width, plan.c2[group]), (plan.lanes, width))
        gap -= leaps * GAPS
    return gap


@part()
def _move(plan: Any, modes: Any, at: int, group: int, gap: int) -> None:
    """Move a column by ``gap`` iterations."""
    width = width_of(plan.lanes, plan.basis.shape[1])
    powers, c1 = plan.powers, plan.c1
    power = power_at(group, 0, _leap(plan, modes, at, group, gap), width)
    move_modes(modes, at, powers, power, (c1, group * width, plan.c2[group]), (plan.lanes, width))


@part()
def move_column(plan: Any, state: Any, j: int, time: int) -> None:
    """Move a column to ``time``, unless it is there."""
    gap = time - state.stamp[j]
    if gap != 0:
        width = width_of(plan.lanes, plan.basis.shape[1])
        _move(plan, state.modes, column_at(j, width), group_of(plan.n_regular, j), gap)
        state.stamp[j] = time


@part()
def read_sample(plan: Any, share: Any, A: Any, state: Any, time: int, n: int, row: int, b: Any) -> None:
    """b <- A_i z_n at iteration ``time``. If blocks are copies of one row, the thread's share of that goes to the
    pair's sums, and ``collect`` makes b of them."""
    if share is None:
        _read_rows(plan, A, state, time, n, row, b)
    else:
        _read_copies(plan, share, A, state, time, n, row)


@part()
def add_sample(plan: Any, share: Any, A: Any, state: Any, time: int, row: int, coef: Any, n: int) -> None:
    """Add A_i' coef, a change of node n, to the columns that were read at this time."""
    if share is None:
        _add_rows(plan, A, state, row, coef, n)
    else:
        _inject_copies(plan, share, A, state, time, row, coef, n)


@part()
def inject_sample(plan: Any, share: Any, A: Any, state: Any, time: int, row: int, coef: Any, n: int) -> None:
    """Move the sample's columns to ``time`` and add A_i' coef, a change of node n, to them."""
    if share is None:
        _move_rows(plan, A, state, time, (row, row + coef.size))
    add_sample(plan, share, A, state, time, row, coef, n)


@part()
def _read_rows(plan: Any, A: Any, state: Any, time: int, n: int, row: int, b: Any) -> None:
    """b <- A_i z_n at iteration ``time``; the sample's columns move there."""
    indptr, indices, data = A
    width = width_of(plan.lanes, plan.basis.shape[1])
    modes, powers, basis, c1 = state.modes, plan.powers, plan.basis, plan.c1
    n_regular, c2, stamp, last = plan.n_regular, plan.c2, state.stamp, indices.size - 1
    for c in range(b.size):
        total = 0.0
        for e in range(np.uint64(indptr[row + c]), np.uint64(indptr[row + c + 1])):
            soon = np.int64(indices[min(e + np.uint64(COLUMNS_AHEAD), np.uint64(last))])
            prefetch(stamp, soon)
            prefetch_column(modes, column_at(soon, width), (plan.lanes, width))
            j = np.int64(indices[e])
            at, gap = column_at(j, width), time - stamp[np.uint64(j)]
            if gap == 0:
                found = read_modes(modes, at, basis, n * width, (plan.lanes, width))
            else:
                stamp[np.uint64(j)] = time
                group = group_of(n_regular, j)
                if gap >= GAPS:
                    gap = _leap(plan, modes, at, group, gap)
                found = move_and_read(
                    modes, at, powers, power_at(group, 0, gap, width),
                    (c1, group * width, c2[group]), (plan.lanes, width), (basis, n * width),
                )  # fmt: skip
            total += data[e] * found
        b[c] = total


@part()
def _move_rows(plan: Any, A: Any, state: Any, time: int, rows: Any) -> None:
    """Move the columns of some rows to ``time``."""
    indptr, indices, _ = A
    for e in range(indptr[rows[0]], indptr[rows[1]]):
        move_column(plan, state, np.int64(indices[e]), time)


@part()
def _add_rows(plan: Any, A: Any, state: Any, row: int, coef: Any, n: int) -> None:
    """Add A_i' coef, a change of node n, to the sample's columns, which have moved already."""
    indptr, indices, data = A
    width = width_of(plan.lanes, plan.basis.shape[1])
    modes, n_regular, effects = state.modes, plan.n_regular, plan.effects
    for c in range(coef.size):
        for e in range(indptr[row + c], indptr[row + c + 1]):
            j = np.int64(indices[e])
            z, v = effects_at(n, group_of(n_regular, j), width)
            add_modes(modes, column_at(j, width), effects, z, v, coef[c] * data[e], (plan.lanes, width))


@part()
def _next_own(share: Any, indices: Any, e: Any, end: Any) -> Any:
    """The first entry from ``e`` on whose column is this thread's, or the end."""
    while e < end and not share.lo <= indices[e] < share.hi:
        e += np.uint64(1)
    return e


@part()
def _read_copies(plan: Any, share: Any, A: Any, state: Any, time: int, n: int, row: int) -> None:
    """The share of A_i z_n at iteration ``time``, where the rows of a block are copies of one row.

    Copies of a column always move together: entry by entry one stretch of memory, with powers that stay in registers.
    They are many, so nothing is written before ``_inject_copies``, which moves them.
    """
    indptr, indices, data = A
    width, k = width_of(plan.lanes, plan.basis.shape[1]), share.delta.size
    modes, powers, basis, stamp = state.modes, plan.powers, plan.basis, state.stamp
    sums, end = share.sums, np.uint64(indptr[row + 1])
    for half in range(share.lo >= plan.middle, 1 + (share.hi > plan.middle)):
        for m in range(k):
            sums[half, m] = 0.0
    e = _next_own(share, indices, np.uint64(indptr[row]), end)
    while e < end:
        after = _next_own(share, indices, e + np.uint64(1), end)
        j, soon = np.int64(indices[e]), np.int64(indices[after if after < end else e])
        prefetch(stamp, soon)
        group, gap = group_of(plan.n_regular, j), time - stamp[np.uint64(j)]
        if gap >= GAPS:
            gap = _leap_copies(plan, state, time, j, k)
        power, half, x = power_at(group, 0, gap, width), 1 if j >= plan.middle else 0, data[e]
        for m in range(k):
            at = column_at(j + m, width)
            prefetch_column(modes, column_at(soon + m, width), (plan.lanes, width))
            sums[half, m] += x * read_ahead(modes, at, powers, power, (basis, n * width), (plan.lanes, width))
        e = after


@part()
def _inject_copies(plan: Any, share: Any, A: Any, state: Any, time: int, row: int, coef: Any, n: int) -> None:
    """The same columns move to ``time``, and A_i' coef, a change of node n, is added to them."""
    indptr, indices, data = A
    width = width_of(plan.lanes, plan.basis.shape[1])
    modes, powers, c1, effects, stamp = state.modes, plan.powers, plan.c1, plan.effects, state.stamp
    for e in range(np.uint64(indptr[row]), np.uint64(indptr[row + 1])):
        j, x = np.int64(indices[e]), data[e]
        if not share.lo <= j < share.hi:
            continue
        group, gap = group_of(plan.n_regular, j), time - stamp[np.uint64(j)]
        if gap >= GAPS:
            gap = _leap_copies(plan, state, time, j, coef.size)
        power, (z, v) = power_at(group, 0, gap, width), effects_at(n, group, width)
        for m in range(coef.size):
            stamp[np.uint64(j + m)] = time
            move_and_add(
                modes, column_at(j + m, width), powers, power, (c1, group * width, plan.c2[group]),
                (plan.lanes, width), (effects, z, v, x * coef[m]),
            )  # fmt: skip


@part()
def _leap_copies(plan: Any, state: Any, time: int, j: int, copies: int) -> int:
    """Move a column and its copies by multiples of GAPS; returns the gap that remains."""
    width, gap = width_of(plan.lanes, plan.basis.shape[1]), time - state.stamp[j]
    group, left = group_of(plan.n_regular, j), gap
    for m in range(copies):
        left = _leap(plan, state.modes, column_at(j + m, width), group, gap)
        state.stamp[j + m] = time - left
    return left


@njit(allocates=True, cache=True, nogil=True)
def advance_modes(op: Any, rule: Any, samples: Any, drawn: Any, plan: Any, state: Any, t0: int, share: Any) -> int:
    """DSBA: as many iterations as ``drawn`` has rows, from iteration ``t0`` on, in place; how many were made.

    Node after node: a node's change enters its own row of the next iterate, which no other node reads. ``share`` is
    what this thread does of it, where blocks are copies of one row; a pair may end early. Otherwise it is None.
    """
    A = (samples.A[0], plan.indices, samples.A[2])
    k = state.phi.shape[1]
    b, g, delta = np.empty(k), np.empty(k), np.empty(k) if share is None else share.delta
    for t in range(drawn.shape[0]):
        for n in range(drawn.shape[1]):
            i = samples.start[n] + drawn[t, n]
            read_sample(plan, share, A, state, t0 + t + 1, n, i * k, b)
            if barrier(share):
                collect(share, b)
                sample_delta(op, rule, samples, i, state.phi[i], b, g, delta)
            barrier(share)
            add_sample(plan, share, A, state, t0 + t + 1, i * k, delta, n)
        if ends(share):
            return t + 1
    return drawn.shape[0]


@part()
def _read_component(
    op: Any, components: Any, visit: Any, plan: Any, state: Any, share: Any, scratch: Any, delta: Any
) -> None:
    """delta <- the change of node n's component S in iteration ``now``."""
    (rule, samples, _, _, batches), (n, S, now), v = components, visit, scratch[0]
    A, k = (samples.A[0], plan.indices, samples.A[2]), state.phi.shape[1]
    lo, hi = component_range(batches, S)
    for i in range(lo, hi):
        read_sample(plan, share, A, state, now + 1 if rule.backward else now, n, i * k, v[i - lo])
        collect(share, v[i - lo])
    component_delta(op, rule, samples, batches, S, scratch, state.phi, delta)


@part()
def _inject_component(components: Any, visit: Any, plan: Any, state: Any, share: Any, delta: Any) -> None:
    """The change of node n's component S enters the state of the iteration after ``now``."""
    (_, samples, _, _, batches), (n, S, now) = components, visit
    A, k = (samples.A[0], plan.indices, samples.A[2]), state.phi.shape[1]
    lo, hi = component_range(batches, S)
    for i in range(lo, hi):
        inject_sample(plan, share, A, state, now + 1, i * k, delta[(i - lo) * k : (i - lo + 1) * k], n)


@njit(allocates=True, cache=True)
def advance_modes_apart(op: Any, components: Any, drawn: Any, plan: Any, state: Any, t0: int, share: Any) -> None:
    """The same for DSA, and for batches: all nodes read before any writes, so that all see the same columns."""
    first, largest, n_nodes, k = components.first, components.largest, drawn.shape[1], state.phi.shape[1]
    scratch, delta = (np.empty((largest, k)), np.empty((largest, k))), np.empty((n_nodes, largest * k))
    for t in range(drawn.shape[0]):
        for n in range(n_nodes):
            visit = (n, first[n] + drawn[t, n], t0 + t)
            _read_component(op, components, visit, plan, state, share, scratch, delta[n])
        for n in range(n_nodes):
            visit = (n, first[n] + drawn[t, n], t0 + t)
            _inject_component(components, visit, plan, state, share, delta[n])


@njit(allocates=True, cache=True)
def advance_own_row(op: Any, components: Any, plan: Any, state: Any, visit: Any, received: Any, delta: Any) -> None:
    """One iteration at one node alone: take in what was received, then its own component; delta <- its change.

    ``modes`` lacks the deltas that are still under way. By linearity and causality node n's own row is
    exact none the less: a delta reaches a node as a message no later than it would through the iterates.
    A delta made in iteration s enters at s + 1 and is received distance(n, source) iterations after s, so
    the plan's effects are those of age distance - 1, and of age 0 for n itself.
    """
    sources, deltas = received
    own, k, one = (visit.n, visit.i, visit.t), state.phi.shape[1], np.ones(1)
    scratch = np.empty((delta.size // k, k)), np.empty((delta.size // k, k))
    for m in range(sources.size):
        inject_sample(plan, None, deltas, state, visit.t, m, one, sources[m])
    _read_component(op, components, own, plan, state, None, scratch, delta)
    _inject_component(components, own, plan, state, None, delta)


@part()
def _copy_column(modes: Any, at: int, column: Any) -> None:
    """column <- the z and v at this place, one after the other.

    A loop: the assignment of a slice compiles a text of its own for shapes that do not fit.
    """
    width = column.size // 2
    for m in range(width):
        column[m], column[width + m] = modes[at, 0, m], modes[at, 1, m]


@part()
def _modes_now(plan: Any, state: Any, time: int, at: int, column: Any) -> None:
    """column <- the modes of the column at this place, as of ``time``; the state stays as it is."""
    _copy_column(state.modes, at, column)
    _move(plan, column, 0, group_of(plan.n_regular, at), time - state.stamp[at])


@njit(allocates=True, cache=True)
def rows_from_modes(plan: Any, state: Any, time: int, Z: Any, first_node: int = 0) -> None:
    """Z <- the iterates at ``time`` of as many nodes as it has rows; the state stays as it is."""
    n_nodes, width = plan.basis.shape
    block = np.empty((ROWS_TOGETHER, 2 * width))
    for first in range(0, Z.shape[1], ROWS_TOGETHER):
        last = min(first + ROWS_TOGETHER, Z.shape[1])
        for j in range(first, last):
            _modes_now(plan, state, time, plan.position[j], block[j - first])
        for n in range(Z.shape[0]):
            for j in range(first, last):
                Z[n, j] = dot_run(plan.basis[first_node + n], 0, block[j - first], 0, n_nodes)


@part()
def _first_mode(source: Any, place: int, powers: Any, power: int, width: int) -> float:
    """P z + Q v of a column's first mode; unsigned, so that no index is tested for being negative."""
    z, P = np.uint64(place), np.uint64(power)
    v, Q = np.uint64(place + width), np.uint64(power + width)
    return powers[P] * source[z] + powers[Q] * source[v]


@njit(allocates=True, cache=True, nogil=True)
def mean_from_modes(lo: int, hi: int, plan: Any, state: Any, time: int, mean: Any, scatter: Any) -> None:
    """For the pieces lo..hi-1 of PLACES columns each, at ``time``: mean <- the mean of all nodes' iterates, place by
    place; scatter_piece <- sum_n ||z_n - mean||^2.

    The first mode is the mean times sqrt(N), and the others are what is left of the rows.
    """
    width = width_of(plan.lanes, plan.basis.shape[1])
    modes, powers, column = state.modes.reshape(-1), plan.powers.reshape(-1), np.empty(2 * width)
    others, root, stamp = np.ones(width), np.sqrt(plan.basis.shape[0]), state.stamp
    others[0] = 0.0
    for piece in range(lo, hi):
        total = 0.0
        for at in range(piece * PLACES, min((piece + 1) * PLACES, mean.size)):
            gap, group = time - stamp[np.uint64(at)], group_of(plan.n_regular, at)
            if gap < GAPS:  # two paths that say what they read: a choice between arrays costs half of the time
                place, power = column_at(at, width), power_at(group, 0, gap, width)
                mean[at] = _first_mode(modes, place, powers, power, width) / root
                total += scatter_modes(modes, place, powers, power, others, (plan.lanes, width))
            else:
                _copy_column(state.modes, at, column)
                power = power_at(group, 0, _leap(plan, column, 0, group, gap), width)
                mean[at] = _first_mode(column, 0, powers, power, width) / root
                total += scatter_modes(column, 0, powers, power, others, (plan.lanes, width))
        scatter[piece] = total
