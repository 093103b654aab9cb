"""What a model of a table must say, and what its rows add up to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from dsba.algorithms.costs import NEWTON_STEPS
from dsba.algorithms.newton import solved
from dsba.algorithms.newton import symmetric as symmetric
from dsba.fitting.measures import Figures, NoFigures
from dsba.fitting.spec import FitSpec
from dsba.network import Alone, Group
from dsba.types import Array, Integers

if TYPE_CHECKING:
    from dsba.tables.scaling import Scaling

NOT_DETERMINED = (
    "the rows do not determine the coefficients of {columns}: one of these columns is a weighted sum of the others, or "
    "zero; leave one out."
)


class Design(NamedTuple):
    """The rows of one site as the model sees them."""

    names: tuple[str, ...]
    X: Array
    y: Array
    """Labels of a classification as numbers 0, 1, ...; NaN for predictions."""
    weight: Array
    offset: Array
    cluster: Integers | None = None
    """The number of each row's cluster within the site, where there are clusters."""
    repeated: bool = False
    """Whether weights are frequencies."""

    @property
    def counts(self) -> Array:
        """How many rows of equal values each row stands for."""
        return self.weight if self.repeated else np.ones_like(self.weight)


class LikelihoodTerms(NamedTuple):
    """The log-likelihood (up to a constant) at a point, its slope, and two matrices that bend it."""

    llf: float
    score: Array
    observed: Array
    """Minus the second derivatives."""
    expected: Array
    """A matrix that is positive wherever the columns are independent: the expected information, if it is known."""
    pooled: Any = None
    """Other sums over all sites that were made at this point."""

    def flat(self) -> Array:
        """The numbers that are summed; a matrix is sent once where both are the same."""
        upper = np.triu_indices(self.score.size)
        both = (self.observed,) if self.expected is self.observed else (self.observed, self.expected)
        return np.concatenate([[self.llf], self.score, *(matrix[upper] for matrix in both)])

    @classmethod
    def of(cls, flat: Array, q: int) -> LikelihoodTerms:
        """What ``flat`` gave, or a sum of it."""
        matrices = [symmetric(part, q) for part in flat[1 + q :].reshape(-1, q * (q + 1) // 2)]
        return cls(float(flat[0]), flat[1 : 1 + q], matrices[0], matrices[-1])


class RowTerms(NamedTuple):
    """The same of single rows, by their score u = x'b + offset: one number a row each."""

    llf: Array
    slope: Array
    observed: Array
    expected: Array


class RowLeverage(NamedTuple):
    """Of each row of a site: the parts of its leverage by column, and its weights in the sums, one column a sum."""

    parts: Array
    weights: Array

    @classmethod
    def of(cls, X: Array, weight: Array, inverse: Array) -> RowLeverage:
        """w_i x_i' I^-1 x_i, from the inverse of the information I."""
        return cls((X @ inverse) * X * weight[:, None], weight[:, None])

    def larger(self, other: RowLeverage) -> RowLeverage:
        """Of each row the larger leverage."""
        first = self.parts.sum(axis=1) >= other.parts.sum(axis=1)
        return self._replace(parts=np.where(first[:, None], self.parts, other.parts))


def leverages_at(
    X: Sequence[Array], now: Sequence[Array], last: Sequence[Array], information: Array
) -> list[RowLeverage] | None:
    """Those of rows X with the weights ``now``; None if they are not finite.

    The others' part of the information is as it was where the rows here had the weights ``last``.
    """
    changes = (x.T @ (x * (new - old)[:, None]) for x, new, old in zip(X, now, last, strict=True))
    total = sum(changes, information)
    if not np.isfinite(total).all():
        return None
    inverse, _ = solved(total, np.eye(len(total)))
    return [RowLeverage.of(x, weight, inverse) for x, weight in zip(X, now, strict=True)]


class LikelihoodOnly(Alone):
    """A group in whose sums only the first number travels, the log-likelihood; slopes and matrices are 0."""

    def __init__(self, group: Group) -> None:
        self.group = group

    def sum(self, rows: Any) -> Array:
        return np.append(self.group.sum(rows[:, :1]), np.zeros(rows.shape[1] - 1))


class FitMeasures(NamedTuple):
    """How well a model fits, over the rows of all sites."""

    deviance: float
    null_deviance: float
    llf: float
    llnull: float
    scale: float = 1.0
    """What the classical covariance is multiplied by."""
    pearson_chi2: float | None = None


class ModelSums(NamedTuple):
    """How many numbers there are in each sum over the sites that a fit makes, as far as the formula tells."""

    before: Sequence[int]
    """Once, before the first point."""
    point: Sequence[int]
    """At every point."""
    points: int = 1 + NEWTON_STEPS
    """How many points are enough for ordinary tables."""
    unit: str = "Newton steps"


class Outcomes(NamedTuple):
    """What is known of the outcomes of all sites before the fit."""

    rows: int
    weight: float
    totals: Array
    """The sums of ``TableModel.outcome_sums``."""
    offset: float = 0.0
    """A score that stands for the offsets of all rows."""


@dataclass(frozen=True)
class TableModel(ABC):
    """A model with a likelihood. All methods are about scaled columns; ``samples`` are the rows of the sites here.

    Parameters are those of the names, and then the nuisance parameters, which have no line in a summary.
    """

    labels: ClassVar[str]
    """What the outcome is: "real", "positive", "count", "binary", "multiclass", "counts" or "survival"."""
    link: ClassVar[str | None] = None
    ratio: ClassVar[str | None] = None
    """What exp of a coefficient is called."""
    intercept: ClassVar[bool] = True
    dispersed: ClassVar[bool] = False
    """Whether the classical covariance is multiplied by an estimated dispersion."""
    likelihood: ClassVar[bool] = True
    ordered: ClassVar[bool] = False
    """Whether the order of the classes means something."""
    extra: ClassVar[int] = 0
    """Parameters beside the coefficients that AIC counts."""
    nuisance: ClassVar[int] = 0
    leveraged: ClassVar[bool] = False
    """Whether a row has one score, and so a leverage."""
    matrices: ClassVar[int] = 1
    """How many matrices are summed at a point: 2 where the expected information is not the observed one."""
    endless: ClassVar[str] = (
        "the outcome is separated by {columns}, and the coefficients there grow without end; leave out what separates."
    )

    undetermined: ClassVar[str] = NOT_DETERMINED

    def names(self, columns: Sequence[str], classes: Sequence[Any] | None) -> tuple[str, ...]:
        return tuple(columns)

    def back(self, scaling: Scaling, classes: Sequence[Any] | None) -> Array:
        """The matrix that turns the parameters of scaled columns into those of the columns themselves."""
        return scaling.back

    def sums(self, q: int, spec: FitSpec) -> ModelSums:
        """The sums of a fit of q parameters, for what is told before a run."""
        return ModelSums((), (1 + q + self.matrices * (q * (q + 1) // 2),))

    @abstractmethod
    def tells(self) -> str:
        """What its sums tell beside a log-likelihood, slopes and matrices: approvals and docs/privacy.md say it."""

    def outcome_sums(self, sample: Design) -> Array:
        """What the start of the fit needs to know of the outcomes, as sums over rows."""
        return np.zeros(0)

    @abstractmethod
    def start(self, known: Outcomes, columns: int, intercept: int | None) -> Array:
        """The model of the intercept alone."""

    def dispersion(self, known: Outcomes) -> float:
        """About as large as it is, so that lengths in standard errors have no unit of outcomes or weights."""
        return known.weight / known.rows

    def site(self, s: Design, z: Array) -> LikelihoodTerms:
        """The terms of one site at a point, where the terms of all are their sum."""
        raise NotImplementedError

    def terms(self, samples: Sequence[Design], z: Array, group: Group) -> LikelihoodTerms:
        """The terms of all sites at a point. NaN where the point is outside of the model."""
        return pooled_terms(group, [self.site(sample, z) for sample in samples])

    def log_likelihood_at(self, samples: Sequence[Design], z: Array, group: Group) -> float:
        """The log-likelihood of all sites at a point, up to the same constant; no matrix is summed."""
        return self.terms(samples, z, LikelihoodOnly(group)).llf

    def slopes(self, s: Design, z: Array) -> Array:
        """The slopes of the rows of one site, one column a parameter, where they need nothing of other sites."""
        raise NotImplementedError

    def row_scores(self, samples: Sequence[Design], z: Array, terms: LikelihoodTerms) -> list[Array]:
        """The slopes of each site here; ``terms`` are those of all sites at z."""
        return [self.slopes(sample, z) for sample in samples]

    def shortened(self, step: Array) -> Array:
        """A Newton step, or the part of it that this model trusts."""
        return step

    def first_weights(self, sample: Design, start: Array) -> Array:
        """The weights of a site's rows in a matrix that is summed before all others: no row's outcome is in them."""
        return sample.weight

    @abstractmethod
    def row_weights(self, sample: Design, z: Array) -> Array:
        """The weights of a site's rows in the information, a column for each of its ``blocks``."""

    def steered_weights(self, sample: Design, z: Array) -> Array:
        """The weights of a site's rows in every matrix that is summed, a column each."""
        return self.row_weights(sample, z)

    def blocks(self, information: Array, p: int) -> list[Array]:
        """The parts sum_i v_i x_i x_i' of the information, of p columns each."""
        return [information[:p, :p]]

    def leverages(
        self, samples: Sequence[Design], z: Array, last: Array, terms: LikelihoodTerms
    ) -> list[RowLeverage] | None:
        """The leverages of the rows of the sites here at ``z``; None if they are not finite.

        The others' part of the information is taken as it was in the ``terms`` at ``last``.
        """
        p = samples[0].X.shape[1]
        now, before = ([self.row_weights(s, at) for s in samples] for at in (z, last))
        found: list[RowLeverage] = []
        for k, block in enumerate(self.blocks(terms.expected, p)):
            new, old = ([weights[:, k] for weights in one] for one in (now, before))
            here = leverages_at([s.X for s in samples], new, old, block)
            if here is None:
                return None
            found = [one.larger(other) for one, other in zip(here, found, strict=True)] if found else here
        return [one._replace(weights=self.steered_weights(s, z)) for one, s in zip(found, samples, strict=True)]

    def complaint(self, z: Array) -> str | None:
        """A sentence about a parameter that grows without end; None if there is nothing to say."""
        return None

    def measures(self, samples: Sequence[Design], z: Array, null: Array, group: Group) -> FitMeasures | None:
        """At the solution and at the null model; None where the log-likelihoods say it all."""
        return None

    def figures(self, z: Array, terms: LikelihoodTerms) -> Figures:
        """The nuisance parameters, for people."""
        return NoFigures()

    def survival(self, terms: LikelihoodTerms) -> tuple[tuple[float, float], ...]:
        """Times and the survival of a row of mean columns, where they show nobody; ``terms`` are the solution's."""
        return ()

    def settled(self, z: Array) -> TableModel:
        """The model with its nuisance parameters known; the null model has the same ones."""
        return self

    def response(self, u: Array) -> Array:
        """The mean response of scores u = x'b + offset."""
        return np.exp(u)

    def mean(self, X: Array, offset: Array, params: Array) -> Array:
        """The mean response of rows, or one column for each class, in the columns' own units."""
        return self.response(X @ params + offset)


def pooled_terms(group: Group, own: Sequence[LikelihoodTerms]) -> LikelihoodTerms:
    """The terms of all sites, in one exact sum. NaN if a part is not finite."""
    return LikelihoodTerms.of(group.sum(np.array([one.flat() for one in own])), own[0].score.size)


def of_rows(X: Array, weight: Array, rows: RowTerms) -> LikelihoodTerms:
    """The terms of one site whose rows have one score each."""
    observed = X.T @ (X * (weight * rows.observed)[:, None])
    expected = observed
    if rows.expected is not rows.observed:
        expected = X.T @ (X * (weight * rows.expected)[:, None])
    return LikelihoodTerms(float(weight @ rows.llf), X.T @ (weight * rows.slope), observed, expected)
