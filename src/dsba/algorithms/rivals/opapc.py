"""OPAPC: APAPC with several rounds of communication an iteration (Kovalev, Salim and Richtarik, NeurIPS 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dsba.algorithms.rivals.apapc import APAPC
from dsba.algorithms.rivals.msda import chebyshev_gossip, chebyshev_spectrum
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.types import Array


@dataclass(frozen=True)
class OPAPC(APAPC):
    """APAPC with Lap replaced by its Chebyshev polynomial P_K(Lap), K = floor(sqrt(l2/l1)).

    It costs K rounds. With K = 1 it is APAPC on a Laplacian scaled by 2/(l1 + l2), which changes nothing.
    """

    name: ClassVar[str] = "opapc"

    def gossip(self, Z: Array, net: Network) -> Array:
        """P_K(Lap) Z."""
        return chebyshev_gossip(Z, net)

    def spectrum(self, topology: Topology) -> tuple[float, float]:
        return chebyshev_spectrum(topology)
