"""Graphs: who hears whom, and along which routes.

A graph is connected and undirected; its nodes are 0..N-1.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from operator import index
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np

from dsba.errors import InputError, as_integer, cannot
from dsba.types import Array, Flags, Indices

AnyArray = TypeVar("AnyArray", Array, Indices, Flags)
Edges: TypeAlias = tuple[tuple[int, int], ...]

MAX_DRAWS = 1000
MAX_NODES = 10_000  # a mixing matrix and its eigenvectors are N x N: some gigabytes at this size
MAX_BYTES = 1 << 28  # of an edge list


class Tree(NamedTuple):
    """A spanning tree along which sums go up to the root and answers come down."""

    root: int
    parents: Indices  # -1 at the root
    depth: int
    children: Indices  # how many each node has


@dataclass(frozen=True, init=False, repr=False)
class Graph:
    """A connected undirected graph on the nodes 0..N-1; immutable.

    Self-loops and repeated edges in the input are ignored.
    """

    n_nodes: int
    edges: Edges  # sorted pairs (n, m), n < m
    directed: ClassVar[bool] = False

    def __init__(self, n_nodes: int, edges: Iterable[Iterable[int]]) -> None:
        object.__setattr__(self, "n_nodes", node_count(n_nodes))
        object.__setattr__(self, "edges", _clean_edges(edges, self.n_nodes))
        _require_connected(self.n_nodes, self.edges)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n_nodes} nodes, {len(self.edges)} edges)"

    @cached_property
    def adjacency(self) -> Flags:
        """N x N, True on the edges."""
        adjacency = np.zeros((self.n_nodes, self.n_nodes), dtype=bool)
        n, m = _columns(self.edges)
        adjacency[n, m] = adjacency[m, n] = True
        return read_only(adjacency)

    @cached_property
    def laplacian(self) -> Array:
        """N x N: degrees on the diagonal, -1 on the edges."""
        return read_only(np.diag(self.adjacency.sum(axis=1)) - self.adjacency.astype(np.float64))

    @cached_property
    def neighbors(self) -> tuple[Indices, ...]:
        """For each node the increasing numbers of its neighbours, without itself."""
        return tuple(read_only(np.flatnonzero(row).astype(np.int64)) for row in self.adjacency)

    @cached_property
    def degrees(self) -> Indices:
        """The number of neighbours of each node, without itself."""
        return read_only(np.array([len(nearby) for nearby in self.neighbors], dtype=np.int64))

    @cached_property
    def listeners(self) -> tuple[Indices, ...]:
        """For each node the increasing numbers of those that hear it: its neighbours, unless the graph is directed."""
        return tuple(read_only(np.flatnonzero(column).astype(np.int64)) for column in self.adjacency.T)

    @cached_property
    def distances(self) -> Indices:
        """N x N hop counts: distances[n, j] rounds bring a message from j to n."""
        from scipy.sparse.csgraph import shortest_path

        hops = shortest_path(_sparse_graph(self.n_nodes, self.edges), directed=False, unweighted=True)
        return read_only(hops.astype(np.int64))

    @cached_property
    def diameter(self) -> int:
        """The largest distance."""
        return int(self.distances.max())

    @cached_property
    def parents(self) -> Indices:
        """N x N routes: parents[n, j] hands node n what comes from source j; -1 on the diagonal.

        It is the neighbour of n of smallest number that is one hop nearer to j, so that every message
        reaches every node exactly once, as early as it can.
        """
        parents = np.full((self.n_nodes, self.n_nodes), -1, dtype=np.int64)
        if self.n_nodes > 1:
            for n, nearby in enumerate(self.neighbors):
                nearer = self.distances[nearby] == self.distances[n] - 1
                parents[n] = nearby[np.argmax(nearer, axis=0)]
            np.fill_diagonal(parents, -1)
        return read_only(parents)

    @cached_property
    def connectivity(self) -> float:
        """The least nonzero eigenvalue of the Laplacian; 1 for a single node, which has none."""
        return float(np.linalg.eigvalsh(self.laplacian)[1]) if self.n_nodes > 1 else 1.0

    @cached_property
    def tree(self) -> Tree:
        """Paths to a node in the middle. None is longer than the longest shortest path there, and the busiest node has
        few links: what a sum takes is mostly the time of the bytes into this node."""
        far = self.distances.max(axis=1)
        root = int(np.argmin(far))
        parents = self._spread(self.parents[:, root].copy(), self.distances[:, root].copy(), int(far[root]))
        return Tree(root, read_only(parents), int(far[root]), _children(parents))

    def _spread(self, parents: Indices, depths: Indices, most: int) -> Indices:
        """The tree after leaves of the busiest node have gone to neighbours with fewer links, no deeper than ``most``.

        The sum of squared links falls with every move, so this ends.
        """
        while True:
            links = _children(parents) + (parents >= 0)
            busiest = int(np.argmax(links))
            for leaf in np.flatnonzero((parents == busiest) & (links == 1)):
                nearby = self.neighbors[leaf]
                free = nearby[(depths[nearby] < most) & (links[nearby] + 1 < links[busiest])]
                if free.size:
                    parents[leaf] = free[np.argmin(links[free])]
                    depths[leaf] = depths[parents[leaf]] + 1
                    break
            else:
                return parents


def _children(parents: Indices) -> Indices:
    """How many children each node of a tree has."""
    return np.bincount(parents[parents >= 0], minlength=parents.size)


# -------------------------------------------------------------------- reading and drawing graphs


def int_pairs(edges: Iterable[Iterable[int]]) -> list[tuple[int, int]]:
    pairs = []
    for edge in edges:
        try:
            n, m = map(index, edge)
        except (TypeError, ValueError):
            raise InputError(f"an edge must be a pair of node numbers, got {edge!r}.") from None
        pairs.append((n, m))
    return pairs


def node_count(n_nodes: int) -> int:
    """The number of nodes, if there is one and matrices of that size fit into memory."""
    if as_integer("n_nodes", n_nodes, at_least=1) > MAX_NODES:
        raise InputError(f"a graph may have at most {MAX_NODES} nodes, as its mixing matrix is N x N; got {n_nodes}.")
    return int(n_nodes)


def _clean_edges(edges: Iterable[Iterable[int]], n_nodes: int) -> Edges:
    """Sorted pairs n < m, each once, without self-loops."""
    pairs = int_pairs(edges)
    for pair in pairs:
        if min(pair) < 0 or max(pair) >= n_nodes:
            raise InputError(f"edge {pair} leaves the node numbers 0..{n_nodes - 1}.")
    return tuple(sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}))


def read_edges(path: Path) -> list[tuple[int, int]]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"the edge list {path} has more than {MAX_BYTES} bytes.")
        # A binary file must fail at its first line with the message below, not inside the decoder.
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise cannot(f"read the edge list {path}", error) from error
    pairs = []
    for number, line in enumerate(lines, start=1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) != 2 or not all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
            raise InputError(f"{path}, line {number}: wanted two node numbers.")
        pairs.append((int(words[0]), int(words[1])))
    return pairs


def draw_connected(n_nodes: int, p: float, seed: int) -> Indices:
    if not 0 <= p <= 1:
        raise InputError(f"the edge probability p must be in [0, 1], got {p!r}.")
    rng = np.random.default_rng(seed)
    pairs = np.column_stack(np.triu_indices(node_count(n_nodes), k=1))
    for _ in range(MAX_DRAWS):
        edges = pairs[rng.random(len(pairs)) < p]
        # n - 1 edges are the least a connected graph has: most hopeless draws end here, for nothing.
        if len(edges) >= n_nodes - 1 and not _component_labels(n_nodes, edges).any():
            return edges
    raise InputError(
        f"none of {MAX_DRAWS} random graphs with n_nodes = {n_nodes} and p = {p} was connected: "
        f"p is too small for so many nodes; about ln(N)/N = {math.log(n_nodes) / n_nodes:.2g} is needed."
    )


# -------------------------------------------------------------------- connectivity


def _sparse_graph(n_nodes: int, edges: Edges | Indices) -> Any:
    """The upper triangle of the adjacency matrix, which is what scipy calls an undirected graph."""
    from scipy.sparse import csr_array

    n, m = (column.astype(np.int32) for column in _columns(edges))  # older scipy finds no routes with wider ones
    return csr_array((np.ones(len(edges)), (n, m)), shape=(n_nodes, n_nodes))


def _columns(edges: Edges | Indices) -> tuple[Indices, Indices]:
    n, m = np.asarray(edges, dtype=np.int64).reshape(-1, 2).T
    return n, m


def _component_labels(n_nodes: int, edges: Edges | Indices) -> Any:
    """For each node the number of its component, counted from 0."""
    from scipy.sparse.csgraph import connected_components

    return connected_components(_sparse_graph(n_nodes, edges), directed=False)[1]


def _require_connected(n_nodes: int, edges: Edges) -> None:
    labels = _component_labels(n_nodes, edges)
    count = int(labels.max()) + 1
    if count > 1:
        shown = [_shorten(np.flatnonzero(labels == k).tolist()) for k in range(min(count, 5))]
        more = ", ..." if count > len(shown) else ""
        raise InputError(f"the graph is not connected; its {count} components: {', '.join(shown)}{more}.")


def _shorten(nodes: list[int]) -> str:
    more = ", ..." if len(nodes) > 8 else ""
    return "{" + ", ".join(map(str, nodes[:8])) + more + "}"


def read_only(array: AnyArray) -> AnyArray:
    """The array, made read-only."""
    array.flags.writeable = False
    return array
