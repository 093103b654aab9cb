"""Blocks of samples as components (``batch_size``), and DSBA and DSA for several nodes, against a plain twin."""

from __future__ import annotations

import numpy as np
import pytest
import twin
from conftest import make_problem

import dsba
from dsba import sampling
from dsba.algorithms.blocks import counts
from dsba.network import MessageSimulator, Simulator

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


@pytest.mark.parametrize("b", [1, 4])
@pytest.mark.parametrize("operator", list(twin.MAPS))
@pytest.mark.parametrize("method", list(METHODS))
def test_the_step_is_the_plain_twins(method, operator, b, unequal):
    """Nodes of 2, 5, 10 and 43 samples: blocks of 2, of 2 and 3, of 3 and 4, of 3 and 4."""
    problem = make_problem(operator, split=unequal)
    z0 = np.linspace(-0.2, 0.3, problem.dim)
    algorithm = METHODS[method](0.7 if method == "dsba" else 0.3, form="step", batch_size=b)
    samples = drawn(problem, b, 40)
    wanted = twin.run(method, operator, problem, TOPOLOGY, algorithm.step_size, samples, z0, b)
    assert relative(trajectory(algorithm, problem, Simulator(TOPOLOGY), samples, z0), wanted) < 1e-11


@pytest.mark.parametrize("operator", ["logistic", "auc"])
@pytest.mark.parametrize("method", list(METHODS))
def test_all_forms_are_the_plain_twins_and_count_what_moved(method, operator, unequal):
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
        nets = [cls(TOPOLOGY) for cls in (Simulator, Simulator, Simulator, MessageSimulator, MessageSimulator)]
        forms = ("step", "dense", "lazy", "dense", "lazy")
        found = [run(net, form=form, **messages) for net, form in zip(nets, forms, strict=True)]
        assert all(relative(rows, wanted) < 1e-11 for rows in found)
        assert (found[1] == dense).all()
        assert (found[3] == dense).all()
        for net in nets[1:]:
            for counter in ("rounds", "doubles", "index_bytes", "bytes"):
                assert np.array_equal(getattr(net, counter), getattr(nets[0], counter)), counter
