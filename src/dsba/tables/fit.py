"""One model with standard errors from tables at several sites: ``dsba.fit``, and ``dsba train`` on tables."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dsba import operators
from dsba.data.sources import TableSource
from dsba.data.table_files import Table, open_table
from dsba.engine.run import Status
from dsba.errors import FitError, InputError
from dsba.fitting import not_converged
from dsba.fitting.disclosure import Guards
from dsba.fitting.fit import Fit, carried_out, fit_rows
from dsba.fitting.model import FittedModel, Schema, TableMetadata
from dsba.fitting.rows import Rows, RowTotals, as_rows, weighted_squares
from dsba.fitting.spec import CLASSICAL, FOR_ARRAYS, OPTIONS, SAMPLING, FitSpec, describe_options
from dsba.network import Group, Network, Simulator, counted, require_agreement
from dsba.network.contract import SITE_TOTALS
from dsba.operators import Operator
from dsba.tables import likelihood, schema_report
from dsba.tables.columns import INTERCEPT, States, references_of
from dsba.tables.describe import describe_sites
from dsba.tables.description import Description
from dsba.tables.design import Designs, design_tables, held_out
from dsba.tables.disclosure import RowWatch, StepWatch, base_weights, check_design
from dsba.tables.evaluation import Evaluation, evaluate, evaluated_rows, sentences
from dsba.tables.expected_cost import expected_cost
from dsba.tables.families import require_events
from dsba.tables.formula import Contrast, parse
from dsba.tables.inference import NO_LIKELIHOOD, PENALTY, Inferred, infer, inflation
from dsba.tables.inputs import columns_of, distinct, stated_sites
from dsba.tables.meta import SiteEstimates
from dsba.tables.results import Results
from dsba.tables.scaling import ScaledColumns, orthogonal, scaled
from dsba.tables.schema import MERGED_LEVEL, MISSING_LEVEL, end_together, enforce, share_unless, shared, usable_rows
from dsba.tables.signs import marked_numbers, signs_of
from dsba.tables.terms import SITE, ModelTerms, SiteTable, absent_column, stated, terms_of
from dsba.types import Array, Flags, Level, Notify

SiteFiles = Sequence[Path | TableSource]  # one for each site
OWN_HIDDEN = "its own rows do not determine the model, or a guard does not let it show them."


def fit(
    table: Any, formula: str | None = None, operator: str | Operator = "logistic", *, sites: str | None = None,
    **options: Any,
) -> Results:  # fmt: skip
    """Fit a model to a table whose rows are at several sites; only sums leave a site.

    Parameters
    ----------
    table : pandas.DataFrame, path or URL, or list or dict of them
        One table with the rows of all sites, or one for each site: frames, files, or databases by their URLs, of
        which only the columns of the model are read. ``dsba.table_source`` says how a file is to be read.
    sites : str or None
        The column of a single table that names the site of each row.

    Returns
    -------
    Results
        Coefficients, standard errors, tests, predictions, and the schema.

    Raises
    ------
    InputError
        If the table does not fit the formula, or an option is not usable.
    FitError
        If the data does not determine the coefficients.

    Examples
    --------
    >>> import dsba, pandas as pd
    >>> table = pd.DataFrame({"dose": [0, 1, 2, 3] * 9, "effect": [0, 2, 5, 6, 1, 3, 4, 7, 1, 1, 4, 6] * 3})
    >>> dsba.fit(table, "effect ~ dose", "linear").params.round(2).to_dict()
    {'Intercept': 0.43, 'dose': 1.93}
    """
    if isinstance(table, str) and not isinstance(formula, str | None):
        raise InputError("dsba.fit takes the table first and the formula second, got a text in the table's place.")
    spec = FitSpec(formula=formula, operator=operator, **options)
    if not spec.of_tables:
        raise InputError("dsba.fit needs a formula, or a target with features or all_features.")
    held, spec = stated_sites(table, sites, spec)
    rare: list[str] = []
    signs: list[str] = []
    results = fit_sites(held, spec, Simulator(spec.topology(len(held))), warn=rare.append, look=signs.append)
    for sign in signs:
        warnings.warn(f"Look at this: {sign}", stacklevel=2)
    for sentence in rare:
        warnings.warn(f"Between owners this would be refused: {sentence}", stacklevel=2)
    if results.not_converged and results.model.run.status is not Status.INTERRUPTED:
        not_converged.warn(results.not_converged, stacklevel=2)
    return results


describe_options(fit, [name for name, one in OPTIONS.items() if one.data != FOR_ARRAYS])


def load(folder: str | Path) -> Results:
    """Read a model that ``Results.save`` or ``dsba train`` wrote.

    Parameters
    ----------
    folder : path-like
        The folder of the model.

    Returns
    -------
    Results
        The model.

    Raises
    ------
    InputError
        If the folder has no model, or it is damaged or not of a table.

    Examples
    --------
    >>> import dsba
    >>> dsba.load("run").params  # doctest: +SKIP
    """
    return Results.load(folder)


def train(
    files: SiteFiles,
    spec: FitSpec,
    *,
    network: Network | None = None,
    notify: Notify = lambda sentence: None,
    **options: Any,
) -> Results:
    """One site per file, in order, named after it. On a network this process opens the files of its own nodes only.

    Parameters
    ----------
    notify
        Called with sentences for people.
    options
        Those of ``fit_sites``.
    """
    if network is None:
        network = Simulator(spec.topology(len(files)))
    return train_own(_own_files(files, network), spec, network, notify=notify, **options)


def train_own(own: dict[str, Table], spec: FitSpec, network: Network, *, notify: Notify, **options: Any) -> Results:
    """The same for the files of this process's own nodes, by the names of their sites."""
    sites, spec = read_own(own, spec, network)
    results = fit_sites(sites, spec, network, notify=notify, **options)
    if results.test is not None:
        notify(sentences("Held-out rows of all sites", results.test))
    return results


