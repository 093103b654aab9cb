"""LIBSVM / svmlight text: one row a line, `label index:value index:value ...  # comment`.

Errors name the file, the line and the column at which it went wrong, and what was wanted there. They never show what
the file has there: a row may be a patient.

Sizes are bounded before memory is spent. A line may have `LONGEST_LINE` bytes (`$DSBA_MAX_LINE` sets another bound).
`dsba.data.bounds` bounds the whole text. No text may be so wide that a vector of coefficients does not fit into
the memory.
"""

from __future__ import annotations

import io
import math
import os
import re
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from dsba._system import memory
from dsba.data import cache as parsed
from dsba.data.bounds import bound, most_bytes, require_within, unpacked
from dsba.data.dataset import Dataset, csr
from dsba.data.hashed_file import HashedFile
from dsba.errors import InputError, as_integer, cannot

ENDINGS = (".bz2", ".gz", ".svm", ".libsvm", ".txt")
LARGEST_INDEX = 2**63 - 2  # its column count is still an int64
LONGEST_LINE = 1 << 24  # bytes; splitting a line takes up to twelve times its size
LIBSVM_TOKEN = re.compile(rb"\S+")


class IndexRange(NamedTuple):
    """The range of the column indices in a file.

    Parameters
    ----------
    smallest : int or None
        The smallest index, or None if there is none.
    largest : int or None
        The largest index, or None if there is none.

    Examples
    --------
    >>> import dsba
    >>> dsba.data.IndexRange(1, 30).largest
    30
    """

    smallest: int | None
    largest: int | None

    def width(self, zero_based: bool) -> int:
        """The number of columns that the file needs.

        Parameters
        ----------
        zero_based : bool
            Whether columns count from 0.

        Returns
        -------
        int
            The number of columns; 0 if the file has no entries.
        """
        return 0 if self.largest is None else self.largest + zero_based


def load_libsvm(
    path_or_name: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    cache: bool = True,
) -> Dataset:
    r"""Read a LIBSVM file, plain, gzip or bzip2, into ``(X, y)``.

    A name that is not a file is looked up, with the usual endings, in the folder ``$DSBA_DATA`` and then in ``data/``
    of the cache folder (``$DSBA_CACHE``, or ``dsba`` in the user's cache). ``qid:`` and comments are ignored.

    Parameters
    ----------
    path_or_name : str or os.PathLike[str]
        The path of a file, or the name of a data set.
    n_features : int or None
        The number of columns; None is the largest column in the file. Files that belong together need the same number.
    zero_based : bool or Literal['auto']
        Whether columns count from zero. "auto" counts from zero if the file has a column 0. That is a guess: files that
        belong together must be read with one answer, and ``index_range`` shows the indices of each.
    cache : bool
        Keep the parsed arrays for the next time.

    Returns
    -------
    Dataset
        The samples and labels.

    Raises
    ------
    InputError
        If the file is missing or is not a LIBSVM file.

    Examples
    --------
    >>> import dsba
    >>> from pathlib import Path
    >>> _ = Path("small.svm").write_text("1 1:0.5 3:1\n-1 2:2\n")
    >>> dsba.load_libsvm("small.svm", cache=False).X.toarray().tolist()
    [[0.5, 0.0, 1.0], [0.0, 2.0, 0.0]]
    """
    return LibsvmFile(path_or_name, cache=cache).dataset(n_features, zero_based)


def index_range(path_or_name: str | os.PathLike[str], *, cache: bool = True) -> IndexRange:
    r"""The smallest and the largest index in a LIBSVM file, as they are written there.

    Parameters
    ----------
    path_or_name : str or os.PathLike[str]
        As in ``load_libsvm``.
    cache : bool
        As in ``load_libsvm``.

    Returns
    -------
    IndexRange
        The range, as it is written in the file.

    Raises
    ------
    InputError
        If the file is missing or is not a LIBSVM file.

    Examples
    --------
    >>> import dsba
    >>> from pathlib import Path
    >>> _ = Path("small.svm").write_text("1 2:0.5 7:1\n-1 3:2\n")
    >>> dsba.data.index_range("small.svm", cache=False)
    IndexRange(smallest=2, largest=7)
    """
    return LibsvmFile(path_or_name, cache=cache).indices


