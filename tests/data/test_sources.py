"""Tables of other programs and of databases, and text of other encodings: what is read, and what is refused."""

from __future__ import annotations

import gzip
import sqlite3
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hospital_tables import hospitals

import dsba
from dsba.data.sources import Reading, TableSource
from dsba.data.table_files import TableFile, is_table, open_table
from dsba.tables.schema import kind_of

WANTED = ["age", "sex", "crp", "visits"]


def frame():
    table = hospitals()["site0"][WANTED].reset_index(drop=True)
    table.loc[3, ["crp", "sex"]] = np.nan
    return table


def coded(table):
    return table.assign(sex=table["sex"].map({"F": 1, "M": 2}))


def write_excel(path):
    frame().assign(crp=frame()["crp"].round(6)).to_excel(path, index=False)  # openpyxl writes 16 digits


def write_stata(path):
    coded(frame()).astype({"sex": float}).to_stata(path, write_index=False, version=114)


def write_labelled_stata(path):
    import pyreadstat

    pyreadstat.write_dta(coded(frame()), path, variable_value_labels={"sex": {1: "F", 2: "M"}})


def write_spss(path):
    import pyreadstat

    pyreadstat.write_sav(coded(frame()), path, variable_value_labels={"sex": {1: "F", 2: "M"}})


def write_transport(path):
    import pyreadstat

    pyreadstat.write_xport(frame(), path)


def write_sqlite(path):
    with_key = frame().assign(id=np.arange(len(frame())))
    connection = sqlite3.connect(path)
    with_key[::-1].to_sql("visits", connection, index=False, dtype={"id": "INTEGER PRIMARY KEY"})
    connection.close()


def write_duckdb(path):
    import duckdb

    rows = frame()[::-1].reset_index().astype(object).where(lambda table: table.notna(), None)
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE visits (id INTEGER PRIMARY KEY, age DOUBLE, sex TEXT, crp DOUBLE, visits INT)")
        connection.executemany("INSERT INTO visits VALUES (?, ?, ?, ?, ?)", rows.to_numpy().tolist())


WRITERS = {
    "t.xlsx": write_excel, "t.dta": write_labelled_stata, "old.dta": write_stata, "t.sav": write_spss,
    "t.xpt": write_transport, "t.sqlite": write_sqlite, "t.duckdb": write_duckdb,
}  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_tables_of_other_programs_have_the_values_of_a_csv_file(name, tmp_path):
    WRITERS[name](tmp_path / name)
    frame().to_csv(tmp_path / "t.csv", index=False)
    wanted = TableFile(tmp_path / "t.csv").read()
    if name == "t.xlsx":
        wanted["crp"] = wanted["crp"].round(6)
    if name == "old.dta":
        wanted = coded(wanted)
    table = open_table(tmp_path / name)
    assert is_table(tmp_path / name)
    assert set(WANTED) <= set(table.names)
    found = table.read(WANTED)
    pd.testing.assert_frame_equal(found, wanted, check_dtype=False, check_exact=True)
    assert {column: kind_of(found[column]) for column in found} == {
        column: kind_of(wanted[column]) for column in wanted
    }
    assert len(table.digest) == 64
    with pytest.raises(dsba.InputError, match="has no column 'agee'"):
        table.read(["agee"])


