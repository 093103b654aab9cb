"""Standard errors and likelihoods of a model without a penalty, from exact sums over the nodes.

With u = x'b + offset, mean mu, variance V(mu) and weights w, every node adds up over its own rows

    information  I = sum w V x x'        score rows  g x,  g = w (y - mu)        deviances, counts

and only these totals leave it. classical: I^-1 (Gaussian: times RSS/(n - p)). HC0: I^-1 (sum g^2 x x') I^-1; HC1 is
HC0 times n/(n - p). site: sum s s' over the sites stands in the middle, s = sum of a site's g x, and the factor is
N/(N - 1) (n - 1)/(n - p).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, log_expit, xlogy

from dsba.algorithms.newton import DEPENDENT_SENTENCE, solved
from dsba.errors import FitError, InputError
from dsba.fitting.model import Inference
from dsba.network import Group, summed
from dsba.operators import link_of
from dsba.tables.evaluation import calibration, grouped
from dsba.types import Array

NEAR = 1e-6  # of a standard error: a solution that is further away has no standard errors
RESIDUAL_ROUNDING = 4.0 * np.finfo(np.float64).eps  # of numbers that are added to a residual
ONE_OUTCOME = {
    "poisson": "all counts are 0: a Poisson model needs at least one event.",
    "binomial": "all rows that have a weight are of one class: a logistic model needs both.",
}


class Sample(NamedTuple):
    """The rows of one site; ``y`` of a binomial family is 0 or 1."""

    X: Array
    y: Array
    weight: Array
    offset: Array


class PooledOutcome(NamedTuple):
    """What is known of the rows of all sites."""

    mean: float
    """Of the model with only an intercept."""
    weight: float
    """The mean weight of a row; the nearer, the more digits are kept."""


class Family(NamedTuple):
    """A distribution with its canonical link. Functions give one number per row."""

    link: str
    variance: Callable[[Array], Array]
    """Of the mean."""
    deviance: Callable[[Array, Array], Array]
    """Of outcomes and scores."""
    saturated: Callable[[Array], Array]
    """The log-likelihood of outcomes that are predicted perfectly."""
    dispersed: bool = False
    """Whether a variance is estimated, too."""


def _poisson_deviance(y: Array, u: Array) -> Array:
    return 2.0 * (xlogy(y, y) - y * u - y + np.exp(u))


FAMILIES = {
    "gaussian": Family("identity", np.ones_like, lambda y, u: (y - u) ** 2, np.zeros_like, dispersed=True),
    "binomial": Family(
        "logit", lambda m: m * (1.0 - m), lambda y, u: -2.0 * log_expit(np.where(y > 0, u, -u)), np.zeros_like
    ),
    "poisson": Family("log", lambda m: m, _poisson_deviance, lambda y: xlogy(y, y) - y - gammaln(y + 1.0)),
}


class Inferred(NamedTuple):
    """What the sums give at the solution."""

    inference: Inference
    """Its covariance belongs to the columns that were given."""
    left: float
    """How far the next Newton step would go, in standard errors."""
    calibration: list[dict[str, float]] | None
    """Of probabilities, on the rows themselves."""


def null_parts(sample: Sample, family: str) -> tuple[Array, Array]:
    """For each row a numerator and a denominator. The quotient of their sums is the mean of the intercept's model.

    With an offset it is the mean of what remains after the offset: a difference, or a quotient of rates.
    """
    if FAMILIES[family].dispersed:
        return sample.weight * (sample.y - sample.offset), sample.weight
    return sample.weight * sample.y, sample.weight * np.exp(sample.offset)


def require_events(family: str, mean: float) -> None:
    """An error if the model with only an intercept, of this mean, has no finite coefficient."""
    if family in ONE_OUTCOME and not FAMILIES[family].variance(np.array(mean)) > 0.0:
        raise InputError(ONE_OUTCOME[family])


def infer(
    samples: Sequence[Sample], coefficients: Array, family: str, cov: str, pooled: PooledOutcome, group: Group
) -> Inferred | None:
    """Inference at the solution of a fit without a penalty; ``samples`` are those of the sites here.

    None if the columns give the outcome exactly, or so nearly that rounding would decide the standard errors.
    """
    known, p = FAMILIES[family], coefficients.size
    null = link_of(known.link).score(np.array([pooled.mean]))
    own = [_sums(one, coefficients, known, cov, null) for one in samples]
    total = _Totals(p, _added(own, 2.0 ** math.frexp(pooled.weight)[1], group))
    if known.dispersed:
        total.require_variation()
    if total.rows <= p:
        raise InputError(f"{p} coefficients from {total.rows} rows have no standard errors: more rows are wanted.")
    if cov == "site" and total.sites < 2:
        raise InputError("standard errors clustered by site need at least two sites with rows.")
    scale = total.deviance / (total.rows - p) if known.dispersed else 1.0
    if known.dispersed and total.is_exact(scale):
        return None
    found = Inference(
        as_tuples(total.covariance(cov, scale)), total.rows - p, known.dispersed, scale, total.deviance,
        total.null_deviance, total.likelihood(known, total.deviance), total.likelihood(known, total.null_deviance),
    )  # fmt: skip
    return Inferred(found, total.left(scale), calibration(total.groups) if total.groups.size else None)


def as_tuples(matrix: Array) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, matrix.tolist()))


class _Sums(NamedTuple):
    """What one node, or all nodes together, say."""

    counts: Array
    information: Array
    deviances: Array
    meat: Array
    """The matrix in the middle of a robust covariance; empty for a classical one."""
    score: Array

    def times(self, unit: float) -> _Sums:
        """The same for weights that are ``unit`` times as large, the counts aside."""
        return _Sums(
            self.counts, unit * self.information, unit * self.deviances, unit**2 * self.meat, unit * self.score
        )


def _added(nodes: Sequence[_Sums], unit: float, group: Group) -> _Sums:
    """The totals over all nodes; ``unit`` is a power of two of the size of the weights.

    An exact sum keeps all digits only of numbers that are not much smaller than its largest one. So a sum has parts of
    one unit only: with weights near 1 those of the first have none, the second's is the square of the outcome's.
    """
    scaled = [one.times(1.0 / unit) for one in nodes]
    first = [np.concatenate([one.counts, one.information]) for one in scaled]
    counts, information = np.split(summed(group, np.array(first)), [len(scaled[0].counts)])
    second = [np.concatenate([one.deviances, one.meat]) for one in scaled]
    deviances, meat = np.split(summed(group, np.array(second)), [len(scaled[0].deviances)])
    score = summed(group, np.array([one.score for one in scaled]))
    return _Sums(counts, information, deviances, meat, score).times(unit)


def _sums(sample: Sample, coefficients: Array, family: Family, cov: str, null: Array) -> _Sums:
    """The sums of one node."""
    X, y, w, offset = sample
    u = X @ coefficients + offset
    mu = link_of(family.link).mean(u[:, None])
    g = w * (y - mu)
    rows = X * g[:, None] if cov != "site" else (g @ X)[None, :]
    rounding = RESIDUAL_ROUNDING * (np.abs(y) + np.abs(offset) + np.abs(null))
    deviances = [
        w @ family.deviance(y, u), w @ family.saturated(y), w @ family.deviance(y, null + offset), w @ rounding**2
    ]  # fmt: skip
    information = X.T @ (X * (w * family.variance(mu))[:, None])
    upper = np.triu_indices(X.shape[1])
    groups = grouped(y, mu) if family.link == "logit" else np.zeros(0)
    counts = np.array([len(y), float(len(y) > 0), np.log(w[w > 0]).sum(), *groups])
    meat = (rows.T @ rows)[upper] if cov != "classical" else np.zeros(0)
    return _Sums(counts, information[upper], np.array(deviances), meat, g @ X)


class _Totals:
    """What the sums of all nodes give."""

    def __init__(self, p: int, total: _Sums) -> None:
        self.p, self.score, self.upper_meat = p, total.score, total.meat
        self.rows, self.sites, self.groups = int(total.counts[0]), int(total.counts[1]), total.counts[3:]
        self.log_weights = float(total.counts[2])
        self.deviance, self.saturated, self.null_deviance, self.rounding = map(float, total.deviances)
        self.upper_information = total.information

    @cached_property
    def bread(self) -> Array:
        """The inverse of the information."""
        inverse, flat = solved(_symmetric(self.upper_information, self.p), np.eye(self.p))
        if flat is not None:
            raise FitError(DEPENDENT_SENTENCE, np.flatnonzero(flat))
        return inverse

    def require_variation(self) -> None:
        """An error if there is nothing to explain."""
        if max(self.deviance, self.null_deviance) <= self.rounding:
            raise InputError("the outcome is constant over all sites: there is nothing to explain.")

    @cached_property
    def step(self) -> float:
        """How far the next Newton step would move the fitted values, squared."""
        return max(float(self.score @ self.bread @ self.score), 0.0)

    def is_exact(self, scale: float) -> bool:
        """Whether the next step is nothing but rounding, and yet too long beside what is left of the outcome."""
        return self.step <= self.rounding and not self.step < NEAR**2 * scale

    def left(self, scale: float) -> float:
        return math.sqrt(self.step / scale)

    def covariance(self, cov: str, scale: float) -> Array:
        n, p, bread = self.rows, self.p, self.bread
        if cov == "classical":
            return _even(bread * scale)
        factors = {"HC0": 1.0, "HC1": n / (n - p)}
        if cov == "site":
            factors["site"] = self.sites / (self.sites - 1) * (n - 1) / (n - p)
        return _even(bread @ _symmetric(self.upper_meat, p) @ bread * factors[cov])

    def likelihood(self, family: Family, deviance: float) -> float:
        """The log-likelihood. If there is a variance, it is the one that maximises the likelihood."""
        if not family.dispersed:
            return self.saturated - 0.5 * deviance
        n = self.rows
        return -0.5 * n * (math.log(2.0 * math.pi * deviance / n) + 1.0) + 0.5 * self.log_weights


def _symmetric(upper: Array, p: int) -> Array:
    matrix = np.zeros((p, p))
    matrix[np.triu_indices(p)] = upper
    return matrix + np.triu(matrix, 1).T


def _even(matrix: Array) -> Array:
    return 0.5 * (matrix + matrix.T)
