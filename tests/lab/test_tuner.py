"""What a search may choose, by which cost, and that random settings are not better than its choice."""

from __future__ import annotations

import math

import pytest
from benchmarks.tuned import compared
from conftest import also_in_full
from small_experiments import SMALL, spec

import dsba
from dsba.algorithms.open_constants import OpenConstant, SearchRange
from dsba.lab import index, plan, run
from dsba.lab.tuning import SearchRun

OPEN = {
    "apapc": "L", "opapc": "L", "ssda": "L", "msda": "L", "vi-papc": "L", "acc-vr-extra": "theta1", "dlm": "c",
    "lead": "gamma", "dvr": "p_comp", "d-bfgs": "epsilon", "lt-admm": "local_steps", "proxskip": "probability",
    "adom-plus": "L",
}  # fmt: skip
NOTHING = {"newton": {"step_size"}}


def ranges_of(method, **options):
    (search,) = plan.make(spec(method=[{"algorithm": method, **options}])).tunings
    found = search.method.search_ranges(search.case.build(0), search.case.network.topology)
    return {one.name: one for one in found}


@pytest.mark.parametrize("method", dsba.algorithms.names())
def test_every_method_declares_what_is_open_and_its_default_lies_inside(method):
    problem, topology = make(method)
    algorithm = dsba.algorithms.get(method)
    known = algorithm.resolved(problem, topology)
    found = {one.name: one for one in algorithm.search_ranges(problem, topology)}
    assert set(found) == {"step_size", *([OPEN[method]] if method in OPEN else [])} - NOTHING.get(method, set())
    for name, one in found.items():
        assert one.low <= getattr(known, name) <= one.high
        assert all(one.low <= value <= one.high for value in one.start)
        assert one.kind != "probability" or one.high <= 1.0


def make(method):
    nodes = 1 if method in ("saga", "point-saga", "solam") else 4
    case = plan.make(spec(network=[{"graph": "ring" if nodes > 1 else "complete", "n_nodes": nodes}])).cases[0]
    return case.build(0), case.network.topology


def test_what_a_user_sets_is_not_searched_and_bounds_open_any_number():
    assert set(ranges_of("dlm", c=0.1)) == {"step_size"}
    assert set(ranges_of("dlm", grid={"c": [0.1, 0.2]})) == {"c"}
    opened = ranges_of("dsba", bounds={"batch_size": [1, 8]})["batch_size"]
    assert (opened.kind, opened.start, opened.low, opened.high) == ("integer", (1,), 1, 8)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"stepsize": [0.1, 1.0]}, "unknown option in the bounds of EXTRA"),
        ({"step_size": [1.0, 0.1]}, "two rising numbers"),
    ],
)
def test_bounds_are_checked_before_anything_runs(bounds, message):
    with pytest.raises(dsba.InputError, match=message):
        spec(method=[{"algorithm": "extra", "bounds": bounds}])


def test_ranges_move_inside_their_bounds():
    real, whole = OpenConstant("a", start=(1.0, 1e9)).searched(2.0), SearchRange("b", "integer", (4,), 1, 9)
    assert (real.start, real.moved(150.0, 2.0), real.moved(200.0, 2.0)) == ((2.0, 200.0), 200.0, None)
    assert [whole.moved(4, factor) for factor in (2.0, 0.5, 1.1, 0.9)] == [8, 2, 5, 3]
    assert whole.moved(9, 1.1) is None
    closed = SearchRange.closed("c", (0.1, 0.2, 0.4))
    assert closed.moved(0.2, 2.0) is None
    assert [closed.is_edge(value) for value in closed.start] == [True, False, True]


def test_a_probability_of_one_is_no_edge():
    likely = SearchRange("p", "probability", (0.5,), 0.01, 1.0)
    assert [likely.is_edge(value) for value in (0.01, 0.5, 1.0)] == [True, False, False]
    assert SearchRange("p", "probability", (0.5,), 0.01, 0.5).is_edge(0.5)


def test_a_better_plateau_that_begins_a_tenth_away_is_found(tmp_path, monkeypatch):
    """Passes jump as those of DSBA with b = 32 on a9a do, where every pass has its own order of samples."""

    def measured(search, trial, passes, seed):
        step = trial.algorithm.alpha
        cost = 37.0 if 150 <= step <= 172 else 41.0 if 130 <= step <= 220 else 50.0 + abs(math.log(step / 170))
        return index.Attempt(status="converged", passes=cost, cost=cost, value=1e-7, least=1e-7)

    monkeypatch.setattr(SearchRun, "_measured", measured)
    monkeypatch.setattr(dsba.algorithms.EXTRA, "auto_step", lambda *_: 174.4)
    changes = {"method": [{"algorithm": "extra"}], "stop": {"max_passes": 60, "gap_tol": 1e-6}}
    results = run(SMALL | changes, tmp_path, workers=1, tune_only=True)
    (search,) = results.index.searches
    assert 150 <= results.folder.read_search(search.id).parameters["step_size"] <= 172


@pytest.mark.parametrize(
    ("tune", "link", "wanted"),
    [
        ({"by": "passes"}, {}, 0.1),
        ({"by": "rounds"}, {}, 0.9),
        ({"by": "bytes"}, {}, 0.9),
        ({"by": "work"}, {}, 0.9),
        ({"by": "time"}, {"latency": 10.0}, 0.9),
        ({"by": "time"}, {"latency": 0.0, "bandwidth": 1e19}, 0.9),
    ],
)
def test_the_cost_to_save_decides(tune, link, wanted, tmp_path):
    """Of two probabilities that DVR computes, the smaller one needs fewer passes and the larger one fewer rounds."""
    changes = {
        "tune": tune, "link": link, "splits": ["label"], "stop": {"max_passes": 60, "gap_tol": 1e-2},
        "method": [{"algorithm": "dvr", "grid": {"p_comp": [0.1, 0.9]}}],
    }  # fmt: skip
    results = run(SMALL | changes, tmp_path, workers=1, tune_only=True)
    table = results.folder.read_search(results.index.searches[0].id)
    reached = {c.parameters["p_comp"]: c.cost for c in table.candidates if c.status == "converged"}
    assert table.by == tune["by"]
    assert table.parameters == {"p_comp": min(reached, key=reached.get)} == {"p_comp": wanted}


@pytest.mark.parametrize("method", also_in_full(["apapc"], ["apapc", "dlm"]))
def test_random_settings_are_not_better_than_the_choice(method, tmp_path):
    """The twin of ``python -m benchmarks.tuned`` on a small problem."""
    stop = {"max_passes": 150, "gap_tol": 1e-6}
    found = compared(SMALL | {"tune": {}, "stop": stop, "method": [{"algorithm": method}]}, tmp_path)
    assert found["better"] == []
    assert math.isfinite(found["passes"])
    assert found["at_edge"] == []
