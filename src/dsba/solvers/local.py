"""The local problems that P-EXTRA, SSDA, MSDA and D-ADMM solve at every node in every iteration.

At node n, with A its stacked samples, s(u) = (c_n/q_n) g(u) times the sample's weight, and
D = Lambda + tau_n, find the z with

    F(z) = A' s(A z) + D z - rhs = 0.

tau = 1/alpha gives the resolvent of the local operator, tau = 0 the gradient of the convex conjugate.
All solvers here are Newton's iteration on F from a warm start. For a linear operator one step is
enough, with a factorisation that lasts the whole run; the others need a few. A Newton system is
brought to the form

    (B' diag(weights) B + diag(ridge)) x = r,       weights >= 0,  ridge > 0,

which is factorised where one side of B is short and solved by conjugate gradients elsewhere. Where the
samples are the short side, the whole Newton iteration takes place in the space of the samples.

F is made ``accuracy`` times as small as it was at the start. In an outer method the start is the last
solution and F there the change of rhs, so the inner error shrinks with the outer steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp
from threadpoolctl import ThreadpoolController

from dsba.kernels import samples as kernel
from dsba.operators import AUC, ScalarOperator
from dsba.parallel import CORES
from dsba.problem import PARALLEL_FROM, Problem
from dsba.solvers.linear import ROUNDING, conjugate_gradients, dot, line_search

Array = npt.NDArray[np.float64]
Solve = Callable[[Array, float], Array]  # (r, relative accuracy) -> x
Node = Callable[[Array, Array, float], Array]  # (rhs, start, relative accuracy) -> z

BLAS = ThreadpoolController().select(user_api="blas")

ACCURACY = 1e-2  # the outer iterates are then those of exact solutions to three digits; 1e-1 costs iterations
SHORT_COLUMNS = 1000  # a side of B short enough to factorise a matrix of that size
SHORT_ROWS = 2500
DENSE = 0.2  # the share of nonzeros from which a dense matrix is faster, and at most three times as large
RENEW = 0.1  # a Newton step that shrinks F less than this was made with slopes too old
MAX_STEPS = 100
NEVER_FLAT = 1e-14  # the least ridge of a factorised matrix, relative to its largest diagonal entry


class LocalSolver:
    """Solves B_n(z_n) + (Lambda + tau_n) z_n = rhs_n for every node n.

    ``touched`` is the number of sample visits that the factorisations cost.
    """

    def __init__(self, problem: Problem, tau: npt.ArrayLike, accuracy: float = ACCURACY) -> None:
        taus = np.broadcast_to(np.asarray(tau, dtype=np.float64), len(problem.nodes))
        self.accuracy = accuracy
        self.parallel = problem.A.nnz >= PARALLEL_FROM
        self.shards = [_shard(problem, n, problem.lam_diag + tau_n) for n, tau_n in enumerate(taus)]
        self.nodes: list[Node] = self._for_every_node(lambda n: _node(self.shards[n]))
        self.touched = self._visits()

    def solve(self, rhs: Array, start: Array) -> tuple[Array, float]:
        """Z, and how many samples were visited to find it; ``start`` is a guess."""
        before = self._visits()
        rows = self._for_every_node(lambda n: self.nodes[n](rhs[n], start[n], self.accuracy))
        return np.stack(rows), self._visits() - before

    def _for_every_node(self, work: Callable[[int], Any]) -> list[Any]:
        """One node per core: a BLAS that splits one node's small matrices is many times slower on busy cores."""
        nodes = range(len(self.shards))
        with BLAS.limit(limits=1):
            if not self.parallel:
                return [work(n) for n in nodes]
            with ThreadPoolExecutor(CORES) as pool:
                return list(pool.map(work, nodes))

    def _visits(self) -> float:
        """A product with A or A' is half a visit to each of the node's samples."""
        return sum(shard.A.tally.products * shard.y.size for shard in self.shards) / 2


def unsolvable(problem: Problem) -> str | None:
    """Why there is no local solver for the problem's operator, or None."""
    if isinstance(problem.component, ScalarOperator | AUC):
        return None
    return (
        f"there is no local solver for {type(problem.component).__name__}, which has no slope; "
        "it takes a ScalarOperator, or AUC."
    )


@dataclass
class Tally:
    """Products with a node's samples so far."""

    products: int = 0


