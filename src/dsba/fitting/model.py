"""A fitted model: coefficients, how they came about, and for a table what its sites agreed on and its inference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pydantic import Field, InstanceOf, NonNegativeInt

from dsba import operators
from dsba.engine.run import Status
from dsba.errors import InputError
from dsba.fitting.disclosure import Guards
from dsba.fitting.measures import CalibrationGroup, Figures, LastRecord, Measures, NoFigures
from dsba.fitting.spec import FitSpec
from dsba.kernels.samples import normalize_rows
from dsba.types import Array, Level

FIRST_THAT_FITS = Field(union_mode="left_to_right")  # of classes whose fields a part of a file has


@dataclass(frozen=True)
class FitRun:
    """How a fit went, and what its operator declares."""

    labels: str
    """What the operator takes: "real", "count", "binary" or "multiclass"."""
    decision: Literal["number", "sign", "largest", "rank"]
    link: Literal["identity", "log", "logit", "softmax", "probit", "cloglog", "cumulative", "hazard"] | None
    method: str
    plan: str | None
    """Why "auto" chose the method."""
    status: Status
    message: str
    nodes: int
    samples: int
    features: int
    processes: int
    masked: bool
    figures: LastRecord
    versions: dict[str, str]

    @property
    def residual(self) -> float | None:
        return self.figures.residual


@dataclass(frozen=True)
class SitePart:
    """What a site tells of itself."""

    site: str
    guards: Guards = field(default_factory=Guards)
    """The guards of the site."""


@dataclass(frozen=True)
class Schema:
    """What the sites agreed on. It is all that is needed to turn any table into the columns of the model."""

    spec: InstanceOf[FitSpec]
    """The specification; its event and levels are not there any more, as classes and levels below have their order."""
    labels: str
    """What the operator takes: "real", "count", "binary" or "multiclass"."""
    parts: tuple[SitePart, ...]
    rows: NonNegativeInt
    """The rows of all sites, those with missing values included."""
    kinds: dict[str, str]
    """What each column holds."""
    missing: dict[str, NonNegativeInt]
    """For each column the number of missing values at all sites."""
    levels: dict[str, tuple[Level, ...]]
    """The levels of every factor in order; the first is the reference level."""
    merged: dict[str, tuple[Level, ...]]
    """Levels that became one, "(other)"."""
    classes: tuple[Level, ...] | None
    """The labels of a classification in order; of two, the second is the event."""
    means: dict[str, float]
    """Pooled means of the number columns with missing values, where they are filled in."""
    notices: tuple[str, ...] = ()
    """The sentences of guards that did not end the fit."""
    states: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Pooled moments and knots of scale(), poly(), bs() and the like, by their texts."""
    together: dict[str, str] = field(default_factory=dict)
    """Columns that are missing exactly where another column is, which has an indicator or a level for that."""
    odd_levels: tuple[str, ...] = ()
    """What there is to know of levels: those that look alike, and those of one site."""

    @property
    def limits(self) -> Guards:
        """The strictest guards of all sites."""
        return Guards.strictest([part.guards for part in self.parts])

    @property
    def indicators(self) -> tuple[str, ...]:
        """The number columns that get a column of their own for missing values."""
        if self.spec.missing != "indicator":
            return ()
        return tuple(column for column in self.means if column not in self.together)


@dataclass(frozen=True)
class Inference:
    """Standard errors and likelihoods."""

    covariance: tuple[tuple[float, ...], ...]
    """Of the coefficients of the columns in their own units."""
    df_resid: int
    dispersed: bool
    """Whether a variance is estimated."""
    scale: float
    deviance: float
    null_deviance: float
    llf: float | None
    """None where there is no likelihood (quasi-families)."""
    llnull: float | None
    extra: int = 0
    """Parameters beside the coefficients that AIC counts."""
    bic_rows: int | None = None
    """What BIC counts instead of rows: the events of a Cox model."""
    pearson_chi2: float | None = None
    vif: tuple[float, ...] = ()
    """How many times larger the variance of each coefficient is than with columns that are not correlated."""
    sites: int = 0
    """The number of sites with rows."""
    df: tuple[float, ...] | None = None
    """The degrees of freedom of each coefficient, where errors are clustered by site."""


@dataclass(frozen=True)
class TableMetadata:
    """What a table's model has beside its coefficients."""

    names: tuple[str, ...]
    sd: tuple[float, ...]
    """The pooled standard deviations of the columns; the intercept's is 1."""
    schema: Schema
    rounds: int
    notices: tuple[str, ...]
    events: int | None
    """Rows of the second class, of all sites."""
    calibration: tuple[CalibrationGroup, ...] | None
    """Of the rows that the model was fitted to, where it predicts probabilities."""
    convergence: tuple[tuple[float, float], ...]
    """Rounds of the method and the relative residual, at every record point."""
    inference: Inference | None
    why_none: str | None
    """Why there is no inference."""
    test: Annotated[Measures | None, FIRST_THAT_FITS] = None
    """Measures of the rows that were held out, over all sites."""
    figures: Annotated[Figures, FIRST_THAT_FITS] = field(default_factory=NoFigures)
    """Parameters that have no line in a summary."""
    survival: tuple[tuple[float, float], ...] = ()
    """Of a Cox model on a grid of times: its ends, and the survival of a row of mean columns."""


@dataclass(frozen=True)
class FittedModel:
    """Scores are X weights' + intercepts; ``Z`` are the nodes' own iterates."""

    weights: Array
    """One row, or one for each class."""
    intercepts: Array
    Z: Array
    classes: npt.NDArray[Any] | None
    spec: FitSpec
    """The specification as it was carried out: with the lambda and the step size that were used."""
    run: FitRun
    zero_based: bool | None = None
    """Whether the columns of its LIBSVM files count from 0; None for other data."""
    table: TableMetadata | None = None

    @property
    def n_features(self) -> int:
        return int(self.weights.shape[1])

    def scores(self, X: Any) -> Array:
        """x'w + intercept, one column per row of ``weights``."""
        if X.shape[1] != self.n_features:
            raise InputError(f"the model has {self.n_features} features, the data {X.shape[1]}.")
        X = sp.csr_array(X, dtype=np.float64, copy=True)
        if self.spec.normalize:
            normalize_rows(X.indptr, X.data)
        return X @ self.weights.T + self.intercepts

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """What the operator decides: labels for classes, expected counts, numbers, or scores to rank by."""
        return operators.decide(self.run.decision, self.run.link, self.scores(X), self.classes)
