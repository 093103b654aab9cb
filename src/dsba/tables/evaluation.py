"""How well a model predicts rows that it may not have seen: at every site, and over all sites together.

A site adds up over its own rows, and only these sums leave it: counts of events and of other rows in bins of the
score, counts and sums of predictions in ten groups of the probability, sums of losses. No label and no score of a row
leaves it.

The area under the ROC curve is that of the bins, in which rows of one bin are ties. ``auc_within`` is how far the area
of the rows themselves can be from it at most: half of the share of pairs that are ties. Its interval is DeLong's, of
the scores in bins. Calibration slope and intercept are those of a logistic model of the outcome on the score (for the
intercept alone the slope is 1), which is fitted by sums as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit, xlogy

from dsba.errors import InputError, noted
from dsba.fitting.disclosure import Guards
from dsba.network import Group, counted, summed
from dsba.solvers.exact import dot, eliminated
from dsba.tables.design import outcome_of
from dsba.tables.models.scoring import MOST_STEPS
from dsba.tables.schema import end_together, kind_of
from dsba.tables.terms import SiteTable
from dsba.types import Array

if TYPE_CHECKING:
    from dsba.tables.results import Results

Measures = dict[str, Any]

BINS_PER_UNIT, REACH = 64, 16  # of scores: bins of 1/64 from -16 to 16, and one beyond each end
BINS = 2 * REACH * BINS_PER_UNIT + 2
GROUPS = 10  # of probabilities, equally wide
CURVE_POINTS, CURVE_ROWS = 100, 10  # of a ROC curve: at most so many points, and at least so many rows between them
Z95 = 1.959963984540054  # of a normal distribution
NEAR_MAXIMUM = 1e-7  # in standard errors: Newton's next step squares it, and is the last one
LONG_LAST_STEP = 1e-3  # relative to the numbers it changes: there is no maximum, outcomes are separated


class Scored(NamedTuple):
    """Rows with their outcomes, scores and predicted means; ``left_out`` are rows that cannot be predicted."""

    y: Array
    score: Array
    mean: Array
    exposure: Array
    """exp(offset) of counts, else 1: what the mean outcome is divided by in a model without columns."""
    left_out: int


@dataclass(frozen=True)
class Evaluation:
    """Measures of a model on tables.

    Parameters
    ----------
    pooled : Measures
        The measures over the rows of all sites.
    sites : dict[str, Measures]
        Those of each site of this process. A site without rows has only their number.
    notices : tuple[str, ...]
        What would end the evaluation between owners.

    Examples
    --------
    >>> from dsba.tables.evaluation import Evaluation
    >>> Evaluation({"rows": 3}, {"north": {"rows": 3}}).pooled["rows"]
    3
    """

    pooled: Measures
    sites: dict[str, Measures]
    notices: tuple[str, ...] = ()
    """What would end the evaluation between owners."""

    def plain(self) -> dict[str, Any]:
        """Return the measures in JSON's types.

        Returns
        -------
        dict[str, Any]
            ``pooled`` and ``sites``.

        Examples
        --------
        >>> from dsba.tables.evaluation import Evaluation
        >>> Evaluation({"rows": 3}, {}).plain()
        {'pooled': {'rows': 3}, 'sites': {}}
        """
        return {"pooled": self.pooled, "sites": self.sites}


def evaluate(results: Results, sites: Sequence[SiteTable], group: Group, guards: Guards | None = None) -> Evaluation:
    """Evaluate a model on the rows of the sites here, together with those of the other processes.

    Between processes too few rows, or a row that makes up most of the loss, end the evaluation before it is measured.
    """
    kind = _kind(results)
    scored = [scored_rows(results, site) for site in sites]
    notices = _checked(kind, scored, [site.name for site in sites], guards or Guards(), group)
    pooled = _measured(kind, scored, partial(summed, group))
    if not pooled["rows"]:
        raise InputError("there is no row to evaluate with an outcome and all columns that the model needs.")
    there = {site.name: _measured(kind, [one], lambda rows: rows[0]) for site, one in zip(sites, scored, strict=True)}
    return Evaluation(pooled, there, notices)


def _checked(
    kind: Kind, scored: Sequence[Scored], sites: Sequence[str], guards: Guards, group: Group
) -> tuple[str, ...]:
    """Sentences of the sites here about rows that measures would show; between processes one ends the evaluation.

    Rows and, of classes, those of each class are none or enough: in all, and without the rows of each site.
    """
    events = [one.y.sum() if kind in (CLASSES, SCORES) else 0.0 for one in scored]
    own = np.array([[len(one.y), n, len(one.y) - n] for one, n in zip(scored, events, strict=True)])
    total = np.array(counted(group, own))
    few = any(((counts > 0) & (counts < guards.rows_per_level)).any() for counts in (total, *(total - own)))
    found = [guards.few_evaluated()] if few else []
    losses = [kind.losses(one) for one in scored]
    (loss,) = summed(group, np.array([[part.sum()] for part in losses]))
    for site, part in zip(sites, losses, strict=True):
        if loss > 0.0 and part.max(initial=0.0) > guards.dominance * loss and len(part):
            found.append(guards.dominated_loss(site))
    (complaints,) = counted(group, np.array([[float(len(found))], *[[0.0]] * (len(scored) - 1)]))
    if complaints and group.size > 1:
        end_together(group, next(iter(found), None))
    return tuple(found)


def _kind(results: Results) -> Kind:
    run = results.model.run
    if run.labels in ("multiclass", "counts", "survival"):
        raise InputError("models of several classes, counts of successes and times are not evaluated on tables.")
    if results.schema.classes is not None:
        return CLASSES if run.link == "logit" else SCORES
    return COUNTS if run.labels == "count" else NUMBERS


def scored_rows(results: Results, site: SiteTable) -> Scored:
    """The rows of a site that have an outcome and all that the model needs; others are left out and counted."""
    _require_outcome(results, site)
    response = list(results.formula.response)
    frame = site.frame.loc[site.frame[response].notna().all(axis=1)].reset_index(drop=True)
    frame = frame.loc[results.known_rows(frame)].reset_index(drop=True)
    score, offset = results.scores(frame, name=site.name)
    with np.errstate(over="ignore"):
        exposure = np.exp(offset) if _kind(results) is COUNTS else np.ones(len(frame))
    y = outcome_of(SiteTable(site.name, frame), results.schema)
    scored = Scored(y, score, results.mean(score), exposure, len(site.frame) - len(frame))
    _require_finite(scored, site.name)
    return scored


def _require_finite(scored: Scored, site: str) -> None:
    """An infinite number would spoil the sums of all sites."""
    parts = {"outcome": scored.y, "score": scored.score, "prediction": scored.mean, "exposure": scored.exposure}
    for name, values in parts.items():
        if bad := int((~np.isfinite(values)).sum()):
            error = InputError(f"the {name} is not a finite number in some rows of {site}.")
            raise noted(error, [f"{bad} rows of {site}"])


def _require_outcome(results: Results, site: SiteTable) -> None:
    for column in results.formula.response:
        if column not in site.frame.columns:
            raise InputError(f"{site.name} has no column {column!r}, which is the outcome.")
        numbers = kind_of(site.frame[column]) in ("number", "truth", "empty")
        if results.schema.classes is None and not numbers:
            raise InputError(f"the column {column!r} of {site.name} is not a number, and the outcome must be one.")


def _measured(kind: Kind, scored: Sequence[Scored], total: Callable[[Array], Array]) -> Measures:
    """The measures of rows; ``total`` adds what each site says of its own. Without a row there are only counts.

    A site without rows adds zeros. It may not leave: the others would wait for its part of the sums. Counts are summed
    by themselves, as outcomes of a large unit would cost them their digits.
    """
    rows, left_out, exposure = total(np.array([[len(one.y), one.left_out, one.exposure.sum()] for one in scored]))
    outcomes, predictions = total(np.array([[one.y.sum(), one.mean.sum()] for one in scored]))
    sums = total(np.array([kind.sums(one, outcomes / (exposure or 1.0)) for one in scored]))
    counts = {"rows": int(rows), "left_out": int(left_out)}
    if not rows:
        return counts
    found = {"mean_outcome": outcomes / rows, "mean_prediction": predictions / rows}
    found |= kind.measures(int(rows), outcomes, sums)
    if kind is CLASSES:
        found |= _recalibrated(scored, total)
    return counts | {name: float(value) if isinstance(value, np.floating) else value for name, value in found.items()}


class Kind(NamedTuple):
    """What is measured of one kind of outcome: sums of a site, given the mean of all, and what the totals mean."""

    sums: Callable[[Scored, float], Array]
    measures: Callable[[int, float, Array], Measures]
    losses: Callable[[Scored], Array] = lambda scored: np.zeros(len(scored.y))
    """Of each row, where they have no bound."""


# Classes -----------------------------------------------------------------------------------------


def _score_sums(scored: Scored, mean: float) -> Array:
    """Events and other rows in every bin."""
    at = np.clip(np.floor(BINS_PER_UNIT * scored.score) + BINS // 2, 0, BINS - 1).astype(np.int64)
    return np.concatenate([np.bincount(at, scored.y == label, BINS) for label in (1, 0)])


def _score_measures(rows: int, events: float, sums: Array) -> Measures:
    positive, negative = np.split(sums, 2)
    m, n = positive.sum(), negative.sum()
    if not m * n:
        names = ("auc", "auc_low", "auc_high", "auc_within", "roc")
        return {"events": int(events), **dict.fromkeys(names)}
    below = np.cumsum(negative) - negative
    ties = 0.5 * (positive @ negative) / (m * n)
    auc = (positive @ below) / (m * n) + ties
    ranked = (below + 0.5 * negative) / n, (m - np.cumsum(positive) + 0.5 * positive) / m
    low, high = _delong(auc, (positive, negative), ranked)
    found = {"events": int(events), "auc": auc, "auc_low": low, "auc_high": high, "auc_within": ties}
    return found | {"roc": _curve(positive, negative)}


def _delong(auc: float, counts: tuple[Array, Array], ranked: tuple[Array, Array]) -> tuple[float | None, float | None]:
    """DeLong's 95 % interval; ``ranked``: with which share of the other class a row of each bin is ranked right."""
    sizes = [float(count.sum()) for count in counts]
    if min(sizes) < 2:
        return None, None
    parts = zip(counts, ranked, sizes, strict=True)
    reach = Z95 * math.sqrt(sum(dot(count, (share - auc) ** 2) / (size - 1.0) / size for count, share, size in parts))
    return max(auc - reach, 0.0), min(auc + reach, 1.0)


