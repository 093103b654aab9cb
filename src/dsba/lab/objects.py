"""Objects that Python may give to an experiment instead of names. Their content identifies them."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dsba.errors import InputError, as_array, cannot


@dataclass(frozen=True)
class GivenArrays:
    """Samples and their labels; those with the same SHA-256 are equal."""

    digest: str
    X: sp.csr_matrix = field(compare=False)
    y: npt.NDArray[Any] = field(compare=False)

    @classmethod
    def of(cls, X: Any, y: Any, what: str) -> GivenArrays:
        try:
            rows = sp.csr_matrix(X, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"X of {what} must be an array or a sparse matrix of numbers.") from None
        rows.sum_duplicates()
        labels = as_array(f"y of {what}", y)
        if labels.shape != (rows.shape[0],) or labels.dtype.kind not in "biufU":
            wanted = f"{rows.shape[0]} numbers or strings, one for each row of X"
            raise InputError(f"y of {what} must be {wanted}, got an array of {_described(labels)}.")
        return cls(digest_of_rows(rows, labels), rows, labels)


@dataclass(frozen=True)
class Assigned:
    """The node of every row, as an array of the user's; those with the same SHA-256 are equal."""

    digest: str
    nodes: npt.NDArray[np.int64] = field(compare=False)
    title: str = field(compare=False)

    @classmethod
    def of(cls, nodes: Any, title: str) -> Assigned:
        array = as_array("a split", nodes)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise InputError(f"a split must be a name or one node number per row, got an array of {_described(array)}.")
        whole = array.astype("<i8")
        return cls(hashlib.sha256(whole.tobytes()).hexdigest(), whole, title)

    def __str__(self) -> str:
        return self.title


def _described(array: npt.NDArray[Any]) -> str:
    return f"shape {array.shape}, dtype {array.dtype}"


def digest_of_rows(X: Any, y: npt.NDArray[Any]) -> str:
    found = hashlib.sha256(f"{X.shape}".encode())
    labels = y if y.dtype.kind == "f" else np.char.encode(y.astype(str), "utf-8")
    for array in (X.data, X.indices.astype("<i8"), X.indptr.astype("<i8"), labels):
        found.update(array.tobytes())
    return found.hexdigest()


def read_array(path: str) -> npt.NDArray[Any]:
    """The array of a .npy file; nothing in the file is run."""
    with _readable(path) as stream:
        return np.asarray(np.load(stream, allow_pickle=False))


def read_numpy(path: str, needed: tuple[str, ...], others: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a .npz file by name, the ``others`` where they are there; nothing in the file is run."""
    with _readable(path) as stream, np.load(stream, allow_pickle=False) as found:
        if missing := [name for name in needed if name not in found]:
            raise InputError(f"{path} has no array {missing[0]!r}; it must have {' and '.join(needed)}.")
        return {name: found[name] for name in (*needed, *others) if name in found}


@contextmanager
def _readable(path: str) -> Iterator[IO[bytes]]:
    try:
        with Path(path).open("rb") as stream:
            yield stream
    except InputError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise cannot(f"read the arrays of {path}", error, "it holds no plain arrays") from None
