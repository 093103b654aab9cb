"""APAPC: accelerated primal-dual gradient method (Kovalev, Salim and Richtarik, NeurIPS 2020)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dsba.algorithms.base import Algorithm
from dsba.algorithms.needs import Need, objective, strong_convexity
from dsba.algorithms.rivals.extra import smoothness
from dsba.algorithms.rivals.ssda import laplacian_spectrum
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.types import Array, Indices


@dataclass
class APAPCState:
    """The averaged points Z (the X_f of the formula), the points X, the dual ones Y (N x p each), tau and theta."""

    Z: Array
    X: Array
    Y: Array
    tau: float = field(metadata={"static": True})
    theta: float = field(metadata={"static": True})
    t: int = 0


@dataclass(frozen=True)
class APAPC(Algorithm):
    """Proximal alternating predictor-corrector steps with Nesterov's acceleration.

        X_g  = tau X + (1 - tau) X_f
        G    = B(X_g) - mu X_g
        X_h  = (X - eta (G + Y)) / (1 + eta mu)
        Y+   = Y + theta Lap X_h,                  theta = 1/(eta l2)
        X+   = (X - eta (G + Y+)) / (1 + eta mu)
        X_f+ = X_g + 2 tau/(2 - tau) (X+ - X)

    Start: X = X_f, Y = 0. Lap = I - W, l2 its largest eigenvalue. ``step_size`` is eta, and tau = min(1, 1/(4 eta L)).
    mu is lambda, L the largest Lipschitz constant of a local operator.
    """

    name: ClassVar[str] = "apapc"
    needs: ClassVar[tuple[Need, ...]] = (objective, strong_convexity)
    factors: ClassVar[tuple[float, ...]] = (0.3, 1.0, 3.0)

    def init(self, problem: Problem, net: Network, z0: Array) -> APAPCState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        tau = min(1.0, 1 / (4 * self.alpha * smoothness(problem)))
        theta = 1 / (self.alpha * self.spectrum(net.topology)[1])
        return APAPCState(Z, Z, np.zeros_like(Z), tau, theta)

    def step(self, s: APAPCState, problem: Problem, net: Network, samples: Indices) -> APAPCState:
        eta, mu, tau = self.alpha, problem.lam, s.tau
        X_g = tau * s.X + (1 - tau) * s.Z
        G = problem.local_operator(X_g) - mu * X_g
        X_h = (s.X - eta * (G + s.Y)) / (1 + eta * mu)
        Y = s.Y + s.theta * self.gossip(X_h, net)
        X = (s.X - eta * (G + Y)) / (1 + eta * mu)
        Z = X_g + 2 * tau / (2 - tau) * (X - s.X)
        return APAPCState(Z, X, Y, tau, s.theta, s.t + 1)

    def gossip(self, Z: Array, net: Network) -> Array:
        """Lap Z."""
        return 2 * net.differences(Z)

    def spectrum(self, topology: Topology) -> tuple[float, float]:
        """The smallest and the largest nonzero eigenvalue of what ``gossip`` multiplies with."""
        return laplacian_spectrum(topology)

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """ "auto": eta = 1/(4 tau L) with the paper's tau = min(1, sqrt(chi mu/L)/2), chi = l2/l1."""

        def auto() -> float:
            (l1, l2), L = self.spectrum(topology), smoothness(problem)
            return 1 / (4 * min(1.0, 0.5 * math.sqrt(l2 / l1 * problem.lam / L)) * L)

        return {"auto": auto}
