"""The hundredth part of the soak: mutated inputs for every reader, and one kill of every kind of run."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from conftest import also_in_full
from mpi import needs_mpi
from tests.soak.inputs import BAD, NAMES, corpus_of, read_batch
from tests.soak.kills import SUBJECTS, round_of_kills
from tests.soak.readers import READERS
from tests.soak.worker import ACCEPTED, case

SHARE = 0.01


VARIANTS = ("libsvm-strict", "libsvm-gz", "libsvm-bz2", "tables-sniffed")  # of readers that the gate has


@pytest.mark.parametrize("name", also_in_full(READERS.keys() - VARIANTS, READERS))
def test_mutated_inputs_are_read_rightly_or_refused(name, tmp_path):
    reader = READERS[name]
    inputs = round(SHARE * reader.inputs)
    counts = read_batch(reader, 0, inputs, corpus_of(reader, tmp_path), tmp_path / "failures")
    assert counts.total() == inputs
    bad = {NAMES[letter]: counts[letter] for letter in BAD if counts[letter]}
    if bad and reader.waits_for:
        pytest.xfail(f"{name} waits for {reader.waits_for}: {bad}")
    log = tmp_path / "failures" / "failures.jsonl"
    assert not bad, log.read_text()[:3000]


@needs_mpi
@pytest.mark.parametrize("name", also_in_full(["kill-train", "kill-mpi"], SUBJECTS))
def test_killed_and_resumed(name):
    """One run is killed a moment after it made progress; the same command ends it with the same bits."""
    assert round_of_kills(SUBJECTS[name], 1, random.Random(name)) == {"kills": 1, "different": 0}


def test_inputs_are_the_same_everywhere():
    """So that a number in a table names an input."""
    corpus = READERS["libsvm"].corpus()
    once = [case(READERS["libsvm"], corpus, number) for number in range(50)]
    assert once == [case(READERS["libsvm"], corpus, number) for number in range(50)]
    assert len({data for _, _, data in once}) > 40


def test_a_soak_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    """Batches that were counted are not read again, unless the code is another one."""
    from tests.soak import inputs

    read = []

    def counted(reader, first, last, corpus, failures):
        read.append((first, last))
        if len(read) == 2:
            raise KeyboardInterrupt
        return Counter({ACCEPTED: last - first})

    monkeypatch.setattr(inputs, "read_batch", counted)
    with pytest.raises(KeyboardInterrupt):
        inputs.soak_inputs(inputs.Ledger(tmp_path), ["libsvm"], 0.06, 1)
    inputs.soak_inputs(inputs.Ledger(tmp_path), ["libsvm"], 0.06, 1)
    assert sorted(read) == [(0, 5000), (5000, 10000), (5000, 10000), (10000, 15000)]
    assert inputs.Ledger(tmp_path).total("libsvm")["accepted"] == 15_000
    monkeypatch.setattr(inputs, "sources", lambda: "other code")
    assert inputs.Ledger(tmp_path).total("libsvm").total() == 0
