"""The certified optimum: z* with the residual that proves it.

All solvers here are Newton's iteration on F(z) = ``problem.pooled(z)``; for a linear operator the
first step solves the problem and the others are iterative refinement. A Newton system is brought
to the form

    (B' diag(weights) B + diag(ridge)) x = r,       weights >= 0,  ridge > 0,

which is factorised where one side of B is short and solved by conjugate gradients elsewhere, with
products with the sparse B only. An operator on R^k with a ``curvature`` (softmax) gets conjugate
gradients. Whatever happens in here, the residual is computed from
``problem.pooled`` at the point returned: the certificate does not depend on how z was found.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp
from numba import njit

from dsba.errors import InputError
from dsba.kernels import samples as kernel
from dsba.operators import AUC, ScalarOperator
from dsba.problem import Problem
from dsba.solvers.linear import conjugate_gradients, line_search

Array = npt.NDArray[np.float64]
Solve = Callable[[Array, float], Array]  # (r, relative accuracy) -> x
Step = Callable[[Array, Array, float], Array]  # (z, F(z), relative accuracy) -> the change of z

CERTIFIED = 1e-6  # a reference with a larger residual is announced by a warning
MAX_STEPS = 300
MAX_APPROACH = 20
NEAR = 1e-3  # how well a smoothed problem is solved before the next
SHORT = 1500  # a side of B short enough to factorise a matrix of that size
MAX_GRAM = 5e10  # multiplications, were B dense, for which a Gram matrix is still cheap
LEAST_SLOPE = 1e-12  # relative to the largest one
NEVER_FLAT = 1e-12  # the least ridge, relative to the largest diagonal entry: no system is singular


class Optimum(NamedTuple):
    """z and ||F(z)|| / ||F(0)||, F the pooled operator with lambda."""

    z: Array
    residual: float


def optimum(problem: Problem, *, tol: float = 1e-13) -> Optimum:
    """The solution of the pooled problem, to a relative residual of ``tol`` or as near as rounding lets it.

    The residual bounds the error: ||z - z*|| <= residual ||F(0)|| / mu, mu the strong monotonicity
    (lambda, at least). Where F(0) = 0, z = 0 is the solution and its residual 0.
    """
    scale = float(np.linalg.norm(problem.pooled(np.zeros(problem.dim))))
    if scale == 0.0:
        return Optimum(np.zeros(problem.dim), 0.0)
    best = _iterate(problem, np.zeros(problem.dim), scale, tol)
    if not best.residual <= CERTIFIED and isinstance(problem.component, ScalarOperator):
        best = min(best, _iterate(problem, _approach(problem, scale), scale, tol), key=lambda o: o.residual)
    if not best.residual <= CERTIFIED:
        warnings.warn(
            f"the reference is not certified: its relative residual is {best.residual:.2g}, wanted {tol:.2g}.",
            RuntimeWarning,
            stacklevel=2,
        )
    return best


def _iterate(problem: Problem, z: Array, scale: float, tol: float) -> Optimum:
    """z <- z + step, until F(z) is small or stops shrinking; the best point seen."""
    step, linear = _stepper(problem)
    best, stalled = Optimum(z, math.inf), 0
    for _ in range(MAX_STEPS):
        F = problem.pooled(z)
        residual = float(np.linalg.norm(F)) / scale
        if not math.isfinite(residual):
            break
        stalled = 0 if residual < 0.5 * best.residual else stalled + 1
        if residual < best.residual:
            best = Optimum(z, residual)
        # Far from the solution the objective falls while F may grow; near it, no progress is rounding.
        if residual <= tol or stalled > (3 if best.residual < 1e-10 else 40):
            break
        enough = max(0.5 * tol / residual, 1e-15)
        z = z + step(z, F, enough if linear else max(enough, min(0.1, residual)))
    return best


def _stepper(problem: Problem) -> tuple[Step, bool]:
    """The Newton step for the problem's operator, and whether that operator is linear."""
    component = problem.component
    if isinstance(component, ScalarOperator):
        linear = component.lipschitz == component.monotonicity
        return (_linear_step if linear else _newton_step)(problem), linear
    if isinstance(component, AUC):
        return _auc_step(problem, component), True
    if component.has_curvature:
        return _curved_step(problem), False
    raise InputError(
        f"no reference solver for {type(component).__name__}: it needs a ScalarOperator (with a slope), AUC or an "
        "operator with a curvature; compute the solution yourself and give it as the reference."
    )


