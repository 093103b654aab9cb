"""Who hands whose deltas to whom, and when.

A delta of source j reaches node n after distance(n, j) rounds, from the neighbour ``parents[n, j]``. Round t
of the iterations is held at the start of iteration t and brings node n the delta that j made in iteration
t - distance(n, j). Before them there may be set-up rounds, which flood one entry of every source: round u
brings what is u + 1 hops away.
"""

from __future__ import annotations

import numpy as np

from dsba.graph.graph import Graph
from dsba.graph.topology import Topology


class Routing:
    """The sources due in each frame of each round; ``setup`` rounds come before iteration 0."""

    def __init__(self, topology: Topology | Graph, setup: int = 0) -> None:
        self.setup = setup
        self.distances = topology.distances
        self.handed: dict[tuple[int, int], tuple[int, ...]] = {}
        """(sender, receiver): the increasing sources that one hands to the other."""
        for receiver, nearby in enumerate(topology.neighbors):
            for sender in nearby.tolist():
                sources = np.flatnonzero(topology.parents[receiver] == sender)
                self.handed[sender, receiver] = tuple(sources.tolist())

    def due(self, sender: int, receiver: int, round_: int) -> list[int]:
        """The sources of the entries in the frame from ``sender`` to ``receiver``, increasing."""
        hops = self.distances[receiver]
        if round_ < self.setup:
            return [j for j in self.handed[sender, receiver] if hops[j] == round_ + 1]
        return [j for j in self.handed[sender, receiver] if hops[j] <= round_ - self.setup]
