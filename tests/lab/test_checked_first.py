"""A comparison is checked before anything runs: grids, and methods that the data refuses."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from small_experiments import SMALL, TINY, spec

import dsba
from dsba.lab import plan, run
from dsba.lab.runner import check

# Grids -------------------------------------------------------------------------------------------


def grid(algorithm, **values):
    return [{"algorithm": algorithm, "grid": values}]


def test_a_grid_may_leave_the_step_size_alone(tmp_path):
    results = run(TINY | {"method": grid("dlm", c=[0.01, 0.1])}, tmp_path, workers=1, report=False)
    chosen = next(row["parameters"] for row in results.tuning() if row["chosen"])
    c = float(chosen.removeprefix("c="))
    problem = dsba.Problem.from_arrays(*dsba.data.load_breast_cancer(), "ridge", n_nodes=4, lam=0.01)
    resolved = dsba.algorithms.DLM(c=c).resolved(problem, dsba.Topology.ring(4))
    ran = results.outcomes[results.runs[0].id]
    assert ran.step_size == pytest.approx(resolved.alpha, rel=1e-4)
    searched = {row["parameters"]: row["value"] for row in results.tuning()}
    assert results.summary()[0]["final"] == searched[chosen]  # what was searched is what ran


def test_whole_numbers_of_a_grid_stay_whole(tmp_path):
    results = run(TINY | {"method": grid("dsba", batch_size=[1, 4])}, tmp_path, workers=1, report=False)
    assert {row["parameters"] for row in results.tuning()} == {"batch_size=1", "batch_size=4"}
    assert "batch_size=" in results.outcomes[results.runs[0].id].algorithm


def test_numbers_of_a_grid_are_floats_elsewhere():
    whole, real = (plan.make(spec(method=grid("dsba", step_size=values))) for values in ([1, 2], [1.0, 2.0]))
    assert [job.id for job in whole.jobs] == [job.id for job in real.jobs]


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (grid("dsba", batch_size=[1, 2.5]), "batch_size must be an integer"),
        (grid("lead", bits=[2, 99]), "bits must be"),
    ],
)
def test_a_candidate_that_cannot_be_built_is_refused_at_once(method, message):
    with pytest.raises(dsba.InputError, match=message):
        spec(**SMALL | {"method": method})


# Methods that do not apply -------------------------------------------------------------------------

AUTO = [{"algorithm": name, "step_size": "auto"} for name in ("extra", "ssda", "apapc", "dual-rbcd")]


def test_the_intercept_counts_when_methods_are_left_out():
    made = check(spec(problem=[{"operator": "logistic", "intercept": True}], method=AUTO))
    assert [run.method.title for run in made.runs] == ["EXTRA"]
    assert len(made.left_out) == 3
    assert "APAPC is left out for logistic on " in made.left_out[1]


def wide_and_narrow(name, columns):
    rng = np.random.default_rng(0)
    return {"name": name, "X": sp.random(12, columns, 0.01, "csr", rng=rng), "y": np.tile([-1.0, 1.0], 6)}


def test_a_method_that_the_data_refuses_is_left_out_and_the_rest_is_reported(tmp_path):
    methods = [{"algorithm": name, "step_size": "auto"} for name in ("network-newton", "extra")]
    data = [wide_and_narrow("wide", 1500), wide_and_narrow("narrow", 15)]
    experiment = TINY | {"data": data, "network": [{"graph": "ring", "n_nodes": 3}], "method": methods}
    results = run(experiment, tmp_path, workers=1, report=False)
    ran = [(results.case(r).data, r.method) for r in results.runs]
    assert ran == [("wide", "EXTRA"), ("narrow", "NETWORK-NEWTON"), ("narrow", "EXTRA")]
    (sentence,) = results.index.left_out
    assert sentence.startswith("NETWORK-NEWTON is left out for ridge on wide: it solves systems of 1,500 coefficients")
    assert results.unfinished == 0


def test_a_split_that_does_not_fit_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(dsba.InputError, match="split"):
        run(TINY | {"splits": ["random", np.arange(7) % 4]}, tmp_path / "out", workers=1)
    assert not (tmp_path / "out").exists()
