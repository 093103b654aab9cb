"""Tables: CSV text, plain or gzip, and Parquet. Only the columns that are asked for are read.

Errors name the file, the line or the column, and what was wanted. They never show a value of the table.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dsba.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

HEAD_BYTES = 1 << 16  # what is looked at to recognise a file
HEAD_LINES = 50
SEPARATORS = (",", ";", "\t", "|")
PARQUET, GZIP = b"PAR1", b"\x1f\x8b"
LIBSVM_ROW = re.compile(r"\S+(\s+qid:\d+)?(\s+\d+:\S+)+")
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")  # \d+\.?\d* would go back n^2 times
LONG_NUMBER = r"^\s*[+-]?\d{19,}\s*$"
COMMA_NUMBER = re.compile(r"[+-]?\d+,\d+")
QUOTED = re.compile(r'"(?:[^"]|"")*"')


class Dialect(NamedTuple):
    """How a CSV file is written."""

    separator: str
    decimal: str


def is_table(path: Path) -> bool:
    """Whether the file looks like a table: Parquet, or text with a header of names."""
    head = _head(path)
    if head.startswith(PARQUET):
        return True
    lines = _lines(head)
    if not lines or b"\x00" in head or lines[0].startswith("#") or _is_libsvm(lines[0]):
        return False
    names = lines[0].replace("\t", ",")
    return names.isprintable() and any(separator in names for separator in SEPARATORS)


def column_names(path: Path, dialect: Dialect | None = None) -> list[str]:
    """The names of a table's columns, in its order; no row is read."""
    if _head(path).startswith(PARQUET):
        return _parquet_names(path)
    pd = _pandas()
    dialect = dialect or sniffed(path)
    options: dict[str, Any] = {"sep": dialect.separator, "compression": _compression(path)}
    header = _reading(path, lambda: pd.read_csv(path, **options, header=None, nrows=1, dtype=str))
    return _checked_names(path, header.iloc[0].tolist())


def read_table(path: Path, columns: Sequence[str] | None = None, dialect: Dialect | None = None) -> pd.DataFrame:
    """The named columns of a table (None: all), in the order asked for.

    Numbers are read to the last digit. Separator and decimal mark of a CSV file are found out unless given.
    """
    pd = _pandas()
    names = column_names(path, dialect)
    wanted = names if columns is None else list(columns)
    if missing := [name for name in wanted if name not in names]:
        raise InputError(f"{path} has no column {missing[0]!r}; it has {', '.join(map(repr, names[:20]))}.")
    if _head(path).startswith(PARQUET):
        frame = _reading(path, lambda: pd.read_parquet(path, columns=wanted))
        return frame.reset_index(drop=True)[wanted]
    dialect = dialect or sniffed(path)
    _reading(path, lambda: _check_lines(path, dialect.separator, len(names)))
    options: dict[str, Any] = {"sep": dialect.separator, "decimal": dialect.decimal, "low_memory": False}
    options["compression"] = _compression(path)
    if int(pd.__version__.split(".")[0]) < 3:
        options["float_precision"] = "round_trip"  # the default since
    return _reading(path, lambda: _all_columns(lambda **more: pd.read_csv(path, **options, **more), wanted))


def _all_columns(read: Callable[..., pd.DataFrame], wanted: list[str]) -> pd.DataFrame:
    """The columns. One with a whole number beyond 64 bits is read again, as floats or else as text.

    pandas gives such a column as text or as Python's integers, and may take its missing cells for text, too.
    """
    frame = read(usecols=wanted)[wanted]
    for name in wanted:
        if frame[name].dtype.kind == "O" and frame[name].astype(str).str.contains(LONG_NUMBER).any():
            try:
                frame[name] = read(usecols=[name], dtype={name: "float64"})[name]
            except ValueError:
                frame[name] = read(usecols=[name], dtype={name: "str"})[name]
    return frame


def _check_lines(path: Path, separator: str, fields: int) -> None:
    """Every line must have as many fields as the header: pandas would drop or add some without a word."""
    with path.open("rb") as stream:
        plain: Any = gzip.GzipFile(fileobj=stream) if _compression(path) else stream
        text = io.TextIOWrapper(plain, encoding="utf-8-sig", newline="")
        lines = csv.reader(_whole_lines(path, text), delimiter=separator)
        for line in lines:
            if line and len(line) != fields:
                raise InputError(f"{path}, line {lines.line_num}: wanted {fields} fields, got {len(line)}.")


