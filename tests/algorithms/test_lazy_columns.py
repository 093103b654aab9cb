"""What the columns of a history mean, counted and computed once more in plain NumPy."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import make_data, make_problem
from sklearn.metrics import roc_auc_score
from test_engine import RING, same_run

import dsba
from dsba.engine.recorder import Recorder

UNEQUAL = np.repeat([0, 1, 2, 3], [2, 5, 10, 43])
LAM = 0.05
ALWAYS = [
    "iteration",
    "passes",
    "nominal_passes",
    "work",
    "seconds",
    "cpu_seconds",
    "rounds",
    "doubles_max",
    "index_bytes_max",
    "bytes_max",
]


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
            / np.linalg.norm(full_operator(operator, X, y, np.zeros(problem.dim))),
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
    """On a clock of its own: a look at it takes a second, and a measure or a callback 1,000."""
    now, measure, measured = itertools.count(), Recorder.measure, []

    def wait(record=None):
        for _ in range(1000):
            next(now)

    def slow(self, Z):
        wait()
        measured.append(Z)
        return measure(self, Z)

    clock = SimpleNamespace(perf_counter=lambda: float(next(now)), process_time=time.process_time)
    monkeypatch.setattr("dsba.engine.run.time", SimpleNamespace(**vars(time) | vars(clock)))
    monkeypatch.setattr(Recorder, "measure", slow)
    result = dsba.solve(ridge, RING, max_passes=4, callbacks=[wait])
    assert len(measured) >= 5
    assert result.seconds < 1000
    assert (np.diff(result.history["seconds"]) > 0).all()
    assert result.history["seconds"][0] == 0


def test_metrics_of_ones_own_become_columns(tmp_path):
    problem, topology = make_problem(), dsba.Topology.ring(4)
    options = {"metrics": {"size": lambda z: float(np.abs(z).max())}, "checkpoint": tmp_path / "run.dsba"}
    dsba.solve(problem, topology, max_passes=3, **options)
    result = dsba.solve(problem, topology, max_passes=6, **options)
    assert len(result.history["size"]) == 7
    assert result.history["size"][-1] == np.abs(result.z).max()
