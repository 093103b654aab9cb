"""The commands ``dsba train``, ``dsba summary``, ``dsba predict`` and ``dsba evaluate``."""

from __future__ import annotations

import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsba._system.signals import orderly_end
from dsba.engine.progress import LINE_EVERY
from dsba.errors import InputError, NetworkError
from dsba.fitting import not_converged
from dsba.fitting.model import MODEL_FILE
from dsba.fitting.spec import OF_TABLES, Settings
from dsba.storage.atomic import replacing
from dsba.storage.folders import owned

if TYPE_CHECKING:
    from dsba.fitting.model import Model
    from dsba.network import MPINetwork
    from dsba.tables.disclosure import Guards

DEFAULTS = Settings()
MARKER, PAGE = ".dsba-train", "report.html"
PASS_ON = 0.5  # seconds for a launcher to pass on what a rank said, before it ends all of them

TABLE_ONLY = (
    "features",
    "all_features",
    "missing",
    "cov",
    "rare_levels",
    "weights",
    "offset",
    "exposure",
    "allow_two_sites",
    "no_guards",
    "test_share",
    "event",
    "levels",
)
LIBSVM_ONLY = ("n_features", "zero_based", "normalize", "intercept")

EVENT = "Which of two labels is modelled; the second in sorted order if not given."
LEVELS = "All levels of a column in order, the first is the reference; sorted if not given. May be repeated."
LEVELS_FORM = "COLUMN=LEVEL,LEVEL,..."

TRAIN_EXAMPLES = """Examples:

`dsba train a.csv b.csv c.csv --formula "readmitted ~ age + C(sex)" --graph ring --out run`

`dsba train site0.svm site1.svm site2.svm --operator logistic --graph ring`

`mpiexec -n 3 dsba train site0.svm site1.svm site2.svm --graph ring --out run`
"""
PREDICT_EXAMPLES = (
    "Examples:  `dsba predict run new.csv --out p.csv --keep id`   `dsba predict run new.svm > labels.txt`"
)

EVALUATE_EXAMPLES = """Examples:

`dsba evaluate run test.csv`   `mpiexec -n 3 dsba evaluate run a.csv b.csv c.csv --json`
"""


def by_kind(name: str, help_: str, shown: str = "") -> Any:
    """An option whose default is another one for tables; the help says both."""
    usual = shown or f"{getattr(DEFAULTS, name):g}"
    return typer.Option(help=f"{help_}; {usual} by default, {OF_TABLES[name]:g} for tables.", show_default=False)


of_tables = partial(typer.Option, rich_help_panel="Options of tables")
TwoSites = Annotated[bool, of_tables("--allow-two-sites", help="Let two sites take part; nothing is hidden then.")]
NoGuards = Annotated[bool, of_tables("--no-guards", help="Switch off this site's disclosure guards.")]


def register(app: typer.Typer) -> None:
    app.command(epilog=TRAIN_EXAMPLES)(train)
    app.command()(summary)
    app.command(epilog=PREDICT_EXAMPLES)(predict)
    app.command(epilog=EVALUATE_EXAMPLES)(evaluate)


