"""Where a table is, a file or a database, and what its owner says of how it is to be read."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

from dsba.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

URL = re.compile(r"[a-z][a-z0-9]*(\+[a-z0-9_]+)?://.*", re.DOTALL)
OWN_KEYS = ("table", "query", "site")  # of a URL; others are for the database's driver


@dataclass(frozen=True)
class Reading:
    """What cannot be found out from a table itself. The default finds out what it can."""

    encoding: str | None = None
    """Of text that is not UTF-8."""
    na_values: tuple[str, ...] = ()
    """Other marks of a missing value, in every column."""
    decimal: str | None = None
    """The mark before decimals in text."""

    def __post_init__(self) -> None:
        if self.decimal not in (None, ".", ","):
            raise InputError(f"the decimal mark must be '.' or ',', got {self.decimal!r}.")
        try:
            known = self.encoding is None or codecs.lookup(self.encoding)._is_text_encoding
        except LookupError:
            known = False
        if not known:
            raise InputError(f"the encoding {self.encoding!r} is not known; utf-8, latin-1, cp1252 and utf-16 are.")

    def words(self) -> list[str]:
        """The options of a command that say the same."""
        given = {"encoding": self.encoding, "na-values": ",".join(self.na_values), "decimal": self.decimal}
        return [f"--{name}={value}" for name, value in given.items() if value]

    def without_marks(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame with the marks of missing values as such. A column of numbers and marks becomes one of numbers."""
        import pandas as pd

        numbers = pd.to_numeric(pd.Series(self.na_values, dtype=object), errors="coerce").dropna().tolist()
        for name in (name for name in frame if self.na_values and frame[name].dtype.kind != "b"):
            of_numbers = frame[name].dtype.kind in "iuf"
            marked = frame[name].isin(numbers if of_numbers else [*self.na_values, *numbers])
            if marked.any() and of_numbers:
                frame[name] = frame[name].mask(marked)
            elif marked.any():
                frame[name] = frame[name].astype(object).mask(marked, None).infer_objects()
        return frame


def table_source(
    place: str | os.PathLike[str], *, encoding: str | None = None, na_values: Sequence[object] = (),
    decimal: str | None = None,
) -> TableSource:  # fmt: skip
    """A file or the URL of a database, with what its owner says of how it is to be read.

    Parameters
    ----------
    place : path-like or str
        The file, or a URL such as ``"postgresql://user@host/name?table=visits"``.
    encoding : str or None
        Of text that is not UTF-8: ``"latin-1"``, ``"cp1252"``, ``"utf-16"``, ...
    na_values : Sequence[object]
        Other marks of a missing value, in every column, such as ``[-999, "unknown"]``; or one mark.
    decimal : str or None
        The mark before decimals in text, if it is not found out.

    Returns
    -------
    TableSource
        To give to ``dsba.fit``, ``dsba.describe`` and the others in place of a path.

    Raises
    ------
    InputError
        If the encoding is not known, or the decimal mark is neither ``"."`` nor ``","``.

    Examples
    --------
    >>> import dsba
    >>> print(dsba.table_source("visits.csv", encoding="latin-1", na_values=[-999]))
    visits.csv
    """
    marks = [na_values] if isinstance(na_values, str) or not isinstance(na_values, Iterable) else na_values
    return TableSource(os.fspath(place), Reading(encoding, tuple(map(str, marks)), decimal))


@dataclass(frozen=True)
class TableSource:
    """A file, or a table or query of a database by its URL. Nothing is opened or checked before it is read.

    ``str`` gives what messages may show: the URL without user, password and options.

    Parameters
    ----------
    place : str
        The path or the URL.
    reading : Reading
        How text is read: its encoding, its marks of missing values and of decimals.

    Examples
    --------
    >>> import dsba
    >>> source = dsba.table_source("north.csv", na_values=[-999])
    >>> source.site, source.is_database
    ('north', False)
    """

    place: str
    reading: Reading = Reading()

    @classmethod
    def of(cls, place: Any) -> TableSource:
        """Return the source of a path; a source is returned as it is.

        Parameters
        ----------
        place : str, path-like or TableSource
            The path, the URL or the source.

        Returns
        -------
        TableSource
            The source.

        Examples
        --------
        >>> type(source).of("north.csv").site
        'north'
        """
        return place if isinstance(place, TableSource) else cls(os.fspath(place))

    @property
    def is_database(self) -> bool:
        """Whether the place is the URL of a database."""
        return URL.fullmatch(self.place) is not None

    @property
    def path(self) -> Path:
        """The path of a file; an error if the source is a database."""
        if self.is_database:
            raise InputError(f"{self} is a database, and a file is wanted here; a formula or a target is for tables.")
        return Path(self.place)

    @property
    def libsvm(self) -> Path:
        """The path of LIBSVM text, which has no options of reading."""
        if words := self.reading.words():
            raise InputError(f"{words[0].partition('=')[0]} is for tables: give a formula or a target as well.")
        return self.path

    @property
    def site(self) -> str:
        """The name of the site: the file's name, or ``site`` of a database's URL, or the database's name."""
        if not self.is_database:
            return self.path.name.partition(".")[0]
        return self.keys.get("site") or Path(self.url.path).name.partition(".")[0]

    @cached_property
    def url(self) -> SplitResult:
        """The URL of a database, in its pieces. A URL with a password is refused."""
        try:
            found = urlsplit(self.place)
            secret = found.password is not None or "password" in dict(parse_qsl(found.query))
            _ = found.port
        except ValueError:
            raise InputError("a database wants a URL such as postgresql://user@host:5432/name?table=visits.") from None
        if secret:
            raise InputError(
                "the URL of a database has a password, which others could see: take it out, and give it in "
                "DSBA_DATABASE_PASSWORD or in the driver's own variable or password file (PGPASSWORD, ~/.pgpass)."
            )
        return found

    @property
    def keys(self) -> dict[str, str]:
        """The query of the URL: our own keys, and those of the driver."""
        return dict(parse_qsl(self.url.query, keep_blank_values=True))

    def __str__(self) -> str:
        if not self.is_database:
            return self.place
        host = self.url.hostname or ""
        own = "&".join(f"{key}={value}" for key, value in self.keys.items() if key in OWN_KEYS)
        place = f"{host}:{self.url.port}" if self.url.port else host
        return f"{self.url.scheme}://{place}{self.url.path}{own and f'?{own}'}"

    def words(self) -> list[str]:
        """Return the words of a command line that name the same source.

        Returns
        -------
        list[str]
            The place and the options.

        Examples
        --------
        >>> source.words()
        ['north.csv', '--na-values=-999']
        """
        return [self.place, *self.reading.words()]
