"""Topologies: a graph and a mixing matrix on it, made by one call."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsba.errors import InputError, unknown_name
from dsba.graph.graph import (
    Edges,
    FloatArray,
    Graph,
    IntArray,
    bounded,
    count_of,
    draw_connected,
    int_pairs,
    read_edges,
)
from dsba.graph.mixing import Mixing, Weights

if TYPE_CHECKING:
    import networkx as nx

GRAPH_FAMILIES = ("random", "ring", "path", "star", "complete", "grid")


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Topology:
    """A connected undirected graph on the nodes 0..N-1 with a mixing matrix W; immutable.

    Every constructor takes the same two keywords:

    mixing : "laplacian" (the default), "metropolis", or an N x N array
        "laplacian" is W = I - L/tau with L the graph Laplacian. "metropolis" (Metropolis-Hastings) is
        W_nm = 1/(1 + max(deg_n, deg_m)) on edges, and on the diagonal what makes the rows sum to one.
        An array is used as it is, after the four conditions of ``dsba.graph.mixing`` were checked.
    tau : float, for "laplacian" only
        Default lambda_max(L), which gives 0 <= W <= I; any tau >= lambda_max(L)/2 is accepted.

    Self-loops and repeated edges in the input are ignored. Two topologies are equal when they have the
    same edges, the same W and the same number of rounds. All arrays are read-only.
    """

    graph: Graph
    mixing: Mixing
    name: str

    def __init__(
        self,
        n_nodes: int,
        edges: Iterable[Iterable[int]],
        *,
        mixing: Weights = "laplacian",
        tau: float | None = None,
        name: str = "custom",
    ) -> None:
        graph = Graph(n_nodes, edges)
        self._set(graph, Mixing.on(graph, mixing, tau), name)

    def _set(self, graph: Graph, mixing: Mixing, name: str) -> None:
        for attribute, value in (("graph", graph), ("mixing", mixing), ("name", name)):
            object.__setattr__(self, attribute, value)

    def chebyshev(self, rounds: int) -> Topology:
        """The same graph with K = ``rounds`` rounds of gossip as one mixing, for methods that send dense rows."""
        other = object.__new__(Topology)
        other._set(self.graph, self.mixing.chebyshev(rounds), self.name)
        return other

    # ---------------------------------------------------------------- constructors

    @classmethod
    def random(
        cls,
        n_nodes: int,
        p: float = 0.4,
        seed: int = 0,
        *,
        mixing: Weights = "laplacian",
        tau: float | None = None,
    ) -> Topology:
        """Erdos-Renyi: each edge with probability p, redrawn until the graph is connected."""
        edges = draw_connected(count_of(n_nodes, "n_nodes"), p, seed)
        return cls(n_nodes, edges, mixing=mixing, tau=tau, name="random")

    @classmethod
    def ring(cls, n_nodes: int, *, mixing: Weights = "laplacian", tau: float | None = None) -> Topology:
        """Node n beside n+1, and the last beside the first; two nodes share one edge."""
        n_nodes = count_of(n_nodes, "n_nodes")
        edges = ((n, (n + 1) % n_nodes) for n in range(n_nodes))
        return cls(n_nodes, edges, mixing=mixing, tau=tau, name="ring")

    @classmethod
    def path(cls, n_nodes: int, *, mixing: Weights = "laplacian", tau: float | None = None) -> Topology:
        """Node n beside n+1: the largest diameter N nodes can have."""
        edges = ((n, n + 1) for n in range(bounded(count_of(n_nodes, "n_nodes")) - 1))
        return cls(n_nodes, edges, mixing=mixing, tau=tau, name="path")

    @classmethod
    def star(cls, n_nodes: int, *, mixing: Weights = "laplacian", tau: float | None = None) -> Topology:
        """Node 0 in the centre, beside all others."""
        edges = ((0, n) for n in range(1, bounded(count_of(n_nodes, "n_nodes"))))
        return cls(n_nodes, edges, mixing=mixing, tau=tau, name="star")

    @classmethod
    def complete(cls, n_nodes: int, *, mixing: Weights = "laplacian", tau: float | None = None) -> Topology:
        """Every node beside every other; the default W averages in one round."""
        edges = combinations(range(bounded(count_of(n_nodes, "n_nodes"))), 2)
        return cls(n_nodes, edges, mixing=mixing, tau=tau, name="complete")

    @classmethod
    def grid(cls, rows: int, cols: int, *, mixing: Weights = "laplacian", tau: float | None = None) -> Topology:
        """A rows x cols lattice, numbered row by row."""
        rows, cols = count_of(rows, "rows"), count_of(cols, "cols")
        bounded(rows * cols)
        across = [(r * cols + c, r * cols + c + 1) for r in range(rows) for c in range(cols - 1)]
        down = [(n, n + cols) for n in range((rows - 1) * cols)]
        return cls(rows * cols, across + down, mixing=mixing, tau=tau, name="grid")

    @classmethod
    def family(
        cls,
        name: str,
        n_nodes: int,
        *,
        p: float = 0.4,
        seed: int = 0,
        mixing: Weights = "laplacian",
        tau: float | None = None,
    ) -> Topology:
        """One of `GRAPH_FAMILIES` by name, for command lines and configuration files.

        p and seed concern "random" alone; "grid" takes the most square factorisation of n_nodes.
        """
        if name not in GRAPH_FAMILIES:
            raise unknown_name("graph family", name, GRAPH_FAMILIES)
        if name == "random":
            return cls.random(n_nodes, p, seed, mixing=mixing, tau=tau)
        if name == "grid":
            n_nodes = count_of(n_nodes, "n_nodes")
            rows = next(r for r in range(math.isqrt(n_nodes), 0, -1) if n_nodes % r == 0)
            return cls.grid(rows, n_nodes // rows, mixing=mixing, tau=tau)
        constructor = {"ring": cls.ring, "path": cls.path, "star": cls.star, "complete": cls.complete}[name]
        return constructor(n_nodes, mixing=mixing, tau=tau)

    @classmethod
    def of(
        cls,
        what: object,
        n_nodes: int | None = None,
        *,
        p: float = 0.4,
        seed: int = 0,
        mixing: Weights = "laplacian",
        tau: float | None = None,
    ) -> Topology:
        """The topology that a person means by ``what``.

        ``what`` is a Topology (returned as it is), the name of a family ("ring"), "random:0.3" with the probability
        of an edge, the path of an edge list, a networkx graph, or a list of edges. ``n_nodes`` is the size of a
        family's graph; every other graph has a size of its own.
        """
        weights: dict[str, Any] = {"mixing": mixing, "tau": tau}
        if isinstance(what, Topology):
            return what
        if hasattr(what, "is_directed"):
            return cls.from_networkx(what, **weights)
        if not isinstance(what, str | os.PathLike):
            if not isinstance(what, Iterable):
                raise InputError(f"a graph is a name, a file, a networkx graph or a list of edges, got {what!r}.")
            return cls.from_edges(what, **weights)
        text = os.fspath(what)
        name, colon, probability = text.partition(":")
        if name not in GRAPH_FAMILIES or (colon and name != "random"):
            if not Path(text).is_file():
                raise unknown_name("graph", text, [*GRAPH_FAMILIES, "random:p", "the path of an edge list"])
            return cls.from_edges(text, **weights)
        if n_nodes is None:
            raise InputError(f"the graph {text!r} is a family of graphs: give n_nodes.")
        try:
            p = float(probability) if colon else p
        except ValueError:
            raise InputError(f"graph {text!r}: the edge probability must be a number, got {probability!r}.") from None
        return cls.family(name, n_nodes, p=p, seed=seed, **weights)

    @classmethod
    def from_networkx(cls, G: nx.Graph, *, mixing: Weights = "laplacian", tau: float | None = None) -> Topology:
        """The nodes of G, renumbered 0..N-1 in sorted order, or in G's own where labels do not compare.

        Edge weights of G are not read: weights are W's business.
        """
        import networkx as nx

        if not isinstance(G, nx.Graph) or G.is_directed():
            raise InputError(f"wanted an undirected networkx graph, got a {type(G).__name__}.")
        try:
            labels = sorted(G)
        except TypeError:
            labels = list(G)
        number = {label: n for n, label in enumerate(labels)}
        # By position: a multigraph's edges may come with a key.
        edges = ((number[edge[0]], number[edge[1]]) for edge in G.edges)
        return cls(len(labels), edges, mixing=mixing, tau=tau, name="networkx")

    @classmethod
    def from_edges(
        cls,
        edges: str | os.PathLike[str] | Iterable[Iterable[int]],
        n_nodes: int | None = None,
        *,
        mixing: Weights = "laplacian",
        tau: float | None = None,
    ) -> Topology:
        """Pairs of node numbers 0..N-1, or the path of a text file with one such pair per line.

        In a file, `#` starts a comment and blank lines are skipped. Without n_nodes, the largest number
        is the last node.
        """
        pairs = read_edges(Path(edges)) if isinstance(edges, str | os.PathLike) else int_pairs(edges)
        if n_nodes is None:
            if not pairs:
                raise InputError("the edge list is empty and n_nodes is not given: give at least one.")
            n_nodes = 1 + max(map(max, pairs))
        return cls(n_nodes, pairs, mixing=mixing, tau=tau, name="edges")

    def to_networkx(self) -> nx.Graph:
        """The graph without W, for drawing."""
        import networkx as nx

        G = nx.Graph()
        G.add_nodes_from(range(self.n_nodes))
        G.add_edges_from(self.edges)
        return G

    # ---------------------------------------------------------------- the graph

    @property
    def n_nodes(self) -> int:
        return self.graph.n_nodes

    @property
    def edges(self) -> Edges:
        """Sorted pairs (n, m), n < m."""
        return self.graph.edges

    @property
    def neighbors(self) -> tuple[IntArray, ...]:
        """For each node the increasing numbers of its neighbours, without itself."""
        return self.graph.neighbors

    @property
    def degrees(self) -> IntArray:
        """The number of neighbours of each node, without itself."""
        return self.graph.degrees

    @property
    def distances(self) -> IntArray:
        """N x N hop counts: distances[n, j] rounds bring a message from j to n."""
        return self.graph.distances

    @property
    def diameter(self) -> int:
        """The largest distance."""
        return self.graph.diameter

    @property
    def parents(self) -> IntArray:
        """N x N routes: parents[n, j] hands node n what comes from source j; -1 on the diagonal."""
        return self.graph.parents

    @property
    def connectivity(self) -> float:
        """The least nonzero eigenvalue of the graph's Laplacian."""
        return self.graph.connectivity

    # ---------------------------------------------------------------- the mixing matrix

    @property
    def W(self) -> FloatArray:
        return self.mixing.W

    @property
    def W_tilde(self) -> FloatArray:
        """(I + W)/2."""
        return self.mixing.W_tilde

    @property
    def eigenvalues(self) -> FloatArray:
        """Eigenvalues of W_tilde in descending order, in [0, 1]; the first is exactly 1."""
        return self.mixing.eigenvalues

    @property
    def eigenvectors(self) -> FloatArray:
        """Orthonormal eigenvectors of W_tilde as columns; the first is exactly 1/sqrt(N) everywhere."""
        return self.mixing.eigenvectors

    @property
    def gamma(self) -> float:
        """The smallest nonzero eigenvalue of (I - W)/2; 1 for a single node, which has nothing to mix."""
        return self.mixing.gamma

    @property
    def kappa_g(self) -> float:
        """The condition number of the graph, 1/gamma."""
        return self.mixing.kappa_g

    # ---------------------------------------------------------------- identity

    def digest(self) -> str:
        """A fingerprint (hex sha256) of N, the edges, every bit of W and the rounds it costs."""
        rounds = f"{self.mixing.rounds} " if self.mixing.rounds > 1 else ""
        sha = hashlib.sha256(f"{self.n_nodes} {self.edges} {rounds}".encode())
        sha.update(self.W.astype("<f8").tobytes())
        return sha.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topology) and self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())

    def __repr__(self) -> str:
        return (
            f"Topology({self.name}, N={self.n_nodes}, {len(self.edges)} edges, {self.mixing.name}, "
            f"gamma={self.gamma:.2g}, diameter={self.diameter})"
        )
