"""Tables as text: CSV, plain or gzip, with a header of column names. Separator and decimal mark are found out."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from dsba.data.bounds import Unpacked
from dsba.errors import InputError, cannot

if TYPE_CHECKING:
    import pandas as pd

HEAD_BYTES = 1 << 16  # what is looked at to recognise a file
HEAD_LINES = 50
SEPARATORS = (",", ";", "\t", "|")
GZIP = b"\x1f\x8b"
LIBSVM_ROW = re.compile(r"\S+(\s+qid:\d+)?(\s+\d+:\S+)+")
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")  # \d+\.?\d* would go back n^2 times
LONG_NUMBER = r"^\s*[+-]?\d{19,}\s*$"
COMMA_NUMBER = re.compile(r"[+-]?(\d*,\d+([eE][+-]?\d+)?|\d{1,3}(,\d{3}){2,})")
POINT_NUMBER = re.compile(r"[+-]?(\d*\.\d+([eE][+-]?\d+)?|\d{1,3}(\.\d{3}){2,})")
GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}([.,]\d{3})+")  # as thousands are marked, and some decimals look
MARKED = re.compile(r"[+-]?(\d*[.,]\d+|\d{1,3}([.,]\d{3})+([.,]\d+)?)([eE][+-]?\d+)?")
MISSING_MARKS = [
    *("", " ", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "NULL", "null", "NaN", "nan", "-NaN", "-nan"),
    *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
]  # fields without a value, in every column
NO_VALUE = "None"  # a missing value in a column of numbers, and a level in others
QUOTED = re.compile(r'"(?:[^"]|"")*"')
LONGEST_FIELD = 1 << 30  # characters; files have a bound of their own


class Dialect(NamedTuple):
    """How a CSV file is written."""

    separator: str
    decimal: str


def recognises(head: bytes) -> bool:
    """Whether this is text with a header of names."""
    lines = _lines(head)
    if not lines or b"\x00" in head or lines[0].startswith("#") or _is_libsvm(lines[0]):
        return False
    names = lines[0].replace("\t", ",")
    return names.isprintable() and any(separator in names for separator in SEPARATORS)


def names(path: Path, dialect: Dialect | None = None) -> list[Any]:
    """What the header says."""
    separator = (dialect or sniffed(path)).separator
    with _opened(path) as stream:
        return next(filter(None, _records(path, stream, separator)))


def texts(path: Path, wanted: list[str], dialect: Dialect | None = None) -> pd.DataFrame:
    """The wanted columns as they are written."""
    dialect = dialect or sniffed(path)
    _check_lines(path, dialect.separator)
    return _parsed(path, sep=dialect.separator, usecols=wanted, dtype=str, na_filter=False)


def read(path: Path, wanted: list[str], dialect: Dialect | None = None) -> pd.DataFrame:
    """The wanted columns; numbers are read to the last digit."""
    import pandas as pd

    dialect = dialect or sniffed(path)
    _check_lines(path, dialect.separator)
    options: dict[str, Any] = {"sep": dialect.separator, "decimal": dialect.decimal, "low_memory": False}
    options |= {"keep_default_na": False, "na_values": MISSING_MARKS}
    if int(pd.__version__.split(".")[0]) < 3:
        options["float_precision"] = "round_trip"  # the default since
    frame = _all_columns(lambda **more: _parsed(path, **{**options, **more}), wanted)
    if odd := [name for name in wanted if _other_marks(frame[name])]:
        raise InputError(
            f"{path}: the column {odd[0]!r} has numbers with other marks than the file's; wanted "
            f"{dialect.decimal!r} before decimals and nothing between thousands."
        )
    return frame


def _parsed(path: Path, **options: Any) -> pd.DataFrame:
    import pandas as pd

    with _opened(path) as stream:
        return pd.read_csv(stream, **options)


def _opened(path: Path) -> IO[bytes]:
    """The bytes of the text; gzip is known by its first bytes, whatever its name is."""
    with path.open("rb") as stream:
        packed = stream.read(2) == GZIP
    return io.BufferedReader(Unpacked(path), 1 << 16) if packed else path.open("rb")


def _all_columns(read: Callable[..., pd.DataFrame], wanted: list[str]) -> pd.DataFrame:
    """The columns. One with a whole number beyond 64 bits is read again, as floats or else as text.

    pandas gives such a column as text or as Python's integers, and may take its missing cells for text, too.
    """
    frame = read(usecols=wanted)[wanted]
    for name in wanted:
        if _is_text(frame[name]) and _texts(frame[name]).isin([NO_VALUE]).any():
            again = read(usecols=[name], na_values=[*MISSING_MARKS, NO_VALUE])[name]
            frame[name] = frame[name] if _is_text(again) else again
        if _is_text(frame[name]) and _texts(frame[name]).str.contains(LONG_NUMBER).any():
            try:
                frame[name] = read(usecols=[name], dtype={name: "float64"})[name]
            except ValueError:
                frame[name] = read(usecols=[name], dtype={name: "str"})[name]
    return frame


def _is_text(values: pd.Series) -> bool:
    return values.dtype.kind == "O"


def _texts(values: pd.Series) -> pd.Series:
    """The values that are there, as text without spaces around it."""
    return values.dropna().astype(str).str.strip()


def _other_marks(values: pd.Series) -> bool:
    """Whether a column that was read as text has nothing but numbers, some of them with commas or points."""
    if not _is_text(values):
        return False
    texts = _texts(values)
    marked = texts.str.fullmatch(MARKED)
    return bool(marked.any()) and bool((marked | texts.str.fullmatch(NUMBER)).all())


def _check_lines(path: Path, separator: str) -> None:
    """Every line must have as many fields as the header: pandas would drop or add some without a word."""
    with _opened(path) as stream:
        lines = _records(path, stream, separator)
        fields = len(next(filter(None, lines), ()))
        for line in lines:
            if line and len(line) != fields:
                raise InputError(f"{path}, line {lines.line_num}: wanted {fields} fields, got {len(line)}.")


def _records(path: Path, stream: IO[bytes], separator: str) -> Any:
    """The fields of every line, by Python's own reader."""
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
    csv.field_size_limit(LONGEST_FIELD)  # of the process; Python's own is 131,072 characters
    return csv.reader(_whole_lines(path, text), delimiter=separator)


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
    lines = _lines(head(path))
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
    return Dialect(separator, "." if separator == "," else _decimal_mark(path, lines[1:], separator))


