"""Loading LIBSVM text, its cache, and the data sets which need no file."""

from __future__ import annotations

import bz2
import gzip
import os
import pickle
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import dsba
from dsba import data
from dsba.data import EMBEDDED, Dataset, bounds, libsvm, load, load_breast_cancer, load_libsvm, make_text_like
from dsba.data.hashed_file import HashedFile
from dsba.data.table_files import TableFile
from dsba.errors import InputError
from dsba.storage import sealed
from dsba.tables.formula import parse

PLAIN = b"+1 1:0.5 3:2\n\n# a remark\n-1 2:1e-3 4:-7 # why not\n+1\n"
PACKERS: dict[str, Callable[[bytes], bytes]] = {"plain": bytes, "gz": gzip.compress, "bz2": bz2.compress}


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the user's own data or cache."""
    monkeypatch.setenv("DSBA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DSBA_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write_file(content: bytes, name: str = "set.svm") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write_file


def forbid_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> Dataset:
        raise AssertionError(f"{path} was parsed")

    monkeypatch.setattr(libsvm, "_parse", refuse)


def assert_same(got: Dataset, X: sp.csr_matrix, y: np.ndarray) -> None:
    assert got.X.shape == X.shape
    assert got.X.dtype == got.y.dtype == np.float64
    assert got.X.has_canonical_format
    np.testing.assert_array_equal(got.X.indptr, X.indptr)
    np.testing.assert_array_equal(got.X.indices, X.indices)
    np.testing.assert_array_equal(got.X.data, X.data)
    np.testing.assert_array_equal(got.y, y)


# --- reading ----------------------------------------------------------------------------------


def test_what_a_file_means(write):
    X, y = load_libsvm(write(PLAIN))
    np.testing.assert_array_equal(X.toarray(), [[0.5, 0, 2, 0], [0, 1e-3, 0, -7], [0, 0, 0, 0]])
    np.testing.assert_array_equal(y, [1, -1, 1])
    assert X.indices.dtype == X.indptr.dtype == np.int32


@pytest.mark.parametrize("packing", PACKERS)
def test_theirs_and_ours(packing, tmp_path, write):
    X = sp.random(50, 40, density=0.2, format="csr", random_state=np.random.default_rng(1))
    y = np.random.default_rng(2).standard_normal(50)
    plain = tmp_path / "theirs"
    dump_svmlight_file(X, y, str(plain), zero_based=False)
    theirs = load_svmlight_file(str(plain), n_features=40, zero_based=False)
    packed = write(PACKERS[packing](plain.read_bytes()), "no-telling-ending")
    assert_same(load_libsvm(packed, n_features=40), *theirs)


matrices = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=8),
    elements=st.just(0.0) | st.floats(allow_nan=False, allow_infinity=False),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(dense=matrices, zero_based=st.booleans(), packing=st.sampled_from(sorted(PACKERS)))
def test_round_trip(dense, zero_based, packing, write):
    dense[0, 0] = 1.0  # shows a zero-based file to be one
    X, y = sp.csr_matrix(dense), np.arange(len(dense)) - 1.5
    lines = [
        " ".join([repr(float(y[i])), *(f"{j + 1 - zero_based}:{float(v)!r}" for j, v in enumerate(row) if v)])
        for i, row in enumerate(dense)
    ]
    path = write(PACKERS[packing]("\n".join(lines).encode()))
    assert_same(load_libsvm(path, n_features=dense.shape[1]), X, y)
    assert_same(load_libsvm(path, n_features=dense.shape[1]), X, y)  # now from the cache
    with HashedFile(path) as file:
        assert_same(libsvm._parse_strictly(file), *libsvm._parse_fast(file))
    assert_same(load_libsvm(path, n_features=dense.shape[1], zero_based=zero_based), X, y)


def test_windows_line_ends_and_no_final_newline(write):
    X, y = load_libsvm(write(b"1 1:2\r\n-1 2:3"))
    np.testing.assert_array_equal(X.toarray(), [[2, 0], [0, 3]])
    np.testing.assert_array_equal(y, [1, -1])


