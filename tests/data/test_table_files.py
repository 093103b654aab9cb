"""Reading tables: dialects, numbers, and what is refused."""

from __future__ import annotations

import decimal
import gzip
import hashlib
import io
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hospital_tables import SECRET, hospitals

import dsba
from dsba.data import bounds, table_files, text_tables
from dsba.data.hashed_file import HashedFile
from dsba.data.sources import Reading
from dsba.data.table_files import TableFile, is_table
from dsba.data.text_tables import Dialect, RegularLines, sniffed
from dsba.tables.formula import parse

# Reading -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("separator", "decimal"), [(",", "."), (";", ","), (";", "."), ("\t", ","), ("|", ".")])
def test_separator_and_decimal_are_found_out(separator, decimal, packed, tmp_path):
    frame = hospitals()["site0"]
    path = tmp_path / ("table.csv" + ".gz" * packed)
    frame.to_csv(path, sep=separator, decimal=decimal, index=False)
    with HashedFile(path) as file:
        assert sniffed(file) == Dialect(separator, decimal)
    pd.testing.assert_frame_equal(TableFile(path).read(), frame.reset_index(drop=True))
    assert TableFile(path).names == list(frame.columns)


def test_gzip_is_known_by_its_bytes(tmp_path):
    (tmp_path / "t.csv").write_bytes(gzip.compress(b"a,b\n1,2\n"))
    assert TableFile(tmp_path / "t.csv").read()["b"].tolist() == [2]


def test_a_lone_carriage_return_is_refused(tmp_path):
    """pandas would read the row after it with its fields shifted."""
    path = tmp_path / "a.csv"
    path.write_bytes(b"age,sex,crp\n40,F,1.5\n\r,M,2\n")
    with pytest.raises(dsba.InputError, match=r"line 3: a carriage return without a line feed"):
        TableFile(path).read()
    path.write_bytes(b"age,sex\r\n40,F\r\n")
    assert TableFile(path).read()["age"].tolist() == [40]


def test_numbers_of_formulas_are_pythons():
    assert parse("y ~ I(x*007 + 00.5)").right == "I(x * 7 + 0.5)"
    with pytest.raises(dsba.InputError, match="character 9"):
        parse("y ~ I(x*٣)")


