"""Fit and inference of the models in ``dsba.tables.models``: one Newton iteration, one way to standard errors.

classical: the inverse of the expected information, times the dispersion where there is one. HC0, HC1, site and cluster:
the scores of rows, of sites or of clusters between two inverses of the observed information. HC2 and HC3, of models
with one score a row: squared scores are divided by 1 - h and by its square, h = v x' I^-1 x with the expected
information I = sum v x x'.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit

from dsba._version import __version__
from dsba.engine.run import Status
from dsba.errors import FitError, InputError
from dsba.fitting.measures import Figures, LastRecord, VarianceFigures
from dsba.fitting.model import FitRun, FittedModel, Inference, TableMetadata
from dsba.fitting.spec import SAMPLING, FitSpec
from dsba.network import Network, summed
from dsba.problem.validation import require_weight
from dsba.tables.columns import INTERCEPT
from dsba.tables.design import CLASSED, Design, Designs
from dsba.tables.disclosure import ModelWatch, check_design
from dsba.tables.inference import CLUSTERED, LEAST_LEFT, LEVERAGED, NO_LEVERAGED, clustered_scores, inflation
from dsba.tables.mixed import fit_mixed
from dsba.tables.models.base import FitMeasures, Outcomes, TableModel, symmetric
from dsba.tables.models.cox import Cox
from dsba.tables.models.scoring import Maximum, inverse, maximised
from dsba.tables.scaling import Scaling, scaled_designs
from dsba.tables.schema import enforce
from dsba.tables.terms import terms_of
from dsba.types import Array, Notify

NO_PENALTY = "this model takes no penalty: leave out lam, or use the operator linear, logistic or poisson."
NO_LEVERAGES = (
    "{cov} divides by 1 minus the leverage of a row, which generalised linear models have, and {operator} models do "
    "not: use classical, HC0, HC1, site or cluster."
)
NEWTON_ONLY = "this model is fitted by newton only, got the algorithm {name!r}."
UNORDERED = "the classes of {column!r} need an order: list them from low to high in the levels of {column!r}."


class _Fitted(NamedTuple):
    """What is known when the parameters are."""

    model: TableModel
    designs: tuple[Design, ...]
    scaling: Scaling
    known: Outcomes
    start: Array
    solution: Maximum
    vif: Array
    """Of the columns of rows as the null model weighs them."""
    shown: tuple[str, ...]
    """Sentences about columns that show single rows."""

    @property
    def columns(self) -> int:
        return self.designs[0].X.shape[1]

    @property
    def coefficients(self) -> int:
        """Their number: without nuisance parameters."""
        return self.solution.params.size - self.model.nuisance


def require_fitting(model: TableModel, spec: FitSpec) -> None:
    """An error where options do not fit the model."""
    if spec.lam:
        raise InputError(NO_PENALTY)
    if spec.algorithm not in ("auto", "newton"):
        raise InputError(NEWTON_ONLY.format(name=str(spec.algorithm)))
    if spec.cov in LEVERAGED and not model.leveraged:
        raise InputError(NO_LEVERAGES.format(cov=spec.cov, operator=spec.operator))
    if spec.test_share and model.labels in ("multiclass", "counts", "survival"):
        raise InputError("held-out rows are evaluated for models of numbers, counts and two classes only.")
    if model.link == "softmax" and (spec.offset or spec.exposure):
        raise InputError("a multinomial model takes no offset: it would be the same for all classes, and cancel out.")


def require_order(model: TableModel, designs: Designs, given: Collection[str]) -> None:
    """An error if classes that are texts have no order; ``given`` are the columns whose levels were listed."""
    for column in terms_of(designs.schema).formula.response if model.ordered else ():
        if designs.schema.kinds[column] == "text" and column not in given:
            raise InputError(UNORDERED.format(column=column))


def fit_likelihood(model: TableModel, designs: Designs, spec: FitSpec, network: Network, warn: Notify) -> FittedModel:
    """The model of the sites' columns, with its inference. All processes get the same.

    ``warn`` gets the sentences about columns that show single rows.
    """
    classes = designs.schema.classes
    fitted = _fitted(model, designs, spec, network)
    designs = noticed(designs, (*designs.rare, *fitted.shown), warn)
    names, solution = fitted.model.names(designs.names, classes), fitted.solution
    try:
        inference = _inference(fitted, spec, classes, network)
    except FitError as error:
        raise error.named(names) from None
    params = fitted.model.back(fitted.scaling, classes) @ solution.params[: fitted.coefficients]
    events = None
    if fitted.model.labels in ("binary", "survival") and spec.weighting_counts:
        events = round(float(fitted.known.totals[0]))
    message = f"no length of a step leads further after {len(solution.steps) - 1} Newton steps"
    if solution.converged:
        message = f"{len(solution.steps) - 1} Newton steps; the next would be {solution.steps[-1]:.1e} standard errors"
    figures = fitted.model.figures(solution.params, solution.terms)
    survival = fitted.model.survival(solution.terms)
    rows, link = fitted.known.rows, fitted.model.link
    found = Estimated(names, params, inference, solution.steps, message, figures, link, events, rows, survival)
    return _kept(found, solution.converged, fitted.scaling, designs, spec, network)


def fit_random_intercept(designs: Designs, spec: FitSpec, network: Network, warn: Notify) -> FittedModel:
    """A linear model in which every site has a random intercept, by REML.

    With an intercept outcomes are taken around their mean: their squares would lose the digits of the residuals.
    """
    scaling, ready, moments = scaled_designs(designs, network)
    level = np.zeros(len(designs.names))
    if scaling.intercept is not None:
        level[scaling.intercept] = moments[0][len(designs.names)]
        ready = tuple(design._replace(y=design.y - level[scaling.intercept]) for design in ready)
    information, shown = check_design(designs, moments, ready, [d.weight for d in ready], 0.0, network)
    designs = noticed(designs, (*designs.rare, *enforce(network, shown)), warn)
    try:
        found = fit_mixed(ready, network)
    except FitError as error:
        raise error.named(designs.names) from None
    T = scaling.back
    covariance = T @ found.covariance @ T.T
    units = float(np.log(scaling.sd).sum())  # REML depends on the columns' units
    llf, fixed_llf = found.llf - units, found.fixed_llf - units
    inference = Inference(
        tuple(map(tuple, covariance.tolist())), found.rows - len(designs.names), False, found.residual_variance,
        -2.0 * llf, -2.0 * fixed_llf, llf, fixed_llf, 2, vif=tuple(inflation(information, scaling.intercept).tolist()),
    )  # fmt: skip
    figures = VarianceFigures(found.site_variance, found.residual_variance)
    message = f"the restricted likelihood was evaluated {len(found.slopes)} times"
    done = Estimated(
        designs.names, T @ found.b + level, inference, found.slopes, message, figures, "identity", None, found.rows
    )
    return _kept(done, True, scaling, designs, spec, network)


class Estimated(NamedTuple):
    """Coefficients in the columns' own units, and how they were found."""

    names: tuple[str, ...]
    params: Array
    inference: Inference
    steps: tuple[float, ...]
    message: str
    figures: Figures
    link: str | None
    events: int | None
    rows: int
    survival: tuple[tuple[float, float], ...] = ()


