"""The commands ``dsba train``, ``dsba summary``, ``dsba predict`` and ``dsba evaluate``."""

from __future__ import annotations

import inspect
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsba._system.signals import orderly_end
from dsba.cli.options import (
    VALUES,
    Commands,
    Json,
    NoGuards,
    TwoSites,
    completing,
    echo_json,
    guards_of,
    keyword,
    numbers_of,
    of_tables,
    reading_tables,
    source,
    with_fit_options,
)
from dsba.data.sources import TableSource
from dsba.engine.progress import LINE_EVERY
from dsba.engine.run import Status
from dsba.errors import DsbaError, InputError
from dsba.fitting import codec, not_converged
from dsba.fitting.codec import MODEL_FILE
from dsba.fitting.disclosure import Guards
from dsba.fitting.spec import FitSpec
from dsba.storage.atomic import write_whole
from dsba.storage.folders import owned

if TYPE_CHECKING:
    from dsba.fitting.measures import Measures
    from dsba.fitting.model import FittedModel
    from dsba.network import MPINetwork, Network
    from dsba.tables.description import Description
    from dsba.tables.elastic_net import ElasticNetPath
    from dsba.tables.evaluation import Evaluation
    from dsba.tables.survival import SurvivalCurves

MARKER, PAGE = ".dsba-train", "report.html"
GIVEN = ("network", "guards")  # what a command among sites gets that is no option
PASS_ON = 0.5  # seconds for a launcher to pass on the output of a rank, before it ends all of them

TRAIN_EXAMPLES = """Examples:

`dsba train a.csv b.csv c.csv --formula "readmitted ~ age + C(sex)" --graph ring --out run`

`dsba train site0.svm site1.svm site2.svm --operator logistic --graph ring`

`mpiexec -n 3 dsba train site0.svm site1.svm site2.svm --graph ring --out run`
"""
PREDICT_EXAMPLES = (
    "Examples:  `dsba predict run new.csv --out p.csv --keep id`   `dsba predict run new.svm > labels.txt`"
)
SUMMARY_EXAMPLES = "Examples:  `dsba summary run --json`   `dsba summary run --ratios --out table.tex --out forest.pdf`"
EVALUATE_EXAMPLES = (
    "Examples:  `dsba evaluate run test.csv`   `mpiexec -n 3 dsba evaluate run a.csv b.csv c.csv --json`"
)
CURVE_EXAMPLES = (
    'Examples:  `dsba curve a.csv b.csv c.csv --formula "Surv(time, died) ~ treated" --plot curves.svg`   '
    '`mpiexec -n 3 dsba curve a.csv b.csv c.csv --formula "Surv(time, died) ~ 1" --out curve.csv`'
)
NET_EXAMPLES = 'Examples:  `dsba elastic-net a.csv b.csv c.csv --formula "sbp ~ age + bmi + treated" --folds 5`'
DESCRIBE_EXAMPLES = "Examples:  `dsba describe a.csv b.csv c.csv --by treated`"

tables = Commands()
Model = Annotated[Path, typer.Argument(help="The folder that `dsba train` wrote.")]
GRAPHS = completing(VALUES["graph"])
GraphOption = Annotated[
    str, typer.Option(help="Who talks to whom: path, ring, ..., or an edge list.", autocompletion=GRAPHS)
]
Timeout = Annotated[float, typer.Option(help="Seconds after which a silent rank ends the run.")]
Tables = Annotated[list[TableSource], source(typer.Argument, "Tables, one per site; each rank opens its own.")]


