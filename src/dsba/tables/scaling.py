"""Scaling by pooled means and standard deviations, folded back into the coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dsba.network import Group, summed
from dsba.types import Array

FAR = 2.0**-60  # an exact sum keeps all digits of a number that is not below this times the largest one


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


def pooled_moments(matrices: Sequence[Array], group: Group, varied: Sequence[int]) -> tuple[Array, Array]:
    """Means over the rows of all sites, and the standard deviations of the columns ``varied``; 0 for the others.

    ``matrices`` has one a site here. The squares are summed around the pooled mean, in a second sum: those of a column
    of 100 +- 0.01 would otherwise lose all their digits.
    """
    rows, *totals = summed(group, np.array([[len(X), *X.sum(axis=0)] for X in matrices]))
    mean = np.array(totals) / rows
    centred = [X - mean for X in matrices]
    sums, squares = _sums_and_squares(centred, group, np.array(varied))
    rest = sums / rows  # what the first sum rounded off
    return mean + rest, np.where(squares > 0.0, np.sqrt(np.maximum(squares / rows - rest * rest, 0.0)), 0.0)


def _sums_and_squares(centred: Sequence[Array], group: Group, varied: npt.NDArray[np.intp]) -> tuple[Array, Array]:
    """Over all sites, the sums of all columns and of the squares of those that have more than one value.

    One sum keeps the digits of what is not too far below its largest number. Columns in small units may be, so they are
    added once more without the larger ones.
    """
    sums, squares = np.zeros((2, centred[0].shape[1]))
    asked, left = np.arange(sums.size), varied
    while asked.size:
        own = [[*C[:, asked].sum(axis=0), *(C[:, left] ** 2).sum(axis=0)] for C in centred]
        sums[asked], squares[left] = np.split(summed(group, np.array(own)), [asked.size])
        asked = left = left[squares[left] < FAR * squares[left].max(initial=0.0)]
    return sums, squares


def scaling_by(mean: Array, sd: Array, intercept: int | None) -> Scaling:
    """The scaling by these moments. Without an intercept columns are only divided: nothing could hold the means."""
    mean, sd = mean.copy(), np.where(sd == 0.0, 1.0, sd)
    if intercept is None:
        return Scaling(np.zeros_like(mean), sd, None)
    mean[intercept], sd[intercept] = 0.0, 1.0
    return Scaling(mean, sd, intercept)