def read_own(own: dict[str, Table], spec: FitSpec, network: Network) -> tuple[list[SiteTable], FitSpec]:
    """The columns of the formula that all processes agree on, and the specification with it."""
    network.reset()
    spec = _agreed_formula(spec, {name: table.names for name, table in own.items()}, network)
    return [SiteTable(name, columns_of(table, ModelTerms.of(spec))) for name, table in own.items()], spec


def read_files(files: SiteFiles, spec: FitSpec, network: Network) -> tuple[list[SiteTable], FitSpec]:
    """The same, one site per file; this process opens the files of its own nodes only."""
    return read_own(_own_files(files, network), spec, network)


def evaluate_files(results: Results, files: SiteFiles, network: Network, guards: Guards) -> Evaluation:
    """Evaluate a model on tables, one site per file; this process opens the files of its own nodes only."""
    return evaluate_own(results, _own_files(files, network), network, guards)


def evaluate_own(results: Results, own: dict[str, Table], network: Network, guards: Guards) -> Evaluation:
    """The same for the files of this process's own nodes, by the names of their sites."""
    require_agreement(network, {"model": results.digest()})
    sites = [SiteTable(name, columns_of(table, results.needed)) for name, table in own.items()]
    usable = {site.name: int(evaluated_rows(results, site).sum()) for site in sites}
    enough = [guards.too_few_rows(name, rows) for name, rows in usable.items() if rows]  # a site may have none
    enforce(network, [guards.too_few_sites(network.topology.n_nodes), *enough])
    return evaluate(results, sites, network, guards)


def describe_files(files: SiteFiles, network: Network, guards: Guards, by: str | None) -> Description:
    """Table 1 of tables, one site per file; this process opens the files of its own nodes only."""
    sites = [SiteTable(name, table.read()) for name, table in _own_files(files, network).items()]
    return describe_sites(sites, network, by=by, guards=guards)


