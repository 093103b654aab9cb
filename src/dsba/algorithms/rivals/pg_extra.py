"""PG-EXTRA: EXTRA for composite problems (Shi, Ling, Wu and Yin, 2015)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dsba.algorithms.base import Algorithm
from dsba.algorithms.rivals.extra import EXTRA
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.types import Array, Indices


@dataclass
class PGExtraState:
    """Z, the sum P of the past (N x p each)."""

    Z: Array
    P: Array
    t: int = 0


@dataclass(frozen=True)
class PGExtra(Algorithm):
    """V+ = W Z + V - W~ Z_prev - alpha [B(Z) - B(Z_prev)],   Z+ = prox_alpha(V+) (Algorithm 1 of the paper).

    Started from V = W Z0 - alpha B(Z0). Summed over time, as EXTRA is here:

        V+ = W Z - P - alpha B(Z),      Z+ = prox_alpha(V+),      P+ = P + (W~ - W) Z,      P = 0 at the start.

    prox is the proximal map of the problem's penalty; without one this is EXTRA.
    """

    name: ClassVar[str] = "pg-extra"
    composite: ClassVar[bool] = True
    factors: ClassVar[tuple[float, ...]] = EXTRA.factors

    def init(self, problem: Problem, net: Network, z0: Array) -> PGExtraState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        return PGExtraState(Z, np.zeros_like(Z))

    def step(self, s: PGExtraState, problem: Problem, net: Network, samples: Indices) -> PGExtraState:
        D = net.differences(s.Z)  # (W~ - W) Z, and W Z = Z - 2 D
        V = s.Z - 2 * D - s.P - self.alpha * problem.local_operator(s.Z)
        return PGExtraState(problem.pooled.prox(V, self.alpha), s.P + D, s.t + 1)

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """ "auto": EXTRA's."""
        return EXTRA().step_sizes(problem, topology)
