"""The hundredth part of the soak: mutated inputs for every reader, and one kill of every kind of run."""

from __future__ import annotations

import random

import pytest
from mpi import needs_mpi
from tests.soak.inputs import BAD, NAMES, corpus_of, read_batch
from tests.soak.kills import SUBJECTS, round_of_kills
from tests.soak.readers import READERS

SHARE = 0.01


@pytest.mark.parametrize("name", READERS)
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
@pytest.mark.parametrize("name", SUBJECTS)
def test_killed_and_resumed(name):
    """One run is killed a moment after it made progress; the same command ends it with the same bits."""
    assert round_of_kills(SUBJECTS[name], 1, random.Random(name)) == {"kills": 1, "different": 0}


def test_inputs_are_the_same_everywhere():
    """So that a number in a table names an input."""
    from tests.soak.worker import case

    corpus = READERS["libsvm"].corpus()
    once = [case(READERS["libsvm"], corpus, number) for number in range(50)]
    assert once == [case(READERS["libsvm"], corpus, number) for number in range(50)]
    assert len({data for _, _, data in once}) > 40