# Steps -------------------------------------------------------------------------------------------


def _linear_step(problem: Problem) -> Step:
    """dz = -J^-1 F with the constant J = slope A'A/Q + Lambda, factorised once."""
    slopes = _envelope(problem, np.zeros(problem.n_samples), 0.0)[1]
    solve = _solver(problem.A, slopes / problem.n_samples, problem.lam_diag)
    return lambda z, F, accuracy: -solve(F, accuracy)


def _newton_step(problem: Problem, t: float = 0.0) -> Step:
    """dz = -J^-1 F by J = A' diag(g_t') A/Q + Lambda, shortened or lengthened by a line search.

    g_t' is raised a little, so that J is as invertible as the data allows even where all g_t' are 0.
    """

    def step(z: Array, F: Array, accuracy: float) -> Array:
        slopes = _envelope(problem, problem.scores(z), t)[1]
        slopes += LEAST_SLOPE * (slopes.max() or 1.0)
        d = -_solver(problem.A, slopes / problem.n_samples, problem.lam_diag)(F, accuracy)
        return _length(problem, z, d, t) * d

    return step


def _approach(problem: Problem, scale: float) -> Array:
    """A starting point for hard cases: the solutions for g_t (see ``_envelope``), t from large to small.

    Plain Newton is lost where most g' vanish at the start and the solution depends on which do not
    (Huber with labels a thousand times its delta: nearly least absolute deviations). For a large t
    the loss is all but quadratic, and each solution tells the next, sharper one where its kinks are.
    """
    z = np.zeros(problem.dim)
    for t in 10.0 ** np.arange(8, -3, -1):
        step = _newton_step(problem, t)
        for _ in range(MAX_APPROACH):
            g, _ = _envelope(problem, problem.scores(z), t)
            F = problem.A.T @ g / problem.n_samples + problem.lam_diag * z
            if not np.linalg.norm(F) > NEAR * scale / (1.0 + t):
                break
            z = z + step(z, F, NEAR)
    return z


def _curved_step(problem: Problem) -> Step:
    """dz = -J^-1 F by J = A' diag(J_i) A/Q + Lambda, J_i the Jacobian of g at a sample, and a line search.

    No preconditioner: conjugate gradients from 0 then never move along what is flat, such as a shift of
    the intercepts of all classes, and the solution is the one nearest to the start.
    """
    component, A, y, k, Q = problem.component, problem.A, problem.y, problem.k, problem.n_samples
    weight = problem.sample_weight[:, None] / Q

    def images(z: Array) -> Array:
        return (A @ z).reshape(Q, k)

    def forward(U: Array) -> Array:
        G = np.empty_like(U)
        kernel.forward_all(component, U, y, G)
        return weight * G

    def step(z: Array, F: Array, accuracy: float) -> Array:
        U = images(z)

        def product(x: Array) -> Array:
            return A.T @ (weight * component.curvature(U, images(x), y)).ravel() + problem.lam_diag * x

        d = -conjugate_gradients(product, np.ones_like(F), F, accuracy)
        V, lam_d = images(d), problem.lam_diag * d
        return line_search(lambda t: (forward(U + t * V) * V).ravel(), float(lam_d @ z), float(lam_d @ d)) * d

    return step


def _auc_step(problem: Problem, component: AUC) -> Step:
    """Eliminate theta, and the saddle point is a least-squares problem in v = (w, a, b).

    With B, its weights, c and T as ``AUC.saddle`` gives them, J (v, theta) = -F reads

        (B' diag(weights) B + Lambda) v + c theta = -F_v,      -c'v + T theta = -F_theta.

    So (B' diag(weights) B + c c'/T + Lambda) v = -F_v + c F_theta / T: positive definite, c one row
    more. theta keeps a row and column of its own that nothing else meets.
    """
    B, weights, c, T = component.saddle(problem.A, problem.y, problem.sample_weight / problem.n_samples)
    T += problem.lam_diag[-1]
    ridge = np.append(problem.lam_diag[:-1], 1.0)
    B = sp.vstack([B, sp.csr_array(c[None, :])], format="csr")
    solve = _solver(B, np.append(weights, 1.0 / T), ridge)

    def step(z: Array, F: Array, accuracy: float) -> Array:
        r = c * (F[-1] / T) - F
        r[-1] = 0.0
        d = solve(r, accuracy)
        d[-1] = (c @ d - F[-1]) / T
        return d

    return step


