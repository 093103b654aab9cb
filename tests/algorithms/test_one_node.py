"""With N = 1, DSBA is Point-SAGA and DSA is SAGA (invariant 4): independent plain versions, same indices."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_problem
from scipy.optimize import brentq

import dsba
from dsba.algorithms import sampling
from dsba.network import Simulator

GRADIENT = {
    "ridge": lambda u, y: u - y,
    "logistic": lambda u, y: -y / (1.0 + np.exp(y * u)),
    "squared-hinge": lambda u, y: -2.0 * y * max(0.0, 1.0 - y * u),
    "huber": lambda u, y: np.clip(u - y, -1.35, 1.35),
    "poisson": lambda u, y: np.exp(u) - y,
}


def point_saga(X, y, g, lam, alpha, samples, x):
    """Defazio (2016), the regulariser in the proximal step: x+ = prox(x + alpha (phi_i - mean phi))."""
    table = np.zeros_like(X)
    for i in samples:
        v = (x + alpha * (table[i] - table.mean(axis=0))) / (1 + alpha * lam)
        t, a = alpha / (1 + alpha * lam), X[i]
        s, b = a @ a, a @ v
        u = brentq(lambda u: u - b + t * s * g(u, y[i]), -50.0, 50.0, xtol=1e-15, rtol=1e-15)  # noqa: B023
        table[i] = g(u, y[i]) * a
        x = v - t * table[i]
    return x


def saga(X, y, g, lam, alpha, samples, x):
    """Defazio, Bach and Lacoste-Julien (2014): x+ = x - alpha (g_i - phi_i + mean phi + lam x)."""
    table = np.zeros_like(X)
    for i in samples:
        new = g(X[i] @ x, y[i]) * X[i]
        x = x - alpha * (new - table[i] + table.mean(axis=0) + lam * x)
        table[i] = new
    return x


@pytest.mark.parametrize("form", ["step", "dense", "lazy"])
@pytest.mark.parametrize("operator", list(GRADIENT))
@pytest.mark.parametrize(("method", "twin"), [(dsba.DSBA, point_saga), (dsba.DSA, saga)])
def test_one_node_equals_the_classic_method(method, twin, operator, form):
    problem = make_problem(operator, n_nodes=1)
    topology = dsba.Topology.complete(1)
    algorithm = method(form=form).resolved(problem, topology)
    samples = sampling.draw(5, problem.sizes, 0, 500)
    z0 = np.linspace(-0.5, 0.5, problem.dim)
    net = Simulator(topology)
    state = algorithm.advance(algorithm.init(problem, net, z0), problem, net, samples)
    X = problem.A.toarray()
    expected = twin(X, problem.y, GRADIENT[operator], problem.lam, algorithm.step_size, samples[:, 0], z0)
    assert np.abs(state.Z[0] - expected).max() < 1e-11 * np.abs(expected).max()
    assert net.doubles.tolist() == [0.0]


@pytest.mark.parametrize("method", ["dsba", "extra", "gt-saga", "saga", "newton"])
def test_one_node_has_no_rounds(method):
    problem = make_problem("logistic", 1)
    history = dsba.solve(problem, dsba.Topology.ring(1), method, max_passes=3).history
    assert history["rounds"][-1] == history["doubles_max"][-1] == 0