def _curve(positive: Array, negative: Array) -> list[dict[str, float | None]]:
    """Points of the ROC curve, from the highest score down: the shares of both classes at or above a score."""
    both = (positive + negative)[::-1]
    apart, ends, taken = max(CURVE_ROWS, both.sum() / CURVE_POINTS), [0], 0.0
    for bins, rows in enumerate(both, start=1):
        taken += rows
        if taken >= apart:
            ends, taken = [*ends, bins], 0.0
    ends = [*(ends[:-1] if len(ends) > 1 else ends), BINS]  # the rows that are left join the last part
    above = [np.concatenate([[0.0], np.cumsum(one[::-1])]) for one in (negative, positive)]
    return [
        {"score": None if end in (0, BINS) else (BINS // 2 - end) / BINS_PER_UNIT,
         "false_positive": float(above[0][end] / above[0][-1]), "true_positive": float(above[1][end] / above[1][-1])}
        for end in ends
    ]  # fmt: skip


def _recalibrated(scored: Sequence[Scored], total: Callable[[Array], Array]) -> Measures:
    """Calibration intercept (the slope being 1) and slope with standard errors; None where there is no maximum."""
    found: Measures = {}
    for name, free in (("intercept", 1), ("slope", 2)):
        value, error = _logistic(scored, total, free) or (None, None)
        found |= {f"calibration_{name}": value, f"calibration_{name}_se": error}
    return found


def _logistic(scored: Sequence[Scored], total: Callable[[Array], Array], free: int) -> tuple[float, float] | None:
    """The last of the ``free`` first numbers of z = (0, 1) that maximise sum log P(y | z0 + z1 score), by Newton."""
    z, step, best = np.array([0.0, 1.0]), np.zeros(2), -math.inf
    for _ in range(MOST_STEPS):
        llf, g0, g1, h00, h01, h11 = total(np.array([_logistic_sums(one, z + step) for one in scored])).tolist()
        if not llf >= best - 1e-13 * abs(best):
            step = 0.5 * step
            continue
        z, best = z + step, llf
        H, g = np.array([[h00, h01], [h01, h11]])[:free, :free], np.array([g0, g1])[:free]
        solved = eliminated(H, np.column_stack([g, np.eye(free)]))
        if solved is None:
            return None
        step = np.append(solved[:, 0], 0.0)[:2]
        if dot(step[:free], g) <= NEAR_MAXIMUM**2:
            endless = np.abs(step).max() > LONG_LAST_STEP * np.abs(z).max()
            return None if endless else (float((z + step)[free - 1]), math.sqrt(solved[-1, -1]))
    return None


def _logistic_sums(scored: Scored, z: Array) -> Array:
    u, x = z[0] + z[1] * scored.score, scored.score
    p = expit(u)
    r, v = scored.y - p, p * (1.0 - p)
    llf = log_expit(np.where(scored.y > 0, u, -u)).sum()
    return np.array([llf, r.sum(), (r * x).sum(), v.sum(), (v * x).sum(), (v * x * x).sum()])


def _class_sums(scored: Scored, mean: float) -> Array:
    signs = np.where(scored.y > 0, 1.0, -1.0)
    losses = [-log_expit(signs * scored.score).sum(), ((scored.y - scored.mean) ** 2).sum()]
    return np.concatenate([losses, grouped(scored.y, scored.mean), _score_sums(scored, mean)])


def _class_measures(rows: int, events: float, sums: Array) -> Measures:
    table, bins = np.split(sums[2:], [3 * GROUPS])
    losses = {"log_loss": sums[0] / rows, "brier": sums[1] / rows}
    return {**_score_measures(rows, events, bins), **losses, "calibration": calibration(table)}


def grouped(y: Array, mean: Array) -> Array:
    """Rows, events and the sum of the predictions in every group of the predicted probability."""
    at = np.minimum((GROUPS * mean).astype(np.int64), GROUPS - 1)
    return np.concatenate([np.bincount(at, weights, GROUPS) for weights in (np.ones(len(y)), y, mean)])


def calibration(sums: Array) -> list[dict[str, float]]:
    """The groups with rows: their bounds, rows, mean prediction and share of events, from the sums of ``grouped``."""
    groups = enumerate(zip(*np.split(sums, 3), strict=True))
    return [
        {"low": group / GROUPS, "high": (group + 1) / GROUPS, "rows": int(rows), "predicted": float(predicted / rows),
         "observed": float(events / rows)}
        for group, (rows, events, predicted) in groups
        if rows
    ]  # fmt: skip


# Counts and numbers ------------------------------------------------------------------------------


def _count_losses(scored: Scored) -> Array:
    return 2.0 * (xlogy(scored.y, scored.y) - scored.y - scored.y * scored.score + scored.mean)


def _count_sums(scored: Scored, mean: float) -> Array:
    y, null = scored.y, mean * scored.exposure
    return np.array([_count_losses(scored).sum(), 2.0 * (xlogy(y, y) - y - xlogy(y, null) + null).sum()])


def _count_measures(rows: int, total: float, sums: Array) -> Measures:
    return {"deviance": sums[0] / rows, "d2": 1.0 - sums[0] / sums[1] if sums[1] else None}


def _number_losses(scored: Scored) -> Array:
    return (scored.y - scored.mean) ** 2


def _number_sums(scored: Scored, mean: float) -> Array:
    return np.array([_number_losses(scored).sum(), ((scored.y - mean) ** 2).sum()])


def _number_measures(rows: int, total: float, sums: Array) -> Measures:
    return {"r2": 1.0 - sums[0] / sums[1] if sums[1] else None, "rmse": np.sqrt(sums[0] / rows)}


CLASSES = Kind(_class_sums, _class_measures)
SCORES = Kind(_score_sums, _score_measures)
COUNTS = Kind(_count_sums, _count_measures, _count_losses)
NUMBERS = Kind(_number_sums, _number_measures, _number_losses)

TITLES = {
    "rows": "rows", "left_out": "rows left out", "events": "events", "mean_outcome": "mean outcome",
    "mean_prediction": "mean prediction", "auc": "AUC", "auc_low": "AUC, lower 95 % bound",
    "auc_high": "AUC, upper 95 % bound", "auc_within": "AUC, error of bins at most", "log_loss": "log loss",
    "brier": "Brier score", "deviance": "mean deviance", "d2": "share of deviance explained", "r2": "R²",
    "rmse": "root mean squared error", "calibration_intercept": "calibration intercept",
    "calibration_intercept_se": "standard error of the intercept", "calibration_slope": "calibration slope",
    "calibration_slope_se": "standard error of the slope",
}  # fmt: skip


def sentences(name: str, measures: Measures) -> str:
    """The measures of a site, or of all, in one line for people."""
    if not measures["rows"]:
        return f"{name}: no rows, {TITLES['left_out']} {_shown(measures['left_out'])}."
    shown = [f"{TITLES[key]} {_shown(value)}" for key, value in measures.items() if key in TITLES and value is not None]
    return f"{name}: {', '.join(shown)}."


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
