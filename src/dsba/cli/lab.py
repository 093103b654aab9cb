"""The commands ``dsba reproduce``, ``compare``, ``tune`` and ``report``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dsba._system.signals import ending_like_ctrl_c
from dsba.cli.options import Command, Commands, Json, completing, echo_json
from dsba.data.sources import TableSource
from dsba.errors import InputError
from dsba.lab.executors import EXECUTORS

if TYPE_CHECKING:
    from dsba.lab import Experiment, ExperimentResults


def data_names(incomplete: str) -> list[str]:
    """For the shell: the data sets with a name."""
    from dsba.data import EMBEDDED, registry

    return completing([*EMBEDDED, *registry.REGISTRY])(incomplete)


def problem_names(incomplete: str) -> list[str]:
    """For the shell: the problems of the paper."""
    from dsba.lab.paper_experiments import PROBLEMS

    return completing(PROBLEMS)(incomplete)


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
ExecutorName = Annotated[
    str, typer.Option(help="Where jobs are done: processes, or slurm (arrays).", autocompletion=completing(EXECUTORS))
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port for --live; 0 takes a free one.")]
DataNames = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        help="An embedded set, a name in $DSBA_DATA, a fetched one, or a file; repeat for several.",
        autocompletion=data_names,
    ),
]
ProblemNames = Annotated[
    list[str] | None,
    typer.Option("--problem", help="ridge, logistic, auc; repeat for several.", autocompletion=problem_names),
]
Passes = Annotated[float, typer.Option(help="Passes over the data per run.")]
GapTol = Annotated[float | None, typer.Option(help="Stop a run at this relative gap.")]
TunePasses = Annotated[float | None, typer.Option(help="Passes of the first round of the search.")]
Seeds = Annotated[list[int] | None, typer.Option("--seed", help="Seeds; with several, medians and bands are shown.")]


USUAL_PASSES = 60
STOPPED = "\nStopped. Finished runs are kept; the same command goes on from here."
ALL_METHODS = "all"  # what --force without a method means


class Forcing(Command):
    """A command whose --force may stand alone or name a method."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        full = []
        for place, argument in enumerate(args):
            following = args[place + 1] if place + 1 < len(args) else "-"
            alone = following.startswith("-") or following.endswith(".toml")
            full += [argument, ALL_METHODS] if argument == "--force" and alone else [argument]
        return super().parse_args(ctx, full)


lab = Commands()


