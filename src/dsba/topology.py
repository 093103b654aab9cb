"""Graphs and their mixing matrices: who hears whom, how much, and along which routes.

A mixing matrix W of a connected graph on the nodes 0..N-1 satisfies four conditions, and every
`Topology` is checked against all of them, wherever its W comes from:

    (1) W = W'                              (2) W_nm = 0 unless n = m or (n, m) is an edge
    (3) null(I - W) = span(1)               (4) -I <= W <= I

Condition (3) says that the nodes stand still exactly when they agree; (4) is all that the
convergence of DSBA asks for (the paper's 0 <= W is what the default gives).
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dsba.errors import InputError, unknown_name

if TYPE_CHECKING:
    import networkx as nx

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
AnyArray = TypeVar("AnyArray", FloatArray, IntArray)
Edges: TypeAlias = tuple[tuple[int, int], ...]
Mixing: TypeAlias = str | ArrayLike

FAMILIES = ("random", "ring", "path", "star", "complete", "grid")
MIXINGS = ("laplacian", "metropolis")

TOLERANCE = 1e-10  # how far a given W may be from the four conditions: rounding, not modelling
MAX_DRAWS = 1000


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Topology:
    """A connected undirected graph on the nodes 0..N-1 with a mixing matrix W; immutable.

    Every constructor takes the same two keywords:

    mixing : "laplacian" (the default), "metropolis", or an N x N array
        "laplacian" is W = I - L/tau with L the graph Laplacian. "metropolis" (Metropolis-Hastings) is
        W_nm = 1/(1 + max(deg_n, deg_m)) on edges, and on the diagonal what makes the rows sum to one.
        An array is used as it is, after the four conditions at the top of this module were checked.
    tau : float, for "laplacian" only
        Default lambda_max(L), which gives 0 <= W <= I; any tau >= lambda_max(L)/2 is accepted.

    Self-loops and repeated edges in the input are ignored. Two topologies are equal when they have the
    same edges and the same W. All arrays are read-only, and all but W are computed when first asked for.
    """

    n_nodes: int
    edges: Edges  # sorted pairs (n, m), n < m
    W: FloatArray
    name: str
    mixing: str

    def __init__(
        self,
        n_nodes: int,
        edges: Iterable[Iterable[int]],
        *,
        mixing: Mixing = "laplacian",
        tau: float | None = None,
        name: str = "custom",
    ) -> None:
        n_nodes = _count(n_nodes, "n_nodes")
        clean = _clean_edges(edges, n_nodes)
        _require_connected(n_nodes, clean)
        adjacency = _adjacency(n_nodes, clean)
        W = _mixing_matrix(mixing, tau, adjacency)
        _check_mixing(W, adjacency)
        # What the tolerance let pass must not reach the algorithms: they rely on W = W' bit by bit,
        # and on zeros where there is no link to send over.
        W = np.where(adjacency | np.eye(n_nodes, dtype=bool), (W + W.T) / 2, 0.0)
        values = {
            "n_nodes": n_nodes,
            "edges": clean,
            "W": _read_only(W),
            "name": name,
            "mixing": mixing if isinstance(mixing, str) else "custom",
        }
        for attribute, value in values.items():
            object.__setattr__(self, attribute, value)

    # ---------------------------------------------------------------- constructors

    @classmethod
    def random(
        cls,
        n_nodes: int,
        p: float = 0.4,
        seed: int = 0,
        *,
        mixing: Mixing = "laplacian",
        tau: float | None = None,
    ) -> Topology:
        """Erdos-Renyi: each edge with probability p, redrawn until the graph is connected."""
        edges = _draw_connected(_count(n_nodes, "n_nodes"), p, seed)
        return cls(n_nodes, edges, mixing=mixing, tau=tau, name="random")

    @classmethod
    def ring(cls, n_nodes: int, *, mixing: Mixing = "laplacian", tau: float | None = None) -> Topology:
        """Node n beside n+1, and the last beside the first; two nodes share one edge."""
        n_nodes = _count(n_nodes, "n_nodes")
        edges = ((n, (n + 1) % n_nodes) for n in range(n_nodes))
        return cls(n_nodes, edges, mixing=mixing, tau=tau, name="ring")

    @classmethod
    def path(cls, n_nodes: int, *, mixing: Mixing = "laplacian", tau: float | None = None) -> Topology:
        """Node n beside n+1: the largest diameter N nodes can have."""
        edges = ((n, n + 1) for n in range(_count(n_nodes, "n_nodes") - 1))
        return cls(n_nodes, edges, mixing=mixing, tau=tau, name="path")

    @classmethod
    def star(cls, n_nodes: int, *, mixing: Mixing = "laplacian", tau: float | None = None) -> Topology:
        """Node 0 in the centre, beside all others."""
        edges = ((0, n) for n in range(1, _count(n_nodes, "n_nodes")))
        return cls(n_nodes, edges, mixing=mixing, tau=tau, name="star")

    @classmethod
    def complete(cls, n_nodes: int, *, mixing: Mixing = "laplacian", tau: float | None = None) -> Topology:
        """Every node beside every other; the default W averages in one round."""
        edges = combinations(range(_count(n_nodes, "n_nodes")), 2)
        return cls(n_nodes, edges, mixing=mixing, tau=tau, name="complete")

    @classmethod
    def grid(cls, rows: int, cols: int, *, mixing: Mixing = "laplacian", tau: float | None = None) -> Topology:
        """A rows x cols lattice, numbered row by row."""
        rows, cols = _count(rows, "rows"), _count(cols, "cols")
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
        mixing: Mixing = "laplacian",
        tau: float | None = None,
    ) -> Topology:
        """One of `FAMILIES` by name, for command lines and configuration files.

        p and seed concern "random" alone; "grid" takes the most square factorisation of n_nodes.
        """
        if name not in FAMILIES:
            raise unknown_name("graph family", name, FAMILIES)
        if name == "random":
            return cls.random(n_nodes, p, seed, mixing=mixing, tau=tau)
        if name == "grid":
            n_nodes = _count(n_nodes, "n_nodes")
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
        mixing: Mixing = "laplacian",
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
        if name not in FAMILIES or (colon and name != "random"):
            if not Path(text).is_file():
                raise unknown_name("graph", text, [*FAMILIES, "random:p", "the path of an edge list"])
            return cls.from_edges(text, **weights)
        if n_nodes is None:
            raise InputError(f"the graph {text!r} is a family of graphs: give n_nodes.")
        try:
            p = float(probability) if colon else p
        except ValueError:
            raise InputError(f"graph {text!r}: the edge probability must be a number, got {probability!r}.") from None
        return cls.family(name, n_nodes, p=p, seed=seed, **weights)

    @classmethod
    def from_networkx(cls, G: nx.Graph, *, mixing: Mixing = "laplacian", tau: float | None = None) -> Topology:
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
        mixing: Mixing = "laplacian",
        tau: float | None = None,
    ) -> Topology:
        """Pairs of node numbers 0..N-1, or the path of a text file with one such pair per line.

        In a file, `#` starts a comment and blank lines are skipped. Without n_nodes, the largest number
        is the last node.
        """
        pairs = _read_edges(Path(edges)) if isinstance(edges, str | os.PathLike) else _int_pairs(edges)
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

    @cached_property
    def neighbors(self) -> tuple[IntArray, ...]:
        """For each node the increasing numbers of its neighbours, without itself."""
        adjacency = _adjacency(self.n_nodes, self.edges)
        return tuple(_read_only(np.flatnonzero(row).astype(np.int64)) for row in adjacency)

    @cached_property
    def degrees(self) -> IntArray:
        """The number of neighbours of each node, without itself."""
        return _read_only(np.array([len(nearby) for nearby in self.neighbors], dtype=np.int64))

    @cached_property
    def distances(self) -> IntArray:
        """N x N hop counts: distances[n, j] rounds bring a message from j to n."""
        from scipy.sparse.csgraph import shortest_path

        hops = shortest_path(_sparse_graph(self.n_nodes, self.edges), directed=False, unweighted=True)
        return _read_only(hops.astype(np.int64))

    @cached_property
    def diameter(self) -> int:
        """The largest distance."""
        return int(self.distances.max())

    @cached_property
    def parents(self) -> IntArray:
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
        return _read_only(parents)

    # ---------------------------------------------------------------- the mixing matrix

    @cached_property
    def W_tilde(self) -> FloatArray:
        """(I + W)/2."""
        return _read_only((np.eye(self.n_nodes) + self.W) / 2)

    @cached_property
    def mixing_rows(self) -> tuple[IntArray, IntArray, FloatArray]:
        """W_tilde as CSR (indptr, indices, weights), columns increasing; the diagonal is always there."""
        # W_tilde_nn = 0 would mean W_nn = -1, which W >= -I leaves only to a node that mixes with nobody.
        rows, columns = np.nonzero(self.W_tilde)
        indptr = np.searchsorted(rows, np.arange(self.n_nodes + 1)).astype(np.int64)
        weights = self.W_tilde[rows, columns]
        return _read_only(indptr), _read_only(columns.astype(np.int64)), _read_only(weights)

    @cached_property
    def _spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues (descending) and eigenvectors (columns) of W_tilde, the first pair exact."""
        N = self.n_nodes
        # Moved from 1 to -1, the constant vector's eigenvalue is at least 1 away from all others, which
        # lie in [0, 1]: eigh then separates it from them to rounding, however small gamma is.
        values, vectors = np.linalg.eigh(self.W_tilde - 2.0 / N)
        values, vectors = values[:0:-1], vectors[:, :0:-1]
        vectors = _fix_signs(vectors)
        constant = np.full((N, 1), 1.0 / math.sqrt(N))
        eigenvalues = np.concatenate([[1.0], np.clip(values, 0.0, 1.0)])
        return _read_only(eigenvalues), _read_only(np.hstack([constant, vectors]))

    @property
    def eigenvalues(self) -> FloatArray:
        """Eigenvalues of W_tilde in descending order, in [0, 1]; the first is exactly 1."""
        return self._spectrum[0]

    @property
    def eigenvectors(self) -> FloatArray:
        """Orthonormal eigenvectors of W_tilde as columns; the first is exactly 1/sqrt(N) everywhere.

        The component of largest magnitude (the first of them, on ties) is positive.
        """
        return self._spectrum[1]

    @cached_property
    def connectivity(self) -> float:
        """The least nonzero eigenvalue of the graph's Laplacian; 1 for a single node, which has none."""
        laplacian = _laplacian(_adjacency(self.n_nodes, self.edges))
        return float(np.linalg.eigvalsh(laplacian)[1]) if self.n_nodes > 1 else 1.0

    @property
    def gamma(self) -> float:
        """The smallest nonzero eigenvalue of (I - W)/2; 1 for a single node, which has nothing to mix."""
        return 1.0 - float(self.eigenvalues[1]) if self.n_nodes > 1 else 1.0

    @property
    def kappa_g(self) -> float:
        """The condition number of the graph, 1/gamma."""
        return 1.0 / self.gamma

    # ---------------------------------------------------------------- identity

    def digest(self) -> str:
        """A fingerprint (hex sha256) of N, the edges and every bit of W."""
        sha = hashlib.sha256(f"{self.n_nodes} {self.edges} ".encode())
        sha.update(self.W.astype("<f8").tobytes())
        return sha.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topology) and self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())

    def __repr__(self) -> str:
        return (
            f"Topology({self.name}, N={self.n_nodes}, {len(self.edges)} edges, {self.mixing}, "
            f"gamma={self.gamma:.2g}, diameter={self.diameter})"
        )


