"""Distributed dual averaging (Duchi, Agarwal and Wainwright, 2012)."""

import math
from dataclasses import dataclass, field

import numpy as np

from dsba.algorithms.base import Algorithm, Array, Indices, Network, Problem, State, Topology
from dsba.algorithms.needs import objective
from dsba.algorithms.rivals.extra import smoothness


@dataclass
class DualAveragingState(State):
    """The running averages Z, the primal points X and the dual ones Y (N x p each), the centre z0."""

    X: Array
    Y: Array
    z0: Array = field(metadata={"static": True})


@dataclass(frozen=True)
class DualAveraging(Algorithm):
    """The nodes average sums of gradients; each point is such a sum, scaled by a vanishing step.

        Y+ = P Y + B(X)
        X+ = z0 - alpha / sqrt(t + 1) Y+
        Z+ = mean of X over all iterations so far, X+ included

    Start: X = z0, Y = 0. The paper wants a doubly stochastic matrix P: W, or W~ = (I + W)/2 where that forgets
    differences faster, as where W has eigenvalues near -1. Both are doubly stochastic if W has no negative entry off
    the diagonal, as the named mixings have none.
    """

    name = "dual-averaging"
    needs = (objective,)
    linear = False
    proven_on = ("loss", "changing graph", "delay")

    def init(self, problem: Problem, net: Network, z0: Array) -> DualAveragingState:
        X = np.tile(z0, (len(problem.nodes), 1))
        return DualAveragingState(X, X, np.zeros_like(X), z0)

    def step(self, s: DualAveragingState, problem: Problem, net: Network, samples: Indices) -> DualAveragingState:
        lazy = net.mix(s.Y)
        Y = (2 * lazy - s.Y if plain_is_faster(net.topology) else lazy) + problem.local_operator(s.X)
        X = s.z0 - self.alpha / math.sqrt(s.t + 1) * Y
        Z = s.Z + (X - s.Z) / (s.t + 1)
        return DualAveragingState(Z, X, Y, s.z0, t=s.t + 1)

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """2/L, so that no step is longer than a gradient method's longest."""
        return 2 / smoothness(problem)


def plain_is_faster(topology: Topology) -> bool:
    """Whether W's second largest eigenvalue, in absolute value, is below that of W~, which has none below 0."""
    others = topology.eigenvalues[1:]
    return bool(np.abs(2 * others - 1).max(initial=0.0) < others.max(initial=0.0))
