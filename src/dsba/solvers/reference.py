"""The certified optimum: z* with the residual that proves it.

All solvers here are Newton's iteration on F(z) = ``problem.pooled.operator(z)``; for an affine operator the
first step solves the problem and the others are iterative refinement. Whatever happens in here, the residual
is computed from ``problem.pooled`` at the point returned: the certificate does not depend on how z was found.
"""

import math
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dsba.errors import InputError
from dsba.network.exact_sum import norm
from dsba.operators import Operator
from dsba.problem.problem import Problem
from dsba.solvers import composite
from dsba.solvers.linear import CountedRows, Tally
from dsba.solvers.newton import Equation, NextAccuracy, Point, iterate, unsolvable
from dsba.types import Array

CERTIFIED = 1e-6  # a reference with a larger residual is announced by a warning
MAX_STEPS = 300
MAX_APPROACH = 20
NEAR_SMOOTHED = 1e-3  # how well a smoothed problem is solved before the next


class Optimum(NamedTuple):
    """z and ||F(z)|| / ||F(0)||, F the pooled operator with lambda; with a penalty ``problem.residual`` is F."""

    z: Array
    residual: float


def optimum(problem: Problem, *, tol: float = 1e-13) -> Optimum:
    """The solution of the pooled problem, certified by its residual.

    The residual bounds the error: ||z - z*|| <= residual ||F(0)|| / mu, mu the strong monotonicity
    (lambda, at least). Where F(0) is 0 or rounding, z = 0 is the solution.

    Parameters
    ----------
    problem : Problem
        The problem of all nodes.
    tol : float
        The relative residual to reach, or as near as rounding allows.

    Returns
    -------
    Optimum
        ``z`` and ``residual``, the norm of the operator at z relative to its norm at 0.

    Raises
    ------
    InputError
        If the operator has no reference solver.

    Examples
    --------
    >>> import dsba
    >>> problem = dsba.Problem.from_arrays(*dsba.data.load_breast_cancer(), n_nodes=4, lam=0.1)
    >>> z, residual = dsba.optimum(problem)
    >>> z.shape, bool(residual < 1e-12)
    ((30,), True)
    """
    scale, zero = problem.residual_unit, np.zeros(problem.dim)
    at_zero = Optimum(zero, norm(problem.pooled.residual(zero)) / scale)
    if at_zero.residual <= tol:
        return at_zero
    if problem.penalty is not None:
        return _announced(Optimum(*composite.solve(problem, scale, tol)), tol)
    if reason := unsolvable(problem.component):
        raise InputError(f"there is no reference solver: {reason}; compute the solution and give it as the reference.")
    best = _iterate(problem, zero, scale, tol)
    if not best.residual <= CERTIFIED and problem.component.has_envelope:
        best = min(best, _iterate(problem, _approach(problem, scale), scale, tol), key=lambda o: o.residual)
    return _announced(best, tol)


def _announced(best: Optimum, tol: float) -> Optimum:
    """The optimum, with a warning if the residual does not certify it."""
    if not best.residual <= CERTIFIED:
        warnings.warn(
            f"the reference is not certified: its relative residual is {best.residual:.2g}, wanted {tol:.2g}.",
            RuntimeWarning,
            stacklevel=3,
        )
    return best


def _iterate(problem: Problem, z: Array, scale: float, tol: float) -> Optimum:
    """Newton's iteration until F(z) is small or stops shrinking; the best point seen."""
    equation, best, stalled = Equation(*_samples(problem)), Optimum(z, math.inf), 0

    def judge(point: Point, F: Array) -> float | None:
        nonlocal best, stalled
        residual = norm(F) / scale
        if not math.isfinite(residual):
            return None
        stalled = 0 if residual < 0.5 * best.residual else stalled + 1
        if residual < best.residual:
            best = Optimum(point.z, residual)
        # Far from the solution the objective falls while F may grow; near it, no progress is rounding.
        if residual <= tol or stalled > (3 if best.residual < 1e-10 else 40):
            return None
        enough = max(0.5 * tol / residual, 1e-15)
        return enough if problem.component.affine else max(enough, min(0.1, residual))

    iterate(equation, equation.at(z), lambda point: problem.pooled.operator(point.z), judge, MAX_STEPS)
    return best


def _samples(problem: Problem) -> tuple[Operator, CountedRows, Array, Array, Array]:
    """The pooled problem's fields of an ``Equation``."""
    scale = problem.sample_weight / problem.n_samples
    return problem.component, CountedRows(problem.A, Tally()), problem.y, scale, problem.lam_diag


@dataclass(frozen=True)
class Smoothed(Equation):
    """The equation with every loss smoothed over a width t (``Operator.envelope``)."""

    t: float

    def s(self, u: Array) -> Array:
        return self.scale * self.component.envelope(u, self.t, self.y)[0]

    def slopes(self, u: Array) -> Array:
        return self.scale * self.component.envelope(u, self.t, self.y)[1]


def _approach(problem: Problem, scale: float) -> Array:
    """A starting point for hard cases: the solutions of ``Smoothed`` equations, t from large to small.

    Plain Newton is lost where most g' vanish at the start and the solution depends on which do not
    (Huber with labels a thousand times its delta: nearly least absolute deviations). For a large t
    the loss is all but quadratic, and each solution is near the kinks of the next, sharper one.
    """
    z, samples = np.zeros(problem.dim), _samples(problem)
    for t in 10.0 ** np.arange(8, -3, -1):
        equation, small = Smoothed(*samples, t), NEAR_SMOOTHED * scale / (1.0 + t)
        z = iterate(equation, equation.at(z), lambda point: point.value, _until(small), MAX_APPROACH).z
    return z


def _until(small: float) -> NextAccuracy:
    return lambda point, F: NEAR_SMOOTHED if np.linalg.norm(F) > small else None