def _kept(
    found: Estimated, converged: bool, scaling: Scaling, designs: Designs, spec: FitSpec, network: Network
) -> FittedModel:
    """What is saved."""
    schema = designs.schema
    decisions: dict[str, Any] = {"binary": "sign", "multiclass": "largest"}
    link: Any = found.link
    run = FitRun(
        schema.labels, decisions.get(schema.labels, "number"), link, "newton", None,
        Status.CONVERGED if converged else Status.BUDGET, found.message, network.topology.n_nodes, found.rows,
        len(designs.names), network.size, network.masked,
        LastRecord(residual=found.steps[-1], passes=float(len(found.steps)), rounds=float(network.rounds)),
        {"dsba": __version__, "python": platform.python_version(), "numpy": np.__version__},
    )  # fmt: skip
    sd = _by_name(scaling.sd, len(found.names), 1.0, link)
    table = TableMetadata(
        found.names, sd, replace(schema, spec=spec), network.rounds, designs.notices,
        found.events, None, tuple(enumerate(found.steps)), found.inference, None, None, found.figures,
        found.survival,
    )  # fmt: skip
    return stored(found.params, np.tile(found.params, (run.nodes, 1)), run, table)


def stored(params: Array, gathered: Array, run: FitRun, table: TableMetadata) -> FittedModel:
    """The model with these coefficients, the intercept among them; ``gathered`` has those of every node."""
    at, classes = np.array([name == INTERCEPT for name in table.names]), table.schema.classes
    labels, intercept = None if classes is None else np.array(classes), params[at] if at.any() else np.zeros(1)
    return FittedModel(params[~at][None, :], intercept, gathered, labels, table.schema.spec, run, table=table)


