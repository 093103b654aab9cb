"""The one loop: how runs end, what they record, and that neither watching nor stopping changes them."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from conftest import make_data, make_problem
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

import dsba
from dsba.recorder import Recorder, StackedRows

RING = dsba.Topology.ring(4)
UNEQUAL = np.repeat([0, 1, 2, 3], [2, 5, 10, 43])
LAM = 0.05
ALWAYS = ["iteration", "passes", "nominal_passes", "seconds", "rounds", "doubles_max", "index_bytes_max", "bytes_max"]

main_thread_only = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread only"
)


@pytest.fixture(scope="module")
def ridge():
    return make_problem("ridge")


def same_run(a, b):
    """Bitwise: iterates and every column but the clock's."""
    assert (a.Z == b.Z).all()
    assert set(a.history) == set(b.history)
    for name in set(a.history) - {"seconds"}:
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
    assert residual[-1] <= 1e-6 < residual[-2]
    assert np.linalg.norm(ridge.pooled(result.z)) <= 1e-6 * np.linalg.norm(ridge.pooled(np.zeros(ridge.dim)))
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


# Ctrl-C ------------------------------------------------------------------------------------------


@main_thread_only
@pytest.mark.parametrize("form", ["step", "dense", "lazy"])
def test_ctrl_c_returns_what_there_is(ridge, form):
    before = signal.getsignal(signal.SIGINT)

    def press(record):
        if record["passes"] == 3:
            os.kill(os.getpid(), signal.SIGINT)

    result = dsba.solve(ridge, RING, max_passes=1000, callbacks=[press], form=form)
    assert result.status == "interrupted"
    is_a_sentence(result.message)
    assert 3 <= result.passes < 1000
    assert len(result.history) >= 4
    assert signal.getsignal(signal.SIGINT) is before
    assert (result.Z == dsba.solve(ridge, RING, max_passes=result.passes, form=form).Z).all()


@main_thread_only
def test_ctrl_c_between_record_points(ridge):
    """No record point for hours: the kernels are left at once and the last iterate is measured."""
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    result = dsba.solve(ridge, RING, max_passes=1e9, record_every=1e9)
    assert result.status == "interrupted"
    assert len(result.history) == 2
    assert result.history["passes"][-1] == result.passes > 0
    measured = Recorder(ridge, np.zeros(ridge.dim), None).measure(StackedRows(ridge, result.Z))
    assert result.history["residual"][-1] == pytest.approx(measured["residual"], rel=1e-9)


@main_thread_only
def test_second_ctrl_c_is_the_usual_one(ridge):
    before = signal.getsignal(signal.SIGINT)

    def press_twice(record):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with pytest.raises(KeyboardInterrupt):
            dsba.solve(ridge, RING, max_passes=1000, callbacks=[press_twice])
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@main_thread_only
def test_a_handler_of_the_callers_is_restored(ridge):
    caught = []

    def mine(signum, frame):
        caught.append(signum)

    before = signal.signal(signal.SIGINT, mine)
    try:
        first = dsba.solve(ridge, RING, max_passes=9, callbacks=[lambda r: os.kill(os.getpid(), signal.SIGINT)])
        assert first.status == "interrupted"
        assert signal.getsignal(signal.SIGINT) is mine
        assert caught == []
        dsba.solve(ridge, RING, max_passes=2)
        assert signal.getsignal(signal.SIGINT) is mine
        os.kill(os.getpid(), signal.SIGINT)
        assert caught == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


CHILD = """
import sys
import dsba
from conftest import make_problem

def say(record):
    if record["passes"] == 0:
        print("running", flush=True)

result = dsba.solve(make_problem("ridge"), dsba.Topology.ring(4), max_passes=1e9, record_every=100, callbacks=[say])
print(result.status, len(result.history), result.Z.shape, flush=True)
"""


def test_ctrl_c_in_a_process_of_its_own():
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True, env=environment) as child:
        try:
            assert child.stdout.readline() == "running\n"
            time.sleep(0.3)
            child.send_signal(signal.SIGINT)
            out, _ = child.communicate(timeout=60)
        finally:
            child.kill()
    assert child.returncode == 0
    status, records, shape = out.split(maxsplit=2)
    assert status == "interrupted"
    assert int(records) >= 2
    assert shape.strip() == "(4, 12)"


def test_a_run_in_a_thread(ridge):
    """No signal handler there, and the same bits."""
    found = []
    thread = threading.Thread(target=lambda: found.append(dsba.solve(ridge, RING, max_passes=5)))
    thread.start()
    thread.join()
    same_run(found[0], dsba.solve(ridge, RING, max_passes=5))