def _own_files(files: SiteFiles, network: Network) -> dict[str, Table]:
    """The files of this process's nodes, by the names of their sites."""
    if len(files) != (nodes := network.topology.n_nodes):
        raise InputError(f"the graph has {nodes} nodes, and {len(files)} files are given: one for each.")
    own = [TableSource.of(files[n]) for n in network.nodes]
    return {name: open_table(one) for name, one in zip(distinct([one.site for one in own]), own, strict=True)}


def _agreed_formula(spec: FitSpec, headers: dict[str, list[str]], network: Network) -> FitSpec:
    """The specification with its formula. All processes must have been given the same, and have its columns."""
    every = spec.all_features or (spec.formula is not None and parse(spec.formula).dotted)
    complaint = None if every else absent_column(headers, ModelTerms.of(stated(spec, headers)))
    given = [[spec.formula, spec.target, spec.features], headers if every else {}]
    everyone = share_unless(network, complaint, given, tuple[list[Any], dict[str, list[str]]])
    if any(theirs != everyone[0][0] for theirs, _ in everyone):
        raise InputError("the processes were given different formulas, targets or features.")
    return stated(spec, {name: header for _, process in everyone for name, header in process.items()})


def fit_sites(
    sites: Sequence[SiteTable],
    spec: FitSpec,
    network: Network,
    *,
    notify: Notify = lambda sentence: None,
    warn: Notify = lambda sentence: None,
    look: Notify | None = None,
    states: States | None = None,
    **options: Any,
) -> Results:
    """Agree, scale, fit and infer; ``sites`` are those of the network's nodes here. All processes get the results.

    Where a share of each site's rows is held out, the model is evaluated on these. ``notify`` gets lines for people:
    what the sites agreed on, before anything is learned. ``warn`` gets those of them about columns that show single
    rows. ``look`` gets signs of trouble in the columns; without it ``notify`` gets them. ``states`` are those of
    functions, if they are known. ``options`` are those of ``fit_rows``.
    """
    terms = ModelTerms.of(spec)
    model = terms.model()
    if spec.random and (spec.operator != "linear" or spec.lam or spec.weights or spec.cov != "classical"):
        raise InputError("a random intercept is for linear models without weights, with classical standard errors.")
    if model is None:
        _require_usable(operators.get(spec.operator), terms)
    else:
        likelihood.require_fitting(model, spec)
    kept, tests = _split(sites, terms, network)
    designs = design_tables(kept, terms, network, spec.guards, states)
    others = designs.rows - sum(len(design.weight) for design in designs.designs)
    network.tells_of(len(designs.names), others * sum(name != INTERCEPT for name in designs.names))
    show = look or (lambda sign: notify(f"Look at this: {sign}"))
    for sign in _signs(designs, kept, network):
        show(sign)
    for line in schema_report.report(designs):
        notify(line)
    classes = designs.schema.classes
    if terms.by_sums:
        notify(expected_cost(terms, designs.names, designs.schema.levels, classes, network))
    if (model := terms.model(classes)) is not None:
        likelihood.require_order(model, designs, spec.levels)
        results = Results(likelihood.fit_likelihood(model, designs, designs.schema.spec, network, warn))
    elif spec.random:
        results = Results(likelihood.fit_random_intercept(designs, designs.schema.spec, network, warn))
    else:
        results = _fit_shared(designs, network, notify, warn, options)
    if not tests:
        return results
    measured = evaluate(results, tests, network, spec.guards)
    for sentence in measured.notices:
        warn(sentence)
    return results.tested(measured.pooled)


