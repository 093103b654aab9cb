"""Scaling by pooled means and standard deviations, folded back into the coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dsba.network import Group
from dsba.types import Array


class Scaling(NamedTuple):
    """Column j becomes (x_j - mean_j) / sd_j. The intercept's column has mean 0 and sd 1, and stays as it is."""

    mean: Array
    sd: Array
    intercept: int | None

    def scaled(self, X: Array) -> Array:
        return (X - self.mean) / self.sd

    @property
    def back(self) -> Array:
        """The matrix that turns coefficients of scaled columns into those of the columns themselves."""
        T = np.diag(1.0 / self.sd)
        if self.intercept is not None:
            T[self.intercept] -= self.mean / self.sd
        return T

    def unscaled(self, coefficients: Array) -> Array:
        return self.back @ coefficients

    def unscaled_covariance(self, covariance: Array) -> Array:
        T = self.back
        return T @ covariance @ T.T


def pooled_moments(matrices: Sequence[Array], group: Group) -> tuple[Array, Array]:
    """Means and standard deviations over the rows of all sites; ``matrices`` has one a site here.

    The squares are summed around the pooled mean, in a second sum: those of a column of 100 +- 0.01 would otherwise
    lose all their digits.
    """
    p = matrices[0].shape[1]
    rows, *totals = group.sum(np.array([[len(X), *X.sum(axis=0)] for X in matrices]))
    mean = np.array(totals) / rows
    centred = [X - mean for X in matrices]
    moments = group.sum(np.array([[*C.sum(axis=0), *(C * C).sum(axis=0)] for C in centred])) / rows
    rest, squares = moments[:p], moments[p:]
    return mean + rest, np.sqrt(np.maximum(squares - rest * rest, 0.0))  # rest is what the first sum rounded off


def scaling_by(mean: Array, sd: Array, intercept: int | None) -> Scaling:
    """The scaling by these moments. Without an intercept columns are only divided: nothing could hold the means."""
    mean, sd = mean.copy(), np.where(sd == 0.0, 1.0, sd)
    if intercept is None:
        return Scaling(np.zeros_like(mean), sd, None)
    mean[intercept], sd[intercept] = 0.0, 1.0
    return Scaling(mean, sd, intercept)
