"""APAPC and OPAPC: accelerated primal-dual gradient methods (Kovalev, Salim and Richtarik, NeurIPS 2020)."""

import math
from dataclasses import dataclass, field

import numpy as np

from dsba.algorithms.base import Array, Indices, Network, Problem, State, Topology
from dsba.algorithms.needs import objective, strong_convexity
from dsba.algorithms.rivals.extra import WithSmoothness
from dsba.algorithms.rivals.gossip import chebyshev_gossip, chebyshev_spectrum, laplacian_gossip, laplacian_spectrum


@dataclass
class APAPCState(State):
    """The averaged points Z (the X_f of the formula), the points X, the dual ones Y (N x p each), tau and theta."""

    X: Array
    Y: Array
    tau: float = field(metadata={"static": True})
    theta: float = field(metadata={"static": True})


@dataclass(frozen=True)
class APAPC(WithSmoothness):
    """Proximal alternating predictor-corrector steps with Nesterov's acceleration.

        X_g  = tau X + (1 - tau) X_f
        G    = B(X_g) - mu X_g
        X_h  = (X - eta (G + Y)) / (1 + eta mu)
        Y+   = Y + theta Lap X_h,                  theta = 1/(eta l2)
        X+   = (X - eta (G + Y+)) / (1 + eta mu)
        X_f+ = X_g + 2 tau/(2 - tau) (X+ - X)

    Start: X = X_f, Y = 0. Lap = I - W, l2 its largest eigenvalue. ``step_size`` is eta, and tau = min(1, 1/(4 eta L)).
    mu is lambda, ``L`` by default the largest Lipschitz constant of a local operator.
    """

    name = "apapc"
    rows_updated = 10
    needs = (objective, strong_convexity)
    factors = (0.3, 1.0, 3.0)
    gossip, spectrum = staticmethod(laplacian_gossip), staticmethod(laplacian_spectrum)

    def init(self, problem: Problem, net: Network, z0: Array) -> APAPCState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        tau = min(1.0, 1 / (4 * self.alpha * self.planned_L))
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
        return APAPCState(Z, X, Y, tau, s.theta, t=s.t + 1)

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """eta = 1/(4 tau L) with the paper's tau = min(1, sqrt(chi mu/L)/2), chi = l2/l1."""

        (l1, l2), L = self.spectrum(topology), self.planned_L
        return 1 / (4 * min(1.0, 0.5 * math.sqrt(l2 / l1 * problem.lam / L)) * L)


@dataclass(frozen=True)
class OPAPC(APAPC):
    """APAPC with Lap replaced by its Chebyshev polynomial P_K(Lap), K = floor(sqrt(l2/l1)).

    It costs K rounds. With K = 1 it is APAPC on a Laplacian scaled by 2/(l1 + l2), which changes nothing.
    """

    name = "opapc"
    gossip, spectrum = staticmethod(chebyshev_gossip), staticmethod(chebyshev_spectrum)
