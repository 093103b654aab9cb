"""SAGA (Defazio, Bach and Lacoste-Julien, 2014) and Point-SAGA (Defazio, 2016), for one node.

Written independently of DSA and DSBA, whose references they are for N = 1.
"""

from dataclasses import dataclass

import numpy as np

from dsba.algorithms.base import Algorithm, Array, Indices, Network, Problem, State, Topology
from dsba.algorithms.needs import one_node
from dsba.algorithms.step_rules import practical_step


@dataclass
class TableState(State):
    """Z (1 x p), the table phi (Q x k coefficients) and the mean of its entries (1 x p)."""

    phi: Array
    mean: Array


@dataclass(frozen=True)
class OneTable(Algorithm):
    """Base of the two: one sample an iteration, and a table phi that starts at 0."""

    needs = (one_node,)

    def init(self, problem: Problem, net: Network, z0: Array) -> TableState:
        return TableState(z0[None, :].copy(), np.zeros((problem.n_samples, problem.k)), np.zeros((1, problem.dim)))

    def samples_per_step(self, problem: Problem) -> int:
        return 1

    def entered(self, s: TableState, problem: Problem, i: Indices, g: Array, Z: Array) -> TableState:
        """phi_i <- g, and the mean with it; Z is the next iterate."""
        phi = s.phi.copy()
        phi[i] = g
        mean = s.mean + problem.components.spread(i, g - s.phi[i]) / problem.n_samples
        return TableState(Z, phi, mean, t=s.t + 1)


@dataclass(frozen=True)
class PointSAGA(OneTable):
    """A proximal step on one sample i and the regulariser, corrected by the table.

    z+    = J_{alpha (B_i + Lambda)} (z + alpha (phi_i - mean of phi))
    phi_i <- B_i(z+)
    """

    name = "point-saga"

    def step(self, s: TableState, problem: Problem, net: Network, samples: Indices) -> TableState:
        alpha, i = self.alpha, samples
        correction = problem.components.spread(i, s.phi[i]) - s.mean
        # the resolvent's argument less (1 + alpha Lambda) z, as ``backward`` wants it
        Z, g = problem.components.backward(i, s.Z, alpha * (correction - problem.lam_diag * s.Z), alpha)
        return self.entered(s, problem, i, g, Z)

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """DSBA's, which is near Defazio's where L/mu is far above q."""
        return practical_step(problem, topology)


@dataclass(frozen=True)
class SAGA(OneTable):
    """A forward step on one sample i, corrected by the table; the regulariser outside the table.

    z+    = z - alpha (B_i(z) - phi_i + mean of phi + Lambda z)
    phi_i <- B_i(z)
    """

    name = "saga"

    def step(self, s: TableState, problem: Problem, net: Network, samples: Indices) -> TableState:
        i = samples
        g = problem.components.forward(i, s.Z)
        Z = s.Z - self.alpha * (problem.components.spread(i, g - s.phi[i]) + s.mean + problem.lam_diag * s.Z)
        return self.entered(s, problem, i, g, Z)

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """1/(3 L), L the largest constant of a component with its share of the regulariser."""
        return 1 / (3 * (problem.constants.L_plan + problem.lam))
