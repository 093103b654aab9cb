"""Accelerated gradient tracking with several rounds of gossip: Mudag (Ye, Luo, Zhou and Zhang, 2020)."""

import math
from dataclasses import dataclass

import numpy as np

from dsba.algorithms.base import Algorithm, Array, Indices, Network, Problem, State, Topology
from dsba.algorithms.needs import objective, strong_convexity
from dsba.algorithms.rivals.extra import smoothness
from dsba.algorithms.rivals.pmgt_saga import fast_mix, gossip_rounds


@dataclass
class AccGTState(State):
    """Z (the X of the formula), the points Y ahead, and the trackers' part S (N x p each)."""

    Y: Array
    S: Array


@dataclass(frozen=True)
class AccGT(Algorithm):
    """Nesterov's method along tracked gradients, which the gossip keeps together.

        X+ = M_K(Y + (X - Y_prev) - eta (B(Y) - B(Y_prev)))
        Y+ = X+ + (1 - a)/(1 + a) (X+ - X),      a = sqrt(mu eta)

    Start: X = Y = Y_prev, B(Y_prev) := 0. With S = X - Y_prev + eta B(Y_prev) no old operator value is needed:
    X+ = M_K(Y + S - eta B(Y)) and S+ = X+ - Y + eta B(Y). M_K is ``fast_mix`` with K = 2 ceil(1/sqrt(gamma)) rounds;
    mu is lambda, ``step_size`` is eta.
    """

    name = "acc-gt"
    needs = (objective, strong_convexity)
    factors = (0.3, 1.0, 1.8)

    def init(self, problem: Problem, net: Network, z0: Array) -> AccGTState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        return AccGTState(Z, Z, np.zeros_like(Z))

    def step(self, s: AccGTState, problem: Problem, net: Network, samples: Indices) -> AccGTState:
        moved = s.Y - self.alpha * problem.local_operator(s.Y)
        X = fast_mix(moved + s.S, net, 2 * gossip_rounds(net.topology))
        a = math.sqrt(min(1.0, problem.lam * self.alpha))
        return AccGTState(X, X + (1 - a) / (1 + a) * (X - s.Z), X - moved, t=s.t + 1)

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """1/L."""
        return 1 / smoothness(problem)
