"""One model with standard errors from tables at several sites: ``dsba.fit``, and ``dsba train`` on CSV or Parquet."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dsba import operators
from dsba.data.table_files import TableFile
from dsba.engine.run import Status
from dsba.errors import FitError, InputError
from dsba.fitting import not_converged
from dsba.fitting.disclosure import Guards
from dsba.fitting.fit import Fit, carried_out
from dsba.fitting.fit import fit as fit_rows
from dsba.fitting.model import FittedModel, TableMetadata
from dsba.fitting.rows import RowTotals, as_rows, weighted_squares
from dsba.fitting.spec import FOR_ARRAYS, OPTIONS, FitSpec, describe_options
from dsba.network import Network, Simulator, counted, require_agreement
from dsba.operators import Operator
from dsba.tables import schema_report
from dsba.tables.design import INTERCEPT, Designs, as_sites, design_tables, held_out
from dsba.tables.evaluation import Evaluation, evaluate, sentences
from dsba.tables.inference import NEAR, Inferred, PooledOutcome, Sample, as_tuples, infer, null_parts, require_events
from dsba.tables.results import Results
from dsba.tables.scaling import Scaling, pooled_moments, scaling_by
from dsba.tables.schema import end_together, share_unless, speak
from dsba.tables.terms import ModelTerms, SiteTable, absent_column, stated, terms_of
from dsba.types import Array

PENALTY = "A penalty shrinks the coefficients, so that the usual standard errors are not valid: none are given."
UNFINISHED = "The fit ended before its solution was reached, so that it has no standard errors."
EXACT = (
    "The columns give the outcome exactly, or so nearly that rounding would decide the standard errors: none are given."
)
NO_LIKELIHOOD = "The loss is not a likelihood, so that it gives no standard errors."


def fit(
    table: Any, formula: str | None = None, operator: str | Operator = "logistic", *, sites: str | None = None,
    **options: Any,
) -> Results:  # fmt: skip
    """Fit a model to a table whose rows are at several sites; only sums leave a site.

    Parameters
    ----------
    table
        A pandas frame, or a list or dict of frames, one for each site.
    sites
        The column of a single frame that names the site of each row.
    """
    if isinstance(table, str):
        raise InputError("dsba.fit takes the table first and the formula second, got a text in the table's place.")
    held, spec = as_sites(table, sites), FitSpec(formula=formula, operator=operator, **options)
    if not spec.of_tables:
        raise InputError("dsba.fit needs a formula, or a target with features or all_features.")
    spec = stated(spec, {name: [c for c in frame.columns if c != sites] for name, frame in held})
    rare: list[str] = []
    results = fit_sites(held, spec, Simulator(spec.topology(len(held))), warn=rare.append)
    for sentence in rare:
        warnings.warn(f"Between owners this would be refused: {sentence}", stacklevel=2)
    if results.unfinished and results.model.run.status is not Status.INTERRUPTED:
        not_converged.warn(results.unfinished, stacklevel=2)
    return results


describe_options(fit, [name for name, one in OPTIONS.items() if one.data != FOR_ARRAYS])


def load(folder: str | Path) -> Results:
    """A fit that ``Results.save`` or ``dsba train`` wrote."""
    return Results.load(folder)


def train(
    files: Sequence[Path],
    spec: FitSpec,
    *,
    network: Network | None = None,
    tell: Callable[[str], object] = lambda sentence: None,
    **options: Any,
) -> Results:
    """One site per file, in order, named after it. On a network this process opens the files of its own nodes only.

    Parameters
    ----------
    tell
        Called with sentences for people.
    options
        Those of ``fit_sites``.
    """
    if network is None:
        network = Simulator(spec.topology(len(files)))
    return train_own(_own_files(files, network), spec, network, tell=tell, **options)


def train_own(
    own: dict[str, TableFile], spec: FitSpec, network: Network, *, tell: Callable[[str], object], **options: Any
) -> Results:
    """The same for the files of this process's own nodes, by the names of their sites."""
    network.reset()
    headers = {name: table.names for name, table in own.items()}
    spec = _agreed_formula(spec, headers, network)
    sites = [SiteTable(name, _read(table, ModelTerms.of(spec))) for name, table in own.items()]
    results = fit_sites(sites, spec, network, tell=tell, **options)
    if results.test is not None:
        tell(sentences("Held-out rows of all sites", results.test))
    return results