@pytest.mark.parametrize("name", ["sample", "sample_bincompressed"])
def test_data_sets_that_sas_has_written(name, tmp_path):
    """No program here writes them: these are test data of pyreadstat (Apache License 2.0), with gzip around them."""
    path = tmp_path / f"{name}.sas7bdat"
    packed = (Path(__file__).parent / f"{name}.sas7bdat.gz").read_bytes()
    path.write_bytes(gzip.decompress(packed))
    table = open_table(path)
    assert is_table(path)
    assert table.names == ["mychar", "mynum", "mydate", "dtime", "mylabl", "myord", "mytime"]
    found = table.read(["mychar", "mynum", "myord", "dtime"])
    assert found["mychar"].tolist() == ["a", "b", "c", "d", "e"]
    assert found["mynum"].tolist() == [1.1, 1.2, -1000.3, -1.4, 1000.3]
    assert found["myord"].tolist() == [1, 2, 3, 1, 1]
    assert found["dtime"].astype(str).tolist()[:2] == ["2018-05-06 10:10:10", "1880-05-06 10:10:10"]
    assert [kind_of(found[column]) for column in found] == ["text", "number", "number", "date"]
    marked = open_table(dsba.table_source(path, na_values=[-1000.3])).read(["mynum"])
    assert marked["mynum"].isna().tolist() == [False, False, True, False, False]
    rng, whole = np.random.default_rng(0), path.read_bytes()
    for _ in range(15):
        cut = bytearray(whole[: rng.integers(len(whole) // 2, len(whole))])
        for at in rng.integers(32, 70_000, 20):
            cut[min(at, len(cut) - 1)] = rng.integers(256)
        path.write_bytes(cut)
        with suppress(dsba.DsbaError):
            open_table(path).read()


def test_a_damaged_file_of_another_program_is_read_or_refused(tmp_path):
    rng, refused = np.random.default_rng(0), dict.fromkeys(WRITERS, 0)
    for name, write in WRITERS.items():
        write(tmp_path / name)
        whole = (tmp_path / name).read_bytes()
        for _ in range(15):
            cut = bytearray(whole[: rng.integers(len(whole) // 2, len(whole))])
            for at in rng.integers(16, len(cut), 20):
                cut[at] = rng.integers(256)
            (tmp_path / name).write_bytes(cut)
            try:
                open_table(tmp_path / name).read()
            except dsba.DsbaError:  # and no other error; some damage is not seen
                refused[name] += 1
    assert all(refused.values()), refused


def test_a_workbook_of_several_sheets_is_refused(tmp_path):
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        for sheet in "ab":
            frame().to_excel(book, sheet_name=sheet, index=False)
    with pytest.raises(dsba.InputError, match="has 2 sheets: save the one with the table by itself"):
        open_table(tmp_path / "t.xlsx")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
def test_an_encoding_may_stand_beside_files_of_ascii(encoding, tmp_path):
    """ASCII is UTF-8, and was read as letters of two bytes."""
    for written in ("ascii", encoding):
        (tmp_path / "t.csv").write_bytes("age,sex\n40,F\n".encode(written))
        table = open_table(TableSource(str(tmp_path / "t.csv"), Reading(encoding=encoding)))
        assert table.read().to_dict("list") == {"age": [40], "sex": ["F"]}


def test_the_rows_of_a_workbook_do_not_depend_on_the_columns(tmp_path):
    """A missing last value of one column ended the table there, and moved the rows above it."""
    table = pd.DataFrame({"id": ["007", "7", "8"], "x": [1.0, np.nan, np.nan], "group": ["01", "1", "2"]})
    table.to_excel(tmp_path / "t.xlsx", index=False)
    file = open_table(tmp_path / "t.xlsx")
    assert len(file.read(["x"])) == len(file.read(["id"])) == len(file.read()) == 3
    assert file.texts(["id"])["id"].tolist() == ["007", "7", "8"]
    assert file.read(["group"], codes=["group"])["group"].tolist() == ["01", "1", "2"]


def test_cells_of_several_types_are_texts_to_people(tmp_path):
    table = pd.DataFrame({"a": ["007", 8, None], "n": [1, 2, 3], "b": [True, False, True]})
    table.to_excel(tmp_path / "t.xlsx", index=False)
    found = open_table(tmp_path / "t.xlsx").texts(["a", "n", "b"])
    assert found.to_csv(index=False) == "a,n,b\n007,1,True\n8,2,False\n,3,True\n"


# How text is read ----------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be"])
def test_another_encoding_is_named_and_then_read(encoding, tmp_path):
    text = "größe,stadt\n1.5,Köln\n2.5,Zürich" + (" – Ost\n" if encoding == "cp1252" else "\n")
    (tmp_path / "t.csv").write_bytes(text.encode(encoding))
    with pytest.raises(
        dsba.InputError, match=rf"is not UTF-8 text and looks like {encoding}: give encoding {encoding}"
    ):
        open_table(tmp_path / "t.csv").read()
    source = TableSource(str(tmp_path / "t.csv"), Reading(encoding=encoding))
    table = open_table(source)
    assert table.names == ["größe", "stadt"]
    assert table.read()["größe"].tolist() == [1.5, 2.5]
    assert table.texts(["stadt"])["stadt"].tolist()[0] == "Köln"
    with pytest.raises(dsba.InputError, match="looks like utf-16" if encoding == "utf-16" else "is not ascii text"):
        open_table(TableSource(str(tmp_path / "t.csv"), Reading(encoding="ascii")))


def test_a_long_text_of_another_encoding(tmp_path):
    rows = 30_000
    (tmp_path / "t.csv").write_bytes(("a,ü\n" + "1,ä–b\n" * rows).encode("utf-16"))
    found = open_table(TableSource(str(tmp_path / "t.csv"), Reading(encoding="utf-16"))).read()
    assert (len(found), found["ü"].unique().tolist()) == (rows, ["ä–b"])


@pytest.mark.parametrize("packed", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_an_encoding_is_that_of_text_that_is_not_utf8(packed, tmp_path):
    """One option holds for all files of a command. Before, latin-1 made two signs of each letter of those in UTF-8."""
    text = "a,stadt\n" + "1,Bonn\n" * 30_000 + "2,Köln\n"
    found, digests = [], []
    for encoding in ("utf-8", "latin-1"):
        (tmp_path / "t.csv").write_bytes(packed(text.encode(encoding)))
        table = open_table(TableSource(str(tmp_path / "t.csv"), Reading(encoding="latin-1")))
        found.append(table.read()["stadt"].unique().tolist())
        digests.append(table.digest)
    assert found == [["Bonn", "Köln"]] * 2
    (tmp_path / "t.csv").write_bytes(packed(text.encode()))
    plain = open_table(tmp_path / "t.csv")
    plain.read()
    assert plain.digest == digests[0] != digests[1]
    (tmp_path / "t.csv").write_bytes(packed(text.encode("utf-16")))
    with pytest.raises(dsba.InputError, match="looks like utf-16: give encoding utf-16"):
        open_table(TableSource(str(tmp_path / "t.csv"), Reading(encoding="latin-1")))
    for encoding in ("utf-16", "utf-16-le"):
        assert open_table(TableSource(str(tmp_path / "t.csv"), Reading(encoding=encoding))).names == ["a", "stadt"]


@pytest.mark.parametrize("name", ["t.csv", "t.xlsx", "t.sqlite"])
def test_other_marks_of_missing_values(name, tmp_path):
    table = pd.DataFrame({"x": [1.5, -999.0, 2.0], "y": [1.0, 2.0, 3.0], "sex": ["F", "unknown", "M"]})
    table["y"] = table["y"].astype(object)
    table.loc[1, "y"] = "unknown"
    if name == "t.sqlite":
        connection = sqlite3.connect(tmp_path / name)
        kinds = {"id": "INTEGER PRIMARY KEY", "y": "REAL"}  # SQLite keeps a text in a column of numbers
        table.assign(id=[1, 2, 3]).to_sql("t", connection, index=False, dtype=kinds)
        connection.close()
    else:
        (table.to_csv if name == "t.csv" else table.to_excel)(tmp_path / name, index=False)
    plain = open_table(tmp_path / name)
    assert plain.read(["x", "y", "sex"])["x"].tolist() == [1.5, -999.0, 2.0]
    marked = open_table(TableSource(str(tmp_path / name), Reading(na_values=("-999", "unknown"))))
    found = marked.read(["x", "y", "sex"])
    assert found.isna().to_numpy().tolist() == [[False] * 3, [True] * 3, [False] * 3]
    assert [column.dtype.kind for _, column in found[["x", "y"]].items()] == ["f", "f"]
    assert marked.digest != plain.digest  # read in another way the rows are others


@pytest.mark.parametrize("name", ["t.csv", "t.xlsx", "t.parquet"])
def test_marks_of_missing_values_among_whole_numbers(name, tmp_path):
    table = pd.DataFrame({"x": [1, -999, 2], "sex": ["F", "unknown", "M"], "old": [True, False, True]})
    {"t.csv": table.to_csv, "t.xlsx": table.to_excel, "t.parquet": table.to_parquet}[name](tmp_path / name, index=False)
    found = open_table(TableSource(str(tmp_path / name), Reading(na_values=("-999", "unknown")))).read()
    assert found.isna().to_numpy().tolist() == [[False] * 3, [True, True, False], [False] * 3]
    assert found["x"].dtype.kind == "f"


@pytest.mark.parametrize("mark", ["-999", -999, [-999]])
def test_one_mark_need_not_stand_in_a_list(mark):
    """Each letter of the text was a mark, and so 9 was missing."""
    assert dsba.table_source("t.csv", na_values=mark).reading.na_values == ("-999",)


def test_marks_leave_nullable_numbers_numbers_and_truth_values_alone():
    table = pd.DataFrame({"x": pd.array([0, None, 3], dtype="Int64"), "old": [False, True, True]})
    found = Reading(na_values=("0",)).without_marks(table)
    assert found["x"].dtype == "Int64"
    assert found.isna().to_numpy().tolist() == [[True, False], [True, False], [False, False]]


@pytest.mark.parametrize("mark", ["-1", "-999", "0", "1e3"])
def test_any_number_may_be_a_mark_of_missing_values(mark):
    found = Reading(na_values=(mark,)).without_marks(pd.DataFrame({"x": [2.5, float(mark)]}))
    assert found["x"].isna().tolist() == [False, True]


def test_the_decimal_mark_that_was_given(tmp_path):
    (tmp_path / "t.csv").write_text("x;y\n1.234;1\n2.345;2\n")
    with pytest.raises(dsba.InputError, match="give the decimal mark"):
        open_table(tmp_path / "t.csv")
    for mark, wanted in ((".", [1.234, 2.345]), (",", None)):
        table = open_table(TableSource(str(tmp_path / "t.csv"), Reading(decimal=mark)))
        if wanted:
            assert table.read()["x"].tolist() == wanted
        else:
            with pytest.raises(dsba.InputError, match="other marks than the file's"):
                table.read()
    for bad in ({"decimal": "x"}, {"encoding": "nope"}, {"encoding": "zip"}):
        with pytest.raises(dsba.InputError, match=r"decimal mark must be|is not known"):
            Reading(**bad)


# Databases -----------------------------------------------------------------------------------------


def url(path, **keys):
    return TableSource(f"sqlite:///{path}?" + "&".join(f"{key}={value}" for key, value in keys.items()))


def test_a_query_gives_its_rows_in_an_order_of_its_own(tmp_path):
    write_sqlite(tmp_path / "t.db")
    (tmp_path / "old.sql").write_text("SELECT age, crp * 2 AS twice FROM visits WHERE age > 50 -- old ones\n;\n")
    table = open_table(url(tmp_path / "t.db", query=tmp_path / "old.sql", site="north"))
    wanted = frame().query("age > 50").sort_values(["age", "crp"], na_position="first")
    assert table.read()["twice"].tolist() == pytest.approx((2 * wanted["crp"]).tolist(), nan_ok=True)
    assert table.source.site == "north"
    (tmp_path / "old.sql").write_text("SELECT 1 AS a; DROP TABLE visits")
    with pytest.raises(dsba.InputError, match="must be one statement"):
        open_table(url(tmp_path / "t.db", query=tmp_path / "old.sql"))
    (tmp_path / "old.sql").write_text("DELETE FROM visits")
    with pytest.raises(dsba.InputError, match="cannot be read as a table of a database"):
        open_table(url(tmp_path / "t.db", query=tmp_path / "old.sql"))
    assert len(open_table(tmp_path / "t.db").read()) == len(frame())


def test_a_database_is_read_in_one_state(tmp_path):
    """What is written after the names were read is not seen; a second reading sees it, and its digest tells."""
    write_sqlite(tmp_path / "t.db")
    writer = sqlite3.connect(tmp_path / "t.db")
    writer.execute("PRAGMA journal_mode=WAL")
    table = open_table(tmp_path / "t.db")
    writer.execute("UPDATE visits SET age = age + 1")
    writer.commit()
    assert table.read(["age"])["age"].tolist() == frame()["age"].tolist()
    again = open_table(tmp_path / "t.db")
    assert again.read(["age"])["age"].tolist() == (frame()["age"] + 1).tolist()
    assert again.digest != table.digest
    writer.execute("VACUUM")
    writer.close()
    third = open_table(tmp_path / "t.db")
    third.read(["age"])
    assert third.digest == again.digest  # of the rows, not of the file


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("postgresql://me:s3cret@h/db?table=x", "has a password, which others could see"),
        ("postgresql://h/db?table=x&password=s3cret", "has a password, which others could see"),
        ("postgresql://me@h:port/db", "a database wants a URL such as"),
        ("sqlite:///nothing.db?table=x", "cannot read nothing.db: there is no such file"),
        ("sqlite:///t.db?table=visit", r"has no such table; did you mean 'visits'\?"),
        ("sqlite:///two.db", "must name a table, with table=NAME in its URL, or query=FILE.sql; it has 'a', 'b'"),
        ("sqlite:///t.db?table=visits&query=x.sql", "has a table and a query"),
        ("sqlite:///t.db?query=x.sql", "cannot read the query x.sql"),
        ("nobase://h/db?table=x", "'nobase' is not a known kind of database"),
        ("https://me@h/t.csv", "'https' is not a known kind of database; download web files"),
    ],
)
def test_what_is_wrong_with_a_database_is_one_sentence_without_secrets(place, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_sqlite("t.db")
    two = sqlite3.connect("two.db")
    two.executescript("CREATE TABLE a (x); CREATE TABLE b (x)")
    two.close()
    with pytest.raises(dsba.InputError, match=sentence) as caught:
        open_table(TableSource(place))
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_source_shows_neither_user_nor_options():
    source = TableSource("postgresql://me@host:5433/north?table=visits&sslkey=/home/me/key")
    assert (str(source), source.site) == ("postgresql://host:5433/north?table=visits", "north")
    assert TableSource("sqlite:////data/south.db?table=a&site=s").site == "s"
    assert TableSource("/data/east.csv.gz").site == "east"
    with pytest.raises(dsba.InputError, match="is a database, and a file is wanted here"):
        _ = source.libsvm
    with pytest.raises(dsba.InputError, match="--decimal is for tables"):
        _ = TableSource("a.svm", Reading(decimal=",")).libsvm
