"""The tiers: the gate sees every pair of parameters, quick is a fixed list of files, one marker chooses."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest
from conftest import ROOT

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


def quick():
    """The files of `make quick`, as the Makefile lists them."""
    return re.search(r"^QUICK := ((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(), re.M)[1].replace("\\", "").split()


def test_quick_is_a_list_of_files_with_some_of_every_kind():
    files = quick()
    assert all(re.fullmatch(r"tests/(\w+/)?test_\w+\.py", file) for file in files)
    assert [file for file in files if not (ROOT / file).is_file()] == []
    assert files == sorted(set(files))
    wanted = {"algorithms", "data", "graph", "lab", "network", "problem", "study", "tables"}
    assert wanted <= {Path(file).parent.name for file in files}


def test_one_marker_chooses_tests():
    known = {"parametrize", "skipif", "usefixtures", "filterwarnings"}
    text = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    assert set(re.findall(r"pytest\.mark\.(\w+)", text)) - known == {"full"}