# -------------------------------------------------------------------- reading and drawing graphs


def _count(value: int, what: str) -> int:
    try:
        count = index(value)
    except TypeError:
        count = 0
    if count < 1:
        raise InputError(f"{what} must be a whole number of at least 1, got {value!r}.")
    return count


def _int_pairs(edges: Iterable[Iterable[int]]) -> list[tuple[int, int]]:
    pairs = []
    for edge in edges:
        try:
            n, m = map(index, edge)
        except (TypeError, ValueError):
            raise InputError(f"an edge must be a pair of node numbers, got {edge!r}.") from None
        pairs.append((n, m))
    return pairs


def _clean_edges(edges: Iterable[Iterable[int]], n_nodes: int) -> Edges:
    """Sorted pairs n < m, each once, without self-loops."""
    pairs = _int_pairs(edges)
    for pair in pairs:
        if min(pair) < 0 or max(pair) >= n_nodes:
            raise InputError(f"edge {pair} leaves the node numbers 0..{n_nodes - 1}.")
    return tuple(sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}))


def _read_edges(path: Path) -> list[tuple[int, int]]:
    try:
        # A binary file must fail at its first line with the message below, not inside the decoder.
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise InputError(f"cannot read the edge list {path}: {error.strerror}.") from error
    pairs = []
    for number, line in enumerate(lines, start=1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) != 2 or not all(word.isascii() and word.isdigit() for word in words):
            raise InputError(f"{path}, line {number}: wanted two node numbers, got {line.strip()[:80]!r}.")
        pairs.append((int(words[0]), int(words[1])))
    return pairs


