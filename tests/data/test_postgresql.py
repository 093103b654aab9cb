"""A real PostgreSQL server: four sites, each with its own database, and what goes wrong there."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest
from hospital_tables import hospitals

import dsba
from dsba.data.sources import TableSource
from dsba.data.table_files import open_table
from dsba.fitting.spec import FitSpec
from dsba.tables.fit import train

PROGRAMS = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)), None)
pytestmark = pytest.mark.skipif(
    PROGRAMS is None or os.geteuid() != 0 or not shutil.which("runuser"),
    reason="needs the programs of a PostgreSQL server, and root to start them as another user",
)
SECRET, FORMULA = "s3cret-4711", "cost ~ age + C(sex) + crp"


def as_server(*words):
    subprocess.run(["runuser", "-u", "postgres", "--", *map(str, words)], check=True, timeout=300, capture_output=True)


@pytest.fixture(scope="module")
def server():
    """The URL of a server without the name of a database."""
    psycopg = pytest.importorskip("psycopg")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "password").write_text(SECRET)
        for path in (folder, folder / "password"):
            shutil.chown(path, "postgres")
        login = ["-U", "owner", f"--pwfile={folder / 'password'}", "-A", "scram-sha-256", "--no-sync"]
        as_server(PROGRAMS / "initdb", "-D", folder / "data", "-E", "UTF8", "--locale=C", *login)
        control = [PROGRAMS / "pg_ctl", "-D", folder / "data", "-w", "-l", folder / "log"]
        as_server(*control, "-o", f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off", "start")
        try:
            with psycopg.connect(f"postgresql://owner:{SECRET}@127.0.0.1:{port}/postgres", autocommit=True) as admin:
                for number, site in enumerate(frames()):  # an old one has no encoding
                    encoding = "UTF8" if number else "SQL_ASCII"
                    admin.execute(f"CREATE DATABASE {site} TEMPLATE template0 ENCODING '{encoding}'")
            for site, frame in frames().items():
                with psycopg.connect(f"postgresql://owner:{SECRET}@127.0.0.1:{port}/{site}") as own:
                    own.execute(
                        "CREATE TABLE visits (id INT PRIMARY KEY, cost FLOAT8, age FLOAT8, sex TEXT, crp FLOAT8)"
                    )
                    own.execute("CREATE SEQUENCE numbers")
                    own.execute("ALTER TABLE visits ADD born DATE DEFAULT '2001-01-01'")
                    put = "INSERT INTO visits VALUES (%s, %s, %s, %s, %s)"
                    own.cursor().executemany(put, frame.reset_index()[::-1].to_numpy().tolist())
            yield f"postgresql://owner@127.0.0.1:{port}/"
        finally:
            as_server(*control, "-m", "immediate", "stop")


def frames():
    tables = hospitals((60, 40, 25, 30))
    return {site: table[["cost", "age", "sex", "crp"]].reset_index(drop=True) for site, table in tables.items()}


def test_four_databases_give_the_model_of_csv_files(server, tmp_path, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", SECRET)
    files = [tmp_path / f"{site}.csv" for site in frames()]
    for file, frame in zip(files, frames().values(), strict=True):
        frame.to_csv(file, index=False)
    spec, told = FitSpec(formula=FORMULA, operator="linear"), []
    wanted = train(files, spec)
    found = train([TableSource(f"{server}{site}?table=visits") for site in frames()], spec, notify=told.append)
    assert found.params.to_numpy().tobytes() == wanted.params.to_numpy().tobytes()
    assert found.bse.to_numpy().tobytes() == wanted.bse.to_numpy().tobytes()
    found.save(tmp_path / "run")
    saved = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert SECRET.encode() not in saved
    assert SECRET not in "".join(told)


@pytest.mark.parametrize(
    ("place", "password", "sentence"),
    [
        ("site0?table=visits", "wrong-4711", "refused the user, the password, or the name of the database"),
        ("site0?table=visits", "", "the server wants a password"),
        ("site0?table=visit", SECRET, r"has no such table; did you mean 'visits'\?"),
        ("site0?table=ward.visits", SECRET, "has no such table"),
        ("site0?query=gone.sql", SECRET, "the connection to the database was lost"),
        ("site0?query=change.sql", SECRET, "refused the query: it would change the database"),
        ("site0?query=divide.sql", SECRET, "it computes with values for which there is no result"),
    ],
)
def test_what_goes_wrong_is_one_sentence(server, place, password, sentence, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGPASSWORD", password)
    Path("change.sql").write_text("SELECT nextval('numbers') AS a")
    Path("divide.sql").write_text("SELECT 1 / (id - 3) AS a FROM visits")
    Path("gone.sql").write_text("SELECT pg_terminate_backend(pg_backend_pid()) AS a")
    with pytest.raises(dsba.InputError, match=sentence) as caught:
        open_table(TableSource(server + place)).read()
    assert "4711" not in str(caught.value)
    assert "owner" not in str(caught.value)


def test_dates_are_refused(server, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", SECRET)
    sources = [TableSource(f"{server}{site}?table=visits") for site in frames()]
    with pytest.raises(dsba.InputError, match="the column 'born' is a date; wanted numbers or text"):
        train(sources, FitSpec(formula="cost ~ born", operator="linear"))
