"""One model from LIBSVM files at several sites: what ``dsba train`` does, in one process or in several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dsba import data
from dsba.data.libsvm import IndexRange
from dsba.data.table_files import is_table
from dsba.engine.run import Callback, Result
from dsba.errors import InputError
from dsba.fitting.fit import Fit, carried_out, fit
from dsba.fitting.model import FittedModel
from dsba.fitting.rows import Rows, as_rows
from dsba.fitting.spec import FitSpec
from dsba.network import Alone, Group, require_agreement
from dsba.network.contract import TOTALS


def train(
    files: Sequence[Path],
    spec: FitSpec,
    *,
    n_features: int | None = None,
    zero_based: bool | None = None,
    tell: Callable[[str], object] = lambda sentence: None,
    network: Any = None,
    checkpoint: Path | None = None,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
) -> tuple[FittedModel, Result]:
    """One node per file, in order. With a ``network``, this process opens the files of its own nodes only.

    Parameters
    ----------
    n_features
        The number of columns; None is the largest number in any file.
    zero_based
        Whether columns count from 0; None is yes if any file has an index 0.
    tell
        Called with sentences for people about what is assumed of the files.
    """
    topology = network.topology if network else spec.topology(len(files))
    if len(files) != topology.n_nodes:
        raise InputError(f"the graph has {topology.n_nodes} nodes, and {len(files)} files are given: one for each.")
    group: Group = network or Alone()
    require_agreement(group, {"n_features": n_features, "zero_based": zero_based})
    own = network.nodes if network else range(len(files))
    for n in own:
        if files[n].is_file() and is_table(files[n]):
            raise InputError(
                f"{files[n]} is a table with column names; wanted LIBSVM text (label index:value ...), or give "
                "a formula or a target for the table."
            )
    held = group.share([data.index_range(files[n]) for n in own], discloses=TOTALS)
    ranges = [IndexRange(*pair) for pairs in held for pair in pairs]
    columns = agreed_columns([file.name for file in files], ranges, n_features, zero_based)
    tell(columns.sentence)
    rows = _read([files[n] for n in own], columns)
    options: dict[str, Any] = {"checkpoint": checkpoint, "progress": progress, "callbacks": callbacks}
    done = fit(rows, spec, network=network, tell=tell, **options)
    return _model(done, spec, columns), done.result


class FileColumns(NamedTuple):
    """How all files count their columns, and how many there are."""

    zero_based: bool
    n_features: int
    why: str
    narrower: str = ""
    """A sentence about a file that has fewer columns."""

    @property
    def sentence(self) -> str:
        return f"{self.n_features} columns, counted from {0 if self.zero_based else 1}: {self.why}.{self.narrower}"


def agreed_columns(
    names: Sequence[str], ranges: Sequence[IndexRange], n_features: int | None, zero_based: bool | None
) -> FileColumns:
    """One answer for all files. A guess for each file would shift the columns of some against the others.

    A file does not name columns that are empty in it, so the widest file has the number of columns.
    """
    why = "as was said"
    if zero_based is None:
        zero = [name for name, found in zip(names, ranges, strict=True) if found.smallest == 0]
        zero_based, why = bool(zero), f"{zero[0]} has an index 0" if zero else "no file has an index 0"
    widths = [found.width(zero_based) for found in ranges]
    if n_features is not None:
        return FileColumns(zero_based, n_features, why)
    least, most = int(np.argmin(widths)), int(np.argmax(widths))
    narrower = f" {names[least]} has only {widths[least]}, so the last ones are taken to be empty there."
    return FileColumns(zero_based, widths[most], why, narrower if widths[least] < widths[most] else "")


def _read(files: Sequence[Path], columns: FileColumns) -> Rows:
    shards = [
        data.load_libsvm(file, n_features=columns.n_features, zero_based=columns.zero_based) for file in files
    ]  # fmt: skip
    nodes = np.repeat(np.arange(len(shards)), [len(y) for _, y in shards])
    X = sp.vstack([X for X, _ in shards], format="csr")
    return as_rows(X, np.concatenate([y for _, y in shards]), nodes=nodes)


def _model(done: Fit, spec: FitSpec, columns: FileColumns) -> FittedModel:
    weights, intercepts = done.mean
    known = carried_out(done, spec, done.problem.lam)
    return FittedModel(weights, intercepts, done.gathered, done.problem.classes, *known, columns.zero_based)