@lab.command(
    cls=Forcing,
    epilog="Examples:  `dsba reproduce`,  `dsba reproduce --data news20.binary --data a9a --gap-tol 1e-6 --out text`",
)
def reproduce(
    out: Out = Path("results"),
    data: DataNames = None,
    problem: ProblemNames = None,
    max_passes: Passes = USUAL_PASSES,
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
    _run(_paper(data, problem, **budgets, seeds=seed or (0,)), out, _options(workers, force), live, port)


@lab.command(cls=Forcing, epilog="Examples:  `dsba compare --example > mine.toml`,  `dsba compare mine.toml --live`")
def compare(
    file: Annotated[Path | None, typer.Argument(help="The experiment, a TOML file.")] = None,
    out: Out = Path("results"),
    workers: Workers = None,
    force: Force = None,
    plugin: Plugins = None,
    live: LiveOption = False,
    port: Port = 0,
    executor: ExecutorName = "processes",
    example: Annotated[
        bool, typer.Option("--example", help="Print a commented experiment file, and nothing else.")
    ] = False,
    plain: Json = False,
) -> None:
    """Any comparison: methods, problems, data, splits, networks and seeds from a file."""
    if example:
        from dsba.lab.example import EXAMPLE

        typer.echo(EXAMPLE, nl=False)
    elif file is None:
        raise InputError("compare needs an experiment file; `dsba compare --example` prints one.")
    else:
        options = _options(workers, force) | {"progress": not plain, "executor": executor}
        _run(read_allowed(file, plugin), out, options, live, port, file.parent, plain)


@lab.command(cls=Forcing, epilog="Examples:  `dsba tune mine.toml`,  `dsba tune --data breast-cancer --problem ridge`")
def tune(
    file: Annotated[Path | None, typer.Argument(help="An experiment; without it, the paper's.")] = None,
    out: Out = Path("results"),
    data: DataNames = None,
    problem: ProblemNames = None,
    method: Annotated[list[str] | None, typer.Option(help="Only these methods, by their labels.")] = None,
    max_passes: Annotated[
        float | None, typer.Option(help="Passes over the data per run.", show_default=str(USUAL_PASSES))
    ] = None,
    tune_passes: TunePasses = None,
    workers: Workers = None,
    force: Force = None,
    plugin: Plugins = None,
) -> None:
    """The step-size search by itself: successive halving over each method's grid, its table saved."""
    from dsba.lab import run
    from dsba.lab.runner import check

    budgets, methods = {"max_passes": max_passes, "tune_passes": tune_passes}, _split(method)
    if file is None:
        experiment = _paper(data, problem, **budgets | {"max_passes": max_passes or USUAL_PASSES})
    elif odd := [name for name, value in ({"data": data, "problem": problem} | budgets).items() if value is not None]:
        raise InputError(f"--{odd[0].replace('_', '-')} is for the paper's experiment, and {file} has its own.")
    else:
        experiment = read_allowed(file, plugin)
    plan = replace(check(experiment, methods), place=file.parent if file else Path())
    for sentence in plan.left_out:
        typer.echo(sentence)
    with stoppable(STOPPED):
        results = run(plan, out, tune_only=methods or True, **_options(workers, force))
    rows = [
        [c["data"], c["problem"], c["method"], c["parameters"], f"{c['factor']:.3g}",
         "diverged" if c["value"] is None else f"{c['metric']} {c['value']:.1e}"]
        for c in results.tuning() if c["chosen"]
    ]  # fmt: skip
    print_table("Step sizes", ["data", "problem", "method", "chosen", "times auto", "reached"], rows)
    _print_end(results, f"Table: {(out / 'tuning.csv').resolve()}")


@lab.command(epilog="Example:  `dsba report results`")
def report(folder: Annotated[Path, typer.Argument(help="A results folder.")]) -> None:
    """Rebuild figures, tables and page from saved results only."""
    from dsba.lab import ExperimentResults

    results = ExperimentResults.load(folder)
    results.report()
    print_winners(results)
    _print_end(results, f"Page: {results.page.resolve()}")


def _paper(data: Sequence[str] | None, problem: Sequence[str] | None, **options: Any) -> Experiment:
    from dsba.lab.paper_experiments import DATA, PROBLEMS, paper

    return paper(_split(data) or DATA, _split(problem) or PROBLEMS, **options)


def read_allowed(file: Path, allowed: Sequence[str] | None) -> Experiment:
    """The experiment in a file; code that it names is run only if it was named on the command line or confirmed."""
    from dsba.lab.reading import read
    from dsba.storage.plugins import code_of

    def place(code: str) -> str:
        return str(Path(code).resolve()) if code.endswith(".py") else code

    def allow(names: list[str]) -> None:
        for code in dict.fromkeys(map(code_of, names)):
            if place(code) in map(place, allowed or ()):
                continue
            if not (sys.stdin.isatty() and typer.confirm(f"{file} names code in {code}. Run it?")):
                raise InputError(f"{file} names code that dsba would run: say --plugin {code} if you trust it.")

    return read(file, allow)


def _run(
    experiment: Experiment, out: Path, options: dict[str, Any], live: bool, port: int, place: Path = Path(),
    plain: bool = False,
) -> None:  # fmt: skip
    """Run and show an experiment whose file is in ``place``; ``plain``: standard output has JSON and nothing else."""
    from dsba.lab import run
    from dsba.lab.runner import check

    plan = replace(check(experiment), place=place)
    for sentence in plan.left_out:
        typer.echo(sentence, err=plain)
    with stoppable(STOPPED), ExitStack() as stack:
        if live:
            from dsba.lab.live import Live

            server = stack.enter_context(Live(out, port))
            typer.echo(f"Live: {server.address}", err=plain)
            options["on_record"] = server.record
        results = run(plan, out, **options)
    if plain:
        about = {"left_out": plan.left_out, "winners": results.winners(), "warnings": results.warnings()}
        echo_json(about | {"summary": results.folder.summary.resolve(), "page": results.page.resolve()})
    else:
        print_winners(results)
        _print_end(results, f"Page: {results.page.resolve()}")


def _options(workers: int | None, force: Sequence[str] | None) -> dict[str, Any]:
    forced = True if force and ALL_METHODS in force else list(force or ())
    return {"workers": workers, "force": forced, "progress": True, "command": command_line()}


def _print_end(results: ExperimentResults, last: str) -> None:
    for sentence in (*(f"Warning: {warning}" for warning in results.warnings()), last):
        typer.echo(sentence)


@contextmanager
def stoppable(sentence: str) -> Iterator[None]:
    """Ctrl-C, SIGTERM or SIGHUP: everything is on disk, so say how to go on."""
    try:
        with ending_like_ctrl_c():
            yield
    except KeyboardInterrupt:
        typer.echo(sentence, err=True)
        raise typer.Exit(130) from None


def command_line() -> str:
    """The command that was given, as one would type it. The URL of a database stands there without its user."""
    text = shlex.join(["dsba", *map(_without_user, sys.argv[1:])])
    return text.encode(errors="backslashreplace").decode()  # a name of a file need not be UTF-8


def _without_user(word: str) -> str:
    _, _, value = word.partition("=") if word.startswith("--") else ("", "", word)
    source = TableSource(value)
    return word.removesuffix(value) + str(source) if source.is_database else word


def _split(values: Sequence[str] | None) -> list[str]:
    return [part for value in values or () for part in value.split(",") if part]


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> None:
    """A table on the terminal; the columns ``numbers`` end flush."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))  # labels are people's own words: no markup in them
    console = Console()
    console.width = max(console.width, 110)  # a log file is not 80 columns wide
    console.print(table)


def print_winners(results: ExperimentResults) -> None:
    """Who reached a tolerance at the least cost, and where that is not decided."""
    from dsba.lab.curves import DECIDING, SHORT

    winners = results.winners()
    keys = ["data", "problem", *(key for key in ("network", "split") if len({w[key] for w in winners}) > 1)]
    rows, undecided = [], []
    for w in winners:
        case = [w[key] for key in keys]
        if w["tolerance"] is None:
            rows.append([*case, f"{w['metric']} {w['final']:.0e}", f"undecided: {w['nearest']} is nearest", "", ""])
            continue
        target = f"{w['metric']} {w['tolerance']:.0e}"
        rows.append([*case, target, *(w[cost] for cost in DECIDING)])
        for cost in DECIDING:
            if stopped := ", ".join(w["stopped"][cost]):
                alone = len(w["reached"]) == 1
                leads = f"only {w['reached'][0]} reached" if alone else f"{w['leading'][cost]} leads to"
                undecided.append(f"{SHORT[cost]}: {leads} {target}, {stopped} ran out of budget ({', '.join(case)}).")
    print_table("Winners", [*keys, "to reach", *(SHORT[cost] for cost in DECIDING)], rows)
    for sentence in undecided:
        typer.echo(f"Undecided in {sentence}")