def _draw_connected(n_nodes: int, p: float, seed: int) -> IntArray:
    if not 0 <= p <= 1:
        raise InputError(f"the edge probability p must be in [0, 1], got {p!r}.")
    rng = np.random.default_rng(seed)
    pairs = np.column_stack(np.triu_indices(n_nodes, k=1))
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


def _adjacency(n_nodes: int, edges: Edges) -> BoolArray:
    adjacency = np.zeros((n_nodes, n_nodes), dtype=bool)
    n, m = _columns(edges)
    adjacency[n, m] = adjacency[m, n] = True
    return adjacency


def _sparse_graph(n_nodes: int, edges: Edges | IntArray) -> Any:
    """The upper triangle of the adjacency matrix, which is what scipy calls an undirected graph."""
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(edges)), _columns(edges)), shape=(n_nodes, n_nodes))


def _columns(edges: Edges | IntArray) -> tuple[IntArray, IntArray]:
    n, m = np.asarray(edges, dtype=np.int64).reshape(-1, 2).T
    return n, m


def _component_labels(n_nodes: int, edges: Edges | IntArray) -> NDArray[np.int32]:
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


# -------------------------------------------------------------------- mixing matrices


def _mixing_matrix(mixing: Mixing, tau: float | None, adjacency: BoolArray) -> FloatArray:
    if isinstance(mixing, str) and mixing not in MIXINGS:
        raise unknown_name("mixing", mixing, MIXINGS)
    if isinstance(mixing, str) and mixing == "laplacian":
        return _laplacian_mixing(adjacency, tau)
    if tau is not None:
        raise InputError(f'tau = {tau!r} belongs to mixing="laplacian" and to no other.')
    return _metropolis_mixing(adjacency) if isinstance(mixing, str) else _given_mixing(mixing, len(adjacency))


