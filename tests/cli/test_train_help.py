"""``dsba train --help`` tells the defaults of LIBSVM files and those of tables, as they are in the code."""

from __future__ import annotations

from typer.testing import CliRunner

from dsba.cli import app
from dsba.fitting.spec import FitSpec


def test_the_defaults_of_both_kinds_of_files():
    """The help is wrapped into a box: words are looked for, in order."""
    shown = CliRunner().invoke(app, ["train", "--help"], env={"COLUMNS": "200"}).stdout
    text = " ".join(shown.replace("│", " ").split())
    ours = FitSpec()
    theirs = FitSpec(formula="y ~ x")
    assert f"Passes over the data, at most; {ours.max_passes:g} by default, {theirs.max_passes:g} for tables." in text
    assert f"Stop at this relative residual; {ours.tol:g} by default, {theirs.tol:g} for tables." in text
    assert f"The penalty; 1/(10 Q) by default, {theirs.lam:g} for tables." in text
    for misleading in ("[default: 1000.0]", "[default: 0.0001]"):
        assert misleading not in text
