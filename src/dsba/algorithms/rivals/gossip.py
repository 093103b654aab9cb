"""What SSDA and APAPC multiply with in a round, and MSDA and OPAPC in several: Lap = I - W, or a polynomial of it."""

import math

import numpy as np

from dsba.algorithms.base import Array, Network, Topology
from dsba.graph.mixing import chebyshev


def laplacian_gossip(Z: Array, net: Network) -> Array:
    """Lap Z."""
    return 2 * net.differences(Z)


def laplacian_spectrum(topology: Topology) -> tuple[float, float]:
    """The smallest and the largest nonzero eigenvalue of Lap."""
    return topology.mixing.laplacian_range


def chebyshev_gossip(Z: Array, net: Network) -> Array:
    """P_K(Lap) Z in K = floor(sqrt(l2/l1)) rounds."""
    l1, l2 = laplacian_spectrum(net.topology)
    return chebyshev(lambda Y: laplacian_gossip(Y, net), Z, math.floor(math.sqrt(l2 / l1)), l1, l2)


def chebyshev_spectrum(topology: Topology) -> tuple[float, float]:
    """The smallest and the largest nonzero eigenvalue of P_K(Lap)."""
    l1, l2 = laplacian_spectrum(topology)
    nonzero = 2 * (1 - topology.eigenvalues[1:]) if topology.n_nodes > 1 else np.ones(1)
    values = chebyshev(lambda x: nonzero * x, np.ones_like(nonzero), math.floor(math.sqrt(l2 / l1)), l1, l2)
    return float(values.min()), float(values.max())
