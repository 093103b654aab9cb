"""SSDA: accelerated gradient ascent on the dual (Scaman, Bach, Bubeck, Lee and Massoulie, ICML 2017)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dsba.algorithms.needs import Need, local_solutions, objective, strong_convexity
from dsba.algorithms.rivals.inner_solver import InnerSolver, InnerState
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.solvers.local import LocalSolver
from dsba.types import Array, Indices


@dataclass
class SSDAState(InnerState):
    """Z (the theta of the formula), the dual points x, y (N x p), and the samples touched so far."""

    x: Array
    y: Array
    momentum: float = field(metadata={"static": True})
    t: int = 0
    touched: float = 0.0


@dataclass(frozen=True)
class SSDA(InnerSolver):
    """Nesterov's method for the dual variables of consensus.

        theta_n = grad f_n*(x_n),   the minimiser of f_n(theta) - x_n'theta
        y+      = x - eta Lap theta,      Lap = I - W
        x+      = y+ + m (y+ - y),        m = (1 - sqrt(eta l1/L)) / (1 + sqrt(eta l1/L))

    Start: x = y = 0, so the first theta_n are the local minimisers; z0 is only the inner solver's first
    guess. The dual is l2/mu-smooth and l1/L-strongly convex, l1 and l2 the extreme nonzero eigenvalues
    of Lap, L and mu the local objectives' smoothness and convexity. ``step_size`` is eta; with mu/l2, and
    no more is stable unless the data adds to mu, m is the paper's momentum.
    """

    name: ClassVar[str] = "ssda"
    needs: ClassVar[tuple[Need, ...]] = (objective, local_solutions, strong_convexity)
    factors: ClassVar[tuple[float, ...]] = (0.3, 1.0, 3.0, 10.0)

    def init(self, problem: Problem, net: Network, z0: Array) -> SSDAState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        L = problem.local_smoothness.max() + problem.lam
        root = np.sqrt(self.alpha * self.spectrum(net.topology)[0] / L)
        solver, x = LocalSolver(problem, 0.0), np.zeros_like(Z)
        first, touched = solver.begin(Z)
        return SSDAState(*first, solver, x, x, (1 - root) / (1 + root), touched=solver.touched + touched)

    def step(self, s: SSDAState, problem: Problem, net: Network, samples: Indices) -> SSDAState:
        eta = self.alpha
        theta, touched = s.solver.solve(s.x, s.solution)
        y = s.x - eta * self.gossip(theta.Z, net)
        x = y + s.momentum * (y - s.y)
        return SSDAState(*theta, s.solver, x, y, s.momentum, s.t + 1, s.touched + touched)

    def gossip(self, Z: Array, net: Network) -> Array:
        """Lap Z."""
        return 2 * net.differences(Z)

    def spectrum(self, topology: Topology) -> tuple[float, float]:
        """The smallest and the largest nonzero eigenvalue of what ``gossip`` multiplies with."""
        return laplacian_spectrum(topology)

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """ "auto": the paper's mu/l2, one over the smoothness of the dual."""
        return {"auto": lambda: problem.lam / self.spectrum(topology)[1]}


def laplacian_spectrum(topology: Topology) -> tuple[float, float]:
    """The smallest and the largest nonzero eigenvalue of I - W; 1 for a single node, which has none."""
    if topology.n_nodes == 1:
        return 1.0, 1.0
    return 2.0 * topology.gamma, 2.0 * (1.0 - float(topology.eigenvalues[-1]))
