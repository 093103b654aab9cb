"""LIBSVM / svmlight text: one row a line, `label index:value index:value ...  # comment`.

Errors name the file, the line and the column at which it went wrong, and what was wanted there. They never show what
the file has there: a row may be a patient.

Sizes are bounded before memory is spent. A line may have `LONGEST_LINE` bytes (`$DSBA_MAX_LINE` sets another bound).
`dsba.data.bounds` bounds the whole text. No text may be so wide that a vector of coefficients does not fit into
the memory.
"""

from __future__ import annotations

import bz2
import gzip
import io
import math
import operator
import os
import re
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from dsba._system import memory
from dsba.data import cache as parsed
from dsba.data.bounds import bound, most_bytes, require_within
from dsba.data.dataset import Dataset, csr
from dsba.data.hashed_file import same_file
from dsba.errors import DsbaError, InputError, cannot

ENDINGS = (".bz2", ".gz", ".svm", ".libsvm", ".txt")
OPENERS: tuple[tuple[bytes, Callable[..., Any]], ...] = (
    (b"BZh", bz2.open),
    (b"\x1f\x8b", gzip.open),
    (b"", open),
)
LARGEST_INDEX = 2**63 - 2  # its column count is still an int64
LONGEST_LINE = 1 << 24  # bytes; splitting a line takes up to twelve times its size
LIBSVM_TOKEN = re.compile(rb"\S+")


class IndexRange(NamedTuple):
    """The smallest and the largest index that a file names; None where it names not one."""

    smallest: int | None
    largest: int | None

    def width(self, zero_based: bool) -> int:
        """The number of columns that the file needs."""
        return 0 if self.largest is None else self.largest + zero_based


def load_libsvm(
    path_or_name: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    cache: bool = True,
) -> Dataset:
    """Read a LIBSVM file, plain, gzip or bzip2, into `(X, y)`.

    A name which is no file is looked up, with the usual endings, in the folder `$DSBA_DATA` and
    then in `data/` of the cache folder (`$DSBA_CACHE`, or `dsba` in the user's cache).

    Columns count from zero with `zero_based=True` and from one with `False`. "auto" counts from zero if
    the file has a column 0. That is a guess: a file written from zero whose first column happens to be
    empty is shifted. Files that belong together must be read with one answer; `index_range` says what
    each of them has. `n_features` fixes the number of columns, as such files need; otherwise the largest
    column present does. `qid:` and comments are ignored. With `cache`, the parsed arrays are kept for the
    next time.
    """
    width = _checked_width(n_features)
    if zero_based not in (True, False, "auto"):
        raise InputError(f"zero_based must be True, False or 'auto', got {zero_based!r}.")
    path = find_file(path_or_name)
    return _reading(path, lambda: _with_width(_based(_raw(path, cache), zero_based, path), width, path))


def index_range(path_or_name: str | os.PathLike[str], *, cache: bool = True) -> IndexRange:
    """The smallest and the largest index in a LIBSVM file, as they are written there."""
    path = find_file(path_or_name)
    return _index_range(_reading(path, lambda: _raw(path, cache)))


def _index_range(raw: Dataset) -> IndexRange:
    indices = raw.X.indices
    return IndexRange(int(indices.min()), int(indices.max())) if indices.size else IndexRange(None, None)


def _reading(path: Path, work: Callable[[], Dataset]) -> Dataset:
    try:
        return work()
    except (EOFError, OSError, zlib.error) as error:
        raise cannot(f"read {path} as plain, gzip or bzip2 text", error) from error


def _checked_width(n_features: int | None) -> int | None:
    if n_features is None:
        return None
    try:
        width = operator.index(n_features)
    except TypeError:
        width = 0
    if not 1 <= width <= LARGEST_INDEX + 1:
        raise InputError(f"n_features must be a positive integer, got {n_features!r}")
    if not _fits(width):
        raise InputError(f"n_features={width} is too wide: one vector of coefficients does not fit into the memory.")
    return width


def _fits(width: int) -> bool:
    return 8 * width <= memory.available()


def _raw(path: Path, cache: bool) -> Dataset:
    """What the file holds: column j is the index j, whatever it counts from."""
    if not cache:
        return _parse(path)
    before, digest = path.stat(), parsed.digest(path)
    dataset = parsed.read(path, digest)
    if dataset is None:
        dataset = _parse(path)
        if same_file(before, path.stat()):
            parsed.write(path, digest, dataset)
    return dataset


def _based(raw: Dataset, zero_based: bool | str, path: Path) -> Dataset:
    """The data set with columns counted from zero."""
    X, y = raw
    smallest = _index_range(raw).smallest
    if zero_based is True or (zero_based == "auto" and smallest == 0):
        return raw
    if smallest == 0:
        place = _located(path, X, int(np.argmin(X.indices)))
        raise InputError(f"{place}: wanted indices that count from 1, as zero_based=False says.")
    return Dataset(csr(X.data, X.indices - 1, X.indptr, max(X.shape[1] - 1, 0)), y)


def _with_width(dataset: Dataset, n_features: int | None, path: Path) -> Dataset:
    X, y = dataset
    present = X.shape[1]
    if n_features is None and present == 0:
        raise InputError(f"{path} has labels but not one index:value; give n_features to load it")
    if n_features is None or n_features == present:
        return dataset
    if n_features < present:
        place = _located(path, X, int(np.argmax(X.indices >= n_features)))
        raise InputError(f"{place}: a column beyond n_features={n_features} (the file has {present}).")
    return Dataset(csr(X.data, X.indices, X.indptr, n_features), y)


