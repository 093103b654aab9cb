"""What the engine asks of a user's step, and what it promises: purity, places in a table, coins that all share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import queues
from conftest import make_problem

import dsba
from dsba.algorithms import Algorithm, WithCoins, sampling
from dsba.algorithms.base import State as RowsState
from dsba.algorithms.rivals.dgd import DGD

TOPOLOGY = dsba.Topology.random(4, 0.5, seed=1)


@dataclass
class State:
    Z: np.ndarray
    Y: np.ndarray
    t: int = 0


# A step leaves the state alone ----------------------------------------------------------------------


class InPlace(DGD):
    """A step in the caller's own array."""

    def step(self, s, problem, net, samples):
        s.Z -= self.alpha * problem.local_operator(s.Z)
        return RowsState(s.Z, t=s.t + 1)


class Recounted(DGD):
    """A step that only counts in the caller's state."""

    def step(self, s, problem, net, samples):
        s.t += 1
        return RowsState(net.mix(s.Z), t=s.t)


@pytest.mark.parametrize(("method", "field"), [(InPlace, "Z"), (Recounted, "t")])
def test_a_step_that_changes_its_state_is_refused(method, field):
    message = rf"the step of dgd changed the state it was given \('{field}'\): it must leave that alone"
    with pytest.raises(dsba.InputError, match=message):
        dsba.solve(make_problem("ridge"), TOPOLOGY, method(), max_passes=5)


def test_a_step_is_checked_on_a_copy():
    """The run begins where it was to begin, also where ``advance`` reuses the arrays of its state."""
    seen = []

    class Fused(DGD):
        def advance(self, s, problem, net, samples):
            seen.append((s.t, s.Z.copy()))
            for row in samples:
                s.Z[:] = self.step(s, problem, net, row).Z
            return RowsState(s.Z, t=s.t + len(samples))

    problem = make_problem("ridge")
    fused, plain = (dsba.solve(problem, TOPOLOGY, method(), max_passes=5) for method in (Fused, DGD))
    assert (fused.Z == plain.Z).all()
    assert [t for t, _ in seen[:2]] == [0, 0]  # the warm-up, then the first iterations
    assert not seen[1][1].any()


# Tables over several nodes --------------------------------------------------------------------------


@dataclass
class TableState(State):
    phi: np.ndarray = None
    mean: np.ndarray = None


@dataclass(frozen=True)
class ExactDiffusionSAGA(Algorithm):
    """Y+ = Z - alpha G,  Z+ = W~ (Z + Y+ - Y),  G = c_n A_i' (g - phi_i) + mean of phi + Lambda Z,  phi_i <- g."""

    name: ClassVar[str] = "exact-diffusion-saga"

    def init(self, problem, net, z0):
        Z = np.tile(z0, (len(problem.nodes), 1))
        return TableState(Z, Z, 0, np.zeros((problem.y.size, problem.k)), np.zeros_like(Z))

    def step(self, s, problem, net, samples):
        ids, g = problem.components.ids(samples), problem.components.forward(samples, s.Z)
        change = problem.components.spread(samples, g - s.phi[ids])
        Y = s.Z - self.alpha * (change + s.mean + problem.lam_diag * s.Z)
        phi = s.phi.copy()
        phi[ids] = g
        return TableState(net.mix(s.Z + Y - s.Y), Y, s.t + 1, phi, s.mean + change / problem.sizes[:, None])

    def samples_per_step(self, problem):
        return problem.n_nodes

    def step_sizes(self, problem, topology):
        return {"auto": lambda: 1 / (3 * (problem.constants.L_plan + problem.lam))}


@pytest.mark.parametrize("operator", ["logistic", "softmax"])
def test_a_method_with_a_table_reaches_the_optimum(operator, unequal):
    problem = make_problem(operator, split=unequal)
    z_star, residual = dsba.optimum(problem)
    assert residual < 1e-12
    result = dsba.solve(problem, TOPOLOGY, ExactDiffusionSAGA(), max_passes=3000, tol=1e-10, reference=z_star)
    assert result.status == "converged"
    assert result.history["distance"][-1] < 1e-8
    assert result.history["passes"][-1] == pytest.approx(4 / 60 * result.history["iteration"][-1])


