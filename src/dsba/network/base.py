"""What an algorithm may ask of a network."""

from __future__ import annotations

from typing import Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from dsba.topology import Topology

Array = npt.NDArray[np.float64]


class Network(Protocol):
    """The owned rows of W~Z, and what moving them cost so far."""

    topology: Topology
    nodes: range  # the nodes this process owns
    rounds: int
    doubles: Array  # DOUBLEs received, per node
    index_bytes: Array  # bytes of indices received, per node
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

    def count(self, rounds: int, doubles: npt.ArrayLike, index_bytes: npt.ArrayLike, bytes: npt.ArrayLike) -> None:
        """Add to the counters, per owned node."""
        ...


class MessageNetwork(Network, Protocol):
    """A network that also carries messages of bytes between neighbours."""

    session: int  # marks the frames of one run

    def exchange(self, outboxes: list[dict[int, bytes]]) -> list[dict[int, bytes]]:
        """One round: from each owned node a frame to every neighbour, to each one from every neighbour.

        Counts the round and its bytes; what the bytes mean is for the receivers to count.
        """
        ...


def carries_messages(net: Network) -> TypeGuard[MessageNetwork]:
    return hasattr(net, "exchange")
