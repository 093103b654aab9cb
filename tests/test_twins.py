"""The updates of the rivals against plain twins: matrices and loops, written from the papers' equations.

A twin knows the data as dense arrays, W as a matrix, and the numbers that were drawn; nothing of the library's kernels,
networks or states.
"""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_problem

import dsba
from dsba import sampling
from dsba.network import Simulator

ITERATIONS = 40
TOPOLOGIES = [dsba.Topology.star(4), dsba.Topology.path(4, mixing="metropolis")]


class Dense:
    """The problem as arrays: local gradients c_n (1/q_n) sum of l'(x'z) x + lam z, sample by sample."""

    def __init__(self, problem, topology):
        self.N, self.lam, self.p = problem.n_nodes, problem.lam, problem.dim
        self.X, self.y, self.start = problem.A.toarray(), problem.y, problem.start
        self.q = np.diff(self.start)
        self.L = problem.local_smoothness.max() + self.lam  # a parameter, as the step size is
        self.c = self.N * self.q / self.q.sum()
        self.logistic = type(problem.component).__name__ == "Logistic"
        self.W, self.W_tilde = topology.W, (np.eye(self.N) + topology.W) / 2
        self.Lap = np.eye(self.N) - topology.W

    def derivative(self, i, u):
        return -self.y[i] / (1 + np.exp(self.y[i] * u)) if self.logistic else u - self.y[i]

    def sample(self, n, i, z):
        """c_n times the gradient of the loss of sample i of node n."""
        row = self.start[n] + i
        return self.c[n] * self.derivative(row, self.X[row] @ z) * self.X[row]

    def gradient(self, Z):
        means = [sum(self.sample(n, i, Z[n]) for i in range(self.q[n])) / self.q[n] for n in range(self.N)]
        return np.array(means) + self.lam * Z


def nids(d, alpha, X, draws):
    """Li, Shi and Yan, with the bracket's old gradient taken for zero at first."""
    Z, X_prev, G_prev = X, X, np.zeros_like(X)
    for _ in draws:
        G = d.gradient(X)
        Z = Z - X + d.W_tilde @ (2 * X - X_prev - alpha * G + alpha * G_prev)
        X, X_prev, G_prev = Z, X, G
    return X


def papc(d, eta, X, draws, P):
    """Kovalev, Salim and Richtarik, with the gossip matrix P."""
    mu, tau = d.lam, min(1.0, 1 / (4 * eta * d.L))
    theta = 1 / (eta * np.linalg.eigvalsh(P).max())
    Xf, Y = X, np.zeros_like(X)
    for _ in draws:
        Xg = tau * X + (1 - tau) * Xf
        g = d.gradient(Xg) - mu * Xg
        Xh = (X - eta * (g + Y)) / (1 + eta * mu)
        Y = Y + theta * P @ Xh
        X_new = (X - eta * (g + Y)) / (1 + eta * mu)
        Xf = Xg + 2 * tau / (2 - tau) * (X_new - X)
        X = X_new
    return Xf


def apapc(d, eta, X, draws):
    return papc(d, eta, X, draws, d.Lap)


def opapc(d, eta, X, draws):
    values, vectors = np.linalg.eigh(d.Lap)
    l1, l2 = values[1], values[-1]
    K, c2, c3 = int(np.sqrt(l2 / l1)), (l2 + l1) / (l2 - l1), 2 / (l1 + l2)
    T = np.polynomial.chebyshev.Chebyshev.basis(K)
    return papc(d, eta, X, draws, vectors @ np.diag(1 - T(c2 * (1 - c3 * values)) / T(c2)) @ vectors.T)


def gt_saga(d, alpha, X, draws):
    """Xin, Khan and Kar: every entry of the table is a whole gradient."""
    table = [[d.sample(n, i, X[n]) for i in range(d.q[n])] for n in range(d.N)]
    v = Y = d.gradient(X)
    for samples in draws:
        X = d.W_tilde @ X - alpha * Y
        v_old, v = v, np.empty_like(X)
        for n, i in enumerate(samples):
            new = d.sample(n, i, X[n])
            v[n] = new - table[n][i] + np.mean(table[n], axis=0) + d.lam * X[n]
            table[n][i] = new
        Y = d.W_tilde @ Y + v - v_old
    return X


TWINS = {"nids": nids, "apapc": apapc, "opapc": opapc, "gt-saga": gt_saga}


def ours(name, problem, topology, z0, draws, **options):
    """The iterates of the registered method, with these draws."""
    method = dsba.algorithms.get(name, **options).resolved(problem, topology)
    net = Simulator(topology)
    return method, method.advance(method.init(problem, net, z0), problem, net, *draws)


@pytest.mark.parametrize("operator", ["ridge", "logistic"])
@pytest.mark.parametrize("name", TWINS)
def test_equals_its_twin(name, operator, unequal):
    problem = make_problem(operator, 4, split=unequal)
    for topology in TOPOLOGIES:
        z0 = np.linspace(-0.5, 0.5, problem.dim)
        draws = sampling.draw(3, problem.sizes, 0, ITERATIONS)
        method, state = ours(name, problem, topology, z0, (draws,))
        expected = TWINS[name](Dense(problem, topology), method.alpha, np.tile(z0, (4, 1)), draws)
        assert np.abs(method.rows(state) - expected).max() < 1e-10 * np.abs(expected).max()
