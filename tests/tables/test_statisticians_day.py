"""One process, threads, sites over TLS and ranks of MPI find the same, for all that a statistician asks in a day."""

from __future__ import annotations

import json
import sys
from functools import cache

import pytest
import statisticians_day
from local_sites import Sites
from mpi import mpiexec, needs_mpi
from queues import together
from registered_models import FIVE
from statisticians_day import answers

from dsba.network import Simulator


@cache
def simulated():
    return answers(Simulator(FIVE))


def require_same(everyone):
    """The curve is that of joined bins between processes, and the same at all of them."""
    curves = [q for q, answer in simulated().items() if ": curve" in q and answer["auc"] is not None]
    assert "contrasts: curve" in curves
    for found in everyone:
        assert found.keys() == simulated().keys()
        assert [q for q, answer in simulated().items() if found[q] != answer and q not in curves] == []
        for question in curves:
            assert found[question] == everyone[0][question]
            auc = found[question]["auc"]
            assert abs(auc - simulated()[question]["auc"]) <= found[question]["auc_within"]


def test_the_questions_have_answers():
    found = simulated()
    assert len(found["Table 1 by treated"]["columns"]) == 6
    assert len(found["Table 1 by site"]["rows"]) == 6
    assert len(found["contrasts: curve"]["roc"]) > 5
    assert found["contrasts: likelihood ratio"][2] == 6
    assert len(found["products: terms"]) == 7
    assert len(found["splines: predictions"]) == 7


def test_five_threads_have_the_bits_of_one_process():
    require_same(together(FIVE, 5, answers))


@pytest.mark.full
def test_five_sites_over_tls_have_the_bits_of_one_process(tmp_path):
    require_same(Sites(tmp_path, 5).together(FIVE, answers))


@needs_mpi
@pytest.mark.full
@pytest.mark.parametrize("ranks", [2, 5])
def test_ranks_of_mpi_have_the_bits_of_one_process(ranks, tmp_path):
    code, text = mpiexec(ranks, sys.executable, statisticians_day.__file__, tmp_path / "found.json")
    assert code == 0, text
    everyone = json.loads((tmp_path / "found.json").read_text())
    assert len(everyone) == ranks
    require_same(everyone)
