"""The one loop: how runs end, where records fall, and that watching changes nothing."""

from __future__ import annotations

import math
import re
import signal
import warnings

import numpy as np
import pytest
from conftest import make_problem
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import dsba
from dsba.engine.progress import Progress

RING = dsba.Topology.ring(4)


def same_run(a, b):
    """Bitwise: iterates and every column but the clock's."""
    assert (a.Z == b.Z).all()
    assert set(a.history) == set(b.history)
    for name in set(a.history) - {"seconds", "cpu_seconds"}:
        assert np.array_equal(a.history[name], b.history[name], equal_nan=True), name


def is_a_sentence(message):
    assert "\n" not in message
    assert len(message.split()) >= 3
    assert not re.search(r"[{}<>]|None|array\(|Status\.", message)


# How a run ends ----------------------------------------------------------------------------------


def test_converged_by_residual(ridge):
    result = dsba.solve(ridge, RING, tol=1e-6, max_passes=1000)
    assert result.status == dsba.Status.CONVERGED == "converged"
    residual = result.history["residual"]
    consensus = result.history["consensus"]
    assert max(residual[-1], consensus[-1]) <= 1e-6 < max(residual[-2], consensus[-2])
    at_zero = np.linalg.norm(ridge.pooled.operator(np.zeros(ridge.dim)))
    assert np.linalg.norm(ridge.pooled.operator(result.z)) <= 1e-6 * at_zero
    assert "residual" in result.message
    assert "1e-06" in result.message
    is_a_sentence(result.message)


def test_converged_by_gap(ridge):
    result = dsba.solve(ridge, RING, gap_tol=1e-5, max_passes=1000, reference=True)
    assert result.status == "converged"
    assert result.history["gap"][-1] <= 1e-5 < result.history["gap"][-2]
    assert "gap" in result.message
    assert "1e-05" in result.message
    is_a_sentence(result.message)


def test_converged_at_the_start(ridge):
    result = dsba.solve(ridge, RING, tol=1.0)
    assert result.status == "converged"
    assert result.passes == 0
    assert (result.Z == 0).all()


def test_budget_of_passes(ridge):
    result = dsba.solve(ridge, RING, max_passes=3)
    assert result.status == "budget"
    assert result.passes == 3
    assert "3 passes" in result.message
    assert "residual" in result.message
    is_a_sentence(result.message)


def test_budget_of_seconds(ridge):
    result = dsba.solve(ridge, RING, max_passes=None, max_seconds=0.05, record_every=1e9)
    assert result.status == "budget"
    assert result.seconds >= 0.05
    assert result.history["seconds"][-1] == result.seconds
    assert "0.05 seconds" in result.message
    is_a_sentence(result.message)


def test_budget_of_doubles(ridge):
    result = dsba.solve(ridge, RING, max_passes=None, max_doubles=1000)
    assert result.status == "budget"
    doubles = result.history["doubles_max"]
    assert doubles[-1] >= 1000 > doubles[-2]
    assert "1000 DOUBLEs" in result.message
    is_a_sentence(result.message)


def test_budget_of_doubles_between_record_points(ridge):
    """Like passes and seconds, DOUBLEs end a run where they are spent: within one round."""
    result = dsba.solve(ridge, RING, max_passes=None, max_doubles=100, record_every=10)
    assert result.history["doubles_max"][-1] < 100 + 2 * ridge.dim


def test_the_first_budget_ends_the_run(ridge):
    assert "passes" in dsba.solve(ridge, RING, max_passes=2, max_doubles=1e9, max_seconds=1e9).message
    assert "DOUBLEs" in dsba.solve(ridge, RING, max_passes=1e9, max_doubles=1, max_seconds=1e9).message


def test_zero_budget_is_the_start(ridge):
    z0 = np.linspace(0, 1, ridge.dim)
    result = dsba.solve(ridge, RING, max_passes=0, z0=z0)
    assert result.status == "budget"
    assert len(result.history) == 1
    assert (z0 == result.Z).all()