def evaluate_files(results: Results, files: Sequence[Path], network: Network, guards: Guards) -> Evaluation:
    """Evaluate a model on tables, one site per file; this process opens the files of its own nodes only."""
    require_agreement(network, {"model": results.digest()})
    sites = []
    for name, table in _own_files(files, network).items():
        sites.append(SiteTable(name, _read(table, results.needed)))
    enough = [guards.too_few_rows(name, len(frame)) for name, frame in sites]
    speak(network, [guards.too_few_sites(len(files)), *enough])
    return evaluate(results, sites, network)


def _own_files(files: Sequence[Path], network: Network) -> dict[str, TableFile]:
    """The files of this process's nodes, by the names of their sites."""
    if len(files) != network.topology.n_nodes:
        nodes = network.topology.n_nodes
        raise InputError(f"the graph has {nodes} nodes, and {len(files)} files are given: one for each.")
    own = {files[n].name.partition(".")[0]: files[n] for n in network.nodes}
    if len(own) < len(network.nodes):
        raise InputError("two files have the same name, and sites are named after their files: rename one.")
    return {name: TableFile(file) for name, file in own.items()}


def _read(table: TableFile, terms: ModelTerms) -> Any:
    """The columns of the model, and no others."""
    return table.read([name for name in terms.columns if name in table.names], codes=terms.formula.factors)


def _agreed_formula(spec: FitSpec, headers: dict[str, list[str]], network: Network) -> FitSpec:
    """The specification with its formula. All processes must have been given the same, and have its columns."""
    complaint = None if spec.all_features else absent_column(headers, ModelTerms.of(stated(spec, headers)))
    told = [[spec.formula, spec.target, spec.features], headers if spec.all_features else {}]
    everyone = share_unless(network, complaint, told, tuple[list[Any], dict[str, list[str]]])
    if any(theirs != everyone[0][0] for theirs, _ in everyone):
        raise InputError("the processes were given different formulas, targets or features.")
    return stated(spec, {name: header for _, process in everyone for name, header in process.items()})


def fit_sites(
    sites: Sequence[SiteTable],
    spec: FitSpec,
    network: Network,
    *,
    tell: Callable[[str], object] = lambda sentence: None,
    warn: Callable[[str], object] = lambda sentence: None,
    **options: Any,
) -> Results:
    """Agree, scale, fit and infer; ``sites`` are those of the network's nodes here. All processes get the results.

    Where a share of each site's rows is held out, the model is evaluated on these. ``tell`` gets lines for people: what
    the sites agreed on, before anything is learned. ``warn`` gets those of them about columns that show single rows.
    ``options`` are those of ``dsba.fitting.fit``.
    """
    component, terms = operators.get(spec.operator), ModelTerms.of(spec)
    _require_usable(component, terms)
    kept, tests = _split(sites, terms, network)
    designs = design_tables(kept, terms, network, spec.guards)
    for line in schema_report.told(designs):
        tell(line)
    for sentence in designs.rare:
        warn(sentence)
    columns = _scaled(designs, component, network)
    if component.family is not None:
        require_events(component.family, float(columns.size.mean or 0.0))
    spec = replace(designs.schema.spec, intercept=columns.scaling.intercept is not None)
    done = _fitted(columns, component, spec, network, {**options, "tell": tell})
    coefficients = columns.assembled(done)
    found, why = _inferred(columns, coefficients, component, spec, network)
    rounds = done.rounds_before + network.rounds
    about = _metadata(designs, columns, done, found, why, rounds)
    results = Results(_model(done, spec, columns, coefficients, about))
    return results.tested(evaluate(results, tests, network).pooled) if tests else results


