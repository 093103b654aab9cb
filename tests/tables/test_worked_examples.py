"""The examples of docs/howto/models.md: the output of R on the page is R's, and our blocks print its numbers."""

from __future__ import annotations

import contextlib
import io
import math
import re
import shutil

import pytest
from conftest import ROOT
from reference_values import values

from dsba.tables.models import MODELS

PAGE = (ROOT / "docs" / "howto" / "models.md").read_text()
CODE = "((?:(?!```).)*)"
THREE = rf"```python\n{CODE}```\n\n```r\n{CODE}```\n\n```text\n{CODE}\n```"
EXAMPLE = re.compile(rf"^### ([^\n]*)\n[^`]*{THREE}", re.MULTILINE | re.DOTALL)
EXAMPLES = {title: blocks for title, *blocks in EXAMPLE.findall(PAGE)}
NUMBER = re.compile(r"(?<![\w.])(-?\d+\.?\d*(?:e[-+]\d+)?|NA|nan)(?![\w(])")
PLACES = re.compile(r"\[\d*,?\d*\]")  # R numbers what it prints


def numbers(text):
    """Of each number its value, and half a unit of its last digit."""
    found = []
    for word in NUMBER.findall(text):
        digits, _, power = word.partition("e")
        unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
        found.append((math.nan, 0.0) if word in ("NA", "nan") else (float(word), 0.5001 * unit))
    return found


def require_same(ours, theirs):
    """All numbers, in their order, as far as both are printed."""
    assert len(ours) == len(theirs) > 1, (ours, theirs)
    for (a, unit), (b, their_unit) in zip(ours, theirs, strict=True):
        assert abs(a - b) <= unit + their_unit or (math.isnan(a) and math.isnan(b)), (a, b)


def test_the_page_shows_what_r_printed_for_its_blocks():
    recorded = {block["code"]: block["output"] for block in values("worked")["blocks"]}
    for title, (_, code, shown) in EXAMPLES.items():
        assert recorded[code] == shown, title


def test_every_kind_of_model_has_an_example():
    code = "".join(ours for ours, *_ in EXAMPLES.values())
    others = ['strata="site"', "strata=None", "survival_curve(", ".meta(", 'random="site"', "elastic_net(", "cbind("]
    wanted = [f'"{name}"' for name in MODELS if name != "quasi-binomial"]  # that of counts with another dispersion
    assert [part for part in (*wanted, *others) if part not in code] == []


@pytest.mark.parametrize("title", EXAMPLES)
def test_our_block_prints_the_numbers_of_r(title, tmp_path, monkeypatch):
    ours, _, theirs = EXAMPLES[title]
    shutil.copy(ROOT / "docs" / "assets" / "clinic.csv", tmp_path)
    monkeypatch.chdir(tmp_path)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(ours, title, "exec"), {"__name__": "__main__"})
    require_same(numbers(said.getvalue()), numbers(PLACES.sub("", theirs)))


def test_a_wrong_digit_is_found():
    with pytest.raises(AssertionError):
        require_same(numbers("age 0.030348 0.001867"), numbers("age 0.030349 0.0018"))
    with pytest.raises(AssertionError):
        require_same(numbers("age 0.030348 0.001867"), numbers("age 0.030348"))
    require_same(numbers("a2 -0.5 1e-3 nan"), numbers("x -0.5001 0.001 NA"))
