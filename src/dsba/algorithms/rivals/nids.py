"""NIDS: network-independent step sizes (Li, Shi and Yan, 2019), for smooth and for composite problems."""

from dataclasses import dataclass

import numpy as np

from dsba.algorithms.base import Algorithm, Array, Indices, Network, Problem, State, Topology
from dsba.algorithms.needs import objective
from dsba.algorithms.rivals.extra import smoothness


@dataclass
class NIDSState(State):
    """Z, the points V before the proximal map, the corrections P (N x p each)."""

    V: Array
    P: Array


@dataclass(frozen=True)
class NIDS(Algorithm):
    """V+ = V - Z + W~ (2 Z - Z_prev - alpha [B(Z) - B(Z_prev)]),   Z+ = prox_alpha(V+) (Algorithm 1 of the paper).

    Started from V = Z_prev = Z0, B(Z_prev) := 0. prox is the penalty's proximal map; without one Z = V, and this is
    exact diffusion. With P = Z_prev - alpha B(Z_prev) - V no old operator value is needed:

        Y  = Z - alpha B(Z)
        P+ = P + (I - W~) (Y - P + Z - V),      V+ = Y - P+,      P = 0 at the start.
    """

    name = "nids"
    rows_updated = 5
    needs = (objective,)
    composite = True
    factors = (0.25, 0.5, 1.0, 1.8)

    def init(self, problem: Problem, net: Network, z0: Array) -> NIDSState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        return NIDSState(Z, Z, np.zeros_like(Z))

    def step(self, s: NIDSState, problem: Problem, net: Network, samples: Indices) -> NIDSState:
        Y = s.Z - self.alpha * problem.local_operator(s.Z)
        P = s.P + net.differences(Y - s.P + s.Z - s.V)
        V = Y - P
        return NIDSState(problem.pooled.prox(V, self.alpha), V, P, t=s.t + 1)

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """1/L; every step below 2/L converges, whatever the graph."""
        return 1 / smoothness(problem)