def test_one_column_and_quoted_commas(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n2\n")
    assert TableFile(path).read()["x"].tolist() == [1, 2]
    path.write_text('a,b\n"one, two",1\n"three",2\n"x, y, z",3\n')
    with HashedFile(path) as file:
        assert sniffed(file).separator == ","
    assert TableFile(path).read()["a"].tolist() == ["one, two", "three", "x, y, z"]


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
        TableFile(tmp_path / "t.csv").read()
    assert "250" not in str(error.value)


def test_marks_that_can_only_stand_before_decimals(tmp_path):
    path = tmp_path / "t.csv"
    for text in ("x;y\n1;0,125\n2;1,250\n", 'x;y\n"1";"0,125"\n"2";"1,25"\n', "x,y\n1,0.125\n2,1.250\n"):
        path.write_text(text)
        assert TableFile(path).read()["y"].tolist() == [0.125, 1.25]
    path.write_text("x;y\n1;1,5e3\n2;,5\n")
    assert TableFile(path).read()["y"].tolist() == [1500.0, 0.5]
    path.write_text("ids;y\n1,2;0.5\n3,4 and 5;1.5\n")
    assert TableFile(path).read()["ids"].tolist() == ["1,2", "3,4 and 5"]


def test_none_is_a_level_and_na_is_missing(tmp_path):
    """R writes NA for a missing value of any type. None may be what a patient drinks; among numbers it is no number."""
    path = tmp_path / "t.csv"
    path.write_text("NA,drinks,crp\n140,None,1.5\n138,NA,None\n,Some,2\n")
    assert TableFile(path).names == ["NA", "drinks", "crp"]
    frame = TableFile(path).read()
    assert frame["drinks"].fillna("?").tolist() == ["None", "?", "Some"]
    assert frame["crp"].fillna(-1).tolist() == [1.5, -1, 2]
    assert frame["NA"].fillna(-1).tolist() == [140, 138, -1]


def test_only_the_columns_asked_for_are_read(tmp_path, monkeypatch):
    frame = hospitals()["site0"]
    for path in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
        found = TableFile(path).read(["crp", "age"])
        pd.testing.assert_frame_equal(found, frame[["crp", "age"]].reset_index(drop=True))
        with pytest.raises(dsba.InputError, match="has no column 'crq'"):
            TableFile(path).read(["crq"])


def test_numbers_are_read_to_the_last_digit(tmp_path):
    values = np.random.default_rng(0).normal(size=2000) * 10.0 ** np.random.default_rng(1).integers(-9, 9, 2000)
    (tmp_path / "t.csv").write_text("x\n" + "\n".join(map(repr, values.tolist())) + "\n")
    assert (TableFile(tmp_path / "t.csv").read()["x"].to_numpy() == values).all()


@pytest.mark.parametrize("cells", [["9223372036854775808", "NA", "2e-3"], ["9" * 300, "", "1"], ["1" * 20, "NA", "x"]])
def test_whole_numbers_beyond_64_bits_leave_missing_cells_missing(cells, tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n" + "".join(f"{cell},1\n" for cell in cells))
    column = TableFile(tmp_path / "a.csv").read(["a"])["a"]
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
        TableFile(tmp_path / "a.csv").read()
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
        (b"PK\x03\x04" + b"\x00" * 40, "is a zip archive, or a document that is packed as one"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 600,
            "an old Excel workbook, or one with a password: save it as",
        ),
        (b"%PDF-1.7\n%\xe2\xe3", "is a PDF document"),
        (b"sep=;\na;b\n1;2\n", "with a line for Excel .sep=. above its header"),
        (b"<!DOCTYPE html><p>sign in", "is a web page: download the table itself"),
        (bytes(range(256)) * 20, "neither text nor a table of a format that can be read"),
        (b"\x00" * 5000, "neither text nor a table of a format that can be read"),
        (b"PAR1" + b"\x00" * 50, "cannot be read|no whole file"),
        (b"\x1f\x8b" + b"\x00" * 5, "cannot read"),
    ],
)
def test_a_bad_table_is_refused_without_its_values(content, message, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    with pytest.raises(dsba.InputError, match=message) as error:
        TableFile(path).read()
    assert SECRET not in str(error.value)


def test_a_cut_gzip_is_refused(tmp_path):
    whole = gzip.compress(("a,b\n" + "1,2\n" * 100_000).encode(), mtime=0)
    (tmp_path / "t.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(dsba.InputError, match=r"cannot read|cannot be read"):
        TableFile(tmp_path / "t.csv.gz").read()


class Compared(str):
    """A name that counts how often names are compared."""

    count = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Compared.count += 1
        return str.__eq__(self, other)


@pytest.mark.parametrize("write", ["to_csv", "to_parquet"])
def test_the_work_for_names_of_columns_grows_like_their_number(write, tmp_path):
    """40,000 columns took half a minute: most of it compared every name with every other."""
    counts = []
    for number in (100, 400):
        frame = pd.DataFrame({f"column{n}": [1.0, 2.0] for n in range(number)})
        getattr(frame, write)(tmp_path / "wide", index=False)
        table = TableFile(tmp_path / "wide")
        table.names = [Compared(name) for name in table.names]
        Compared.count = 0
        pd.testing.assert_frame_equal(table.read(), frame)
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
        TableFile(path).read(["a"])
    assert str(path) in str(error.value)
    monkeypatch.setenv("DSBA_MAX_BYTES", "2000000")
    if bomb != "a line":  # which has no rows
        assert len(TableFile(path).read(["a"])) >= 1000


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
            TableFile(path).read()
        except dsba.InputError as error:
            refused.append(str(error))
    assert len(refused) > len(cut)
    assert all(str(path) in sentence for sentence in refused)


def test_an_index_of_a_parquet_file_is_a_column(tmp_path):
    frame = pd.DataFrame({"id": ["007", "8"], "age": [50, 60], "x": [1.5, 2.5]})
    for index in (["id"], ["age"], ["id", "age"]):
        frame.set_index(index).to_parquet(tmp_path / "t.parquet")
        pd.testing.assert_frame_equal(TableFile(tmp_path / "t.parquet").read(["age", "x"]), frame[["age", "x"]])
        pd.testing.assert_frame_equal(TableFile(tmp_path / "t.parquet").texts(["id"]), frame[["id"]])


def test_the_numbers_of_chosen_rows_are_no_column_of_a_parquet_file(tmp_path):
    """pandas writes them without a name, and they were asked for by the one that it makes up."""
    frame = pd.DataFrame({"age": [60, 50, 70, 80]})
    frame[frame["age"] > 50].to_parquet(tmp_path / "t.parquet")
    table = TableFile(tmp_path / "t.parquet")
    assert table.names == ["age"]
    assert table.read()["age"].tolist() == [60, 70, 80]


def test_decimal_numbers_of_a_parquet_file_are_numbers(tmp_path):
    prices = pa.array([decimal.Decimal("1.50"), None], pa.decimal128(10, 2))
    pq.write_table(pa.table({"price": prices}), tmp_path / "t.parquet")
    table = TableFile(tmp_path / "t.parquet")
    np.testing.assert_array_equal(table.read()["price"], [1.5, np.nan])
    assert table.texts(["price"]).to_csv(index=False) == 'price\n1.50\n""\n'


# Read once -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_what_is_hashed_is_what_is_parsed(name, tmp_path, opened):
    path, frame = tmp_path / name, hospitals()["site0"].reset_index(drop=True)
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    before = opened(path)
    table = TableFile(path)
    pd.testing.assert_frame_equal(table.read(), frame)
    pd.testing.assert_frame_equal(table.read(["crp", "age"]), frame[["crp", "age"]])
    table.texts(["age"])
    assert opened(path) - before == 1
    assert table.digest == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("read_before", [False, True])
def test_a_table_that_is_replaced_is_refused(read_before, tmp_path):
    path, other = tmp_path / "t.csv", tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    table = TableFile(path)
    if read_before:
        table.read()
    other.write_text("a,b\n1,3\n")
    other.replace(path)
    with pytest.raises(dsba.InputError, match="was changed or replaced after its header was read"):
        table.read()


@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_table_that_is_written_to_while_it_is_read_is_refused(name, tmp_path, monkeypatch):
    """The file keeps its place, size and time; what was parsed is another content than what is there then."""
    path = tmp_path / name
    frame = pd.DataFrame({"a": ["1"] * 4, "b": 2})
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    monkeypatch.setattr(table_files.parquet if path.suffix == ".parquet" else text_tables, "read", _meddling)
    with pytest.raises(dsba.InputError, match="was changed"):
        TableFile(path).read()


def _meddling(file, wanted):
    """A reader that goes over the file twice, while others write to it."""
    file.seek(0)
    whole = file.read()
    with open(file.name, "r+b") as other:
        other.seek(len(whole) - 1)
        other.write(b"x")
    os.utime(file.name, ns=(file.stat.st_atime_ns, file.stat.st_mtime_ns))
    file.seek(0)
    file.read()
    return pd.DataFrame({name: [] for name in wanted})


def _lines_are_sound(text):
    """What Python's own reader says of the lines."""
    try:
        text_tables._check_lines(Named(text), ",")
    except (dsba.InputError, UnicodeDecodeError):
        return False
    return True


class Named(io.BytesIO):
    name, reading = "t.csv", Reading()


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_lines_that_are_seen_to_be_regular_are_sound(size):
    """Whatever the pieces are in which they come; and plain tables are seen to be regular."""
    rng = np.random.default_rng(size)
    parts = [b"a", b"1", b",", b",", b'"', b'""', b"\n", b"\r\n", b"\r", b" ", b"\xc3\xa9", b"\xff"]
    regular = 0
    for _ in range(4000):
        text = b"a,b\n" + b"".join(parts[k] for k in rng.integers(len(parts), size=rng.integers(12)))
        lines = RegularLines(io.BytesIO(text), ",")
        try:
            while lines.read(size):
                pass
        except UnicodeDecodeError:
            continue
        regular += lines.regular
        assert not lines.regular or _lines_are_sound(text), text
    assert regular > 20
    for text in (b"a,b\n1,2\n", b'\xef\xbb\xbf"a",b\r\n"x, ""y""",2\r\n', b"a\n1\n2", b'a,b\n"",""\n1,2'):
        lines = RegularLines(io.BytesIO(text), ",")
        while lines.read(1000):
            pass
        assert lines.regular


@pytest.mark.parametrize(
    ("first", "last"), [("1", "x"), ("01", "x"), ("True", "no"), ("", "x"), ("1", "1.5"), ("1", str(2**63)), ("", "7")]
)
def test_the_type_of_a_column_is_that_of_all_its_rows(first, last, tmp_path):
    """pandas finds types in pieces of the file: a level 1 would be another one than a level "1" of a later piece."""
    rows = 600_000
    (tmp_path / "t.csv").write_text("a,b\n" + f"{first},1\n" * rows + f"{last},1\n")
    found = TableFile(tmp_path / "t.csv").read(["a"])["a"]
    (tmp_path / "t.csv").write_text(f"a,b\n{first},1\n{last},1\n")
    few = TableFile(tmp_path / "t.csv").read(["a"])["a"]
    assert (found.dtype, len(found)) == (few.dtype, rows + 1)
    assert repr(found.iloc[[0, -1]].tolist()) == repr(few.tolist())
