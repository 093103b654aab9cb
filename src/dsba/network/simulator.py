"""All nodes in one process."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dsba.kernels.mixing import mix_rows
from dsba.network.base import Array
from dsba.topology import Topology


class Simulator:
    """Owns every row; counts what the nodes would have received."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.nodes = range(topology.n_nodes)
        self.mixing_rows = tuple(np.array(part) for part in topology.mixing_rows)
        self.reset()

    def reset(self) -> None:
        self.rounds = 0
        self.doubles, self.index_bytes, self.bytes = np.zeros((3, self.topology.n_nodes))

    def mix(self, Z: Array) -> Array:
        out = np.empty_like(Z)
        mix_rows(self.mixing_rows, Z, out)
        self.tally(1, Z.shape[1])
        return out

    def laplacian(self, Z: Array) -> Array:
        out = np.empty_like(Z)
        indptr, nodes, weights = self.mixing_rows
        mix_rows((indptr, nodes, np.full_like(weights, -1.0)), Z, out)  # z_n + sum_m (z_n - z_m)
        self.tally(1, Z.shape[1])
        return out - Z

    def tally(self, rounds: int, width: int) -> None:
        received = rounds * width * self.topology.degrees
        self.count(rounds, received, 0, 8 * received)

    def count(self, rounds: int, doubles: npt.ArrayLike, index_bytes: npt.ArrayLike, bytes: npt.ArrayLike) -> None:
        self.rounds += rounds
        self.doubles += np.asarray(doubles)
        self.index_bytes += np.asarray(index_bytes)
        self.bytes += np.asarray(bytes)


class MessageSimulator(Simulator):
    """The slow twin: every node is an object of its own, and their messages are really made and moved."""

    session = 0

    def exchange(self, outboxes: list[dict[int, bytes]]) -> list[dict[int, bytes]]:
        inboxes: list[dict[int, bytes]] = [{} for _ in self.nodes]
        for sender, outbox in enumerate(outboxes):
            for receiver, frame in outbox.items():
                inboxes[receiver][sender] = frame
        self.count(1, 0, 0, [sum(map(len, inbox.values())) for inbox in inboxes])
        return inboxes
