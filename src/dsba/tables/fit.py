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
from dsba.errors import FitError, InputError, as_number, unknown_name
from dsba.fitting import not_converged
from dsba.fitting.fit import Fit, run_facts
from dsba.fitting.fit import fit as fit_rows
from dsba.fitting.model import Model
from dsba.fitting.rows import RowTotals, as_rows, weighted_squares
from dsba.fitting.spec import OF_TABLES, Settings
from dsba.network import Network, Simulator, counted, require_agreement
from dsba.operators import Operator
from dsba.tables import schema_report
from dsba.tables.design import INTERCEPT, Designs, as_sites, design_tables, held_out
from dsba.tables.disclosure import Guards
from dsba.tables.evaluation import Evaluation, evaluate, sentences
from dsba.tables.formula import Formula, from_columns, parse
from dsba.tables.inference import COVARIANCES, NEAR, Inference, PooledOutcome, Sample, infer, null_parts, require_events
from dsba.tables.results import Results
from dsba.tables.scaling import Scaling, pooled_moments, scaling_by
from dsba.tables.schema import Levels, SiteTable, Wishes, absent_column, end_together, share_unless, speak
from dsba.types import Array, Level

PENALTY = "A penalty shrinks the coefficients, so that the usual standard errors are not valid: none are given."
UNFINISHED = "The fit ended before its solution was reached, so that it has no standard errors."
EXACT = (
    "The columns give the outcome exactly, or so nearly that rounding would decide the standard errors: none are given."
)
NO_LIKELIHOOD = "The loss is not a likelihood, so that it gives no standard errors."


def fit(
    table: Any,
    formula: str,
    operator: str | Operator = "logistic",
    *,
    sites: str | None = None,
    lam: float = 0.0,
    missing: str = "error",
    cov: str = "classical",
    weights: str | None = None,
    offset: str | None = None,
    graph: Any = "random",
    algorithm: str = "auto",
    max_passes: float = OF_TABLES["max_passes"],
    test_share: float = 0.0,
    event: Level | None = None,
    levels: Levels | None = None,
) -> Results:
    """Fit a model to a table whose rows are at several sites; only sums leave a site.

    Parameters
    ----------
    table
        A pandas frame, or a list or dict of frames, one for each site.
    formula
        Such as "outcome ~ age + C(sex) + log(crp)".
    operator
        "logistic", "poisson", "linear", ...
    sites
        The column of a single frame that names the site of each row.
    lam
        The penalty on the coefficients of columns that are scaled to standard deviation 1.
    missing
        "error", "drop", "mean" or "indicator".
    cov
        "classical", "HC0", "HC1" or "site" (clustered by site).
    weights
        The column that has the rows' weights; rows of weight 0 are left out.
    offset
        A column that is added to the scores (Poisson and linear models).
    graph
        Who talks to whom, whatever ``Topology.of`` takes.
    algorithm
        "auto" is "newton" for all but very many columns (``dsba.algorithms.planner``).
    max_passes
        Passes over the data, at most; a fit that ends there warns.
    test_share
        The share of each site's rows (of classes: of each class) that is held out; ``fit.test`` has the
        measures of these rows.
    event
        Which of the two labels of the outcome is modelled; None is the second one in sorted order.
    levels
        All levels of columns in order, such as {"sex": ["m", "f"]}; the first is the reference level.
        Levels of other factors are sorted.
    """
    held = as_sites(table, sites)
    component = operators.get(operator)
    extras: dict[str, Any] = {"weights": weights, "offset": offset, "test_share": test_share}
    wishes = Wishes(parse(formula), component.labels, missing, event=event, levels=levels or {}, **extras)
    chosen = {"lam": as_number("lam", lam, at_least=0.0), "algorithm": algorithm, "max_passes": max_passes}
    settings = Settings(operator, graph=graph, **OF_TABLES | chosen)
    network = Simulator(settings.topology(len(held)))
    rare: list[str] = []
    results = fit_sites(held, wishes, settings, network, cov=cov, warn=rare.append)
    for sentence in rare:
        warnings.warn(f"Between owners this would be refused: {sentence}", stacklevel=2)
    if results.unfinished and results.model.facts["status"] != "interrupted":
        not_converged.warn(results.unfinished, stacklevel=2)
    return results


def load(folder: str | Path) -> Results:
    """A fit that ``Results.save`` or ``dsba train`` wrote."""
    return Results.load(folder)


class ModelTerms(NamedTuple):
    """What to make of table files: a formula, or a target and its features (None: all other columns)."""

    formula: str | None = None
    target: str | None = None
    features: tuple[str, ...] | None = None


def train(
    files: Sequence[Path],
    plan: ModelTerms,
    settings: Settings,
    *,
    wishes: dict[str, Any],
    network: Network | None = None,
    tell: Callable[[str], object] = lambda sentence: None,
    **options: Any,
) -> Results:
    """One site per file, in order, named after it. On a network this process opens the files of its own nodes only.

    Parameters
    ----------
    wishes
        Fields of ``dsba.tables.schema.Wishes`` beside the formula and the labels.
    tell
        Called with sentences for people.
    options
        Those of ``fit_sites``.
    """
    if network is None:
        network = Simulator(settings.topology(len(files)))
    own = _own_files(files, network)
    return train_own(own, plan, settings, network, wishes=wishes, tell=tell, **options)