def _whole_lines(path: Path, text: Iterable[str]) -> Iterator[str]:
    """The lines. A carriage return without a line feed is refused: pandas would end a row there, or drop a field."""
    for number, line in enumerate(text, 1):
        if line.endswith("\r"):
            raise InputError(
                f"{path}, line {number}: a carriage return without a line feed; wanted lines that end with \\n."
            )
        yield line


def sniffed(path: Path) -> Dialect:
    """Separator and decimal mark of a CSV file, from its first lines."""
    lines = _lines(_head(path))
    if not lines:
        raise InputError(f"{path} is empty; wanted a table with a header of column names.")
    if _is_libsvm(lines[0]):
        raise InputError(f"{path} is LIBSVM text (label index:value ...), not a table with column names.")
    bare = [QUOTED.sub("", line) for line in lines]
    named = [separator for separator in SEPARATORS if separator in bare[0]]
    if not named:
        return Dialect(",", ".")  # one column

    def regularity(separator: str) -> tuple[int, int]:
        """How many lines have as many of it as the header, and how many that is."""
        found = [line.count(separator) for line in bare]
        return found.count(found[0]), found[0]

    separator = max(named, key=regularity)
    return Dialect(separator, "," if separator != "," and _comma_is_decimal(lines[1:], separator) else ".")


def _is_libsvm(line: str) -> bool:
    return LIBSVM_ROW.fullmatch(line.partition("#")[0].strip()) is not None


def _comma_is_decimal(lines: list[str], separator: str) -> bool:
    """Whether some fields are numbers with a comma, and none has a point."""
    fields = [field.strip() for line in lines for field in line.split(separator)]
    points = any("." in field and NUMBER.fullmatch(field) for field in fields)
    return not points and any(COMMA_NUMBER.fullmatch(field) for field in fields)


def _compression(path: Path) -> str | None:
    """By its first bytes, whatever its name is."""
    with path.open("rb") as stream:
        return "gzip" if stream.read(2) == GZIP else None


def _head(path: Path) -> bytes:
    """The first bytes, unpacked."""
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
        if not head.startswith(GZIP):
            return head
        with gzip.open(path) as packed:
            return packed.read(HEAD_BYTES)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "it is no whole gzip file"
        raise InputError(f"cannot read {path}: {reason}.") from None


def _lines(head: bytes) -> list[str]:
    text = head.decode("utf-8-sig", errors="replace")
    lines = text.splitlines()
    if len(head) == HEAD_BYTES:
        lines = lines[:-1] or lines  # the last one may be cut
    return [line for line in lines[:HEAD_LINES] if line.strip()]


def _parquet_names(path: Path) -> list[str]:
    try:
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError("reading Parquet needs pyarrow: install dsba[tables].") from None
    return _checked_names(path, list(_reading(path, lambda: pq.read_schema(path)).names))


def _checked_names(path: Path, names: list[Any]) -> list[str]:
    texts = [name for name in names if isinstance(name, str) and name]
    if len(texts) < len(names):
        raise InputError(
            f"{path}: the name of column {names.index(next(n for n in names if n not in texts)) + 1} is empty."
        )
    if all(NUMBER.fullmatch(name) for name in texts):
        raise InputError(f"{path} has no header: its first line must have the names of the columns.")
    if repeated := [name for name, count in Counter(texts).items() if count > 1]:
        raise InputError(f"{path} has {repeated[0]!r} as the name of several columns.")
    return texts


def _reading(path: Path, work: Any) -> Any:
    """Errors of the libraries in our own words: theirs may show values."""
    try:
        return work()
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text.") from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or 'it is no whole file'}.") from None
    except InputError:
        raise
    except (ValueError, EOFError, ArithmeticError, TypeError, KeyError, csv.Error, zlib.error):
        raise InputError(f"{path} cannot be read as a table.") from None


def _pandas() -> Any:
    try:
        import pandas
    except ImportError:
        raise InputError("reading tables needs pandas: install dsba[tables].") from None
    return pandas
