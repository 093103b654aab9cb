"""The commands ``dsba reproduce``, ``compare``, ``tune`` and ``report``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from dsba._system.signals import ending_like_ctrl_c
from dsba.errors import InputError

if TYPE_CHECKING:
    from dsba.lab import Experiment, ExperimentResults
    from dsba.lab.plan import Plan

Out = Annotated[Path, typer.Option(help="The results folder; finished runs in it are not repeated.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Processes; by default one per core.")]
Force = Annotated[
    list[str] | None,
    typer.Option(
        "--force", metavar="[METHOD]",
        help="Start anew: all, or only the method with this label; repeat for several methods.",
    ),
]  # fmt: skip
Plugins = Annotated[
    list[str] | None,
    typer.Option("--plugin", help="A file (or module) of your own that the experiment may run; repeat for several."),
]
LiveOption = Annotated[bool, typer.Option("--live", help="Serve the page on localhost while runs go on.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port for --live; 0 takes a free one.")]
DataNames = Annotated[
    list[str] | None,
    typer.Option("--data", help="An embedded set, a name in $DSBA_DATA, a fetched one, or a file; repeat for several."),
]
ProblemNames = Annotated[list[str] | None, typer.Option("--problem", help="ridge, logistic, auc; repeat for several.")]
Passes = Annotated[float, typer.Option(help="Passes over the data per run.")]
GapTol = Annotated[float | None, typer.Option(help="Stop a run at this relative gap.")]
TunePasses = Annotated[float | None, typer.Option(help="Passes of the last round of the step-size search.")]
Seeds = Annotated[list[int] | None, typer.Option("--seed", help="Seeds; with several, medians and bands are shown.")]


CURRENCIES = {"passes": "passes", "doubles_max": "DOUBLEs", "seconds": "seconds"}  # of the table of winners
ALL_METHODS = "all"  # what --force without a method means


class Forcing(TyperCommand):
    """A command whose --force may stand alone or name a method."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        full = []
        for place, argument in enumerate(args):
            following = args[place + 1] if place + 1 < len(args) else "-"
            alone = following.startswith("-") or following.endswith(".toml")
            full += [argument, ALL_METHODS] if argument == "--force" and alone else [argument]
        return super().parse_args(ctx, full)


def register(app: typer.Typer) -> None:
    """Add these commands."""
    example = "Examples:  `dsba reproduce`,  `dsba reproduce --data news20.binary --data a9a --gap-tol 1e-6 --out text`"
    app.command(epilog=example, cls=Forcing)(reproduce)
    app.command(
        epilog="Examples:  `dsba compare --example > mine.toml`,  `dsba compare mine.toml --live`", cls=Forcing
    )(compare)
    app.command(
        epilog="Examples:  `dsba tune mine.toml`,  `dsba tune --data breast-cancer --problem ridge`", cls=Forcing
    )(tune)
    app.command(epilog="Example:  `dsba report results`")(report)


def reproduce(
    out: Out = Path("results"),
    data: DataNames = None,
    problem: ProblemNames = None,
    max_passes: Passes = 60,
    gap_tol: GapTol = None,
    tune_passes: TunePasses = None,
    seed: Seeds = None,
    workers: Workers = None,
    force: Force = None,
    live: LiveOption = False,
    port: Port = 0,
) -> None:
    """The paper's numerical experiments: three problems, every method tuned, figures and a page."""
    budgets = {"max_passes": max_passes, "gap_tol": gap_tol, "tune_passes": tune_passes}
    experiment = _paper(data, problem, **budgets, seeds=seed or (0,))
    _run(_planned(experiment), out, workers, force, live, port)


def compare(
    file: Annotated[Path | None, typer.Argument(help="The experiment, a TOML file.")] = None,
    out: Out = Path("results"),
    workers: Workers = None,
    force: Force = None,
    plugin: Plugins = None,
    live: LiveOption = False,
    port: Port = 0,
    example: Annotated[
        bool, typer.Option("--example", help="Print a commented experiment file, and nothing else.")
    ] = False,
) -> None:
    """Any comparison: methods, problems, data, splits, networks and seeds from a file."""
    if example:
        from dsba.lab.example import EXAMPLE

        typer.echo(EXAMPLE, nl=False)
        return
    if file is None:
        raise InputError("compare needs an experiment file; `dsba compare --example` prints one.")
    plan = replace(_planned(_read(file, plugin)), place=file.parent)
    _run(plan, out, workers, force, live, port)


def tune(
    file: Annotated[Path | None, typer.Argument(help="An experiment; without it, the paper's.")] = None,
    out: Out = Path("results"),
    data: DataNames = None,
    problem: ProblemNames = None,
    method: Annotated[list[str] | None, typer.Option(help="Only these methods, by their labels.")] = None,
    max_passes: Passes = 60,
    tune_passes: TunePasses = None,
    workers: Workers = None,
    force: Force = None,
    plugin: Plugins = None,
) -> None:
    """The step-size search by itself: successive halving over each method's grid, its table saved."""
    from dsba.lab import run

    experiment = _read(file, plugin) if file else _paper(data, problem, max_passes=max_passes, tune_passes=tune_passes)
    with _stoppable():
        results = run(experiment, out, tune_only=_split(method) or True, **_options(workers, force))
    _print_tuning(results)
    _print_warnings(results)
    typer.echo(f"Table: {(out / 'tuning.csv').resolve()}")


