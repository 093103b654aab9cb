"""A linear model with a random intercept of each site, from sums only.

y = x'b + a_site + e, var a = theta var e. With n_j rows at site j, sums s_j of its columns and t_j of its outcomes,
every theta needs the pooled X'X, X'y, y'y and the sums over sites of

    c_j (s_j s_j', s_j t_j, t_j^2),   c_j' (s_j s_j', s_j t_j, t_j^2),   log(1 + n_j theta),   n_j/(1 + n_j theta)

with c_j = theta/(1 + n_j theta) and c_j' its slope. The likelihood (REML by default) is profiled over theta.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dsba.errors import FitError, InputError
from dsba.network import Group, summed
from dsba.tables.design import Design
from dsba.tables.models.base import ModelSums, symmetric
from dsba.tables.models.glm import EXACT_SENTENCE
from dsba.tables.models.scoring import inverse
from dsba.types import Array

LAST_THETA = 1e-12  # the relative width of the bracket of theta
LARGEST_THETA_RATIO = 1e8
EXACT_SHARE = 1e-15  # of the outcomes' squares: less is rounding
USUAL_THETAS = 30  # at so many at most the likelihood of ordinary tables is evaluated


RANDOM_TELLS = (
    "the products of the columns and the outcome; for each ratio of variances that is tried, the sums over sites of "
    "weighted products of a site's sums of columns and outcomes"
)


class Profile(NamedTuple):
    """The fit at one theta."""

    b: Array
    bread: Array
    """The inverse of X'V^-1 X, V in units of the residual variance."""
    rss: float
    llf: float
    slope: float
    """Of the log-likelihood by theta."""


class MixedFit(NamedTuple):
    """The coefficients of the columns that were given, and both variances."""

    b: Array
    covariance: Array
    residual_variance: float
    site_variance: float
    llf: float
    fixed_llf: float
    """Without a variance between sites."""
    rows: int
    slopes: tuple[float, ...]
    """Of the likelihood, at every theta that was tried."""


def random_intercept_sums(p: int) -> ModelSums:
    """The sums of a fit of p columns, for what is told before a run."""
    square = (p + 1) * (p + 2) // 2
    return ModelSums((2 + square,), (2 + 2 * square,), USUAL_THETAS + 1, "evaluations of the likelihood")


class SiteSums:
    """The sums of the sites, with X and y beside each other."""

    def __init__(self, designs: Sequence[Design], group: Group) -> None:
        wide = [np.column_stack([d.X, d.y - d.offset]) for d in designs]
        self.p, self.slopes = wide[0].shape[1] - 1, list[float]()
        self.counts, self.sums, self.group = [float(len(W)) for W in wide], [W.sum(axis=0) for W in wide], group
        self.upper = np.triu_indices(self.p + 1)
        own = [np.array([len(W), float(len(W) > 0), *(W.T @ W)[self.upper]]) for W in wide]
        rows, sites, *products = summed(group, np.array(own))
        self.rows, self.sites = int(rows), int(sites)
        self.products = symmetric(np.array(products), self.p + 1)

    def profile(self, theta: float, restricted: bool) -> Profile:
        """The fit at one theta; one sum over the sites."""
        own = []
        for n, s in zip(self.counts, self.sums, strict=True):
            square, shrink = np.outer(s, s)[self.upper], 1.0 + n * theta
            own.append(np.concatenate([[math.log(shrink), n / shrink], theta / shrink * square, square / shrink**2]))
        total = summed(self.group, np.array(own))
        c, slopes = (symmetric(part, self.p + 1) for part in np.split(total[2:], 2))
        M, p = self.products - c, self.p
        bread = inverse(M[:p, :p], p)
        b = bread @ M[:p, p]
        rss = float(M[p, p] - b @ M[:p, p])
        if not rss > EXACT_SHARE * self.products[p, p]:
            raise FitError(EXACT_SENTENCE, range(p))
        left = np.append(-b, 1.0)
        free = self.rows - p if restricted else self.rows
        change = -float(left @ slopes @ left) / rss * free + total[1]
        llf = free * (math.log(2.0 * math.pi * rss / free) + 1.0) + total[0]
        if restricted:
            change -= float(np.trace(bread @ slopes[:p, :p]))
            llf -= float(np.linalg.slogdet(bread)[1])
        self.slopes.append(abs(-0.5 * change))
        return Profile(b, bread, rss, -0.5 * llf, -0.5 * change)


def fit_mixed(designs: Sequence[Design], group: Group, restricted: bool = True) -> MixedFit:
    """Both variances and the coefficients, by a bracket around the theta at which the slope is 0."""
    sums = SiteSums(designs, group)
    if sums.sites < 2 or sums.rows <= sums.p + 1:
        raise InputError("a random intercept of each site needs two sites, and more rows than coefficients.")
    found, theta = sums.profile(0.0, restricted), 0.0
    fixed_llf = found.llf
    if found.slope > 0.0:
        low, high, rising = 0.0, 1.0 / sums.rows, found.slope
        while (slope := sums.profile(high, restricted).slope) > 0.0:
            low, high, rising = high, 8.0 * high, slope
            if high > LARGEST_THETA_RATIO:
                raise InputError("the sites differ so much that their variance has no estimate beside the residuals'.")
        theta, found = _zero(sums, (low, high), (rising, slope), restricted)
    variance = found.rss / (sums.rows - sums.p if restricted else sums.rows)
    return MixedFit(
        found.b, variance * found.bread, variance, theta * variance, found.llf, fixed_llf, sums.rows,
        tuple(sums.slopes),
    )  # fmt: skip


def _zero(
    sums: SiteSums, bracket: tuple[float, float], slopes: tuple[float, float], restricted: bool
) -> tuple[float, Profile]:
    """Where the slope is 0, by the Illinois method: all processes see the same sums and take the same steps."""
    (low, high), (below, above), kept = bracket, slopes, 0
    for _ in range(100):
        middle = (low * above - high * below) / (above - below)
        found = sums.profile(middle, restricted)
        slope = found.slope
        if (
            slope == 0.0
            or high - low <= LAST_THETA * high
            or abs(middle - (high if slope <= 0.0 else low)) <= (LAST_THETA * middle)
        ):
            break
        if slope > 0.0:
            low, below, above = middle, slope, 0.5 * above if kept > 0 else above
        else:
            high, above, below = middle, slope, 0.5 * below if kept < 0 else below
        kept = 1 if slope > 0.0 else -1
    return middle, found