def test_zero_based_only_if_column_zero_occurs(write):
    assert load_libsvm(write(b"1 5:1\n-1 0:2\n")).X.shape == (2, 6)
    assert load_libsvm(write(b"1 5:1\n-1 3:2\n")).X.shape == (2, 5)  # a shard that lacks column 1


def test_queries_and_remarks_are_ignored(write):
    X, _ = load_libsvm(write(b"1 qid:7 1:2 # doc_12 qid 3\n-1 qid:7 2:3\n"))
    np.testing.assert_array_equal(X.toarray(), [[2, 0], [0, 3]])


def test_the_base_may_be_said(write):
    """A file written from zero whose column 0 happens to be empty: only the one who wrote it knows."""
    path = write(b"1 5:1\n-1 3:2\n")
    assert load_libsvm(path, zero_based=True).X.shape == (2, 6)
    assert load_libsvm(path, zero_based=True).X.indices.tolist() == [5, 3]
    assert load_libsvm(path, zero_based=False).X.indices.tolist() == [4, 2]
    assert load_libsvm(path).X.indices.tolist() == [4, 2]
    for wrong in ("yes", None, 2):
        with pytest.raises(InputError, match="zero_based must be True, False or 'auto', got"):
            load_libsvm(path, zero_based=wrong)


def test_index_zero_where_columns_count_from_one(write):
    path = write(b"1 qid:3 5:1\n\n-1 qid:3  0:2 3:1\n")
    with pytest.raises(InputError, match=r"set.svm, line 3, column 11: wanted indices that count from 1"):
        load_libsvm(path, zero_based=False)


def test_what_a_file_says_of_its_base(write):
    assert data.index_range(write(b"1 5:1\n-1 3:2\n")) == (3, 5)
    seen = data.index_range(write(b"1 5:1\n-1 0:2\n"))
    assert seen == (0, 5)
    assert (seen.width(True), seen.width(False)) == (6, 5)
    assert data.index_range(write(b"1\n-1\n")) == (None, None)
    assert data.index_range(write(b"1\n-1\n")).width(True) == 0


def test_wide_files_get_64_bit_indices(write, monkeypatch):
    monkeypatch.setattr(libsvm.memory, "available", lambda: 2**45)
    narrow = write(b"1 3:2\n", "narrow")
    for n_features in (2**31 + 5, 2**40):
        X, _ = load_libsvm(narrow, n_features=n_features)
        assert X.indices.dtype == X.indptr.dtype == np.int64
        assert X.shape == (1, n_features)
    for _ in ("parsed", "cached"):
        X, _ = load_libsvm(write(f"1 3:2 {2**33}:4\n".encode(), "wide"))
        assert X.indices.tolist() == [2, 2**33 - 1]
    assert load_libsvm(narrow).X.indices.dtype == np.int32


def test_n_features(write):
    path = write(b"# remark\n1 1:2\n\n1 2:1 7:3\n")
    assert load_libsvm(path, n_features=9).X.shape == (2, 9)
    assert load_libsvm(path, n_features=np.int64(7)).X.shape == (2, 7)
    with pytest.raises(InputError, match=r"set.svm, line 4, column 7: a column beyond n_features=6 .*has 7\)\.$"):
        load_libsvm(path, n_features=6)
    for wrong in (0, -1, 2.5, "3", 2**64):
        with pytest.raises(InputError, match=r"n_features must be an integer >= 1, got|is too wide"):
            load_libsvm(path, n_features=wrong)


def test_labels_alone_need_n_features(write):
    path = write(b"1\n-1\n")
    assert load_libsvm(path, n_features=3).X.shape == (2, 3)
    with pytest.raises(InputError, match="give n_features"):
        load_libsvm(path)


# --- refusing ---------------------------------------------------------------------------------

