"""Tables and queries of databases: SQLite and DuckDB files, and servers by a URL of SQLAlchemy.

A database is read in one read-only transaction, in which others' changes are not seen, and only the columns that are
asked for. Rows come in the order of the primary key. Without one, and of a query, they are sorted by the columns that
are read: a second reading gives the same rows in the same order. Errors show neither values nor users and passwords.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from dsba.data.sources import OWN_KEYS, TableSource
from dsba.errors import DsbaError, InputError, cannot, did_you_mean, require_package

if TYPE_CHECKING:
    import pandas as pd

CONNECTING = 30  # seconds
ANSWERING = 3600  # seconds for one statement, and for a line on which nothing comes
MOST_QUERY_BYTES = 1 << 20
SNAPSHOTS = ("SNAPSHOT", "REPEATABLE READ", "SERIALIZABLE")  # isolation levels, the first one that there is
PASSWORD = "DSBA_DATABASE_PASSWORD"
FILE_MARKS = {"sqlite": (0, b"SQLite format 3\x00"), "duckdb": (8, b"DUCK")}  # where they stand in a file
REFUSED_LOGINS, LOST_LINES = ("28",), ("08", "57")  # classes of SQLSTATE
WRONG_STATEMENTS = {
    "42": "a name in it is not known, not allowed or wrong", "25": "it would change the database",
    "22": "it computes with values for which there is no result",
}  # fmt: skip


class Database(NamedTuple):
    """An open database, in its transaction."""

    run: Callable[[str], tuple[list[str], list[Any]]]
    """The names of the columns that a statement gives, and its rows."""
    tables: Callable[[], list[str]]
    key: Callable[[str], list[str]]
    """The columns of a table's primary key."""
    quoted: Callable[[str], str]
    close: Callable[[], object]


def database_file(head: bytes, path: Path) -> str | None:
    """The URL of a file if it begins as a database does."""
    found = (f"{kind}:///{quote(str(path))}" for kind, (at, mark) in FILE_MARKS.items() if head.startswith(mark, at))
    return next(found, None)


class DatabaseTable:
    """A table or a query of a database, with what ``TableFile`` offers.

    Attributes
    ----------
    names
        The names of the columns.
    digest
        Of the canonical rows, hex sha256; empty before rows are read.
    """

    def __init__(self, source: TableSource) -> None:
        require_package("reading databases", "pandas", "tables")
        self.path, self.source, self.digest = source, source, ""
        self._kept: pd.DataFrame | None = None
        self._database: Database | None = None
        with _reading(source), self._open() as database:
            self._from, self._key = _chosen(source, database)
            self.names = database.run(f"SELECT * FROM {self._from} WHERE 1 = 0")[0]

    def read(self, columns: Sequence[str] | None = None, codes: Any = ()) -> pd.DataFrame:
        """The named columns (None: all), in the order asked for. They are kept, and the database is left alone."""
        wanted = columns_asked_for(self.source, self.names, columns)
        if self._kept is None or not set(wanted) <= set(self._kept.columns):
            self._kept = self._rows(wanted)
            self.digest = _digest(self._kept)
            self._end()
        return self._kept[wanted]

    def texts(self, columns: Sequence[str], beside: Sequence[str] = ()) -> pd.DataFrame:
        """The named columns as the database has them, in the rows and the order of a later read of ``beside``."""
        return self.read(list(dict.fromkeys((*beside, *columns))))[list(columns)]

    def require_same(self) -> None:
        """Nothing is asked: what was read is one state of the database."""

    def _rows(self, wanted: list[str]) -> pd.DataFrame:
        import pandas as pd

        with _reading(self.source), self._open() as database:
            listed = ", ".join(map(database.quoted, wanted))
            order = ", ".join(map(database.quoted, self._key)) or listed
            _, rows = database.run(f"SELECT {listed} FROM {self._from} ORDER BY {order}")
        frame = pd.DataFrame.from_records([tuple(row) for row in rows], columns=wanted, coerce_float=True)
        return self.source.reading.without_marks(frame)

    @contextmanager
    def _open(self) -> Iterator[Database]:
        """The database in one transaction, which lasts until the rows are read."""
        self._database = self._database or FILE_DATABASES.get(self.source.url.scheme, _server)(self.source)
        try:
            yield self._database
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()