def _signs(designs: Designs, sites: Sequence[SiteTable], network: Network) -> list[str]:
    """Signs of trouble in the columns, for the people at this site: what it finds in its own rows is not sent."""
    schema = designs.schema
    # Of the rows of the model: other sums of the same columns would tell a row that the model leaves out.
    sites = [SiteTable(site.name, usable_rows(site.frame, terms_of(schema))) for site in sites]
    numbers = [c for c, kind in schema.kinds.items() if kind == "number" and c not in schema.levels]
    values = {c: [site.frame[c].to_numpy(np.float64, na_value=np.nan) for site in sites] for c in numbers}
    levels = {c: known for c, known in schema.levels.items() if c != SITE} if len(schema.parts) > 1 else {}
    texts = [c for c, kind in schema.kinds.items() if kind == "text" and c not in terms_of(schema).formula.factors]
    few = max(1, schema.limits.rows_per_level)
    return [*marked_numbers(sites, texts), *signs_of(sites, values, levels, network, few)]


def _fit_shared(designs: Designs, network: Network, notify: Notify, warn: Notify, options: dict[str, Any]) -> Results:
    """A model that all methods share: linear, logistic, Poisson, or a user-defined loss."""
    spec = designs.schema.spec
    component = operators.get(spec.operator)
    columns = scaled(designs, component, network)
    weights = [base_weights(design, component) for design in columns.designs]
    information, found = check_design(designs, columns.moments, columns.designs, weights, spec.lam or 0.0, network)
    shown = enforce(network, found)
    vif = tuple(inflation(information, columns.scaling.intercept).tolist()) if not spec.lam else ()
    if not spec.lam:
        columns = orthogonal(columns, information)
    for sentence in shown:
        notify(f"Between owners this would be refused: {sentence}")
    designs = likelihood.noticed(designs, (*designs.rare, *shown), warn)
    if component.family is not None:
        require_events(component.family, columns.mean, str(parse(str(spec.formula)).left))
    spec = replace(spec, intercept=columns.scaling.intercept is not None)
    rows, size = _rows(columns, component, network)
    watch = None
    if component.family is not None:
        watch = StepWatch.of(designs, columns, component, information, size.constant, network)
    # The problem divides by the sum of its weights; lambda belongs to a sum divided by the weights of the rows.
    shrunk = replace(spec, lam=spec.lam / columns.exposure) if spec.lam else spec
    try:
        done = fit_rows(rows, shrunk, size=size, network=network, watch=watch, notify=notify, **options)
    except FitError as error:
        raise error.named([*(columns.names[j] for j in columns.others), INTERCEPT]) from None
    coefficients = _coefficients(columns, done)
    inferred, seen = _inferred(columns, coefficients, spec, watch and watch.at_solution(done.result.z), vif)
    designs = likelihood.noticed(designs, [one for one in seen if one not in shown], warn)
    return Results(_model(designs, columns, spec, done, coefficients, inferred, network))


def fit_each(
    sites: Sequence[SiteTable], spec: FitSpec, pooled: Schema, *, guarded: bool = False
) -> SiteEstimates:  # fmt: skip
    """The model of each site's own rows; a site whose rows do not determine it is named.

    Its columns are those of the ``pooled`` model, so that coefficients of one name can be compared. If ``guarded``, a
    site whose own model would be refused between owners is named too, and no reason is given: it could count rows.
    """
    found, failed, ratio = {}, {}, None
    spec = replace(spec, guards=replace(spec.guards, sites=1)) if guarded else spec
    plain = "HC1" if spec.weight_kind == SAMPLING else CLASSICAL
    spec = replace(spec, intercept=True, step_size="auto", cov=spec.cov if spec.cov != "site" else plain)
    spec = replace(spec, graph="ring", random=None, event=None, levels=_listed(pooled))
    for site in sites:
        try:
            own = fit_sites([site], spec, Simulator(spec.topology(1)), states=pooled.states)
            _require_compared(own, pooled)
            if guarded and own.metadata.notices:
                raise InputError(own.metadata.notices[0])
            ratio = own.ratio
            found[site.name] = dict(zip(own.params.index, zip(own.params, own.bse, strict=True), strict=True))
        except InputError as error:
            failed[site.name] = OWN_HIDDEN if guarded else str(error)
    return SiteEstimates(found, failed, ratio)


