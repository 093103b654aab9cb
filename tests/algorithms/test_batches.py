"""Blocks of samples as components (``batch_size``), and DSBA and DSA for several nodes, against a plain twin."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import queues
import twin
from conftest import make_problem

import dsba
from dsba.algorithms import sampling
from dsba.algorithms.rivals import p_extra
from dsba.network import MessageSimulator, Simulator
from dsba.problem.components import Batches, counts
from dsba.solvers.local import LocalSolver

TOPOLOGY = dsba.Topology.random(4, 0.6, seed=2)
METHODS = {"dsba": dsba.DSBA, "dsa": dsba.DSA}


def relative(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


def drawn(problem, b, count, seed=7):
    return sampling.draw(seed, counts(problem.sizes, b), 0, count)


def trajectory(algorithm, problem, net, samples, z0):
    """Iterates before the first iteration and after each one."""
    state = algorithm.init(problem, net, z0)
    rows = [state.Z.copy()]
    for row in samples:
        state = algorithm.advance(state, problem, net, row[None])
        rows.append(state.Z.copy())
    return np.array(rows)


def in_full(*values):
    """Cases for `make full`: each compiles kernels for another operator."""
    cases = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*case, marks=pytest.mark.full) for case in cases]


CASES = [("logistic", 4), ("auc", 4), *in_full(("ridge", 4), ("softmax", 4), *((name, 1) for name in twin.MAPS))]


@pytest.mark.parametrize(("operator", "b"), CASES)
@pytest.mark.parametrize("method", list(METHODS))
def test_the_step_is_the_plain_twins(method, operator, b, unequal):
    """Nodes of 2, 5, 10 and 43 samples: blocks of 2, of 2 and 3, of 3 and 4, of 3 and 4."""
    problem = make_problem(operator, split=unequal)
    z0 = np.linspace(-0.2, 0.3, problem.dim)
    algorithm = METHODS[method](0.7 if method == "dsba" else 0.3, form="step", batch_size=b)
    samples = drawn(problem, b, 40)
    wanted = twin.run(method, operator, problem, TOPOLOGY, algorithm.step_size, samples, z0, b)
    assert relative(trajectory(algorithm, problem, Simulator(TOPOLOGY), samples, z0), wanted) < 1e-11


ONE = [("step", Simulator), ("dense", Simulator), ("lazy", Simulator), ("dense", MessageSimulator)]
ALL = [*ONE, ("lazy", MessageSimulator)]


@pytest.mark.parametrize(("operator", "forms"), [("logistic", ONE), *in_full(("logistic", ALL), ("auc", ALL))])
@pytest.mark.parametrize("method", list(METHODS))
def test_all_forms_are_the_plain_twins_and_count_what_moved(method, operator, forms, unequal):
    """Dense and lazy; nodes that replay the messages bit by bit, and lazy ones; sparse, cached and a small cache."""
    problem, b = make_problem(operator, split=unequal), 4
    z0 = np.linspace(-0.2, 0.3, problem.dim)
    alpha, samples = 0.7 if method == "dsba" else 0.3, drawn(problem, b, 40)

    def run(net, **options):
        return trajectory(METHODS[method](alpha, batch_size=b, **options), problem, net, samples, z0)

    for table, cache in (("zero", {}), ("full", {"communication": "cached", "cache_bytes": 3000})):
        wanted = twin.run(method, operator, problem, TOPOLOGY, alpha, samples, z0, b, table)
        dense = run(Simulator(TOPOLOGY), form="dense", table=table)
        assert relative(dense, wanted) < 1e-11
        messages = {"communication": "sparse", "table": table, **cache}
        nets = [network(TOPOLOGY) for _, network in forms]
        found = [run(net, form=form, **messages) for net, (form, _) in zip(nets, forms, strict=True)]
        assert all(relative(rows, wanted) < 1e-11 for rows in found)
        assert (found[1] == dense).all()
        assert (found[3] == dense).all()
        for net in nets[1:]:
            for counter in ("rounds", "doubles", "index_bytes", "bytes"):
                assert np.array_equal(getattr(net, counter), getattr(nets[0], counter)), counter


def test_blocks_of_one_sample_are_samples():
    """To rounding; ``batch_size=1`` itself runs the code of single samples (test_bits.py)."""
    problem = make_problem("logistic")
    single, batches, samples = problem.components, Batches(problem, 1), drawn(problem, 1, 1)[0]
    rng = np.random.default_rng(0)
    Z, D = rng.normal(size=(2, 4, problem.dim))
    for found, wanted in zip(batches.backward(samples, Z, D, 0.7), single.backward(samples, Z, D, 0.7), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
    assert (batches.forward(samples, Z) == single.forward(samples, Z)).all()


@pytest.mark.parametrize("operator", ["logistic", *in_full("ridge", "auc")])
def test_a_block_of_all_samples_is_p_extra(operator, unequal, monkeypatch):
    """P-EXTRA with local problems solved to rounding; by itself it solves them to a hundredth of what is left."""
    monkeypatch.setattr(p_extra, "LocalSolver", partial(LocalSolver, accuracy=1e-14))
    problem = make_problem(operator, split=unequal)
    options = {"step_size": 0.8, "max_passes": 31, "record_every": 1, "max_rounds": 30}
    ours = dsba.solve(problem, TOPOLOGY, "dsba", batch_size=43, **options)
    theirs = dsba.solve(problem, TOPOLOGY, "p-extra", **{**options, "max_passes": 1000})
    assert ours.history["rounds"][-1] == theirs.history["rounds"][-1] == 30
    assert relative(ours.Z, theirs.Z) < 1e-10


@pytest.mark.parametrize("operator", ["logistic", *in_full("softmax")])
def test_blocks_reach_the_optimum_at_the_automatic_step(operator, unequal):
    problem = make_problem(operator, split=unequal)
    for algorithm in (dsba.DSBA(batch_size=4), dsba.DSBA(batch_size="auto"), dsba.DSA(batch_size=4)):
        result = dsba.solve(problem, TOPOLOGY, algorithm, max_passes=3000, tol=1e-9)
        assert result.status == "converged", algorithm


def test_the_backward_step_of_a_block_at_any_step():
    """z + t B_S(z) = v for steps of 1e-6 to 1e6, where Newton without halving runs in circles."""
    problem = make_problem("logistic", n_nodes=1)
    batches, rng = problem.batches(30), np.random.default_rng(3)
    for t in 10.0 ** np.arange(-6, 7):
        Z, D = np.zeros((1, problem.dim)), 3 * rng.normal(size=(1, problem.dim))
        new, g = batches.backward(np.array([1]), Z, D, t)
        excess = new + t * (batches.spread(np.array([1]), g) + problem.lam_diag * new) - D
        assert np.abs(excess).max() < 1e-12 * max(1.0, t)
        np.testing.assert_allclose(batches.forward(np.array([1]), new), g, atol=1e-12)


def test_passes_and_rounds_are_counted(unequal):
    """Nodes of 2, 5, 10 and 43 in 1, 2, 3 and 11 blocks: a round touches 2 + 2.5 + 10/3 + 43/11 samples on average."""
    problem = make_problem("logistic", split=unequal)
    result = dsba.solve(problem, TOPOLOGY, "dsba", batch_size=4, replan=False, max_rounds=20, max_passes=None)
    touched = 2 + 2.5 + 10 / 3 + 43 / 11
    assert result.history["rounds"][-1] == 20
    assert result.passes == pytest.approx(1 + 20 * touched / 60)  # and a pass for the Gram matrices
    assert dsba.solve(problem, TOPOLOGY, "dsa", batch_size=4, max_rounds=20).passes == pytest.approx(touched / 3)


def test_chebyshev_mixing_takes_blocks():
    problem = make_problem("logistic")
    result = dsba.solve(problem, TOPOLOGY.chebyshev(2), "dsba", batch_size=5, replan=False, max_passes=500, tol=1e-10)
    assert result.status == "converged"
    assert result.history["rounds"][-1] == 2 * result.history["iteration"][-1]


@pytest.mark.parametrize("form", ["dense", "lazy"])
def test_a_stopped_run_goes_on_bit_by_bit(form, tmp_path):
    problem = make_problem("logistic")
    options = {"batch_size": 4, "form": form, "record_every": 0.5}
    whole = dsba.solve(problem, TOPOLOGY, "dsba", max_passes=9, **options)
    dsba.solve(problem, TOPOLOGY, "dsba", max_passes=4, checkpoint=tmp_path / "run", **options)
    resumed = dsba.solve(problem, TOPOLOGY, "dsba", max_passes=9, checkpoint=tmp_path / "run", **options)
    assert (resumed.Z == whole.Z).all()
    assert resumed.passes == whole.passes


def test_processes_have_the_bits_of_one(unequal):
    """Rows that meet through queues, step size and batch size planned together; messages of blocks likewise."""
    whole = make_problem("logistic", split=unequal)
    ends, rows = whole.start, whole.A.toarray()
    for options in ({"batch_size": 4}, {"batch_size": "auto"}, {"batch_size": 4, "communication": "cached"}):
        wanted = dsba.solve(whole, TOPOLOGY, "dsba", max_passes=6, form="dense", **options)

        def work(net, options=options):
            shards = [(rows[ends[n] : ends[n + 1]], whole.y[ends[n] : ends[n + 1]]) for n in net.nodes]
            problem = dsba.Problem(shards, "logistic", lam=0.05, group=net)
            return dsba.solve(problem, TOPOLOGY, "dsba", max_passes=6, form="dense", **options).Z

        assert (np.concatenate(queues.together(TOPOLOGY, 2, work)) == wanted.Z).all()


def test_other_methods_refuse_a_batch_size():
    problem = make_problem("ridge")
    with pytest.raises(dsba.InputError, match="option of extra 'batch_size'"):
        dsba.solve(problem, TOPOLOGY, "extra", batch_size=4)
    for wrong in (0, 2.5, "many"):
        with pytest.raises(dsba.InputError, match="batch_size"):
            dsba.solve(problem, TOPOLOGY, "dsba", batch_size=wrong)
