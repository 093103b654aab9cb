"""A matrix with noise, from which every site sees whether a combination of columns singles out one of its rows.

X'VX itself would show such a row before anybody could refuse: if two columns differ in one row, its product with their
difference is this row. So every site first adds noise to its part, enough to hide a row and little enough to tell which
columns nearly depend on others. What the others leave of such a column becomes a column of its own. Its squares are
summed, no row may make up most of them, and it is scaled by them. The columns then depend less on each other, and a
few turns later not at all: leverage is known but for noise. A row that has a direction to itself has a leverage of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dsba.algorithms.newton import symmetric
from dsba.solvers.exact import eliminated
from dsba.tables.models.base import RowLeverage
from dsba.types import Array

BLUR = 0.05  # the noise of a site's numbers, relative to the mean of its diagonal over the root of the columns
INFLATED = 2.0  # variance inflation up to which leverage is known well enough
LEAST_PIVOT = 0.02  # of what noise leaves of a column
NOTHING = 1e-28  # of the squares of what was added up: less is rounding
LEAST_SIZE = 1e-20  # of the largest diagonal entry: squares of columns that are divided by its root stay finite
MOST_TURNS = 24
SINGLE = 0.75  # between the leverage of one row alone in a direction, and that of each of two rows

Refuse = Callable[[Sequence[RowLeverage], float], None]
"""Keeps sentences about rows of the sites here whose leverage is above a limit."""


class Turned(NamedTuple):
    """The columns X T of the sites here, T a matrix that all sites know."""

    X: Sequence[Array]
    weights: Sequence[Array]
    T: Array

    @property
    def Y(self) -> list[Array]:
        return [X @ self.T for X in self.X]

    def leverages(self, inverse: Array) -> list[RowLeverage]:
        """w y'(inverse) y of each row, by the columns of X."""
        rows = zip(self.X, self.Y, self.weights, strict=True)
        return [RowLeverage((Y @ inverse @ self.T.T) * X * w[:, None], w[:, None]) for X, Y, w in rows]

    def noisy(self, rng: np.random.Generator) -> Array:
        """The sites' upper triangles of Y'VY with noise."""
        p, own = self.T.shape[1], []
        for Y, w in zip(self.Y, self.weights, strict=True):
            matrix = Y.T @ (Y * w[:, None])
            upper = matrix[np.triu_indices(p)]
            own.append(upper + rng.normal(0.0, BLUR * matrix.trace() / p**1.5, upper.size))
        return np.array(own)

    def squares(self) -> Array:
        """The sites' sums of squares of the columns, and of the absolute numbers that were added up to them."""
        absolute = [np.abs(X) @ np.abs(self.T) for X in self.X]
        parts = zip(self.Y, absolute, self.weights, strict=True)
        return np.array([np.concatenate([w @ Y**2, w @ A**2]) for Y, A, w in parts])


def check_blurred(
    X: Sequence[Array], weights: Sequence[Array], limit: float, refuse: Refuse, total: Callable[[Array], Array]
) -> None:
    """Refuse rows of the sites here that a combination of columns singles out.

    ``limit`` is that of leverage. ``total`` adds up what the sites send, and ends the run if a site has refused.
    """
    rng, turned = np.random.default_rng(), Turned(X, weights, np.eye(X[0].shape[1]))
    for _ in range(MOST_TURNS):
        p = turned.T.shape[1]
        matrix = symmetric(total(turned.noisy(rng)), p)
        inverse = eliminated(matrix, np.eye(p))
        if inverse is not None and (inverse.diagonal() * matrix.diagonal() <= INFLATED).all():
            refuse(turned.leverages(inverse), max(SINGLE, 1.5 * limit))
            return
        turned = turned._replace(T=turned.T @ _apart(matrix))
        squares, absolute = np.split(total(turned.squares()), 2)
        kept = squares > NOTHING * absolute
        turned = turned._replace(T=turned.T[:, kept] / np.sqrt(squares[kept]))
        for j in range(turned.T.shape[1]):
            alone = turned._replace(T=turned.T[:, j : j + 1])
            refuse(alone.leverages(np.ones((1, 1))), limit)


def _apart(matrix: Array) -> Array:
    """Turns columns into what the columns before leave of them; single operations give all processors the same bits."""
    p = len(matrix)
    diagonal = matrix.diagonal()  # noise may leave less than nothing of a column
    size = np.sqrt(np.maximum(diagonal, max(LEAST_SIZE * float(diagonal.max()), 1e-300)))
    A, T = matrix / size[:, None] / size, np.eye(p) / size
    for k in range(p - 1):
        share = A[k, k + 1 :] / max(A[k, k], LEAST_PIVOT)
        A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], share)
        T[:, k + 1 :] -= np.outer(T[:, k], share)
    return T
