"""Reading tables: dialects, numbers, and what is refused."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hospital_tables import SECRET, hospitals

import dsba
from dsba.data import bounds, table_files
from dsba.data.table_files import column_names, is_table, read_table, read_texts
from dsba.data.text_tables import Dialect, sniffed
from dsba.tables.formula import parse

# Reading -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("separator", "decimal"), [(",", "."), (";", ","), (";", "."), ("\t", ","), ("|", ".")])
def test_separator_and_decimal_are_found_out(separator, decimal, packed, tmp_path):
    frame = hospitals()["site0"]
    path = tmp_path / ("table.csv" + ".gz" * packed)
    frame.to_csv(path, sep=separator, decimal=decimal, index=False)
    assert sniffed(path) == Dialect(separator, decimal)
    pd.testing.assert_frame_equal(read_table(path), frame.reset_index(drop=True))
    assert column_names(path) == list(frame.columns)


def test_gzip_is_known_by_its_bytes(tmp_path):
    (tmp_path / "t.csv").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert read_table(tmp_path / "t.csv")["b"].tolist() == [2]


def test_a_lone_carriage_return_is_refused(tmp_path):
    """pandas would read the row after it with its fields shifted."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"age,sex,crp\n40,F,1.5\n\r,M,2\n")
    with pytest.raises(dsba.InputError, match=r"line 3: a carriage return without a line feed"):
        read_table(path)
    path.write_bytes(b"age,sex\r\n40,F\r\n")
    assert read_table(path)["age"].tolist() == [40]


def test_numbers_of_formulas_are_pythons():
    assert parse("y ~ I(x*007 + 00.5)").right == "I(x * 7 + 0.5)"
    with pytest.raises(dsba.InputError, match="character 9"):
        parse("y ~ I(x*٣)")


def test_one_column_and_quoted_commas(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n2\n")
    assert read_table(path)["x"].tolist() == [1, 2]
    path.write_text('a,b\n"one, two",1\n"three",2\n"x, y, z",3\n')
    assert sniffed(path).separator == ","
    assert read_table(path)["a"].tolist() == ["one, two", "three", "x, y, z"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("age\tincome\n50\t950\n60\t1,250\n70\t12,500\n", "the commas in its numbers may stand before decimals or"),
        ("age;income\n50;950\n60;1,250,000\n", "the commas in its numbers may stand before decimals or"),
        ("age;cost\n50;950\n60;1.250\n", "the points in its numbers may stand before decimals or"),
        ("age;cost;crp\n50;950;3,5\n60;1.250;4,5\n", "the points in its numbers may stand before decimals or"),
        ("age;cost\n50;0,5\n60;1.250,5\n", "column 'cost' has numbers with other marks .* wanted ',' before decimals"),
        ("age;cost\n50;1.250,5\n60;3\n", "column 'cost' has numbers with other marks .* wanted '.' before decimals"),
        ('age,crp\n50,"3,5"\n60,"4"\n', "column 'crp' has numbers with other marks .* wanted '.' before decimals"),
        ("age;crp\n" + "50;3\n" * 60 + "60;3,5\n", "column 'crp' has numbers with other marks"),
        ("age;crp;w\n" + "50;3,1;2\n" * 60 + "60;3,5;0.5\n", "column 'w' has numbers with other marks"),
    ],
)
def test_marks_between_thousands_are_refused(text, told, tmp_path):
    """Taken for decimal marks they would make numbers a thousand times too small, or levels of them."""
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(dsba.InputError, match=told) as error:
        read_table(tmp_path / "t.csv")
    assert "250" not in str(error.value)


def test_marks_that_can_only_stand_before_decimals(tmp_path):
    path = tmp_path / "t.csv"
    for text in ("x;y\n1;0,125\n2;1,250\n", 'x;y\n"1";"0,125"\n"2";"1,25"\n', "x,y\n1,0.125\n2,1.250\n"):
        path.write_text(text)
        assert read_table(path)["y"].tolist() == [0.125, 1.25]
    path.write_text("x;y\n1;1,5e3\n2;,5\n")
    assert read_table(path)["y"].tolist() == [1500.0, 0.5]
    path.write_text("ids;y\n1,2;0.5\n3,4 and 5;1.5\n")
    assert read_table(path)["ids"].tolist() == ["1,2", "3,4 and 5"]


