"""Generalised linear models beyond the three that methods share: other links, dispersions, counts of successes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import expit, gammaln, log_expit, log_ndtr, logit, ndtr, ndtri, xlog1py, xlogy

from dsba.errors import FitError
from dsba.network import Group, summed
from dsba.tables.models.base import Design, FitMeasures, LikelihoodTerms, Outcomes, RowTerms, TableModel, of_rows
from dsba.types import Array

EXACT_SENTENCE = "the columns {columns} give the outcome exactly: nothing is left to estimate standard errors from."
LARGEST_LOG = 600.0  # of odds that sums of squares can have
UNEXPLAINED = 1e-20  # of the deviance of a row that is not explained: less is rounding


@dataclass(frozen=True)
class Glm(TableModel):
    """A model whose rows have one score u = x'b + offset each."""

    link: ClassVar[str | None] = "log"
    leveraged: ClassVar[bool] = True

    def rows(self, y: Array, u: Array) -> RowTerms:
        """The terms of rows, for the dispersion 1."""
        raise NotImplementedError

    def unit_deviance(self, y: Array, u: Array) -> Array:
        """Of each row."""
        raise NotImplementedError

    def pearson(self, y: Array, u: Array) -> Array:
        """Of each row: the squared residual divided by its variance, for the dispersion 1."""
        raise NotImplementedError

    def saturated(self, y: Array) -> Array:
        """What the log-likelihood of a row needs of the outcome alone."""
        return np.zeros(len(y))

    def log_likelihood(self, deviance: float, saturated: float, weight: float) -> float:
        return saturated - 0.5 * deviance

    def score_of(self, mean: float) -> float:
        """The score with this mean."""
        return math.log(mean)

    def typical(self, mean: float) -> float:
        """The dispersion where a row's standard deviation is this mean."""
        return 1.0

    def dispersion(self, known: Outcomes) -> float:
        return super().dispersion(known) * self.typical(float(known.totals[0] / known.totals[1]))

    def tells(self) -> str:
        return "the sum of the outcomes, Pearson's statistic, the deviances"

    def outcome_sums(self, sample: Design) -> Array:
        return np.array([sample.weight @ sample.y, sample.weight.sum()])

    def start(self, known: Outcomes, columns: int, intercept: int | None) -> Array:
        z = np.zeros(columns)
        if intercept is not None:
            z[intercept] = self.score_of(float(known.totals[0] / known.totals[1])) - known.offset
        return z

    def site(self, s: Design, z: Array) -> LikelihoodTerms:
        return of_rows(s.X, s.weight, self.rows(s.y, s.X @ z + s.offset))

    def slopes(self, s: Design, z: Array) -> Array:
        return s.X * (s.weight * self.rows(s.y, s.X @ z + s.offset).slope)[:, None]

    def first_weights(self, sample: Design, start: Array) -> Array:
        return self.row_weights(sample, start)[:, 0]

    def row_weights(self, sample: Design, z: Array) -> Array:
        return (sample.weight * self.rows(sample.y, sample.X @ z + sample.offset).expected)[:, None]

    def steered_weights(self, sample: Design, z: Array) -> Array:
        """In both matrices, the observed one for a mean outcome: one high outcome is no matter of the point z."""
        mean = np.broadcast_to(sample.y.mean(axis=0), sample.y.shape) if len(sample.y) else sample.y
        rows = self.rows(mean, sample.X @ z + sample.offset)
        return np.column_stack([self.row_weights(sample, z)[:, 0], sample.weight * np.abs(rows.observed)])

    def measures(self, samples: Sequence[Design], z: Array, null: Array, group: Group) -> FitMeasures:
        own = []
        for s in samples:
            u, u0 = s.X @ z + s.offset, s.X @ null + s.offset
            columns = [self.unit_deviance(s.y, u), self.unit_deviance(s.y, u0), self.pearson(s.y, u)]
            weighted = [s.weight @ column for column in (*columns, self.saturated(s.y))]
            own.append([*weighted, s.weight.sum(), s.counts.sum()])
        deviance, null_deviance, pearson, saturated, weight, rows = summed(group, np.array(own)).tolist()
        if self.dispersed and not deviance > UNEXPLAINED * max(null_deviance, weight):
            raise FitError(EXACT_SENTENCE, range(z.size))
        llf, llnull = (self.log_likelihood(d, saturated, weight) for d in (deviance, null_deviance))
        scale = pearson / (rows - z.size + self.nuisance) if self.dispersed else 1.0
        return FitMeasures(deviance, null_deviance, llf, llnull, scale, pearson)