def columns_asked_for(place: object, names: list[str], columns: Sequence[str] | None) -> list[str]:
    """All columns of a table, or those that are named; an error if the table has not all of them."""
    wanted, held = names if columns is None else list(columns), set(names)
    if missing := [name for name in wanted if name not in held]:
        raise InputError(f"{place} has no column {missing[0]!r}; it has {', '.join(map(repr, names[:20]))}.")
    return wanted


def _digest(frame: pd.DataFrame) -> str:
    """The hash of the rows in their order, whatever the order of the columns is."""
    sha = hashlib.sha256()
    for name in sorted(frame):
        missing = frame[name].isna().tolist()
        values = [None if gap else value for gap, value in zip(missing, frame[name].tolist(), strict=True)]
        sha.update(json.dumps([name, values], default=str).encode())
    return sha.hexdigest()


def _chosen(source: TableSource, database: Database) -> tuple[str, list[str]]:
    """What stands after FROM, and the columns to sort by if the table has a primary key."""
    table, query = source.keys.get("table"), source.keys.get("query")
    if table and query:
        raise InputError(f"{source} has a table and a query: give one of them.")
    if query:
        return f"(\n{_query(Path(query))}\n) AS rows_of_query", []
    known = database.tables()
    if not table and len(known) != 1:
        listed = f"it has {', '.join(map(repr, sorted(known)[:20]))}" if known else "it has none"
        raise InputError(f"{source} must name a table, with table=NAME in its URL, or query=FILE.sql; {listed}.")
    table = table or known[0]
    schema, _, name = table.rpartition(".")
    if not schema and name not in known:
        raise InputError(f"{source} has no such table{did_you_mean(name, known)}")
    return ".".join(map(database.quoted, filter(None, (schema, name)))), database.key(table)


