"""ADOM+: accelerated primal steps on graphs that change (Kovalev, Gasanov, Gasnikov and Richtarik, NeurIPS 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dsba.algorithms.base import Array, Indices, Network, Problem, State, Topology
from dsba.algorithms.needs import objective, strong_convexity
from dsba.algorithms.rivals.extra import WithSmoothness
from dsba.algorithms.rivals.gossip import laplacian_spectrum


class ADOMPlan(NamedTuple):
    """The paper's numbers beside eta, and the factor from I - W~ to Lap/l2."""

    alpha: float
    nu: float
    tau1: float
    tau2: float
    beta: float
    theta: float
    sigma1: float
    sigma2: float
    gamma: float
    delta: float
    scale: float

    @classmethod
    def of(cls, mu: float, L: float, l1: float, l2: float) -> ADOMPlan:
        tau2, chi = math.sqrt(mu / L), l2 / l1
        sigma2, nu = tau2 / (4 * chi), mu / 2
        tau1, sigma1 = (1 / (1 / x + 0.5) for x in (tau2, sigma2))
        theta, gamma = nu / (4 * sigma2), nu / (2 * sigma2 * chi**2)
        return cls(mu / 2, nu, tau1, tau2, 1 / (2 * L), theta, sigma1, sigma2, gamma, 1 / (4 * L), 2 / l2)


@dataclass
class ADOMState(State):
    """The averaged points Z, Y_f, V_f, the points X, Y, V, and the gossip's memory M (N x p each)."""

    Y_f: Array
    V_f: Array
    X: Array
    Y: Array
    V: Array
    M: Array
    plan: ADOMPlan = field(metadata={"static": True})


@dataclass(frozen=True)
class ADOMPlus(WithSmoothness):
    """Nesterov's steps for the points and for two dual variables, with error feedback in place of a fixed graph.

        X_g, Y_g, V_g = tau1 X + (1 - tau1) X_f,   sigma1 Y + (1 - sigma1) Y_f,   sigma1 V + (1 - sigma1) V_f
        E    = B(X_g) - nu X_g,      S = Y_g + V_g,      U = gamma S/nu + M
        X+   = X + eta alpha (X_g - X+) - eta (E - Y+)
        Y+   = Y + theta beta (E - Y+) - theta (S/nu + X+)
        V+   = V + gamma delta (V_g - V) - Lap/l2 U
        M+   = U - Lap/l2 U
        X_f+ = X_g + tau2 (X+ - X),   Y_f+ = Y_g + sigma2 (Y+ - Y),   V_f+ = V_g - Lap/l2 S/2

    Start: X = X_f, all others 0. V is the paper's z, and Z is X_f. X+ and Y+ solve a linear system of two unknowns. The
    graph may be another one in each round. Lap = I - W, chi = l2/l1 of its nonzero eigenvalues, mu is lambda, and
    ``step_size`` is eta. In sigma2 = sqrt(mu/L)/(16 chi), gamma = nu/(14 sigma2 chi^2) and delta = 1/(17 L) of the
    paper's theorem the constants here are 4, 2 and 4: that takes a fifth of the rounds, also on graphs that change.
    """

    name = "adom-plus"
    step_bounds = (0.01, 1e4)
    rows_mixed = 2
    rows_updated = 26
    needs = (objective, strong_convexity)
    proven_on = ("changing graph",)
    factors = (0.3, 1.0, 3.0)

    def init(self, problem: Problem, net: Network, z0: Array) -> ADOMState:
        X, (l1, l2) = np.tile(z0, (len(problem.nodes), 1)), laplacian_spectrum(net.topology)
        zero = np.zeros_like(X)
        plan = ADOMPlan.of(problem.lam, self.planned_L, l1, l2)
        return ADOMState(X, zero, zero, X, zero, zero, zero, plan)

    def step(self, s: ADOMState, problem: Problem, net: Network, samples: Indices) -> ADOMState:
        a, eta = s.plan, self.alpha
        X_g = a.tau1 * s.X + (1 - a.tau1) * s.Z
        Y_g = a.sigma1 * s.Y + (1 - a.sigma1) * s.Y_f
        V_g = a.sigma1 * s.V + (1 - a.sigma1) * s.V_f
        E, S = problem.local_operator(X_g) - a.nu * X_g, Y_g + V_g
        r = 1 / (1 + eta * a.alpha)
        X_half = r * (s.X + eta * a.alpha * X_g - eta * E)  # X+ = X_half + r eta Y+
        Y = s.Y + a.theta * (a.beta * E - S / a.nu - X_half)
        Y = Y / (1 + a.theta * a.beta + a.theta * r * eta)
        X = X_half + r * eta * Y
        U = a.gamma / a.nu * S + s.M
        DU, DS = np.hsplit(a.scale * net.differences(np.hstack([U, S])), 2)
        V = s.V + a.gamma * a.delta * (V_g - s.V) - DU
        Z, Y_f = X_g + a.tau2 * (X - s.X), Y_g + a.sigma2 * (Y - s.Y)
        return ADOMState(Z, Y_f, V_g - DS / 2, X, Y, V, U - DU, a, t=s.t + 1)

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """The paper's 1/sqrt(mu L)."""
        return 1 / math.sqrt(problem.lam * self.planned_L)
