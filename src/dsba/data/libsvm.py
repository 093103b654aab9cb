"""LIBSVM / svmlight text: one row a line, `label index:value index:value ...  # comment`."""

from __future__ import annotations

import bz2
import gzip
import io
import math
import operator
import os
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from dsba.data import cache as parsed
from dsba.data.dataset import Dataset, csr
from dsba.errors import InputError

ENDINGS = (".bz2", ".gz", ".svm", ".libsvm", ".txt")
OPENERS: tuple[tuple[bytes, Callable[..., Any]], ...] = (
    (b"BZh", bz2.open),
    (b"\x1f\x8b", gzip.open),
    (b"", open),
)
LARGEST_INDEX = 2**63 - 2  # its column count is still an int64


def load_libsvm(path_or_name: str | os.PathLike[str], *, n_features: int | None = None, cache: bool = True) -> Dataset:
    """Read a LIBSVM file, plain, gzip or bzip2, into `(X, y)`.

    A name which is no file is looked up, with the usual endings, in the folder `$DSBA_DATA` and
    then in `data/` of the cache folder (`$DSBA_CACHE`, or `dsba` in the user's cache).

    Columns count from one, or from zero if the file has a column 0. `n_features` fixes the number
    of columns, as two files of one data set need; otherwise the largest column present does.
    `qid:` and comments are ignored. With `cache`, the parsed arrays are kept for the next time.
    """
    width = _checked_width(n_features)
    path = find_file(path_or_name)
    try:
        dataset = _load_cached(path) if cache else _parse(path)
        return _with_width(dataset, width, path)
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"cannot read {path} as plain, gzip or bzip2 text: {error}") from error


def _checked_width(n_features: int | None) -> int | None:
    if n_features is None:
        return None
    try:
        width = operator.index(n_features)
    except TypeError:
        width = 0
    if not 1 <= width <= LARGEST_INDEX + 1:
        raise InputError(f"n_features must be a positive integer, got {n_features!r}")
    return width


def _load_cached(path: Path) -> Dataset:
    stamp = parsed.stamp(path)  # before parsing: a file that changes meanwhile is parsed again
    dataset = parsed.read(path, stamp)
    if dataset is None:
        dataset = _parse(path)
        parsed.write(path, stamp, dataset)
    return dataset


def _with_width(dataset: Dataset, n_features: int | None, path: Path) -> Dataset:
    X, y = dataset
    present = X.shape[1]
    if n_features is None and present == 0:
        raise InputError(f"{path} has labels but not one index:value; give n_features to load it")
    if n_features is None or n_features == present:
        return dataset
    if n_features < present:
        entry = np.argmax(X.indices >= n_features)
        row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
        number, line = next(islice(_rows(path), row, None))
        raise InputError(
            f"{path}, line {number}: a column beyond n_features={n_features} "
            f"(the file has {present}), in {_shortened(line)}"
        )
    return Dataset(csr(X.data, X.indices, X.indptr, n_features), y)


# --- finding the file -------------------------------------------------------------------------


def find_file(path_or_name: str | os.PathLike[str], *, embedded: Iterable[str] = ()) -> Path:
    """The file meant by a path or a name; the error says where it looked and what is near.

    `embedded` are further names to suggest.
    """
    if not isinstance(path_or_name, str | os.PathLike):
        raise InputError(f"a data set is given by its path or name, got {path_or_name!r}")
    name = os.fspath(path_or_name)
    given = os.environ.get("DSBA_DATA")
    folders = [Path(given)] if given else []
    folders.append(parsed.folder() / "data")
    candidates = [Path(name), *(folder / (name + end) for folder in folders for end in ("", *ENDINGS))]
    found = next((path for path in candidates if os.path.isfile(path)), None)
    if found is None:
        raise _not_found(name, folders, embedded)
    return found


def _not_found(name: str, folders: list[Path], embedded: Iterable[str]) -> InputError:
    names = [*embedded, *(_without_ending(file) for folder in folders for file in _files_in(folder))]
    near = get_close_matches(_without_ending(os.path.basename(name)), dict.fromkeys(names), n=3, cutoff=0.5)
    unset = "" if "DSBA_DATA" in os.environ else " (the environment variable DSBA_DATA is not set)"
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return InputError(
        f"no file {name!r}, neither as a path nor in {' nor in '.join(map(str, folders))}{unset}, "
        f"also not with {', '.join(ENDINGS)} appended{hint}"
    )


