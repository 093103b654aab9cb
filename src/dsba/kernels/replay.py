"""One node of DSBA-s or DSA-s that keeps dense replicas of all rows, bit by bit those of ``dense.py``.

A node hears of source j's delta distance(n, j) iterations after it was made, so that its replica of row j
can be that many iterations behind its own. Three generations of each row are enough, generation g in
``rows[g % 3]``, if the farthest rows advance first: row j goes from g to g + 1 with the generations g and
g - 1 of its neighbours, which are one hop nearer, as near, or one hop farther.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dsba.kernels.cache import njit
from dsba.kernels.dense import add_delta, column_blocks, free_row, sample_delta
from dsba.kernels.mixing import COLUMNS
from dsba.kernels.samples import dot_block


@njit(cache=True)
def _generations(rows: Any, g: int) -> Any:
    """Z, Z_prev, and where Z+ goes: the rows of generations g, g - 1 and g + 1."""
    return rows[g % 3], rows[(g - 1) % 3], rows[(g + 1) % 3]


@njit(cache=True)
def advance_replicas(
    op: Any, backward: bool, alpha: float, A: Any, y: Any, s: Any, weight: Any, n: int, i: int,
    mixing: Any, step: Any, coef: Any, coef_free: Any, n_regular: int, later: Any, distance: Any,
    rows: Any, carry: Any, phi: Any, now: int, received: Any, delta: Any,
) -> None:  # fmt: skip
    """Iteration ``now`` at node n: the rows of the sources received, farthest first, then its own; delta <- its change.

    ``received`` are the sources in that order, and their deltas as the rows of a CSR matrix.
    """
    indptr, indices, data = A
    sources, ends, columns, values = received
    n_nodes, p = carry.shape
    blocks, ahead = column_blocks(n_regular, p), np.empty((n_nodes, COLUMNS))
    b, g, one = np.empty(delta.size), np.empty(delta.size), np.ones(1)
    for m in range(sources.size):
        j = sources[m]
        Z, Z_prev, new = _generations(rows, now - distance[j])
        free_row(mixing, Z, Z_prev, carry, alpha, coef, coef_free, n_regular, blocks, j, ahead, new)
        add_delta(ends, columns, values, m, one, step, later[j], new[j], carry[j])
    Z, Z_prev, new = _generations(rows, now)
    free_row(mixing, Z, Z_prev, carry, alpha, coef, coef_free, n_regular, blocks, n, ahead, new)
    dot_block(indptr, indices, data, i * delta.size, new[n] if backward else Z[n], b)
    sample_delta(op, backward, b, alpha * weight[i], s[i], y[i], phi[i], g, delta)
    delta *= weight[i]
    add_delta(indptr, indices, data, i * delta.size, delta, step, later[n], new[n], carry[n])
