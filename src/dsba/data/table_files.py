"""Tables in files of several formats. Only the columns that are asked for are read.

Errors name the file, the line or the column, and what was wanted. They never show a value of the table.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dsba.data import excel, parquet, statistics_packages, text_tables
from dsba.data.databases import DatabaseTable, columns_asked_for, database_file
from dsba.data.hashed_file import HashedFile, same_file
from dsba.data.sources import Reading, TableSource
from dsba.data.text_tables import NUMBER, head, other_encoding
from dsba.errors import InputError, cannot, require_package

if TYPE_CHECKING:
    import pandas as pd

LEADING_ZERO = r"^\s*[+-]?0\d"


class Format(Protocol):
    """A module that reads tables of one format. Its errors may be those of the libraries it uses.

    The functions get a file that is open and leave it open. What its owner said of it is its ``reading``.
    """

    def recognises(self, head: bytes) -> bool:
        """Whether a file that begins with these bytes, unpacked, is one."""
        ...

    def names(self, file: HashedFile) -> list[Any]:
        """The names of the columns, in the file's order; no row is read."""
        ...

    def read(self, file: HashedFile, wanted: list[str]) -> pd.DataFrame:
        """The wanted columns, which are there."""
        ...

    def texts(self, file: HashedFile, wanted: list[str]) -> pd.DataFrame:
        """The wanted columns, which are there, as the file has them."""
        ...


FOREIGN = {
    b"pk\x03\x04": "a zip archive, or a document that is packed as one: unpack it, or save its table as CSV",
    b"7z\xbc\xaf": "a 7z archive: unpack it first",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook, or one with a password: save it as .xlsx without a password",
    b"%pdf": "a PDF document: save its table as CSV", b"{\\rtf": "a text document: save its table as CSV",
    b"<!doctype": "a web page: download the table itself", b"<html": "a web page: download the table itself",
    b"<?xml": "an XML document: save its table as CSV",
    b"sep=": "a CSV file with a line for Excel (sep=) above its header: take this line out",
}  # fmt: skip
"""How files begin that people take for tables, in small letters."""
FORMATS: tuple[Format, ...] = (parquet, excel, statistics_packages, text_tables)


def is_table(path: Path) -> bool:
    """Whether the file looks like a table of one of the formats."""
    with _reading(path), HashedFile(path) as file:
        begin = head(file)
    return database_file(begin, path) is not None or any(form.recognises(begin) for form in FORMATS)


class TableFile:
    """A table in a file, which is opened once for all that is read of it.

    ``digest`` (hex sha256) is of the bytes that the rows were parsed from. If the file is changed or replaced after the
    header was read, every later call is refused.

    Attributes
    ----------
    names
        The names of the columns, in the file's order.
    digest
        Empty before rows are read.
    database
        The URL of the file if it is a database, of which nothing else is known here.
    """

    def __init__(self, path: Path, reading: Reading | None = None) -> None:
        require_package("reading tables", "pandas", "tables")
        self.path, self.digest = path, ""
        self._kept: tuple[pd.DataFrame, Collection[str]] | None = None
        with _reading(path, reading):
            self._file = HashedFile(path, reading)
            begin = head(self._file)
            self.database = database_file(begin, path)
            if self.database is not None:
                return  # another class reads it
            # Text says what is wrong with a file that no format recognises.
            self._form = next((form for form in FORMATS if form.recognises(begin)), text_tables)
            if self._form is text_tables and (mark := next(filter(begin.lower().startswith, FOREIGN), None)):
                raise InputError(f"{path} is {FOREIGN[mark]}.")
            if self._form is text_tables and self._file.reading.encoding and text_tables.is_utf8(self._file):
                self._file.reading = replace(self._file.reading, encoding=None)
            self.names = _checked_names(path, self._form.names(self._file))

    def read(self, columns: Sequence[str] | None = None, codes: Collection[str] = ()) -> pd.DataFrame:
        """The named columns (None: all), in the order asked for. They are kept and not parsed again.

        Numbers in the columns ``codes`` stay text where they have leading zeros: 01 and 1 are two codes.
        """
        wanted = columns_asked_for(self.path, self.names, columns)
        if self._kept is None or set(codes) != set(self._kept[1]) or not set(wanted) <= set(self._kept[0].columns):
            with self._opened() as file:
                frame = self._with_codes(file, self._form.read(file, wanted), codes)
            self._kept = frame, codes
        self.require_same()  # rows that were kept must still be those of the file
        frame = self._kept[0]
        return frame.copy(deep=False) if wanted == list(frame.columns) else frame[wanted]

    def texts(self, columns: Sequence[str], beside: Sequence[str] = ()) -> pd.DataFrame:
        """The named columns as the file has them, for people to recognise. A file needs no ``beside``."""
        wanted = columns_asked_for(self.path, self.names, columns)
        with self._opened() as file:
            return self._form.texts(file, wanted)[wanted]

    def require_same(self) -> None:
        """An error unless the file is the one whose header was read, and was not written to."""
        with suppress(OSError):
            if same_file(self._file.stat, self.path.stat()):
                return
        raise InputError(f"{self.path} was changed or replaced after its header was read: start again.")

    @contextmanager
    def _opened(self) -> Iterator[HashedFile]:
        self.require_same()
        with _reading(self.path, self._file.reading):
            yield self._file
            self.digest = self._file.digest()
            if words := self._file.reading.words():  # read in another way, the rows are others
                self.digest = hashlib.sha256(json.dumps([self.digest, *words]).encode()).hexdigest()
        self.require_same()

    def _with_codes(self, file: HashedFile, frame: pd.DataFrame, codes: Collection[str]) -> pd.DataFrame:
        numbers = [name for name in frame if name in codes and frame[name].dtype.kind in "iuf"]
        written = self._form.texts(file, numbers) if numbers else frame
        for name in numbers:
            if written[name].dtype.kind not in "iuf" and written[name].str.contains(LEADING_ZERO).any():
                frame[name] = written[name].str.strip().where(frame[name].notna())
        return frame


Table = TableFile | DatabaseTable


def open_table(place: Path | TableSource) -> Table:
    """The table of a file or a database, whose header is read."""
    source = TableSource.of(place)
    if source.is_database:
        return DatabaseTable(source)
    table = TableFile(source.path, source.reading)
    return table if table.database is None else DatabaseTable(replace(source, place=table.database))


def _checked_names(path: Path, names: list[Any]) -> list[str]:
    if empty := [n for n, name in enumerate(names, 1) if not (isinstance(name, str) and name)]:
        wanted = "the first line must have the names of all columns"
        raise InputError(f"{path}: the name of column {empty[0]} is empty: {wanted}.")
    if all(NUMBER.fullmatch(name) for name in names):
        raise InputError(f"{path} has no header: its first line must have the names of the columns.")
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(f"{path} has {repeated[0]!r} as the name of several columns.")
    return names


@contextmanager
def _reading(path: Path, reading: Reading | None = None) -> Iterator[None]:
    """Errors of the libraries become our own: theirs may show values. A damaged file may raise any."""
    try:
        yield
    except UnicodeDecodeError as error:
        if reading is not None and reading.encoding:
            raise InputError(f"{path} is not {reading.encoding} text.") from None
        raise other_encoding(path, error.object) from None
    except (OSError, EOFError, zlib.error) as error:
        raise cannot(f"read {path}", error, "it is no whole file") from None
    except InputError:
        raise
    except Exception:
        raise InputError(f"{path} cannot be read as a table.") from None
