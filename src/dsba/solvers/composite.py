"""The solution of a problem with a penalty: accelerated proximal gradient steps, and Newton's where these apply.

The solution is the zero of the natural residual  R(z) = z - prox_t(z - t F(z)),  F the pooled operator and t a step of
its own for each coordinate. Where the coordinates that the penalty holds fixed are known, R is smooth, and Newton's
iteration on it needs a few steps. Proximal gradient steps find these coordinates. Every so many of them Newton's step
is tried; one that does not shrink R, or raises the objective, is not taken.
"""

import math
from itertools import pairwise

import numpy as np

from dsba.problem.problem import Problem
from dsba.solvers.linear import conjugate_gradients
from dsba.solvers.newton import RISE, falls
from dsba.types import Array

MAX_COMPOSITE_STEPS = 20_000
NEWTON_EVERY = 25
MAX_COMPOSITE_NEWTON = 20
MAX_COMPOSITE_CG = 1000
COMPOSITE_ACCURACY = 1e-14  # of the systems, relative
COMPOSITE_SHRUNK = 0.5  # a Newton step must make R this small, relative to R before


def solve(problem: Problem, scale: float, tol: float) -> tuple[Array, float]:
    """The best point found and its residual, relative to ``scale``."""
    best = z = y = np.zeros(problem.dim)
    smallest, t, weight = math.inf, _steps(problem), 1.0
    for k in range(MAX_COMPOSITE_STEPS):
        if k % NEWTON_EVERY == 0:
            z, residual = _newton(problem, z, t)
            y, weight = z, 1.0
            if residual < smallest:
                best, smallest = z, residual
            if smallest <= tol * scale:
                break
        z_prev, (z, t) = z, _forward_backward(problem, y, t)
        if ((y - z) / t) @ (z - z_prev) > 0.0:  # the momentum points uphill
            weight = 1.0
        after = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * weight * weight))
        y, weight = z + (weight - 1.0) / after * (z - z_prev), after
    return best, smallest / scale


def _steps(problem: Problem) -> Array:
    """Of each coordinate, one over its planned curvature: columns may have very different units."""
    slopes = np.repeat(problem.sample_weight * problem.component.planning_slopes(problem.y), problem.k)
    squares, ends = problem.A.multiply(problem.A).tocsr(), problem.start * problem.k
    own = [squares[first:last].T @ slopes[first:last] for first, last in pairwise(ends)]
    curvature = problem.total(np.array(own)) / problem.n_samples + problem.lam_diag
    return 1.0 / np.where(curvature > 0.0, curvature, 1.0 / problem.pooled.forward_step)


def _forward_backward(problem: Problem, y: Array, t: Array) -> tuple[Array, Array]:
    """A proximal gradient step, with t halved until the quadratic model bounds the objective."""
    F, value = problem.pooled.operator(y), _smooth(problem, y)
    while True:
        z = problem.pooled.prox(y - t * F, t)
        d = z - y
        if not _smooth(problem, z) > value + F @ d + d @ (d / (2 * t)) + RISE * abs(value):
            return z, t
        t = 0.5 * t


def _smooth(problem: Problem, z: Array) -> float:
    """The objective without the penalty."""
    assert problem.penalty is not None
    return problem.objective(z) - problem.penalty.value(z[problem.pooled.penalised])


def _newton(problem: Problem, z: Array, t: Array) -> tuple[Array, float]:
    """Newton's iteration on R as long as it shrinks R, and the residual of the point where it ends.

    An iteration of its own: R has kinks, and a step across them is not shortened but left to proximal steps.
    The objective may not rise: far away from everything R is small beside z, and rounds to nothing.
    """
    residual, value = float(np.linalg.norm(problem.pooled.residual(z))), problem.objective(z)
    for _ in range(MAX_COMPOSITE_NEWTON if problem.component.has_curvature else 0):
        new = z + _step(problem, z, t)
        after, worth = float(np.linalg.norm(problem.pooled.residual(new))), problem.objective(new)
        if not (after < COMPOSITE_SHRUNK * residual and falls(worth, value)):
            break
        z, residual, value = new, after, worth
    return z, residual


def _step(problem: Problem, z: Array, t: Array) -> Array:
    """d with  d - D (d - t H d) = -R(z),  D the slopes of prox, H the Jacobian of F: a symmetric system where D > 0."""
    products = problem.local.products(z)
    V = z - t * problem.pooled.operator(z)
    D, R = problem.pooled.prox_slope(V, t), z - problem.pooled.prox(V, t)
    free = D > 0.0
    d = np.where(free, 0.0, -R)

    def H(v: Array) -> Array:
        return problem.group.sum(products(v)) / problem.n_samples + problem.lam_diag * v

    def system(x: Array) -> Array:
        v = np.zeros(problem.dim)
        v[free] = x
        return ((1.0 - D) / t * v + D * H(v))[free] / D[free]

    rhs = (-R / t - D * H(d))[free] / D[free]
    d[free] = conjugate_gradients(system, t[free], rhs, COMPOSITE_ACCURACY, most=MAX_COMPOSITE_CG)
    return d