@pytest.mark.parametrize("form", ["step", "dense", "lazy"])
@pytest.mark.parametrize("step_size", [3.0, 50.0, 1e200])
def test_diverged(ridge, step_size, form):
    """Stopped at a record point, with the last good iterate, and the step size to blame."""
    records = []
    options = {"algorithm": "dsa", "step_size": step_size, "form": form, "record_every": 0.1}
    with np.errstate(all="ignore"):
        result = dsba.solve(ridge, RING, max_passes=500, callbacks=[records.append], **options)
    assert result.status == "diverged"
    assert f"step_size={step_size:g}" in result.message
    is_a_sentence(result.message)
    assert np.isfinite(result.Z).all()
    assert len(result.history) == len(records) >= 2
    good = result.history["residual"][:-1]
    assert (good <= 1e6).all()
    bad = result.history["residual"][-1]
    assert not bad <= 1e6
    with np.errstate(all="ignore"):
        before = dsba.solve(ridge, RING, max_passes=result.history["passes"][-2], **options)
    assert before.status == "budget"
    assert (result.Z == before.Z).all()


@pytest.mark.parametrize(
    "form",
    [
        "step",
        "dense",
        pytest.param("lazy"),
    ],
)
def test_divergence_is_a_status_and_not_a_warning(ridge, form):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dsba.solve(ridge, RING, "dsa", 50.0, form=form).status == "diverged"


@pytest.mark.parametrize("operator", ["ridge", "logistic"])
def test_a_start_at_the_solution_is_no_divergence(operator):
    """A warm start; with a zero table the iterates first move away, and come back."""
    problem = make_problem(operator)
    z_star, _ = dsba.optimum(problem)
    result = dsba.solve(problem, RING, max_passes=300, z0=z_star, reference=z_star)
    assert result.status != "diverged"
    assert result.history["distance"][-1] < 1e-8


def test_a_callback_sees_every_record_and_can_stop(ridge):
    seen = []

    def stop(record):
        seen.append(dict(record))
        return record["passes"] >= 4

    result = dsba.solve(ridge, RING, max_passes=20, callbacks=[stop, lambda record: None])
    assert result.status == "interrupted"
    is_a_sentence(result.message)
    assert [record["passes"] for record in seen] == [0, 1, 2, 3, 4]
    assert len(result.history) == 5
    for name in result.history:
        assert [record[name] for record in seen] == list(result.history[name])
    assert (result.Z == dsba.solve(ridge, RING, max_passes=4).Z).all()


def test_a_callback_at_a_met_limit_does_not_change_the_status(ridge):
    assert dsba.solve(ridge, RING, max_passes=2, callbacks=[lambda r: r["passes"] >= 2]).status == "budget"


def test_an_error_in_a_callback_is_the_callers(ridge):
    def fail(record):
        raise ZeroDivisionError("mine")

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError, match="mine"):
        dsba.solve(ridge, RING, max_passes=2, callbacks=[fail], progress=True)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_callback_cannot_spoil_the_history(ridge):
    result = dsba.solve(ridge, RING, max_passes=2, callbacks=[lambda record: record.update(residual=-1.0)])
    assert (result.history["residual"] > 0).all()


