"""Tables as text: CSV, plain or gzip, with a header of column names. Separator and decimal mark are found out."""

from __future__ import annotations

import csv
import io
import re
import warnings
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder, iterdecode, lookup
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dsba.data.bounds import Bounded, unpacked
from dsba.data.hashed_file import HashedFile
from dsba.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

HEAD_BYTES = 1 << 16  # what is looked at to recognise a file
HEAD_LINES = 50
SEPARATORS = (",", ";", "\t", "|")
LINE_END, QUOTE = b'\n"'
LIBSVM_ROW = re.compile(r"\S+(\s+qid:\d+)?(\s+\d+:\S+)+")
NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")  # \d+\.?\d* would go back n^2 times
LONG_DIGITS = 19  # digits that may be too many for 64 bits
LONG_NUMBER = rf"^\s*[+-]?\d{{{LONG_DIGITS},}}\s*$"
SMALLEST_UNSIGNED = 2.0**63  # whole numbers from here on are not of the signed kind
LIKE_NUMBER = re.compile(r"[+-]?([\d.,]|inf)", re.IGNORECASE)
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
LONGEST_REGULAR = 1 << 24  # bytes of a line
RECODED_BYTES = 1 << 16  # bytes of another encoding
WINDOWS = bytes(range(0x80, 0xA0))  # letters and signs of Windows, where latin-1 has none
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


def names(file: HashedFile, dialect: Dialect | None = None) -> list[Any]:
    """What the header says."""
    with _records(file, (dialect or sniffed(file)).separator) as records:
        return next(filter(None, records))


def texts(file: HashedFile, wanted: list[str], dialect: Dialect | None = None) -> pd.DataFrame:
    """The wanted columns as they are written."""
    dialect = dialect or sniffed(file)
    return _parsed(file, sep=dialect.separator, usecols=wanted, dtype=str, na_filter=False)


def read(file: HashedFile, wanted: list[str], dialect: Dialect | None = None) -> pd.DataFrame:
    """The wanted columns; numbers are read to the last digit."""
    import pandas as pd

    dialect = dialect or sniffed(file)
    options: dict[str, Any] = {"sep": dialect.separator, "decimal": dialect.decimal}
    options |= {"keep_default_na": False, "na_values": [*MISSING_MARKS, *file.reading.na_values]}
    if int(pd.__version__.split(".")[0]) < 3:
        options["float_precision"] = "round_trip"  # the default since
    frame = _all_columns(lambda **more: _parsed(file, **{**options, **more}), wanted, options["na_values"])
    if odd := [name for name in wanted if _other_marks(frame[name])]:
        raise InputError(
            f"{file.name}: the column {odd[0]!r} has numbers with other marks than the file's; wanted "
            f"{dialect.decimal!r} before decimals and nothing between thousands."
        )
    return frame


def _parsed(file: HashedFile, *, sep: str, **options: Any) -> pd.DataFrame:
    """What pandas reads. Lines that are not seen to be regular are checked one by one, also if pandas fails."""
    import pandas as pd

    lines = RegularLines(_unpacked(file), sep)
    try:
        with warnings.catch_warnings():  # columns whose pieces have different types are read again
            warnings.simplefilter("ignore", pd.errors.DtypeWarning)
            return pd.read_csv(lines, sep=sep, **options)
    finally:
        if not lines.regular:
            _check_lines(file, sep)


def _unpacked(file: HashedFile) -> Any:
    """The bytes of the text as UTF-8, within the bound if they are packed."""
    return _content(file) if file.reading.encoding is None else _as_utf8(_content(file), file.reading.encoding)


def _content(file: HashedFile) -> Any:
    content = unpacked(file)
    return file if content is file else io.BufferedReader(Bounded(file, content), 1 << 16)


def is_utf8(file: HashedFile) -> bool:
    """Whether a text is UTF-8, and the encoding that was given would read other letters, as beyond ASCII."""
    content, beyond = _content(file), _is_wide(file.reading.encoding)
    with suppress(UnicodeDecodeError):
        for text in iterdecode(iter(lambda: content.read(RECODED_BYTES), b""), "utf-8"):
            if "\x00" in text:
                return False  # UTF-16
            beyond |= not text.isascii()
        return beyond
    return False


def _is_wide(encoding: str | None) -> bool:
    """Whether a letter of ASCII has several bytes."""
    return lookup(encoding or "utf-8").name.startswith(("utf-16", "utf-32"))


def _as_utf8(content: Any, encoding: str) -> io.BufferedReader:
    return io.BufferedReader(Recoded(content, encoding), RECODED_BYTES)


class Recoded(io.RawIOBase):
    """Text of another encoding as UTF-8."""

    def __init__(self, content: Any, encoding: str) -> None:
        self.content, self._decoder, self._left = content, getincrementaldecoder(encoding)(), b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = b"more"
        while piece and not self._left:
            piece = self.content.read(RECODED_BYTES)
            self._left = self._decoder.decode(piece, not piece).encode()
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count


