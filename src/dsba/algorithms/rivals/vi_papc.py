"""VI-PAPC: an optimal method for variational inequalities (Kovalev, Beznosikov et al., NeurIPS 2022)."""

import math
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from dsba.algorithms.base import Array, Indices, Network, Problem, State, Topology
from dsba.algorithms.rivals.extra import WithSmoothness


@dataclass(frozen=True)
class VIPlan:
    """The numbers a, b, theta of the formula and l2."""

    a: float
    b: float
    theta: float
    l2: float

    @classmethod
    def of(cls, problem: Problem, topology: Topology, eta: float, L: float) -> Self:
        (l1, l2), mu = topology.mixing.laplacian_range, problem.constants.mu
        chi, b = l2 / l1, mu / L**2
        a = 1 - min(1 / (1 + 3 * L * math.sqrt(chi) / mu), 1 / (2 * chi))
        return cls(a, b, min(1 / (2 * b), 1 / (9 * eta)), l2)


@dataclass
class VIState(State):
    """Z, the operator F there and before, the dual variables Y now and before (N x p each)."""

    F: Array
    F_prev: Array
    Y: Array
    Y_prev: Array
    plan: VIPlan = field(metadata={"static": True})


@dataclass(frozen=True)
class VIPAPC(WithSmoothness):
    """Optimistic steps for monotone operators, gradients or not (the paper's Algorithm 1 with full batches).

        Delta = F(Z) + a (F(Z) - F(Z_prev)) - (Y + a (Y - Y_prev))
        Z+    = Z - eta Delta
        Y+    = Y - theta (Lap/l2) (Z+ - b (F(Z+) - Y))

    Start: Z_prev = Z, Y_prev = Y = 0. F is the local operator with lambda, Lap = I - W, chi = l2/l1 of its nonzero
    eigenvalues. ``step_size`` is eta; b = mu/L^2, theta = min(1/(2 b), 1/(9 eta)),
    a = 1 - min(1/(1 + 3 L sqrt(chi)/mu), 1/(2 chi)), mu is lambda and ``L`` the largest constant of a local operator.
    """

    name = "vi-papc"
    rows_updated = 12
    first_passes = 1.0  # the first operator
    factors = (0.5, 1.0, 2.0)

    def init(self, problem: Problem, net: Network, z0: Array) -> VIState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        F, Y = problem.local_operator(Z), np.zeros_like(Z)
        return VIState(Z, F, F, Y, Y, VIPlan.of(problem, net.topology, self.alpha, self.planned_L))

    def step(self, s: VIState, problem: Problem, net: Network, samples: Indices) -> VIState:
        plan = s.plan
        Delta = s.F + plan.a * (s.F - s.F_prev) - (s.Y + plan.a * (s.Y - s.Y_prev))
        Z = s.Z - self.alpha * Delta
        F = problem.local_operator(Z)
        Y = s.Y - plan.theta / plan.l2 * 2 * net.differences(Z - plan.b * (F - s.Y))
        return VIState(Z, F, s.F, Y, s.Y, plan, t=s.t + 1)

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """1/(3 L) where chi is below 4, beyond twice the paper's 1/(3 L sqrt(chi))."""
        l1, l2 = topology.mixing.laplacian_range
        return min(1.0, 2 * math.sqrt(l1 / l2)) / (3 * self.planned_L)
