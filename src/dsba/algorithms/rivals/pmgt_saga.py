"""PMGT-SAGA: proximal gradient tracking with several rounds of gossip (Ye, Xiong and Zhang, 2020)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dsba.algorithms.base import Array, Indices, Network, Problem, Topology
from dsba.algorithms.rivals.gt_saga import GTSAGA, GTSAGAState


@dataclass(frozen=True)
class PMGTSAGA(GTSAGA):
    """GT-SAGA with a proximal step, and with K rounds of accelerated gossip wherever that mixes once.

        Z+ = M_K(prox_alpha(Z - alpha Y))
        G+ = B_i(Z+) - phi_i + mean of phi + Lambda Z+,      phi_i <- B_i(Z+)
        Y+ = M_K(Y + G+ - G)

    Start: as of GT-SAGA. M_K is the paper's FastMix (``fast_mix``) and takes K = ceil(1/sqrt(gamma)) rounds, so an
    iteration takes 2 K.
    """

    name = "pmgt-saga"
    rows_mixed = 1
    composite = True

    def step(self, s: GTSAGAState, problem: Problem, net: Network, samples: Indices) -> GTSAGAState:
        rounds = gossip_rounds(net.topology)
        Z = fast_mix(problem.pooled.prox(s.Z - self.alpha * s.Y, self.alpha), net, rounds)
        G, phi, mean = self.estimated(s, problem, samples, Z)
        return GTSAGAState(Z, fast_mix(s.Y + G - s.G, net, rounds), G, phi, mean, t=s.t + 1)

    def traffic(self, topology: Topology) -> tuple[int, int]:
        return 2 * gossip_rounds(topology), 1

    def mode_factors(self, topology: Topology) -> tuple[Array, Array, Array, Array]:
        """All that mixes is multiplied by M_K's eigenvalues."""
        values = topology.eigenvalues
        mixed = accelerated(np.ones_like(values), lambda x: (1 - values) * x, topology, gossip_rounds(topology))
        return mixed, self.alpha * mixed, mixed, mixed


def gossip_rounds(topology: Topology) -> int:
    """K = ceil(1/sqrt(gamma)): so many rounds of ``fast_mix`` shrink what the nodes differ in by a constant factor."""
    return math.ceil(1 / math.sqrt(topology.gamma))


def fast_mix(X: Array, net: Network, rounds: int) -> Array:
    """So many rounds of accelerated gossip over the network."""
    return accelerated(X, net.differences, net.topology, rounds)


def accelerated(X: Array, differences: Callable[[Array], Array], topology: Topology, rounds: int) -> Array:
    """X_{k+1} = (1 + eta) W~ X_k - eta X_{k-1},  X_{-1} = X_0 = X,  eta = (1 - r)/(1 + r),  r = sqrt(1 - s^2).

    s = 1 - gamma is the second eigenvalue of W~ (Liu and Morse, 2011). The rows' mean is kept.
    """
    root = math.sqrt(1 - (1 - topology.gamma) ** 2)
    eta = (1 - root) / (1 + root)
    X_prev = X
    for _ in range(rounds):
        X_prev, X = X, X + eta * (X - X_prev) - (1 + eta) * differences(X)
    return X
