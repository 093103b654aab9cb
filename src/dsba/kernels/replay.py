"""One node of DSBA-s or DSA-s that keeps dense replicas of all rows, bit by bit those of ``dense.py``.

A node receives source j's delta distance(n, j) iterations after it was made, so that its replica of row j
can be that many iterations behind its own. What is mixed is ``ahead`` = z + u. Two generations of it are enough,
generation g in ``ahead[g % 2]``, if the farthest rows advance first: row j goes from g to g + 1 with generation g
of its neighbours, which are one hop nearer, as near, or one hop farther.
"""

from typing import Any, NamedTuple

import numpy as np

from dsba.kernels import dense
from dsba.kernels.cache import njit, part
from dsba.kernels.mixing import COLUMNS
from dsba.types import Array, Indices


class Place(NamedTuple):
    """Where a node stands: its neighbours, and of every source its 1/q and its distance."""

    mixing: tuple[Indices, Indices, Array]
    share: Array
    distance: Indices


class Replicas(NamedTuple):
    """What a node remembers: the latest generation of all rows, two generations of z + u, its own table."""

    rows: dense.DenseRows
    ahead: Array
    phi: Array


class Visit(NamedTuple):
    """Node n takes its component i in iteration t."""

    n: int
    i: int
    t: int


class Received(NamedTuple):
    """The deltas that came in one round, farthest sources first: rows of a CSR matrix."""

    sources: Indices
    deltas: tuple[Indices, Indices, Array]


@part(allocates=True)
def take_received(rule: Any, place: Any, memory: Any, now: int, received: Any, blocks: Any, apart: Any) -> None:
    """Advance the rows of the sources received, farthest first; ``blocks`` are of columns, ``apart`` is scratch."""
    sources, deltas = received
    rows, ahead, one = memory.rows, memory.ahead, np.ones(1)
    for m in range(sources.size):
        j = sources[m]
        generation = now - place.distance[j]
        dense.free_row(rule, place.mixing, rows, blocks, j, ahead[generation % 2], apart)
        dense.add_delta(deltas, m, one, rule, place.share[j], rows, j)
        dense.look_ahead(rule.alpha, rows, j, 0, ahead.shape[2], ahead[(generation + 1) % 2])


@njit(allocates=True, cache=True)
def advance_replicas(op: Any, components: Any, place: Any, memory: Any, visit: Any, received: Any, delta: Any) -> None:
    """Iteration ``visit.t`` at node ``visit.n``: the rows of the sources received, farthest first, then its own.

    ``received`` are the sources in that order, and their deltas as the rows of a CSR matrix. delta <- the change of
    the node's own component ``visit.i``.
    """
    (rule, samples, _, _, batches), (n, i, now), k = components, visit, memory.phi.shape[1]
    rows, ahead = memory.rows, memory.ahead
    p = ahead.shape[2]
    blocks, apart = dense.column_blocks(rule.n_regular, p), np.empty(COLUMNS)
    V, g = np.empty((1, delta.size // k, k)), np.empty((delta.size // k, k))
    take_received(rule, place, memory, now, received, blocks, apart)
    if not rule.backward:
        dense.read_component(samples.A, batches, i, rows.Z[n], V, 0)
    dense.free_row(rule, place.mixing, rows, blocks, n, ahead[now % 2], apart)
    if rule.backward:
        dense.read_component(samples.A, batches, i, rows.Z[n], V, 0)
    at = (n, 0, i, place.share[n])
    dense.touch_component(op, rule, samples, batches, at, (V, g, delta), rows, memory.phi)
    dense.look_ahead(rule.alpha, rows, n, 0, p, ahead[(now + 1) % 2])