def train(
    context: typer.Context,
    files: Annotated[
        list[Path], typer.Argument(help="Tables or LIBSVM files, one per node; each rank opens only its own.")
    ],
    formula: Annotated[str | None, of_tables(help='"outcome ~ age + C(sex) + log(crp)".')] = None,
    target: Annotated[str | None, of_tables(help="The outcome, instead of a formula.")] = None,
    features: Annotated[str | None, of_tables(help="Columns, with commas between them.")] = None,
    all_features: Annotated[
        bool, of_tables("--all-features", help="All columns but the target.")
    ] = False,
    missing: Annotated[str, of_tables(help="Missing values: error, drop, mean or indicator.")] = "error",
    cov: Annotated[str, of_tables(help="Standard errors: classical, HC0, HC1 or site.")] = "classical",
    rare_levels: Annotated[str, of_tables(help="Levels with fewer than 3 pooled rows: error or merge.")] = "error",
    weights: Annotated[str | None, of_tables(help="The column of weights; rows of weight 0 are left out.")] = None,
    offset: Annotated[str | None, of_tables(help="A column to add to the scores.")] = None,
    exposure: Annotated[str | None, of_tables(help="A column whose logarithm is an offset.")] = None,
    test_share: Annotated[float, of_tables(help="The share of each site's rows to hold out.")] = 0.0,
    event: Annotated[str | None, of_tables(help=EVENT)] = None,
    levels: Annotated[list[str] | None, of_tables(help=LEVELS, metavar=LEVELS_FORM)] = None,
    allow_two_sites: TwoSites = False,
    no_guards: NoGuards = False,
    operator: Annotated[str, typer.Option(help="logistic, linear, poisson, ..., or my_loss.py:Class.")] = "logistic",
    lam: Annotated[float | None, by_kind("lam", "The penalty", "1/(10 Q)")] = DEFAULTS.lam,
    intercept: Annotated[bool, typer.Option(help="Fit an intercept, which is not regularised.")] = DEFAULTS.intercept,
    n_features: Annotated[
        int | None, typer.Option(help="The number of columns; by default that of the widest file.")
    ] = None,
    zero_based: Annotated[
        bool | None,
        typer.Option("--zero-based/--one-based", help="Where columns begin; at 0 if any file has an index 0."),
    ] = None,
    normalize: Annotated[bool, typer.Option(help="Scale every row to norm 1.")] = DEFAULTS.normalize,
    graph: Annotated[str, typer.Option(help="random, random:0.4, ring, ..., or an edge list.")] = DEFAULTS.graph,
    mixing: Annotated[str, typer.Option(help="Weights of the graph: laplacian or metropolis.")] = DEFAULTS.mixing,
    algorithm: Annotated[str, typer.Option(help="auto, newton, dsba, dsa, ..., or mine.py:Class.")] = "auto",
    communication: Annotated[
        str | None, typer.Option(help="dense, sparse or cached (dsba, dsa).")
    ] = DEFAULTS.communication,
    step_size: Annotated[str, typer.Option(help="A number, or a rule's name.")] = "auto",
    max_passes: Annotated[float, by_kind("max_passes", "Passes over the data, at most")] = DEFAULTS.max_passes,
    tol: Annotated[float, by_kind("tol", "Stop at this relative residual")] = DEFAULTS.tol,
    seed: Annotated[int, typer.Option(help="For drawing samples and a random graph.")] = DEFAULTS.seed,
    out: Annotated[Path, typer.Option(help="Folder for the model.")] = Path("run"),
    checkpoint: Annotated[Path | None, typer.Option(help="Checkpoint file; OUT/checkpoint if not given.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds after which a silent rank ends the run.")] = 300.0,
) -> None:  # fmt: skip
    """Train one model from data at several sites. The same command goes on where it was stopped.

    Under mpiexec the nodes are spread over the ranks, and no rank reads another's files. The exit code is 3 if the
    model was saved and the fit did not converge.
    """
    try:
        step: float | str = float(step_size)
    except ValueError:
        step = step_size
    settings = Settings(
        operator, lam, intercept, graph, mixing, algorithm, communication, step, max_passes, tol, seed, normalize
    )  # fmt: skip
    sources = {name: context.get_parameter_source(name) for name in context.params}
    given = {name for name, source in sources.items() if source is not None and source.name != "DEFAULT"}
    _require_matching(given)
    if formula is None and target is None:
        work = _libsvm(files, settings, {"n_features": n_features, "zero_based": zero_based})
    else:
        plan = _plan(formula, target, features, all_features)
        wishes = {"missing": missing, "rare": rare_levels, "weights": weights, "offset": offset, "exposure": exposure,
                  "test_share": test_share, "event": event, "levels": ordered_levels(levels)}  # fmt: skip
        guards = _guards(allow_two_sites, no_guards)
        work = _tables(files, plan, settings, given, wishes=wishes, cov=cov, guards=guards)
    _together(lambda: _train(work, settings, len(files), out, checkpoint, timeout))


def _require_matching(given: set[str]) -> None:
    """Options of tables belong to tables, and those of LIBSVM files to these."""
    table = bool(given & {"formula", "target"})
    for name in LIBSVM_ONLY if table else TABLE_ONLY:
        if name in given:
            wanted = "is for LIBSVM files" if table else "is for tables: give --formula or --target, too"
            raise InputError(f"--{name.replace('_', '-')} {wanted}.")


def _plan(formula: str | None, target: str | None, features: str | None, all_features: bool) -> Any:
    from dsba.tables.fit import ModelTerms

    if formula is not None:
        if target is not None or features is not None or all_features:
            raise InputError("give either --formula, or --target with --features or --all-features.")
        return ModelTerms(formula)
    if (features is None) == (not all_features):
        raise InputError("with --target give either --features or --all-features.")
    return ModelTerms(None, target, None if features is None else tuple(name.strip() for name in features.split(",")))


def ordered_levels(given: list[str] | None) -> dict[str, list[str]]:
    """The levels by column of texts such as sex=m,f."""
    found = {}
    for text in given or []:
        column, equals, levels = text.partition("=")
        if not equals:
            raise InputError(f"--levels must be {LEVELS_FORM}, got {text!r}.")
        found[column.strip()] = [level.strip() for level in levels.split(",")]
    return found