def _laplacian(adjacency: BoolArray) -> FloatArray:
    return np.diag(adjacency.sum(axis=1)) - adjacency.astype(np.float64)


def _laplacian_mixing(adjacency: BoolArray, tau: float | None) -> FloatArray:
    laplacian = _laplacian(adjacency)
    if tau is None:
        # A single node has L = 0, and any tau gives W = 1.
        tau = float(np.linalg.eigvalsh(laplacian)[-1]) if len(adjacency) > 1 else 1.0
    if not (math.isfinite(tau) and tau > 0):
        raise InputError(f"tau must be positive and finite, got {tau!r}.")
    return np.eye(len(adjacency)) - laplacian / tau


def _metropolis_mixing(adjacency: BoolArray) -> FloatArray:
    degrees = adjacency.sum(axis=1)
    W = np.where(adjacency, 1.0 / (1.0 + np.maximum.outer(degrees, degrees)), 0.0)
    np.fill_diagonal(W, 1.0 - W.sum(axis=1))
    return W


def _given_mixing(mixing: ArrayLike, n_nodes: int) -> FloatArray:
    try:
        W = np.asarray(mixing).astype(np.float64, casting="same_kind")
    except (TypeError, ValueError):
        wanted = f"the name of a mixing ({', '.join(MIXINGS)}) or an array of real numbers"
        raise InputError(f"mixing must be {wanted}, got a {type(mixing).__name__}.") from None
    if W.shape != (n_nodes, n_nodes):
        raise InputError(f"the mixing matrix must be {n_nodes} x {n_nodes}, got shape {W.shape}.")
    if not np.isfinite(W).all():
        n, m = np.argwhere(~np.isfinite(W))[0]
        raise InputError(f"the mixing matrix must be finite, got W[{n}, {m}] = {W[n, m]}.")
    return W


