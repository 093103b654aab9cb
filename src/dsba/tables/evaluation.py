"""How well a model predicts rows that it may not have seen: at every site, and over all sites together.

A site adds up over its own rows, and only these sums leave it: counts of events and of other rows in bins of the
score, counts and sums of predictions in ten groups of the probability, sums of losses. No label and no score of a row
leaves it. Between processes neighbouring bins and groups are joined until each has, of events and of other rows, none
or enough, in all and without any one site (intervals.py); in one process they are as fine as here.

The area under the ROC curve is that of the bins, in which rows of one bin are ties. ``auc_within`` is how far the area
of the rows themselves can be from it at most: half of the share of pairs that are ties. Its interval is DeLong's, of
the scores in bins. Calibration slope and intercept are those of a logistic model of the outcome on the score (for the
intercept alone the slope is 1), which is fitted by sums as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import TypeAdapter
from scipy.special import expit, log_expit, xlogy

from dsba.errors import InputError, noted
from dsba.fitting.disclosure import Guards, is_steered
from dsba.fitting.measures import (
    CalibrationGroup,
    ClassMeasures,
    CountMeasures,
    MeanMeasures,
    Measures,
    NumberMeasures,
    RankMeasures,
    RocPoint,
    RowCounts,
)
from dsba.fitting.rows import finite_largest
from dsba.network import Group, counted, summed
from dsba.solvers.exact import dot, eliminated
from dsba.tables.design import derived_columns, outcome_of, parts_of_functions
from dsba.tables.exports import figures
from dsba.tables.intervals import finest_starts, interval_numbers
from dsba.tables.models.scoring import MOST_STEPS
from dsba.tables.peaks import peak_complaints
from dsba.tables.schema import end_together, kind_of
from dsba.tables.terms import SiteTable
from dsba.types import Array, Flags, Integers

if TYPE_CHECKING:
    from dsba.tables.results import Results

BINS_PER_UNIT, REACH = 64, 16  # of scores: bins of 1/64 from -16 to 16, and one beyond each end
BINS = 2 * REACH * BINS_PER_UNIT + 2
GROUPS = 10  # of probabilities, equally wide
CURVE_ENDS, SPREAD = 96, 4.0  # ends of joined bins, evenly over so many standard deviations on both sides of the mean
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


class Bins(NamedTuple):
    """The intervals in which rows are counted: the first bin of the score, and the first group, of each."""

    scores: Integers = np.arange(BINS)
    groups: Integers = np.arange(GROUPS)


FINE = Bins()


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
    >>> from dsba.fitting.measures import NumberMeasures
    >>> found = NumberMeasures(rows=3, left_out=0, mean_outcome=2.0, mean_prediction=2.1, r2=0.9, rmse=0.2)
    >>> Evaluation(found, {"north": found}).pooled.r2
    0.9
    """

    pooled: Measures
    sites: dict[str, Measures]
    notices: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return the measures in JSON's types.

        Returns
        -------
        dict[str, Any]
            ``pooled`` and ``sites``.

        Examples
        --------
        >>> from dsba.tables.evaluation import Evaluation
        >>> from dsba.fitting.measures import RowCounts
        >>> Evaluation(RowCounts(rows=0, left_out=3), {}).plain()
        {'pooled': {'rows': 0, 'left_out': 3}, 'sites': {}}
        """
        return TypeAdapter(Evaluation).dump_python(self, mode="json", exclude={"notices"})


def evaluate(results: Results, sites: Sequence[SiteTable], group: Group, guards: Guards | None = None) -> Evaluation:
    """Evaluate a model on the rows of the sites here, together with those of the other processes.

    Between processes too few rows, or a row that makes up most of the loss, end the evaluation before it is measured.
    """
    kind, kept, limits = _kind(results), [_kept_rows(results, site) for site in sites], guards or Guards()
    strictest = np.array([limits.rows_per_level, -limits.dominance])  # what one site wants holds for all
    most, least = finite_largest(group, strictest)
    few, limits = int(most), replace(limits, rows_per_level=int(most), dominance=-float(least))
    rows = zip(sites, kept, strict=True)
    scored = [_scored(results, one, len(site.frame) - len(one.frame)) for site, one in rows]
    peaks = _singled_out(results, kept, scored, limits, group)
    notices = (*peaks, *_checked(kind, scored, [site.name for site in sites], limits, group))
    bins = _joined(scored, few, group) if kind in (CLASSES, SCORES) and group.size > 1 and few > 1 else FINE
    pooled = _measured(kind, scored, partial(summed, group), bins)
    if not pooled.rows:
        raise InputError("there is no row to evaluate with an outcome and all columns that the model needs.")
    alone = [_measured(kind, [one], lambda rows: rows[0], FINE) for one in scored]
    there = {site.name: found for site, found in zip(sites, alone, strict=True)}
    return Evaluation(pooled, there, notices)


def _checked(kind: Kind, scored: Sequence[Scored], sites: Sequence[str], guards: Guards, group: Group) -> list[str]:
    """Sentences of the sites here about rows that measures would show; between processes one ends the evaluation.

    Rows and, of classes, those of each class are none or enough: in all, and without the rows of each site.
    """
    events = [one.y.sum() if kind in (CLASSES, SCORES) else 0.0 for one in scored]
    own = np.array([[len(one.y), n, len(one.y) - n] for one, n in zip(scored, events, strict=True)])
    total = np.array(counted(group, own))
    few = any(((counts > 0) & (counts < guards.rows_per_level)).any() for counts in (total, *(total - own)))
    found = [guards.few_evaluated()] if few else []
    if kind in (CLASSES, SCORES):  # predictions that are nearly 0 or 1 add nothing to the fraction of their sum
        spread = [one.mean * (1.0 - one.mean) for one in scored]
        held = zip(sites, spread, strict=True)
        found += [guards.few_predicted(site) for site, v in held if is_steered(v, guards.rows_per_level)]
    losses = [np.column_stack([kind.losses(one), one.mean if kind is COUNTS else 0.0 * one.mean]) for one in scored]
    total = summed(group, np.array([part.sum(axis=0) for part in losses]))
    for site, part in zip(sites, losses, strict=True):
        over = part.max(axis=0, initial=0.0) > guards.dominance * np.where(total > 0.0, total, np.inf)
        sentences = (guards.dominated_loss(site), guards.few_predicted(site))
        found += [sentence for sentence, above in zip(sentences, over, strict=True) if above]
    (complaints,) = counted(group, np.array([[float(len(found))], *[[0.0]] * (len(sites) - 1)]))
    if complaints and group.size > 1:
        end_together(group, next(iter(found), None))
    return found


def _kind(results: Results) -> Kind:
    run = results.model.run
    if run.labels in ("multiclass", "counts", "survival"):
        raise InputError("models of several classes, counts of successes and times are not evaluated on tables.")
    if results.schema.classes is not None:
        return CLASSES if run.link == "logit" else SCORES
    return COUNTS if run.labels == "count" else NUMBERS


def evaluated_rows(results: Results, site: SiteTable) -> Flags:
    """Which rows of a site have an outcome and all that the model needs; others are left out and counted."""
    require_outcome(results, site)
    known = site.frame[list(results.formula.response)].notna().all(axis=1).to_numpy(bool)
    return known & results.known_rows(site.frame)


def _kept_rows(results: Results, site: SiteTable) -> SiteTable:
    return SiteTable(site.name, site.frame.loc[evaluated_rows(results, site)].reset_index(drop=True))


def _scored(results: Results, site: SiteTable, left_out: int) -> Scored:
    score, offset = results.scores(site.frame, name=site.name)
    with np.errstate(over="ignore"):
        exposure = np.exp(offset) if _kind(results) is COUNTS else np.ones(len(score))
    scored = Scored(outcome_of(site, results.schema), score, results.mean(score), exposure, left_out)
    if _kind(results) is COUNTS and (scored.y < 0.0).any():
        raise InputError(f"the outcome has a negative count in some rows of {site.name}.")
    _require_finite(scored, site.name)
    return scored


def _singled_out(
    results: Results, sites: Sequence[SiteTable], scored: Sequence[Scored], guards: Guards, group: Group
) -> list[str]:
    """Refuse a model whose score, or a function in it, singles out a row: it was fitted to other rows than these."""
    schema, sharp = results.schema, results.formula.sharp
    names, parts = parts_of_functions(sites, schema)
    derived = np.flatnonzero(derived_columns(schema))
    X = [results.columns_of(site.frame, name=site.name)[:, derived] for site in sites]
    held = zip(parts, X, scored, strict=True)
    every = [np.column_stack([part, own, one.score, *([one.y] if sharp else [])]) for part, own, one in held]
    names += [results.metadata.names[j] for j in derived] + ["scores"] + [str(results.formula.left)] * sharp
    found, some = peak_complaints(names, every, [site.name for site in sites], guards, group)
    if some and group.size > 1:
        end_together(group, next(iter(found), None))
    return found


def _require_finite(scored: Scored, site: str) -> None:
    """An infinite number would spoil the sums of all sites."""
    parts = {"outcome": scored.y, "score": scored.score, "prediction": scored.mean, "exposure": scored.exposure}
    for name, values in parts.items():
        if bad := int((~np.isfinite(values)).sum()):
            error = InputError(f"the {name} is not a finite number in some rows of {site}.")
            raise noted(error, [f"{bad} rows of {site}"])


def require_outcome(results: Results, site: SiteTable) -> None:
    for column in results.formula.response:
        if column not in site.frame.columns:
            raise InputError(f"{site.name} has no column {column!r}, which is the outcome.")
        numbers = kind_of(site.frame[column]) in ("number", "truth", "empty")
        if results.schema.classes is None and not numbers:
            raise InputError(f"the column {column!r} of {site.name} is not a number, and the outcome must be one.")


def _joined(scored: Sequence[Scored], few: int, group: Group) -> Bins:
    """The finest bins and groups that show no few rows; all rows together if there are none."""
    own = [[len(one.y), one.score.sum(), one.score @ one.score] for one in scored]
    rows, first, second = summed(group, np.array(own))
    mean = first / max(rows, 1.0)
    reach = SPREAD * math.sqrt(max(second / max(rows, 1.0) - mean * mean, 0.0))
    ends = np.unique(_bins_of(np.linspace(mean - reach, mean + reach, CURVE_ENDS)))
    numbers = []
    for one in scored:
        marked = np.column_stack([one.y > 0, one.y <= 0])
        places = np.searchsorted(ends, _bins_of(one.score), side="right")
        fine = interval_numbers(places, marked, len(ends) + 1, few)
        numbers.append(np.concatenate([fine, group_numbers(one.y, one.mean, few)]))
    total = summed(group, np.array(numbers))
    size = total.size - group_numbers(np.zeros(0), np.zeros(0), few).size
    starts = finest_starts(total[:size], len(ends) + 1)
    return Bins(np.append(0, ends)[starts or [0]], group_starts(total[size:]))


def _measured(kind: Kind, scored: Sequence[Scored], total: Callable[[Array], Array], bins: Bins) -> Measures:
    """The measures of rows; ``total`` adds what each site says of its own. Without a row there are only counts.

    A site without rows adds zeros. It may not leave: the others would wait for its part of the sums. Counts are summed
    by themselves, as outcomes of a large unit would cost them their digits.
    """
    rows, left_out, exposure = total(np.array([[len(one.y), one.left_out, one.exposure.sum()] for one in scored]))
    outcomes, predictions = total(np.array([[one.y.sum(), one.mean.sum()] for one in scored]))
    sums = total(np.array([kind.sums(one, outcomes / (exposure or 1.0), bins) for one in scored]))
    if not rows:
        return RowCounts(0, int(left_out))
    means = MeanMeasures(int(rows), int(left_out), float(outcomes / rows), float(predictions / rows))
    found = kind.measures(means, outcomes, sums, bins)
    return _recalibrated(found, scored, total) if isinstance(found, ClassMeasures) else found


class Kind(NamedTuple):
    """What is measured of one kind of outcome: sums of a site, given the mean of all, and what the totals mean."""

    sums: Callable[[Scored, float, Bins], Array]
    measures: Callable[[MeanMeasures, float, Array, Bins], Measures]
    losses: Callable[[Scored], Array] = lambda scored: np.zeros(len(scored.y))
    """Of each row, where they have no bound."""


# Classes -----------------------------------------------------------------------------------------


def _bins_of(scores: Array) -> Integers:
    return np.clip(np.floor(BINS_PER_UNIT * scores) + BINS // 2, 0, BINS - 1).astype(np.int64)


def _score_sums(scored: Scored, mean: float, bins: Bins) -> Array:
    """Events and other rows in every bin."""
    at = np.searchsorted(bins.scores, _bins_of(scored.score), side="right") - 1
    return np.concatenate([np.bincount(at, scored.y == label, len(bins.scores)) for label in (1, 0)])


def _score_measures(means: MeanMeasures, events: float, sums: Array, bins: Bins) -> RankMeasures:
    positive, negative = np.zeros((2, BINS))
    positive[bins.scores], negative[bins.scores] = np.split(sums, 2)
    m, n = positive.sum(), negative.sum()
    if not m * n or len(bins.scores) == 1:
        return RankMeasures(**vars(means), events=int(events))
    below = np.cumsum(negative) - negative
    ties = 0.5 * (positive @ negative) / (m * n)
    auc = (positive @ below) / (m * n) + ties
    ranked = (below + 0.5 * negative) / n, (m - np.cumsum(positive) + 0.5 * positive) / m
    low, high = _delong(auc, (positive, negative), ranked)
    return RankMeasures(
        **vars(means), events=int(events), auc=float(auc), auc_low=low, auc_high=high, auc_within=float(ties),
        roc=tuple(_curve(positive, negative)),
    )  # fmt: skip


def _delong(auc: float, counts: tuple[Array, Array], ranked: tuple[Array, Array]) -> tuple[float | None, float | None]:
    """DeLong's 95 % interval; ``ranked``: with which share of the other class a row of each bin is ranked right."""
    sizes = [float(count.sum()) for count in counts]
    if min(sizes) < 2:
        return None, None
    parts = zip(counts, ranked, sizes, strict=True)
    reach = Z95 * math.sqrt(sum(dot(count, (share - auc) ** 2) / (size - 1.0) / size for count, share, size in parts))
    return max(auc - reach, 0.0), min(auc + reach, 1.0)


