"""Two threads on one sample: the same bits, an early end on a busy machine, and nobody left waiting."""

from __future__ import annotations

import os
import pkgutil
import subprocess
import sys

import numpy as np
import pytest

import dsba
from dsba._system.threads import run_thread_pair
from dsba.algorithms.dsba import lazy
from dsba.kernels.dense import Recursion
from dsba.kernels.modes import Spectrum, advance_modes, column_positions, in_halves, plan_modes
from dsba.kernels.simd import LINE_DOUBLES as LINE
from dsba.kernels.thread_pair import CROWDED, ENDED, shares


def classes(n_rows=60, n_classes=9):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n_rows, 40)) * (rng.random((n_rows, 40)) < 0.3)
    return dsba.Problem.from_arrays(X, np.arange(n_rows) % n_classes, "softmax", n_nodes=4, intercept=True)


@pytest.fixture
def teams(monkeypatch):
    """Two threads for everything; the list of all teams that were made."""
    made = []

    def kept(k, cuts):
        made.append(shares(k, cuts))
        return made[-1]

    monkeypatch.setattr(lazy, "shares", kept)
    monkeypatch.setattr(lazy, "CORES", 2)
    monkeypatch.setattr(lazy, "FOR_TWO", 0)
    monkeypatch.setattr(lazy, "WORTH", 1)
    return made


def outcome(problem):
    result = dsba.solve(problem, dsba.Topology.ring(4), dsba.DSBA(form="lazy"), max_passes=5, tol=0)
    return result.Z.tobytes() + b"".join(result.history[name].tobytes() for name in ("residual", "consensus"))


def test_two_threads_give_the_bits_of_one(teams, monkeypatch):
    problem = classes()
    two = outcome(problem)
    assert any(len(team) == 2 and team[1].board[LINE] > 0 for team in teams)
    monkeypatch.setattr(lazy, "CORES", 1)
    assert outcome(problem) == two


def test_a_team_that_had_to_wait_ends_with_the_iteration_and_one_goes_on(teams, monkeypatch):
    problem = classes()
    calm = outcome(problem)
    monkeypatch.setattr(lazy, "REST", 1)
    made = lazy.shares

    def crowded(k, cuts):
        team = made(k, cuts)
        team[0].board[CROWDED] = len(cuts) > 2
        return team

    monkeypatch.setattr(lazy, "shares", crowded)
    teams.clear()
    assert outcome(problem) == calm
    assert sum(len(team) == 2 and team[0].board[ENDED] == 1 for team in teams) > 5


@pytest.mark.parametrize("fails", [0, 1])
def test_nobody_waits_for_a_thread_that_failed(fails):
    """The other one would meet it at every sample."""
    problem = classes()
    form = dsba.DSBA(form="lazy").resolved(problem, dsba.Topology.ring(4))
    state = form.init(problem, dsba.network.Simulator(dsba.Topology.ring(4)), np.zeros(problem.dim))
    team = shares(problem.k, (0, state.plan.middle, problem.dim))
    drawn = np.zeros((3, 4), np.int64)

    def work(share):
        if share.me == fails:
            raise KeyboardInterrupt("this thread does nothing")
        data = (problem.component, state.components.rule, problem.samples, drawn, state.plan, state.state, 0)
        return advance_modes(*data, share)

    with pytest.raises(KeyboardInterrupt, match="does nothing"):
        run_thread_pair(work, team)


@pytest.mark.parametrize("n_regular", [40, 36])
def test_halves_keep_copies_together_and_popular_columns_first(n_regular):
    k, popularity = 4, np.array([1, 9, 3, 3, 7, 2, 0, 5, 4, 8])
    indices = np.repeat(np.arange(10) * k, popularity)
    indices = (indices[:, None] + np.arange(k)).ravel()
    position, middle = in_halves(column_positions(indices, 40, n_regular), k, n_regular)
    assert sorted(position) == list(range(40))
    first = position.reshape(10, k)
    assert (np.diff(first, axis=1) == 1).all()
    places = first[: n_regular // k, 0]
    for half in (places < middle, places >= middle):
        assert (np.diff(popularity[: n_regular // k][half][np.argsort(places[half])]) <= 0).all()
    assert abs((places < middle).sum() - (places >= middle).sum()) <= 1
    assert n_regular == 40 or first[9, 0] == 36  # free columns stay last


@pytest.mark.parametrize("extra", [0, 1])
def test_every_column_has_a_place_of_its_own(extra):
    """A column that comes without copies is no half of anything: then there are no halves."""
    A = (np.array([0, 2, 4]), np.array([0, 6, 1, 7]), np.array([0.5, 2.0, 0.5, 2.0]))
    rule = Recursion(True, 1.0, np.empty(0), (0.0, 0.0), (0.0, 0.0), 8 + extra, np.empty((0, 2)))
    plan = plan_modes(A, 2, 8 + extra, rule, 0.1, Spectrum(np.ones(2), np.eye(2)))
    assert sorted(plan.position) == list(range(8 + extra))
    assert plan.middle == (0 if extra else 4)


UNFORKED = """
import os
del os.fork, os.register_at_fork
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
from dsba._system.threads import run_pieces
done = []
run_pieces(lambda lo, hi: done.append((lo, hi)), [0, 5, 10])
print(sorted(done))
"""


def test_all_modules_are_imported_where_processes_are_not_forked():
    """As on Windows, where ``os.register_at_fork`` does not exist."""
    found = pkgutil.walk_packages(dsba.__path__, "dsba.")
    names = [module.name for module in found if not module.name.endswith(("__main__", ".mpi"))]
    assert {"dsba._system.threads", "dsba.engine.run", "dsba.cli"} <= set(names)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.run(
        [sys.executable, "-c", UNFORKED, "dsba", *names], capture_output=True, text=True, env=environment, check=False
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout.strip() == "[(0, 5), (5, 10)]"