def train_own(
    own: dict[str, TableFile],
    plan: ModelTerms,
    settings: Settings,
    network: Network,
    *,
    wishes: dict[str, Any],
    tell: Callable[[str], object],
    **options: Any,
) -> Results:
    """The same for the files of this process's own nodes, by the names of their sites."""
    network.reset()
    headers = {name: table.names for name, table in own.items()}
    others = {"labels": operators.get(settings.operator).labels, **wishes}
    wanted = Wishes(_agreed_formula(plan, headers, others, network), **others)
    sites = [SiteTable(name, _read(table, wanted)) for name, table in own.items()]
    results = fit_sites(sites, wanted, settings, network, tell=tell, **options)
    if results.test is not None:
        tell(sentences("Held-out rows of all sites", results.test))
    return results


def evaluate_files(results: Results, files: Sequence[Path], network: Network, guards: Guards) -> Evaluation:
    """Evaluate a model on tables, one site per file; this process opens the files of its own nodes only."""
    require_agreement(network, {"model": results.digest()})
    wanted = results.schema.wishes
    sites = []
    for name, table in _own_files(files, network).items():
        sites.append(SiteTable(name, _read(table, replace(wanted, weights=None))))
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


def _read(table: TableFile, wishes: Wishes) -> Any:
    """The columns of the model, and no others."""
    return table.read([name for name in wishes.columns if name in table.names], codes=wishes.formula.factors)


def _agreed_formula(
    plan: ModelTerms, headers: dict[str, list[str]], others: dict[str, Any], network: Network
) -> Formula:
    """The formula that all processes were given; all features are the columns that the first file has, in its order."""
    formula = None
    if plan.formula is not None:
        formula = parse(plan.formula)
    elif plan.features is not None:
        formula = from_columns(plan.target, plan.features)
    complaint = None if formula is None else absent_column(headers, Wishes(formula, **others))
    told = [[plan.formula, plan.target, plan.features], headers if formula is None else {}]
    everyone = share_unless(network, complaint, told, tuple[list[Any], dict[str, list[str]]])
    if any(theirs != everyone[0][0] for theirs, _ in everyone):
        raise InputError("the processes were given different formulas, targets or features.")
    return formula or _all_features(plan, {k: v for _, process in everyone for k, v in process.items()}, others)


def _all_features(plan: ModelTerms, headers: dict[str, list[str]], others: dict[str, Any]) -> Formula:
    site, first = next(iter(headers.items()))
    for other, header in headers.items():
        if odd := sorted(set(first) ^ set(header)):
            raise InputError(
                f"the column {odd[0]!r} is in only one of the tables {site} and {other}: name the features."
            )
    taken = {plan.target, others["weights"], others["offset"], others["exposure"]}
    return from_columns(plan.target, [name for name in first if name not in taken])


def fit_sites(
    sites: Sequence[SiteTable],
    wishes: Wishes,
    settings: Settings,
    network: Network,
    *,
    cov: str = "classical",
    guards: Guards | None = None,
    tell: Callable[[str], object] = lambda sentence: None,
    warn: Callable[[str], object] = lambda sentence: None,
    **options: Any,
) -> Results:
    """Agree, scale, fit and infer; ``sites`` are those of the network's nodes here. All processes get the results.

    Where a share of each site's rows is held out, the model is evaluated on these. ``tell`` gets lines for people: what
    the sites agreed on, before anything is learned. ``warn`` gets those of them about columns that show single rows.
    ``options`` are those of ``dsba.fitting.fit``.
    """
    if cov not in COVARIANCES:
        raise unknown_name("cov", cov, COVARIANCES)
    component, guards = operators.get(settings.operator), guards or Guards()
    _require_usable(component, wishes)
    kept, tests = _split(sites, wishes, settings.seed, network)
    designs = design_tables(kept, wishes, network, guards)
    for line in schema_report.told(designs):
        tell(line)
    for sentence in designs.rare:
        warn(sentence)
    columns = _scaled(designs, component, network)
    if component.family is not None:
        require_events(component.family, float(columns.size.mean or 0.0))
    settings = replace(settings, intercept=columns.scaling.intercept is not None)
    done = _fitted(columns, component, settings, network, {**options, "tell": tell})
    coefficients = columns.assembled(done)
    inference, why = _inferred(columns, coefficients, component, settings, cov, network)
    known = _Known(cov, inference, why, done.rounds_before + network.rounds)
    results = _results(done, settings, designs, columns, coefficients, known)
    return results.tested(evaluate(results, tests, network).pooled) if tests else results