class Rows:
    """A matrix B, one row a sample, whose products are counted; kept dense where that is not much larger."""

    def __init__(self, matrix: Any, tally: Tally) -> None:
        rows, columns = self.shape = matrix.shape
        self.matrix = matrix.toarray() if matrix.nnz > DENSE * rows * columns else matrix
        self.transposed = self.matrix.T
        self.tally = tally

    def times(self, x: Array) -> Array:
        """B x."""
        self.tally.products += 1
        return self.matrix @ x

    def spread(self, y: Array) -> Array:
        """B' y."""
        self.tally.products += 1
        return self.transposed @ y

    def gram_of_rows(self, scale: Array) -> Array:
        """B diag(scale) B', dense."""
        self.tally.products += 2
        return _dense(self.matrix @ sp.diags_array(scale) @ self.transposed)

    def gram_of_columns(self, weights: Array) -> Array:
        """B' diag(weights) B, dense."""
        self.tally.products += 2
        if isinstance(self.matrix, np.ndarray):
            return self.transposed @ (weights[:, None] * self.matrix)
        return _dense(self.transposed @ (sp.diags_array(weights) @ self.matrix))

    def diagonal(self, weights: Array) -> Array:
        """The diagonal of B' diag(weights) B."""
        self.tally.products += 1
        return sp.csr_array(self.matrix).power(2).T @ weights


@dataclass(frozen=True)
class Shard:
    """What a node has: its samples, s and D."""

    component: Any
    A: Rows
    y: Array
    scale: Array  # c_n / q_n times the sample's weight
    D: Array

    def s(self, u: Array) -> Array:
        """(c_n/q_n) g(u)."""
        U = u.reshape(-1, self.component.k)
        G = np.empty_like(U)
        kernel.forward_all(self.component, U, self.y, G)
        return (self.scale[:, None] * G).ravel()

    def slopes(self, u: Array) -> Array:
        """s'(u), for k = 1."""
        out = np.empty_like(u)
        kernel.slope_all(self.component, u, self.y, out)
        return self.scale * out

    def along(self, u: Array, v: Array) -> Callable[[float], Array]:
        """The terms of v's(u + t v), as a function of t."""
        return lambda t: self.s(u + t * v) * v

    def size(self, F: Array) -> float:
        """||F|| in the metric D^-1; it bounds the error ||z - z*|| in the metric D."""
        return math.sqrt(dot(F, F / self.D))

    def rounding(self, *terms: Array) -> float:
        """How large their sum may be by rounding alone."""
        return ROUNDING * sum(map(self.size, terms))


def _shard(problem: Problem, n: int, D: Array) -> Shard:
    first, last = problem.start[n], problem.start[n + 1]
    A = Rows(problem.A[first * problem.k : last * problem.k], Tally())
    scale = problem.weight[first:last] / (last - first)
    return Shard(problem.component, A, problem.y[first:last], scale, D)


def _node(shard: Shard) -> Node:
    """The cheapest solver for a node's problem."""
    component, (rows, columns) = shard.component, shard.A.shape
    if isinstance(component, AUC):
        return _linear(shard, _auc_system(shard))
    if component.lipschitz == component.monotonicity:
        return _linear(shard, _system(shard.A, shard.slopes(np.zeros(rows)), shard.D))
    if columns > SHORT_COLUMNS and rows <= SHORT_ROWS:
        return _newton_on_samples(shard)
    return _newton(shard)


# Nodes -------------------------------------------------------------------------------------------


def _linear(shard: Shard, solve: Solve) -> Node:
    """z - J^-1 F(z): exact up to rounding, and what rounding leaves is corrected by the next call."""
    A, D = shard.A, shard.D

    def node(rhs: Array, z: Array, accuracy: float) -> Array:
        F = A.spread(shard.s(A.times(z))) + D * z - rhs
        return z - solve(F, accuracy)

    return node


def _newton(shard: Shard) -> Node:
    """z <- z + t d with (A' diag(s') A + D) d = -F(z) and t from a line search."""
    A, D = shard.A, shard.D

    def node(rhs: Array, z: Array, accuracy: float) -> Array:
        u = A.times(z)
        B = A.spread(shard.s(u))
        first = shard.size(B + D * z - rhs)
        enough = max(accuracy * first, shard.rounding(B, D * z, rhs))
        for _ in range(MAX_STEPS):
            F = B + D * z - rhs
            size = shard.size(F)
            if not size > enough:
                break
            d = -_system(A, shard.slopes(u), D)(F, max(0.5 * enough / size, min(0.1, size / first)))
            v = A.times(d)
            t = line_search(shard.along(u, v), dot(D * z - rhs, d), dot(D * d, d))
            z, u = z + t * d, u + t * v
            B = A.spread(shard.s(u))
        return z

    return node


