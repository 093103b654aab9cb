"""Topologies: a graph and a mixing matrix on it, made by one call."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from dsba.errors import InputError, as_integer, require_known, require_package, unknown_name
from dsba.graph.directed import DirectedGraph, DirectedMixing
from dsba.graph.graph import Edges, Graph, draw_connected, int_pairs, node_count, read_edges
from dsba.graph.mixing import Mixing, Weights
from dsba.types import Array, Indices

if TYPE_CHECKING:
    import networkx as nx


class Weighting(TypedDict, total=False):
    """The two keywords of every constructor of a ``Topology``."""

    mixing: Weights
    tau: float | None


GRAPH_FAMILIES = ("random", "ring", "path", "star", "complete", "grid")


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Topology:
    """A connected graph on the nodes 0..N-1 with a mixing matrix W; immutable.

    Self-loops and repeated edges in the input are ignored. Two topologies are equal if they have the same edges, the
    same W and the same number of rounds. All arrays are read-only. Only a networkx DiGraph makes a directed topology.

    Parameters
    ----------
    n_nodes : int
        The number of nodes.
    edges : Iterable[Iterable[int]]
        Pairs of node numbers.
    mixing : {"laplacian", "metropolis"} or numpy.ndarray
        "laplacian" is W = I - L/tau with L the graph Laplacian. "metropolis" (Metropolis-Hastings) is W_nm = 1/(1 +
        max(deg_n, deg_m)) on edges, and on the diagonal what makes the rows sum to one. An N x N array is used as it
        is, after the four conditions of ``dsba.graph.mixing`` are checked.
    tau : float or None
        For "laplacian" only. None is lambda_max(L), which gives 0 <= W <= I. Any tau >= lambda_max(L)/2 is accepted.
    name : str
        A name for figures and tables.

    Raises
    ------
    InputError
        If the graph is not connected, or W does not meet the conditions.

    Examples
    --------
    >>> import dsba
    >>> square = dsba.Topology(4, [(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> square == dsba.Topology.ring(4)
    True
    >>> round(float(square.gamma), 3)
    0.25
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
        """The same graph with several rounds of gossip as one mixing, for methods that send dense rows.

        Parameters
        ----------
        rounds : int
            K, the rounds of one mixing.

        Returns
        -------
        Topology
            The graph whose mixing matrix is the Chebyshev polynomial of W.
        """
        other = object.__new__(Topology)
        other._set(self.graph, self.mixing.chebyshev(rounds), self.name)
        return other

    # ---------------------------------------------------------------- constructors

    @classmethod
    def random(cls, n_nodes: int, p: float = 0.4, seed: int = 0, **weights: Unpack[Weighting]) -> Topology:
        """Erdos-Renyi: each edge with probability p, drawn again until the graph is connected.

        Parameters
        ----------
        n_nodes : int
            The number of nodes.
        p : float
            The probability of an edge.
        seed : int
            The seed of the draws.
        **weights : Unpack[Weighting]
            ``mixing`` and ``tau``, as in ``Topology``.

        Returns
        -------
        Topology
            The graph with its mixing matrix.

        Raises
        ------
        InputError
            If no connected graph is found, or an argument is not usable.

        Examples
        --------
        >>> import dsba
        >>> dsba.Topology.random(10, 0.4, seed=0).n_nodes
        10
        """
        return cls(n_nodes, draw_connected(n_nodes, p, seed), name="random", **weights)

    @classmethod
    def ring(cls, n_nodes: int, **weights: Unpack[Weighting]) -> Topology:
        """Node n is linked to n + 1, and the last node to the first; two nodes share one edge.

        Parameters
        ----------
        n_nodes : int
            The number of nodes.
        **weights : Unpack[Weighting]
            ``mixing`` and ``tau``, as in ``Topology``.

        Returns
        -------
        Topology
            The graph with its mixing matrix.

        Raises
        ------
        InputError
            If ``n_nodes`` is not a positive integer, or ``mixing`` or ``tau`` is not usable.

        Examples
        --------
        >>> import dsba
        >>> dsba.Topology.ring(4).edges
        ((0, 1), (0, 3), (1, 2), (2, 3))
        """
        return cls(n_nodes, ((n, (n + 1) % n_nodes) for n in range(node_count(n_nodes))), name="ring", **weights)

    @classmethod
    def path(cls, n_nodes: int, **weights: Unpack[Weighting]) -> Topology:
        """Node n is linked to n + 1: the largest diameter that N nodes can have.

        Parameters
        ----------
        n_nodes : int
            The number of nodes.
        **weights : Unpack[Weighting]
            ``mixing`` and ``tau``, as in ``Topology``.

        Returns
        -------
        Topology
            The graph with its mixing matrix.

        Raises
        ------
        InputError
            If ``n_nodes`` is not a positive integer, or ``mixing`` or ``tau`` is not usable.

        Examples
        --------
        >>> import dsba
        >>> dsba.Topology.path(4).edges
        ((0, 1), (1, 2), (2, 3))
        """
        return cls(n_nodes, ((n, n + 1) for n in range(node_count(n_nodes) - 1)), name="path", **weights)

    @classmethod
    def star(cls, n_nodes: int, **weights: Unpack[Weighting]) -> Topology:
        """Node 0 is in the centre, linked to all others.

        Parameters
        ----------
        n_nodes : int
            The number of nodes.
        **weights : Unpack[Weighting]
            ``mixing`` and ``tau``, as in ``Topology``.

        Returns
        -------
        Topology
            The graph with its mixing matrix.

        Raises
        ------
        InputError
            If ``n_nodes`` is not a positive integer, or ``mixing`` or ``tau`` is not usable.

        Examples
        --------
        >>> import dsba
        >>> dsba.Topology.star(4).edges
        ((0, 1), (0, 2), (0, 3))
        """
        return cls(n_nodes, ((0, n) for n in range(1, node_count(n_nodes))), name="star", **weights)

    @classmethod
    def complete(cls, n_nodes: int, **weights: Unpack[Weighting]) -> Topology:
        """Every node is linked to every other; the default W averages in one round.

        Parameters
        ----------
        n_nodes : int
            The number of nodes.
        **weights : Unpack[Weighting]
            ``mixing`` and ``tau``, as in ``Topology``.

        Returns
        -------
        Topology
            The graph with its mixing matrix.

        Raises
        ------
        InputError
            If ``n_nodes`` is not a positive integer, or ``mixing`` or ``tau`` is not usable.

        Examples
        --------
        >>> import dsba
        >>> dsba.Topology.complete(4).edges
        ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))
        """
        return cls(n_nodes, combinations(range(node_count(n_nodes)), 2), name="complete", **weights)

    @classmethod
    def grid(cls, rows: int, cols: int, **weights: Unpack[Weighting]) -> Topology:
        """A rows x cols lattice, numbered row by row.

        Parameters
        ----------
        rows : int
            The number of rows.
        cols : int
            The number of columns.
        **weights : Unpack[Weighting]
            ``mixing`` and ``tau``, as in ``Topology``.

        Returns
        -------
        Topology
            The graph with its mixing matrix.

        Raises
        ------
        InputError
            If ``n_nodes`` is not a positive integer, or ``mixing`` or ``tau`` is not usable.

        Examples
        --------
        >>> import dsba
        >>> dsba.Topology.grid(2, 3).diameter
        3
        """
        rows, cols = as_integer("rows", rows, at_least=1), as_integer("cols", cols, at_least=1)
        node_count(rows * cols)
        across = [(r * cols + c, r * cols + c + 1) for r in range(rows) for c in range(cols - 1)]
        down = [(n, n + cols) for n in range((rows - 1) * cols)]
        return cls(rows * cols, across + down, name="grid", **weights)

    @classmethod
    def family(
        cls, name: str, n_nodes: int, *, p: float = 0.4, seed: int = 0, **weights: Unpack[Weighting]
    ) -> Topology:
        """A graph of ``GRAPH_FAMILIES`` by name, for command lines and configuration files.

        Parameters
        ----------
        name : str
            "random", "ring", "path", "star", "complete" or "grid", which takes the most square factorisation.
        n_nodes : int
            The number of nodes.
        p : float
            The probability of an edge, for "random".
        seed : int
            The seed of the draws, for "random".
        **weights : Unpack[Weighting]
            ``mixing`` and ``tau``, as in ``Topology``.

        Returns
        -------
        Topology
            The graph with its mixing matrix.

        Raises
        ------
        InputError
            If the name is not known.

        Examples
        --------
        >>> import dsba
        >>> dsba.Topology.family("grid", 6) == dsba.Topology.grid(2, 3)
        True
        """
        require_known("graph family", name, GRAPH_FAMILIES)
        if name == "random":
            return cls.random(n_nodes, p, seed, **weights)
        if name == "grid":
            n_nodes = node_count(n_nodes)
            rows = next(r for r in range(math.isqrt(n_nodes), 0, -1) if n_nodes % r == 0)
            return cls.grid(rows, n_nodes // rows, **weights)
        return getattr(cls, name)(n_nodes, **weights)

    @classmethod
    def of(
        cls, what: object, n_nodes: int | None = None, *, p: float = 0.4, seed: int = 0, **weights: Unpack[Weighting]
    ) -> Topology:
        """The topology that a user names in one of several ways.

        Parameters
        ----------
        what : str, path-like, networkx.Graph, Topology or list of pairs
            A Topology (returned as it is), the name of a family ("ring"), "random:0.3" with the probability of an edge,
            the path of an edge list, a networkx graph, or a list of edges.
        n_nodes : int or None
            The size of a family's graph; every other graph has its own.
        p : float
            The probability of an edge, for "random".
        seed : int
            The seed of the draws, for "random".
        **weights : Unpack[Weighting]
            ``mixing`` and ``tau``, as in ``Topology``.

        Returns
        -------
        Topology
            The graph with its mixing matrix.

        Raises
        ------
        InputError
            If ``what`` is none of these, or a family is named without ``n_nodes``.

        Examples
        --------
        >>> import dsba
        >>> dsba.Topology.of("ring", 5) == dsba.Topology.ring(5)
        True
        """
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
    def from_networkx(cls, G: nx.Graph, **weights: Unpack[Weighting]) -> Topology:
        """The nodes and edges of a networkx graph.

        Nodes are numbered 0..N-1 in sorted order, or in the graph's own order where labels do not compare. Edge weights
        are not read. A DiGraph must be strongly connected. Its edge (m, n) carries rows from m to n, and its weights
        are those of ``dsba.graph.directed``.

        Parameters
        ----------
        G : networkx.Graph
            The graph.
        **weights : Unpack[Weighting]
            ``mixing`` and ``tau``, as in ``Topology``.

        Returns
        -------
        Topology
            The graph with its mixing matrix.

        Raises
        ------
        InputError
            If G is not a connected networkx graph.

        Examples
        --------
        >>> import dsba, networkx
        >>> dsba.Topology.from_networkx(networkx.path_graph(3)).edges
        ((0, 1), (1, 2))
        """
        import networkx as nx

        if not isinstance(G, nx.Graph):
            raise InputError(f"wanted a networkx graph, got a {type(G).__name__}.")
        try:
            labels = sorted(G)
        except TypeError:
            labels = list(G)
        number = {label: n for n, label in enumerate(labels)}
        # By position: a multigraph's edges may come with a key.
        edges = ((number[edge[0]], number[edge[1]]) for edge in G.edges)
        if not G.is_directed():
            return cls(len(labels), edges, name="networkx", **weights)
        mixing = weights.get("mixing", "laplacian")
        if weights.get("tau") is not None or not isinstance(mixing, str) or mixing != "laplacian":
            raise InputError("mixing and tau are for undirected graphs: a directed graph has equal weights.")
        other, graph = object.__new__(cls), DirectedGraph(len(labels), edges)
        other._set(graph, DirectedMixing.of(graph), "networkx")
        return other

    @classmethod
    def from_edges(
        cls,
        edges: str | os.PathLike[str] | Iterable[Iterable[int]],
        n_nodes: int | None = None,
        **weights: Unpack[Weighting],
    ) -> Topology:
        """A graph from pairs of node numbers, or from a text file with one pair per line.

        In a file, `#` starts a comment, and blank lines are skipped.

        Parameters
        ----------
        edges : path-like or list of pairs
            The pairs, or the path of the file.
        n_nodes : int or None
            The number of nodes; None is one more than the largest number.
        **weights : Unpack[Weighting]
            ``mixing`` and ``tau``, as in ``Topology``.

        Returns
        -------
        Topology
            The graph with its mixing matrix.

        Raises
        ------
        InputError
            If a pair is not two node numbers, or the graph is not connected.

        Examples
        --------
        >>> import dsba
        >>> dsba.Topology.from_edges([(0, 1), (1, 2)]) == dsba.Topology.path(3)
        True
        """
        pairs = read_edges(Path(edges)) if isinstance(edges, str | os.PathLike) else int_pairs(edges)
        if n_nodes is None:
            if not pairs:
                raise InputError("the edge list is empty and n_nodes is not given: give at least one.")
            n_nodes = 1 + max(map(max, pairs))
        return cls(n_nodes, pairs, name="edges", **weights)

    def to_networkx(self) -> nx.Graph:
        """The graph without W, for drawing.

        Returns
        -------
        networkx.Graph
            The nodes and edges; a DiGraph if links lead one way.

        Raises
        ------
        InputError
            If networkx is not installed.
        """
        require_package("to_networkx", "networkx", "lab")
        import networkx as nx

        G = nx.DiGraph() if self.directed else nx.Graph()
        G.add_nodes_from(range(self.n_nodes))
        G.add_edges_from(self.edges)
        return G

    # ---------------------------------------------------------------- the graph

    @property
    def n_nodes(self) -> int:
        return self.graph.n_nodes

    @property
    def directed(self) -> bool:
        """Whether links lead one way."""
        return self.graph.directed

    @property
    def edges(self) -> Edges:
        """Sorted pairs (n, m), n < m; of a directed graph (sender, receiver)."""
        return self.graph.edges

    @property
    def neighbors(self) -> tuple[Indices, ...]:
        """For each node the increasing numbers of its neighbours, without itself."""
        return self.graph.neighbors

    @property
    def degrees(self) -> Indices:
        """The number of neighbours of each node, without itself."""
        return self.graph.degrees

    @property
    def distances(self) -> Indices:
        """N x N hop counts: distances[n, j] rounds bring a message from j to n."""
        return self.graph.distances

    @property
    def diameter(self) -> int:
        """The largest distance."""
        return self.graph.diameter

    @property
    def parents(self) -> Indices:
        """N x N routes: parents[n, j] hands node n what comes from source j; -1 on the diagonal."""
        return self.graph.parents

    # ---------------------------------------------------------------- the mixing matrix

    @property
    def W(self) -> Array:
        return self.mixing.W

    @property
    def W_tilde(self) -> Array:
        """(I + W)/2."""
        return self.mixing.W_tilde

    @property
    def eigenvalues(self) -> Array:
        """Eigenvalues of W_tilde in descending order, in [0, 1]; the first is exactly 1."""
        return self.mixing.eigenvalues

    @property
    def eigenvectors(self) -> Array:
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
        """A fingerprint (hex sha256) of N, the edges, every bit of W and the rounds it costs.

        Returns
        -------
        str
            The hexadecimal digest.
        """
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
