"""Linear systems with samples in them.

All systems have the form

    (B' diag(weights) B + diag(ridge)) x = r,       weights >= 0,  ridge >= 0,

with one sparse row of B a sample. They are factorised where one side of B is short and solved by conjugate gradients
elsewhere. Two kinds are brought to this form or solved like it: a saddle (AUC), and blocks in place of the
weights (an operator on R^k). Products with the samples are counted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy  # its parts are loaded when they are asked for
import scipy.sparse as sp

from dsba.operators import Saddle
from dsba.types import Array

Solve = Callable[[Array, float], Array]  # (r, relative accuracy) -> x

MAX_CG = 5000
SHORT_COLUMNS = 1000  # a side of B short enough to factorise a matrix of that size
SHORT_ROWS = 2500
MAX_GRAM = 5e10  # multiplications, if B were dense, for which a Gram matrix is still cheap
DENSE_SHARE = 0.2  # the share of nonzeros from which a dense matrix is faster, and at most three times as large
NEVER_FLAT = 1e-12  # the least ridge, relative to the largest diagonal entry: no system is singular
SUBTRACTED = 1e-9  # the least ridge, relative to the same, for a form that subtracts numbers of size 1/ridge


@dataclass
class Tally:
    """Products with samples so far, and the multiply-adds of these products, of Gram matrices and of factorisations."""

    products: int = 0
    multiply_adds: float = 0.0

    def factorised(self, side: int) -> None:
        """A Cholesky factor of a matrix with so many rows."""
        self.multiply_adds += side**3 / 6

    def solved(self, side: int) -> None:
        """A product with a dense matrix of so many rows, or a solution by its factor."""
        self.multiply_adds += float(side) ** 2


class CountedRows:
    """A matrix B with counted products; kept dense where that is not much larger."""

    def __init__(self, matrix: sp.csr_array, tally: Tally) -> None:
        rows, columns = self.shape = matrix.shape
        self.matrix: Any = matrix
        if matrix.nnz == rows * columns and matrix.has_canonical_format:
            self.matrix = matrix.data.reshape(rows, columns)
        elif matrix.nnz > DENSE_SHARE * rows * columns:
            self.matrix = matrix.toarray()
        self.transposed = self.matrix.T
        self.tally, self.nnz = tally, matrix.nnz
        self.row_lengths = np.diff(matrix.indptr).astype(np.float64)
        self.column_lengths = np.bincount(matrix.indices, minlength=columns).astype(np.float64)

    def times(self, x: Array) -> Array:
        """B x."""
        self._count(1, self.nnz)
        return self.matrix @ x

    def spread(self, y: Array) -> Array:
        """B' y."""
        self._count(1, self.nnz)
        return self.transposed @ y

    def gram_of_rows(self, scale: Array) -> Array:
        """B diag(scale) B', dense."""
        self._count(2, float(self.column_lengths @ self.column_lengths))
        return _dense(self.matrix @ sp.diags_array(scale) @ self.transposed)

    def gram_of_columns(self, weights: Array) -> Array:
        """B' diag(weights) B, dense."""
        self._count(2, float(self.row_lengths @ self.row_lengths))
        if isinstance(self.matrix, np.ndarray):
            return self.transposed @ (weights[:, None] * self.matrix)
        return _dense(self.transposed @ (sp.diags_array(weights) @ self.matrix))

    def diagonal(self, weights: Array) -> Array:
        """The diagonal of B' diag(weights) B."""
        self._count(1, 2.0 * self.nnz)
        return sp.csr_array(self.matrix).power(2).T @ weights

    def _count(self, products: int, multiply_adds: float) -> None:
        self.tally.products += products
        self.tally.multiply_adds += multiply_adds

    @cached_property
    def longest_column(self) -> float:
        """The largest squared norm of a column."""
        return float(self.diagonal(np.ones(self.shape[0])).max(initial=0.0))


def system(B: CountedRows, weights: Array, ridge: Array) -> Solve:
    """Solves (B' diag(weights) B + diag(ridge)) x = r in the cheapest of three ways."""
    rows, columns = B.shape
    try:
        if rows * columns * min(rows, columns) <= MAX_GRAM:
            if columns <= SHORT_COLUMNS:
                return _by_columns(B, weights, ridge)
            if rows <= SHORT_ROWS and subtractable(B, weights, ridge):
                return _by_rows(B, weights, ridge)
    except np.linalg.LinAlgError:  # not positive definite in floating point
        pass
    return _by_gradients(B, weights, ridge)


def subtractable(B: CountedRows, weights: Array, ridge: Array) -> bool:
    """Whether a solution by the short side of the rows keeps its digits."""
    return float(ridge.min()) > SUBTRACTED * float(weights.max()) * B.longest_column


def _by_columns(B: CountedRows, weights: Array, ridge: Array) -> Solve:
    H = B.gram_of_columns(weights)
    H[np.diag_indices_from(H)] += _raised(ridge, H.diagonal().max())
    solve = _factorised(H, B.tally)
    return lambda r, accuracy: solve(r)


