"""All nodes in one process."""

from __future__ import annotations

import numpy as np

from dsba.network.base import Array
from dsba.network.rows import Rows
from dsba.topology import Topology


class Simulator(Rows):
    """Owns every row; counts what the nodes would have received."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.nodes = range(topology.n_nodes)
        self.mixing_rows = tuple(np.array(part) for part in topology.mixing_rows)  # type: ignore[assignment]
        self.reset()

    def _meet(self, Z: Array) -> Array:
        return Z


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