def _located(path: Path, X: Any, entry: int) -> str:
    """Where in the file an entry of X is."""
    row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
    number, line = next(islice(_rows(path), row, None), (0, b""))
    query = line.split()[1:2]
    return _place(path, number, line, entry - int(X.indptr[row]) + (2 if query and _is_query(query[0]) else 1))


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


class _Lines(io.BufferedReader):
    """The lines of a text, plain or packed, within the bounds."""

    def __init__(self, path: Path) -> None:
        with path.open("rb") as stream:
            head = stream.read(3)
        opener = next(opener for magic, opener in OPENERS if head.startswith(magic))
        self.path, self.number, self.total = path, 0, 0
        self.longest, self.most = bound("DSBA_MAX_LINE", LONGEST_LINE), most_bytes(path.stat().st_size)
        super().__init__(opener(path, "rb"), buffer_size=1 << 20)

    def __next__(self) -> bytes:
        line = self.readline(self.longest + 1)
        if not line:
            raise StopIteration
        self.number += 1
        self.total += len(line)
        if len(line) > self.longest:
            raise InputError(
                f"{self.path}, line {self.number}: longer than {self.longest} bytes; DSBA_MAX_LINE sets another bound."
            )
        require_within(self.path, self.total, self.most)
        return line


class _Screened(_Lines):
    """Refuses lines which only the strict parser reads rightly.

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
    except InputError:
        raise
    except (ValueError, OverflowError):
        dataset = _parse_strictly(path)
    if not (np.isfinite(dataset.y).all() and np.isfinite(dataset.X.data).all()):
        dataset = _parse_strictly(path)
    if len(dataset.y) == 0:
        raise InputError(f"{path} has no row; wanted lines of the form: label index:value index:value ...")
    return dataset


def _parse_fast(path: Path) -> Dataset:
    from sklearn.datasets import load_svmlight_file

    with _Screened(path) as stream:
        X, y = load_svmlight_file(stream, zero_based=True)
    return _dataset(path, X.data, X.indices, X.indptr, y)


def _parse_strictly(path: Path) -> Dataset:
    """The slow twin of the fast parser: says which line is malformed, and why."""
    y, data, indices, indptr = array("d"), array("d"), array("q"), array("q", [0])
    for number, line in _rows(path):
        try:
            label, row_indices, row_values = _parse_row(line)
        except _MalformedError as error:
            raise InputError(f"{_place(path, number, line, error.token)}: wanted {error.wanted}.") from None
        y.append(label)
        indices.extend(row_indices)
        data.extend(row_values)
        indptr.append(len(data))
    return _dataset(path, *(np.array(column) for column in (data, indices, indptr, y)))


def _dataset(path: Path, data: Any, indices: Any, indptr: Any, y: Any) -> Dataset:
    largest = int(indices.max(initial=-1))
    X = csr(data, indices, indptr, largest + 1)
    if not _fits(largest):
        place = _located(path, X, int(np.argmax(indices)))
        raise InputError(f"{place}: wanted an index for which a vector of coefficients fits into the memory.")
    return Dataset(X, y)


def _rows(path: Path) -> Iterator[tuple[int, bytes]]:
    """Line number, from 1, and text without comment, of every line which holds a row."""
    with _Lines(path) as lines:
        for line in lines:
            text = line.partition(b"#")[0]
            if text.strip():
                yield lines.number, text


def _place(path: Path, number: int, line: bytes, token: int) -> str:
    """File, line and the column, from 1, at which a word begins; the file alone if the line is gone meanwhile."""
    begin = next((match.start() for match in islice(LIBSVM_TOKEN.finditer(line), token, None)), None)
    return f"{path}" if begin is None else f"{path}, line {number}, column {begin + 1}"


class _MalformedError(DsbaError, ValueError):
    """Word number ``token`` of a line is not what was wanted."""

    def __init__(self, token: int, wanted: str) -> None:
        super().__init__(token, wanted)
        self.token, self.wanted = token, wanted


def _parse_row(line: bytes) -> tuple[float, list[int], list[float]]:
    first, *entries = line.split()
    if b"," in first:
        raise _MalformedError(0, "one label, not several")
    label = _number(first, 0, "label")
    begin = 2 if entries and _is_query(entries[0]) else 1
    indices, values, previous = [], [], -1
    for token, entry in enumerate(entries[begin - 1 :], start=begin):
        left, colon, right = entry.partition(b":")
        if not colon:
            raise _MalformedError(token, "index:value")
        index = _index(left, token)
        if index <= previous:
            raise _MalformedError(token, "an index larger than the one before it in the row")
        indices.append(index)
        values.append(_number(right, token, "value"))
        previous = index
    return label, indices, values


def _is_query(entry: bytes) -> bool:
    return entry.startswith(b"qid:")


def _index(text: bytes, token: int) -> int:
    try:
        index = int(text) if b"_" not in text else -1
    except ValueError:
        index = -1
    if index < 0:
        raise _MalformedError(token, "an index which is a whole number from 0 or 1")
    if index > LARGEST_INDEX:
        raise _MalformedError(token, "an index which fits into 64 bits")
    return index


def _number(text: bytes, token: int, what: str) -> float:
    try:
        number = float(text) if b"_" not in text else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise _MalformedError(token, f"a finite number as {what}")
    return number
