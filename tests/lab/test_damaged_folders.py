"""Damaged and forged files of a results folder are one sentence, and never another number."""

from __future__ import annotations

import hashlib
import json
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


KINDS = ("results.json", "environment.json", "experiment.toml", "runs/*.jsonl", "runs/*.json", "tuning/*.json",
         "optima/*.json", "optima/*.npz")  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_one_sentence_and_never_another_number(kind, finished, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(finished, out, ignore=shutil.ignore_patterns("figures", "report.html"))
    wanted, rng = shown(out), random.Random(f"damage {kind}")
    files = sorted(out.glob(kind))
    solution = Folder(out).read_optimum(next(out.glob("optima/*.npz")).stem)
    refused = 0
    for _ in range(60):
        path = rng.choice(files)
        raw = path.read_bytes()
        path.write_bytes(mutated(raw, rng))
        with one_sentence_at_most() as errors:
            assert shown(out) == wanted
            if kind == "optima/*.npz":
                assert np.array_equal(Folder(out).read_optimum(path.stem), solution)
        refused += len(errors)
        path.write_bytes(raw)
    assert refused > 40 or kind == "experiment.toml"  # the report shows the index's own copy


def test_a_damaged_experiment_is_refused_or_read(finished, tmp_path):
    rng, raw = random.Random(0), (finished / "experiment.toml").read_bytes()
    for _ in range(200):
        (tmp_path / "mine.toml").write_bytes(mutated(raw, rng))
        with one_sentence_at_most():
            read(tmp_path / "mine.toml", allow=lambda names: None)


def test_files_do_not_change_places(finished, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    one, other = sorted(out.glob("runs/*.json"))[:2]
    shutil.copy(one, other)
    with pytest.raises(InputError, match="belongs to"):
        shown(out)


WILD = (None, -1, 0, 1e308, "x", "", [], {}, True, 10**30, [[0, 99]], "../../x", "\ud800", "$a$ $\\foo$", 5e-324, -5.5)


def places(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from places(item, (*path, key))


@pytest.mark.parametrize("kind", ["results.json", "environment.json", "runs/*.json", "tuning/*.json", "optima/*.json"])
def test_a_forged_file_is_one_sentence_or_shown(kind, finished, tmp_path):
    """Somebody else's file with wild values and a right digest: never a traceback."""
    out, rng = tmp_path / "out", random.Random(f"forged {kind}")
    shutil.copytree(finished, out, ignore=shutil.ignore_patterns("figures", "report.html"))
    for _ in range(60):
        path = rng.choice(sorted(out.glob(kind)))
        raw = path.read_bytes()
        content = json.loads(raw)
        del content["sha256"]
        *parents, last = rng.choice(list(places(content)))
        table = content
        for key in parents:
            table = table[key]
        table[last] = rng.choice(WILD)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        content["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        path.write_text(json.dumps(content))
        with one_sentence_at_most():
            shown(out)
            as_json(contents(ExperimentResults.load(out))).encode()
        path.write_bytes(raw)


def test_a_history_without_a_column_is_refused(finished, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    forge_history(out, lambda columns: columns.pop("passes"))
    with pytest.raises(InputError, match="lacks one of the columns"):
        shown(out)