# Successes ---------------------------------------------------------------------------------------


class Probability(NamedTuple):
    """A link F of probabilities. Functions of scores u give one number a row, accurate in both tails."""

    mean: Callable[[Array], Array]
    score: Callable[[float], float]
    logs: Callable[[Array], tuple[Array, Array]]
    """log F and log(1 - F)."""
    hazards: Callable[[Array], tuple[Array, Array, Array, Array]]
    """a = f/F and b = f/(1 - F) with f = F', and their slopes a' and b'."""


def _logit_hazards(u: Array) -> tuple[Array, Array, Array, Array]:
    high, low = expit(u), expit(-u)
    return low, high, -high * low, high * low


def _probit_hazards(u: Array) -> tuple[Array, Array, Array, Array]:
    density = -0.5 * u * u - 0.5 * math.log(2.0 * math.pi)
    a, b = np.exp(density - log_ndtr(u)), np.exp(density - log_ndtr(-u))
    return a, b, -a * (u + a), b * (b - u)


def _cloglog_hazards(u: Array) -> tuple[Array, Array, Array, Array]:
    b = np.exp(u)
    a = np.where(b < 700.0, b / np.expm1(np.minimum(b, 700.0)), 0.0)
    return a, b, a * (1.0 - b - a), b


def _cloglog_logs(u: Array) -> tuple[Array, Array]:
    b = np.exp(u)
    return np.where(b < 1.0, np.log(-np.expm1(-b)), np.log1p(-np.exp(-b))), -b


PROBABILITIES = {
    "logit": Probability(expit, lambda p: float(logit(p)), lambda u: (log_expit(u), log_expit(-u)), _logit_hazards),
    "probit": Probability(ndtr, lambda p: float(ndtri(p)), lambda u: (log_ndtr(u), log_ndtr(-u)), _probit_hazards),
    "cloglog": Probability(
        lambda u: -np.expm1(-np.exp(u)), lambda p: math.log(-math.log1p(-p)), _cloglog_logs, _cloglog_hazards
    ),
}


@dataclass(frozen=True)
class Binomial(Glm):
    """y successes of m trials, E y = m F(u): l = y log F + (m - y) log(1 - F). ``y`` is 0 or 1, or has two columns."""

    labels: ClassVar[str] = "binary"
    link: ClassVar[str] = "logit"
    ratio: ClassVar[str | None] = "odds ratio"

    @property
    def links(self) -> Probability:
        return PROBABILITIES[self.link]

    def rows(self, y: Array, u: Array) -> RowTerms:
        good, bad = _successes(y)
        (log_f, log_s), (a, b, da, db) = self.links.logs(u), self.links.hazards(u)
        observed = bad * db - good * da
        expected = observed if self.link == "logit" else (good + bad) * a * b
        return RowTerms(_times(good, log_f) + _times(bad, log_s), good * a - bad * b, observed, expected)

    def unit_deviance(self, y: Array, u: Array) -> Array:
        good, bad = _successes(y)
        return 2.0 * (_perfect(good, bad) - self.rows(y, u).llf)

    def pearson(self, y: Array, u: Array) -> Array:
        """(good - m p)^2/(m p (1 - p)), by the odds r^2 against it: of a row far away 1 - p would be 0."""
        (good, bad), (log_f, log_s) = _successes(y), self.links.logs(u)
        r = np.exp(0.5 * np.clip(log_s - log_f, -LARGEST_LOG, LARGEST_LOG))
        return (good * r - bad / r) ** 2 / np.maximum(good + bad, 1e-300)  # a row without trials counts nothing

    def saturated(self, y: Array) -> Array:
        good, bad = _successes(y)
        ways = gammaln(good + bad + 1.0) - gammaln(good + 1.0) - gammaln(bad + 1.0)
        return ways + _perfect(good, bad)

    def score_of(self, mean: float) -> float:
        return self.links.score(mean)

    def outcome_sums(self, sample: Design) -> Array:
        good, bad = _successes(sample.y)
        return np.array([sample.weight @ good, sample.weight @ (good + bad)])

    def response(self, u: Array) -> Array:
        return self.links.mean(u)


@dataclass(frozen=True)
class Probit(Binomial):
    """F is the normal distribution function."""

    link: ClassVar[str] = "probit"
    matrices: ClassVar[int] = 2
    ratio: ClassVar[str | None] = None