def other_encoding(path: object, content: bytes) -> InputError:
    """An error for text that is not UTF-8; it names the encoding that the bytes look like."""
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        looks = "utf-16"
    elif zeros := content.count(0):
        odd = content[1::2].count(0)  # signs of Latin letters and digits have a zero each
        if odd not in (0, zeros) or 8 * zeros < len(content):
            return InputError(f"{path} is neither text nor a table of a format that can be read.")
        looks = "utf-16-le" if odd else "utf-16-be"
    else:
        looks = "cp1252" if content.translate(None, WINDOWS) != content else "latin-1"
    return InputError(f"{path} is not UTF-8 text and looks like {looks}: give encoding {looks} (--encoding {looks}).")


class RegularLines:
    """A text for pandas to read, which is checked on the way: UTF-8, and as many fields in each line as in the first.

    ``regular`` is True after the last byte if nothing was odd. Lines may be sound and not regular: blank lines, quoted
    line ends, and quotes inside a field are left to ``_check_lines``.
    """

    def __init__(self, stream: Any, separator: str) -> None:
        self.stream, self.separator = stream, ord(separator)
        self.regular, self._sound = False, True
        self._rest, self._fields = b"", 0
        self._inside = bytes(set(range(256)) - {self.separator, LINE_END, QUOTE})
        self._before = np.isin(np.arange(256), [self.separator, LINE_END, QUOTE])
        self._after = np.isin(np.arange(256), [self.separator, LINE_END, QUOTE, ord("\r")])

    def __iter__(self) -> Iterator[bytes]:  # pandas asks for it, and only calls read
        return iter(self.stream)

    def read(self, size: int = -1) -> bytes:
        """Bytes, which pandas need not encode again."""
        content = self.stream.read(size)
        if not content and self._rest.endswith(b"\r"):
            self._sound = False
        if self._sound:
            text = self._rest + (content or b"\n" * bool(self._rest))  # the last line may have no end
            text = text if self._fields else text.removeprefix(BOM_UTF8)
            cut = text.rfind(b"\n") + 1
            self._rest = text[cut:]
            self._sound = len(self._rest) <= LONGEST_REGULAR and (not cut or self._is_regular(text, cut))
        self.regular = self._sound and not content
        return content

    def _is_regular(self, text: bytes, cut: int) -> bool:
        """Whether the lines that end before ``cut`` have as many fields as the first line."""
        if not text.isascii():
            text[:cut].decode()
        if b"\r" in text and text.count(b"\r", 0, cut) != text.count(b"\r\n", 0, cut):
            return False
        kinds = np.frombuffer(text[:cut].translate(None, self._inside), np.uint8)
        if b'"' in text:
            found = np.frombuffer(text, np.uint8, cut)
            if not self._around_fields(found, np.flatnonzero(found == QUOTE)):
                return False
            quotes = kinds == QUOTE
            outside = np.cumsum(quotes, dtype=np.uint8) % 2 == 0
            kinds = kinds[outside & ~quotes]
        return self._is_periodic(kinds == LINE_END)

    def _around_fields(self, found: npt.NDArray[np.uint8], quotes: npt.NDArray[np.intp]) -> bool:
        """Whether quotes stand around whole fields only, or are doubled. What was found ends with a line."""
        opened, closed = quotes[::2], quotes[1::2]
        whole = len(opened) == len(closed)
        return whole and bool(self._before[found[opened - 1]].all() and self._after[found[closed + 1]].all())

    def _is_periodic(self, ends: npt.NDArray[np.bool_]) -> bool:
        """Whether fields end with a line as often as in the first line; the other ones end with a separator."""
        self._fields = self._fields or int(ends.argmax()) + 1
        last = ends[self._fields - 1 :: self._fields]
        return len(last) * self._fields == len(ends) and bool(last.all()) and len(last) == np.count_nonzero(ends)


def _all_columns(read: Callable[..., pd.DataFrame], wanted: list[str], marks: list[str]) -> pd.DataFrame:
    """The columns. Those that pandas may have taken for another type than they have as a whole are read again.

    pandas finds the type of a column for every piece of the file. A column with a whole number beyond 64 bits it gives
    as text or as Python's integers, and may take its missing cells for text.
    """
    frame = read(usecols=wanted)
    if mixed := [name for name in wanted if _is_mixed(frame[name])]:
        frame[mixed] = read(usecols=mixed, low_memory=False)[mixed]
    for name in wanted:
        if not _is_text(frame[name]):
            continue
        if _begins_with_numbers(frame[name]) and _texts(frame[name]).isin([NO_VALUE]).any():
            again = read(usecols=[name], na_values=[*marks, NO_VALUE], low_memory=False)[name]
            frame[name] = frame[name] if _is_text(again) else again
        if _is_text(frame[name]) and _has_long_numbers(frame[name]):
            try:
                frame[name] = read(usecols=[name], dtype={name: "float64"})[name]
            except ValueError:
                frame[name] = read(usecols=[name], dtype={name: "str"})[name]
    return frame


