"""Models of classes: multinomial (classes without an order) and ordinal (proportional odds)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import expit, logit, logsumexp, softmax

from dsba.tables.models.base import Design, LikelihoodTerms, Outcomes, TableModel
from dsba.types import Array

if TYPE_CHECKING:
    from dsba.tables.scaling import Scaling


@dataclass(frozen=True)
class _Classes(TableModel):
    """Outcomes are numbers of classes 0, 1, ...; ``n_classes`` is known when a fit begins."""

    labels: ClassVar[str] = "multiclass"
    endless: ClassVar[str] = (
        "a class is separated from the others by {columns}, and the coefficients there grow without end; leave out "
        "what separates, or join classes."
    )
    n_classes: int = 0

    def tells(self) -> str:
        return "the rows of every class"

    def outcome_sums(self, sample: Design) -> Array:
        return np.bincount(sample.y.astype(np.int64), sample.weight, minlength=self.n_classes).astype(np.float64)


@dataclass(frozen=True)
class Multinomial(_Classes):
    """log P(class k)/P(first class) = x'b_k, for every class k but the first. An offset would cancel out."""

    link: ClassVar[str | None] = "softmax"
    ratio: ClassVar[str | None] = "relative risk ratio"

    def names(self, columns: Sequence[str], classes: Sequence[Any] | None) -> tuple[str, ...]:
        return tuple(f"{level}:{column}" for level in (classes or ())[1:] for column in columns)

    def back(self, scaling: Scaling, classes: Sequence[Any] | None) -> Array:
        return np.asarray(np.kron(np.eye(self.n_classes - 1), scaling.back), np.float64)

    def start(self, known: Outcomes, columns: int, intercept: int | None) -> Array:
        B = np.zeros((self.n_classes - 1, columns))
        if intercept is not None:
            B[:, intercept] = np.log(known.totals[1:] / known.totals[0])
        return np.asarray(B.ravel())

    def _scores(self, X: Array, z: Array) -> Array:
        """One column a class, 0 for the first."""
        B = z.reshape(self.n_classes - 1, -1)
        return np.column_stack([np.zeros(len(X)), X @ B.T])

    def site(self, s: Design, z: Array) -> LikelihoodTerms:
        U, (n, p) = self._scores(s.X, z), s.X.shape
        P = softmax(U, axis=1)[:, 1:]
        llf = U[np.arange(n), s.y.astype(np.int64)] - logsumexp(U, axis=1)
        H = np.zeros((z.size, z.size))
        for a in range(P.shape[1]):
            for b in range(P.shape[1]):
                bend = s.weight * P[:, a] * ((a == b) - P[:, b])
                H[a * p : (a + 1) * p, b * p : (b + 1) * p] = s.X.T @ (s.X * bend[:, None])
        return LikelihoodTerms(float(s.weight @ llf), self.slopes(s, z).sum(axis=0), H, H)

    def slopes(self, s: Design, z: Array) -> Array:
        P = softmax(self._scores(s.X, z), axis=1)[:, 1:]
        hits = s.y[:, None] == np.arange(1, self.n_classes)
        slopes = s.weight[:, None] * (hits - P)
        return (slopes[:, :, None] * s.X[:, None, :]).reshape(len(s.X), -1)

    def row_weights(self, sample: Design, z: Array) -> Array:
        return self.steered_weights(sample, z)[:, 1:]

    def steered_weights(self, sample: Design, z: Array) -> Array:
        """The first class has no coefficients, but all blocks together are its own."""
        P = softmax(self._scores(sample.X, z), axis=1)
        return sample.weight[:, None] * P * (1.0 - P)

    def blocks(self, information: Array, p: int) -> list[Array]:
        """Those of each class with itself."""
        return [information[k : k + p, k : k + p] for k in range(0, len(information), p)]

    def mean(self, X: Array, offset: Array, params: Array) -> Array:
        return softmax(self._scores(X, params), axis=1)


