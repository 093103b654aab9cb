"""Methods that use one edge of the graph in an iteration. A number that all nodes know chooses the edge."""

from collections.abc import Mapping

from dsba.graph.topology import Topology
from dsba.network import Network

Edge = tuple[int, int]


def edge_of(topology: Topology, coin: float) -> Edge:
    """The edge that a number in [0, 1) chooses."""
    first, second = topology.edges[int(coin * len(topology.edges))]
    return int(first), int(second)


def swapped(net: Network, edge: Edge, frames: Mapping[int, bytes]) -> dict[int, bytes]:
    """One round in which only this edge carries anything: for each end here, the frame of the other end.

    ``frames`` has the frames of the ends in this process. All other frames of the round are empty. If the link drops a
    frame, its receiver is left out of the answer.
    """
    outboxes: list[dict[int, bytes]] = [dict.fromkeys(net.topology.neighbors[n].tolist(), b"") for n in net.nodes]
    ends = {edge[0]: edge[1], edge[1]: edge[0]}
    for n, frame in frames.items():
        outboxes[n - net.nodes.start][ends[n]] = frame
    heard = net.exchange(outboxes)
    found = {n: heard[n - net.nodes.start].get(ends[n], b"") for n in frames}
    return {n: frame for n, frame in found.items() if frame}
