"""GT-SAGA: gradient tracking with a table of gradients (Xin, Khan and Kar, 2020)."""

from dataclasses import dataclass

import numpy as np

from dsba.algorithms.base import Algorithm, Array, Indices, Network, Problem, Topology
from dsba.algorithms.needs import objective


@dataclass
class GTSAGAState:
    """Z, the trackers Y, the estimates G (N x p each), the table phi (Q x k) and the mean of its entries (N x p)."""

    Z: Array
    Y: Array
    G: Array
    phi: Array
    mean: Array
    t: int = 0


@dataclass(frozen=True)
class GTSAGA(Algorithm):
    """Every node follows a tracker of the mean over all nodes of SAGA's estimates (Algorithm 1 of the paper).

        Z+    = W~ Z - alpha Y
        G+    = B_i(Z+) - phi_i + mean of phi + Lambda Z+,      phi_i <- B_i(Z+)
        Y+    = W~ Y + G+ - G

    Start: phi = B(z0), Y = G = B(z0) + Lambda z0, which is one pass over the data. Z and Y travel in one message. The
    paper wants a primitive doubly stochastic matrix, and W~ is one wherever W is a mixing matrix.
    """

    name = "gt-saga"
    rows_mixed, rows_updated = 2, 6
    needs = (objective,)
    factors = (0.3, 1.0, 3.0)

    def init(self, problem: Problem, net: Network, z0: Array) -> GTSAGAState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        phi = problem.local.table(Z)
        mean = problem.local.average(phi)
        G = mean + problem.lam_diag * Z
        return GTSAGAState(Z, G, G, phi, mean)

    def step(self, s: GTSAGAState, problem: Problem, net: Network, samples: Indices) -> GTSAGAState:
        WZ, WY = np.hsplit(net.mix(np.hstack([s.Z, s.Y])), 2)
        Z = WZ - self.alpha * s.Y
        G, phi, mean = self.estimated(s, problem, samples, Z)
        return GTSAGAState(Z, WY + G - s.G, G, phi, mean, s.t + 1)

    def estimated(self, s: GTSAGAState, problem: Problem, samples: Indices, Z: Array) -> tuple[Array, Array, Array]:
        """SAGA's estimates G at Z, and the table and its means with the samples' new entries."""
        ids, g = problem.components.ids(samples), problem.components.forward(samples, Z)
        change = problem.components.spread(samples, g - s.phi[ids])
        phi = s.phi.copy()
        phi[ids] = g
        return change + s.mean + problem.lam_diag * Z, phi, s.mean + change / problem.sizes[:, None]

    def samples_per_step(self, problem: Problem) -> int:
        return problem.n_nodes

    def first_passes(self, problem: Problem) -> float:
        return 1.0  # the first table

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """1/(3 L), L the largest constant of a component with its share of the regulariser."""
        return 1 / (3 * (problem.constants.L_plan + problem.lam))