class LibsvmFile:
    """The content of a LIBSVM file, which is opened once: column j of ``raw`` is the index j."""

    def __init__(self, path_or_name: str | os.PathLike[str], *, cache: bool = True) -> None:
        self.path = find_file(path_or_name)
        with _opened(self.path) as file:
            digest = file.digest() if cache else ""
            known = parsed.read(self.path, digest) if cache else None
            self.raw = known or _parse(file)
            if cache and known is None and file.unchanged:
                parsed.write(self.path, digest, self.raw)

    @property
    def indices(self) -> IndexRange:
        found = self.raw.X.indices
        return IndexRange(int(found.min()), int(found.max())) if found.size else IndexRange(None, None)

    def dataset(self, n_features: int | None, zero_based: bool | Literal["auto"]) -> Dataset:
        """The data set with columns counted from zero, and as many of them as are wanted."""
        if n_features is not None and not _fits(as_integer("n_features", n_features, at_least=1)):
            raise InputError(f"n_features={n_features} is too wide: its coefficients do not fit into the memory.")
        if zero_based not in (True, False, "auto"):
            raise InputError(f"zero_based must be True, False or 'auto', got {zero_based!r}.")
        X, y = self.raw
        smallest, present = self.indices.smallest, X.shape[1]
        if zero_based is False or (zero_based == "auto" and smallest != 0):
            if smallest == 0:
                raise self._misplaced(X.indices == 0, "wanted indices that count from 1, as zero_based=False says")
            present = max(present - 1, 0)
            X = csr(X.data, X.indices - 1, X.indptr, present)
        if n_features is None and present == 0:
            raise InputError(f"{self.path} has labels but not one index:value; give n_features to load it")
        if n_features is None or n_features == present:
            return Dataset(X, y)
        if n_features < present:
            beyond = f"a column beyond n_features={n_features} (the file has {present})"
            raise self._misplaced(X.indices >= n_features, beyond)
        return Dataset(csr(X.data, X.indices, X.indptr, n_features), y)

    def _misplaced(self, where: Any, what: str) -> InputError:
        with _opened(self.path) as file:
            return InputError(f"{_located(file, self.raw.X, int(np.argmax(where)))}: {what}.")


def _fits(width: int) -> bool:
    return 8 * width <= memory.available()


@contextmanager
def _opened(path: Path) -> Iterator[HashedFile]:
    try:
        with HashedFile(path) as file:
            yield file
    except (EOFError, OSError, zlib.error) as error:
        raise cannot(f"read {path} as plain, gzip or bzip2 text", error) from error


def _located(file: HashedFile, X: Any, entry: int) -> str:
    """Where in the file an entry of X is."""
    row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
    number, line = next(islice(_rows(file), row, None), (0, b""))
    return _place(file, number, line, entry - int(X.indptr[row]) + _first_entry(line.split()))


# --- finding the file -------------------------------------------------------------------------


def find_file(path_or_name: str | os.PathLike[str], *, embedded: Iterable[str] = ()) -> Path:
    """The file meant by a path or a name; the error says where it looked and what is near.

    `embedded` are further names to suggest.
    """
    if not isinstance(path_or_name, str | os.PathLike):
        raise InputError(f"a data set is given by its path or name, got {path_or_name!r}")
    name = os.fspath(path_or_name)
    given = os.environ.get("DSBA_DATA")
    folders = [*([Path(given)] if given else []), parsed.folder() / "data"]
    candidates = [Path(name), *(folder / (name + end) for folder in folders for end in ("", *ENDINGS))]
    found = next((path for path in candidates if os.path.isfile(path)), None)
    if found is None:
        raise _not_found(name, folders, embedded)
    return found


def _not_found(name: str, folders: list[Path], embedded: Iterable[str]) -> InputError:
    here = [file.name for folder in folders if folder.is_dir() for file in sorted(folder.iterdir()) if file.is_file()]
    names = dict.fromkeys([*embedded, *map(_without_ending, here)])
    near = get_close_matches(_without_ending(os.path.basename(name)), names, n=3, cutoff=0.5)
    unset = "" if "DSBA_DATA" in os.environ else " (the environment variable DSBA_DATA is not set)"
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    return InputError(
        f"no file {name!r}, neither as a path nor in {' nor in '.join(map(str, folders))}{unset}, "
        f"also not with {', '.join(ENDINGS)} appended{hint}"
    )


def _without_ending(file: str) -> str:
    stem, end = os.path.splitext(file)
    return stem if end in ENDINGS else file


# --- parsing ----------------------------------------------------------------------------------


