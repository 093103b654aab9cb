"""Iterations of DVR in the eigenbasis of the mixing matrix: a round of gossip multiplies every mode by a number.

So a column that no sample touches is not gone through: at its next visit it is multiplied by a power of these numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dsba.kernels.cache import njit, part


class GossipModes(NamedTuple):
    """Columns of Z as modes (p x N), each as of ``stamp`` rounds; the basis (node, mode), and powers of its factors.

    ``powers[k]`` has the factors of k rounds.
    """

    modes: npt.NDArray[np.float64]
    stamp: npt.NDArray[np.int64]
    basis: npt.NDArray[np.float64]
    powers: npt.NDArray[np.float64]


@part()
def _bring(j: int, gossips: int, state: Any) -> None:
    """Column j to the present."""
    column = state.modes[j]
    while state.stamp[j] < gossips:
        lag = min(gossips - state.stamp[j], state.powers.shape[0] - 1)
        for m in range(column.size):
            column[m] *= state.powers[lag, m]
        state.stamp[j] += lag


@part()
def _image(row: int, n: int, A: Any, gossips: int, state: Any) -> float:
    """The product of a row of A with the iterate of node n."""
    indptr, indices, data = A
    total = 0.0
    for e in range(indptr[row], indptr[row + 1]):
        _bring(indices[e], gossips, state)
        column, found = state.modes[indices[e]], 0.0
        for m in range(column.size):
            found += state.basis[n, m] * column[m]
        total += data[e] * found
    return total


@part()
def _add(row: int, n: int, scale: float, A: Any, state: Any) -> None:
    """Add ``scale`` times a row of A to the iterate of node n."""
    indptr, indices, data = A
    for e in range(indptr[row], indptr[row + 1]):
        column, x = state.modes[indices[e]], scale * data[e]
        for m in range(column.size):
            column[m] += x * state.basis[n, m]


@njit(allocates=True, cache=True, nogil=True)
def dvr_iterations(
    op: Any, samples: Any, drawn: Any, computes: Any, rule: Any, gossips: int, state: Any, memory: Any
) -> int:
    """An iteration for each row of ``drawn``, a computation where ``computes`` says so; the rounds of gossip so far.

    ``rule`` has rho of every node, and sigma; ``memory`` has y and phi.
    """
    rho, sigma = rule
    y, phi = memory
    g = np.empty(samples.k)
    for t in range(computes.size):
        if not computes[t]:
            gossips += 1
            continue
        for n in range(rho.size):
            i, size = samples.start[n] + drawn[t, n], samples.start[n + 1] - samples.start[n]
            for c in range(samples.k):
                image = _image(i * samples.k + c, n, samples.A, gossips, state)
                y[i, c] = (1.0 - rho[n]) * y[i, c] + rho[n] * image
            op.forward(y[i], samples.y[i], g)
            for c in range(samples.k):
                change = samples.weight[i] * (g[c] - phi[i, c]) / (size * sigma)
                _add(i * samples.k + c, n, -change, samples.A, state)
                phi[i, c] = g[c]
    return gossips