def _split(
    sites: Sequence[SiteTable], wishes: Wishes, seed: int, network: Network
) -> tuple[list[SiteTable], list[SiteTable]]:
    """The rows to fit to and those held out, if any. Rows without an outcome are not held out."""
    if not wishes.test_share:
        return list(sites), []
    end_together(network, absent_column({name: list(map(str, frame.columns)) for name, frame in sites}, wishes))
    kept, tests = [], []
    for node, (name, frame) in zip(network.nodes, sites, strict=True):
        known = np.flatnonzero(frame[list(wishes.formula.response)].notna().all(axis=1))
        labels = frame[wishes.formula.response[0]].iloc[known]
        strata: npt.NDArray[Any] = np.zeros(len(known))
        if wishes.labels == "binary":
            strata = np.unique(labels.astype(str), return_inverse=True)[1]
        out = np.zeros(len(frame), bool)
        out[known[held_out(strata, wishes.test_share, seed, node)]] = True
        kept.append(SiteTable(name, frame.loc[~out].reset_index(drop=True)))
        tests.append(SiteTable(name, frame.loc[out].reset_index(drop=True)))
    (held,) = counted(network, np.array([[float(len(test.frame))] for test in tests]))
    if not held:  # better said before the fit than after it
        raise InputError(f"a test share of {wishes.test_share:g} is not one row at any site: nothing is held out.")
    return kept, tests


def _inferred(
    columns: ScaledColumns, coefficients: Array, component: Operator, settings: Settings, cov: str, network: Network
) -> tuple[Inference | None, str | None]:
    """The inference at the coefficients, or the sentence that says why there is none."""
    size, family = columns.size, component.family
    pooled = PooledOutcome(float(size.mean or 0.0), size.weight / size.rows / columns.exposure)
    if settings.lam or family is None:
        return None, PENALTY if settings.lam else NO_LIKELIHOOD
    try:
        found = infer(columns.samples, coefficients, family, cov, pooled, network)
    except FitError as error:
        raise error.named(columns.names) from None
    if found is None:
        return None, EXACT
    return (found, None) if found.left <= NEAR else (None, UNFINISHED)


def _require_usable(component: Operator, wishes: Wishes) -> None:
    name = type(component).__name__
    if component.labels == "multiclass" or component.extra or component.ranks:
        raise InputError(f"a table's model has one coefficient for each column, and {name} has others.")
    shifts = component.family is not None and component.link in ("identity", "log")
    if (wishes.offset or wishes.exposure) and not shifts:
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
    alike = intercept is not None and not designs.schema.wishes.extras
    return ScaledColumns(designs.names, scaling, samples, size, weight / own, alike)


def _fitted(
    columns: ScaledColumns, component: Operator, settings: Settings, network: Network, options: dict[str, Any]
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
    if settings.lam:
        settings = replace(settings, lam=settings.lam / columns.exposure)
    rows, size = as_rows(X, y, weight, nodes), columns.size
    if not columns.alike:
        size = size._replace(squared_norms=weighted_squares(rows, network))
    try:
        return fit_rows(rows, settings, size=size, network=network, **options)
    except FitError as error:
        raise error.named([*(columns.names[j] for j in columns.others), INTERCEPT]) from None


class _Known(NamedTuple):
    cov: str
    inference: Inference | None
    why_none: str | None
    rounds: int


def _results(
    done: Fit, settings: Settings, designs: Designs, columns: ScaledColumns, coefficients: Array, known: _Known
) -> Results:
    inference, left_out = None, ("rows", "left", "calibration")
    if known.inference is not None:
        inference = {name: value for name, value in vars(known.inference).items() if name not in left_out}
        inference["covariance"] = columns.scaling.unscaled_covariance(known.inference.covariance).tolist()
    table = {
        "names": list(columns.names),
        "sd": columns.scaling.sd.tolist(),
        "schema_": designs.schema.facts(),
        "cov": known.cov,
        "rounds": known.rounds,
        "told": list(designs.told),
        "events": _events(designs, columns),
        "calibration": known.inference and known.inference.calibration,
        "convergence": _convergence(done),
        "test": None,
        "inference": inference,
        "why_none": known.why_none,
    }
    params = columns.scaling.unscaled(coefficients)
    constant = [params[columns.scaling.intercept] if columns.scaling.intercept is not None else 0.0]
    classes = None if designs.schema.classes is None else np.array(designs.schema.classes)
    facts = {**run_facts(done, settings), "lam": settings.lam, "table": table}
    return Results(Model(params[columns.others][None, :], np.array(constant), done.gathered, classes, facts))


def _events(designs: Designs, columns: ScaledColumns) -> int | None:
    """The rows of the second class, from the pooled mean of the outcomes."""
    if designs.schema.classes is None or designs.schema.wishes.weights is not None:
        return None
    return round(designs.rows * float(columns.size.mean or 0.0))


def _convergence(done: Fit) -> list[list[float]]:
    """Rounds and residuals, at no more than a hundred record points."""
    history = done.result.history
    every = max(1, len(history) // 100)
    points = np.column_stack([history["rounds"], history["residual"]])
    return [*points[:-1:every].tolist(), points[-1].tolist()]
