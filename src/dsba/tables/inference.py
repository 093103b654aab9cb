"""Standard errors and likelihoods of a model without a penalty, from exact sums over the nodes.

With u = x'b + offset, mean mu, variance V(mu) and weights w, every node adds up over its own rows

    information  I = sum w V x x'        score rows  g x,  g = w (y - mu)        deviances, counts

and only these totals leave it. classical: I^-1 (Gaussian: times RSS/(n - p)). HC0: I^-1 (sum g^2 x x') I^-1; HC1 is
HC0 times n/(n - p). HC2 and HC3 divide g^2 by 1 - h and by its square, h = w V x' I^-1 x. site and cluster: sum s s'
over sites or clusters stands in the middle, s = sum of g x over one of them, and with G of them the factor is
G/(G - 1) (n - 1)/(n - p). A cluster lies within a site. By site that is CR1,
for models of many coefficients; see clustered.py for the others.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dsba.algorithms.newton import DEPENDENT_SENTENCE, solved, symmetric
from dsba.errors import FitError, InputError
from dsba.fitting.measures import CalibrationGroup
from dsba.fitting.model import Inference
from dsba.network import Group, summed
from dsba.operators import link_of
from dsba.tables import clustered as clusters
from dsba.tables.design import Design
from dsba.tables.disclosure import RowWatch, summed_unless
from dsba.tables.evaluation import GROUPS, calibration, group_numbers, group_starts, grouped
from dsba.tables.families import FAMILIES, Family
from dsba.tables.scaling import ScaledColumns
from dsba.types import Array

CLUSTERED = ("site", "cluster")
LEVERAGED = {"HC2": 1.0, "HC3": 2.0}  # powers of 1 - h
LEAST_LEFT = 1e-10  # of 1 - h: below, a row has a coefficient of its own
NO_LEVERAGED = "{cov} does not exist: a coefficient depends on one row alone."
NEAR = 1e-6  # of a standard error: a solution that is further away has no standard errors
RESIDUAL_ROUNDING = 4.0 * np.finfo(np.float64).eps  # of numbers that are added to a residual
PENALTY = "A penalty shrinks the coefficients, so that the usual standard errors are not valid: none are given."
NOT_CONVERGED = "The fit ended before its solution was reached, so that it has no standard errors."
EXACT = (
    "The columns give the outcome exactly, or so nearly that rounding would decide the standard errors: none are given."
)
NO_LIKELIHOOD = "The loss is not a likelihood, so that it gives no standard errors."


class Inferred(NamedTuple):
    """What the sums give at the solution."""

    inference: Inference | None
    why_none: str | None = None
    calibration: tuple[CalibrationGroup, ...] | None = None
    """Of probabilities, on the rows themselves."""


def infer(
    columns: ScaledColumns, coefficients: Array, family: str, cov: str, watch: RowWatch, vif: tuple[float, ...]
) -> Inferred:
    """Inference at the solution of a fit without a penalty; the rows are those of the sites here.

    ``watch`` has its complaints about the rows at this point, and looks again before any residual is summed.
    """
    known, p, group = FAMILIES[family], coefficients.size, watch.group
    total = _Totals(columns, coefficients, known, cov, watch)
    if known.dispersed and max(total.deviance, total.null_deviance) <= total.rounding:
        raise InputError("the outcome is constant over all sites: there is nothing to explain.")
    if total.rows <= p:
        raise InputError(f"{p} coefficients from {total.rows} rows have no standard errors: more rows are wanted.")
    least = clusters.FEWEST_SITES if cov == "site" else 2
    if cov in CLUSTERED and total.clusters < least:
        raise InputError(f"standard errors clustered by {cov} need at least {least} {cov}s with rows.")
    scale = total.deviance / (total.rows - p) if known.dispersed else 1.0
    if known.dispersed and total.is_exact(scale):
        return Inferred(None, EXACT)
    if math.sqrt(total.step / scale) > NEAR:  # how far the next Newton step would go, in standard errors
        return Inferred(None, NOT_CONVERGED)
    covariance, df = total.covariance(cov, scale), None
    if cov == "site":
        covariance, df = clustered(columns, coefficients, known, total, scale, group)
    T = columns.scaling.back
    found = Inference(
        tuple(map(tuple, (T @ covariance @ T.T).tolist())), total.rows - p, known.dispersed, scale, total.deviance,
        total.null_deviance, total.likelihood(known, total.deviance), total.likelihood(known, total.null_deviance),
        pearson_chi2=total.pearson, vif=vif, sites=total.clusters if cov == "site" else 0, df=df,
    )  # fmt: skip
    return Inferred(found, None, calibration(total.groups, total.starts) if total.groups.size else None)


def clustered(
    columns: ScaledColumns, coefficients: Array, family: Family, total: _Totals, scale: float, group: Group
) -> tuple[Array, tuple[float, ...]]:
    """The covariance by site and the degrees of freedom: CR2 with Satterthwaite's, or CR1 with G - 1."""
    p = coefficients.size
    if p > clusters.MOST_COEFFICIENTS:
        return total.covariance("site", 1.0), (total.clusters - 1.0,) * p
    covariance, df = clusters.cr2(columns, coefficients, family, total.bread, columns.scaling.back, group, scale)
    return _even(covariance), tuple(df.tolist())


