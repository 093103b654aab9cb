"""EXTRA: against plain NumPy on dense data, and against SciPy's sparse products on News20-binary."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from scipy.special import expit

import dsba
from benchmarks.kernels import NEWS
from benchmarks.measure import Row, dataset, interleaved
from dsba.algorithms import EXTRA
from dsba.network import Simulator

TURN = 200  # iterations of one program before the other's turn: what it costs to come back to the data is not counted


class Iterations:
    """EXTRA under way; each call makes the same number of further iterations."""

    def __init__(self, problem: dsba.Problem, topology: dsba.Topology, count: int) -> None:
        self.problem, self.net = problem, Simulator(topology)
        self.algorithm = EXTRA().resolved(problem, topology)
        self.state = self.algorithm.init(problem, self.net, np.zeros(problem.dim))
        self.rows = np.zeros((count, problem.n_nodes), np.int64)
        self()

    def __call__(self) -> None:
        self.state = self.algorithm.advance(self.state, self.problem, self.net, self.rows)


def plain_numpy(
    X: np.ndarray, y: np.ndarray, W_tilde: np.ndarray, lam: float, alpha: float, count: int
) -> Callable[[], None]:
    """EXTRA for logistic regression with stacked matrices, as one would write it: X is N x q x d."""
    Z = Z_prev = B_prev = np.zeros((X.shape[0], X.shape[2]))

    def run() -> None:
        nonlocal Z, Z_prev, B_prev
        for _ in range(count):
            margins = y * np.matmul(X, Z[:, :, None])[:, :, 0]
            g = -y * expit(-margins) / X.shape[1]
            B = np.matmul(g[:, None, :], X)[:, 0, :] + lam * Z
            Z, Z_prev, B_prev = W_tilde @ (2 * Z - Z_prev) - alpha * (B - B_prev), Z, B

    return run


def against_numpy() -> list[Row]:
    """N = 10, q = 100, d = 1000, dense, logistic: CPU time per iteration."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 1000))
    problem = dsba.Problem.from_arrays(X, np.sign(X[:, 0]), "logistic", n_nodes=10)
    topology = dsba.Topology.random(10, 0.4, seed=0)
    ours = Iterations(problem, topology, TURN)
    stacked = problem.A.toarray().reshape(10, 100, 1000)
    labels = problem.y.reshape(10, 100)
    theirs = plain_numpy(stacked, labels, topology.W_tilde, problem.lam, ours.algorithm.alpha, TURN)
    theirs()
    spent = interleaved({"ours": ours, "numpy": theirs}, repeats=9, clock=time.process_time)
    ms = {name: seconds / TURN * 1e3 for name, seconds in spent.items()}
    note = f"{ms['ours']:.2f} ms against {ms['numpy']:.2f} ms of CPU per iteration"
    return [Row("EXTRA over plain NumPy, dense logistic", spent["ours"] / spent["numpy"], 0.5, note=note)]


def against_scipy() -> list[Row]:
    """News20-binary, logistic, N = 10: one iteration over A z and A' g by SciPy on the pooled data."""
    name, data = dataset("news20.binary", **NEWS)
    problem = dsba.Problem.from_arrays(*data, operator="logistic")
    ours = Iterations(problem, dsba.Topology.random(10, 0.4, seed=0), 3)
    rng = np.random.default_rng(0)
    z, g, transposed = rng.normal(size=problem.dim), rng.normal(size=problem.n_samples), problem.A.T

    def sweeps() -> None:
        for _ in range(3):
            problem.A @ z
            transposed @ g

    spent = interleaved({"ours": ours, "scipy": sweeps}, repeats=7)
    note = f"{spent['ours'] / 3 * 1e3:.0f} ms against {spent['scipy'] / 3 * 1e3:.0f} ms, both cores"
    return [Row(f"EXTRA over two SciPy sweeps, {name}", spent["ours"] / spent["scipy"], 1.5, note=note)]