@dataclass(frozen=True)
class Cloglog(Binomial):
    """F(u) = 1 - exp(-e^u): with the logarithm of a time as offset, a model of hazards."""

    link: ClassVar[str] = "cloglog"
    matrices: ClassVar[int] = 2
    ratio: ClassVar[str | None] = "hazard ratio"


@dataclass(frozen=True)
class QuasiBinomial(Binomial):
    """The same with a dispersion: no likelihood, and wider standard errors."""

    dispersed: ClassVar[bool] = True
    likelihood: ClassVar[bool] = False


def _successes(y: Array) -> tuple[Array, Array]:
    """Successes and failures of each row."""
    return (y, 1.0 - y) if y.ndim == 1 else (y[:, 0], y[:, 1])


def _perfect(good: Array, bad: Array) -> Array:
    """The log-likelihood of shares that are predicted perfectly."""
    share = good / np.maximum(good + bad, 1e-300)
    return xlogy(good, share) + xlog1py(bad, -share)


def _times(count: Array, logarithm: Array) -> Array:
    """Their product, 0 where the count is 0."""
    return np.where(count > 0.0, count * logarithm, 0.0)


# Positive numbers and counts, with the log link --------------------------------------------------


@dataclass(frozen=True)
class QuasiPoisson(Glm):
    """Counts (or amounts) with the variance phi mu."""

    labels: ClassVar[str] = "count"
    ratio: ClassVar[str | None] = "rate ratio"
    dispersed: ClassVar[bool] = True
    likelihood: ClassVar[bool] = False

    def rows(self, y: Array, u: Array) -> RowTerms:
        mu = np.exp(u)
        return RowTerms(y * u - mu, y - mu, mu, mu)

    def unit_deviance(self, y: Array, u: Array) -> Array:
        return 2.0 * (xlogy(y, y) - y * u - y + np.exp(u))

    def pearson(self, y: Array, u: Array) -> Array:
        return (y - np.exp(u)) ** 2 / np.exp(u)

    def typical(self, mean: float) -> float:
        return mean


@dataclass(frozen=True)
class PositiveNumbers(Glm):
    """Positive numbers, for instance costs. The likelihood takes phi = deviance/n, as R does."""

    labels: ClassVar[str] = "positive"
    ratio: ClassVar[str | None] = "ratio of means"
    dispersed: ClassVar[bool] = True
    extra: ClassVar[int] = 1
    matrices: ClassVar[int] = 2


@dataclass(frozen=True)
class Gamma(PositiveNumbers):
    """The variance is phi mu^2."""

    def rows(self, y: Array, u: Array) -> RowTerms:
        share = y * np.exp(-u)
        return RowTerms(-share - u, share - 1.0, share, np.ones_like(u))

    def unit_deviance(self, y: Array, u: Array) -> Array:
        share = y * np.exp(-u)
        return 2.0 * (share - 1.0 - np.log(share))

    def pearson(self, y: Array, u: Array) -> Array:
        return (y * np.exp(-u) - 1.0) ** 2

    def saturated(self, y: Array) -> Array:
        return -np.log(y)

    def log_likelihood(self, deviance: float, saturated: float, weight: float) -> float:
        shape = weight / deviance
        constant = shape * math.log(shape) - math.lgamma(shape) - shape
        return weight * constant + saturated - 0.5 * shape * deviance


@dataclass(frozen=True)
class InverseGaussian(PositiveNumbers):
    """The variance is phi mu^3."""

    def rows(self, y: Array, u: Array) -> RowTerms:
        rate = np.exp(-u)
        slope = y * rate**2 - rate
        return RowTerms(-0.5 * self.unit_deviance(y, u), slope, 2.0 * slope + rate, rate)

    def unit_deviance(self, y: Array, u: Array) -> Array:
        return (y * np.exp(-u) - 1.0) ** 2 / y

    def pearson(self, y: Array, u: Array) -> Array:
        return (y * np.exp(-u) - 1.0) ** 2 * np.exp(-u)

    def typical(self, mean: float) -> float:
        return 1.0 / mean

    def saturated(self, y: Array) -> Array:
        return -1.5 * np.log(y)

    def log_likelihood(self, deviance: float, saturated: float, weight: float) -> float:
        return -0.5 * weight * (math.log(2.0 * math.pi * deviance / weight) + 1.0) + saturated