def test_places_of_samples_in_a_table(unequal):
    """Counted within the nodes of 2, 5, 10 and 43 rows, and over the nodes that a process holds."""
    problem = make_problem("ridge", split=unequal)
    assert problem.components.ids(np.array([1, 4, 0, 42])).tolist() == [1, 6, 7, 59]
    rows = problem.A.toarray()

    def work(net):
        ends = problem.start
        shards = [(rows[ends[n] : ends[n + 1]], problem.y[ends[n] : ends[n + 1]]) for n in net.nodes]
        return dsba.Problem(shards, "ridge", lam=0.1, group=net).components.ids(np.zeros(len(shards), int)).tolist()

    assert queues.together(dsba.Topology.ring(4), 2, work) == [[0, 2], [0, 10]]


# Coins ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CoinCounter(WithCoins):
    """z+_n = z_n + (the coins that node n sees): what every node was dealt, in its own iterate."""

    name: ClassVar[str] = "coin-counter"
    coins: ClassVar[int] = 2

    def init(self, problem, net, z0):
        return RowsState(np.tile(z0, (len(problem.nodes), 1)))

    def step(self, s, problem, net, samples, coins=None):
        dealt = np.zeros_like(s.Z)
        dealt[:, :2] = coins
        return RowsState(s.Z + dealt, t=s.t + 1)

    def step_sizes(self, problem, topology):
        return {"auto": lambda: 1.0}


class CoinSpender(CoinCounter):
    """A step with coins in the caller's own array."""

    def step(self, s, problem, net, samples, coins=None):
        s.Z += coins[0]
        return RowsState(s.Z, t=s.t + 1)


def test_a_step_with_coins_that_changes_its_state_is_refused():
    with pytest.raises(dsba.InputError, match=r"the step of coin-counter changed the state it was given \('Z'\)"):
        dsba.solve(make_problem("ridge"), TOPOLOGY, CoinSpender(), max_passes=5)


def dealt(problem, passes=40, **options):
    return dsba.solve(problem, TOPOLOGY, CoinCounter(), max_passes=passes, seed=3, **options).Z


def test_coins_are_the_same_at_all_nodes():
    Z = dealt(make_problem("ridge"))
    assert (Z[0] == Z).all()
    assert Z[0, 0] != Z[0, 1]
    stream = sampling.coins(3, 2, 0, 40)
    assert Z[0, :2].tolist() == [sum(column, 0.0) for column in stream.T.tolist()]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_coins_are_the_same_in_all_processes(size):
    whole = make_problem("ridge")
    ends, rows = whole.start, whole.A.toarray()

    def work(net):
        shards = [(rows[ends[n] : ends[n + 1]], whole.y[ends[n] : ends[n + 1]]) for n in net.nodes]
        return dealt(dsba.Problem(shards, "ridge", lam=0.05, group=net))

    assert (np.concatenate(queues.together(TOPOLOGY, size, work)) == dealt(whole)).all()


def test_coins_depend_neither_on_records_nor_on_resuming(tmp_path):
    problem = make_problem("ridge")
    whole = dealt(problem)
    assert (dealt(problem, record_every=7) == whole).all()
    assert (dealt(problem, record_every=40) == whole).all()
    dealt(problem, 13, checkpoint=tmp_path / "run")
    assert (dealt(problem, checkpoint=tmp_path / "run") == whole).all()


def test_a_stream_of_coins():
    """Any stretch of it is the same numbers; seeds and iterations differ; all lie in [0, 1) and fill it evenly."""
    whole = sampling.coins(5, 2, 0, 3 * sampling.BLOCK)
    assert (sampling.coins(5, 2, sampling.BLOCK - 10, 30) == whole[sampling.BLOCK - 10 :][:30]).all()
    assert np.unique(whole).size == whole.size
    assert (sampling.coins(6, 2, 0, 50) != whole[:50]).all()
    assert 0 <= whole.min() < 0.01 < 0.99 < whole.max() < 1
    counts = np.histogram(whole, bins=10, range=(0, 1))[0]
    assert abs(counts - whole.size / 10).max() < 5 * np.sqrt(whole.size / 10)