def _check_mixing(W: FloatArray, adjacency: BoolArray) -> None:
    """The four conditions, in the order of the module's docstring; the worst offender is shown."""
    n, m = _worst(np.abs(W - W.T))
    if abs(W[n, m] - W[m, n]) > TOLERANCE:
        _refuse(f"not symmetric: W[{n}, {m}] = {W[n, m]:.12g} but W[{m}, {n}] = {W[m, n]:.12g}")
    n, m = _worst(np.where(adjacency | np.eye(len(W), dtype=bool), 0.0, np.abs(W)))
    if not adjacency[n, m] and n != m and abs(W[n, m]) > TOLERANCE:
        _refuse(f"not zero outside the edges: W[{n}, {m}] = {W[n, m]:.12g}, but ({n}, {m}) is no edge")
    sums = W.sum(axis=1)
    n = int(np.argmax(np.abs(sums - 1)))
    if abs(sums[n] - 1) > TOLERANCE:
        _refuse(f"not averaging: row {n} sums to {sums[n]:.12g} instead of 1")
    _check_eigenvalues(np.linalg.eigvalsh(W))


def _check_eigenvalues(ascending: NDArray[np.floating[Any]]) -> None:
    for value in (ascending[0], ascending[-1]):
        if abs(value) > 1 + TOLERANCE:
            _refuse(f"not between -I and I: it has the eigenvalue {value:.12g}")
    if len(ascending) > 1 and ascending[-2] > 1 - TOLERANCE:
        _refuse(f"not mixing: its eigenvalue 1 must be simple, but the second largest is {ascending[-2]:.12g}")


def _worst(violation: FloatArray) -> tuple[int, int]:
    n, m = np.unravel_index(np.argmax(violation), violation.shape)
    return int(n), int(m)


def _refuse(reason: str) -> NoReturn:
    raise InputError(f"the mixing matrix is {reason}.")


# -------------------------------------------------------------------- arrays


def _fix_signs(vectors: FloatArray) -> FloatArray:
    """Make the component of largest magnitude of each column positive, the first of them on ties."""
    magnitude = np.abs(vectors)
    # On symmetric graphs two components are equal but for rounding, which must not choose the sign.
    leading = np.argmax(magnitude >= (1 - 1e-9) * magnitude.max(axis=0), axis=0)
    return vectors * np.sign(vectors[leading, np.arange(vectors.shape[1])])


def _read_only(array: AnyArray) -> AnyArray:
    array.flags.writeable = False
    return array
