"""The command line: a thin shell that validates, explains, and ends with an exit code.

The commands are plain functions, a file for each family; they import what they need when they run.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated

import typer

from dsba._version import __version__
from dsba.cli import data, lab, study, train, verify
from dsba.cli.options import Commands
from dsba.errors import DsbaError

app = Commands(
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


for commands, name in (
    (lab.lab, None), (train.tables, None), (verify.verifying, None), (study.study, "study"), (data.data_app, "data"),
):  # fmt: skip
    app.add_typer(commands, name=name)


LONGEST_ERROR = 5000  # characters: a sentence may quote what another process sent


def main() -> None:
    """Run the command line; bad input ends with one sentence and exit code 2."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by what started the program
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that has no λ shows its number instead
    try:
        app()
    except DsbaError as error:
        sentence = "\n".join([str(error), *getattr(error, "__notes__", [])])
    except OSError as error:
        sentence = f"{error.filename or ''}: {error.strerror or error}"
    except MemoryError:
        sentence = "this takes more memory than there is here."
    typer.echo(f"Error: {sentence[:LONGEST_ERROR]}", err=True)
    sys.exit(2)
