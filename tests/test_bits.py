"""The iterates of small runs have the bits that were recorded, where processor and versions are the recorded ones."""

from __future__ import annotations

import json

import bits
import pytest
from conftest import ROOT

RECORDED = json.loads((ROOT / "tests" / "bits.json").read_text())


@pytest.mark.parametrize("case", bits.CASES, ids=bits.name)
def test_the_bits_are_those_recorded(case):
    here = bits.environment()
    if here != RECORDED["environment"]:
        pytest.skip(f"bits were recorded with {RECORDED['environment']}, this is {here}")
    assert bits.bits(case) == RECORDED["bits"][bits.name(case)]
