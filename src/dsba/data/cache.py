"""Parsed data sets on disk, so that a large text file is parsed once.

An entry is an uncompressed .npz: plain arrays, each with the CRC of its bytes, never a pickle.
It is named after the source's path and carries a stamp of the source's content; an entry which
is stale, damaged or foreign counts as absent, and a folder which cannot be written as no cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dsba.data.dataset import Dataset, csr
from dsba.files import replacing

FORMAT_VERSION = 1
HEAD_BYTES = 1 << 16


def folder() -> Path:
    """`$DSBA_CACHE`, or `dsba` in the user's cache folder."""
    own = os.environ.get("DSBA_CACHE")
    if own:
        return Path(own)
    user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(user) / "dsba"


def stamp(source: Path) -> npt.NDArray[np.int64]:
    """Changes when the source does: format version, size, time, and a digest of its first bytes.

    The digest catches a small file rewritten within one tick of the file system's clock.
    """
    status = source.stat()
    with source.open("rb") as stream:
        digest = hashlib.blake2b(stream.read(HEAD_BYTES), digest_size=7).digest()
    return np.array([FORMAT_VERSION, status.st_size, status.st_mtime_ns, int.from_bytes(digest, "big")])


def _entry(source: Path) -> Path:
    key = hashlib.blake2b(os.fsencode(source.resolve()), digest_size=8).hexdigest()
    return folder() / "parsed" / f"{source.name}-{key}.npz"


def read(source: Path, wanted: npt.NDArray[np.int64]) -> Dataset | None:
    """The cached data set of `source`, or None where there is no sound one with this stamp."""
    try:
        with np.load(_entry(source), allow_pickle=False) as entry:
            if not np.array_equal(entry["stamp"], wanted):
                return None
            return _checked(entry["data"], entry["indices"], entry["indptr"], entry["y"])
    except Exception:  # damage surfaces as almost any type, and the text file is still there
        return None


def _checked(
    data: npt.NDArray[np.float64],
    indices: npt.NDArray[np.int64],
    indptr: npt.NDArray[np.int64],
    y: npt.NDArray[np.float64],
) -> Dataset | None:
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


def write(source: Path, stamped: npt.NDArray[np.int64], dataset: Dataset) -> None:
    """Keep `dataset` for the next `read`; readers see the old entry or the new one, never a part."""
    X, y = dataset
    entry = _entry(source)
    with contextlib.suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        with replacing(entry) as stream:
            np.savez(stream, stamp=stamped, data=X.data, indices=X.indices, indptr=X.indptr, y=y)
