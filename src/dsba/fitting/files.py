"""One model from LIBSVM files at several sites: what ``dsba train`` does, in one process or in several."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dsba.data.libsvm import IndexRange, LibsvmFile
from dsba.data.table_files import is_table
from dsba.engine.run import Result
from dsba.errors import InputError
from dsba.fitting.fit import carried_out, fit_rows
from dsba.fitting.model import FittedModel
from dsba.fitting.rows import as_rows
from dsba.fitting.spec import FitSpec
from dsba.network import Alone, Group, require_agreement
from dsba.network.contract import TOTALS
from dsba.types import Notify


def train(
    files: Sequence[Path],
    spec: FitSpec,
    *,
    n_features: int | None = None,
    zero_based: bool | None = None,
    notify: Notify = lambda sentence: None,
    network: Any = None,
    **options: Any,
) -> tuple[FittedModel, Result]:
    """One node per file, in order. With a ``network``, this process opens the files of its own nodes only.

    Parameters
    ----------
    n_features
        The number of columns; None is the largest number in any file.
    zero_based
        Whether columns count from 0; None is yes if any file has an index 0.
    notify
        Called with sentences for people about what is assumed of the files.
    options
        Others of ``fit``.
    """
    topology = network.topology if network else spec.topology(len(files))
    if len(files) != topology.n_nodes:
        raise InputError(f"the graph has {topology.n_nodes} nodes, and {len(files)} files are given: one for each.")
    group: Group = network or Alone()
    require_agreement(group, {"n_features": n_features, "zero_based": zero_based})
    own = [_opened(files[n]) for n in (network.nodes if network else range(len(files)))]
    held = group.share([file.indices for file in own], discloses=TOTALS)
    ranges = {file: IndexRange(*pair) for file, pair in zip(files, chain(*held), strict=True)}
    zero_based, width, sentence = _agreed_columns(ranges, n_features, zero_based)
    notify(sentence)
    shards = [file.dataset(width, zero_based) for file in own]
    nodes = np.repeat(np.arange(len(shards)), [len(y) for _, y in shards])
    X, y = sp.vstack([X for X, _ in shards], format="csr"), np.concatenate([y for _, y in shards])
    del own, shards  # their memory is for the fit
    done = fit_rows(as_rows(X, y, nodes=nodes), spec, network=network, notify=notify, **options)
    known = carried_out(done, spec, done.problem.lam)
    return FittedModel(*done.mean, done.gathered, done.problem.classes, *known, zero_based), done.result


def _opened(file: Path) -> LibsvmFile:
    if file.is_file() and is_table(file):
        raise InputError(
            f"{file} is a table with column names; wanted LIBSVM text (label index:value ...), or give a formula or a "
            "target for the table."
        )
    return LibsvmFile(file)


def _agreed_columns(
    ranges: dict[Path, IndexRange], n_features: int | None, zero_based: bool | None
) -> tuple[bool, int, str]:
    """Where all files begin to count their columns, how many there are, and a sentence about both.

    A guess for each file would shift the columns of some against the others. A file does not name columns that are
    empty in it, so the widest file has the number of columns.
    """
    why, narrower = "as was said", ""
    if zero_based is None:
        zero = [file.name for file, found in ranges.items() if found.smallest == 0]
        zero_based, why = bool(zero), f"{zero[0]} has an index 0" if zero else "no file has an index 0"
    if n_features is None:
        widths = {file: found.width(zero_based) for file, found in ranges.items()}
        least, n_features = min(widths, key=lambda file: widths[file]), max(widths.values())
        if widths[least] < n_features:
            narrower = f" {least.name} has only {widths[least]}, so the last ones are taken to be empty there."
    return zero_based, n_features, f"{n_features} columns, counted from {1 - zero_based}: {why}.{narrower}"
