"""The commands ``dsba data list``, ``fetch`` and ``info``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dsba.data import IndexRange

data_app = typer.Typer(no_args_is_help=True, help="Data sets: what is known, what is here, what is in a file.")


def register(parent: typer.Typer) -> None:
    """Add these commands."""
    parent.add_typer(data_app, name="data")


@data_app.command("list", epilog="Example:  `dsba data list`")
def list_sets() -> None:
    """The registered data sets, and where their files are."""
    from rich.console import Console
    from rich.table import Table

    from dsba.data import EMBEDDED, registry

    table = Table(title="Data sets; the paper's are the first three", title_justify="left")
    for column in ("name", "rows", "columns", "classes"):
        table.add_column(column, justify="left" if column == "name" else "right")
    table.add_column("checksum")
    table.add_column("file, or address below LIBSVM's", overflow="fold")
    for name, entry in registry.REGISTRY.items():
        shape = (f"{entry.rows:,}", f"{entry.columns:,}", str(entry.classes))
        kind = (entry.checksum or "bzip2's").partition(":")[0]
        table.add_row(name, *shape, kind, _where(name) or entry.path)
    for name in EMBEDDED:
        table.add_row(name, "", "", "2", "", "embedded")
    console = Console()
    console.width = max(console.width, 110)
    console.print(table)
    typer.echo(f"LIBSVM: {registry.LIBSVM}")
    typer.echo("Checksum bzip2's: nobody published one of the file; those that bzip2 keeps of its blocks are checked.")


@data_app.command(epilog="Examples:  `dsba data fetch a9a`,  `dsba data fetch w8a --mirror http://10.0.0.7/libsvm`")
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Registered data sets.")],
    mirror: Annotated[list[str] | None, typer.Option(help="An address to try first; also $DSBA_MIRROR.")] = None,
) -> None:
    """Download data sets into the cache; those that are here already are left alone."""
    for name in names:
        typer.echo(f"{name}: {_fetch(name, mirror or [])}")


@data_app.command(epilog="Example:  `dsba data info a9a`")
def info(file: Annotated[str, typer.Argument(help="A LIBSVM file, or a name.")]) -> None:
    """What is in a file: its shape, labels, empty rows, checksum, and whether it is the registered one."""
    import numpy as np

    from dsba import data
    from dsba.data import registry
    from dsba.data.fetch import checksum
    from dsba.data.libsvm import find_file

    path = None if file in data.EMBEDDED else find_file(file, embedded=data.EMBEDDED)
    X, y = data.load(file)
    values, counts = np.unique(y, return_counts=True)
    labels = ", ".join(f"{v:g} ({c:,})" for v, c in zip(values[:20], counts[:20], strict=True))
    lines = {
        "file": path or "embedded",
        "rows x columns": f"{X.shape[0]:,} x {X.shape[1]:,}",
        "nonzeros": f"{X.nnz:,} ({X.nnz / X.shape[0]:.1f} a row)",
        "empty rows": f"{int((np.diff(X.indptr) == 0).sum()):,}",
        "labels": labels + (f", ... {values.size} in all" if values.size > 20 else ""),
    }
    if path is not None:
        lines["indices"] = _indices(data.index_range(path))
        lines["checksum"] = checksum(path)
    if known := registry.REGISTRY.get(file):
        same = X.shape == (known.rows, known.columns)
        findings = ["the shape agrees" if same else "THE SHAPE DIFFERS"]
        if path is not None and path.name == known.file and known.checksum:  # not for one packed in another way
            same = checksum(path, like=known.checksum) == known.checksum
            findings.append("the checksum agrees" if same else "THE CHECKSUM DIFFERS")
        lines["registered as"] = f"{known.title}, {known.rows:,} x {known.columns:,}: {', '.join(findings)}"
    for key, value in lines.items():
        typer.echo(f"{key:15s} {value}")


def _indices(seen: IndexRange) -> str:
    if seen.smallest is None:
        return "none"
    return f"{seen.smallest:,} to {seen.largest:,}; read as counted from {0 if seen.smallest == 0 else 1}"


def _fetch(name: str, mirrors: list[str]) -> Path:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from dsba.data.fetch import fetch as download

    with Progress(TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), transient=True) as bar:
        task = bar.add_task(name, total=None)
        return download(name, mirrors, progress=lambda here, total: bar.update(task, completed=here, total=total))


def _where(name: str) -> str | None:
    from dsba.data.libsvm import find_file
    from dsba.errors import InputError

    try:
        return str(find_file(name))
    except InputError:
        return None