def test_runs_in_many_threads_do_not_meet(ridge):
    found = {}

    def go(seed):
        found[seed] = dsba.solve(ridge, RING, max_passes=5, seed=seed)

    threads = [threading.Thread(target=go, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, result in found.items():
        same_run(result, dsba.solve(ridge, RING, max_passes=5, seed=seed))


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


# What the columns mean ---------------------------------------------------------------------------


def normalised(X):
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(norms > 0, norms, 1)


def objective(operator, X, y, z):
    u = X @ z
    loss = 0.5 * (u - y) ** 2 if operator == "ridge" else np.logaddexp(0, -y * u)
    return loss.mean() + LAM / 2 * z @ z


def full_operator(operator, X, y, z):
    """(1/Q) sum B_i + Lambda z, one sample at a time, by the formulas."""
    if operator == "ridge":
        return X.T @ (X @ z - y) / len(y) + LAM * z
    if operator == "logistic":
        return X.T @ (-y / (1 + np.exp(y * (X @ z)))) / len(y) + LAM * z
    w, (a, b, theta), p = z[:-3], z[-3:], np.mean(y > 0)
    out = np.zeros_like(z)
    for x, label in zip(X, y, strict=True):
        u = x @ w
        if label > 0:
            g = 2 * (1 - p) * (u - a) - 2 * (1 + theta) * (1 - p)
            out += np.r_[g * x, -2 * (1 - p) * (u - a), 0, 2 * p * (1 - p) * theta + 2 * (1 - p) * u]
        else:
            g = 2 * p * (u - b) + 2 * (1 + theta) * p
            out += np.r_[g * x, 0, -2 * p * (u - b), 2 * p * (1 - p) * theta - 2 * p * u]
    return out / len(y) + LAM * np.r_[w, 0, 0, 0]


@pytest.mark.parametrize("algorithm", ["dsba", "dsa"])
@pytest.mark.parametrize("operator", ["ridge", "logistic", "auc"])
def test_columns_against_plain_numpy(operator, algorithm):
    X, y = make_data(operator)
    problem = dsba.Problem.from_arrays(X, y, operator, lam=LAM, split=UNEQUAL)
    X = normalised(X)
    z_star, _ = dsba.optimum(problem)
    assert np.linalg.norm(full_operator(operator, X, y, z_star)) < 1e-12
    z0 = np.linspace(-0.3, 0.5, problem.dim)
    options = {"algorithm": algorithm, "reference": True, "z0": z0}
    history = dsba.solve(problem, RING, max_passes=6, **options).history
    assert len(history) == 7
    for k in range(7):
        Z = dsba.solve(problem, RING, max_passes=k, **options).Z
        mean = Z.mean(axis=0)
        rms = np.sqrt(np.mean(np.linalg.norm(Z - mean, axis=1) ** 2))
        wanted = {
            "passes": k,
            "nominal_passes": k,
            "residual": np.linalg.norm(full_operator(operator, X, y, mean))
            / np.linalg.norm(full_operator(operator, X, y, z0)),
            "consensus": rms / np.linalg.norm(mean),
            "distance": np.sqrt(np.mean(np.linalg.norm(Z - z_star, axis=1) ** 2)) / np.linalg.norm(z_star),
        }
        if operator == "auc":
            wanted["auc"] = roc_auc_score(y, X @ mean[:-3])
        else:
            f, f_star = objective(operator, X, y, mean), objective(operator, X, y, z_star)
            wanted["objective"] = f
            wanted["gap"] = (f - f_star) / (objective(operator, X, y, np.zeros(12)) - f_star)
        assert set(history) == set(ALWAYS) | set(wanted)
        for name, value in wanted.items():
            assert history[name][k] == pytest.approx(value, rel=1e-9, abs=1e-13), (name, k)


TOUCHED = []


@dataclass(frozen=True)
class Counting(dsba.DSBA):
    """DSBA that writes down how many samples it touches."""

    def init(self, problem, net, z0):
        TOUCHED.append(problem.n_samples if self.table == "full" else 0)
        return super().init(problem, net, z0)

    def advance(self, s, problem, net, samples):
        TOUCHED.append(samples.size)
        return super().advance(s, problem, net, samples)


@pytest.mark.parametrize("table", ["zero", "full"])
@pytest.mark.parametrize("max_passes", [1, 1.5, 2.77, 4])
def test_passes_are_samples_touched_over_samples_held(table, max_passes):
    problem = make_problem("ridge", split=UNEQUAL)
    TOUCHED.clear()
    result = dsba.solve(problem, RING, Counting(table=table), max_passes=max_passes, record_every=0.3)
    assert result.passes == pytest.approx(sum(TOUCHED) / 60, abs=1e-12)
    assert max_passes <= result.passes < max_passes + 4 / 60
    assert result.history["passes"][0] == (table == "full")


@pytest.mark.parametrize("form", ["step", "dense", "lazy"])
@pytest.mark.parametrize("topology", [RING, dsba.Topology.star(4), dsba.Topology.path(4), dsba.Topology.complete(4)])
def test_doubles_of_dense_communication(topology, form):
    """Every round brings one row of z from every neighbour; bytes are eight times that."""
    for operator in ("ridge", "auc"):
        problem = make_problem(operator)
        history = dsba.solve(problem, topology, max_passes=3, form=form).history
        assert (history["rounds"] == history["iteration"]).all()
        assert (history["doubles_max"] == history["rounds"] * topology.degrees.max() * problem.dim).all()
        assert (history["bytes_max"] == 8 * history["doubles_max"]).all()
        assert (history["index_bytes_max"] == 0).all()


def test_one_node_receives_nothing():
    history = dsba.solve(make_problem("ridge", 1), dsba.Topology.ring(1), max_passes=2).history
    assert (history["doubles_max"] == 0).all()
    assert (history["consensus"] == 0).all()


def test_gap_and_distance_only_with_a_reference(ridge):
    history = dsba.solve(ridge, RING, max_passes=1).history
    for name in ("gap", "distance"):
        assert name not in history
        with pytest.raises(KeyError, match="reference=True"):
            history[name]
    with pytest.raises(KeyError, match="residual"):
        history["residuum"]
    assert "gap" not in dsba.solve(ridge, RING, max_passes=1, reference=False).history


def test_a_given_reference_is_used(ridge):
    z_star, _ = dsba.optimum(ridge)
    same_run(
        dsba.solve(ridge, RING, max_passes=3, reference=z_star), dsba.solve(ridge, RING, max_passes=3, reference=True)
    )
    history = dsba.solve(ridge, RING, max_passes=3, reference=list(2 * z_star)).history
    assert history["distance"][0] == pytest.approx(1.0, rel=1e-14)
    assert history["distance"][-1] < 1.0


def test_history_as_a_frame(ridge):
    history = dsba.solve(ridge, RING, max_passes=3, reference=True).history
    frame = history.to_frame()
    assert frame.shape == (4, len(history.columns))
    assert list(frame.columns) == list(history) == history.columns
    for name in history:
        assert (frame[name].to_numpy() == history[name]).all()
    assert history.last() == frame.iloc[-1].to_dict()


def test_a_column_belongs_to_the_caller(ridge):
    history = dsba.solve(ridge, RING, max_passes=3).history
    history["residual"][:] = -1
    assert (history["residual"] > 0).all()


def test_the_clock_stands_still_while_measuring(ridge, monkeypatch):
    measure = Recorder.measure
    slept = []

    def slow(self, Z):
        time.sleep(0.2)
        slept.append(0.2)
        return measure(self, Z)

    dsba.solve(ridge, RING, max_passes=4)  # compiled
    monkeypatch.setattr(Recorder, "measure", slow)
    result = dsba.solve(ridge, RING, max_passes=4, callbacks=[lambda record: time.sleep(0.1)])
    assert len(slept) >= 5
    assert result.seconds < sum(slept) / 2
    assert (np.diff(result.history["seconds"]) > 0).all()
    assert result.history["seconds"][0] == 0


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


# Step sizes --------------------------------------------------------------------------------------


def component_bound(operator, X, y):
    """The largest c_n ||B_i||, from the matrices of the components themselves."""
    sizes = np.bincount(UNEQUAL)
    weight = (4 * sizes / 60)[UNEQUAL]
    if operator != "auc":
        return np.max(weight * np.sum(X**2, axis=1)) * (0.25 if operator == "logistic" else 1.0)
    p, d = np.mean(y > 0), X.shape[1]
    bound = 0.0
    for x, label, c in zip(X, y, weight, strict=True):
        a, b, theta = np.eye(d + 3)[d:]
        e, sign = (np.r_[x, 0, 0, 0] - a, 1) if label > 0 else (np.r_[x, 0, 0, 0] - b, -1)
        share = 2 * (1 - p) if label > 0 else 2 * p
        M = share * (np.outer(e, e) - sign * np.outer(e, theta) + sign * np.outer(theta, e))
        M += 2 * p * (1 - p) * (np.outer(theta, theta) + np.outer(b - a, theta) - np.outer(theta, b - a))
        bound = max(bound, c * np.linalg.norm(M, 2))
    return bound


@pytest.mark.parametrize("operator", ["ridge", "logistic", "auc"])
def test_step_size_rules(operator):
    X, y = make_data(operator)
    problem = dsba.Problem.from_arrays(X, y, operator, lam=LAM, split=UNEQUAL)
    L = component_bound(operator, normalised(X), y)
    rules = ("auto", "proved", "paper") if operator != "auc" else ("auto", "paper")  # nothing is proved for AUC
    steps = {rule: dsba.solve(problem, RING, step_size=rule, max_passes=0).step_size for rule in rules}
    assert steps.get("proved", 1 / L) == pytest.approx(1 / L, rel=1e-12)
    assert steps["paper"] == pytest.approx(1 / (24 * L), rel=1e-12)
    assert steps["auto"] == dsba.solve(problem, RING, max_passes=0).step_size
    assert 0 < steps["auto"] < np.inf
    assert dsba.solve(problem, RING, "dsa", "paper", max_passes=0).step_size == pytest.approx(1 / (24 * L), rel=1e-12)


def test_the_automatic_step_is_point_sagas(ridge):
    """min(alpha_PS, 2 sqrt(gamma / (mu L_node))), equal nodes of 15 rows of norm 1 in R^12.

    mu is lambda, at least 1/(10 Q) and a fiftieth of the mean curvature 1/12.
    """
    L, q = 1.0, 15
    gamma = np.linalg.eigvalsh(np.eye(4) - RING.W)[1] / 2
    for lam in (LAM, 1e-3, 1e-9):
        problem = make_problem("ridge", lam=lam)
        mu = max(lam, 1 / 600, 1 / (50 * 12))
        alpha = math.sqrt((q - 1) ** 2 + 4 * q * L / mu) / (2 * L * q) - (1 - 1 / q) / (2 * L)
        L_node = max(np.linalg.norm(problem.A[q * n : q * n + q].toarray(), 2) ** 2 / q for n in range(4))
        wanted = min(alpha, 2 * math.sqrt(gamma / (mu * L_node)))
        assert dsba.solve(problem, RING, max_passes=0).step_size == pytest.approx(wanted, rel=0.03)


def test_an_objects_own_step_size_is_respected(ridge):
    assert dsba.solve(ridge, RING, dsba.DSBA(step_size=0.123), max_passes=1).step_size == 0.123
    assert dsba.solve(ridge, RING, dsba.DSBA(step_size=0.123), 0.5, max_passes=1).step_size == 0.5
    assert dsba.solve(ridge, RING, dsba.DSBA(step_size="paper"), max_passes=0).step_size == pytest.approx(1 / 24)
    same_run(
        dsba.solve(ridge, RING, dsba.DSA(0.2, table="full", form="step"), max_passes=3),
        dsba.solve(ridge, RING, "dsa", 0.2, max_passes=3, table="full", form="step"),
    )


def test_the_algorithm_object_is_not_changed(ridge):
    algorithm = dsba.DSBA()
    result = dsba.solve(ridge, RING, algorithm, max_passes=1)
    assert algorithm == dsba.DSBA()
    assert algorithm.step_size == "auto"
    assert result.algorithm.step_size == result.step_size


def test_metrics_of_ones_own_become_columns(tmp_path):
    problem, topology = make_problem(), dsba.Topology.ring(4)
    options = {"metrics": {"size": lambda z: float(np.abs(z).max())}, "checkpoint": tmp_path / "run.npz"}
    dsba.solve(problem, topology, max_passes=3, **options)
    result = dsba.solve(problem, topology, max_passes=6, **options)
    assert len(result.history["size"]) == 7
    assert result.history["size"][-1] == np.abs(result.z).max()


@pytest.mark.parametrize("request_to_stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_stop_ends_with_a_checkpoint(ridge, tmp_path, request_to_stop):
    """Also where the system ends a process; resuming gives the run left alone, bit by bit."""
    usual = signal.default_int_handler if request_to_stop == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(request_to_stop, usual)  # the tests may have been started with it ignored

    def at_pass_three(record):
        if record["passes"] == 3:
            signal.raise_signal(request_to_stop)

    file = tmp_path / "run"
    stopped = dsba.solve(ridge, RING, max_passes=8, checkpoint=file, callbacks=[at_pass_three])
    assert (stopped.status, stopped.passes) == ("interrupted", 3)
    assert signal.signal(request_to_stop, before) is usual
    resumed = dsba.solve(ridge, RING, max_passes=8, checkpoint=file)
    assert (resumed.Z == dsba.solve(ridge, RING, max_passes=8).Z).all()


def test_a_signal_that_is_ignored_stays_ignored(ridge):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        result = dsba.solve(ridge, RING, max_passes=2, callbacks=[lambda record: signal.raise_signal(signal.SIGHUP)])
    finally:
        signal.signal(signal.SIGHUP, before)
    assert result.status == "budget"
