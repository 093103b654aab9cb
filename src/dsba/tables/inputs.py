"""Tables as people give them in Python: frames, files and databases, one for each site or one of all sites."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from dsba.data.sources import TableSource
from dsba.data.table_files import Table, open_table
from dsba.errors import InputError
from dsba.fitting.spec import FitSpec
from dsba.tables.terms import SITE, ModelTerms, SiteTable, absent_column, stated

if TYPE_CHECKING:
    import pandas as pd


class FrameTable(NamedTuple):
    """A frame, with what ``TableFile`` offers."""

    frame: pd.DataFrame

    @property
    def names(self) -> list[str]:
        return list(self.frame.columns)

    def read(self, columns: Sequence[str] | None = None, codes: Collection[str] = ()) -> pd.DataFrame:
        return self.frame if columns is None else self.frame[list(columns)]


def as_sites(table: Any, sites: str | None = None, terms: ModelTerms | None = None) -> list[SiteTable]:
    """The rows of each site: those columns that ``terms`` name, or all."""
    return GivenTables.of(table, sites).read(terms)


def stated_sites(table: Any, sites: str | None, spec: FitSpec) -> tuple[list[SiteTable], FitSpec]:
    """The columns of a specification at each site, and the specification with the columns that its dot stands for."""
    given = GivenTables.of(table, sites)
    spec = stated(spec, given.headers)
    return given.read(ModelTerms.of(spec)), spec


@dataclass(frozen=True)
class GivenTables:
    """One table for each site, or one of all sites with a column that names the site of each row."""

    tables: dict[str, Table | FrameTable]
    sites: str | None = None

    @classmethod
    def of(cls, table: Any, sites: str | None = None) -> GivenTables:
        """From a frame, a file or the URL of a database, or from a list or dict of them."""
        several = table if isinstance(table, dict | list | tuple) else [table]
        given = list(several.values()) if isinstance(several, dict) else list(several)
        if not given or not all(_is_frame(one) or isinstance(one, GIVEN_PLACES) for one in given):
            raise InputError(
                "wanted a pandas frame, a file or the URL of a database, or a list or dict of them, one a site."
            )
        names = list(map(str, several)) if isinstance(several, dict) else _names(given, alone=several is not table)
        if len(set(names)) < len(names):
            raise InputError("two tables have the same name, and sites are named after it: rename one.")
        if sites is not None and len(given) > 1:
            raise InputError(f"the column {sites!r} names the sites of one table, and there are {len(given)} tables.")
        return cls({name: _opened(name, one) for name, one in zip(names, given, strict=True)}, sites)

    @property
    def headers(self) -> dict[str, list[str]]:
        """The columns of each table, without the one that names the sites."""
        return {name: [column for column in one.names if column != self.sites] for name, one in self.tables.items()}

    def read(self, terms: ModelTerms | None = None) -> list[SiteTable]:
        """The rows of each site, in order of their names where a column names them."""
        headers = {name if self.sites is None else "the table": one.names for name, one in self.tables.items()}
        if terms is not None and (complaint := absent_column(headers, terms)):
            raise InputError(complaint)
        if self.sites is None:
            return [SiteTable(name, columns_of(one, terms)) for name, one in self.tables.items()]
        (one,) = self.tables.values()
        if self.sites not in one.names:
            raise InputError(f"the table has no column {self.sites!r} to name the sites.")
        frame = columns_of(one, terms, (self.sites,))
        if frame[self.sites].isna().any():
            raise InputError(f"the column {self.sites!r} names the site of each row, and some are missing.")
        parts = frame.groupby(frame[self.sites].astype(str), sort=True)
        return [SiteTable(str(name), part.reset_index(drop=True)) for name, part in parts]


def rows_to_predict(table: Any, terms: ModelTerms, name: str | None = None) -> SiteTable:
    """The rows of a frame, or of a file, a database or an open table the columns that predictions need."""
    if _is_frame(table):
        called, asked = name or "the table", (*terms.formula.columns, *terms.extras)
        return SiteTable(called, _named(called, table, asked))
    if isinstance(table, GIVEN_PLACES):
        source = TableSource.of(table)
        return rows_to_predict(open_table(source), terms, name or source.site)
    if not isinstance(table, Table):
        raise InputError("wanted a pandas frame, a file or the URL of a database.")
    return SiteTable(name or "the table", table.read(columns_to_predict(table, terms), codes=terms.formula.factors))


def columns_to_predict(table: Table, terms: ModelTerms) -> list[str]:
    """Those columns of the table that predictions need. An intercept alone needs to know how many rows there are."""
    return [name for name in (*terms.formula.columns, *terms.extras) if name in table.names] or table.names[:1]


def columns_of(table: Table | FrameTable, terms: ModelTerms | None, more: Collection[str] = ()) -> Any:
    """The columns of the model and ``more``, as far as the table has them; all columns if there is no model."""
    if terms is None:
        return table.read()
    wanted = dict.fromkeys((*terms.columns, *more))
    return table.read([name for name in wanted if name in table.names], codes=terms.formula.factors)


def distinct(names: list[str]) -> list[str]:
    """The names of sites, or an error if two are the same."""
    if len(set(names)) < len(names):
        raise InputError("two files have the same name, and sites are named after their files: rename one.")
    return names


GIVEN_PLACES = (str, os.PathLike, TableSource)


def _is_frame(one: Any) -> bool:
    import pandas as pd

    return isinstance(one, pd.DataFrame)


def _names(given: Sequence[Any], alone: bool) -> list[str]:
    frames = ["all"] if alone else [f"{SITE}{n}" for n in range(len(given))]
    return distinct([n if _is_frame(one) else TableSource.of(one).site for n, one in zip(frames, given, strict=True)])


def _opened(name: str, given: Any) -> Table | FrameTable:
    """The table, with names of columns that are text and differ."""
    if not _is_frame(given):
        return open_table(TableSource.of(given))
    return FrameTable(_named(f"the table of {name}", given.reset_index(drop=True)))


def _named(name: str, frame: pd.DataFrame, asked: Collection[str] | None = None) -> pd.DataFrame:
    """The frame with names of columns that are text, or an error if two (of those ``asked``) are the same."""
    several = [str(column) for column in frame.columns[frame.columns.map(str).duplicated()]]
    if repeated := [column for column in several if asked is None or column in asked]:
        raise InputError(f"{name} has several columns {repeated[0]!r}.")
    return frame.rename(columns=str)