# Where records and budgets fall ------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    n_nodes=st.sampled_from([1, 4, 7]),
    max_passes=st.one_of(st.floats(0.001, 6), st.integers(1, 6), st.sampled_from([0.1, 0.2, 0.3, 1 / 3, 0.7, 1.1])),
    record_every=st.one_of(st.floats(0.01, 10), st.sampled_from([1, 0.1, 0.25, 1 / 3])),
)
def test_budget_and_record_points(n_nodes, max_passes, record_every):
    problem = make_problem("ridge", n_nodes)
    topology = dsba.Topology.ring(n_nodes)
    result = dsba.solve(problem, topology, max_passes=max_passes, record_every=record_every, form="dense")
    iterations = result.history["iteration"]
    assert iterations[-1] == math.ceil(max_passes * 60 / n_nodes - 1e-9)
    assert result.passes == result.history["passes"][-1] >= max_passes - 1e-9
    assert (np.diff(iterations) > 0).all()
    points = np.arange(len(iterations))
    wanted = np.maximum(points, np.ceil(points * record_every * 60 / n_nodes - 1e-9))
    assert (iterations[:-1] == wanted[:-1]).all()
    assert iterations[-1] <= wanted[-1]


def test_records_of_every_iteration(ridge):
    result = dsba.solve(ridge, RING, max_passes=1, record_every=1e-9)
    assert list(result.history["iteration"]) == list(range(16))


def test_recording_does_not_change_the_run(ridge):
    for form in ("step", "dense", "lazy"):
        often = dsba.solve(ridge, RING, max_passes=4, record_every=0.07, form=form)
        seldom = dsba.solve(ridge, RING, max_passes=4, record_every=100, form=form)
        assert (often.Z == seldom.Z).all()


# The same run again ------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["dsba", "dsa"])
@pytest.mark.parametrize("form", ["step", "dense", "lazy"])
def test_the_seed_decides_every_bit(ridge, algorithm, form):
    one, same, other = (dsba.solve(ridge, RING, algorithm, max_passes=4, seed=s, form=form) for s in (3, 3, 4))
    same_run(one, same)
    assert (one.Z != other.Z).any()
    same_run(one, dsba.solve(ridge, RING, algorithm, max_passes=4, seed=np.int64(3), form=form))


def test_a_result_stays_as_it_is(ridge):
    """Later runs do not write into the arrays of earlier ones."""
    for form in ("step", "dense", "lazy"):
        z0 = np.full(ridge.dim, 0.5)
        result = dsba.solve(ridge, RING, max_passes=2, z0=z0, form=form)
        kept = result.Z.copy()
        dsba.solve(ridge, RING, max_passes=2, seed=9, form=form)
        assert (kept == result.Z).all()
        assert (z0 == 0.5).all()
        assert result.z == pytest.approx(kept.mean(axis=0))
        start = dsba.solve(ridge, RING, max_passes=0, z0=z0, form=form)
        z0[:] = 7
        assert pytest.approx(0.5) == start.Z


def test_the_clock_of_the_bar_shows_elapsed_time():
    """An hour, two minutes and five seconds after the start, with most of the budget left."""
    progress = Progress(True, "dsba", 100.0)
    (task,) = progress.bar.tasks
    task.start_time, task._get_time = 0.0, lambda: 3725.0
    progress.update({"passes": 1.0, "residual": 0.1, "doubles_max": 5.0})
    console = Console(width=200)
    with console.capture() as shown:
        console.print(progress.bar.make_tasks_table([task]))
    assert shown.get().split()[-1] == "1:02:05"


def test_progress_shows_a_bar_and_changes_nothing(ridge, capsys):
    quiet = dsba.solve(ridge, RING, max_passes=3)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""
    shown = dsba.solve(ridge, RING, max_passes=3, progress=True)
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert "dsba" in text
    assert "3.0 passes" in text
    assert "residual" in text
    assert "DOUBLEs" in text
    same_run(quiet, shown)
    dsba.solve(ridge, RING, max_passes=None, max_doubles=500, reference=True, progress=True)
    captured = capsys.readouterr()
    assert "gap" in captured.out + captured.err


def test_a_result_reads_well(ridge):
    result = dsba.solve(ridge, RING, max_passes=2)
    assert "budget" in repr(result)
    assert "dsba" in repr(result)
    assert result.message in repr(result)
    assert result.Z.shape == (4, 12)
    assert (result.z == np.array([math.fsum(column) for column in result.Z.T]) / 4).all()