def _query(file: Path) -> str:
    """The text of a query, without the end of a statement."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise cannot(f"read the query {file}", error, "it is not UTF-8 text") from None
    if len(text) > MOST_QUERY_BYTES:
        raise InputError(f"{file} is too long for a query.")
    statement = text.strip().removesuffix(";")
    if ";" in statement:
        raise InputError(f"{file} must be one statement, and it has a semicolon before its end.")
    return statement


# Databases ---------------------------------------------------------------------------------------


def _file_of(source: TableSource) -> Path:
    file = Path(unquote(source.url.path.removeprefix("/")))
    if not file.is_file():
        raise InputError(f"cannot read {file}: there is no such file.")
    return file


def _sqlite(source: TableSource) -> Database:
    place = f"file:{quote(str(_file_of(source)))}?mode=ro"
    connection = sqlite3.connect(place, uri=True, isolation_level=None, timeout=CONNECTING)
    tables = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
    return _embedded(connection, tables)


def _duckdb(source: TableSource) -> Database:
    require_package("reading DuckDB", "duckdb", "sql")
    import duckdb

    settings: dict[str, Any] = {"enable_external_access": "false", "autoinstall_known_extensions": "false"}
    connection = duckdb.connect(str(_file_of(source)), read_only=True, config=settings)
    return _embedded(connection, "SELECT table_name FROM information_schema.tables")


def _embedded(connection: Any, tables: str) -> Database:
    """A database in a file, which needs no server."""

    def run(statement: str) -> tuple[list[str], list[Any]]:
        cursor = connection.execute(statement)
        return [one[0] for one in cursor.description or ()], cursor.fetchall()

    def key(table: str) -> list[str]:
        parts = [row for row in run(f"PRAGMA table_info({_ansi(table)})")[1] if row[5]]
        return [row[1] for row in sorted(parts, key=lambda row: row[5])]

    connection.execute("BEGIN")
    return Database(run, lambda: [row[0] for row in run(tables)[1]], key, _ansi, connection.close)


def _ansi(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _server(source: TableSource) -> Database:
    require_package("reading databases", "sqlalchemy", "sql")
    import sqlalchemy

    url = sqlalchemy.make_url(source.place).difference_update_query(OWN_KEYS)
    if os.environ.get(PASSWORD):
        url = url.set(password=os.environ[PASSWORD])
    more: dict[str, Any] = {}
    if url.get_backend_name() == "postgresql":
        require_package("reading PostgreSQL", "psycopg", "sql")
        url = url.set(drivername="postgresql+psycopg")
        more["connect_args"] = {
            "connect_timeout": CONNECTING, "tcp_user_timeout": 1000 * ANSWERING, "application_name": "dsba",
            "client_encoding": "utf8",  # a database without an encoding (SQL_ASCII) would give bytes
            "options": f"-c default_transaction_read_only=on -c statement_timeout={1000 * ANSWERING}",
        }  # fmt: skip
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, hide_parameters=True, **more)
    connection = engine.connect()
    driver: Any = connection.connection.dbapi_connection
    levels = engine.dialect.get_isolation_level_values(driver)
    level = next((one for one in SNAPSHOTS if one in levels), SNAPSHOTS[-1])
    connection = connection.execution_options(isolation_level=level, postgresql_readonly=True)
    inspector = sqlalchemy.inspect(connection)

    def run(statement: str) -> tuple[list[str], list[Any]]:
        cursor = driver.cursor()  # to SQLAlchemy a percent sign would be a parameter
        cursor.execute(statement)
        return [one[0] for one in cursor.description], cursor.fetchall()

    def key(table: str) -> list[str]:
        schema, _, name = table.rpartition(".")
        return list(inspector.get_pk_constraint(name, schema or None)["constrained_columns"])

    return Database(
        run, lambda: [*inspector.get_table_names(), *inspector.get_view_names()], key,
        engine.dialect.identifier_preparer.quote_identifier, connection.close,
    )  # fmt: skip


FILE_DATABASES: dict[str, Callable[[TableSource], Database]] = {"sqlite": _sqlite, "duckdb": _duckdb}


# Errors ------------------------------------------------------------------------------------------


@contextmanager
def _reading(source: TableSource) -> Iterator[None]:
    """Errors of the drivers become our own: theirs may show values, users and passwords."""
    try:
        yield
    except DsbaError:
        raise
    except Exception as error:
        raise _explained(source, getattr(error, "orig", None) or error) from None


def _explained(source: TableSource, error: BaseException) -> InputError:
    """A sentence by what the driver gives beside words: the code of SQL, or how far a connection came."""
    if isinstance(error, ModuleNotFoundError):
        return InputError(f"{source} needs the package {error.name}: install it.")
    if type(error).__name__ == "NoSuchTableError":  # of SQLAlchemy, which need not be there
        return InputError(f"{source} has no such table.")
    if type(error).__name__ == "NoSuchModuleError":
        return InputError(f"{source}: {source.url.scheme!r} is not a known kind of database; download web files.")
    code, connection = getattr(error, "sqlstate", None) or "", getattr(error, "pgconn", None)
    if getattr(connection, "needs_password", False):
        return InputError(f"{source}: the server wants a password: give it in {PASSWORD}, PGPASSWORD or ~/.pgpass.")
    if code.startswith(REFUSED_LOGINS) or getattr(connection, "used_password", False):
        return InputError(f"{source}: the server refused the user, the password, or the name of the database.")
    if code[:2] in WRONG_STATEMENTS:
        return InputError(f"{source}: the database refused the query: {WRONG_STATEMENTS[code[:2]]}.")
    if code.startswith(LOST_LINES):
        return InputError(f"{source}: the connection to the database was lost: start again.")
    if not code and connection is not None:
        return InputError(f"{source}: the database cannot be reached, or refused the connection.")
    return InputError(f"{source} cannot be read as a table of a database.")