def test_none_is_a_level_and_na_is_missing(tmp_path):
    """R writes NA for a missing value of any type. None may be what a patient drinks; among numbers it is no number."""
    path = tmp_path / "t.csv"
    path.write_text("NA,drinks,crp\n140,None,1.5\n138,NA,None\n,Some,2\n")
    assert column_names(path) == ["NA", "drinks", "crp"]
    frame = read_table(path)
    assert frame["drinks"].fillna("?").tolist() == ["None", "?", "Some"]
    assert frame["crp"].fillna(-1).tolist() == [1.5, -1, 2]
    assert frame["NA"].fillna(-1).tolist() == [140, 138, -1]


def test_only_the_columns_asked_for_are_read(tmp_path, monkeypatch):
    frame = hospitals()["site0"]
    for path in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
        found = read_table(path, ["crp", "age"])
        pd.testing.assert_frame_equal(found, frame[["crp", "age"]].reset_index(drop=True))
        with pytest.raises(dsba.InputError, match="has no column 'crq'"):
            read_table(path, ["crq"])


def test_numbers_are_read_to_the_last_digit(tmp_path):
    values = np.random.default_rng(0).normal(size=2000) * 10.0 ** np.random.default_rng(1).integers(-9, 9, 2000)
    (tmp_path / "t.csv").write_text("x\n" + "\n".join(map(repr, values.tolist())) + "\n")
    assert (read_table(tmp_path / "t.csv")["x"].to_numpy() == values).all()


