"""The page of troubleshooting lists messages as the code writes them: each one is provoked here."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from conftest import ROOT, make_problem

import dsba
from dsba.study import keys

RING = dsba.Topology.ring(4)
CAUSES = {}


def patients(**columns):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.integers(20, 90, 200) * 1.0, "sex": rng.choice(["F", "M"], 200)})
    table["died"], table["hospital"] = rng.choice(["no", "yes"], 200), rng.choice(["A", "B", "C"], 200)
    return table.assign(**columns)


def fit(formula="died ~ age", table=None, **options):
    return dsba.fit(patients() if table is None else table, formula, sites="hospital", **options)


def cause(function):
    CAUSES[function.__name__] = function
    return function


@cause
def missing_extra(monkeypatch):
    monkeypatch.setattr("dsba.errors.find_spec", lambda name: None)
    dsba.Topology.ring(3).to_networkx()


@cause
def no_column(_):
    fit("died ~ agee")


@cause
def formula(_):
    fit("died ~ age + ")


@cause
def missing_values(_):
    fit(table=patients(age=patients()["age"].where(lambda age: age > 30)))


@cause
def collinear(_):
    fit("died ~ age + twice", patients(twice=2 * patients()["age"]))


@cause
def separated(_):
    fit(table=patients(died=np.where(patients()["age"] > 50, "yes", "no")))


@cause
def constant(_):
    fit("died ~ age + one", patients(one=1.0))


@cause
def text_for_a_number(_):
    fit("age ~ died", patients(age=patients()["sex"]), operator="linear")


@cause
def three_labels(_):
    fit(table=patients(died=np.resize(["no", "yes", "unknown"], 200)), operator="logistic")


@cause
def single_rows(_):
    fit("died ~ age", patients(age=np.where(np.arange(200) == 7, 1e6, patients()["age"])))


@cause
def not_converged(_):
    fit(algorithm="dgd", max_passes=2)


@cause
def swapped(_):
    dsba.fit("died ~ age", patients())


@cause
def unknown_method(_):
    dsba.solve(make_problem(), RING, "dsbaa")


@cause
def not_applicable(_):
    dsba.solve(make_problem("auc"), RING, "ssda")


@cause
def nodes_differ(_):
    dsba.solve(make_problem(), dsba.Topology.ring(5))


@cause
def not_connected(_):
    dsba.Topology.from_edges([(0, 1), (2, 3)])


@cause
def diverged(_):
    raise dsba.InputError(dsba.solve(make_problem(), RING, "extra", step_size=1e3, max_passes=200).message)


@cause
def labels_of_a_loss(_):
    dsba.Problem.from_arrays(np.eye(6), np.arange(6), "logistic", n_nodes=2)


@cause
def malformed_line(_):
    Path("a.svm").write_text("1 1:0.5\n1 2:x\n")
    dsba.load_libsvm("a.svm")


@cause
def other_run(_):
    dsba.solve(make_problem(), RING, max_passes=2, checkpoint="state")
    dsba.solve(make_problem(), RING, max_passes=2, checkpoint="state", seed=1)


@cause
def foreign_folder(_):
    Path("out").mkdir()
    Path("out/notes.txt").write_text("mine")
    method = {"algorithm": "dgd", "step_size": "auto"}
    dsba.lab.run({"data": [{"name": "synthetic-text"}], "problem": [{"operator": "ridge"}], "method": [method]}, "out")


@cause
def damaged_model(_):
    Path("model.dsba").write_text("{}")
    dsba.load(".")


@cause
def open_key(_):
    keys.make("cork", Path("cork.pem"))
    Path("cork.pem").chmod(0o640)
    keys.load(Path("cork.pem"))


@cause
def other_key(_):
    keys.make("cork", Path("cork.pem"))
    keys.make("cork", Path("cork.pem"))


PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
SHOWN = re.findall(r"^### `(.*)`$", PAGE, re.MULTILINE)


def message(name, monkeypatch):
    """What a user reads: the error's message, or that of the last warning."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            CAUSES[name](monkeypatch)
        except dsba.DsbaError as error:
            return str(error)
    return str(warned[-1].message)


def wanted(shown):
    """A message of the page as an expression; what stands in capitals there differs from case to case."""
    return re.sub(r"\b[A-Z]{3,}\b", "(.+)", re.escape(shown))


def test_the_messages_of_the_page_are_those_that_are_provoked(tmp_path, monkeypatch):
    known = []
    for name in CAUSES:
        with monkeypatch.context() as patch:
            (tmp_path / name).mkdir()
            patch.chdir(tmp_path / name)
            said = message(name, patch)
        matching = [shown for shown in SHOWN if re.fullmatch(wanted(shown), said)]
        assert len(matching) == 1, f"{name}: {said}"
        known += matching
    assert sorted(known) == sorted(SHOWN)
