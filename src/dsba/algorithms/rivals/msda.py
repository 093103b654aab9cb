"""MSDA: SSDA with several rounds of communication an iteration (Scaman et al., ICML 2017)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dsba.algorithms.rivals.ssda import SSDA, laplacian_spectrum
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.types import Array


@dataclass(frozen=True)
class MSDA(SSDA):
    """SSDA with Lap replaced by its Chebyshev polynomial P_K(Lap), K = floor(sqrt(l2/l1)).

    P_K keeps the null space and brings the other eigenvalues together, around 1; it costs K rounds.
    """

    name: ClassVar[str] = "msda"

    def gossip(self, Z: Array, net: Network) -> Array:
        """P_K(Lap) Z."""
        return chebyshev_gossip(Z, net)

    def spectrum(self, topology: Topology) -> tuple[float, float]:
        return chebyshev_spectrum(topology)


def chebyshev_gossip(Z: Array, net: Network) -> Array:
    """P_K(Lap) Z, in K rounds."""
    return chebyshev(lambda Y: 2 * net.differences(Y), Z, *laplacian_spectrum(net.topology))


def chebyshev_spectrum(topology: Topology) -> tuple[float, float]:
    """The smallest and the largest nonzero eigenvalue of P_K(Lap)."""
    l1, l2 = laplacian_spectrum(topology)
    nonzero = 2 * (1 - topology.eigenvalues[1:]) if topology.n_nodes > 1 else np.ones(1)
    values = chebyshev(lambda x: nonzero * x, np.ones_like(nonzero), l1, l2)
    return float(values.min()), float(values.max())


def chebyshev(times: Callable[[Array], Array], X: Array, l1: float, l2: float) -> Array:
    """P_K(M) X with ``times`` the product with M, whose eigenvalues are 0 or in [l1, l2]; K = floor(sqrt(l2/l1)).

        P_K(M) = I - T_K(c2 (I - c3 M)) / T_K(c2),     c2 = (l2 + l1)/(l2 - l1),   c3 = 2/(l1 + l2)

    T_K the Chebyshev polynomial, by its recursion for the quotients X_k = T_k(c2 (I - c3 M)) X / T_k(c2):
    P_1 = c3 M then needs no c2, which is infinite where l1 = l2.
    """
    c3 = 2 / (l1 + l2)
    X_prev, X_k = X, X - c3 * times(X)
    ratio = (l2 - l1) / (l2 + l1)  # T_{k-1}(c2) / T_k(c2)
    for _ in range(math.floor(math.sqrt(l2 / l1)) - 1):
        c2 = (l2 + l1) / (l2 - l1)
        after = 1 / (2 * c2 - ratio)
        X_prev, X_k = X_k, after * (2 * c2 * (X_k - c3 * times(X_k)) - ratio * X_prev)
        ratio = after
    return X - X_k