def _by_name(columns: Array, names: int, otherwise: float, link: str | None) -> tuple[float, ...]:
    """A number of every column for every name: classes without an order have the columns each, cuts have none."""
    copies = names // columns.size if link == "softmax" else 1
    return (*np.tile(columns, copies).tolist(), *[otherwise] * (names - copies * columns.size))


def noticed(designs: Designs, shown: Sequence[str], warn: Notify) -> Designs:
    """The designs with notices about columns that show single rows, which ``warn`` gets."""
    for sentence in dict.fromkeys(shown):
        warn(sentence)
    return replace(designs, notices=tuple(dict.fromkeys((*designs.notices, *shown))))


def _fitted(model: TableModel, designs: Designs, spec: FitSpec, network: Network) -> _Fitted:
    scaling, ready, moments = scaled_designs(designs, network, level=not model.intercept)
    weight, *totals = summed(network, np.array([[d.weight.sum(), *model.outcome_sums(d)] for d in ready])).tolist()
    rows = round(weight) if ready[0].repeated else designs.rows
    known = Outcomes(rows, weight, np.array(totals), _level(model, moments[0], spec))
    _require_outcomes(model, known, str(terms_of(designs.schema).formula.left))
    if isinstance(model, Cox):
        model = model.prepared(ready, spec.grid, max(1, designs.schema.limits.rows_per_level), network)
    start = model.start(known, len(designs.names), scaling.intercept)
    first = [model.first_weights(design, start) for design in ready]
    information, shown = check_design(designs, moments, ready, first, 0.0, network)
    watch = ModelWatch.of(designs, model, ready, shown, network)
    try:
        solution = maximised(model, ready, start, network, watch, model.dispersion(known))
    except FitError as error:
        raise error.named(model.names(designs.names, designs.schema.classes)) from None
    vif = inflation(information, scaling.intercept)
    return _Fitted(model, ready, scaling, known, start, solution, vif, (*shown, *watch.complaints))


def _level(model: TableModel, means: Array, spec: FitSpec) -> float:
    """A score for the offsets of all rows, from the pooled mean of what they make of the score 0."""
    if not (spec.offset or spec.exposure):
        return 0.0
    mean = max(float(means[-1 if spec.weights is None else -2]), 1e-300)
    return float(logit(min(mean, 1.0 - np.finfo(float).eps))) if model.labels in CLASSED else math.log(mean)


def _require_outcomes(model: TableModel, known: Outcomes, outcome: str) -> None:
    """An error where the outcomes of all sites leave nothing to fit; ``outcome`` is the left side of the formula."""
    require_weight(known.weight)
    totals = known.totals
    if model.labels in ("count", "positive") and not totals[0] > 0.0:
        raise InputError(f"the outcome {outcome!r} is 0 in all rows: the model needs at least one that is not.")
    if model.labels in ("binary", "counts") and not 0.0 < totals[0] < totals[1]:
        raise InputError(f"all rows that have a weight are of one class of {outcome!r}: the model needs both.")
    if model.labels == "multiclass" and not (totals > 0.0).all():
        raise InputError(f"a class of {outcome!r} has no row that has a weight: leave it out.")
    if model.labels == "survival" and not totals[0] > 0.0:
        raise InputError(f"no row of any site has an event in {outcome!r}: a Cox model needs some.")


# Inference ---------------------------------------------------------------------------------------


