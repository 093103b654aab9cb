"""The command ``dsba demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


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
