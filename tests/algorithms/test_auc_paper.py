"""AUC with the paper's own components, SOLAM as published, and DLM on AUC."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import also_in_full, make_data

import dsba
from dsba.algorithms import sampling
from dsba.network import Simulator
from dsba.operators import AUC

RING = dsba.Topology.ring(4)


def paper_problem(n_nodes=4, lam=0.05, **options):
    X, y = make_data("auc")
    return dsba.Problem.from_arrays(X, y, AUC(centered=False), n_nodes=n_nodes, lam=lam, **options)


def as_printed(p, x, y, w, a, b, theta):
    """B_{n,i} on (w, a, b, theta), the formulas of the paper."""
    s = x @ w
    if y > 0:
        return np.concatenate([
            2 * (1 - p) * ((s - a) - (1 + theta)) * x,
            [-2 * (1 - p) * (s - a), 0.0, 2 * p * (1 - p) * theta + 2 * (1 - p) * s],
        ])  # fmt: skip
    return np.concatenate([
        2 * p * ((s - b) + (1 + theta)) * x,
        [0.0, -2 * p * (s - b), 2 * p * (1 - p) * theta - 2 * p * s],
    ])  # fmt: skip


def test_the_components_are_those_printed():
    problem = paper_problem(n_nodes=1)
    rng, X = np.random.default_rng(1), problem.A[::3].toarray()[:, :-3]
    for i in range(60):
        z = rng.normal(size=problem.dim)
        samples = np.array([i])
        found = problem.components.spread(samples, problem.components.forward(samples, z[None]))[0]
        wanted = as_printed(problem.component.p, X[i], problem.y[i], z[:-3], *z[-3:])
        np.testing.assert_allclose(found, wanted, atol=1e-14)


def test_their_backward_step_at_any_step():
    problem = paper_problem(n_nodes=1)
    rng = np.random.default_rng(2)
    for t in 10.0 ** np.arange(-6, 9, 2):
        for i in rng.integers(60, size=20):
            samples, D = np.array([i]), rng.normal(size=(1, problem.dim))
            new, g = problem.components.backward(samples, np.zeros((1, problem.dim)), D, t)
            excess = new + t * (problem.components.spread(samples, g) + problem.lam_diag * new) - D
            assert np.abs(excess).max() < 1e-12 * max(1.0, np.abs(t * g).max())
            assert np.abs(problem.components.forward(samples, new) - g).max() < 1e-12


def test_the_solution_is_that_of_centred_components(unequal):
    """The pooled operator is the same, the local ones are not."""
    X, y = make_data("auc")
    ours, theirs = (dsba.Problem.from_arrays(X, y, op, lam=0.05, split=unequal) for op in (AUC(), AUC(centered=False)))
    z = np.linspace(-1, 1, ours.dim)
    np.testing.assert_allclose(ours.pooled.operator(z), theirs.pooled.operator(z), atol=1e-14)
    Z = np.tile(z, (4, 1))
    assert np.abs(ours.local_operator(Z) - theirs.local_operator(Z)).max() > 1e-2
    found = [dsba.optimum(problem) for problem in (ours, theirs)]
    assert max(optimum.residual for optimum in found) < 1e-12
    np.testing.assert_allclose(found[0].z, found[1].z, atol=1e-10)


@pytest.mark.parametrize("method", also_in_full(["dsba", "newton"], ["dsba", "dsa", "extra", "p-extra", "newton"]))
def test_methods_reach_it(method, unequal):
    problem = paper_problem(lam=0.1, split=unequal)
    z_star = dsba.optimum(problem).z
    result = dsba.solve(problem, RING, method, max_passes=20_000, tol=1e-8, reference=z_star, record_every=50)
    assert result.status == "converged"
    assert result.history["distance"][-1] < 1e-5


def test_dlm_converges_on_auc():
    """Against the paper, which says that it does not."""
    X, y = make_data("auc")
    problem = dsba.Problem.from_arrays(X, y, "auc", n_nodes=4, lam=0.1)
    z_star = dsba.optimum(problem).z
    result = dsba.solve(problem, RING, "dlm", force=True, max_passes=20_000, tol=1e-8, reference=z_star)
    assert result.status == "converged"
    assert result.history["distance"][-1] < 1e-5


def test_solam_as_published():
    """Ying, Wen and Lyu (2016): p estimated as samples come in, projections in place of lambda."""
    problem, R = paper_problem(n_nodes=1, lam=0.3), 2.0
    X, y = problem.A[::3].toarray()[:, :-3], problem.y
    kappa = np.linalg.norm(X, axis=1).max()
    algorithm, net = dsba.algorithms.get("solam", step_size=0.5, radius=R), Simulator(dsba.Topology.complete(1))
    state = algorithm.init(problem, net, np.zeros(problem.dim))
    z, mean, total, positives = np.zeros(problem.dim), np.zeros(problem.dim), 0.0, 0
    for t, row in enumerate(sampling.draw(4, problem.sizes, 0, 200)):
        state = algorithm.step(state, problem, net, row)
        i, gamma = row[0], 0.5 / np.sqrt(t + 1)
        mean, total = mean + gamma * z, total + gamma
        positives += y[i] > 0
        z = z - gamma * as_printed(positives / (t + 1), X[i], y[i], z[:-3], *z[-3:])
        z[:-3] *= R / max(R, np.linalg.norm(z[:-3]))
        z[-3:] = np.clip(z[-3:], [-R * kappa, -R * kappa, -2 * R * kappa], [R * kappa, R * kappa, 2 * R * kappa])
    np.testing.assert_allclose(state.Z[0], mean / total, atol=1e-12)
