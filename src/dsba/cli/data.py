"""The commands ``dsba data list``, ``fetch`` and ``info``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from dsba.cli.lab import data_names, print_table
from dsba.cli.options import Commands, Json, echo_json
from dsba.errors import InputError

data_app = Commands(no_args_is_help=True, help="Data sets: what is known, what is here, what is in a file.")


@data_app.command("list", epilog="Example:  `dsba data list`")
def list_sets(plain: Json = False) -> None:
    """The registered data sets, and where their files are."""
    from dsba.data import EMBEDDED, registry

    known = [_registered(name) for name in registry.REGISTRY]
    if plain:
        return echo_json({"embedded": list(EMBEDDED), "registered": known, "address": registry.LIBSVM})
    rows = [
        [one["name"], f"{one['rows']:,}", f"{one['columns']:,}", str(one["classes"]),
         (one["checksum"] or "bzip2's").partition(":")[0], one["file"] or one["path"]]
        for one in known
    ]  # fmt: skip
    rows += [[name, "", "", "2", "", "embedded"] for name in EMBEDDED]
    columns = ["name", "rows", "columns", "classes", "checksum", "file, or address below LIBSVM's"]
    print_table("Data sets; the paper's are the first three", columns, rows, columns[1:4])
    typer.echo(f"LIBSVM: {registry.LIBSVM}")
    typer.echo("Checksum bzip2's: the file's own was not published; those of its blocks are checked.")


def _registered(name: str) -> dict[str, Any]:
    """What the registry has of a data set, and its file where it is here."""
    from dsba.data import registry
    from dsba.data.libsvm import find_file

    entry, file = registry.REGISTRY[name], None
    with suppress(InputError):
        file = str(find_file(name))
    about = {key: getattr(entry, key) for key in ("rows", "columns", "classes", "checksum", "path")}
    return {"name": name, **about, "file": file}


@data_app.command(epilog="Examples:  `dsba data fetch a9a`,  `dsba data fetch w8a --mirror http://10.0.0.7/libsvm`")
def fetch(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Registered data sets.", autocompletion=data_names)
    ],
    mirror: Annotated[list[str] | None, typer.Option(help="An address to try first; also $DSBA_MIRROR.")] = None,
    plain: Json = False,
) -> None:
    """Download data sets into the cache; those that are here already are left alone."""
    from dsba.data import EMBEDDED

    files = {}
    for name in names:
        files[name] = None if name in EMBEDDED else _fetch(name, mirror or [])
        if not plain:
            typer.echo(f"{name}: {files[name] or 'embedded, needs no file'}")
    if plain:
        echo_json(files)


@data_app.command(epilog="Example:  `dsba data info a9a`")
def info(
    file: Annotated[str, typer.Argument(help="A LIBSVM file, or a name.", autocompletion=data_names)],
    plain: Json = False,
) -> None:
    """What is in a file: its shape, labels, empty rows, checksum, and whether it is the registered one."""
    found = _content(file)
    if plain:
        return echo_json(found)
    rows, counts = found["rows"], found["labels"]
    labels = ", ".join(f"{value} ({count:,})" for value, count in list(counts.items())[:20])
    lines = {
        "file": found["file"] or "embedded",
        "rows x columns": f"{rows:,} x {found['columns']:,}",
        "nonzeros": f"{found['nonzeros']:,} ({found['nonzeros'] / rows:.1f} a row)",
        "empty rows": f"{found['empty_rows']:,}",
        "labels": labels + (f", ... {len(counts)} in all" if len(counts) > 20 else ""),
    }
    if found["file"]:
        least, largest = found["indices"]
        counted = f"{least:,} to {largest:,}; read as counted from {min(least, 1)}" if least is not None else "none"
        lines |= {"indices": counted, "checksum": found["checksum"]}
    if known := found["registered"]:
        same = {"shape": known["same_shape"], "checksum": known["same_checksum"]}
        agree = [f"the {what} agrees" if fine else f"THE {what.upper()} DIFFERS" for what, fine in same.items()
                 if fine is not None]  # fmt: skip
        shape = f"{known['rows']:,} x {known['columns']:,}"
        lines["registered as"] = f"{known['title']}, {shape}: {', '.join(agree)}"
    for key, value in lines.items():
        typer.echo(f"{key:15s} {value}")


def _content(file: str) -> dict[str, Any]:
    """What is in a file or an embedded set, and beside the registered one of its name."""
    import numpy as np

    from dsba import data
    from dsba.data.fetch import checksum
    from dsba.data.libsvm import find_file

    try:
        path = None if file in data.EMBEDDED else find_file(file, embedded=data.EMBEDDED)
    except InputError as error:
        raise InputError(f"{error} (`dsba data list` shows the known names).") from None
    X, y = data.load(file)
    values, counts = (array.tolist() for array in np.unique(y, return_counts=True))
    return {
        "file": path and str(path), "rows": X.shape[0], "columns": X.shape[1], "nonzeros": int(X.nnz),
        "empty_rows": int((np.diff(X.indptr) == 0).sum()),
        "labels": {repr(value).removesuffix(".0"): count for value, count in zip(values, counts, strict=True)},
        "indices": path and data.index_range(path), "checksum": path and checksum(path),
        "registered": _beside_registered(file, path, X.shape),
    }  # fmt: skip


def _beside_registered(name: str, path: Path | None, shape: tuple[int, int]) -> dict[str, Any] | None:
    """What the registry has of this name, and whether the file agrees; None for other names."""
    from dsba.data import registry
    from dsba.data.fetch import checksum

    known = registry.REGISTRY.get(name)
    if known is None:
        return None
    same = None
    if path is not None and path.name == known.file and known.checksum:  # not for one packed in another way
        same = checksum(path, like=known.checksum) == known.checksum
    return {
        "title": known.title, "rows": known.rows, "columns": known.columns,
        "same_shape": shape == (known.rows, known.columns),
        "same_checksum": same,
    }  # fmt: skip


def _fetch(name: str, mirrors: list[str]) -> Path:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from dsba.data.fetch import fetch as download

    with Progress(TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), transient=True) as bar:
        task = bar.add_task(name, total=None)
        return download(name, mirrors, progress=lambda here, total: bar.update(task, completed=here, total=total))