LABEL, VALUE = "a finite number as label", "a finite number as value"
INDEX = "an index which is a whole number from 0 or 1"
MALFORMED = {
    "label": (b"patient-4711 1:2", 1, LABEL),
    "no label": (b"4711:2 2:3", 1, LABEL),
    "nan label": (b"nan 1:2", 1, LABEL),
    "infinite label": (b"-inf 1:2", 1, LABEL),
    "labels": (b"4711,2 1:2", 1, "one label, not several"),
    "value": (b"1 1:patient", 3, VALUE),
    "no value": (b"1 1:", 3, VALUE),
    "two colons": (b"1  1:4711:3", 4, VALUE),
    "nan value": (b"1 1:NaN", 3, VALUE),
    "infinite value": (b"1 1:inf", 3, VALUE),
    "huge value": (b"1 1:1e999", 3, VALUE),
    "underscore in value": (b"1 1:1_0", 3, VALUE),
    "underscore in index": (b"1 1_0:1", 3, INDEX),
    "no colon": (b"  1 1:2 4711", 9, "index:value"),
    "no index": (b"1 :2", 3, INDEX),
    "fraction as index": (b"1 47.11:2", 3, INDEX),
    "negative index": (b"1 -4711:2", 3, INDEX),
    "falling": (b"1 4711:1 4710:1", 10, "an index larger than the one before it in the row"),
    "repeated": (b"1 qid:3 4711:1 4711:1", 16, "an index larger than the one before it in the row"),
    "index beyond 64 bits": (b"1 9223372036854775807:1", 3, "an index which fits into 64 bits"),
    "index beyond the memory": (b"1 1:1 4611686018427387904:1", 7, "an index for which a vector of coefficients fits"),
    "like a query": (b"1 qidx:2", 3, INDEX),
    "binary": (b"\xff\x00\x01", 1, LABEL),
}


@pytest.mark.parametrize("packing", ["plain", "bz2"])
@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_place_is_named_and_no_data_is_shown(case, packing, write):
    """The names of the file, the line and the column, and nothing of what is there."""
    line, column, wanted = MALFORMED[case]
    path = write(PACKERS[packing](b"1 1:1\n# remark\n" + line + b"\n1 1:1\n"))
    with pytest.raises(InputError) as error:
        load_libsvm(path)
    message = str(error.value)
    assert message.startswith(f"{path}, line 3, column {column}: wanted {wanted}")
    rest = message.removeprefix(f"{path}, line 3, column {column}: wanted {wanted}")
    assert rest in (".", " into the memory.")


BOMBS = {"a line": b"1 1:1 2:1 3:1 " * 30_000, "rows": b"1 1:1\n" * 60_000, "remarks": b"# nothing\n" * 40_000}


@pytest.mark.parametrize("bomb", BOMBS)
def test_what_unpacks_to_too_much_is_refused_before_it_is_read(bomb, write, monkeypatch):
    """The bounds are set lower here; the sentence names the variable that raises them."""
    path = write(bz2.compress(BOMBS[bomb]))
    assert path.stat().st_size < 3000
    with monkeypatch.context() as usual:
        usual.setattr(libsvm, "LONGEST_LINE", 100_000)
        usual.setattr(bounds, "UNPACKED_AT_LEAST", 100_000)
        usual.setattr(bounds, "PACKED", 100)
        named = "DSBA_MAX_LINE" if bomb == "a line" else "DSBA_MAX_BYTES"
        with pytest.raises(InputError, match=f"{named} sets another bound") as error:
            load_libsvm(path)
        assert str(path) in str(error.value)
    monkeypatch.setenv("DSBA_MAX_BYTES", "300000")
    with pytest.raises(InputError, match="more than 300000 bytes"):
        load_libsvm(path)
    monkeypatch.setenv("DSBA_MAX_BYTES", "much")
    with pytest.raises(InputError, match="DSBA_MAX_BYTES must be a number of bytes, got 'much'"):
        load_libsvm(path)


def test_a_line_without_end_takes_no_memory(write):
    """300 MB of one line in a few hundred bytes; a process may have a third of that."""
    packer = bz2.BZ2Compressor()
    blob = b"".join(packer.compress(b"1 1:1 " + b"7" * 10_000_000) for _ in range(30)) + packer.flush()
    path = write(blob)
    code = (
        "import resource, sys, dsba\n"
        "base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    dsba.load_libsvm(sys.argv[1])\n"
        "except dsba.InputError as error:\n    print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base)"
    )
    run = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=300)
    said, more = run.stdout.splitlines()
    assert said == f"{path}, line 1: longer than {libsvm.LONGEST_LINE} bytes; DSBA_MAX_LINE sets another bound."
    assert int(more) < 150_000  # kilobytes; half of it is scikit-learn


