"""Typed measures of a fit and of its predictions. The model's file has their fields by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class LastRecord:
    """The last record of a fit's history; None is what the method does not measure, or is not finite."""

    iteration: float | None = None
    passes: float | None = None
    nominal_passes: float | None = None
    work: float | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None
    rounds: float | None = None
    doubles_max: float | None = None
    index_bytes_max: float | None = None
    bytes_max: float | None = None
    residual: float | None = None
    objective: float | None = None
    consensus: float | None = None
    auc: float | None = None

    @classmethod
    def of(cls, record: Mapping[str, float]) -> LastRecord:
        """The record of a history; its columns are the fields."""
        return cls(**{name: value if math.isfinite(value) else None for name, value in record.items()})

    def plain(self) -> dict[str, float]:
        """What is known, in JSON's types."""
        return {name: value for name, value in vars(self).items() if value is not None}


# Of predictions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class CalibrationGroup:
    """The rows whose predicted probability is between two bounds."""

    low: float
    high: float
    rows: int
    predicted: float
    """The mean prediction."""
    observed: float
    """The share of events."""


@dataclass(frozen=True)
class RocPoint:
    """The shares of both classes at or above a score; the ends have no score."""

    score: float | None
    false_positive: float
    true_positive: float


@dataclass(frozen=True)
class RowCounts:
    """All that is known without a row."""

    rows: int
    left_out: int


@dataclass(frozen=True)
class MeanMeasures(RowCounts):
    mean_outcome: float
    mean_prediction: float


@dataclass(frozen=True)
class NumberMeasures(MeanMeasures):
    r2: float | None
    rmse: float


@dataclass(frozen=True)
class CountMeasures(MeanMeasures):
    deviance: float
    """The mean deviance."""
    d2: float | None
    """The share of the deviance that is explained."""


@dataclass(frozen=True)
class RankMeasures(MeanMeasures):
    """Of classes by scores; rows of one class have no curve."""

    events: int
    auc: float | None = None
    auc_low: float | None = None
    auc_high: float | None = None
    auc_within: float | None = None
    """The error of the bins at most."""
    roc: tuple[RocPoint, ...] | None = None


@dataclass(frozen=True)
class ClassMeasures(RankMeasures):
    """Of classes by probabilities."""

    log_loss: float = field(kw_only=True)
    brier: float = field(kw_only=True)
    calibration: tuple[CalibrationGroup, ...] = field(kw_only=True)
    calibration_intercept: float | None = None
    calibration_intercept_se: float | None = None
    calibration_slope: float | None = None
    calibration_slope_se: float | None = None


Measures = ClassMeasures | RankMeasures | CountMeasures | NumberMeasures | RowCounts


# Of a model beside its coefficients --------------------------------------------------------------


@dataclass(frozen=True)
class NoFigures:
    """A model that has only coefficients."""


@dataclass(frozen=True)
class ThetaFigures:
    """The shape of a negative binomial model and its standard error."""

    theta: float
    theta_se: float


@dataclass(frozen=True)
class VarianceFigures:
    """Of a random intercept."""

    site_variance: float
    residual_variance: float


@dataclass(frozen=True)
class GridFigures:
    """Into how many intervals times were grouped."""

    time_intervals: float


Figures = ThetaFigures | VarianceFigures | GridFigures | NoFigures