def report(folder: Annotated[Path, typer.Argument(help="A results folder.")]) -> None:
    """Rebuild figures, tables and page from saved results only."""
    from dsba.lab import ExperimentResults

    results = ExperimentResults.load(folder)
    results.report()
    _print_results(results)


def _paper(data: Sequence[str] | None, problem: Sequence[str] | None, **options: Any) -> Experiment:
    from dsba.lab.paper_experiments import DATA, PROBLEMS, paper

    return paper(_split(data) or DATA, _split(problem) or PROBLEMS, **options)


def _read(file: Path, allowed: Sequence[str] | None) -> Experiment:
    """The experiment in a file; code that it names is run only if it was named on the command line or confirmed."""
    from dsba.lab.reading import read
    from dsba.storage.plugins import code_of

    known = {_place(name) for name in allowed or ()}

    def allow(names: list[str]) -> None:
        for code in dict.fromkeys(map(code_of, names)):
            if _place(code) not in known and not _confirmed(file, code):
                raise InputError(f"{file} names code that dsba would run: say --plugin {code} if you trust it.")

    return read(file, allow)


def _place(code: str) -> str:
    return str(Path(code).resolve()) if code.endswith(".py") else code


def _confirmed(file: Path, code: str) -> bool:
    return sys.stdin.isatty() and typer.confirm(f"{file} names code in {code}. Run it?")


def _planned(experiment: Experiment) -> Plan:
    from dsba.lab.runner import check

    plan = check(experiment)
    for sentence in plan.left_out:
        typer.echo(sentence)
    return plan


def _run(plan: Plan, out: Path, workers: int | None, force: Sequence[str] | None, live: bool, port: int) -> None:
    from dsba.lab import run

    options = _options(workers, force)
    with _stoppable(), ExitStack() as stack:
        if live:
            from dsba.lab.live import Live as Server

            server = stack.enter_context(Server(out, port))
            typer.echo(f"Live: {server.address}")
            options["on_record"] = server.record
        results = run(plan, out, **options)
    _print_results(results)


def _options(workers: int | None, force: Sequence[str] | None) -> dict[str, Any]:
    forced = True if force and ALL_METHODS in force else list(force or ())
    return {"workers": workers, "force": forced, "progress": True, "command": command_line()}


def _print_results(results: ExperimentResults) -> None:
    _print_winners(results)
    _print_warnings(results)
    typer.echo(f"Page: {results.page.resolve()}")


@contextmanager
def _stoppable() -> Iterator[None]:
    """Ctrl-C, SIGTERM or SIGHUP: everything is on disk, so say how to go on."""
    try:
        with ending_like_ctrl_c():
            yield
    except KeyboardInterrupt:
        typer.echo("\nStopped. Finished runs are kept; the same command goes on from here.", err=True)
        raise typer.Exit(130) from None


def command_line() -> str:
    """The command that was given, as one would type it."""
    return shlex.join(["dsba", *sys.argv[1:]])


def _split(values: Sequence[str] | None) -> list[str]:
    return [part for value in values or () for part in value.split(",") if part]


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*map(Text, row))  # labels are people's own words: no markup in them
    console = Console()
    console.width = max(console.width, 100)  # a log file is not 80 columns wide
    console.print(table)


def _print_winners(results: ExperimentResults) -> None:
    winners = results.winners()
    keys = ["data", "problem", *(key for key in ("network", "split") if len({w[key] for w in winners}) > 1)]
    rows = []
    for w in winners:
        case = [w[key] for key in keys]
        if w["tolerance"] is None:
            rows.append([*case, f"{w['metric']} {w['final']:.0e}", f"undecided: {w['nearest']} is nearest", "", ""])
        else:
            costs = [w[cost] for cost in CURRENCIES]
            rows.append([*case, f"{w['metric']} {w['tolerance']:.0e}", *costs])
    _table("Winners", [*keys, "to reach", *CURRENCIES.values()], rows)
    for w in winners:
        for cost, name in CURRENCIES.items() if w["tolerance"] is not None else ():
            if stopped := w["stopped"][cost]:
                target = f"{w['metric']} {w['tolerance']:.0e}"
                leads = f"{w['leading'][cost]} leads to {target}"
                if len(w["reached"]) == 1:
                    leads = f"only {w['reached'][0]} reached {target}"
                where = ", ".join(str(w[key]) for key in keys)
                typer.echo(f"Undecided in {name}: {leads}, {', '.join(stopped)} ran out of budget ({where}).")


def _print_warnings(results: ExperimentResults) -> None:
    for sentence in results.warnings():
        typer.echo(f"Warning: {sentence}")


def _reached(candidate: Mapping[str, Any]) -> str:
    return "diverged" if candidate["value"] is None else f"{candidate['metric']} {candidate['value']:.1e}"


def _print_tuning(results: ExperimentResults) -> None:
    rows = [
        [t["data"], t["problem"], t["method"], t["parameters"], f"{t['factor']:.3g}", _reached(t)]
        for t in results.tuning()
        if t["chosen"]
    ]
    _table("Step sizes", ["data", "problem", "method", "chosen", "times auto", "reached"], rows)