def _by_rows(B: CountedRows, weights: Array, ridge: Array) -> Solve:
    """x = D^-1 (r - B'R (I + R G R)^-1 R B D^-1 r),  G = B D^-1 B',  R = diag(weights)^1/2,  D = diag(ridge)."""
    R = np.sqrt(weights)
    solve = short_side(B.gram_of_rows(1.0 / ridge), R, B.tally)
    return lambda r, accuracy: (r - B.spread(R * solve(R * B.times(r / ridge)))) / ridge


def short_side(G: Array, R: Array, tally: Tally) -> Callable[[Array], Array]:
    """Solves (I + R G R) x = r, R a diagonal."""
    M = R[:, None] * G * R
    M[np.diag_indices_from(M)] += 1.0
    return _factorised(M.T, tally)  # its own transpose, in LAPACK's order


def _factorised(M: Array, tally: Tally) -> Callable[[Array], Array]:
    """Solves M x = r, M symmetric and positive definite; it is overwritten."""
    factor = scipy.linalg.cho_factor(M, overwrite_a=True)
    tally.factorised(len(M))

    def solve(r: Array) -> Array:
        tally.solved(len(r))
        return scipy.linalg.cho_solve(factor, r)

    return solve


def _by_gradients(B: CountedRows, weights: Array, ridge: Array) -> Solve:
    """The diagonal preconditions a tall B only. On the null space of a wide one the matrix is the ridge: a
    single eigenvalue, which a preconditioner would spread (farm-ads: 303 iterations without, 832 with).
    """
    diagonal = B.diagonal(weights)
    ridge = _raised(ridge, diagonal.max())
    inverse = 1.0 / (diagonal + ridge) if B.shape[0] >= B.shape[1] else np.ones_like(ridge)
    return block_system(B, lambda v: weights * v, ridge, inverse)


def block_system(B: CountedRows, blocks: Callable[[Array], Array], ridge: Array, inverse: Array | None = None) -> Solve:
    """Solves (B' M B + diag(ridge)) x = r by conjugate gradients, ``blocks`` the product with M >= 0.

    Without the preconditioner ``inverse``, conjugate gradients from 0 never move along what is flat, such as a shift
    of the intercepts of all classes, and the solution is the one nearest to the start.
    """
    inverse = np.ones_like(ridge) if inverse is None else inverse
    return lambda r, accuracy: conjugate_gradients(
        lambda x: B.spread(blocks(B.times(x))) + ridge * x, inverse, r, accuracy
    )


def saddle_system(saddle: Saddle, tally: Tally, ridge: Array) -> Solve:
    """Eliminates theta, and the saddle point is a least-squares problem in v.

    With B, its weights, c and T as the operator gives them, J (v, theta) = r reads

        (B' diag(weights) B + D) v + c theta = r_v,      -c'v + T theta = r_theta,

    so (B' diag(weights) B + c c'/T + D) v = r_v - c r_theta / T: positive definite, c one row more.
    theta keeps a row and column of its own that nothing else meets.
    """
    c, T = saddle.c, saddle.T + ridge[-1]
    rows = CountedRows(sp.csr_array(sp.vstack([saddle.B, sp.csr_array(c[None, :])], format="csr")), tally)
    solve_reduced = system(rows, np.append(saddle.weights, 1.0 / T), np.append(ridge[:-1], 1.0))

    def solve(r: Array, accuracy: float) -> Array:
        reduced = r - c * (r[-1] / T)
        reduced[-1] = 0.0
        x = solve_reduced(reduced, accuracy)
        x[-1] = (r[-1] + c @ x) / T
        return x

    return solve


def dot(x: Array, y: Array) -> float:
    """x'y in one thread: a threaded BLAS waits for its threads longer than it computes."""
    return float(np.einsum("i,i->", x, y))


def conjugate_gradients(
    product: Callable[[Array], Array],
    inverse: Array,
    r: Array,
    accuracy: float,
    dot: Callable[[Array, Array], float] = dot,
    most: int | None = None,
) -> Array:
    """x with product(x) = r to a relative residual of ``accuracy``, preconditioned by the diagonal ``inverse``.

    ``product`` is a positive definite matrix. After ``most`` steps (MAX_CG) x is still a direction of descent.
    ``dot`` is x'y, for machines that must come to the same bits.
    """
    enough = accuracy**2 * dot(r, r)
    x, r, direction = np.zeros_like(r), r.copy(), inverse * r
    energy = dot(r, direction)
    for _ in range(MAX_CG if most is None else most):
        if not dot(r, r) > enough:
            break
        image = product(direction)
        curvature = dot(direction, image)
        if curvature == 0.0:  # flat in floating point: there is no length
            break
        length = energy / curvature
        x += length * direction
        r -= length * image
        conditioned = inverse * r
        previous, energy = energy, dot(r, conditioned)
        direction = conditioned + (energy / previous) * direction
    return x


def _raised(ridge: Array, top: float) -> Array:
    return np.maximum(ridge, NEVER_FLAT * top) if top > 0.0 else np.where(ridge > 0.0, ridge, 1.0)


def _dense(M: Any) -> Array:
    return M if isinstance(M, np.ndarray) else M.toarray()
