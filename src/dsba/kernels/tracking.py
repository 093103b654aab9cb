"""Iterations of gradient tracking with a table, in the eigenbasis of the mixing matrix.

An iteration multiplies (z, y) of every mode of a column by a 2 x 2 matrix. So a column that no sample touches is not
gone through: at its next visit it is multiplied by a power of these matrices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dsba.kernels.cache import njit, part


class TrackingPlan(NamedTuple):
    """The basis (node, mode), the share h of a change that enters y (mode), and the matrices.

    ``powers[c, 0, k]`` has the k-th powers for columns of kind c (those with one lambda), a matrix a mode as four
    numbers; ``powers[c, 1, k]`` has those that are longer by the number of tabled powers.
    """

    basis: npt.NDArray[np.float64]
    h: npt.NDArray[np.float64]
    powers: npt.NDArray[np.float64]
    kind: npt.NDArray[np.int64]


class TrackedColumns(NamedTuple):
    """Columns as modes (p x 3 x N): z, y, and what the estimate G is above the table's mean and the regulariser."""

    modes: npt.NDArray[np.float64]
    stamp: npt.NDArray[np.int64]  # the iteration that each column is at


@part()
def _multiply(column: Any, matrices: Any) -> None:
    for m in range(matrices.shape[0]):
        z, y = column[0, m], column[1, m]
        column[0, m] = matrices[m, 0] * z + matrices[m, 1] * y
        column[1, m] = matrices[m, 2] * z + matrices[m, 3] * y


@part()
def _move(column: Any, lag: int, c: int, plan: Any) -> None:
    """A column by so many iterations; what the last change left counts in the first of them."""
    if lag == 0:
        return
    _multiply(column, plan.powers[c, 0, 1])
    for m in range(plan.h.size):
        column[1, m] -= plan.h[m] * column[2, m]
        column[2, m] = 0.0
    lag, tabled = lag - 1, plan.powers.shape[2]
    while lag > 0:
        far = min(lag // tabled, tabled - 1)
        near = min(lag - far * tabled, tabled - 1)
        if near > 0:
            _multiply(column, plan.powers[c, 0, near])
        if far > 0:
            _multiply(column, plan.powers[c, 1, far])
        lag -= near + far * tabled


@part()
def _image(row: int, n: int, A: Any, t: int, plan: Any, columns: Any) -> float:
    """The product of a row of A with the iterate of node n after iteration t."""
    indptr, indices, data = A
    total = 0.0
    for e in range(indptr[row], indptr[row + 1]):
        j, found = indices[e], 0.0
        column = columns.modes[j]
        _move(column, t - columns.stamp[j], plan.kind[j], plan)
        columns.stamp[j] = t
        for m in range(plan.h.size):
            found += plan.basis[n, m] * column[0, m]
        total += data[e] * found
    return total


@part()
def _change(row: int, n: int, scale: float, left: float, A: Any, plan: Any, columns: Any) -> None:
    """Add ``scale`` times a row of A to the estimate of node n, ``left`` of it beyond the table's new mean."""
    indptr, indices, data = A
    for e in range(indptr[row], indptr[row + 1]):
        column, x = columns.modes[indices[e]], scale * data[e]
        for m in range(plan.h.size):
            column[1, m] += x * plan.basis[n, m] * plan.h[m]
            column[2, m] += left * x * plan.basis[n, m]


@njit(allocates=True, cache=True, nogil=True)
def tracking_iterations(op: Any, samples: Any, drawn: Any, t: int, plan: Any, columns: Any, phi: Any) -> None:
    """An iteration for each row of ``drawn``, after t earlier ones."""
    g, u = np.empty(samples.k), np.empty(samples.k)
    for row in drawn:
        t += 1
        for n in range(row.size):
            i, left = samples.start[n] + row[n], 1.0 - 1.0 / (samples.start[n + 1] - samples.start[n])
            for c in range(samples.k):
                u[c] = _image(i * samples.k + c, n, samples.A, t, plan, columns)
            op.forward(u, samples.y[i], g)
            for c in range(samples.k):
                change = samples.weight[i] * (g[c] - phi[i, c])
                _change(i * samples.k + c, n, change, left, samples.A, plan, columns)
                phi[i, c] = g[c]


@njit(allocates=True, cache=True, nogil=True)
def tracked_rows(t: int, plan: Any, columns: Any, out: Any) -> None:
    """The iterates (N x p) after t iterations; the columns stay where they are."""
    for j in range(columns.stamp.size):
        column = columns.modes[j].copy()
        _move(column, t - columns.stamp[j], plan.kind[j], plan)
        for n in range(out.shape[0]):
            found = 0.0
            for m in range(plan.h.size):
                found += plan.basis[n, m] * column[0, m]
            out[n, j] = found