class _Lines:
    """The lines of a text, plain or packed, within the bounds.

    ``screened`` refuses lines which only the strict parser reads rightly: the fast one takes 1_0 for ten, as Python
    does, and takes whatever starts with qid for a query.
    """

    def __init__(self, file: HashedFile, screened: bool = False) -> None:
        self.name, self.total, self.screened = file.name, 0, screened
        self.longest, self.most = bound("DSBA_MAX_LINE", LONGEST_LINE), most_bytes(file.size)
        self.stream = io.BufferedReader(unpacked(file), 1 << 20)
        self.read = self.stream.read  # scikit-learn asks for it, and only takes lines

    def __iter__(self) -> Iterator[bytes]:
        try:
            for number in count(1):
                if not (line := self.stream.readline(self.longest + 1)):
                    return
                self._check(line, number)
                yield line
        finally:
            self.stream.detach()  # or the file would be closed with it

    def _check(self, line: bytes, number: int) -> None:
        self.total += len(line)
        if len(line) > self.longest:
            where = f"{self.name}, line {number}"
            raise InputError(f"{where}: longer than {self.longest} bytes; DSBA_MAX_LINE sets another bound.")
        require_within(self.name, self.total, self.most)
        if self.screened and (b"_" in line or b"qid" in line):
            raise ValueError("left to the strict parser")


def _parse(file: HashedFile) -> Dataset:
    try:
        dataset = _parse_fast(file)
    except InputError:
        raise
    except (ValueError, OverflowError, ImportError):  # the fast parser is scikit-learn's, which may be missing
        dataset = _parse_strictly(file)
    if not (np.isfinite(dataset.y).all() and np.isfinite(dataset.X.data).all()):
        dataset = _parse_strictly(file)
    if len(dataset.y) == 0:
        raise InputError(f"{file.name} has no row; wanted lines of the form: label index:value index:value ...")
    return dataset


def _parse_fast(file: HashedFile) -> Dataset:
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(_Lines(file, screened=True), zero_based=True)
    return _dataset(file, X.data, X.indices, X.indptr, y)


def _parse_strictly(file: HashedFile) -> Dataset:
    """The slow twin of the fast parser: says which line is malformed, and why."""
    y, data, indices, indptr = array("d"), array("d"), array("q"), array("q", [0])
    for number, line in _rows(file):
        label, row_indices, row_values = _parse_row(line, partial(_malformed, file, number, line))
        y.append(label)
        indices.extend(row_indices)
        data.extend(row_values)
        indptr.append(len(data))
    return _dataset(file, *(np.array(column) for column in (data, indices, indptr, y)))


def _dataset(file: HashedFile, data: Any, indices: Any, indptr: Any, y: Any) -> Dataset:
    largest = int(indices.max(initial=-1))
    X = csr(data, indices, indptr, largest + 1)
    if not _fits(largest):
        place = _located(file, X, int(np.argmax(indices)))
        raise InputError(f"{place}: wanted an index for which a vector of coefficients fits into the memory.")
    return Dataset(X, y)


def _rows(file: HashedFile) -> Iterator[tuple[int, bytes]]:
    """Line number, from 1, and text without comment, of every line which holds a row."""
    for number, line in enumerate(_Lines(file), 1):
        text = line.partition(b"#")[0]
        if text.strip():
            yield number, text


def _place(file: HashedFile, number: int, line: bytes, token: int) -> str:
    """File, line and the column, from 1, at which a word begins; the file alone if the line is gone meanwhile."""
    begin = next((match.start() for match in islice(LIBSVM_TOKEN.finditer(line), token, None)), None)
    return file.name if begin is None else f"{file.name}, line {number}, column {begin + 1}"


def _malformed(file: HashedFile, number: int, line: bytes, wanted: str, token: int) -> InputError:
    return InputError(f"{_place(file, number, line, token)}: wanted {wanted}.")


def _first_entry(words: list[bytes]) -> int:
    """The place of the first index:value among the words of a row."""
    return 2 if len(words) > 1 and words[1].startswith(b"qid:") else 1


def _parse_row(line: bytes, wanted: Callable[[str, int], InputError]) -> tuple[float, list[int], list[float]]:
    words = line.split()
    if b"," in words[0]:
        raise wanted("one label, not several", 0)
    label = _number(words[0])
    if not math.isfinite(label):
        raise wanted("a finite number as label", 0)
    indices, values, previous = [], [], -1
    for token, entry in islice(enumerate(words), _first_entry(words), None):
        left, colon, right = entry.partition(b":")
        index, value = _index(left), _number(right)
        if not colon:
            raise wanted("index:value", token)
        if index < 0:
            raise wanted("an index which is a whole number from 0 or 1", token)
        if index > LARGEST_INDEX:
            raise wanted("an index which fits into 64 bits", token)
        if index <= previous:
            raise wanted("an index larger than the one before it in the row", token)
        if not math.isfinite(value):
            raise wanted("a finite number as value", token)
        indices.append(index)
        values.append(value)
        previous = index
    return label, indices, values


def _index(text: bytes) -> int:
    """The whole number, or -1."""
    try:
        return int(text) if b"_" not in text else -1
    except ValueError:
        return -1


def _number(text: bytes) -> float:
    """The number, or NaN."""
    try:
        return float(text) if b"_" not in text else math.nan
    except ValueError:
        return math.nan
