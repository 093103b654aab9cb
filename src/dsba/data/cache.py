"""Parsed data sets on disk, so that a large text file is parsed once.

An entry is a sealed file, named after the source's path, that carries a digest of the source's bytes. An entry that
belongs to other bytes, is damaged or is foreign counts as absent. If the folder cannot be written, there is no cache.
An entry may be read by those who may read its source, and the folder only by its owner. Processes that read an entry,
as the workers of an experiment do, share its memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np

from dsba.data.dataset import Dataset, csr
from dsba.storage import sealed
from dsba.storage.atomic import private_folder, replacing

PARSED_FORMAT = "dsba-parsed-2"


def folder() -> Path:
    """`$DSBA_CACHE`, or `dsba` in the user's cache folder."""
    own = os.environ.get("DSBA_CACHE")
    if own:
        return Path(own)
    user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(user) / "dsba"


def _entry(source: Path) -> Path:
    key = hashlib.blake2b(os.fsencode(source.resolve()), digest_size=8).hexdigest()
    return folder() / "parsed" / f"{source.name}-{key}"


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode) & 0o666


def read(source: Path, wanted: str) -> Dataset | None:
    """The cached data set of ``source``, or None where there is no sound one of these bytes."""
    entry = _entry(source)
    found = opened(entry, wanted)
    if found is not None and _mode(entry) & ~_mode(source):  # fewer people than before may read the source
        with contextlib.suppress(OSError):
            entry.chmod(_mode(entry) & _mode(source))
    return found


def opened(entry: Path, wanted: str) -> Dataset | None:
    """The data set in an entry, if it is a sound one of a source with the digest ``wanted``."""
    try:
        identity, arrays = sealed.read(entry, shared=True)
        if identity != {"format": PARSED_FORMAT, "source": wanted}:
            return None
        return _checked(*(arrays[name] for name in ("data", "indices", "indptr", "y")))
    except (sealed.DamagedError, KeyError, OSError):
        return None


def _checked(data: Any, indices: Any, indptr: Any, y: Any) -> Dataset | None:
    """The data set, if the arrays form a CSR matrix with one label a row."""
    sound = (
        data.dtype == y.dtype == np.float64
        and indices.dtype == indptr.dtype
        and indices.dtype in (np.int32, np.int64)
        and data.ndim == y.ndim == indptr.ndim == 1
        and data.shape == indices.shape
        and len(indptr) == len(y) + 1
        and indptr[0] == 0
        and indptr[-1] == len(data)
        and bool((indptr[1:] >= indptr[:-1]).all())
        and indices.min(initial=0) >= 0
    )
    return Dataset(csr(data, indices, indptr, int(indices.max(initial=-1)) + 1), y) if sound else None


def write(source: Path, digest: str, dataset: Dataset) -> None:
    """Keep ``dataset`` for the next ``read``; readers see the old entry or the new one, never a part."""
    X, y = dataset
    entry = _entry(source)
    with contextlib.suppress(OSError):
        private_folder(entry.parent)
        with replacing(entry, _mode(source)) as stream:
            arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "y": y}
            sealed.write(stream, {"format": PARSED_FORMAT, "source": digest}, arrays)