def _inference(fitted: _Fitted, spec: FitSpec, classes: Sequence[Any] | None, network: Network) -> Inference:
    model, solution, p = fitted.model, fitted.solution, fitted.coefficients
    rows = fitted.known.rows
    if rows <= p:
        raise InputError(f"{p} coefficients from {rows} rows have no standard errors: more rows are wanted.")
    settled, (null, llnull) = model.settled(solution.params), _null(fitted, spec, network)
    measures = settled.measures(fitted.designs, solution.params[: null.size], null, network)
    if measures is None:
        measures = FitMeasures(-2.0 * solution.terms.llf, -2.0 * llnull, solution.terms.llf, llnull)
    covariance = inverse(solution.terms.expected[:p, :p], p) * measures.scale
    if spec.cov != "classical":
        covariance = _robust(fitted, spec.cov, rows, network)
    T = model.back(fitted.scaling, classes)
    covariance = T @ (0.5 * (covariance + covariance.T)) @ T.T
    likelihoods: tuple[float | None, float | None] = (measures.llf, measures.llnull)
    if not model.likelihood or spec.weight_kind == SAMPLING:
        likelihoods = (None, None)
    counted_rows = int(fitted.known.totals[0]) if model.labels == "survival" else None
    return Inference(
        tuple(map(tuple, covariance.tolist())), rows - p, model.dispersed, measures.scale, measures.deviance,
        measures.null_deviance, *likelihoods, model.extra, counted_rows, measures.pearson_chi2,
        _by_name(fitted.vif, p, 0.0, model.link),
    )  # fmt: skip


def _null(fitted: _Fitted, spec: FitSpec, network: Network) -> tuple[Array, float]:
    """The model of the intercept alone, and its log-likelihood; with an offset it must be fitted."""
    settled, at = fitted.model.settled(fitted.solution.params), fitted.scaling.intercept
    closed = fitted.start[: fitted.start.size - fitted.model.nuisance + settled.nuisance]
    if not (spec.offset or spec.exposure) or (at is None and fitted.model.intercept):
        return closed, fitted.solution.first
    some = [] if at is None else [at]
    reduced = [design._replace(X=design.X[:, some]) for design in fitted.designs]
    first = settled.start(fitted.known, len(some), None if at is None else 0)
    if not first.size:
        return closed, fitted.solution.first
    found, terms, *_ = maximised(settled, reduced, first, network, dispersion=settled.dispersion(fitted.known))
    null = np.zeros_like(closed)
    null[some], null[fitted.columns :] = found[: len(some)], found[len(some) :]
    return null, terms.llf


def _robust(fitted: _Fitted, cov: str, n: int, network: Network) -> Array:
    model, params, p = fitted.model, fitted.solution.params, fitted.coefficients
    scores = [rows[:, :p] for rows in model.row_scores(fitted.designs, params, fitted.solution.terms)]
    if cov in LEVERAGED:
        scores = _leveraged(fitted, scores, cov, network)
    scores = [clustered_scores(design, rows, cov) for design, rows in zip(fitted.designs, scores, strict=True)]
    upper = np.triu_indices(p)
    own = [
        [len(rows) * (len(d.y) > 0), *(rows.T @ rows)[upper]] for d, rows in zip(fitted.designs, scores, strict=True)
    ]
    groups, *products = summed(network, np.array(own, np.float64))
    if cov in CLUSTERED and groups < 2:
        raise InputError(f"standard errors clustered by {cov} need at least two {cov}s with rows.")
    bread = inverse(fitted.solution.terms.observed[:p, :p], p)
    factor = n / (n - p) if cov == "HC1" else 1.0
    if cov in CLUSTERED and model.labels != "survival":  # R's coxph has no factor
        factor = groups / max(groups - 1.0, 1.0) * (n - 1) / (n - p)
    return bread @ symmetric(np.array(products), p) @ bread * factor


def _leveraged(fitted: _Fitted, scores: Sequence[Array], cov: str, network: Network) -> list[Array]:
    """The scores of the rows here, divided by powers of 1 - h."""
    model, params, p = fitted.model, fitted.solution.params, fitted.coefficients
    middle = inverse(fitted.solution.terms.expected[:p, :p], p)
    left = [
        1.0 - model.row_weights(d, params)[:, 0] / d.counts * np.einsum("ij,jk,ik->i", d.X, middle, d.X)
        for d in fitted.designs
    ]
    (alone,) = summed(network, np.array([[np.count_nonzero(one <= LEAST_LEFT)] for one in left], np.float64))
    if alone:
        raise InputError(NO_LEVERAGED.format(cov=cov))
    powers = [one ** (-0.5 * LEVERAGED[cov]) for one in left]
    return [rows * power[:, None] for rows, power in zip(scores, powers, strict=True)]
