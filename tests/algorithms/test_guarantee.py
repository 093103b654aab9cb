"""The guarantee holds state by state (invariant 9): E H+ <= rate H with the expectation enumerated."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from conftest import make_data, make_problem

import dsba
from dsba.algorithms import sampling
from dsba.network import Simulator

GRAPHS = {
    "path": lambda: dsba.Topology.path(3),
    "star, metropolis": lambda: dsba.Topology.star(4, mixing="metropolis"),
    "complete": lambda: dsba.Topology.complete(3),
    "ring down to W = -I": lambda: dsba.Topology.ring(4, tau=2.0),
    "pair down to W = -I": lambda: dsba.Topology.path(2, tau=1.0),
}


class Lyapunov:
    """H = (1 + alpha lam) ||Z - Z*||^2_W~ + ||Q - Q*||^2 + (3 q alpha^2 / 4) D, and its rate; q blocks of ``b``."""

    def __init__(self, problem, topology, alpha, b=1):
        self.problem, self.alpha, self.q, self.b = problem, alpha, int(problem.sizes[0]) // b, b
        self.z_star = dsba.optimum(problem).z
        eigenvalues, vectors = np.linalg.eigh((np.eye(topology.n_nodes) - topology.W) / 2)
        root = np.sqrt(np.clip(eigenvalues, 0, None))
        self.U, self.W_tilde = vectors * root @ vectors.T, topology.W_tilde
        Z_star = np.tile(self.z_star, (topology.n_nodes, 1))
        self.table = problem.local.table(Z_star)
        self.Q_star = -alpha * np.linalg.pinv(self.U, rcond=1e-8) @ problem.local_operator(Z_star)
        self.norms = problem.squared_norms()
        lam, gamma = problem.lam, topology.gamma
        self.rate = max(1 / (1 + alpha * lam), 1 - gamma / 8, 1 - 1 / (3 * self.q))

    def __call__(self, Z, Q, phi):
        e = Z - self.z_star
        if self.b == 1:
            D = 2 / self.q * np.sum(self.norms * (phi - self.table) ** 2)
        else:  # B_S is the mean of the block, as all blocks have b samples
            changes = self.problem.A.toarray() * (phi - self.table) / self.b
            D = 2 / self.q * np.sum(changes.reshape(-1, self.b, self.problem.dim).sum(axis=1) ** 2)
        H = (1 + self.alpha * self.problem.lam) * np.sum(e * (self.W_tilde @ e))
        return H + np.sum((Q - self.Q_star) ** 2) + 0.75 * self.q * self.alpha**2 * D


@pytest.mark.parametrize("operator", ["ridge", "logistic", "squared-hinge", "huber"])
@pytest.mark.parametrize("graph", list(GRAPHS))
def test_expected_lyapunov_function_contracts(graph, operator):
    topology = GRAPHS[graph]()
    n_nodes, q = topology.n_nodes, 3
    X, y = make_data(operator, rows=n_nodes * q, columns=4, density=0.8, seed=2)
    problem = dsba.Problem.from_arrays(X, y, operator, n_nodes=n_nodes, lam=0.02)
    algorithm = dsba.DSBA("proved", form="step").resolved(problem, topology)
    net = Simulator(topology)
    H = Lyapunov(problem, topology, algorithm.step_size)
    state = algorithm.init(problem, net, np.zeros(problem.dim))
    Q = H.U @ state.Z
    for samples in sampling.draw(1, problem.sizes, 0, 25):
        now = H(state.Z, Q, state.phi)
        after = []
        for choice in product(range(q), repeat=n_nodes):
            new = algorithm.step(state, problem, net, np.array(choice))
            after.append(H(new.Z, Q + H.U @ new.Z, new.phi))
        assert np.mean(after) <= H.rate * now * (1 + 1e-12)
        state = algorithm.step(state, problem, net, samples)
        Q = Q + H.U @ state.Z
    assert now < 0.9 * H(np.zeros_like(state.Z), 0 * Q, 0 * state.phi)  # it went somewhere


@pytest.mark.parametrize("operator", ["ridge", "logistic"])
def test_the_guarantee_holds_for_blocks(operator):
    """Three blocks of two samples a node, alpha = 1/L_S."""
    topology, b, q = dsba.Topology.path(3), 2, 3
    X, y = make_data(operator, rows=18, columns=4, density=0.8, seed=2)
    problem = dsba.Problem.from_arrays(X, y, operator, n_nodes=3, lam=0.02)
    algorithm, net = dsba.DSBA("proved", form="step", batch_size=b).resolved(problem, topology), Simulator(topology)
    assert algorithm.step_size > 1.05 * dsba.DSBA("proved").resolved(problem, topology).step_size
    H = Lyapunov(problem, topology, algorithm.step_size, b)
    state = algorithm.init(problem, net, np.zeros(problem.dim))
    Q = H.U @ state.Z
    for samples in sampling.draw(1, [q] * 3, 0, 8):
        now = H(state.Z, Q, state.phi)
        choices = [algorithm.step(state, problem, net, np.array(c)) for c in product(range(q), repeat=3)]
        after = [H(new.Z, Q + H.U @ new.Z, new.phi) for new in choices]
        assert np.mean(after) <= H.rate * now * (1 + 1e-12)
        state = algorithm.step(state, problem, net, samples)
        Q = Q + H.U @ state.Z


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (lambda: make_problem("ridge", lam=0.0), "lambda is 0"),
        (lambda: make_problem("ridge", intercept=True), "does not act on every coordinate"),
        (lambda: make_problem("auc", regularize="all"), "not cocoercive"),
    ],
)
def test_proved_is_refused_where_nothing_is_proved(problem, reason):
    with pytest.raises(dsba.InputError, match=reason):
        dsba.DSBA("proved").resolved(problem(), dsba.Topology.ring(4))