def _curve(positive: Array, negative: Array) -> Iterator[RocPoint]:
    """Points of the ROC curve, from the highest score down: the shares of both classes at or above a score."""
    both = (positive + negative)[::-1]
    apart, ends, taken = max(CURVE_ROWS, both.sum() / CURVE_POINTS), [0], 0.0
    for bins, rows in enumerate(both, start=1):
        taken += rows
        if taken >= apart:
            ends, taken = [*ends, bins], 0.0
    ends = [*(ends[:-1] if len(ends) > 1 else ends), BINS]  # the rows that are left join the last part
    above = [np.concatenate([[0.0], np.cumsum(one[::-1])]) for one in (negative, positive)]
    for end in ends:
        score = None if end in (0, BINS) else (BINS // 2 - end) / BINS_PER_UNIT
        yield RocPoint(score, *(float(part[end] / part[-1]) for part in above))


def _recalibrated(found: ClassMeasures, scored: Sequence[Scored], total: Callable[[Array], Array]) -> ClassMeasures:
    """Calibration intercept (the slope being 1) and slope with standard errors; None where there is no maximum."""
    level, level_se = _logistic(scored, total, 1) or (None, None)
    slope, slope_se = _logistic(scored, total, 2) or (None, None)
    return replace(
        found, calibration_intercept=level, calibration_intercept_se=level_se,
        calibration_slope=slope, calibration_slope_se=slope_se,
    )  # fmt: skip


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


def _class_sums(scored: Scored, mean: float, bins: Bins) -> Array:
    signs = np.where(scored.y > 0, 1.0, -1.0)
    losses = [-log_expit(signs * scored.score).sum(), ((scored.y - scored.mean) ** 2).sum()]
    table = grouped(scored.y, scored.mean, np.ones(len(scored.y)), bins.groups)
    return np.concatenate([losses, table, _score_sums(scored, mean, bins)])


def _class_measures(means: MeanMeasures, events: float, sums: Array, bins: Bins) -> ClassMeasures:
    table, counts = np.split(sums[2:], [3 * len(bins.groups)])
    log_loss, brier = (sums[:2] / means.rows).tolist()
    ranked = _score_measures(means, events, counts, bins)
    groups = calibration(table, bins.groups)
    return ClassMeasures(**vars(ranked), log_loss=log_loss, brier=brier, calibration=groups)


def _groups_of(mean: Array) -> Integers:
    return np.minimum((GROUPS * mean).astype(np.int64), GROUPS - 1)


def group_numbers(y: Array, mean: Array, few: int) -> Array:
    """What a site adds to find groups of the predicted probability that show no few rows."""
    return interval_numbers(_groups_of(mean), np.column_stack([y > 0, y <= 0]), GROUPS, few)


def group_starts(total: Array) -> Integers:
    """The first group of each joined one, from the sum of ``group_numbers``."""
    return np.array(finest_starts(total, GROUPS) or [0], np.int64)


def grouped(y: Array, mean: Array, counts: Array, starts: Integers = FINE.groups) -> Array:
    """Rows, events and the sum of the predictions in every group of the predicted probability."""
    at = np.searchsorted(starts, _groups_of(mean), side="right") - 1
    return np.concatenate([np.bincount(at, counts * each, len(starts)) for each in (np.ones(len(y)), y, mean)])


def calibration(sums: Array, starts: Integers = FINE.groups) -> tuple[CalibrationGroup, ...]:
    """The groups with rows: their bounds, rows, mean prediction and share of events, from the sums of ``grouped``."""
    bounds = zip(starts.tolist(), [*starts[1:].tolist(), GROUPS], strict=True)
    groups = zip(bounds, zip(*np.split(sums, 3), strict=True), strict=True)
    return tuple(
        CalibrationGroup(low / GROUPS, high / GROUPS, int(rows), float(predicted / rows), float(events / rows))
        for (low, high), (rows, events, predicted) in groups
        if rows
    )


# Counts and numbers ------------------------------------------------------------------------------


def _count_losses(scored: Scored) -> Array:
    return 2.0 * (xlogy(scored.y, scored.y) - scored.y - scored.y * scored.score + scored.mean)


def _count_sums(scored: Scored, mean: float, bins: Bins) -> Array:
    y, null = scored.y, mean * scored.exposure
    return np.array([_count_losses(scored).sum(), 2.0 * (xlogy(y, y) - y - xlogy(y, null) + null).sum()])


def _count_measures(means: MeanMeasures, total: float, sums: Array, bins: Bins) -> CountMeasures:
    return CountMeasures(**vars(means), deviance=float(sums[0] / means.rows), d2=_explained(sums))


def _number_losses(scored: Scored) -> Array:
    return (scored.y - scored.mean) ** 2


def _number_sums(scored: Scored, mean: float, bins: Bins) -> Array:
    return np.array([_number_losses(scored).sum(), ((scored.y - mean) ** 2).sum()])


def _number_measures(means: MeanMeasures, total: float, sums: Array, bins: Bins) -> NumberMeasures:
    return NumberMeasures(**vars(means), r2=_explained(sums), rmse=math.sqrt(sums[0] / means.rows))


def _explained(sums: Array) -> float | None:
    """The share of the second sum that the first one does not have."""
    return float(1.0 - sums[0] / sums[1]) if sums[1] else None


CLASSES = Kind(_class_sums, _class_measures)
SCORES = Kind(_score_sums, _score_measures)
COUNTS = Kind(_count_sums, _count_measures, _count_losses)
NUMBERS = Kind(_number_sums, _number_measures, _number_losses)

TITLES = {
    "rows": "rows", "left_out": "rows left out", "events": "events", "mean_outcome": "mean outcome",
    "mean_prediction": "mean prediction", "auc": "AUC (95 % interval)",
    "auc_within": "error of the AUC by bins, at most", "log_loss": "log loss",
    "brier": "Brier score", "deviance": "mean deviance", "d2": "share of deviance explained", "r2": "R²",
    "rmse": "root mean squared error", "calibration_intercept": "calibration intercept (standard error)",
    "calibration_slope": "calibration slope (standard error)",
}  # fmt: skip


def sentences(name: str, measures: Measures) -> str:
    """The measures of a site, or of all, in one line for people."""
    if not measures.rows:
        return f"{name}: no rows, {TITLES['left_out']} {_shown(measures.left_out)}."
    return f"{name}: {', '.join(f'{title} {value}' for title, value in for_people(measures).items())}."


def for_people(measures: Measures) -> dict[str, str]:
    """The measures by their titles, each with its interval or standard error."""
    known = vars(measures)
    return {TITLES[key]: _with_error(key, known) for key in known if key in TITLES and known[key] is not None}


def _with_error(key: str, known: dict[str, Any]) -> str:
    beside = [known.get(f"{key}_{end}") for end in ("low", "high", "se")]
    errors = " to ".join(_shown(one) for one in beside if one is not None)
    return _shown(known[key]) + (f" ({errors})" if errors else "")


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else figures(value)