def _files_in(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except OSError:
        return []


def _without_ending(file: str) -> str:
    stem, end = os.path.splitext(file)
    return stem if end in ENDINGS else file


# --- parsing ----------------------------------------------------------------------------------


def _open(path: Path) -> io.BufferedReader:
    with path.open("rb") as stream:
        head = stream.read(3)
    opener = next(opener for magic, opener in OPENERS if head.startswith(magic))
    return _Screened(opener(path, "rb"), buffer_size=1 << 20)


class _Screened(io.BufferedReader):
    """Iterates over lines, but not over those which only the strict parser reads rightly.

    The fast one takes 1_0 for ten, as Python does, and takes whatever starts with qid for a query.
    """

    def __next__(self) -> bytes:
        line = super().__next__()
        if b"_" in line or b"qid" in line:
            raise ValueError("left to the strict parser")
        return line


def _parse(path: Path) -> Dataset:
    try:
        dataset = _parse_fast(path)
    except (ValueError, OverflowError):
        dataset = _parse_strictly(path)
    if not (np.isfinite(dataset.y).all() and np.isfinite(dataset.X.data).all()):
        dataset = _parse_strictly(path)
    if len(dataset.y) == 0:
        raise InputError(f"{path} has no row; wanted lines of the form: label index:value index:value ...")
    return dataset


def _parse_fast(path: Path) -> Dataset:
    from sklearn.datasets import load_svmlight_file

    with _open(path) as stream:
        X, y = load_svmlight_file(stream, zero_based=True)
    return _counted_from_zero(X.data, X.indices, X.indptr, y)


def _parse_strictly(path: Path) -> Dataset:
    """The slow twin of the fast parser: says which line is malformed, and why."""
    y, data, indices, indptr = array("d"), array("d"), array("q"), array("q", [0])
    for number, line in _rows(path):
        try:
            label, row_indices, row_values = _parse_row(line)
        except ValueError as error:
            raise InputError(f"{path}, line {number}: {error}, in {_shortened(line)}") from None
        y.append(label)
        indices.extend(row_indices)
        data.extend(row_values)
        indptr.append(len(data))
    return _counted_from_zero(*(np.array(column) for column in (data, indices, indptr, y)))


def _counted_from_zero(data: Any, indices: Any, indptr: Any, y: Any) -> Dataset:
    if indices.min(initial=1) > 0:
        indices -= 1
    return Dataset(csr(data, indices, indptr, int(indices.max(initial=-1)) + 1), y)


def _rows(path: Path) -> Iterator[tuple[int, bytes]]:
    """Line number, from 1, and text without comment, of every line which holds a row."""
    with _open(path) as stream:
        for number, line in enumerate(iter(stream.readline, b""), start=1):
            text = line.partition(b"#")[0].strip()
            if text:
                yield number, text


def _parse_row(line: bytes) -> tuple[float, list[int], list[float]]:
    first, *entries = line.split()
    if b"," in first:
        raise ValueError(f"wanted one label, got several: {_shortened(first)}")
    label = _number(first, "label")
    if entries and entries[0].startswith(b"qid:"):
        del entries[0]
    indices, values, previous = [], [], -1
    for entry in entries:
        left, colon, right = entry.partition(b":")
        if not colon:
            raise ValueError(f"wanted index:value, got {_shortened(entry)}")
        index = _index(left)
        if index <= previous:
            raise ValueError(f"indices must increase along a row, got {index} after {previous}")
        indices.append(index)
        values.append(_number(right, "value"))
        previous = index
    return label, indices, values


def _index(text: bytes) -> int:
    try:
        index = int(text) if b"_" not in text else -1
    except ValueError:
        index = -1
    if index < 0:
        raise ValueError(f"wanted an index which is a whole number from 0 or 1, got {_shortened(text)}")
    if index > LARGEST_INDEX:
        raise ValueError(f"wanted an index which fits into 64 bits, got {_shortened(text)}")
    return index


def _number(text: bytes, what: str) -> float:
    try:
        number = float(text) if b"_" not in text else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"wanted a finite number as {what}, got {_shortened(text)}")
    return number


def _shortened(text: bytes, limit: int = 60) -> str:
    shown = text if len(text) <= limit else text[:limit] + b"..."
    return repr(shown)[1:]  # escaped like bytes, without their b
