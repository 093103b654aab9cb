"""A table's model that did not converge says so: in Python, in the summary, on the page, in JSON, at the terminal."""

from __future__ import annotations

import json
import warnings

import pandas as pd
import pytest
from conftest import make_data
from sklearn.datasets import dump_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from test_inference import patients
from test_table_commands import ask, tables
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.tables.page import model_page

FORMULA = "readmitted ~ age + C(sex) + C(ward)"
SENTENCE = "The fit did not converge: the budget of 100 passes is spent, the relative residual is "


def flat(text):
    return " ".join(text.split())


@pytest.mark.parametrize("lam", [0.0, 1e-5])
def test_python_warns_and_the_model_remembers(lam, tmp_path):
    """With a penalty and without one: what is said of standard errors does not stand in for it."""
    table, formula = patients().assign(near=lambda f: f["age"] + f["crp"] / 10), "readmitted ~ age + near"
    with pytest.warns(ConvergenceWarning, match=r"budget of 100 passes is spent.* Try to use newton") as caught:
        fit = dsba.fit(table, formula, sites="hospital", lam=lam, algorithm="extra")
    assert [warning.filename for warning in caught] == [__file__]
    exact = dsba.fit(table, formula, sites="hospital", lam=lam)
    assert abs(fit.params / exact.params - 1.0).max() > 0.1  # nobody would want to read these coefficients unwarned
    residual = fit.model.run.residual
    sentence = f"{SENTENCE}{residual:.3g}, 1e-12 was wanted (tol=1e-12)."
    fit.save(tmp_path)
    for known in (fit, dsba.load(tmp_path)):
        assert sentence in known.headline()
        assert sentence in flat(str(known.summary()))
        assert sentence in known.summary()._repr_html_()
        assert f"<li>{sentence}" in model_page(known, "dsba train")
        assert known.plain()["status"] == "budget"
        assert known.plain()["residual"] == residual
    assert sentence in flat(ask("summary", tmp_path))
    assert json.loads(ask("summary", tmp_path, "--json"))["status"] == "budget"


def test_a_fit_that_converged_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        fit = dsba.fit(patients(), FORMULA, sites="hospital", lam=1e-5)
    assert fit.plain()["status"] == "converged"
    assert "did not converge" not in fit.headline() + model_page(fit, "dsba train")


def test_the_command_says_it(tmp_path):
    words = ("train", *tables(tmp_path), "--formula", FORMULA, "--lam", 1e-5, "--algorithm", "extra")
    said = flat(ask(*words, "--out", tmp_path / "run", code=3))
    assert SENTENCE in said
    assert "(tol=1e-12). Try to use newton or a larger lam." in said


@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_commands_that_use_the_model_say_it(command, tmp_path):
    """On standard error, once: what is printed for other programs stays as it is."""
    files = tables(tmp_path)
    train = ("train", *files, "--formula", FORMULA, "--lam", 1e-5, "--algorithm", "extra", "--out", tmp_path / "run")
    ask(*train, code=3)
    used = {"predict": files[:1], "evaluate": [*files, "--json"]}[command]
    found = CliRunner().invoke(app, [command, str(tmp_path / "run"), *map(str, used)])
    assert found.exit_code == 0
    assert flat(found.stderr).startswith(f"Warning: {SENTENCE}")
    assert found.stderr.count("did not converge") == 1
    assert "converge" not in found.stdout
    with pytest.warns(ConvergenceWarning, match="did not converge: the budget of 100 passes is spent") as caught:
        dsba.load(tmp_path / "run").predict(pd.read_csv(files[0], sep=None, engine="python"))
    assert [warning.filename for warning in caught] == [__file__]


def test_a_study_says_it(tmp_path):
    """Every site and the trial end with the code, and the model is there."""
    words = ("study", "try", *tables(tmp_path)[:3], "--formula", FORMULA, "--max-passes", 1, "--algorithm", "newton")
    said = flat(ask(*words, "--out", tmp_path / "run", code=3))
    assert said.count("The fit did not converge: the budget of 1 passes is spent") == 3
    assert "did not converge" in dsba.load(tmp_path / "run").headline()


def test_a_model_of_libsvm_files_says_it(tmp_path):
    X, y = make_data("logistic")
    files = [tmp_path / f"{n}.svm" for n in range(3)]
    for n, file in enumerate(files):
        dump_svmlight_file(X[n::3], y[n::3], str(file), zero_based=False)
    ask("train", *files, "--max-passes", 1, "--algorithm", "dsba", "--out", tmp_path / "run", code=3)
    found = CliRunner().invoke(app, ["predict", str(tmp_path / "run"), str(files[0])])
    assert found.stderr.startswith("Warning: The fit did not converge: the budget of 1 passes is spent")
    assert set(found.stdout.split()) <= {"-1", "1"}


def test_newton_is_not_told_to_try_newton(tmp_path):
    words = ("train", *tables(tmp_path), "--formula", FORMULA, "--max-passes", 1, "--algorithm", "newton")
    said = flat(ask(*words, "--out", tmp_path / "run", code=3))
    assert "did not converge: the budget of 1 passes is spent" in said
    assert "Try to use more passes or a larger lam." in said


def test_a_table_gets_the_passes_that_it_asks_for():
    table = patients()
    with pytest.warns(ConvergenceWarning, match="the budget of 3 passes is spent"):
        short = dsba.fit(table, "cost ~ age", "linear", sites="hospital", lam=0.1, algorithm="extra", max_passes=3)
    assert short.not_converged
