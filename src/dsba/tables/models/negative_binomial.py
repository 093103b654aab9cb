"""Counts with the variance mu + mu^2/theta (NB2); theta is estimated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import digamma, gammaln, polygamma, xlogy

from dsba.fitting.measures import Figures, ThetaFigures
from dsba.tables.models.base import Design, LikelihoodTerms, Outcomes, RowTerms, of_rows
from dsba.tables.models.glm import Glm
from dsba.types import Array

LARGEST_THETA = 1e6  # the variance of a count of 100 differs from Poisson's by a ten-thousandth; beyond is rounding
LONGEST_STEP = 2.0  # of log theta, whose curvature says little about far places


@dataclass(frozen=True)
class KnownTheta(Glm):
    """l = log G(y + t) - log G(t) - log y! + t log t + y u - (y + t) log(mu + t), mu = e^u, t = theta."""

    labels: ClassVar[str] = "count"
    ratio: ClassVar[str | None] = "rate ratio"
    extra: ClassVar[int] = 1
    matrices: ClassVar[int] = 2
    theta: float = 1.0

    def rows(self, y: Array, u: Array) -> RowTerms:
        mu, t = np.exp(u), self.theta
        expected = mu * t / (mu + t)
        llf = self.saturated(y) - 0.5 * self.unit_deviance(y, u)
        return RowTerms(llf, (y - mu) * t / (mu + t), expected * (y + t) / (mu + t), expected)

    def unit_deviance(self, y: Array, u: Array) -> Array:
        t = self.theta
        return 2.0 * (xlogy(y, y) - y * u - (y + t) * (np.log(y + t) - np.log(np.exp(u) + t)))

    def pearson(self, y: Array, u: Array) -> Array:
        mu = np.exp(u)
        return (y - mu) ** 2 / (mu + mu**2 / self.theta)

    def saturated(self, y: Array) -> Array:
        t = self.theta
        ways = gammaln(y + t) - gammaln(t) - gammaln(y + 1.0)
        return ways + t * np.log(t) + xlogy(y, y) - (y + t) * np.log(y + t)


@dataclass(frozen=True)
class NegativeBinomial(KnownTheta):
    """Newton's iteration on b and log theta together.

    As in MASS::glm.nb, the standard errors of b hold theta fixed, which makes no difference to first order.
    """

    nuisance: ClassVar[int] = 1

    def settled(self, z: Array) -> KnownTheta:
        return KnownTheta(float(np.exp(z[-1])))

    def tells(self) -> str:
        return f"the sum of the squared outcomes, {super().tells()}"

    def outcome_sums(self, sample: Design) -> Array:
        return np.append(super().outcome_sums(sample), sample.weight @ sample.y**2)

    def start(self, known: Outcomes, columns: int, intercept: int | None) -> Array:
        """The mean, and theta by its moments."""
        total, weight, squares = known.totals
        mean = total / weight
        excess = squares / weight - mean**2 - mean
        theta = min(max(mean**2 / excess, 0.05), 100.0) if excess > 0.0 else 100.0
        return np.append(super().start(known, columns, intercept), math.log(theta))

    def site(self, s: Design, z: Array) -> LikelihoodTerms:
        u, t = s.X @ z[:-1] + s.offset, np.exp(z[-1])
        known, mu = of_rows(s.X, s.weight, KnownTheta(t).rows(s.y, u)), np.exp(u)
        slope, bend = _of_log_theta(s.y, mu, t)
        cross = s.X.T @ (s.weight * t * (mu - s.y) * mu / (mu + t) ** 2)
        observed = _bordered(known.observed, cross, float(s.weight @ bend))
        expected = _bordered(known.expected, 0.0 * cross, float(s.weight @ slope**2))  # a positive stand-in
        return LikelihoodTerms(known.llf, np.append(known.score, s.weight @ slope), observed, expected)

    def slopes(self, s: Design, z: Array) -> Array:
        return self.settled(z).slopes(s, z[:-1])

    def shortened(self, step: Array) -> Array:
        return step * min(1.0, LONGEST_STEP / max(abs(float(step[-1])), LONGEST_STEP))

    def row_weights(self, sample: Design, z: Array) -> Array:
        return self.settled(z).row_weights(sample, z[:-1])

    def steered_weights(self, sample: Design, z: Array) -> Array:
        return self.settled(z).steered_weights(sample, z[:-1])

    def complaint(self, z: Array) -> str | None:
        if z[-1] <= math.log(LARGEST_THETA):
            return None
        return "the counts of the outcome vary no more than Poisson's, and theta grows without end; use poisson."

    def figures(self, z: Array, terms: LikelihoodTerms) -> Figures:
        """Theta, and its standard error from the curvature along theta alone, as glm.nb has it."""
        theta = float(np.exp(z[-1]))
        return ThetaFigures(theta, theta / math.sqrt(terms.observed[-1, -1]))


def _of_log_theta(y: Array, mu: Array, t: float) -> tuple[Array, Array]:
    """The first derivative by log theta of each row, and minus the second."""
    first = digamma(y + t) - digamma(t) + np.log(t) + 1.0 - np.log(mu + t) - (y + t) / (mu + t)
    second = polygamma(1, y + t) - polygamma(1, t) + 1.0 / t - 2.0 / (mu + t) + (y + t) / (mu + t) ** 2
    return t * first, -(t * t * second + t * first)


def _bordered(block: Array, border: Array, corner: float) -> Array:
    return np.block([[block, border[:, None]], [border[None, :], np.array([[corner]])]])
