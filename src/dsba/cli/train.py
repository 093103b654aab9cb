"""The commands ``dsba train`` and ``dsba predict``."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsba.errors import InputError, NetworkError
from dsba.fitting import first_models
from dsba.fitting.model import FILE
from dsba.fitting.settings import Settings
from dsba.folders import owned

if TYPE_CHECKING:
    from dsba.network import MPINetwork

DEFAULTS = Settings()
MARKER = ".dsba-train"
PASS_ON = 0.5  # seconds for a launcher to pass on what a rank said, before it ends all of them
LINE_EVERY = 2.0  # seconds between lines of progress where there is no terminal

TRAIN_EXAMPLES = """Examples:

`dsba train site0.svm site1.svm site2.svm --operator logistic --graph ring`

`mpiexec -n 3 dsba train site0.svm site1.svm site2.svm --graph ring --communication cached --out run`
"""
PREDICT_EXAMPLES = "Example:  `dsba predict run new.svm > labels.txt`"


def register(app: typer.Typer) -> None:
    app.command(epilog=TRAIN_EXAMPLES)(train)
    app.command(epilog=PREDICT_EXAMPLES)(predict)


def train(
    files: Annotated[list[Path], typer.Argument(help="LIBSVM files, one per node; each rank opens only its own.")],
    operator: Annotated[str, typer.Option(help="ridge, logistic, auc, ..., or my_loss.py:Class.")] = "logistic",
    lam: Annotated[float | None, typer.Option(help="Regularisation; 1/(10 Q) if not given.")] = DEFAULTS.lam,
    intercept: Annotated[bool, typer.Option(help="Fit an intercept, which is not regularised.")] = DEFAULTS.intercept,
    n_features: Annotated[
        int | None, typer.Option(help="Columns; needed where the files do not all have the same number.")
    ] = None,
    zero_based: Annotated[
        bool | None,
        typer.Option("--zero-based/--one-based", help="What columns count from; 0 if any file has an index 0."),
    ] = None,
    normalize: Annotated[bool, typer.Option(help="Scale every row to norm 1.")] = DEFAULTS.normalize,
    graph: Annotated[str, typer.Option(help="random, random:0.4, ring, ..., or an edge list.")] = DEFAULTS.graph,
    mixing: Annotated[str, typer.Option(help="laplacian or metropolis.")] = DEFAULTS.mixing,
    algorithm: Annotated[str, typer.Option(help="dsba, dsa, extra, ..., or mine.py:Class.")] = "dsba",
    communication: Annotated[
        str | None, typer.Option(help="dense, sparse or cached (dsba, dsa).")
    ] = DEFAULTS.communication,
    step_size: Annotated[str, typer.Option(help="A number, or a rule's name.")] = "auto",
    max_passes: Annotated[float, typer.Option(help="Passes over the data, at most.")] = DEFAULTS.max_passes,
    tol: Annotated[float, typer.Option(help="Stop at this relative residual.")] = DEFAULTS.tol,
    seed: Annotated[int, typer.Option(help="Of samples and of a random graph.")] = DEFAULTS.seed,
    out: Annotated[Path, typer.Option(help="Folder for the model.")] = Path("run"),
    checkpoint: Annotated[Path | None, typer.Option(help="Checkpoint file; OUT/checkpoint if not given.")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds after which a silent rank ends the run.")] = 300.0,
) -> None:  # fmt: skip
    """Train one model from data at several sites. The same command goes on where it was stopped.

    Under mpiexec the nodes are spread over the ranks, and no rank reads another's files.
    """
    try:
        step: float | str = float(step_size)
    except ValueError:
        step = step_size
    settings = Settings(
        operator, lam, intercept, graph, mixing, algorithm, communication, step, max_passes, tol, seed, normalize
    )  # fmt: skip
    layout = {"n_features": n_features, "zero_based": zero_based}
    _together(lambda: _train(files, settings, layout, out, checkpoint, timeout))


def _train(
    files: list[Path], settings: Settings, layout: dict[str, Any], out: Path, checkpoint: Path | None, timeout: float
) -> None:
    from dsba.fitting import train as run

    network = _network(settings, len(files), timeout)
    first = network is None or network.rank == 0
    with ExitStack() as stack:
        if first:
            stack.enter_context(owned(out, MARKER, known=first_models.is_one))
        if network:
            network.share(None)  # the others come to the folder when it is marked
        if not first:
            stack.enter_context(owned(out, MARKER, known=first_models.is_one, lock=False))
        work = partial(run, files, settings, network=network, checkpoint=checkpoint or out / "checkpoint", **layout)
        _save(work, out, first)


def _save(work: Callable[..., Any], out: Path, first: bool) -> None:
    """Train, tell how it went, and save the model; the first process does the talking and the saving."""
    terminal = sys.stdout.isatty()
    lines = [_line_printer()] if first and not terminal else []
    model, result = work(progress=terminal, callbacks=lines, **({"tell": typer.echo} if first else {}))
    if result.status == "diverged":
        raise InputError(f"no model was saved: {result.message}.")
    if first:
        model.save(out)
        typer.echo(f"{result.status}: {result.message}.")
        typer.echo(f"Model of {model.facts['nodes']} nodes: {out / FILE}")
    if result.status == "interrupted":
        raise typer.Exit(130)


def _network(settings: Settings, n_nodes: int, timeout: float) -> MPINetwork | None:
    """An MPI network where mpiexec started this process, else None."""
    from dsba.network.mpi import WORLD_SIZES, MPINetwork
    from dsba.topology import Topology

    if not any(name in os.environ for name in WORLD_SIZES):
        return None
    topology = Topology.of(settings.graph, n_nodes, seed=settings.seed, mixing=settings.mixing)
    return MPINetwork(topology, timeout=timeout)


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
        if not isinstance(error, (InputError, NetworkError, OSError)):
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


def predict(
    model: Annotated[Path, typer.Argument(help="The folder that `dsba train` wrote.")],
    file: Annotated[Path, typer.Argument(help="A LIBSVM file.")],
    out: Annotated[Path | None, typer.Option(help="File for the predictions; printed if not given.")] = None,
) -> None:
    """Predict with a trained model: one label, number or (for AUC) score per line."""
    from dsba import data
    from dsba.fitting import Model

    known = Model.load(model)
    X, _ = data.load_libsvm(file, n_features=known.n_features, zero_based=known.facts.get("zero_based", "auto"))
    text = "".join(f"{_plain(value)}\n" for value in known.predict(X))
    if out is None:
        typer.echo(text, nl=False)
    else:
        out.write_text(text)


def _plain(value: Any) -> str:
    return f"{value:.17g}" if isinstance(value, float) else str(value)
