"""Scaling by pooled means and standard deviations, folded back into the coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dsba.network import Group

Array = npt.NDArray[np.float64]


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


def pooled_scaling(matrices: Sequence[Array], intercept: int | None, group: Group) -> Scaling:
    """Means and standard deviations over the rows of all sites; ``matrices`` has one a site here.

    The squares are summed around the pooled mean, in a second sum: those of a column of 100 +- 0.01 would otherwise
    lose all their digits. Without an intercept columns are divided only, as nothing could take a mean up.
    """
    p = matrices[0].shape[1]
    rows = float(group.sum(np.array([[float(len(X))] for X in matrices]))[0])
    mean = group.sum(np.array([X.sum(axis=0) for X in matrices]).reshape(-1, p)) / rows
    mean += group.sum(np.array([(X - mean).sum(axis=0) for X in matrices])) / rows  # what the first sum rounded off
    squares = group.sum(np.array([((X - mean) ** 2).sum(axis=0) for X in matrices]))
    sd = np.sqrt(squares / rows)
    sd[sd == 0.0] = 1.0
    if intercept is None:
        return Scaling(np.zeros(p), sd, None)
    mean[intercept], sd[intercept] = 0.0, 1.0
    return Scaling(mean, sd, intercept)