def _newton_on_samples(shard: Shard) -> Node:
    """The same Newton iteration without a product with A, except before and after it.

    From z0, where F = F0 and s = s0, it only meets points of the form

        z = z0 - D^-1 ((1 - rest) F0 + A'w),        F(z) = rest F0 + A' rho,   rho = s(A z) - s0 - w.

    So with G = A D^-1 A' and b = A D^-1 F0 it is an iteration on w and rest. Its step d changes rest
    by -rest, w by dw = rho - R (I + R G R)^-1 R (G rho + rest b), R = diag(s')^1/2, and A z by
    -(G dw + rest b).
    """
    A, D = shard.A, shard.D
    G = A.gram_of_rows(1.0 / D)

    def node(rhs: Array, z0: Array, accuracy: float) -> Array:
        u = A.times(z0)
        s0 = shard.s(u)
        B = A.spread(s0)
        F0 = B + D * z0 - rhs
        b, f = A.times(F0 / D), dot(F0, F0 / D)
        enough, before = max(accuracy * math.sqrt(f), shard.rounding(B, D * z0, rhs)), 0.0
        w, rest = np.zeros_like(u), 1.0
        for _ in range(MAX_STEPS):
            rho = shard.s(u) - s0 - w
            image = G @ rho + rest * b
            size = math.sqrt(max(0.0, dot(rho, image) + rest * (dot(b, rho) + rest * f)))
            if not size > enough:
                break
            if size > RENEW * before:
                R = np.sqrt(shard.slopes(u))
                solve = _short_side(G, R)
            before, dw = size, rho - R * solve(R * image)
            v = -(G @ dw + rest * b)
            tail = rest * (dot(b, dw) + rest * f)
            t = line_search(shard.along(u, v), -dot(s0 + w, v) - tail, tail - dot(dw, v))
            w, u, rest = w + t * dw, u + t * v, (1.0 - t) * rest
        return z0 - ((1.0 - rest) * F0 + A.spread(w)) / D

    return node


def _auc_system(shard: Shard) -> Solve:
    """Eliminates theta, and the saddle point is a least-squares problem in v = (w, a, b).

    With B, its weights, c and T as ``AUC.saddle`` gives them, J (v, theta) = r reads

        (B' diag(weights) B + D) v + c theta = r_v,      -c'v + T theta = r_theta,

    so (B' diag(weights) B + c c'/T + D) v = r_v - c r_theta / T: positive definite, c one row more.
    theta keeps a row and column of its own that nothing else meets.
    """
    B, weights, c, T = shard.component.saddle(shard.A.matrix, shard.y, shard.scale)
    T += shard.D[-1]
    rows = Rows(sp.vstack([B, sp.csr_array(c[None, :])], format="csr"), shard.A.tally)
    solve_reduced = _system(rows, np.append(weights, 1.0 / T), np.append(shard.D[:-1], 1.0))

    def solve(r: Array, accuracy: float) -> Array:
        reduced = r - c * (r[-1] / T)
        reduced[-1] = 0.0
        x = solve_reduced(reduced, accuracy)
        x[-1] = (r[-1] + c @ x) / T
        return x

    return solve


# Linear systems ----------------------------------------------------------------------------------


def _system(B: Rows, weights: Array, ridge: Array) -> Solve:
    """Solves (B' diag(weights) B + diag(ridge)) x = r in the cheapest of three ways."""
    rows, columns = B.shape
    if columns <= SHORT_COLUMNS:
        return _by_columns(B, weights, ridge)
    if rows <= SHORT_ROWS:
        return _by_rows(B, weights, ridge)
    return _by_gradients(B, weights, ridge)


def _by_columns(B: Rows, weights: Array, ridge: Array) -> Solve:
    H = B.gram_of_columns(weights)
    H[np.diag_indices_from(H)] += np.maximum(ridge, NEVER_FLAT * H.diagonal().max())
    factor = scipy.linalg.cho_factor(H, overwrite_a=True)
    return lambda r, accuracy: scipy.linalg.cho_solve(factor, r)


def _by_rows(B: Rows, weights: Array, ridge: Array) -> Solve:
    """x = D^-1 (r - B'R (I + R G R)^-1 R B D^-1 r),  G = B D^-1 B',  R = diag(weights)^1/2,  D = diag(ridge)."""
    R = np.sqrt(weights)
    solve = _short_side(B.gram_of_rows(1.0 / ridge), R)
    return lambda r, accuracy: (r - B.spread(R * solve(R * B.times(r / ridge)))) / ridge


def _short_side(G: Array, R: Array) -> Callable[[Array], Array]:
    """Solves (I + R G R) x = r, R a diagonal."""
    M = R[:, None] * G * R
    M[np.diag_indices_from(M)] += 1.0
    factor = scipy.linalg.cho_factor(M.T, overwrite_a=True)  # its own transpose, in LAPACK's order
    return lambda r: scipy.linalg.cho_solve(factor, r)


def _by_gradients(B: Rows, weights: Array, ridge: Array) -> Solve:
    """The diagonal preconditions a tall B only. On the null space of a wide one the matrix is the ridge:
    a single eigenvalue, which a preconditioner would spread.
    """
    tall = B.shape[0] >= B.shape[1]
    inverse = 1.0 / (B.diagonal(weights) + ridge) if tall else np.ones_like(ridge)

    def product(x: Array) -> Array:
        return B.spread(weights * B.times(x)) + ridge * x

    return lambda r, accuracy: conjugate_gradients(product, inverse, r, accuracy)


def _dense(M: Any) -> Array:
    return M if isinstance(M, np.ndarray) else M.toarray()