def _split(sites: Sequence[SiteTable], terms: ModelTerms, network: Network) -> tuple[list[SiteTable], list[SiteTable]]:
    """The rows to fit to and those held out, if any. Rows without an outcome are not held out."""
    share = terms.spec.test_share
    if not share:
        return list(sites), []
    end_together(network, absent_column({name: list(map(str, frame.columns)) for name, frame in sites}, terms))
    kept, tests = [], []
    for node, (name, frame) in zip(network.nodes, sites, strict=True):
        known = np.flatnonzero(frame[list(terms.formula.response)].notna().all(axis=1))
        labels = frame[terms.formula.response[0]].iloc[known]
        strata: npt.NDArray[Any] = np.zeros(len(known))
        if terms.labels == "binary":
            strata = np.unique(labels.astype(str), return_inverse=True)[1]
        out = np.zeros(len(frame), bool)
        out[known[held_out(strata, share, terms.spec.seed, node)]] = True
        kept.append(SiteTable(name, frame.loc[~out].reset_index(drop=True)))
        tests.append(SiteTable(name, frame.loc[out].reset_index(drop=True)))
    (held,) = counted(network, np.array([[float(len(test.frame))] for test in tests]))
    if not held:  # better said before the fit than after it
        raise InputError(f"a test share of {share:g} is not one row at any site: nothing is held out.")
    return kept, tests


def _inferred(
    columns: ScaledColumns, coefficients: Array, component: Operator, spec: FitSpec, network: Network
) -> tuple[Inferred | None, str | None]:
    """The inference at the coefficients, or the sentence that says why there is none."""
    size, family = columns.size, component.family
    pooled = PooledOutcome(float(size.mean or 0.0), size.weight / size.rows / columns.exposure)
    if spec.lam or family is None:
        return None, PENALTY if spec.lam else NO_LIKELIHOOD
    try:
        found = infer(columns.samples, coefficients, family, spec.cov, pooled, network)
    except FitError as error:
        raise error.named(columns.names) from None
    if found is None:
        return None, EXACT
    return (found, None) if found.left <= NEAR else (None, UNFINISHED)


def _require_usable(component: Operator, terms: ModelTerms) -> None:
    name = type(component).__name__
    if component.labels == "multiclass" or component.extra or component.ranks:
        raise InputError(f"a table's model has one coefficient for each column, and {name} has others.")
    shifts = component.family is not None and component.link in ("identity", "log")
    if (terms.spec.offset or terms.spec.exposure) and not shifts:
        raise InputError(f"offsets and exposures are for Poisson and linear models, not for {name}.")


class ScaledColumns(NamedTuple):
    """The sites' rows in scaled columns, the intercept's among them."""

    names: tuple[str, ...]
    scaling: Scaling
    samples: tuple[Sample, ...]
    size: RowTotals
    exposure: float
    """How much the factors exp(offset) of a log link raise the mean weight of a row."""
    alike: bool
    """Whether columns are centred and rows weigh the same: their squares then add up to what ``size`` says."""

    @property
    def others(self) -> list[int]:
        """All columns but the intercept's."""
        return [j for j in range(len(self.names)) if j != self.scaling.intercept]

    def assembled(self, done: Fit) -> Array:
        """The coefficients of the scaled columns in the order of the names."""
        weights, intercepts = done.mean
        coefficients = np.zeros(len(self.names))
        coefficients[self.others] = weights[0]
        if self.scaling.intercept is not None:
            coefficients[self.scaling.intercept] = intercepts[0]
        return coefficients


