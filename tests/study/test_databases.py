"""Studies and MPI runs of databases: each site its own, the model of CSV files bit by bit, no credential anywhere."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest
import test_postgresql
from hospital_tables import hospitals
from mpi import TRAIN, mpiexec, needs_mpi, started
from test_mpi import same_model
from test_postgresql import SECRET, server
from test_study import together

import dsba
from dsba.data.sources import TableSource
from dsba.fitting.spec import FitSpec
from dsba.study.audit import AUDIT, STATE
from dsba.study.join import Seat, prepared
from dsba.study.trial import arrange
from dsba.study.verify import verify_study
from dsba.tables.fit import train

__all__ = ["server"]  # a fixture
FORMULA = test_postgresql.FORMULA
SPEC = FitSpec(formula=FORMULA, operator="linear", graph="ring")
CREATED = 'CREATE TABLE visits ("id" INTEGER PRIMARY KEY, "cost" REAL, "age" REAL, "sex" TEXT, "crp" REAL)'
needs_server = test_postgresql.pytestmark


def frames():
    """More rows than the guards ask for, at four sites."""
    tables = hospitals((60, 40, 25, 30))
    return {site: table[["cost", "age", "sex", "crp"]].reset_index(drop=True) for site, table in tables.items()}


def files(folder):
    written = [folder / f"{site}.csv" for site in frames()]
    for file, frame in zip(written, frames().values(), strict=True):
        frame.to_csv(file, index=False)
    return written


def put(file, frame):
    """The rows in a new table, from the last to the first."""
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("DROP TABLE IF EXISTS visits")
        database.execute(CREATED)
        rows = frame.reset_index().to_numpy().tolist()
        database.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?)", rows[::-1])


@pytest.fixture
def sqlite(tmp_path):
    """The URLs of four databases in files."""
    places = {site: tmp_path / f"{site}.db" for site in frames()}
    for site, frame in frames().items():
        put(places[site], frame)
    return {site: f"sqlite:///{file}?table=visits" for site, file in places.items()}


def seats(urls, folder):
    sources = [TableSource(url) for url in urls.values()]
    study = arrange(sources, SPEC, folder / "study")
    return [
        Seat(study, site, folder / "study" / f"{site}.pem", source, folder / f"out-{site}", patience=60.0)
        for site, source in zip(urls, sources, strict=True)
    ]


def everything_below(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_four_sites_with_a_database_each_find_the_model_of_csv_files(sqlite, tmp_path):
    places = seats(sqlite, tmp_path)
    found, _ = together(places)
    wanted = train(files(tmp_path), SPEC)
    assert {one.digest() for one in found} == {wanted.digest()}
    assert all(one.fine for seat in places for one in verify_study(seat.out))


def test_the_commitment_is_of_the_rows_and_is_checked_after_a_restart(sqlite, tmp_path):
    places = seats(sqlite, tmp_path)
    together(places)
    again = Seat(*(getattr(places[0], name) for name in ("study", "site", "key", "data", "out")))
    put(tmp_path / "site0.db", frames()["site0"])  # another file, the same rows
    _, told = together([again])
    assert any("This run is complete" in line for line in told[0])
    changed = frames()["site0"].assign(cost=lambda frame: frame["cost"] + 1e-9)
    put(tmp_path / "site0.db", changed)
    again = Seat(*(getattr(places[0], name) for name in ("study", "site", "key", "data", "out")))
    (error,), _ = together([again])
    assert re.search("the data of site0 changed since the run in .* began: a run with other data is", str(error))


def test_a_column_that_no_model_names_may_change(sqlite, tmp_path):
    """Only the columns of the study are read, so that only these are committed to."""
    before = prepared_digest(seats(sqlite, tmp_path)[0])
    with closing(sqlite3.connect(tmp_path / "site0.db")) as database, database:
        database.execute("ALTER TABLE visits ADD remark TEXT DEFAULT 'new'")
    assert prepared_digest(seats(sqlite, tmp_path)[0]) == before


def prepared_digest(seat):
    prepared(seat)
    return seat.table.digest


@needs_mpi
def test_ranks_read_their_own_databases(sqlite, tmp_path):
    words = ("--formula", FORMULA, "--operator", "linear", "--graph", "ring", "--out")
    code, text = mpiexec(4, *TRAIN, *sqlite.values(), *words, tmp_path / "apart")
    assert code == 0, text
    assert dsba.load(tmp_path / "apart").digest() == train(files(tmp_path), SPEC).digest()


# A server ------------------------------------------------------------------------------------------------


def urls_of(server):
    return {site: f"{server}{site}?table=visits" for site in frames()}


@needs_server
def test_four_sites_with_a_server_find_the_model_of_csv_files(server, tmp_path, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", SECRET)
    places = seats(urls_of(server), tmp_path)
    found, told = together(places)
    assert {one.digest() for one in found} == {train(files(tmp_path), SPEC).digest()}
    assert SECRET.encode() not in everything_below(tmp_path)
    assert SECRET not in repr(told)
    for seat in places:
        assert b"owner" not in b"".join((seat.out / name).read_bytes() for name in (AUDIT, STATE, "study.json"))
        assert b"owner" not in (tmp_path / "study" / "study.toml").read_bytes()


def looked_at(seat):
    prepared(seat)
    raise dsba.InputError(seat.unfit)


@needs_server
@pytest.mark.parametrize(
    ("place", "password", "sentence"),
    [
        ("site0?table=visits", "wrong-4711", "refused the user, the password, or the name of the database"),
        ("site0?table=visit", SECRET, r"has no such table; did you mean 'visits'\?"),
        ("site0?query=gone.sql", SECRET, "the connection to the database was lost: start again"),
        ("site0?query=dates.sql", SECRET, "the column 'age' of site0 must be a number, by the study"),
    ],
)
def test_what_goes_wrong_at_a_site_ends_it_before_anybody_is_met(
    server, place, password, sentence, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGPASSWORD", SECRET)
    first = seats(urls_of(server), tmp_path)[0]
    Path("gone.sql").write_text("SELECT *, pg_terminate_backend(pg_backend_pid()) AS gone FROM visits")
    Path("dates.sql").write_text("SELECT cost, born AS age, sex, crp FROM visits")
    monkeypatch.setenv("PGPASSWORD", password)
    other = Seat(first.study, first.site, first.key, TableSource(server + place), first.out)
    with pytest.raises(dsba.InputError, match=sentence) as caught:
        looked_at(other)
    assert "4711" not in str(caught.value)
    assert "owner" not in str(caught.value)
    assert not first.out.exists()


@needs_server
@pytest.mark.full
def test_processes_show_no_password(server, tmp_path, monkeypatch):
    """A whole study by real processes, and under mpiexec: the password is in the environment, and nowhere else."""
    monkeypatch.setenv("PGPASSWORD", SECRET)
    monkeypatch.chdir(tmp_path)
    shown, ended = set(), threading.Event()

    def look():
        while not ended.is_set():
            for process in psutil.process_iter(["cmdline"]):
                shown.update(process.info["cmdline"] or ())
            time.sleep(0.05)

    watcher = threading.Thread(target=look)
    watcher.start()
    words = (*urls_of(server).values(), "--formula", FORMULA, "--operator", "linear", "--graph", "ring", "--out")
    texts = []
    try:
        for command in ((sys.executable, "-m", "dsba", "study", "try", *words, "tried"), (*TRAIN, *words, "alone")):
            with started(*command) as process:
                text, _ = process.communicate(timeout=240.0)
            assert process.returncode == 0, text
            texts.append(text)
        code, text = mpiexec(4, *TRAIN, *words, "apart")
        assert code == 0, text
    finally:
        ended.set()
        watcher.join()
    assert any("table=visits" in word for word in shown)  # the watcher has seen the processes
    assert not any(SECRET in word for word in (*shown, *texts, text))
    assert SECRET.encode() not in everything_below(tmp_path)
    same_model(tmp_path / "alone", tmp_path / "tried")
    same_model(tmp_path / "alone", tmp_path / "apart")
    wanted = train(files(tmp_path), SPEC)
    assert dsba.load("alone").digest() == wanted.digest()
    assert os.environ["PGPASSWORD"] == SECRET
