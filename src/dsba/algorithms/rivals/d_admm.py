"""D-ADMM: decentralised alternating direction method of multipliers (Shi, Ling, Yuan, Wu and Yin, 2014)."""

import math
from dataclasses import dataclass

import numpy as np

from dsba.algorithms.base import Array, Indices, Network, Problem, Topology
from dsba.algorithms.needs import local_solutions, objective, strong_convexity
from dsba.algorithms.rivals.inner_solver import InnerSolver, InnerState
from dsba.solvers.local import LocalSolver


@dataclass
class ADMMState(InnerState):
    """Z, LZ = L_G Z, and the multipliers phi (N x p)."""

    LZ: Array
    phi: Array


def alone(problem: Problem, net: Network) -> str | None:
    """A single node has no neighbours whose terms would make its objective strongly convex."""
    return strong_convexity(problem, net) if problem.n_nodes == 1 else None


@dataclass(frozen=True)
class DADMM(InnerSolver):
    """Each node minimises its objective, held near the midpoints between itself and its neighbours.

        z_n+   = argmin f_n(z) + phi_n'z + c sum_m ||z - (z_n + z_m)/2||^2,   m the neighbours of n
        phi_n+ = phi_n + c sum_m (z_n+ - z_m+)

    Start: phi = 0. ``step_size`` is c, the penalty and the step of the multipliers. With L_G the graph
    Laplacian, the first line is  grad f_n(z_n+) + 2 c deg_n z_n+ = c (2 deg_n z_n - (L_G Z)_n) - phi_n.
    """

    name = "d-admm"
    needs = (objective, local_solutions, alone)
    factors = (0.3, 1.0, 3.0, 10.0)

    def init(self, problem: Problem, net: Network, z0: Array) -> ADMMState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        solver = LocalSolver(problem, 2 * self.alpha * net.degrees)
        first, touched = solver.begin(Z)
        return ADMMState(*first, solver, np.zeros_like(Z), np.zeros_like(Z), touched=solver.touched + touched)

    def step(self, s: ADMMState, problem: Problem, net: Network, samples: Indices) -> ADMMState:
        c, degrees = self.alpha, net.degrees[:, None]
        solution, touched = s.solver.solve(c * (2 * degrees * s.Z - s.LZ) - s.phi, s.solution)
        LZ = net.laplacian(solution.Z)
        return ADMMState(*solution, s.solver, LZ, s.phi + c * LZ, t=s.t + 1, touched=s.touched + touched)

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """sqrt(mu L / (4 deg l)), deg the largest degree, l the least nonzero eigenvalue of L_G.

        The c of Shi et al.'s best rate but for the constant, which like P-EXTRA's is a compromise.
        """
        mu, L = problem.constants.mu, float(problem.local_smoothness.max())
        return math.sqrt(mu * L / (4 * max(1, topology.degrees.max()) * topology.graph.connectivity))