def _sums(
    design: Design, coefficients: Array, family: Family, cov: str, null: Array, unit: float, few: int
) -> list[Array]:
    """What one node adds to three sums, for weights in multiples of ``unit``.

    ``few`` is the least number of rows in a calibration group; 0 where groups may have any number.

    An exact sum keeps all digits only of numbers that are not much smaller than its largest one. So a sum has parts of
    one unit only: with weights near 1 those of the first have none, the second's is the square of the outcome's.
    """
    _, X, y, weight, offset, *_ = design
    w, u, upper = weight / unit, X @ coefficients + offset, np.triu_indices(X.shape[1])
    times, mu = design.counts, family.mean(design, coefficients)
    g, variance = w * (y - mu), family.variance(mu)
    rows = clustered_scores(design, X * g[:, None], cov)
    rounding = RESIDUAL_ROUNDING * (np.abs(y) + np.abs(offset) + np.abs(null))
    deviances = [
        w @ family.deviance(y, u), w @ family.saturated(y), w @ family.deviance(y, null + offset), w @ rounding**2,
        g @ np.divide(y - mu, variance, out=np.zeros_like(mu), where=variance > 0.0),
    ]  # fmt: skip
    information = X.T @ (X * (w * variance)[:, None])
    groups = group_numbers(y, mu, few) if few > 1 else np.zeros(0)
    clusters = len(rows) if cov in CLUSTERED and len(y) else 0
    held = weight > 0
    counts = [times.sum(), clusters, (times[held] * np.log(weight[held] / times[held])).sum()]
    meat = (rows.T @ rows)[upper] if cov not in ("classical", *LEVERAGED) else np.zeros(0)
    return [np.concatenate([counts, groups, information[upper]]), np.concatenate([deviances, meat]), g @ X]


def clustered_scores(design: Design, scores: Array, cov: str) -> Array:
    """The scores of rows, or their sums over what the covariance takes for one: a site, or a cluster.

    A row that stands for c rows has c times their score each. Their squares add up to a c-th of its own.
    """
    if cov not in CLUSTERED:
        return scores / np.sqrt(design.counts)[:, None]
    codes = np.zeros(len(scores), np.int64) if design.cluster is None else design.cluster
    sums = np.zeros((int(codes.max(initial=0)) + 1, scores.shape[1]))
    np.add.at(sums, codes, scores)
    return sums


def _leveraged(design: Design, weights: Array, mu: Array, bread: Array, power: float) -> Array:
    """One node's sum of g^2 x x' / (1 - h)^power, and the number of rows with h = 1, which have no place in it."""
    X, weight, times = design.X, design.weight, design.counts
    left = 1.0 - weights / times * np.einsum("ij,jk,ik->i", X, bread, X)
    usual = left > LEAST_LEFT
    g = weight / np.sqrt(times) * (design.y - mu) * np.where(usual, left, np.inf) ** (-0.5 * power)
    rows = X * g[:, None]
    return np.append((rows.T @ rows)[np.triu_indices(X.shape[1])], np.count_nonzero(~usual))