def _is_mixed(values: pd.Series) -> bool:
    """Whether the pieces of a column may have had different types: text and others, or integers of both kinds."""
    import pandas as pd

    if values.dtype == object:
        return pd.api.types.infer_dtype(values, skipna=True) != "string"
    return values.dtype.kind == "f" and bool((np.abs(values.to_numpy()) >= SMALLEST_UNSIGNED).any())


def _is_text(values: pd.Series) -> bool:
    return values.dtype.kind == "O"


def _texts(values: pd.Series) -> pd.Series:
    """The values that are there, as text without spaces around it."""
    return values.dropna().astype(str).str.strip()


def _begins_with_numbers(values: pd.Series) -> bool:
    """Whether the first values look like numbers with any marks. If not, the whole column is not one of numbers."""
    first = [value.strip() for value in values.iloc[:HEAD_LINES].tolist() if isinstance(value, str)]
    return all(LIKE_NUMBER.match(value) for value in first if value != NO_VALUE)


def _has_long_numbers(values: pd.Series) -> bool:
    lengths = (values.astype(str) if values.dtype == object else values).str.len()
    if not lengths.max() >= LONG_DIGITS:  # may be nan
        return False
    return bool(_texts(values[lengths >= LONG_DIGITS]).str.contains(LONG_NUMBER).any())


def _other_marks(values: pd.Series) -> bool:
    """Whether a column that was read as text has nothing but numbers, some of them with commas or points."""
    if not _is_text(values) or not _begins_with_numbers(values):
        return False
    texts = _texts(values)
    marked = texts.str.fullmatch(MARKED)
    return bool(marked.any()) and bool((marked | texts.str.fullmatch(NUMBER)).all())


def _check_lines(file: HashedFile, separator: str) -> None:
    """Every line must have as many fields as the header: pandas would drop or add some without a word."""
    with _records(file, separator) as lines:
        fields = len(next(filter(None, lines), ()))
        for line in lines:
            if line and len(line) != fields:
                raise InputError(f"{file.name}, line {lines.line_num}: wanted {fields} fields, got {len(line)}.")


@contextmanager
def _records(file: HashedFile, separator: str) -> Iterator[Any]:
    """The fields of every line, by Python's own reader."""
    text = io.TextIOWrapper(_unpacked(file), encoding="utf-8-sig", newline="")
    csv.field_size_limit(LONGEST_FIELD)  # of the process; Python's own is 131,072 characters
    try:
        yield csv.reader(_whole_lines(file.name, text), delimiter=separator)
    finally:
        text.detach()  # or the file would be closed with it


def _whole_lines(path: str, text: Iterable[str]) -> Iterator[str]:
    """The lines. A carriage return without a line feed is refused: pandas would end a row there, or drop a field."""
    for number, line in enumerate(text, 1):
        if line.endswith("\r"):
            raise InputError(
                f"{path}, line {number}: a carriage return without a line feed; wanted lines that end with \\n."
            )
        yield line


def sniffed(file: HashedFile) -> Dialect:
    """Separator and decimal mark of a CSV file, from its first lines."""
    encoding = file.reading.encoding
    begin, other = head(file), not _is_wide(encoding)
    marked = other and begin.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    if encoding is not None and not marked:
        begin = _as_utf8(unpacked(file), encoding).read(HEAD_BYTES)
    lines = _lines(begin)
    if marked or b"\x00" in begin[:2]:
        raise other_encoding(file.name, begin)
    if not lines:
        raise InputError(f"{file.name} is empty; wanted a table with a header of column names.")
    if _is_libsvm(lines[0]):
        raise InputError(f"{file.name} is LIBSVM text (label index:value ...), not a table with column names.")
    bare = [QUOTED.sub("", line) for line in lines]
    named = [separator for separator in SEPARATORS if separator in bare[0]]
    if not named:
        return Dialect(",", file.reading.decimal or ".")  # one column

    def regularity(separator: str) -> tuple[int, int]:
        """How many lines have as many of it as the header, and how many that is."""
        found = [line.count(separator) for line in bare]
        return found.count(found[0]), found[0]

    separator = max(named, key=regularity)
    usual = "." if separator == "," else None
    return Dialect(separator, file.reading.decimal or usual or _decimal_mark(file.name, lines[1:], separator))


def _is_libsvm(line: str) -> bool:
    return LIBSVM_ROW.fullmatch(line.partition("#")[0].strip()) is not None


def _decimal_mark(path: str, lines: list[str], separator: str) -> str:
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
            "decimals and nothing between thousands. If they stand before decimals, give the decimal mark (--decimal)."
        )
    return "," if commas and not points else "."


def head(file: HashedFile) -> bytes:
    """The first bytes, unpacked."""
    return unpacked(file).read(HEAD_BYTES)


def _lines(head: bytes) -> list[str]:
    text = head.decode("utf-8-sig", errors="replace")
    lines = text.splitlines()
    if len(head) == HEAD_BYTES:
        lines = lines[:-1] or lines  # the last one may be cut
    return [line for line in lines[:HEAD_LINES] if line.strip()]
