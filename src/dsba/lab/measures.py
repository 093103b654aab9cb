"""Metrics of the mean model on rows of data: each a function of z, made for a problem and for rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dsba.data import Dataset
from dsba.engine.recorder import Metric, area_under_curve
from dsba.errors import InputError
from dsba.problem.problem import Problem
from dsba.types import Array

LEAST_PROBABILITY = 1e-300  # a probability of zero has no logarithm


def scores(problem: Problem, X: Any, z: Array) -> Array:
    """One row per sample, one column per output."""
    weights, intercept = problem.unpack(z)
    return np.asarray(X @ weights.T + intercept)


def auc(problem: Problem, rows: Dataset) -> Metric:
    return lambda z: area_under_curve(rows.y, scores(problem, rows.X, z)[:, 0])


def accuracy(problem: Problem, rows: Dataset) -> Metric:
    """The share of rows whose class is predicted; numbers -1 and +1 are also classes."""
    component, y = problem.component, rows.y
    if component.labels not in ("binary", "multiclass") and not np.isin(y, (-1.0, 1.0)).all():
        raise InputError(f"accuracy needs classes, and the labels of {type(component).__name__} here are numbers.")
    if component.decision == "largest":
        return lambda z: float(np.mean(component.decide(scores(problem, rows.X, z), problem.classes) == y))
    return lambda z: float(np.mean(np.where(scores(problem, rows.X, z)[:, 0] > 0, 1.0, -1.0) == y))


def log_loss(problem: Problem, rows: Dataset) -> Metric:
    """The mean of -log of the probability that the model gives the class of a row."""
    component, classes = problem.component, problem.classes
    if classes is None or component.link not in ("logit", "softmax"):
        raise InputError(f"log_loss needs probabilities of classes, and {type(component).__name__} gives none.")
    binary = component.labels == "binary"
    place = (rows.y > 0).astype(int) if binary else np.searchsorted(classes, rows.y)

    def of(z: Array) -> float:
        p = component.mean(scores(problem, rows.X, z))
        both = np.stack([1 - p, p], axis=1) if binary else p
        return float(-np.mean(np.log(np.maximum(both[np.arange(place.size), place], LEAST_PROBABILITY))))

    return of


def loss(problem: Problem, rows: Dataset) -> Metric:
    """The mean of the operator's loss, without the regularisation."""
    if not problem.has_objective:
        raise InputError(f"loss needs an objective, and {type(problem.component).__name__} has none.")
    twin = Problem([(rows.X, rows.y)], problem.component, lam=0.0, intercept=problem.intercept or False)
    if twin.classes is not None and problem.classes is not None and twin.classes.size != problem.classes.size:
        raise InputError("loss needs every class of the training data also in the test set.")
    return twin.objective


NAMED: dict[str, Callable[[Problem, Dataset], Metric]] = {"accuracy": accuracy, "log_loss": log_loss, "loss": loss}
