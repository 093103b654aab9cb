"""Mixing matrices: how much a node hears of its neighbours, and what one application costs.

A mixing matrix W of a connected graph on the nodes 0..N-1 satisfies four conditions, and every `Mixing` is checked
against all of them, wherever its W comes from:

    (1) W = W'                              (2) W_nm = 0 unless n = m or (n, m) is an edge
    (3) null(I - W) = span(1)               (4) -I <= W <= I

Condition (3) says that the nodes stand still exactly when they agree; (4) is all that the
convergence of DSBA asks for (the paper's 0 <= W is what the default gives).

A Chebyshev mixing is a polynomial of such a matrix: it satisfies (1), (3) and (4), reaches K hops far, and costs
K rounds between neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from dsba.errors import InputError, as_integer, unknown_name
from dsba.graph.graph import Graph, read_only
from dsba.types import Array, Indices

Weights: TypeAlias = str | ArrayLike  # what a caller may give: a name, or the matrix

MIXINGS = ("laplacian", "metropolis")
TOLERANCE = 1e-10  # how far a given W may be from the four conditions: rounding, not modelling


@dataclass(frozen=True, eq=False)
class Mixing:
    """A matrix W on a graph with its spectrum, and the number of rounds that one application costs."""

    graph: Graph
    W: Array
    name: str
    rounds: int = 1

    @classmethod
    def on(cls, graph: Graph, weights: Weights = "laplacian", tau: float | None = None) -> Mixing:
        """A named mixing, or an N x N array that satisfies the four conditions."""
        W = _matrix(weights, tau, graph)
        _check(W, graph)
        # What the tolerance let pass must not reach the algorithms: they rely on W = W' bit by bit,
        # and on zeros where there is no link to send over.
        W = np.where(graph.adjacency | np.eye(graph.n_nodes, dtype=bool), (W + W.T) / 2, 0.0)
        return cls(graph, read_only(W), weights if isinstance(weights, str) else "custom")

    def __repr__(self) -> str:
        return f"Mixing({self.name}, gamma={self.gamma:.2g}, {self.rounds} round{'s' if self.rounds > 1 else ''})"

    def differences(self, one_round: Callable[[Array], Array], Z: Array) -> Array:
        """(I - W~) Z. ``one_round`` gives the product for one round on the edges."""
        return one_round(Z)

    def chebyshev(self, rounds: int) -> Mixing:
        """The mixing I - P_K(I - W) that costs K = ``rounds`` rounds, P_K the Chebyshev polynomial.

        Its gamma grows like K^2 until it saturates at 1/2. So on a slow graph fewer applications do, each of K rounds.
        """
        rounds = as_integer("rounds", rounds, at_least=1)
        if self.rounds > 1:
            raise InputError(f"{self.name} is a Chebyshev mixing already: ask the plain one for {rounds} rounds.")
        return ChebyshevMixing.of(self, rounds)

    @property
    def laplacian_range(self) -> tuple[float, float]:
        """The smallest and the largest nonzero eigenvalue of I - W; 1 for a single node, which has none."""
        if self.graph.n_nodes == 1:
            return 1.0, 1.0
        return 2.0 * self.gamma, 2.0 * (1.0 - float(self.eigenvalues[-1]))

    @cached_property
    def W_tilde(self) -> Array:
        """(I + W)/2."""
        return read_only((np.eye(self.graph.n_nodes) + self.W) / 2)

    @cached_property
    def rows(self) -> tuple[Indices, Indices, Array]:
        """The weights of W_tilde on the graph's edges and the diagonal, as CSR with increasing columns.

        An edge of weight zero is among them: the neighbour is heard, and counts in the graph's Laplacian.
        """
        rows, columns = np.nonzero(self.graph.adjacency | np.eye(self.graph.n_nodes, dtype=bool))
        indptr = np.searchsorted(rows, np.arange(self.graph.n_nodes + 1)).astype(np.int64)
        return read_only(indptr), read_only(columns.astype(np.int64)), read_only(self.W_tilde[rows, columns])

    @cached_property
    def kernel_rows(self) -> tuple[Indices, Indices, Array]:
        """A copy of ``rows`` for kernels, which are compiled for arrays that may be written to."""
        indptr, columns, weights = self.rows
        return indptr.copy(), columns.copy(), weights.copy()

    @cached_property
    def _spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues (descending) and eigenvectors (columns) of W_tilde, the first pair exact."""
        N = self.graph.n_nodes
        # Moved from 1 to -1, the constant vector's eigenvalue is at least 1 away from all others, which
        # lie in [0, 1]: eigh then separates it from them to rounding, however small gamma is.
        values, vectors = np.linalg.eigh(self.W_tilde - 2.0 / N)
        values, vectors = values[:0:-1], vectors[:, :0:-1]
        vectors = _fix_signs(vectors)
        constant = np.full((N, 1), 1.0 / math.sqrt(N))
        eigenvalues = np.concatenate([[1.0], np.clip(values, 0.0, 1.0)])
        return read_only(eigenvalues), read_only(np.hstack([constant, vectors]))

    @property
    def eigenvalues(self) -> Array:
        """Eigenvalues of W_tilde in descending order, in [0, 1]; the first is exactly 1."""
        return self._spectrum[0]

    @property
    def eigenvectors(self) -> Array:
        """Orthonormal eigenvectors of W_tilde as columns; the first is exactly 1/sqrt(N) everywhere.

        The component of largest magnitude (the first of them, on ties) is positive.
        """
        return self._spectrum[1]

    @property
    def gamma(self) -> float:
        """The smallest nonzero eigenvalue of (I - W)/2; 1 for a single node, which has nothing to mix."""
        return 1.0 - float(self.eigenvalues[1]) if self.graph.n_nodes > 1 else 1.0

    @property
    def kappa_g(self) -> float:
        """The condition number of the graph, 1/gamma."""
        return 1.0 / self.gamma


