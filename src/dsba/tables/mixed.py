"""A linear model with a random intercept of each site, from sums only.

y = x'b + a_site + e, var a = theta var e. With n_j rows at site j, sums s_j of its columns and t_j of its outcomes,
every theta needs the pooled X'X, X'y, y'y and the sums over sites of

    c_j S_j,   c_j' S_j,   c_j'' S_j,   log(1 + n_j theta),   n_j/(1 + n_j theta),   (n_j/(1 + n_j theta))^2

with S_j = (s_j s_j', s_j t_j, t_j^2), c_j = theta/(1 + n_j theta) and its first and second slopes. The likelihood (REML
by default) is profiled over theta. Its slope is (A - T)/2, where A is what the outcomes say of the sites and T what a
model without differences would expect. T/A is a line in theta where all sites are equally large, so Newton's iteration
for T/A = 1 takes few steps. Every process takes them by itself, by operations that give the same bits everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dsba.errors import FitError, InputError
from dsba.network import Group, summed
from dsba.solvers.exact import dot, times
from dsba.tables.design import Design
from dsba.tables.models.base import ModelSums, symmetric
from dsba.tables.models.glm import EXACT_SENTENCE
from dsba.tables.models.scoring import inverse
from dsba.types import Array

LAST_THETA = 1e-6  # of theta: the error after such a step of Newton's iteration is its square
MOST_THETAS = 60  # Newton's steps are held within a bracket, which is halved at worst
USUAL_THETAS = 10  # at so many at most the likelihood of ordinary tables is evaluated
LARGEST_THETA_RATIO = 1e8
EXACT_SHARE = 1e-15  # of the outcomes' squares: less is rounding
NO_SHARE = 1e-9  # of what is expected of the sites without columns: less is rounding


RANDOM_TELLS = (
    "the products of the columns and the outcome; for each ratio of variances that is tried, the sums over sites of "
    "weighted products of a site's sums of columns and outcomes"
)
TAKEN = "the columns {columns} tell all sites apart, so that nothing is left for a random intercept; leave some out."


class Profile(NamedTuple):
    """The fit at one theta."""

    b: Array
    bread: Array
    """The inverse of X'V^-1 X, V in units of the residual variance."""
    rss: float
    llf: float
    seen: float
    """A: what the outcomes say of differences between sites."""
    expected: float
    """T: the same as it would be without differences beyond this theta. The slope of ``llf`` is (A - T)/2."""
    step: float
    """Newton's, for T/A = 1."""


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
    return ModelSums((2 + square,), (3 + 3 * square,), USUAL_THETAS + 1, "evaluations of the likelihood")


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

    def totals(self, theta: float) -> tuple[Array, list[Array]]:
        """Of logarithms and shares, and of the weighted products: one sum over the sites."""
        own = []
        for n, s in zip(self.counts, self.sums, strict=True):
            square, shrink = np.outer(s, s)[self.upper], 1.0 + n * theta
            share = n / shrink
            products = (theta / shrink * square, square / shrink**2, -2.0 * share * square / shrink**2)
            own.append(np.concatenate([[math.log(shrink), share, share**2], *products]))
        total = summed(self.group, np.array(own))
        return total[:3], [symmetric(part, self.p + 1) for part in np.split(total[3:], 3)]

    def profile(self, theta: float, restricted: bool) -> Profile:
        """The fit at one theta."""
        (logs, expected, bend), (c, slopes, bends) = self.totals(theta)
        M, p = self.products - c, self.p
        bread = inverse(M[:p, :p], p)
        b = times(bread, M[:p, p])
        rss = float(M[p, p] - dot(b, M[:p, p]))
        if not rss > EXACT_SHARE * self.products[p, p]:
            raise FitError(EXACT_SENTENCE, range(p))
        left, free = np.append(-b, 1.0), self.rows - p if restricted else self.rows
        pull = times(slopes, left)
        q, moved = dot(left, pull), times(bread, pull[:p])
        seen = free * q / rss
        seen_bend = free * ((dot(left, times(bends, left)) + 2.0 * dot(pull[:p], moved)) / rss + (q / rss) ** 2)
        llf = free * (math.log(2.0 * math.pi * rss / free) + 1.0) + logs
        least, bend = NO_SHARE * expected, -bend
        if restricted:
            turned = np.array([times(bread, column) for column in slopes[:p, :p]])  # c' I^-1
            expected -= float(turned.trace())
            bend -= dot(bread.ravel(), bends[:p, :p].ravel()) + dot(turned.ravel(), turned.T.ravel())
            llf -= float(np.linalg.slogdet(bread)[1])
        if not expected > least:
            raise FitError(TAKEN, range(p))
        rising = bend * seen - expected * seen_bend  # the slope of T/A, times A^2
        step = (seen - expected) * seen / rising if rising > 0.0 else math.inf
        self.slopes.append(0.5 * abs(seen - expected))
        return Profile(b, bread, rss, -0.5 * llf, seen, expected, step)


def fit_mixed(designs: Sequence[Design], group: Group, restricted: bool = True) -> MixedFit:
    """Both variances and the coefficients."""
    sums = SiteSums(designs, group)
    if sums.sites < 2 or sums.rows <= sums.p + 1:
        raise InputError("a random intercept of each site needs two sites, and more rows than coefficients.")
    first = sums.profile(0.0, restricted)
    theta, found = _maximised(sums, first, restricted) if first.seen > first.expected else (0.0, first)
    variance = found.rss / (sums.rows - sums.p if restricted else sums.rows)
    return MixedFit(
        found.b, variance * found.bread, variance, theta * variance, found.llf, first.llf, sums.rows,
        tuple(sums.slopes),
    )  # fmt: skip


def _maximised(sums: SiteSums, found: Profile, restricted: bool) -> tuple[float, Profile]:
    """The theta at which the slope is 0: Newton's steps from 0, within what is known to hold it."""
    theta, low, high = 0.0, 0.0, math.inf
    for _ in range(MOST_THETAS):
        following = theta + found.step
        if not low < following < high:
            following = 0.5 * (low + high) if high < math.inf else max(8.0 * low, 1.0 / sums.rows)
        if following > LARGEST_THETA_RATIO:
            raise InputError("the sites differ so much that their variance has no estimate beside the residuals'.")
        made, theta = abs(following - theta), following
        found = sums.profile(theta, restricted)
        if made <= LAST_THETA * theta:
            break
        low, high = (theta, high) if found.seen > found.expected else (low, theta)
    return theta, found
