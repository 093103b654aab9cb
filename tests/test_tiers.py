"""The tiers: the gate sees every pair of parameters, quick leaves out what costs."""

from __future__ import annotations

from itertools import product

import pytest

GRID = """
import pytest

@pytest.mark.parametrize("a", range(2))
@pytest.mark.parametrize("b", range(3))
@pytest.mark.parametrize("c", range(4))
def test_grid(a, b, c, pytestconfig):
    with open(pytestconfig.rootpath / "seen", "a") as seen:
        print(a, b, c, file=seen)

@pytest.mark.parametrize(("a", "b"), [(a, b) for a in range(2) for b in range(3)])
def test_list(a, b):
    pass
"""
COSTLY = """
import subprocess, sys, threading, time
import pytest
from numba import njit

def test_cheap():
    pass

def test_compiles():
    njit(lambda x: x + 1)(1)

def test_catches_what_it_hits():
    with pytest.raises(ZeroDivisionError):
        try:
            njit(lambda x: x + 2)(1)
        except BaseException:
            raise RuntimeError from None

def test_starts_a_process():
    subprocess.run([sys.executable, "--version"])

def test_starts_a_thread():
    threading.Thread(target=print).start()

def test_waits():
    time.sleep(30)
"""


@pytest.fixture
def suite(pytester):
    pytester.makeini("[pytest]\nmarkers = full: for make full\n")
    return pytester


def run(suite, *options):
    return suite.runpytest("-p", "tiers", "-p", "no:cacheprovider", *options)


def test_the_gate_sees_every_pair_of_values(suite):
    suite.makepyfile(GRID)
    outcome = run(suite, "-m", "not full").parseoutcomes()
    seen = [tuple(map(int, line.split())) for line in (suite.path / "seen").read_text().splitlines()]
    assert 12 <= len(seen) < 24
    for first, second, values in [(0, 1, (2, 3)), (0, 2, (2, 4)), (1, 2, (3, 4))]:
        assert {(case[first], case[second]) for case in seen} == set(product(*map(range, values)))
    assert outcome["passed"] == len(seen) + 6  # a list of cases is no grid
    (suite.path / "seen").unlink()
    assert run(suite, "-m", "").parseoutcomes()["passed"] == 30


def test_quick_leaves_out_what_costs(suite):
    suite.makepyfile(COSTLY)
    result = run(suite, "--quick", "-rs")
    assert result.parseoutcomes() == {"passed": 1, "skipped": 5}
    for reason in ("compiles a kernel", "starts a process", "starts a thread", "takes longer than 2 seconds"):
        result.stdout.fnmatch_lines([f"*{reason}: left out of `make quick`*"])