class _Totals:
    """What the sums of all nodes give."""

    def __init__(self, columns: ScaledColumns, coefficients: Array, family: Family, cov: str, watch: RowWatch) -> None:
        null, group = link_of(family.link).score(np.array([columns.mean])), watch.group
        unit = 2.0 ** math.frexp(columns.mean_weight)[1]  # a power of two of the size of the weights
        several = group.size > 1 or len(columns.designs) > 1  # so that one process has the bits of many
        few = watch.limits.rows_per_level if several and family.link == "logit" else 0
        own = [_sums(one, coefficients, family, cov, null, unit, few) for one in columns.designs]
        sizes, squares, scores = (np.array(part) for part in zip(*own, strict=True))
        self.p = p = coefficients.size
        first = summed_unless(group, watch.complaints, sizes)
        counts, information = np.split(first, [first.size - p * (p + 1) // 2])
        self.rows, self.clusters, self.log_weights = int(counts[0]), int(counts[1]), counts[2]
        self.starts = group_starts(counts[3:]) if few > 1 else np.arange(GROUPS)
        self.upper_information = unit * information
        means = [family.mean(one, coefficients) for one in columns.designs]
        weights = [one.weight * family.variance(mu) for one, mu in zip(columns.designs, means, strict=True)]
        watch.look([one.X for one in columns.designs], weights, symmetric(self.upper_information, p))
        held, probable = zip(columns.designs, means, strict=True), family.link == "logit"
        grouping = [grouped(one.y, mu, one.counts, self.starts) if probable else np.zeros(0) for one, mu in held]
        left = np.hstack([squares, grouping]), scores
        second, score = (summed_unless(group, watch.complaints, part) for part in left)
        second, self.groups = np.split(second, [squares.shape[1]])
        self.deviance, self.saturated, self.null_deviance, self.rounding, self.pearson = (unit * second[:5]).tolist()
        self.upper_meat, self.score = unit**2 * second[5:], unit * score
        if cov in LEVERAGED:
            parts = zip(columns.designs, weights, means, strict=True)
            total = summed(group, np.array([_leveraged(*one, self.bread, LEVERAGED[cov]) for one in parts]))
            self.upper_meat = total[:-1]
            if total[-1]:
                raise InputError(NO_LEVERAGED.format(cov=cov))

    @cached_property
    def bread(self) -> Array:
        """The inverse of the information."""
        inverse, flat = solved(symmetric(self.upper_information, self.p), np.eye(self.p))
        if flat is not None:
            raise FitError(DEPENDENT_SENTENCE, np.flatnonzero(flat))
        return inverse

    @cached_property
    def step(self) -> float:
        """How far the next Newton step would move the fitted values, squared."""
        return max(float(self.score @ self.bread @ self.score), 0.0)

    def is_exact(self, scale: float) -> bool:
        """Whether the next step is nothing but rounding, and yet too long beside what is left of the outcome."""
        return self.step <= self.rounding and not self.step < NEAR**2 * scale

    def covariance(self, cov: str, scale: float) -> Array:
        n, p, bread = self.rows, self.p, self.bread
        if cov == "classical":
            return _even(bread * scale)
        factor = n / (n - p) if cov == "HC1" else 1.0
        if cov in CLUSTERED:
            factor = self.clusters / (self.clusters - 1) * (n - 1) / (n - p)
        return _even(bread @ symmetric(self.upper_meat, p) @ bread * factor)

    def likelihood(self, family: Family, deviance: float) -> float:
        """The log-likelihood. If there is a variance, it is the one that maximises the likelihood."""
        if not family.dispersed:
            return self.saturated - 0.5 * deviance
        n = self.rows
        return -0.5 * n * (math.log(2.0 * math.pi * deviance / n) + 1.0) + 0.5 * float(self.log_weights)


def inflation(gram: Array, intercept: int | None) -> Array:
    """Variance inflation factors of columns, from X'VX; the intercept's is 0, which no other column has."""
    inverse, _ = solved(gram, np.eye(len(gram)))
    squares = np.diag(gram).copy()
    if intercept is not None:
        squares -= gram[intercept] ** 2 / gram[intercept, intercept]
    return squares * np.diag(inverse)


def _even(matrix: Array) -> Array:
    return 0.5 * (matrix + matrix.T)
