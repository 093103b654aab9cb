"""Directed graphs: who hears whom where links lead one way, and the weights that go with them.

A row of a row-stochastic matrix R sums to one: a node averages what it hears, which needs the number of nodes that it
hears. A column of a column-stochastic matrix C sums to one: a node divides its row among all that hear it, so the sum
over the nodes is kept. In general no matrix on a directed graph has both properties.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NoReturn

import numpy as np

from dsba.errors import InputError
from dsba.graph.graph import Graph, Tree, int_pairs, read_only
from dsba.graph.mixing import Mixing
from dsba.types import Array, Flags, Indices


@dataclass(frozen=True, init=False, repr=False)
class DirectedGraph(Graph):
    """A strongly connected directed graph on the nodes 0..N-1; immutable.

    An edge is a pair (sender, receiver). The neighbours of a node are those that it hears.
    """

    directed: ClassVar[bool] = True

    def __init__(self, n_nodes: int, edges: Iterable[Iterable[int]]) -> None:
        pairs = int_pairs(edges)
        super().__init__(n_nodes, pairs)  # which checks the numbers
        object.__setattr__(self, "edges", tuple(sorted({pair for pair in pairs if pair[0] != pair[1]})))
        if not np.isfinite(self._hops).all():
            to, source = np.argwhere(~np.isfinite(self._hops))[0]
            raise InputError(f"the directed graph is not strongly connected: no way leads from {source} to {to}.")

    @cached_property
    def adjacency(self) -> Flags:
        """N x N, True at (n, m) where node n hears node m."""
        adjacency = np.zeros((self.n_nodes, self.n_nodes), dtype=bool)
        for sender, receiver in self.edges:
            adjacency[receiver, sender] = True
        adjacency.flags.writeable = False
        return adjacency

    @cached_property
    def _hops(self) -> Array:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import shortest_path

        hops: Array = shortest_path(csr_array(self.adjacency.T.astype(np.float64)), unweighted=True).T
        return hops

    @cached_property
    def distances(self) -> Indices:
        """N x N hop counts: distances[n, j] rounds bring a message from j to n."""
        return read_only(self._hops.astype(np.int64))

    @cached_property
    def tree(self) -> Tree:
        """That of the graph with every link in both directions: questions are no part of a method."""
        return Graph(self.n_nodes, self.edges).tree


def row_stochastic(graph: Graph) -> Array:
    """R: equal weights for a node and all that it hears."""
    own = graph.adjacency + np.eye(graph.n_nodes)
    return read_only(own / own.sum(axis=1, keepdims=True))


def column_stochastic(graph: Graph) -> Array:
    """C: equal shares of a node for itself and all that hear it."""
    own = graph.adjacency + np.eye(graph.n_nodes)
    return read_only(own / own.sum(axis=0))


@dataclass(frozen=True, eq=False, repr=False)
class DirectedMixing(Mixing):
    """The mixing whose W~ is ``row_stochastic``."""

    @classmethod
    def of(cls, graph: Graph) -> DirectedMixing:
        return cls(graph, read_only(2 * row_stochastic(graph) - np.eye(graph.n_nodes)), "equal")

    @cached_property
    def eigenvalues(self) -> Array:
        """The magnitudes of the eigenvalues of R in descending order; the first is exactly 1."""
        magnitudes = np.sort(np.abs(np.linalg.eigvals(self.W_tilde)))[::-1]
        return read_only(np.concatenate([[1.0], magnitudes[1:]]))

    @property
    def eigenvectors(self) -> NoReturn:
        raise InputError("the mixing matrix of a directed graph is not symmetric: it has no orthogonal eigenvectors.")

    def chebyshev(self, rounds: int) -> NoReturn:
        raise InputError("Chebyshev mixing needs a symmetric matrix, and the graph is directed.")
