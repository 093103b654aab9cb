"""DGD: decentralised gradient descent (Nedic and Ozdaglar, 2009)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dsba.algorithms.base import Algorithm
from dsba.algorithms.rivals.extra import smoothness
from dsba.errors import InputError
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.types import Array, Indices

EIGENVALUE_ROUNDING = 1e-12  # of an eigenvalue that should be 0


@dataclass
class DGDState:
    """The iterates (N x p)."""

    Z: Array
    t: int = 0


@dataclass(frozen=True)
class DGD(Algorithm):
    """Z+ = W Z - alpha_t B(Z): average with the neighbours, then go down one's own slope.

    With the constant step alpha_t = alpha it converges linearly, but to a point off the solution by
    O(alpha): the nodes pull apart where their operators differ. The diminishing step
    alpha_t = alpha / sqrt(t + 1) reaches the solution, and no faster than the step vanishes.
    """

    diminishing: bool = False

    name: ClassVar[str] = "dgd"
    linear: ClassVar[bool] = False
    proven_on: ClassVar[tuple[str, ...]] = ("loss", "changing graph", "compressed changes")

    def init(self, problem: Problem, net: Network, z0: Array) -> DGDState:
        return DGDState(np.tile(z0, (len(problem.nodes), 1)))

    def step(self, s: DGDState, problem: Problem, net: Network, samples: Indices) -> DGDState:
        alpha = self.alpha / math.sqrt(s.t + 1) if self.diminishing else self.alpha
        WZ = 2 * net.mix(s.Z) - s.Z
        return DGDState(WZ - alpha * problem.local_operator(s.Z), s.t + 1)

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """ "auto": half of (1 + lambda_min(W)) / L, beyond which a constant step is unstable."""
        smallest = float(topology.eigenvalues[-1])  # of W~ = (I + W)/2

        def half() -> float:
            if smallest < EIGENVALUE_ROUNDING:
                raise InputError(
                    "dgd has no stable step where W has the eigenvalue -1: mix with another matrix or tau."
                )
            return smallest / smoothness(problem)

        return {"auto": half}
