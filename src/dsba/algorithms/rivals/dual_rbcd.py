"""Random block coordinate descent on the dual, along one edge at a time (Necoara, Nesterov and Glineur, 2017)."""

from dataclasses import dataclass

import numpy as np

from dsba.algorithms.base import NO_COINS, Array, Indices, Network, Problem, Topology, WithCoins
from dsba.algorithms.needs import edges, local_solutions, objective, strong_convexity
from dsba.algorithms.rivals.inner_solver import InnerSolver, InnerState
from dsba.algorithms.rivals.one_edge import edge_of, swapped
from dsba.solvers.local import LocalSolver


@dataclass
class BlockState(InnerState):
    """Z (the theta of the formula), and the dual variables x (N x p), whose sum is 0."""

    x: Array


@dataclass(frozen=True)
class DualRBCD(WithCoins, InnerSolver):
    """The two ends of a random edge (m, n) exchange their local solutions and trade dual variables.

        theta_n = grad f_n*(x_n),   the minimiser of f_n(theta) - x_n'theta
        x_n    <- x_n - eta (theta_n - theta_m),      x_m <- x_m + eta (theta_n - theta_m)

    Start: x = 0, so the theta_n are the local minimisers; z0 is the inner solver's first guess. The paper's method
    with blocks of two nodes. ``step_size`` is eta, in the paper 1/(1/mu_n + 1/mu_m), mu_n the strong convexity of f_n.
    """

    name = "dual-rbcd"
    exact_links = "it hands vectors along one edge, whose two ends must change by the same amount"
    needs = (edges, objective, local_solutions, strong_convexity)
    factors = (1.0, 3.0, 10.0)

    def init(self, problem: Problem, net: Network, z0: Array) -> BlockState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        solver, x = LocalSolver(problem, 0.0), np.zeros_like(Z)
        first, begun = solver.begin(Z)
        minimisers, touched = solver.solve(x, first)
        return BlockState(*minimisers, solver, x, touched=solver.touched + begun + touched)

    def step(
        self, s: BlockState, problem: Problem, net: Network, samples: Indices, coins: Array = NO_COINS
    ) -> BlockState:
        edge, first = edge_of(net.topology, coins[0]), net.nodes.start
        heard = swapped(net, edge, {n: s.Z[n - first].tobytes() for n in edge if n in net.nodes})
        x, received = s.x.copy(), np.zeros(len(net.nodes))
        for n, frame in heard.items():
            x[n - first] -= self.alpha * (s.Z[n - first] - np.frombuffer(frame))
            received[n - first] = problem.dim
        net.count(0, received, 0, 0)
        ends = [n - first for n in edge if n in net.nodes]  # they solve whether or not the link carried anything
        solution, touched = s.solver.solve(x, s.solution, ends)
        return BlockState(*solution, s.solver, x, t=s.t + 1, touched=s.touched + touched)

    def row_work(self, s: BlockState, problem: Problem, net: Network) -> float:
        """The rows of the two ends of an edge."""
        return s.t * 2 * problem.dim / problem.sweep

    def samples_per_step(self, problem: Problem) -> int:
        return max(1, 2 * problem.n_samples // problem.n_nodes)

    def nominal_passes(self, s: BlockState, problem: Problem) -> float:
        return 2 * s.t / problem.n_nodes

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """lam/2, the paper's with lambda for the strong convexity of every node."""
        return 0.5 * problem.lam