def among_sites(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a network and of reading; it gets the ``network`` and this site's ``guards``.

    The network is MPI's under mpiexec, else all nodes are in this process. An error at one rank ends all of them.
    """
    own = [one for one in inspect.signature(command, eval_str=True).parameters.values() if one.name not in GIVEN]

    @wraps(command)
    def run(graph: str, allow_two_sites: bool, no_guards: bool, timeout: float, **values: Any) -> None:
        from dsba.network import Simulator

        with _together():
            spec, count = FitSpec(graph=graph), len(values["files"])
            network = _network(spec, count, timeout) or Simulator(spec.topology(count))
            command(**values, network=network, guards=guards_of(allow_two_sites, no_guards))

    more = [keyword("graph", GraphOption, "path"), keyword("allow_two_sites", TwoSites, False)]
    more += [keyword("no_guards", NoGuards, False), keyword("timeout", Timeout, 300.0)]
    run.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
    return reading_tables(run)


@tables.command(epilog=TRAIN_EXAMPLES)
@with_fit_options()
def train(
    files: Annotated[
        list[TableSource], source(typer.Argument, "Tables or LIBSVM files, one per node; each rank opens only its own.")
    ],
    spec: FitSpec,
    n_features: Annotated[
        int | None, typer.Option(help="The number of columns; by default that of the widest file.")
    ] = None,
    zero_based: Annotated[
        bool | None,
        typer.Option("--zero-based/--one-based", help="Where columns begin; at 0 if any file has an index 0."),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the model.")] = Path("run"),
    checkpoint: Annotated[Path | None, typer.Option(help="Checkpoint file; OUT/checkpoint if not given.")] = None,
    timeout: Timeout = 300.0,
    plain: Json = False,
) -> None:
    """Train one model from data at several sites. The same command goes on where it was stopped.

    Under mpiexec the nodes are spread over the ranks, and no rank reads another's files. The exit code is 3 if the
    model was saved and the fit did not converge.
    """
    layout: dict[str, Any] = {"n_features": n_features, "zero_based": zero_based}
    for name, value in layout.items():
        if spec.of_tables and value is not None:
            raise InputError(f"--{name.replace('_', '-')} is for LIBSVM files.")
    with _together(), ExitStack() as stack:
        network = _network(spec, len(files), timeout)
        first = network is None or network.rank == 0
        stack.enter_context(orderly_end())
        if first:
            stack.enter_context(owned(out, MARKER))
        if network:
            network.share(None, discloses="totals")  # the others come to the folder when it is marked
        if not first:
            stack.enter_context(owned(out, MARKER, lock=False))
        talk: dict[str, Any] = {"progress": sys.stdout.isatty() and not plain}
        if first:
            notify = partial(typer.echo, err=plain)  # with --json, standard output has nothing else
            talk |= {"notify": notify, "callbacks": [] if talk["progress"] else [_line_printer(notify)]}
        options = {"network": network, "checkpoint": checkpoint or out / "checkpoint", **talk}
        if spec.of_tables:
            from dsba.tables import fit

            if not first:  # what looks wrong in its rows is known to this rank alone
                options["look"] = lambda sign: typer.echo(f"Look at this: {sign}", err=True)
            model = fit.train(files, spec, **options).model
        else:
            from dsba.fitting import train as train_arrays

            model, _ = train_arrays([one.libsvm for one in files], spec, **layout, **options)
        _end_as(model, out, first, plain)


def _end_as(model: FittedModel, out: Path, first: bool, plain: bool) -> None:
    """Save the model, say how it went, and end with its exit code; only the first process prints and saves."""
    status, message = model.run.status, model.run.message
    if status is Status.DIVERGED:
        raise InputError(f"no model was saved: {message}.")
    if first:
        codec.save(model, out)
        sentence = f"{status}: {message}." if status is not Status.BUDGET else not_converged.of_model(model)
        page = write_page(model, out).resolve() if model.table is not None else None
        if plain:
            echo_json(_how_it_went(model) | {"sentence": sentence, "model": out / MODEL_FILE, "page": page})
        else:
            typer.echo(f"{sentence}\nModel of {model.run.nodes} nodes: {out / MODEL_FILE}")
            if page:
                typer.echo(f"Page: {page}")
    if first or status is Status.INTERRUPTED:  # an MPI may end the other ranks as soon as one has ended with a code
        exit_as(status)


def _how_it_went(model: FittedModel) -> dict[str, Any]:
    run = model.run
    about = {name: getattr(run, name) for name in ("method", "plan", "nodes", "samples", "features", "processes")}
    return {"status": str(run.status), **about, **run.figures.plain()}


def exit_as(status: Status) -> None:
    """A model that did not converge has an exit code of its own."""
    if status is not Status.CONVERGED:
        raise typer.Exit(130 if status is Status.INTERRUPTED else not_converged.EXIT_CODE)


def _warn_if_not_converged(model: FittedModel) -> None:
    """One line to standard error about a model that did not converge, in place of Python's warning."""
    if sentence := not_converged.of_model(model):
        typer.echo(f"Warning: {sentence}", err=True)
        warnings.simplefilter("ignore", not_converged.category())


def write_page(model: FittedModel, out: Path, study: Mapping[str, str] | None = None) -> Path:
    """Write the page of a table's model; ``study`` is what there is to know of its study."""
    from dsba.cli.lab import command_line
    from dsba.tables.page import model_page
    from dsba.tables.results import Results

    _write(out / PAGE, model_page(Results(model), command_line(), study))
    return out / PAGE


def _network(spec: FitSpec, n_nodes: int, timeout: float) -> MPINetwork | None:
    """An MPI network where mpiexec started this process, else None."""
    from dsba.network.mpi import WORLD_SIZES, MPINetwork

    if not any(name in os.environ for name in WORLD_SIZES):
        return None
    return MPINetwork(spec.topology(n_nodes), timeout=timeout)


def _line_printer(notify: Callable[[str], None]) -> Callable[[dict[str, float]], None]:
    shown = time.monotonic()

    def show(record: dict[str, float]) -> None:
        nonlocal shown
        if time.monotonic() - shown >= LINE_EVERY:
            shown = time.monotonic()
            notify(f"{record['passes']:8.1f} passes   residual {record['residual']:.1e}")

    return show


@contextmanager
def _together() -> Iterator[None]:
    """Under MPI, an error at one rank ends all of them, with its sentence; an unforeseen one with its trace."""
    try:
        yield
    except typer.Exit:
        raise
    except BaseException as error:
        if not isinstance(error, (DsbaError, OSError, KeyboardInterrupt)):
            traceback.print_exc()
        _abort_all(error)
        raise


def _abort_all(error: BaseException) -> None:
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or mpi.COMM_WORLD.Get_size() == 1:
        return
    rank = mpi.COMM_WORLD.Get_rank()
    if rank > 0:
        time.sleep(4 * PASS_ON)  # where all ranks came to the same error, rank 0 alone says it
    typer.echo(f"Error (rank {rank}): {error}", err=True)
    sys.stderr.flush()
    time.sleep(PASS_ON)
    mpi.COMM_WORLD.Abort(2)
    os._exit(2)  # an MPI may come back from Abort before it is ended


@tables.command(epilog=SUMMARY_EXAMPLES)
def summary(
    model: Model,
    plain: Json = False,
    out: Annotated[
        list[Path] | None, typer.Option(help="A table (.csv, .tex, .html) or forest plot (.pdf, .svg, .png).")
    ] = None,
    ratios: Annotated[bool, typer.Option("--ratios", help="Odds, rate or hazard ratios in these files.")] = False,
) -> None:
    """The coefficients of a table's model, with standard errors and intervals."""
    from rich.console import Console

    from dsba.tables.results import Results

    results = Results.load(model)
    texts = {".csv": results.to_csv, ".tex": results.to_latex, ".html": results.to_html}
    for file in out or ():
        if make := texts.get(file.suffix.lower()):
            _write(file, make(ratios))
        else:
            results.forest(file, ratios or None)
    if plain:
        echo_json(results.plain())
    else:
        Console().print(results.summary(), crop=False)


@tables.command(epilog=PREDICT_EXAMPLES)
@reading_tables
def predict(
    model: Model,
    file: Annotated[
        TableSource, source(typer.Argument, "A table or a LIBSVM file, whichever the model was trained on.")
    ],
    out: Annotated[Path | None, typer.Option(help="File for the predictions; printed if not given.")] = None,
    label: Annotated[bool, of_tables("--label", help="Classes instead of probabilities.")] = False,
    proba: Annotated[bool, of_tables("--proba", help="Probabilities; the default for classes.")] = False,
    keep: Annotated[list[str] | None, of_tables(help="Columns to copy beside the predictions.")] = None,
) -> None:
    """Predict with a trained model.

    From tables the mean response of each row, as CSV; from LIBSVM files one label, number or (for AUC) score per line.
    """
    known = codec.load(model)
    _warn_if_not_converged(known)
    if label and proba:
        raise InputError("give either --label or --proba.")
    if known.table is not None:
        text = _table_predictions(known, file, label, keep or [])
    elif label or proba or keep:
        raise InputError("--label, --proba and --keep are for models of tables, and this one is of LIBSVM files.")
    else:
        text = _libsvm_predictions(known, file.libsvm)
    if out is None:
        typer.echo(text, nl=False)
    else:
        _write(out, text)


def _write(file: Path, text: str) -> None:
    write_whole(file, text.encode(errors="backslashreplace"))  # a site is called as its file, whose name may be odd


@tables.command(epilog=EVALUATE_EXAMPLES)
@among_sites
def evaluate(
    model: Model,
    files: Annotated[
        list[TableSource], source(typer.Argument, "Tables with outcomes, one per site; each rank opens its own.")
    ],
    network: Any,
    guards: Guards,
    plain: Json = False,
    plot: Annotated[Path | None, typer.Option(help="An SVG file for the calibration of all sites.")] = None,
    roc: Annotated[Path | None, typer.Option(help="An SVG file for the ROC curve of all sites.")] = None,
) -> None:
    """How well a table's model predicts: AUC, log loss, calibration, deviance or R², per site and over all sites.

    Under mpiexec no rank reads another's files, and only sums travel. A site's figures are printed by its own rank.
    """
    from dsba.tables.fit import evaluate_files
    from dsba.tables.results import Results

    results, first = Results.load(model), network.rank == 0
    if first:
        _warn_if_not_converged(results.model)
    found = evaluate_files(results, files, network, guards)
    if first:
        _plot(found.pooled, plot, roc)
    if not plain:
        _print_evaluation(found, first)
    elif first:
        echo_json(found.plain())


@tables.command(epilog=DESCRIBE_EXAMPLES)
@among_sites
def describe(
    files: Tables,
    network: Any,
    guards: Guards,
    by: Annotated[str | None, typer.Option(help="A column whose levels become columns of the table.")] = None,
    plain: Json = False,
    html: Annotated[Path | None, typer.Option(help="A file for the page with the table.")] = None,
    latex: Annotated[Path | None, typer.Option(help="A file for the table as LaTeX.")] = None,
) -> None:
    """Table 1 over all sites: rows, missing values, means, quartiles, levels; and signs of trouble at a site.

    Under mpiexec no rank reads another's files, and only sums and counts travel.
    """
    from dsba.tables.fit import describe_files
    from dsba.tables.page import description_page

    found = describe_files(files, network, guards, by)
    if network.rank > 0:
        return
    if html is not None:
        _write(html, description_page("Table 1", found))
    if latex is not None:
        _write(latex, found.to_latex())
    _show(found, plain)


@tables.command(epilog=CURVE_EXAMPLES)
@among_sites
def curve(
    files: Tables,
    network: Any,
    guards: Guards,
    formula: Annotated[str, typer.Option(help='Such as "Surv(time, died) ~ treated"; ~ 1 is one curve.')],
    strata: Annotated[str | None, typer.Option(help="site: the log-rank test compares within sites.")] = None,
    grid: Annotated[str | None, typer.Option(help="Times to which others are rounded up, with commas.")] = None,
    conf_type: Annotated[str, typer.Option(help="The scale of 95 % intervals: log or log-log.")] = "log",
    missing: Annotated[str, typer.Option(help="Rows with missing values: error or drop.")] = "error",
    plain: Json = False,
    out: Annotated[Path | None, typer.Option(help="A CSV file for the curves.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A PDF, SVG or PNG file.")] = None,
    at_risk: Annotated[str | None, typer.Option(help="Times of the numbers at risk under the plot.")] = None,
) -> None:
    """Kaplan-Meier curves over all sites, by the groups of a column, and the log-rank test.

    Under mpiexec no rank reads another's files, and only counts by interval of time travel.
    """
    from dsba.tables.fit import read_files
    from dsba.tables.survival import curves_of

    ends, shown = numbers_of("grid", grid), numbers_of("at-risk", at_risk)
    spec = FitSpec(formula=formula, operator="cox", strata=strata, grid=ends, missing=missing, guards=guards)
    sites, spec = read_files(files, spec, network)
    found = curves_of(sites, spec, network, conf_type, _notify(network, plain))
    if network.rank == 0:
        _show(found, plain, out)
        if plot is not None:
            found.plot(plot, shown)


@tables.command(epilog=NET_EXAMPLES)
@among_sites
def elastic_net(
    files: Tables,
    network: Any,
    guards: Guards,
    formula: Annotated[str, typer.Option(help="The model, with an intercept.")],
    operator: Annotated[str, typer.Option(help="linear, logistic or poisson.")] = "linear",
    l1_ratio: Annotated[float, typer.Option(help="The share of |b|_1 in the penalty: 1 is the lasso.")] = 1.0,
    lambdas: Annotated[str | None, typer.Option(help="The penalties, with commas; 50 are chosen if not given.")] = None,
    folds: Annotated[int | None, typer.Option(help="Folds of the cross-validation, inside sites.")] = None,
    missing: Annotated[str, typer.Option(help="Rows with missing values: error or drop.")] = "error",
    plain: Json = False,
    out: Annotated[Path | None, typer.Option(help="A CSV file for the path.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A PDF, SVG or PNG file.")] = None,
) -> None:
    """A path of elastic nets over all sites, with cross-validation if --folds is given.

    Under mpiexec no rank reads another's files, and only sums travel.
    """
    from dsba.tables.elastic_net import PathOptions, path_of
    from dsba.tables.fit import read_files

    asked = PathOptions.checked(operator, l1_ratio, numbers_of("lambdas", lambdas), folds)
    spec = FitSpec(formula=formula, operator=operator, missing=missing, guards=guards)
    sites, spec = read_files(files, spec, network)
    found = path_of(sites, spec, network, *asked, _notify(network, plain))
    if network.rank == 0:
        _show(found, plain, out)
        if plot is not None:
            found.plot(plot)


def _notify(network: Network, plain: bool) -> Callable[[str], None]:
    """Sentences are said by the first process, beside the JSON."""
    return partial(typer.echo, err=plain) if network.rank == 0 else lambda sentence: None


def _show(found: Description | SurvivalCurves | ElasticNetPath, plain: bool, out: Path | None = None) -> None:
    if out is not None:
        frame = found.to_frame()
        _write(out, frame.to_csv(index=frame.index.name is not None))
    if plain:
        echo_json(found.plain())
    else:
        typer.echo(str(found))


def _print_evaluation(found: Evaluation, first: bool) -> None:
    from rich.console import Console

    from dsba.tables.evaluation import sentences

    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=not sys.stdout.isatty())
    for site, measures in found.sites.items():
        console.print(sentences(site, measures))
    if first:
        console.print(sentences("All sites", found.pooled))
        for group in getattr(found.pooled, "calibration", ()):
            bounds = f"{group.low:.1f} to {group.high:.1f}"
            typer.echo(f"  predicted {bounds}: {group.rows:,} rows, mean {group.predicted:.3f}, "
                       f"events {group.observed:.3f}")  # fmt: skip