def _listed(pooled: Schema) -> dict[str, tuple[Level, ...]]:
    """The levels and classes of a model in order, as the tables have them."""
    made, merged = (MISSING_LEVEL, MERGED_LEVEL), pooled.merged
    listed = {c: (*(one for one in own if one not in made), *merged.get(c, ())) for c, own in pooled.levels.items()}
    if pooled.classes is not None:
        listed[terms_of(pooled).formula.response[0]] = pooled.classes
    return listed


def _require_compared(own: Results, pooled: Schema) -> None:
    """An error if the site's coefficients are compared with other levels than those of the pooled model."""
    classes, wanted = pooled.classes or (), references_of(own.formula.terms, pooled.levels, own.metadata.names)
    lacks = [(column, level) for column, level in wanted.items() if own.references[column] != level]
    if own.model.run.link == "softmax" and (own.schema.classes or ())[:1] != classes[:1]:
        lacks.append((str(own.formula.left), classes[0]))
    if lacks:
        raise InputError("no row has {} = {}, with which the model compares the others.".format(*lacks[0]))
    coded = [str(one.column) for term in own.formula.terms for one in term if one.contrast.kind != Contrast().kind]
    for column in coded:
        if {*own.schema.levels[column]} != {*pooled.levels[column]}:
            raise InputError(f"the contrasts of {column!r} are those of all its levels, and some have no row.")


def share_each(
    sites: Sequence[SiteTable], spec: FitSpec, pooled: Schema, group: Group, hidden: str | None
) -> SiteEstimates:
    """The same for sites of several processes; ``hidden`` says why those of this process show nothing."""
    own = SiteEstimates({}, {site.name: str(hidden) for site in sites})
    if hidden is None:
        own = fit_each(sites, spec, pooled, guarded=True)
    return SiteEstimates.joined(shared(group, own.plain(), SiteEstimates, discloses=SITE_TOTALS))


def _split(sites: Sequence[SiteTable], terms: ModelTerms, network: Network) -> tuple[list[SiteTable], list[SiteTable]]:
    """The rows to fit to and those held out, if any. Rows without an outcome are not held out."""
    share = terms.spec.test_share
    if not share:
        return list(sites), []
    end_together(network, absent_column({name: list(map(str, frame.columns)) for name, frame in sites}, terms))
    kept, tests = [], []
    for node, (name, frame) in zip(network.nodes, sites, strict=True):
        out = test_rows(frame, terms, node)
        kept.append(SiteTable(name, frame.loc[~out].reset_index(drop=True)))
        tests.append(SiteTable(name, frame.loc[out].reset_index(drop=True)))
    (held,) = counted(network, np.array([[float(len(test.frame))] for test in tests]))
    if not held:  # better said before the fit than after it
        raise InputError(f"a test share of {share:g} is not one row at any site: nothing is held out.")
    return kept, tests


def fitted_rows(frame: Any, terms: ModelTerms, node: int) -> Flags:
    """Which rows of a site enter the model: usable ones that are not held out."""
    return np.asarray(frame.index.isin(usable_rows(training_rows(frame, terms, node), terms).index))


def training_rows(frame: Any, terms: ModelTerms, node: int) -> Any:
    """The rows of a site that are not held out."""
    return frame.loc[~test_rows(frame, terms, node)] if terms.spec.test_share else frame


def test_rows(frame: Any, terms: ModelTerms, node: int) -> Flags:
    """Which rows of a site are held out."""
    known = np.flatnonzero(frame[list(terms.formula.response)].notna().all(axis=1))
    labels = frame[terms.formula.response[0]].iloc[known]
    binary = terms.labels == "binary"
    strata = np.unique(labels.astype(str), return_inverse=True)[1] if binary else np.zeros(len(known))
    out = np.zeros(len(frame), bool)
    out[known[held_out(strata, terms.spec.test_share, terms.spec.seed, node)]] = True
    return out


