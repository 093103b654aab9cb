"""The command line: a thin shell that validates, explains, and ends with an exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dsba._version import __version__
from dsba.errors import InputError

app = typer.Typer(
    help="Decentralised learning: data at N nodes, no server, one model.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dsba {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command(epilog="Example:  `dsba demo --out figures`")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("demo"),
    max_passes: Annotated[float, typer.Option(help="Passes over the data per run.")] = 60,
) -> None:
    """Compare DSBA with DSA for ridge, logistic and AUC on embedded data, and draw the paper's figures."""
    from dsba.experiments.demo import run_demo

    out.mkdir(parents=True, exist_ok=True)  # an error now rather than after the runs
    paths = run_demo(out, max_passes, typer.echo)
    typer.echo("\nFigures:")
    for path in paths:
        typer.echo(f"  {path.resolve()}")


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2."""
    try:
        app()
    except InputError as error:
        typer.echo(f"Error: {error}", err=True)
        sys.exit(2)
    except OSError as error:
        typer.echo(f"Error: {error.filename or ''}: {error.strerror or error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