@dataclass(frozen=True)
class Ordinal(_Classes):
    """P(Y <= k) = F(cut_k - x'b - offset) with F the logistic curve; the cuts come after the coefficients."""

    intercept: ClassVar[bool] = False
    ordered: ClassVar[bool] = True
    link: ClassVar[str | None] = "cumulative"
    ratio: ClassVar[str | None] = "odds ratio"

    def names(self, columns: Sequence[str], classes: Sequence[Any] | None) -> tuple[str, ...]:
        levels = list(map(str, classes or ()))
        return (*columns, *(f"{low}|{high}" for low, high in pairwise(levels)))

    def back(self, scaling: Scaling, classes: Sequence[Any] | None) -> Array:
        """cut - b'(x - mean)/sd = (cut + mean'b/sd) - (b/sd)'x."""
        p, cuts = len(scaling.sd), self.n_classes - 1
        T = np.eye(p + cuts)
        T[:p, :p] = np.diag(1.0 / scaling.sd)
        T[p:, :p] = scaling.mean / scaling.sd
        return T

    def start(self, known: Outcomes, columns: int, intercept: int | None) -> Array:
        below = np.cumsum(known.totals)[:-1] / known.totals.sum()
        return np.append(np.zeros(columns), logit(below) + known.offset)

    def _ends(self, s: Design, z: Array) -> tuple[Array, Array]:
        """The scores at which a row's class begins and ends."""
        cuts = np.concatenate([[-np.inf], z[s.X.shape[1] :], [np.inf]])
        u, k = s.X @ z[: s.X.shape[1]] + s.offset, s.y.astype(np.int64)
        return cuts[k] - u, cuts[k + 1] - u

    def _rows(self, s: Design, z: Array) -> tuple[Array, Array, Array, Array, Array]:
        """The probability of each row's class; the slopes f/P at both ends, and f'/f there."""
        low, high = self._ends(s, z)
        left, right = expit(low), expit(high)
        P = np.where(low > 0.0, expit(-low) - expit(-high), right - left)  # no digits are lost in the upper tail
        f_low, f_high = left * expit(-low), right * expit(-high)
        return P, f_low / P, f_high / P, 1.0 - 2.0 * left, 1.0 - 2.0 * right

    def _jacobians(self, s: Design, z: Array) -> tuple[Array, Array]:
        """The slopes of both ends by all parameters, a row a row."""
        k, cuts = s.y.astype(np.int64), np.eye(self.n_classes - 1)
        zero = np.zeros((1, self.n_classes - 1))
        return np.hstack([-s.X, np.vstack([zero, cuts])[k]]), np.hstack([-s.X, np.vstack([cuts, zero])[k]])

    def site(self, s: Design, z: Array) -> LikelihoodTerms:
        P, a_low, a_high, c_low, c_high = self._rows(s, z)
        low, high = self._jacobians(s, z)
        w = s.weight
        between = low.T @ (high * (w * a_low * a_high)[:, None])
        H = high.T @ (high * (w * (a_high * c_high - a_high**2))[:, None]) + between + between.T
        H = low.T @ (low * (w * (a_low * c_low + a_low**2))[:, None]) - H
        llf = float(w @ np.log(P)) if (np.diff(z[s.X.shape[1] :]) > 0.0).all() else np.nan
        return LikelihoodTerms(llf, (w * a_high) @ high - (w * a_low) @ low, H, H)

    def slopes(self, s: Design, z: Array) -> Array:
        _, a_low, a_high, _, _ = self._rows(s, z)
        low, high = self._jacobians(s, z)
        return (s.weight * a_high)[:, None] * high - (s.weight * a_low)[:, None] * low

    def row_weights(self, sample: Design, z: Array) -> Array:
        _, a_low, a_high, c_low, c_high = self._rows(sample, z)
        bend = (a_high - a_low) ** 2 - a_high * c_high + a_low * c_low
        return (sample.weight * bend)[:, None]

    def mean(self, X: Array, offset: Array, params: Array) -> Array:
        u, cuts = X @ params[: X.shape[1]] + offset, params[X.shape[1] :]
        below = expit(cuts[None, :] - u[:, None])
        return np.diff(np.column_stack([np.zeros(len(X)), below, np.ones(len(X))]), axis=1)