def _require_usable(component: Operator, terms: ModelTerms) -> None:
    name = type(component).__name__
    if component.labels == "multiclass" or component.extra or component.ranks:
        raise InputError(f"a table's model has one coefficient for each column, and {name} has others.")
    if (terms.spec.offset or terms.spec.exposure) and component.family is None:
        raise InputError(f"offsets and exposures are for models with a likelihood, not for {name}.")


def _rows(columns: ScaledColumns, component: Operator, network: Network) -> tuple[Rows, RowTotals]:
    """An offset becomes a part of labels and weights: exp(u + o) - y u = e^o (exp(u) - y e^-o u)."""
    X = np.concatenate([design.X[:, columns.others] for design in columns.designs])
    y, weight, offset = (np.concatenate([design[k] for design in columns.designs]) for k in (2, 3, 4))
    if component.link == "log":
        weight, y = weight * np.exp(offset), y * np.exp(-offset)
    elif component.link == "identity":
        y = y - offset
    nodes = np.repeat(np.arange(len(columns.designs)), [len(design.y) for design in columns.designs])
    rows, size = as_rows(X, y, weight, nodes), columns.size
    if not columns.alike:
        size = size._replace(squared_norms=weighted_squares(rows, network))
    return rows, size


def _coefficients(columns: ScaledColumns, done: Fit) -> Array:
    """Those of the scaled columns, in their order."""
    (weights, intercepts), at = done.mean, columns.scaling.intercept
    coefficients = np.zeros(len(columns.names))
    coefficients[columns.others] = weights[0]
    if at is not None:
        coefficients[at] = intercepts[0]
    return coefficients


def _model(
    designs: Designs, columns: ScaledColumns, spec: FitSpec, done: Fit, coefficients: Array, found: Inferred,
    network: Network,
) -> FittedModel:  # fmt: skip
    """The coefficients of the columns in their own units, and their inference."""
    schema, rounds = designs.schema, done.rounds_before + network.rounds
    spec, run = carried_out(done, spec, spec.lam or 0.0)
    run = replace(run, samples=columns.nobs)
    events = None
    if schema.classes is not None and spec.weighting_counts:
        events = round(columns.nobs * columns.mean)
    table = TableMetadata(
        columns.names, tuple(columns.scaling.sd.tolist()), replace(schema, spec=spec), rounds, designs.notices, events,
        found.calibration, _convergence(done), found.inference, found.why_none,
    )  # fmt: skip
    return likelihood.stored(columns.scaling.unscaled(coefficients), done.gathered, run, table)


def _inferred(
    columns: ScaledColumns, coefficients: Array, spec: FitSpec, watch: RowWatch | None, vif: tuple[float, ...]
) -> tuple[Inferred, list[str]]:
    """What the sums at the solution give, and complaints about rows here that they show."""
    if spec.lam or watch is None:
        return Inferred(None, PENALTY if spec.lam else NO_LIKELIHOOD), watch.complaints if watch else []
    try:
        found = infer(columns, coefficients, str(operators.get(spec.operator).family), spec.cov, watch, vif)
    except FitError as error:
        raise error.named(columns.names) from None
    if found.inference is not None and spec.weight_kind == SAMPLING:
        found = found._replace(inference=replace(found.inference, llf=None, llnull=None))
    return found, watch.complaints


def _convergence(done: Fit) -> tuple[tuple[float, float], ...]:
    """Rounds and residuals, at no more than a hundred record points."""
    history = done.result.history
    points = list(zip(history["rounds"].tolist(), history["residual"].tolist(), strict=True))
    return (*points[: -1 : max(1, len(points) // 100)], points[-1])