def _plot(pooled: Measures, plot: Path | None, roc: Path | None) -> None:
    from dsba.tables.page import picture, roc_picture, standalone

    for file, key, draw in ((plot, "calibration", picture), (roc, "roc", roc_picture)):
        if file is not None:
            if file.suffix.lower() != ".svg":
                raise InputError(f"this plot is an .svg file, got {file.name!r}.")
            points = getattr(pooled, key, None)
            if not points:
                raise InputError(f"there is no {key} to plot: it is of models and rows of two classes.")
            _write(file, standalone(draw(points)))


def _table_predictions(model: FittedModel, file: TableSource, label: bool, keep: list[str]) -> str:
    from dsba.data.table_files import open_table
    from dsba.tables.inputs import columns_to_predict, rows_to_predict
    from dsba.tables.results import Results
    from dsba.tables.signs import codes_for_missing

    results, table = Results(model), open_table(file)
    for sign in codes_for_missing(rows_to_predict(table, results.needed, file.site), results.schema):
        typer.echo(f"Look at this: {sign}", err=True)
    kept = table.texts(keep, beside=columns_to_predict(table, results.needed))
    found = results.predict(table, labels=label, name=file.site)
    columns = found if found.ndim > 1 else found.to_frame("prediction")  # several classes have a column each
    if taken := [name for name in map(str, columns) if name in keep]:
        raise InputError(f"the predictions have a column {taken[0]!r} of their own: rename the one to keep.")
    if gaps := int(columns.isna().any(axis=1).sum()):
        why = "a value that the model needs is missing, or a function of it is not a number"
        typer.echo(f"{gaps:,} of {len(columns):,} rows have no prediction: {why}.", err=True)
    return kept.assign(**{str(name): columns[name] for name in columns}).to_csv(index=False)


def _libsvm_predictions(model: FittedModel, file: Path) -> str:
    from dsba import data
    from dsba.data.table_files import is_table

    if file.is_file() and is_table(file):
        raise InputError(f"{file} is a table with column names, and the model was trained on LIBSVM files.")
    first = model.zero_based
    X, _ = data.load_libsvm(file, n_features=model.n_features, zero_based="auto" if first is None else first)
    return "".join(f"{value:.17g}\n" if isinstance(value, float) else f"{value}\n" for value in model.predict(X))