def _scaled(designs: Designs, component: Operator, network: Network) -> ScaledColumns:
    """The columns by their pooled means and standard deviations; the mean of the outcomes comes by the same sums."""
    intercept = designs.names.index(INTERCEPT) if INTERCEPT in designs.names else None
    raw = [Sample(d.X, np.asarray(d.y, dtype=np.float64), d.weight, d.offset) for d in designs.designs]
    parts = [null_parts(sample, component.family or "gaussian") for sample in raw]
    wide = [np.column_stack([sample.X, *both, sample.weight]) for sample, both in zip(raw, parts, strict=True)]
    mean, sd = pooled_moments(wide, network, [j for j in range(len(designs.names)) if j != intercept])
    outcome, weight, own = mean[-3:].tolist()
    if not weight > 0.0:
        raise InputError("all sample weights are zero: there is nothing to learn from.")
    scaling = scaling_by(mean[:-3], sd[:-3], intercept)
    weights, classes = designs.rows * weight, designs.schema.classes
    codes = None if classes is None else tuple(range(len(classes)))
    size = RowTotals(designs.rows, weights, weights * len(designs.names), outcome / weight, codes)
    samples = tuple(sample._replace(X=scaling.scaled(sample.X)) for sample in raw)
    alike = intercept is not None and not terms_of(designs.schema).extras
    return ScaledColumns(designs.names, scaling, samples, size, weight / own, alike)


def _fitted(
    columns: ScaledColumns, component: Operator, spec: FitSpec, network: Network, options: dict[str, Any]
) -> Fit:
    """An offset becomes a part of labels and weights: exp(u + o) - y u = e^o (exp(u) - y e^-o u).

    The problem divides by the sum of its weights, and lambda belongs to a sum divided by the weights of the rows.
    """
    X = np.concatenate([sample.X[:, columns.others] for sample in columns.samples])
    y, weight, offset = (np.concatenate([sample[k] for sample in columns.samples]) for k in (1, 2, 3))
    if component.link == "log":
        weight, y = weight * np.exp(offset), y * np.exp(-offset)
    elif component.link == "identity":
        y = y - offset
    nodes = np.repeat(np.arange(len(columns.samples)), [len(sample.y) for sample in columns.samples])
    if spec.lam:
        spec = replace(spec, lam=spec.lam / columns.exposure)
    rows, size = as_rows(X, y, weight, nodes), columns.size
    if not columns.alike:
        size = size._replace(squared_norms=weighted_squares(rows, network))
    try:
        return fit_rows(rows, spec, size=size, network=network, **options)
    except FitError as error:
        raise error.named([*(columns.names[j] for j in columns.others), INTERCEPT]) from None


def _metadata(
    designs: Designs, columns: ScaledColumns, done: Fit, found: Inferred | None, why: str | None, rounds: int
) -> TableMetadata:
    inference = None
    if found is not None:
        covariance = columns.scaling.unscaled_covariance(np.array(found.inference.covariance))
        inference = replace(found.inference, covariance=as_tuples(covariance))
    return TableMetadata(
        columns.names, tuple(columns.scaling.sd.tolist()), designs.schema, rounds, designs.told,
        _events(designs, columns), found and found.calibration, _convergence(done), inference, why,
    )  # fmt: skip


def _model(done: Fit, spec: FitSpec, columns: ScaledColumns, coefficients: Array, table: TableMetadata) -> FittedModel:
    """The coefficients of the columns in their own units."""
    params = columns.scaling.unscaled(coefficients)
    constant = [params[columns.scaling.intercept] if columns.scaling.intercept is not None else 0.0]
    classes = None if table.schema.classes is None else np.array(table.schema.classes)
    spec, run = carried_out(done, spec, spec.lam or 0.0)
    table = replace(table, schema=replace(table.schema, spec=spec))
    return FittedModel(
        params[columns.others][None, :], np.array(constant), done.gathered, classes, spec, run, table=table
    )


def _events(designs: Designs, columns: ScaledColumns) -> int | None:
    """The rows of the second class, from the pooled mean of the outcomes."""
    if designs.schema.classes is None or designs.schema.spec.weights is not None:
        return None
    return round(designs.rows * float(columns.size.mean or 0.0))


def _convergence(done: Fit) -> tuple[tuple[float, float], ...]:
    """Rounds and residuals, at no more than a hundred record points."""
    history = done.result.history
    points = list(zip(history["rounds"].tolist(), history["residual"].tolist(), strict=True))
    return (*points[: -1 : max(1, len(points) // 100)], points[-1])
