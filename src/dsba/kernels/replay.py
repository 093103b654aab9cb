"""One node of DSBA-s or DSA-s that keeps dense replicas of all rows, bit by bit those of ``dense.py``.

A node hears of source j's delta distance(n, j) iterations after it was made, so that its replica of row j
can be that many iterations behind its own. Three generations of each row are enough, generation g in
``rows[g % 3]``, if the farthest rows advance first: row j goes from g to g + 1 with the generations g and
g - 1 of its neighbours, which are one hop nearer, as near, or one hop farther.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dsba.kernels.cache import njit
from dsba.kernels.dense import Rows, add_delta, column_blocks, free_row, sample_delta
from dsba.kernels.mixing import COLUMNS
from dsba.kernels.samples import dot_block

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


class Place(NamedTuple):
    """Where a node stands: who meets whom, and of every source the weight of its carry and its distance."""

    mixing: tuple[Indices, Indices, Array]
    later: Array
    distance: Indices


class Replicas(NamedTuple):
    """What a node remembers: three generations of all rows, all carries, its own table."""

    rows: Array
    carry: Array
    phi: Array


class Visit(NamedTuple):
    """Node n takes its sample i in iteration t."""

    n: int
    i: int
    t: int


class Received(NamedTuple):
    """The deltas that came in one round, farthest sources first: rows of a CSR matrix."""

    sources: Indices
    deltas: tuple[Indices, Indices, Array]


@njit(cache=True)
def _generations(memory: Any, g: int) -> Any:
    """The rows of generations g and g - 1, and where those of g + 1 go."""
    rows = memory.rows
    return Rows(rows[g % 3], rows[(g - 1) % 3], memory.carry), rows[(g + 1) % 3]


@njit(cache=True)
def advance_replicas(
    op: Any, rule: Any, samples: Any, place: Any, memory: Any, visit: Any, received: Any, delta: Any
) -> None:
    """Iteration ``visit.t`` at node ``visit.n``: the rows of the sources received, farthest first, then its own.

    ``received`` are the sources in that order, and their deltas as the rows of a CSR matrix. delta <- the change of
    the node's own sample ``visit.i``.
    """
    n, i, now = visit
    sources, deltas = received
    n_nodes, p = memory.carry.shape
    blocks, ahead = column_blocks(rule.n_regular, p), np.empty((n_nodes, COLUMNS))
    b, g, one = np.empty(delta.size), np.empty(delta.size), np.ones(1)
    for m in range(sources.size):
        j = sources[m]
        rows, new = _generations(memory, now - place.distance[j])
        free_row(rule, place.mixing, rows, blocks, j, ahead, new)
        add_delta(deltas, m, one, rule.step, place.later[j], new[j], rows.carry[j])
    rows, new = _generations(memory, now)
    free_row(rule, place.mixing, rows, blocks, n, ahead, new)
    dot_block(samples.A, i * delta.size, new[n] if rule.backward else rows.Z[n], b)
    sample_delta(op, rule, samples, i, memory.phi[i], b, g, delta)
    add_delta(samples.A, i * delta.size, delta, rule.step, place.later[n], new[n], rows.carry[n])