@njit(cache=True)
def _envelope_all(op: Any, u: Any, t: float, y: Any, g: Any, slope: Any) -> None:
    for i in range(u.size):
        near = op.resolvent(u[i], t, y[i]) if t > 0.0 else u[i]
        g[i] = op.map(near, y[i])
        slope[i] = op.slope(near, y[i])
        slope[i] /= 1.0 + t * slope[i]


def _envelope(problem: Problem, u: Array, t: float) -> tuple[Array, Array]:
    """g_t(u) = g(resolvent_t(u)) and its slope, times the sample weights: the loss smoothed over a width t.

    For t = 0 it is g itself.
    """
    g, slope = np.empty_like(u), np.empty_like(u)
    _envelope_all(problem.component, u, t, problem.y, g, slope)
    return problem.sample_weight * g, problem.sample_weight * slope


def _length(problem: Problem, z: Array, d: Array, t: float) -> float:
    """How far to go from z along d, for the loss smoothed over a width t."""
    u, v = problem.scores(z), problem.scores(d)
    along, curvature = float((problem.lam_diag * z) @ d), float((problem.lam_diag * d) @ d)
    return line_search(lambda s: _envelope(problem, u + s * v, t)[0] * v / u.size, along, curvature)


# Linear systems ----------------------------------------------------------------------------------


def _solver(B: Any, weights: Array, ridge: Array) -> Solve:
    """Solves (B' diag(weights) B + diag(ridge)) x = r in the cheapest of three ways."""
    squares = sp.csr_array((B.data**2, B.indices, B.indptr), shape=B.shape)
    diagonal = squares.T @ weights
    top = diagonal.max()
    ridge = np.maximum(ridge, NEVER_FLAT * top if top > 0.0 else 1.0)
    rows, columns = B.shape
    short = min(rows, columns)
    if short > SHORT or rows * columns * short > MAX_GRAM:
        return _iterative(B, weights, ridge, diagonal)
    try:
        if columns <= SHORT:
            return _factorised_columns(B, weights, ridge)
        if ridge.min() > 1e-9 * top:  # the other form subtracts numbers of size 1/ridge
            return _factorised_rows(B, weights, ridge)
    except np.linalg.LinAlgError:  # not positive definite in floating point
        pass
    return _iterative(B, weights, ridge, diagonal)


def _factorised_columns(B: Any, weights: Array, ridge: Array) -> Solve:
    H = _gram(_scaled(B, np.sqrt(weights)).T)
    H[np.diag_indices_from(H)] += ridge
    factor = scipy.linalg.cho_factor(H, overwrite_a=True)
    return lambda r, accuracy: scipy.linalg.cho_solve(factor, r)


def _factorised_rows(B: Any, weights: Array, ridge: Array) -> Solve:
    """x = D^-1 (r - C'(I + C D^-1 C')^-1 C D^-1 r),  C = diag(weights)^1/2 B,  D = diag(ridge)."""
    C = _scaled(B, np.sqrt(weights))
    K = _gram(C @ sp.diags_array(1.0 / np.sqrt(ridge)))
    K[np.diag_indices_from(K)] += 1.0
    factor = scipy.linalg.cho_factor(K, overwrite_a=True)
    return lambda r, accuracy: (r - C.T @ scipy.linalg.cho_solve(factor, C @ (r / ridge))) / ridge


def _iterative(B: Any, weights: Array, ridge: Array, diagonal: Array) -> Solve:
    """The diagonal preconditions a tall B only. On the null space of a wide one the matrix is lambda: a
    single eigenvalue, which a preconditioner would spread (farm-ads: 303 iterations without, 832 with).
    """
    transposed = B.T
    inverse = 1.0 / (diagonal + ridge) if B.shape[0] >= B.shape[1] else np.ones_like(ridge)

    def product(x: Array) -> Array:
        return transposed @ (weights * (B @ x)) + ridge * x

    return lambda r, accuracy: conjugate_gradients(product, inverse, r, accuracy)


def _scaled(B: Any, factors: Array) -> Any:
    return sp.diags_array(factors).tocsr() @ B


def _gram(C: Any) -> Array:
    """C C', dense."""
    if C.nnz > 0.2 * C.shape[0] * C.shape[1]:
        C = C.toarray()
        return C @ C.T
    return (C @ C.T).toarray()
