"""A site without a row to evaluate does not end the evaluation of the others."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import also_in_full
from queues import together
from test_evaluation import assert_measures, outcome
from test_inference import FORMULAS, patients
from test_table_commands import ask

import dsba
from dsba.fitting.disclosure import Guards
from dsba.fitting.measures import RowCounts
from dsba.fitting.spec import FitSpec
from dsba.tables import fit as tables
from dsba.tables.evaluation import evaluate
from dsba.tables.inputs import as_sites

OUTCOMES = {"logistic": "readmitted", "poisson": "visits", "linear": "cost"}


def without_outcomes(operator, site="h1"):
    frame = patients(seed=5)
    return frame.assign(**{OUTCOMES[operator]: frame[OUTCOMES[operator]].where(frame["hospital"] != site)})


@pytest.mark.parametrize("operator", also_in_full(["logistic"], FORMULAS))
def test_the_others_are_evaluated(operator):
    fit = dsba.fit(patients(), FORMULAS[operator], operator, sites="hospital")
    new = without_outcomes(operator)
    found = fit.evaluate(new, sites="hospital")
    known = new[new["hospital"] != "h1"]
    assert_measures(found.pooled, outcome(known, operator), fit.predict(known), operator)
    assert found.pooled.left_out == 90
    assert found.sites["h1"] == RowCounts(rows=0, left_out=90)
    others = fit.evaluate(known, sites="hospital")
    assert replace(found.pooled, left_out=0) == others.pooled
    assert {name: found.sites[name] for name in ("h0", "h2", "h3")} == others.sites


def test_every_site_asks_the_same_questions():
    """Each site a process of its own: one that left early would let the others wait."""
    fit = dsba.fit(patients(), FORMULAS["linear"], "linear", sites="hospital")
    sites = as_sites(without_outcomes("linear"), "hospital")
    one = evaluate(fit, sites, dsba.Simulator(dsba.Topology.path(4)))
    for rank, found in enumerate(together(dsba.Topology.path(4), 4, lambda net: evaluate(fit, [sites[net.rank]], net))):
        assert found.pooled == one.pooled
        assert found.sites == {sites[rank].name: one.sites[sites[rank].name]}


def few_rows():
    """The third site has 4 rows, and a tenth of them is none."""
    frame = patients()
    return {"A": frame[:200], "B": frame[200:416], "C": frame[416:]}


def test_a_share_that_is_no_row_at_a_site():
    frames = few_rows()
    fit = dsba.fit(frames, "cost ~ age", "linear", test_share=0.1)
    assert fit.test.rows == 20 + 22
    both = {name: frames[name] for name in ("A", "B")}
    assert dsba.fit(both, "cost ~ age", "linear", test_share=0.1).test.rows == 42

    def work(net):
        spec = FitSpec(formula="cost ~ age", operator="linear", test_share=0.1, guards=Guards.off())
        return tables.fit_sites([sites[net.rank]], spec, net)

    sites = as_sites(frames)
    for found in together(dsba.Topology.path(3), 3, work):
        assert found.test == fit.test


def test_the_commands(tmp_path):
    files = []
    for name, frame in few_rows().items():
        files.append(tmp_path / f"{name}.csv")
        frame.to_csv(files[-1], index=False)
    words = ("train", *files, "--formula", "cost ~ age", "--operator", "linear", "--test-share", 0.1)
    assert "Held-out rows of all sites: rows 42" in ask(*words, "--out", tmp_path / "run")
    pd.read_csv(files[2]).assign(cost=np.nan).to_csv(files[2], index=False)
    assert "C: no rows, rows left out 4." in ask("evaluate", tmp_path / "run", *files)
    found = json.loads(ask("evaluate", tmp_path / "run", *files, "--json"))
    assert found["pooled"]["rows"] == 416
    assert found["sites"]["C"] == {"rows": 0, "left_out": 4}


def test_outcomes_of_a_large_unit_leave_the_counts_alone():
    fit = dsba.fit(patients(), "cost ~ age", "linear", sites="hospital")
    new = patients(seed=5).assign(cost=lambda f: f["cost"] * 1e40)
    new.loc[new.index[0], "cost"] = np.nan
    found = fit.evaluate(new, sites="hospital").pooled
    assert (found.rows, found.left_out) == (419, 1)