def _libsvm(files: list[Path], settings: Settings, layout: dict[str, Any]) -> Callable[..., Model]:
    def work(**options: Any) -> Model:
        from dsba.fitting import train as run

        return run(files, settings, **layout, **options)[0]

    return work


def _tables(files: list[Path], plan: Any, settings: Settings, given: set[str], **wanted: Any) -> Callable[..., Model]:
    def work(**options: Any) -> Model:
        from dsba.tables import fit

        ours = {name: value for name, value in OF_TABLES.items() if name not in given}
        return fit.train(files, plan, replace(settings, **ours), **wanted, **options).model

    return work


def _guards(two_sites: bool, off: bool) -> Guards:
    from dsba.tables.disclosure import Guards

    return Guards.off() if off else Guards(sites=2) if two_sites else Guards()


def _train(
    work: Callable[..., Model], settings: Settings, n_nodes: int, out: Path, checkpoint: Path | None, timeout: float
) -> None:
    network = _network(settings, n_nodes, timeout)
    first = network is None or network.rank == 0
    with ExitStack() as stack:
        stack.enter_context(orderly_end())
        if first:
            stack.enter_context(owned(out, MARKER))
        if network:
            network.share(None)  # the others come to the folder when it is marked
        if not first:
            stack.enter_context(owned(out, MARKER, lock=False))
        _save(partial(work, network=network, checkpoint=checkpoint or out / "checkpoint"), out, first)


def _save(work: Callable[..., Model], out: Path, first: bool) -> None:
    """Train, tell how it went, and save the model; the first process does the talking and the saving."""
    terminal = sys.stdout.isatty()
    lines = [_line_printer()] if first and not terminal else []
    model = work(progress=terminal, callbacks=lines, **({"tell": typer.echo} if first else {}))
    status, message = model.facts["status"], model.facts["message"]
    if status == "diverged":
        raise InputError(f"no model was saved: {message}.")
    if first:
        model.save(out)
        typer.echo(f"{status}: {message}." if status != "budget" else not_converged.of_model(model.facts))
        typer.echo(f"Model of {model.facts['nodes']} nodes: {out / MODEL_FILE}")
        if "table" in model.facts:
            typer.echo(f"Page: {write_page(model, out).resolve()}")
    if status == "interrupted":
        raise typer.Exit(130)
    if status == "budget" and first:  # an MPI may end the other ranks as soon as one has ended with a code
        raise typer.Exit(not_converged.EXIT_CODE)


def _warn_if_unfinished(model: Model) -> None:
    """One line to standard error about a model that did not converge, in place of Python's warning."""
    if sentence := not_converged.of_model(model.facts):
        from sklearn.exceptions import ConvergenceWarning

        typer.echo(f"Warning: {sentence}", err=True)
        warnings.simplefilter("ignore", ConvergenceWarning)


def write_page(model: Model, out: Path) -> Path:
    """Write the page of a table's model."""
    from dsba.cli.lab import command_line
    from dsba.tables.page import model_page
    from dsba.tables.results import Results

    with replacing(out / PAGE) as stream:
        stream.write(model_page(Results(model), command_line()).encode())
    return out / PAGE


def _network(settings: Settings, n_nodes: int, timeout: float) -> MPINetwork | None:
    """An MPI network where mpiexec started this process, else None."""
    from dsba.network.mpi import WORLD_SIZES, MPINetwork

    if not any(name in os.environ for name in WORLD_SIZES):
        return None
    return MPINetwork(settings.topology(n_nodes), timeout=timeout)


def _line_printer() -> Callable[[dict[str, float]], None]:
    shown = time.monotonic()

    def show(record: dict[str, float]) -> None:
        nonlocal shown
        if time.monotonic() - shown >= LINE_EVERY:
            shown = time.monotonic()
            typer.echo(f"{record['passes']:8.1f} passes   residual {record['residual']:.1e}")

    return show


def _together(work: Callable[[], None]) -> None:
    """Under MPI, an error at one rank ends all of them, with its sentence; an unforeseen one with its trace."""
    try:
        work()
    except typer.Exit:
        raise
    except BaseException as error:
        if not isinstance(error, (InputError, NetworkError, OSError, KeyboardInterrupt)):
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


