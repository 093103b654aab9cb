"""NIDS: network-independent step sizes (Li, Shi and Yan, 2019), for smooth and for composite problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dsba.algorithms.base import Algorithm
from dsba.algorithms.needs import Need, objective
from dsba.algorithms.rivals.extra import smoothness
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.types import Array, Indices


@dataclass
class NIDSState:
    """Z, the points V before the proximal map, the corrections P (N x p each)."""

    Z: Array
    V: Array
    P: Array
    t: int = 0


@dataclass(frozen=True)
class NIDS(Algorithm):
    """V+ = V - Z + W~ (2 Z - Z_prev - alpha [B(Z) - B(Z_prev)]),   Z+ = prox_alpha(V+) (Algorithm 1 of the paper).

    Started from V = Z_prev = Z0, B(Z_prev) := 0. prox is the penalty's proximal map; without one Z = V, and this is
    exact diffusion. With P = Z_prev - alpha B(Z_prev) - V no old operator value is needed:

        Y  = Z - alpha B(Z)
        P+ = P + (I - W~) (Y - P + Z - V),      V+ = Y - P+,      P = 0 at the start.
    """

    name: ClassVar[str] = "nids"
    needs: ClassVar[tuple[Need, ...]] = (objective,)
    composite: ClassVar[bool] = True
    factors: ClassVar[tuple[float, ...]] = (0.25, 0.5, 1.0, 1.8)

    def init(self, problem: Problem, net: Network, z0: Array) -> NIDSState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        return NIDSState(Z, Z, np.zeros_like(Z))

    def step(self, s: NIDSState, problem: Problem, net: Network, samples: Indices) -> NIDSState:
        Y = s.Z - self.alpha * problem.local_operator(s.Z)
        P = s.P + net.differences(Y - s.P + s.Z - s.V)
        V = Y - P
        return NIDSState(problem.pooled.prox(V, self.alpha), V, P, s.t + 1)

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """ "auto": 1/L; every step below 2/L converges, whatever the graph."""
        return {"auto": lambda: 1 / smoothness(problem)}
