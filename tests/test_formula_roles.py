"""What a formula makes of names: the outcome, factors and numbers are what the text says, or the formula is refused."""

from __future__ import annotations

import pandas as pd
import pytest
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.fitting.formula import parse
from dsba.fitting.schema import Wishes

# The outcome -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", ["binary", "multiclass"])
@pytest.mark.parametrize("left", ["I(1 - died)", "I(a + b)", "log(died)", "I(died)"])
def test_the_outcome_of_classes_is_one_plain_column(left, labels):
    formula = parse(f"{left} ~ age")
    with pytest.raises(
        dsba.InputError, match=r"the outcome must be the name of one column, got .*: a model of classes"
    ):
        Wishes(formula, labels)
    assert Wishes(formula, "real").formula == formula
    assert Wishes(parse("`the outcome` ~ age"), labels).formula.response == ("the outcome",)


def test_a_transformed_class_is_refused_on_every_road(tmp_path):
    formula, wanted = "I(1 - died) ~ age", r"the outcome must be the name of one column, got 'I\(1 - died\)'"
    files = []
    for name in ("a", "b", "c"):
        files.append(tmp_path / f"{name}.csv")
        files[-1].write_text("age,died\n" + "40,0\n50,1\n" * 10)
    given = [*map(str, files), "--formula", formula, "--operator", "logistic", "--out", str(tmp_path / "out")]
    for command in (["train"], ["study", "try"]):
        with pytest.raises(dsba.InputError, match=wanted):
            CliRunner().invoke(app, [*command, *given], catch_exceptions=False)
    with pytest.raises(dsba.InputError, match=wanted):
        dsba.fit([pd.read_csv(file) for file in files], formula, "squared-hinge")


def test_the_outcome_names_a_column():
    with pytest.raises(dsba.InputError, match="the outcome names no column"):
        parse("I(1) ~ age")
