"""What an algorithm may ask of a network."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from dsba.topology import Topology

Array = npt.NDArray[np.float64]


class Network(Protocol):
    """The owned rows of W~Z, and what moving them cost so far."""

    topology: Topology
    rounds: int
    doubles: Array  # DOUBLEs received, per node
    bytes: Array  # bytes received, per node

    def reset(self) -> None:
        """Set all counters to zero."""
        ...

    def mix(self, Z: Array) -> Array:
        """The owned rows of W~Z: one round, one row from every neighbour."""
        ...

    def laplacian(self, Z: Array) -> Array:
        """The owned rows of L_G Z, row n: sum over neighbours m of (z_n - z_m). One round."""
        ...

    def tally(self, rounds: int, width: int) -> None:
        """Count rounds that a fused kernel made by itself, one row of ``width`` per neighbour each."""
        ...