def test_long_digits_are_read_at_once(tmp_path):
    """A column's name and a formula of many digits that are no number: going back over them took hours."""
    digits = 300_000 * "0" + "x"
    (tmp_path / "wide.csv").write_text(f"{digits},a\n1,2\n")

    def too_long(signum, frame):
        raise AssertionError("no end after a minute")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, 60.0)
    try:
        assert TableFile(tmp_path / "wide.csv").names == [digits, "a"]
        with pytest.raises(InputError, match="formula"):
            parse(f"y ~ {digits}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


EMPTY = {
    "empty": b"",
    "blank": b"\n\n",
    "comment": b"# only this\n",
    "bz2": bz2.compress(b""),
    "gz": gzip.compress(b""),
}


@pytest.mark.parametrize("content", EMPTY.values(), ids=EMPTY)
def test_empty_file(content, write):
    with pytest.raises(InputError, match=r"set.svm has no row"):
        load_libsvm(write(content))


@pytest.mark.parametrize("packing", ["gz", "bz2"])
def test_damaged_archive(packing, write):
    whole = PACKERS[packing](b"".join(b"1 %d:%d\n" % (j + 1, j * j) for j in range(5000)))
    for content in (whole[:3], whole[: len(whole) // 2], whole[:-4], whole[:400] + b"oops" + whole[404:]):
        with pytest.raises(InputError, match=r"set.svm"):
            load_libsvm(write(content))


# --- finding ----------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["data", "cache/data"])
@pytest.mark.parametrize("ending", ["", ".bz2", ".gz", ".svm", ".libsvm", ".txt"])
def test_a_name_is_looked_up(folder, ending, tmp_path, write):
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    write(PLAIN, f"{folder}/some.binary{ending}")
    assert load_libsvm("some.binary").X.shape == (3, 4)
    assert load("some.binary").X.shape == (3, 4)


def test_own_folder_comes_before_the_cache(tmp_path, write):
    (tmp_path / "cache" / "data").mkdir(parents=True)
    write(b"1 1:1\n", "cache/data/twice")
    write(PLAIN, "data/twice.txt")
    assert load_libsvm("twice").X.shape == (3, 4)


def test_unknown_name(tmp_path, write, monkeypatch):
    write(PLAIN, "data/mushrooms.bz2")
    with pytest.raises(InputError, match=r"no file 'mushroms'.*did you mean 'mushrooms'\?") as error:
        load_libsvm("mushroms")
    assert str(tmp_path / "data") in str(error.value)
    assert str(tmp_path / "cache" / "data") in str(error.value)
    with pytest.raises(InputError, match=r"did you mean 'breast-cancer'\?"):
        load("breastcancer")
    with pytest.raises(InputError, match="no file 'breast-cancer'"):
        load_libsvm("breast-cancer")
    monkeypatch.delenv("DSBA_DATA")
    with pytest.raises(InputError, match="DSBA_DATA is not set"):
        load_libsvm("mushrooms")
    for wrong in (None, 3, b"mushrooms"):
        with pytest.raises(InputError, match="given by its path or name, got"):
            load_libsvm(wrong)
    with pytest.raises(InputError, match="no file"):
        load_libsvm(tmp_path)  # a folder


# --- caching ----------------------------------------------------------------------------------


def entries(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "cache" / "parsed").iterdir())


def test_second_load_does_not_parse(tmp_path, write, monkeypatch):
    path = write(bz2.compress(PLAIN))
    first = load_libsvm(path)
    forbid_parsing(monkeypatch)
    assert_same(load_libsvm(path), *first)
    assert_same(load_libsvm(os.path.relpath(path)), *first)
    assert load_libsvm(path, n_features=11).X.shape == (3, 11)
    assert len(entries(tmp_path)) == 1
    with pytest.raises(AssertionError, match="was parsed"):
        load_libsvm(path, cache=False)


def test_cache_false_writes_nothing(tmp_path, write):
    load_libsvm(write(PLAIN), cache=False)
    assert not (tmp_path / "cache").exists()


def test_changed_file_is_parsed_again(tmp_path, write):
    """A byte far from the beginning, with size and time as before."""
    long = b"1 1:1\n" * 20_000
    path = write(long + b"1 1:2\n")
    load_libsvm(path)
    before = path.stat()
    write(long + b"1 1:3\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert load_libsvm(path).X.data[-1] == 3
    write(b"1 1:3\n")
    os.utime(path, ns=(0, 0))
    assert load_libsvm(path).X.data.tolist() == [3]
    assert len(entries(tmp_path)) == 1  # replaced, not piled up


def test_a_file_that_changes_while_it_is_parsed_is_not_kept(tmp_path, write, monkeypatch):
    path = write(b"1 1:2\n")
    parse = libsvm._parse

    def parse_and_change(file):
        dataset = parse(file)
        write(b"1 1:33\n")
        return dataset

    monkeypatch.setattr(libsvm, "_parse", parse_and_change)
    load_libsvm(path)
    assert not (tmp_path / "cache" / "parsed").exists()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_parsed_copies_are_as_private_as_their_source(tmp_path, write):
    path = write(PLAIN)
    path.chmod(0o640)
    load_libsvm(path)
    (entry,) = entries(tmp_path)
    assert mode(entry) == 0o640
    assert mode(entry.parent) == mode(tmp_path / "cache") == 0o700
    path.chmod(0o600)
    load_libsvm(path)
    assert mode(entry) == 0o600


def test_damaged_cache_is_ignored_and_rewritten(tmp_path, write, monkeypatch):
    path = write(b"".join(b"1 %d:%d\n" % (j + 1, j) for j in range(30)))
    whole = load_libsvm(path)
    (entry,) = entries(tmp_path)
    sound = entry.read_bytes()
    flips = [sound[:at] + bytes([sound[at] ^ 0x55]) + sound[at + 1 :] for at in range(0, len(sound), 23)]
    cuts = [sound[:at] for at in range(0, len(sound), 301)]
    for damaged in (*flips, *cuts, b"nonsense"):
        entry.write_bytes(damaged)
        assert_same(load_libsvm(path), *whole)
    entry.write_bytes(cuts[3])
    load_libsvm(path)
    forbid_parsing(monkeypatch)
    assert_same(load_libsvm(path), *whole)


def test_cache_that_is_no_matrix_is_ignored(tmp_path, write):
    path = write(PLAIN)
    whole = load_libsvm(path)
    (entry,) = entries(tmp_path)
    facts, arrays = sealed.read(entry)
    wrong = {
        "indptr": [np.array([0, 3, 2, 4], np.int32), np.array([0, 2, 4], np.int32), arrays["indptr"] + 1],
        "indices": [arrays["indices"] - 1, arrays["indices"][:-1], arrays["indices"].astype(float)],
        "data": [arrays["data"][:-1], arrays["data"].astype(np.float32), arrays["data"].astype(str)],
        "y": [arrays["y"][:-1], arrays["y"][:, None]],
    }
    for name, replacements in wrong.items():
        for replacement in replacements:
            with entry.open("wb") as stream:
                sealed.write(stream, facts, {**arrays, name: replacement})
            assert_same(load_libsvm(path), *whole)


def test_unwritable_cache_is_no_obstacle(tmp_path, write):
    write(b"a file where the folder should be", "cache")
    assert load_libsvm(write(PLAIN)).X.shape == (3, 4)


def test_failed_write_leaves_no_part_behind(tmp_path, write, monkeypatch):
    def full_disk(stream, facts, arrays):
        stream.write(b"the beginning")
        raise OSError("no space left on device")

    monkeypatch.setattr(sealed, "write", full_disk)
    assert load_libsvm(write(PLAIN)).X.shape == (3, 4)
    assert entries(tmp_path) == []


def test_default_cache_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("DSBA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert libsvm.parsed.folder() == tmp_path / "xdg" / "dsba"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert libsvm.parsed.folder() == tmp_path / ".cache" / "dsba"


# --- without a file ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedded_sets_load_by_name(name):
    X, y = load(name)
    assert X.shape[0] == len(y)
    assert X.dtype == y.dtype == np.float64
    assert X.has_canonical_format
    assert set(y) == {-1.0, 1.0}


def test_breast_cancer_is_standardised():
    X, y = load_breast_cancer()
    assert X.shape == (569, 30)
    np.testing.assert_allclose(X.toarray().mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(X.toarray().std(axis=0), 1)
    assert (y > 0).sum() == 357


def test_synthetic_text_is_reproducible():
    first, again, other = make_text_like(seed=3), make_text_like(seed=3), make_text_like(seed=4)
    assert_same(again, *first)
    assert not np.array_equal(first.X.indices[:100], other.X.indices[:100])


def test_synthetic_text_looks_like_text():
    X, y = make_text_like(n_rows=3000, n_columns=10000, row_length=50)
    lengths = np.diff(X.indptr)
    assert X.shape == (3000, 10000)
    assert abs(lengths.mean() - 50) < 4
    assert lengths.min() >= 1
    assert 0.5 < np.log(lengths).std() < 0.9
    assert X.data.min() > 0
    popularity = np.sort(X.getnnz(axis=0))[::-1]
    assert popularity[:100].sum() > 0.4 * X.nnz  # 1 % of the columns
    ranks = np.arange(20, 500)  # beyond those which are in every row
    slope = np.polyfit(np.log(ranks), np.log(popularity[ranks]), 1)[0]
    assert -1.2 < slope < -0.8
    assert np.median(np.abs(np.diff(np.argsort(-X.getnnz(axis=0))[:100]))) > 100  # not in column order
    assert y.sum() == 0


@pytest.mark.parametrize(("positive", "noise"), [(0.5, 0.0), (0.1, 0.05), (0.9, 0.2), (0.001, 0.0)])
def test_synthetic_label_share(positive, noise):
    _, y = make_text_like(n_rows=1000, n_columns=300, row_length=10, positive=positive, noise=noise)
    assert (y > 0).sum() == round(1000 * positive)


def test_synthetic_noise_is_the_share_of_flipped_labels():
    clean, noisy = (make_text_like(n_rows=1000, noise=noise).y for noise in (0.0, 0.1))
    assert (clean != noisy).sum() == 100


def test_synthetic_labels_follow_a_linear_model():
    X, y = make_text_like(n_rows=3000, n_columns=500, row_length=30, noise=0.0)
    X = sp.diags_array(1 / sp.linalg.norm(X, axis=1)) @ X
    train, test = slice(0, 2000), slice(2000, 3000)
    w = sp.linalg.lsqr(X[train], y[train], damp=0.1)[0]
    assert (np.sign(X[test] @ w) == y[test]).mean() > 0.8


@settings(max_examples=80, deadline=None)
@given(data=st.data(), n_columns=st.integers(1, 40), seed=st.integers(0, 2**32))
def test_synthetic_rows_have_no_column_twice(data, n_columns, seed):
    row_length = data.draw(st.floats(1, n_columns))
    X, _ = make_text_like(n_rows=20, n_columns=n_columns, row_length=row_length, seed=seed)
    assert X.has_canonical_format
    assert X.shape == (20, n_columns)
    assert np.diff(X.indptr).min() >= 1


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"n_rows": 1}, "n_rows must be at least 2"),
        ({"row_length": 0.5}, "row_length must lie between 1 and n_columns=20000, got 0.5"),
        ({"n_columns": 30}, "row_length must lie between 1 and n_columns=30, got 60"),
        ({"positive": 1.0}, "positive must lie strictly between 0 and 1, got 1.0"),
        ({"noise": -0.1}, "noise must lie between 0 and 1"),
        ({"positive": 0.01, "noise": 0.05}, "noise must lie between 0 and 0.02"),
    ],
)
def test_synthetic_arguments_are_checked(wrong, complaint):
    with pytest.raises(InputError, match=re.escape(complaint)):
        make_text_like(**wrong)


def test_large_dense_data_begins_a_page():
    """The same numbers, in memory of their own; a copy of the problem has them too."""
    X = np.random.default_rng(0).normal(size=(600, 500))
    problem = dsba.Problem.from_arrays(X, X[:, 0], "ridge", split=np.zeros(600, int), normalize=False)
    for p in (problem, pickle.loads(pickle.dumps(problem))):
        assert (p.A.toarray() == X).all()
    if sys.platform == "linux":
        assert problem.csr[2].ctypes.data % 4096 == 0
