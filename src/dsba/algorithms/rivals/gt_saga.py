"""GT-SAGA: gradient tracking with a table of gradients (Xin, Khan and Kar, 2020)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dsba.algorithms.base import Algorithm
from dsba.algorithms.needs import Need, objective
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.types import Array, Indices


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

    name: ClassVar[str] = "gt-saga"
    needs: ClassVar[tuple[Need, ...]] = (objective,)
    factors: ClassVar[tuple[float, ...]] = (0.3, 1.0, 3.0)

    def init(self, problem: Problem, net: Network, z0: Array) -> GTSAGAState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        phi = problem.local.table(Z)
        mean = problem.local.average(phi)
        G = mean + problem.lam_diag * Z
        return GTSAGAState(Z, G, G, phi, mean)

    def step(self, s: GTSAGAState, problem: Problem, net: Network, samples: Indices) -> GTSAGAState:
        ids = problem.components.ids(samples)
        WZ, WY = np.hsplit(net.mix(np.hstack([s.Z, s.Y])), 2)
        Z = WZ - self.alpha * s.Y
        g = problem.components.forward(samples, Z)
        change = problem.components.spread(samples, g - s.phi[ids])
        G = change + s.mean + problem.lam_diag * Z
        phi = s.phi.copy()
        phi[ids] = g
        mean = s.mean + change / problem.sizes[:, None]
        return GTSAGAState(Z, WY + G - s.G, G, phi, mean, s.t + 1)

    def samples_per_step(self, problem: Problem) -> int:
        return problem.n_nodes

    def first_passes(self, problem: Problem) -> float:
        return 1.0  # the first table

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """ "auto": 1/(3 L), L the largest constant of a component with its share of the regulariser."""
        return {"auto": lambda: 1 / (3 * (problem.constants.L_plan + problem.lam))}
