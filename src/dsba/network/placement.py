"""Which process owns which nodes, whose rows go where, and the tree along which questions travel."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dsba.errors import InputError
from dsba.graph.graph import Graph
from dsba.graph.topology import Topology
from dsba.types import Indices


class Placement:
    """The place of one process among ``size``: every process owns a block of nodes, in order."""

    def __init__(self, topology: Topology, rank: int = 0, size: int = 1) -> None:
        if not 1 <= size <= topology.n_nodes:
            raise InputError(f"{size} processes for {topology.n_nodes} nodes: there may be at most one per node.")
        self.topology, self.rank, self.size = topology, rank, size
        blocks = np.array_split(np.arange(topology.n_nodes), size)
        self.owner = np.repeat(np.arange(size), [len(block) for block in blocks])
        self.nodes = range(int(blocks[rank][0]), int(blocks[rank][-1]) + 1)
        self.send_rows: dict[int, Indices] = {}
        """For each neighbouring process, the rows here that go there."""
        self.receive_rows: dict[int, slice] = {}
        """For each neighbouring process, the places of its rows, after the rows here."""
        place = {n: i for i, n in enumerate(self.nodes)}
        for other in self.peers:
            theirs = self._beside(blocks[other], rank)
            self.send_rows[other] = np.array(self._beside(blocks[rank], other), np.int64) - self.nodes.start
            self.receive_rows[other] = slice(len(place), len(place) + len(theirs))
            place |= {m: len(place) + i for i, m in enumerate(theirs)}
        self.n_rows = len(place)
        self.mixing = self._local(place)

    @cached_property
    def peers(self) -> list[int]:
        """The neighbouring processes: those that own a node that is heard here, or that hears a node here."""
        graph = self.topology.graph
        near = {int(self.owner[m]) for n in self.nodes for m in (*graph.neighbors[n], *graph.listeners[n])}
        return sorted(near - {self.rank})

    @cached_property
    def incoming(self) -> dict[int, list[tuple[int, int]]]:
        """For each neighbouring process, the (sender, receiver) of its frames, in the order in which it sends them."""
        links = [(int(m), n) for n in self.nodes for m in self.topology.neighbors[n]]
        return {peer: sorted(link for link in links if self.owner[link[0]] == peer) for peer in self.peers}

    def _beside(self, nodes: Any, rank: int) -> list[int]:
        """Which of the nodes are heard at ``rank``."""
        return [int(n) for n in nodes if (self.owner[self.topology.graph.listeners[n]] == rank).any()]

    def _local(self, place: dict[int, int]) -> tuple[Indices, Indices, npt.NDArray[np.float64]]:
        """The owned rows of the mixing weights, columns by local places."""
        indptr, nodes, weights = self.topology.mixing.rows
        part = slice(indptr[self.nodes.start], indptr[self.nodes.stop])
        local = np.array([place[int(m)] for m in nodes[part]], np.int64)
        ends = indptr[self.nodes.start : self.nodes.stop + 1] - indptr[self.nodes.start]
        return np.array(ends), local, np.array(weights[part])

    @cached_property
    def graph(self) -> Graph:
        """The graph of the processes: neighbours own neighbouring nodes."""
        pairs = {(int(self.owner[n]), int(self.owner[m])) for n, m in self.topology.edges}
        return Graph(self.size, [pair for pair in pairs if pair[0] != pair[1]])

    @cached_property
    def parent(self) -> int:
        """The process one step nearer to the root; -1 at the root."""
        return int(self.graph.tree.parents[self.rank])

    @cached_property
    def children(self) -> list[int]:
        """The processes whose parent this one is."""
        return np.flatnonzero(self.graph.tree.parents == self.rank).tolist()