def summary(
    model: Annotated[Path, typer.Argument(help="The folder that `dsba train` wrote.")],
    plain: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The coefficients of a table's model, with standard errors and intervals."""
    import json

    from rich.console import Console

    from dsba.tables.results import Results

    results = Results.load(model)
    if plain:
        typer.echo(json.dumps(results.plain(), indent=2))
    else:
        Console().print(results.summary(), crop=False)


def predict(
    model: Annotated[Path, typer.Argument(help="The folder that `dsba train` wrote.")],
    file: Annotated[Path, typer.Argument(help="A table or a LIBSVM file, whichever the model was trained on.")],
    out: Annotated[Path | None, typer.Option(help="File for the predictions; printed if not given.")] = None,
    label: Annotated[bool, of_tables("--label", help="Classes instead of probabilities.")] = False,
    proba: Annotated[bool, of_tables("--proba", help="Probabilities; the default for classes.")] = False,
    keep: Annotated[list[str] | None, of_tables(help="Columns to copy beside the predictions.")] = None,
) -> None:
    """Predict with a trained model.

    From tables the mean response of each row, as CSV; from LIBSVM files one label, number or (for AUC) score per line.
    """
    from dsba.fitting import Model

    known = Model.load(model)
    _warn_if_unfinished(known)
    if label and proba:
        raise InputError("give either --label or --proba.")
    if "table" in known.facts:
        text = _table_predictions(known, file, label, keep or [])
    elif label or proba or keep:
        raise InputError("--label, --proba and --keep are for models of tables, and this one is of LIBSVM files.")
    else:
        text = _libsvm_predictions(known, file)
    if out is None:
        typer.echo(text, nl=False)
        return
    with replacing(out) as stream:
        stream.write(text.encode())


def evaluate(
    model: Annotated[Path, typer.Argument(help="The folder that `dsba train` wrote.")],
    files: Annotated[list[Path], typer.Argument(help="Tables with outcomes, one per site; each rank opens its own.")],
    plain: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: Annotated[Path | None, typer.Option(help="An SVG file for the calibration of all sites.")] = None,
    graph: Annotated[str, typer.Option(help="Who talks to whom: path, ring, ..., or an edge list.")] = "path",
    allow_two_sites: TwoSites = False,
    no_guards: NoGuards = False,
    timeout: Annotated[float, typer.Option(help="Seconds after which a silent rank ends the run.")] = 300.0,
) -> None:
    """How well a table's model predicts: AUC, log loss, calibration, deviance or R², per site and over all sites.

    Under mpiexec no rank reads another's files, and only sums travel. A site's figures are printed by its own rank.
    """
    _together(
        lambda: _evaluate(
            model, files, plain, plot, Settings(graph=graph), _guards(allow_two_sites, no_guards), timeout
        )
    )


def _evaluate(
    folder: Path, files: list[Path], plain: bool, plot: Path | None, settings: Settings, guards: Guards, timeout: float
) -> None:
    import json

    from dsba.network import Simulator
    from dsba.tables.evaluation import sentences
    from dsba.tables.fit import evaluate_files
    from dsba.tables.results import Results

    network = _network(settings, len(files), timeout) or Simulator(settings.topology(len(files)))
    results, first = Results.load(folder), network.rank == 0
    if first:
        _warn_if_unfinished(results.model)
    found = evaluate_files(results, files, network, guards)
    if plot is not None and first:
        _plot(found.pooled, plot)
    if plain:
        if first:
            typer.echo(json.dumps(found.plain(), indent=2))
        return
    for site, measures in found.sites.items():
        typer.echo(sentences(site, measures))
    if first:
        typer.echo(sentences("All sites", found.pooled))
        for group in found.pooled.get("calibration", ()):
            bounds = f"{group['low']:.1f} to {group['high']:.1f}"
            typer.echo(f"  predicted {bounds}: {group['rows']:,} rows, mean {group['predicted']:.3f}, "
                       f"events {group['observed']:.3f}")  # fmt: skip


def _plot(pooled: dict[str, Any], file: Path) -> None:
    from dsba.tables.page import standalone

    if "calibration" not in pooled:
        raise InputError("only a model of probabilities has a calibration to plot.")
    with replacing(file) as stream:
        stream.write(standalone(pooled["calibration"]).encode())


def _table_predictions(model: Model, file: Path, label: bool, keep: list[str]) -> str:
    from dsba.data.table_files import TableFile
    from dsba.tables.results import Results

    results, source = Results(model), TableFile(file)
    wishes = results.schema.wishes
    wanted = [name for name in (*wishes.formula.columns, *wishes.extras) if name in source.names]
    kept, table = source.texts(keep), source.read(wanted, codes=wishes.formula.factors)
    found = kept.assign(prediction=results.predict(table, labels=label, name=file.name.partition(".")[0]))
    return found.to_csv(index=False)


def _libsvm_predictions(model: Model, file: Path) -> str:
    from dsba import data
    from dsba.data.table_files import is_table

    if file.is_file() and is_table(file):
        raise InputError(f"{file} is a table with column names, and the model was trained on LIBSVM files.")
    X, _ = data.load_libsvm(file, n_features=model.n_features, zero_based=model.facts.get("zero_based", "auto"))
    return "".join(f"{_plain(value)}\n" for value in model.predict(X))


def _plain(value: Any) -> str:
    return f"{value:.17g}" if isinstance(value, float) else str(value)