def _is_libsvm(line: str) -> bool:
    return LIBSVM_ROW.fullmatch(line.partition("#")[0].strip()) is not None


def _decimal_mark(path: Path, lines: list[str], separator: str) -> str:
    """The comma if some fields are numbers with a comma and none has a point.

    Where a comma or a point may as well stand between thousands, the file is refused: read wrongly, its numbers would
    be off by a factor of 1000.
    """
    fields = [field.strip().strip('"') for line in lines for field in line.split(separator)]
    commas, points = ([f for f in fields if kind.fullmatch(f)] for kind in (COMMA_NUMBER, POINT_NUMBER))
    if (commas or points) and all(GROUPED.fullmatch(field) for field in points or commas):
        mark = "points" if points else "commas"
        raise InputError(
            f"{path}: the {mark} in its numbers may stand before decimals or between thousands; wanted a point before "
            "decimals and nothing between thousands."
        )
    return "," if commas and not points else "."


def head(path: Path) -> bytes:
    """The first bytes, unpacked."""
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
        if not head.startswith(GZIP):
            return head
        with gzip.open(path) as packed:
            return packed.read(HEAD_BYTES)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise cannot(f"read {path}", error, "it is no whole gzip file") from None


def _lines(head: bytes) -> list[str]:
    text = head.decode("utf-8-sig", errors="replace")
    lines = text.splitlines()
    if len(head) == HEAD_BYTES:
        lines = lines[:-1] or lines  # the last one may be cut
    return [line for line in lines[:HEAD_LINES] if line.strip()]
