"""Damaged and forged files of a results folder are one sentence, and never another number."""

from __future__ import annotations

import random
import shutil
from contextlib import contextmanager

import numpy as np
import pytest
from small_experiments import forge_history, shown

from dsba.errors import InputError
from dsba.lab import ExperimentResults
from dsba.lab.folder import Folder
from dsba.lab.page import as_json, contents
from dsba.lab.reading import read
from dsba.storage import sealed


def mutated(raw, rng):
    """A flipped bit, a cut, a doubled stretch, a lost stretch, a changed digit, or some random bytes."""
    data, k = bytearray(raw), rng.randrange(len(raw))
    kind = rng.randrange(6)
    if kind == 0:
        data[k] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[k:]
    elif kind == 2:
        data[k:k] = data[k : k + rng.randrange(1, 40)]
    elif kind == 3:
        del data[k : k + rng.randrange(1, 40)]
    elif kind == 4:
        digits = [i for i, byte in enumerate(data) if 48 <= byte <= 57] or [k]
        data[rng.choice(digits)] = rng.randrange(48, 58)
    else:
        data[k : k + 8] = rng.randbytes(8)
    return bytes(data)


@contextmanager
def one_sentence_at_most():
    """Nothing is raised, or an InputError of one line; the list that it gives has the error then."""
    refused = []
    try:
        yield refused
    except InputError as error:
        refused.append(str(error))
    assert not any("\n" in sentence for sentence in refused)


SEALED = ("results.dsba", "runs/*.dsba", "tuning/*.dsba", "optima/*.dsba")


@pytest.mark.parametrize("kind", [*SEALED, "experiment.toml"])
def test_a_damaged_file_is_one_sentence_and_never_another_number(kind, finished, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(finished, out, ignore=shutil.ignore_patterns("figures", "report.html"))
    wanted, rng = shown(out), random.Random(f"damage {kind}")
    files = sorted(out.glob(kind))
    solution = Folder(out).read_reference(next(out.glob("optima/*.dsba")).stem)[1]
    for _ in range(60):
        path = rng.choice(files)
        raw = path.read_bytes()
        damaged = mutated(raw, rng)
        path.write_bytes(damaged)
        with one_sentence_at_most() as errors:
            assert shown(out) == wanted
            if kind == "optima/*.dsba":
                assert np.array_equal(Folder(out).read_reference(path.stem)[1], solution)
        assert bool(errors) == (damaged != raw) or kind == "experiment.toml"  # the report shows the index's own copy
        path.write_bytes(raw)


def test_a_damaged_experiment_is_refused_or_read(finished, tmp_path):
    rng, raw = random.Random(0), (finished / "experiment.toml").read_bytes()
    for _ in range(200):
        (tmp_path / "mine.toml").write_bytes(mutated(raw, rng))
        with one_sentence_at_most():
            read(tmp_path / "mine.toml", allow=lambda names: None)


def test_files_do_not_change_places(finished, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    one, other = sorted(out.glob("runs/*.dsba"))[:2]
    shutil.copy(one, other)
    with pytest.raises(InputError, match="belongs to"):
        shown(out)


WILD = (None, -1, 0, 1e308, "x", "", [], {}, True, 10**30, [[0, 99]], "../../x", "\ud800", "$a$ $\\foo$", 5e-324, -5.5)


def places(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


def reseal(path, facts, arrays):
    with path.open("wb") as stream:
        sealed.write(stream, facts, arrays)


@pytest.mark.parametrize("kind", SEALED)
def test_a_forged_file_is_one_sentence_or_shown(kind, finished, tmp_path):
    """Somebody else's file with wild values and a right digest: never a traceback."""
    out, rng = tmp_path / "out", random.Random(f"forged {kind}")
    shutil.copytree(finished, out, ignore=shutil.ignore_patterns("figures", "report.html"))
    for _ in range(60):
        path = rng.choice(sorted(out.glob(kind)))
        raw = path.read_bytes()
        content, arrays = sealed.read(path)
        *parents, last = rng.choice(list(places(content)))
        table = content
        for key in parents:
            table = table[key]
        table[last] = rng.choice(WILD)
        reseal(path, content, arrays)
        with one_sentence_at_most():
            shown(out)
            as_json(contents(ExperimentResults.load(out))).encode()
        path.write_bytes(raw)


WILD_ARRAYS = {
    "text": lambda a: a.astype(str),
    "whole numbers": lambda a: a.astype(np.int64),
    "rows": lambda a: a[:, None],
    "one number": lambda a: a[0],
    "nothing": lambda a: a[:0],
    "shorter": lambda a: a[:-1],
    "infinite": lambda a: a + np.inf,
    "NaN": lambda a: a + np.nan,
    "large": lambda a: a + 1e300,
    "negative": lambda a: -1 - a,
}


@pytest.mark.parametrize("change", WILD_ARRAYS)
@pytest.mark.parametrize("kind", ["runs/*.dsba", "optima/*.dsba"])
def test_forged_arrays_are_one_sentence_or_shown(kind, change, finished, tmp_path):
    out, rng = tmp_path / "out", random.Random(f"arrays {kind} {change}")
    shutil.copytree(finished, out, ignore=shutil.ignore_patterns("figures", "report.html"))
    path = rng.choice(sorted(out.glob(kind)))
    facts, arrays = sealed.read(path)
    with np.errstate(invalid="ignore"):
        forged = {name: WILD_ARRAYS[change](array) for name, array in arrays.items()}
    one_by_one = ({**arrays, name: forged[name]} for name in arrays)
    for content in (forged, *one_by_one, {"\ud800": arrays.popitem()[1], **arrays}):
        reseal(path, facts, content)
        with one_sentence_at_most():
            shown(out)
            as_json(contents(ExperimentResults.load(out))).encode()


def test_a_history_without_a_column_is_refused(finished, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    forge_history(out, lambda columns: columns.pop("passes"))
    with pytest.raises(InputError, match="lacks one of the columns"):
        shown(out)