@pytest.mark.parametrize("cells", [["9223372036854775808", "NA", "2e-3"], ["9" * 300, "", "1"], ["1" * 20, "NA", "x"]])
def test_whole_numbers_beyond_64_bits_leave_missing_cells_missing(cells, tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n" + "".join(f"{cell},1\n" for cell in cells))
    column = read_table(tmp_path / "a.csv", ["a"])["a"]
    numbers = "x" not in cells
    assert column.isna().tolist() == [cell in ("NA", "") for cell in cells]
    assert (column.dtype == float) == numbers
    assert [float(c) if numbers else c for c in column.dropna()] == [
        float(c) if numbers else c for c in cells if c not in ("NA", "")
    ]


def test_libsvm_is_told_from_a_table(tmp_path):
    (tmp_path / "a.csv").write_text("1 1:0.5 3:2\n-1 2:1\n")
    (tmp_path / "b.svm").write_text("age,sex\n1,M\n")
    assert not is_table(tmp_path / "a.csv")
    assert is_table(tmp_path / "b.svm")
    with pytest.raises(dsba.InputError, match="is LIBSVM text"):
        read_table(tmp_path / "a.csv")
    with pytest.raises(dsba.InputError, match=r"b\.svm is a table"):
        dsba.fitting.train([tmp_path / "b.svm"], dsba.fitting.FitSpec())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"1,2\n3,4\n", "has no header"),
        (b"a,a\n3,4\n", "'a' as the name of several columns"),
        (b"a,,c\n3,4,5\n", "the name of column 2 is empty"),
        (b"a,b\n1,2\n" + f"{SECRET},4,5\n".encode(), "line 3: wanted 2 fields, got 3"),
        (b"a,b\n1,2\n3\n", "line 3: wanted 2 fields, got 1"),
        (b"a,b\n\xff\xfe,1\n", "is not UTF-8 text"),
        (b"PAR1" + b"\x00" * 50, "cannot be read|no whole file"),
        (b"\x1f\x8b" + b"\x00" * 5, "cannot read"),
    ],
)
def test_a_bad_table_is_refused_without_its_values(content, message, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(dsba.InputError, match=message) as error:
        read_table(path)
    assert SECRET not in str(error.value)


def test_a_cut_gzip_is_refused(tmp_path):
    whole = gzip.compress(("a,b\n" + "1,2\n" * 100_000).encode(), mtime=0)
    (tmp_path / "t.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(dsba.InputError, match=r"cannot read|cannot be read"):
        read_table(tmp_path / "t.csv.gz")


class Compared(str):
    """A name that counts how often names are compared."""

    count = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Compared.count += 1
        return str.__eq__(self, other)


@pytest.mark.parametrize("write", ["to_csv", "to_parquet"])
def test_the_work_for_names_of_columns_grows_like_their_number(write, tmp_path, monkeypatch):
    """40,000 columns took half a minute: most of it compared every name with every other."""
    counts = []
    for number in (100, 400):
        frame = pd.DataFrame({f"column{n}": [1.0, 2.0] for n in range(number)})
        getattr(frame, write)(tmp_path / "wide", index=False)
        names = [Compared(name) for name in column_names(tmp_path / "wide")]
        monkeypatch.setattr(table_files, "column_names", lambda path, names=names: names)
        Compared.count = 0
        pd.testing.assert_frame_equal(read_table(tmp_path / "wide"), frame)
        counts.append(Compared.count)
    assert counts[1] <= 8 * counts[0]  # four times as many columns; some hashes collide


BOMBS = {
    "rows": lambda path: path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 100_000)),
    "a line": lambda path: path.write_bytes(gzip.compress(b"a,b" * 100_000)),
    "numbers": lambda path: pd.DataFrame({"a": np.zeros(100_000), "b": 1.0}).to_parquet(path),
    "texts": lambda path: pd.DataFrame({"a": ["x" * 1000] * 1000, "b": 1.0}).to_parquet(path),
    "an index": lambda path: pd.DataFrame({"a": 1.0, "b": ["x" * 1000] * 1000}).set_index("b").to_parquet(path),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_what_unpacks_to_too_much_is_refused(bomb, tmp_path, monkeypatch):
    """The bounds are set lower here; the sentence names the variable that raises them."""
    path = tmp_path / "table"
    BOMBS[bomb](path)
    monkeypatch.setattr(bounds, "UNPACKED_AT_LEAST", 200_000)
    monkeypatch.setattr(bounds, "PACKED", 10)
    assert path.stat().st_size < 20_000
    with pytest.raises(
        dsba.InputError, match=r"more than 200000 bytes .* DSBA_MAX_BYTES sets another bound\."
    ) as error:
        read_table(path, ["a"])
    assert str(path) in str(error.value)
    monkeypatch.setenv("DSBA_MAX_BYTES", "2000000")
    if bomb != "a line":  # which has no rows
        assert len(read_table(path, ["a"])) >= 1000


def test_a_damaged_parquet_file_is_one_sentence(tmp_path):
    """Arrow's errors are of many classes, and some are no ValueErrors."""
    whole, path = tmp_path / "whole", tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": pa.array([1, 2], pa.int8())}), whole)
    good = whole.read_bytes()
    cut = [good[:length] for length in range(4, len(good), 16)]
    schema = range(good.index(b"ARROW:schema"), len(good))
    flipped = [good[:at] + bytes([good[at] ^ 2]) + good[at + 1 :] for at in schema]
    refused = []
    for damaged in (*cut, *flipped):
        path.write_bytes(damaged)
        try:
            read_table(path)
        except dsba.InputError as error:
            refused.append(str(error))
    assert len(refused) > len(cut)
    assert all(str(path) in sentence for sentence in refused)


def test_an_index_of_a_parquet_file_is_a_column(tmp_path):
    frame = pd.DataFrame({"id": ["007", "8"], "age": [50, 60], "x": [1.5, 2.5]})
    for index in (["id"], ["age"], ["id", "age"]):
        frame.set_index(index).to_parquet(tmp_path / "t.parquet")
        pd.testing.assert_frame_equal(read_table(tmp_path / "t.parquet", ["age", "x"]), frame[["age", "x"]])
        pd.testing.assert_frame_equal(read_texts(tmp_path / "t.parquet", ["id"]), frame[["id"]])