@dataclass(frozen=True, eq=False, repr=False)
class ChebyshevMixing(Mixing):
    """I - P_K(I - W) for a plain W, its ``base``: K rounds on the edges, with the base's weights."""

    base: Mixing = field(kw_only=True)

    @staticmethod
    def of(base: Mixing, rounds: int) -> Mixing:
        """One round is a plain mixing again: I - 2/(l1 + l2) (I - W) is zero outside the edges, as W is."""
        eye = np.eye(base.graph.n_nodes)
        W = eye - chebyshev(lambda X: (eye - base.W) @ X, eye, rounds, *base.laplacian_range)
        W, name = read_only((W + W.T) / 2), f"{base.name} x {rounds}"
        return ChebyshevMixing(base.graph, W, name, rounds, base=base) if rounds > 1 else Mixing(base.graph, W, name)

    @property
    def rows(self) -> tuple[Indices, Indices, Array]:
        return self.base.rows

    def differences(self, one_round: Callable[[Array], Array], Z: Array) -> Array:
        return chebyshev(lambda Y: 2 * one_round(Y), Z, self.rounds, *self.base.laplacian_range) / 2


def chebyshev(times: Callable[[Array], Array], X: Array, rounds: int, l1: float, l2: float) -> Array:
    """P_K(M) X, K = ``rounds``, with ``times`` the product with M, whose eigenvalues are 0 or in [l1, l2].

        P_K(M) = I - T_K(c2 (I - c3 M)) / T_K(c2),     c2 = (l2 + l1)/(l2 - l1),   c3 = 2/(l1 + l2)

    T_K the Chebyshev polynomial, by its recursion for the quotients X_k = T_k(c2 (I - c3 M)) X / T_k(c2). It is
    written with 1/c2, as c2 is infinite where l1 = l2.
    """
    c3, inverse = 2 / (l1 + l2), (l2 - l1) / (l2 + l1)
    X_prev, X_k = X, X - c3 * times(X)
    ratio = inverse  # T_{k-1}(c2) / T_k(c2)
    for _ in range(rounds - 1):
        lift = 1 / (2 - ratio * inverse)
        X_prev, X_k = X_k, lift * (2 * (X_k - c3 * times(X_k)) - ratio * inverse * X_prev)
        ratio = lift * inverse
    return X - X_k


def _matrix(mixing: Weights, tau: float | None, graph: Graph) -> Array:
    if isinstance(mixing, str) and mixing not in MIXINGS:
        raise unknown_name("mixing", mixing, MIXINGS)
    if isinstance(mixing, str) and mixing == "laplacian":
        return _laplacian_weights(graph, tau)
    if tau is not None:
        raise InputError(f'tau = {tau!r} belongs to mixing="laplacian" and to no other.')
    return _metropolis_weights(graph) if isinstance(mixing, str) else _given_weights(mixing, graph.n_nodes)


def _laplacian_weights(graph: Graph, tau: float | None) -> Array:
    if tau is None:
        # A single node has L = 0, and any tau gives W = 1.
        tau = float(np.linalg.eigvalsh(graph.laplacian)[-1]) if graph.n_nodes > 1 else 1.0
    if not (math.isfinite(tau) and tau > 0):
        raise InputError(f"tau must be positive and finite, got {tau!r}.")
    return np.eye(graph.n_nodes) - graph.laplacian / tau


def _metropolis_weights(graph: Graph) -> Array:
    degrees = graph.adjacency.sum(axis=1)
    W = np.where(graph.adjacency, 1.0 / (1.0 + np.maximum.outer(degrees, degrees)), 0.0)
    np.fill_diagonal(W, 1.0 - W.sum(axis=1))
    return W


def _given_weights(mixing: ArrayLike, n_nodes: int) -> Array:
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


def _check(W: Array, graph: Graph) -> None:
    """The four conditions, in the order of the module's docstring; the worst offender is shown."""
    adjacency = graph.adjacency
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
    ascending = np.linalg.eigvalsh(W)
    for value in (ascending[0], ascending[-1]):
        if abs(value) > 1 + TOLERANCE:
            _refuse(f"not between -I and I: it has the eigenvalue {value:.12g}")
    if len(ascending) > 1 and ascending[-2] > 1 - TOLERANCE:
        _refuse(f"not mixing: its eigenvalue 1 must be simple, but the second largest is {ascending[-2]:.12g}")


def _worst(violation: Array) -> tuple[int, int]:
    n, m = np.unravel_index(np.argmax(violation), violation.shape)
    return int(n), int(m)


def _refuse(reason: str) -> NoReturn:
    raise InputError(f"the mixing matrix is {reason}.")


def _fix_signs(vectors: Array) -> Array:
    """Make the component of largest magnitude of each column positive, the first of them on ties."""
    magnitude = np.abs(vectors)
    # On symmetric graphs two components are equal but for rounding, which must not choose the sign.
    leading = np.argmax(magnitude >= (1 - 1e-9) * magnitude.max(axis=0), axis=0)
    return vectors * np.sign(vectors[leading, np.arange(vectors.shape[1])])
