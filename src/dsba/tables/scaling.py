"""Scaling by pooled means and standard deviations, folded back into the coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dsba.fitting.rows import RowTotals
from dsba.network import Group, summed
from dsba.operators import Operator
from dsba.problem.validation import require_weight
from dsba.tables.columns import INTERCEPT
from dsba.tables.design import Design, Designs
from dsba.tables.families import null_parts
from dsba.tables.terms import terms_of
from dsba.tables.together import FAR
from dsba.types import Array, Integers

NEARLY_DEPENDENT = 1e-6  # the share of a column that the columns before it do not explain


class Scaling(NamedTuple):
    """Column j becomes (x_j - mean_j) / sd_j. The intercept's column has mean 0 and sd 1, and stays as it is.

    Columns that nearly depend on each other are then mixed by a matrix that makes them orthogonal.
    """

    mean: Array
    sd: Array
    intercept: int | None
    mixing: Array | None = None

    def scaled(self, X: Array) -> Array:
        return (X - self.mean) / self.sd

    @property
    def back(self) -> Array:
        """The matrix that turns coefficients of scaled columns into those of the columns themselves."""
        T = np.diag(1.0 / self.sd)
        if self.intercept is not None:
            T[self.intercept] -= self.mean / self.sd
        return T if self.mixing is None else T @ self.mixing

    def unscaled(self, coefficients: Array) -> Array:
        """One factor after the other: what rounds off the mixed coefficients is then in the intercept as well."""
        if self.mixing is not None:
            coefficients = self.mixing @ coefficients
        return self._replace(mixing=None).back @ coefficients


def pooled_moments(matrices: Sequence[Array], group: Group, varied: Sequence[int]) -> tuple[Array, Array]:
    """Means over the rows of all sites, and the standard deviations of the columns ``varied``; 0 for the others.

    ``matrices`` has one a site here. The squares are summed around the pooled mean, in a second sum: those of a column
    of 100 +- 0.01 would otherwise lose all their digits.
    """
    rows, *totals = summed(group, np.array([[len(X), *X.sum(axis=0)] for X in matrices]))
    mean = np.array(totals) / rows
    centred = [X - mean for X in matrices]
    sums, squares = _sums_and_squares(centred, group, np.array(varied, np.intp))
    rest = sums / rows  # what the first sum rounded off
    return mean + rest, np.where(squares > 0.0, np.sqrt(np.maximum(squares / rows - rest * rest, 0.0)), 0.0)


def _sums_and_squares(centred: Sequence[Array], group: Group, varied: Integers) -> tuple[Array, Array]:
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


def scaled_designs(
    designs: Designs, group: Group, beside: Sequence[Sequence[Array]] | None = None, level: bool = False
) -> tuple[Scaling, tuple[Design, ...], tuple[Array, Array]]:
    """The columns by their pooled moments, and the moments, with those of the outcomes and the means ``beside``.

    ``level``: the model has a level of its own, which takes up the means.
    """
    intercept = designs.names.index(INTERCEPT) if INTERCEPT in designs.names else None
    wide, p = designs.wide, len(designs.names)
    varied = [j for j in range(wide[0].shape[1]) if j != intercept]
    more = wide if beside is None else [np.column_stack([X, *columns]) for X, columns in zip(wide, beside, strict=True)]
    mean, sd = pooled_moments(more, group, varied)
    scaling = scaling_by(mean[:p], sd[:p], intercept)
    if level:
        scaling = Scaling(mean[:p], scaling.sd, None)
    return scaling, tuple(design._replace(X=scaling.scaled(design.X)) for design in designs.designs), (mean, sd)


class ScaledColumns(NamedTuple):
    """The sites' rows in scaled columns, the intercept's among them."""

    names: tuple[str, ...]
    moments: tuple[Array, Array]
    """The pooled means and standard deviations of the columns and outcomes in their own units."""
    scaling: Scaling
    designs: tuple[Design, ...]
    size: RowTotals
    exposure: float
    """How much the factors exp(offset) of a log link raise the mean weight of a row."""
    alike: bool
    """Whether columns are centred and rows weigh the same: their squares then add up to what ``size`` says."""

    @property
    def others(self) -> list[int]:
        """All columns but the intercept's."""
        return [j for j in range(len(self.names)) if j != self.scaling.intercept]

    @property
    def nobs(self) -> int:
        """The rows that the rows stand for: more of them if weights are frequencies."""
        return round(self.mean_weight * self.size.rows) if self.designs[0].repeated else self.size.rows

    @property
    def mean(self) -> float:
        """The mean outcome of the model with only an intercept."""
        return float(self.size.mean or 0.0)

    @property
    def mean_weight(self) -> float:
        """The mean weight of a row."""
        return self.size.weight / self.size.rows / self.exposure


def scaled(designs: Designs, component: Operator, group: Group) -> ScaledColumns:
    """The columns by their pooled means and standard deviations; the mean of the outcomes comes by the same sums."""
    family = component.family or "gaussian"
    beside = [(*null_parts(one, family), one.weight) for one in designs.designs]
    scaling, ready, (mean, sd) = scaled_designs(designs, group, beside)
    outcome, weight, own = mean[-3:].tolist()
    require_weight(weight)
    weights, classes = designs.rows * weight, designs.schema.classes
    codes = None if classes is None else tuple(range(len(classes)))
    size = RowTotals(designs.rows, weights, weights * len(designs.names), outcome / weight, codes)
    alike = scaling.intercept is not None and not terms_of(designs.schema).extras
    return ScaledColumns(designs.names, (mean[:-3], sd[:-3]), scaling, ready, size, weight / own, alike)


def orthogonal(columns: ScaledColumns, information: Array) -> ScaledColumns:
    """The columns, mixed where one nearly depends on others, as w and x w do where the mean of x is far from 0.

    Then X'X would lose the digits of what is left of the column, and standard errors with it. With R of its Cholesky
    factorisation the columns X R^-1 are orthogonal but for rounding, and their sums lose nothing (CholeskyQR2).
    """
    others = columns.others
    own = information[np.ix_(others, others)]
    size = np.sqrt(own.diagonal())
    R = np.linalg.cholesky(own / size[:, None] / size).T
    if R.diagonal().min(initial=1.0) ** 2 > NEARLY_DEPENDENT:
        return columns
    mixing = np.eye(len(columns.names))
    mixing[np.ix_(others, others)] = np.linalg.inv(R) * (np.sqrt(columns.size.weight) / size)[:, None]
    designs = tuple(design._replace(X=design.X @ mixing) for design in columns.designs)
    return columns._replace(designs=designs, scaling=columns.scaling._replace(mixing=mixing))
