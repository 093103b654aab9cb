"""Tables in files of several formats. Only the columns that are asked for are read.

Errors name the file, the line or the column, and what was wanted. They never show a value of the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dsba.data import parquet, text_tables
from dsba.data.text_tables import NUMBER, head
from dsba.errors import InputError, cannot

if TYPE_CHECKING:
    import pandas as pd

Read = TypeVar("Read")
LEADING_ZERO = r"^\s*[+-]?0\d"


class Format(Protocol):
    """A module that reads tables of one format. Its errors may be those of the libraries it uses."""

    def recognises(self, head: bytes) -> bool:
        """Whether a file that begins with these bytes, unpacked, is one."""
        ...

    def names(self, path: Path) -> list[Any]:
        """The names of the columns, in the file's order; no row is read."""
        ...

    def read(self, path: Path, wanted: list[str]) -> pd.DataFrame:
        """The wanted columns, which are there."""
        ...

    def texts(self, path: Path, wanted: list[str]) -> pd.DataFrame:
        """The wanted columns, which are there, as the file has them."""
        ...


FORMATS: tuple[Format, ...] = (parquet, text_tables)


def is_table(path: Path) -> bool:
    """Whether the file looks like a table of one of the formats."""
    begin = head(path)
    return any(form.recognises(begin) for form in FORMATS)


def column_names(path: Path) -> list[str]:
    """The names of a table's columns, in its order; no row is read."""
    _require_pandas()
    form = _format(path)
    return _checked_names(path, _reading(path, lambda: form.names(path)))


def read_table(path: Path, columns: Sequence[str] | None = None, codes: Collection[str] = ()) -> pd.DataFrame:
    """The named columns of a table (None: all), in the order asked for.

    Numbers in the columns ``codes`` stay text where they have leading zeros: 01 and 1 are two codes.
    """
    form, wanted = _format(path), _present(path, columns)
    frame = _reading(path, lambda: form.read(path, wanted)[wanted])
    for name in (name for name in wanted if name in codes and frame[name].dtype.kind in "iuf"):
        written = read_texts(path, [name])[name]
        if written.dtype.kind not in "iuf" and written.str.contains(LEADING_ZERO).any():
            frame[name] = written.str.strip().where(frame[name].notna())
    return frame


def read_texts(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """The named columns as the file has them, for people to recognise."""
    form, wanted = _format(path), _present(path, columns)
    return _reading(path, lambda: form.texts(path, wanted)[wanted])


def _present(path: Path, columns: Sequence[str] | None) -> list[str]:
    """The columns that are asked for; an error if the table has not all of them."""
    names = column_names(path)
    wanted = names if columns is None else list(columns)
    held = set(names)
    if missing := [name for name in wanted if name not in held]:
        raise InputError(f"{path} has no column {missing[0]!r}; it has {', '.join(map(repr, names[:20]))}.")
    return wanted


def _format(path: Path) -> Format:
    """The first that knows the file; text says what is wrong with a file that nobody knows."""
    begin = head(path)
    return next((form for form in FORMATS if form.recognises(begin)), text_tables)


def _checked_names(path: Path, names: list[Any]) -> list[str]:
    if empty := [n for n, name in enumerate(names, 1) if not (isinstance(name, str) and name)]:
        raise InputError(f"{path}: the name of column {empty[0]} is empty.")
    if all(NUMBER.fullmatch(name) for name in names):
        raise InputError(f"{path} has no header: its first line must have the names of the columns.")
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(f"{path} has {repeated[0]!r} as the name of several columns.")
    return names


def _reading(path: Path, work: Callable[[], Read]) -> Read:
    """Errors of the libraries in our own words: theirs may show values. A damaged file may raise any of them."""
    try:
        return work()
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text.") from None
    except OSError as error:
        raise cannot(f"read {path}", error, "it is no whole file") from None
    except InputError:
        raise
    except Exception:
        raise InputError(f"{path} cannot be read as a table.") from None


def _require_pandas() -> None:
    if find_spec("pandas") is None:
        raise InputError("reading tables needs pandas: install dsba[tables].")
