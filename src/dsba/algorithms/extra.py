"""EXTRA: exact first-order decentralised gradient method (Shi, Ling, Wu and Yin, 2015)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dsba.algorithms.base import Algorithm, Array, Indices
from dsba.network import Network
from dsba.problem import Problem
from dsba.topology import Topology


@dataclass
class ExtraState:
    """Two iterates, and the operator at the older one (N x p each)."""

    Z: Array
    Z_prev: Array
    B_prev: Array
    t: int = 0


@dataclass(frozen=True)
class EXTRA(Algorithm):
    """Z+ = W~ (2 Z - Z_prev) - alpha [B(Z) - B(Z_prev)],  started from Z_prev = Z0, B(Z_prev) := 0."""

    name: ClassVar[str] = "extra"
    factors: ClassVar[tuple[float, ...]] = (0.25, 0.5, 1.0, 2.0)

    def init(self, problem: Problem, net: Network, z0: Array) -> ExtraState:
        Z = np.tile(z0, (problem.n_nodes, 1))
        return ExtraState(Z, Z, np.zeros_like(Z))

    def step(self, s: ExtraState, problem: Problem, net: Network, samples: Indices) -> ExtraState:
        B = problem.operator(s.Z)
        Z = net.mix(2 * s.Z - s.Z_prev) - self.alpha * (B - s.B_prev)
        return ExtraState(Z, s.Z, B, s.t + 1)

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """ "auto": four fifths of (5 + 3 lambda_min(W)) / (4 L), Li and Yan's (2021) bound for objectives.

        AUC's operator, which is no gradient, became unstable at twice this or later in all cases tried.
        """
        smallest = float(topology.eigenvalues[-1])  # of W~ = (I + W)/2
        return {"auto": lambda: 0.8 * (1 + 3 * smallest) / (2 * smoothness(problem))}


def smoothness(problem: Problem) -> float:
    """The largest Lipschitz constant of a local operator, Lambda included."""
    return float(problem.local_smoothness.max()) + problem.lam
