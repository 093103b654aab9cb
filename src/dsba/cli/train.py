"""The commands ``dsba train``, ``dsba summary``, ``dsba predict`` and ``dsba evaluate``."""

from __future__ import annotations

import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsba._system.signals import orderly_end
from dsba.cli.options import TABLE_PANEL, NoGuards, TwoSites, guards_of, with_fit_options
from dsba.engine.progress import LINE_EVERY
from dsba.engine.run import Status
from dsba.errors import DsbaError, InputError
from dsba.fitting import codec, not_converged
from dsba.fitting.codec import MODEL_FILE
from dsba.fitting.spec import FitSpec
from dsba.storage.atomic import replacing
from dsba.storage.folders import owned

if TYPE_CHECKING:
    from dsba.fitting.disclosure import Guards
    from dsba.fitting.model import FittedModel
    from dsba.network import MPINetwork

MARKER, PAGE = ".dsba-train", "report.html"
PASS_ON = 0.5  # seconds for a launcher to pass on what a rank said, before it ends all of them

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


of_tables = partial(typer.Option, rich_help_panel=TABLE_PANEL)


def register(app: typer.Typer) -> None:
    app.command(epilog=TRAIN_EXAMPLES)(train)
    app.command()(summary)
    app.command(epilog=PREDICT_EXAMPLES)(predict)
    app.command(epilog=EVALUATE_EXAMPLES)(evaluate)


@with_fit_options()
def train(
    files: Annotated[
        list[Path], typer.Argument(help="Tables or LIBSVM files, one per node; each rank opens only its own.")
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
    timeout: Annotated[float, typer.Option(help="Seconds after which a silent rank ends the run.")] = 300.0,
) -> None:
    """Train one model from data at several sites. The same command goes on where it was stopped.

    Under mpiexec the nodes are spread over the ranks, and no rank reads another's files. The exit code is 3 if the
    model was saved and the fit did not converge.
    """
    layout: dict[str, Any] = {"n_features": n_features, "zero_based": zero_based}
    if spec.of_tables and (odd := [name for name, value in layout.items() if value is not None]):
        raise InputError(f"--{odd[0].replace('_', '-')} is for LIBSVM files.")
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
        talk: dict[str, Any] = {"progress": sys.stdout.isatty()}
        if first:
            talk |= {"tell": typer.echo, "callbacks": [] if talk["progress"] else [_line_printer()]}
        options = {"network": network, "checkpoint": checkpoint or out / "checkpoint", **talk}
        if spec.of_tables:
            from dsba.tables import fit

            model = fit.train(files, spec, **options).model
        else:
            from dsba.fitting import train as train_arrays

            model, _ = train_arrays(files, spec, **layout, **options)
        _end_as(model, out, first)


def _end_as(model: FittedModel, out: Path, first: bool) -> None:
    """Save the model, say how it went, and end with its exit code; only the first process talks and saves."""
    status, message = model.run.status, model.run.message
    if status is Status.DIVERGED:
        raise InputError(f"no model was saved: {message}.")
    if first:
        codec.save(model, out)
        typer.echo(f"{status}: {message}." if status is not Status.BUDGET else not_converged.of_model(model))
        typer.echo(f"Model of {model.run.nodes} nodes: {out / MODEL_FILE}")
        if model.table is not None:
            typer.echo(f"Page: {write_page(model, out).resolve()}")
    if status is Status.INTERRUPTED:
        raise typer.Exit(130)
    if status is Status.BUDGET and first:  # an MPI may end the other ranks as soon as one has ended with a code
        raise typer.Exit(not_converged.EXIT_CODE)


def _warn_if_unfinished(model: FittedModel) -> None:
    """One line to standard error about a model that did not converge, in place of Python's warning."""
    if sentence := not_converged.of_model(model):
        from sklearn.exceptions import ConvergenceWarning

        typer.echo(f"Warning: {sentence}", err=True)
        warnings.simplefilter("ignore", ConvergenceWarning)


def write_page(model: FittedModel, out: Path) -> Path:
    """Write the page of a table's model."""
    from dsba.cli.lab import command_line
    from dsba.tables.page import model_page
    from dsba.tables.results import Results

    with replacing(out / PAGE) as stream:
        stream.write(model_page(Results(model), command_line()).encode())
    return out / PAGE


def _network(spec: FitSpec, n_nodes: int, timeout: float) -> MPINetwork | None:
    """An MPI network where mpiexec started this process, else None."""
    from dsba.network.mpi import WORLD_SIZES, MPINetwork

    if not any(name in os.environ for name in WORLD_SIZES):
        return None
    return MPINetwork(spec.topology(n_nodes), timeout=timeout)


def _line_printer() -> Callable[[dict[str, float]], None]:
    shown = time.monotonic()

    def show(record: dict[str, float]) -> None:
        nonlocal shown
        if time.monotonic() - shown >= LINE_EVERY:
            shown = time.monotonic()
            typer.echo(f"{record['passes']:8.1f} passes   residual {record['residual']:.1e}")

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
    known = codec.load(model)
    _warn_if_unfinished(known)
    if label and proba:
        raise InputError("give either --label or --proba.")
    if known.table is not None:
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
    with _together():
        _evaluate(model, files, plain, plot, FitSpec(graph=graph), guards_of(allow_two_sites, no_guards), timeout)


def _evaluate(
    folder: Path, files: list[Path], plain: bool, plot: Path | None, spec: FitSpec, guards: Guards, timeout: float
) -> None:
    import json

    from dsba.network import Simulator
    from dsba.tables.evaluation import sentences
    from dsba.tables.fit import evaluate_files
    from dsba.tables.results import Results

    network = _network(spec, len(files), timeout) or Simulator(spec.topology(len(files)))
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


def _table_predictions(model: FittedModel, file: Path, label: bool, keep: list[str]) -> str:
    from dsba.data.table_files import TableFile
    from dsba.tables.results import Results

    results, source = Results(model), TableFile(file)
    terms = results.needed
    wanted = [name for name in (*terms.formula.columns, *terms.extras) if name in source.names]
    kept, table = source.texts(keep), source.read(wanted, codes=terms.formula.factors)
    found = kept.assign(prediction=results.predict(table, labels=label, name=file.name.partition(".")[0]))
    return found.to_csv(index=False)


def _libsvm_predictions(model: FittedModel, file: Path) -> str:
    from dsba import data
    from dsba.data.table_files import is_table

    if file.is_file() and is_table(file):
        raise InputError(f"{file} is a table with column names, and the model was trained on LIBSVM files.")
    X, _ = data.load_libsvm(
        file, n_features=model.n_features, zero_based="auto" if model.zero_based is None else model.zero_based
    )
    return "".join(f"{_plain(value)}\n" for value in model.predict(X))


def _plain(value: Any) -> str:
    return f"{value:.17g}" if isinstance(value, float) else str(value)
