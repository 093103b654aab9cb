"""Decentralised extragradient steps with tracked operators (Mukherjee and Chakraborty, CDC 2020)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dsba.algorithms.base import Indices, Network, Problem, Topology
from dsba.algorithms.needs import Need
from dsba.algorithms.rivals.diging import DIGing, DIGingState
from dsba.algorithms.rivals.extra import smoothness


@dataclass(frozen=True)
class Extragradient(DIGing):
    """Extragradient steps of saddle-point problems, along trackers Y of the mean operator.

        Z_half = Z - alpha Y,           Y_half = Y + B(Z_half) - B(Z)
        Z+     = W~ Z - alpha Y_half,   Y+     = W~ Y + B(Z+) - B(Z)

    Start: Y = B(Z), which is one pass over the data; an iteration takes two. Z and Y travel in one message.
    """

    name = "extragradient"
    step_bounds = (0.01, 1e4)
    rows_updated = 7
    needs: ClassVar[tuple[Need, ...]] = ()
    proven_on: ClassVar[tuple[str, ...]] = ()

    def step(self, s: DIGingState, problem: Problem, net: Network, samples: Indices) -> DIGingState:
        Y_half = s.Y + problem.local_operator(s.Z - self.alpha * s.Y) - s.B
        WZ, WY = np.hsplit(net.mix(np.hstack([s.Z, s.Y])), 2)
        Z = WZ - self.alpha * Y_half
        B = problem.local_operator(Z)
        return DIGingState(Z, WY + (B - s.B), B, t=s.t + 1)

    def samples_per_step(self, problem: Problem) -> float:
        return 2 * problem.n_samples

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """The root of gamma over 2 L."""
        return math.sqrt(topology.gamma) / (2 * smoothness(problem))
