"""The one Newton iteration, for the equation of a set of samples,

    F(z) = A' s(A z) + D z - rhs = 0,       s(u) = scale_i g(u_i) for every sample i,  D >= 0 a diagonal.

The certified optimum solves it for all samples, with rhs = 0 and D = Lambda; a local problem for the samples of one
node. A step needs the images A z and the value A' s(A z) + D z of the point where it starts, so a point
carries them and a step makes one product with A and one with A' besides those of its linear system.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dsba.operators import Operator
from dsba.solvers import linear
from dsba.solvers.linear import CountedRows, Solve, dot
from dsba.types import Array

MAX_TRIALS = 80
STEP_ROUNDING = 1e-15
RISE = 1e-12  # how much the objective may rise, relative to itself: less is rounding
SHRUNK = 0.5  # a full step that makes F this small, relative to F before, needs no line search
LEAST_SLOPE = 1e-12  # relative to the largest one: a system is as invertible as the data allows even where all are 0


class Point(NamedTuple):
    """z with the images u = A z and the value A' s(u) + D z."""

    z: Array
    u: Array
    value: Array


@dataclass(frozen=True)
class Equation:
    """The samples and D of an equation; its right-hand side is given to the solvers."""

    component: Operator
    A: CountedRows
    y: Array
    scale: Array
    D: Array

    def s(self, u: Array) -> Array:
        """scale_i g(u_i)."""
        return (self.scale[:, None] * self.component.forward_rows(u.reshape(-1, self.component.k), self.y)).ravel()

    def curved(self, u: Array, v: Array) -> Array:
        """The Jacobian of s at u times v."""
        k = self.component.k
        along = self.component.curvature(u.reshape(-1, k), v.reshape(-1, k), self.y)
        return (self.scale[:, None] * along).ravel()

    def slopes(self, u: Array) -> Array:
        """s'(u), for k = 1."""
        return self.curved(u, np.ones_like(u))

    def at(self, z: Array) -> Point:
        """The point z."""
        u = self.A.times(z)
        return Point(z, u, self.A.spread(self.s(u)) + self.D * z)

    def system(self, u: Array) -> Solve:
        """Solves J x = r with J the Jacobian of F where the images are u."""
        if self.component.has_saddle:
            return linear.saddle_system(self.component.saddle(self.A.matrix, self.y, self.scale), self.A.tally, self.D)
        if self.component.k > 1:
            return linear.block_system(self.A, lambda v: self.curved(u, v), self.D)
        slopes = self.slopes(u)
        return linear.system(self.A, slopes + LEAST_SLOPE * (slopes.max() or 1.0), self.D)

    def along(self, u: Array, v: Array) -> Callable[[float], Array]:
        """The terms of v's(u + t v), as a function of t."""
        return lambda t: self.s(u + t * v) * v


def unsolvable(component: Operator) -> str | None:
    """What an operator lacks for Newton's iteration, or None."""
    if component.has_curvature or component.has_saddle:
        return None
    return f"{type(component).__name__} gives no curvature (a ScalarOperator: no slope)"


NextAccuracy = Callable[[Point, Array], float | None]  # of the step from a point, given F there; None at the end


def iterate(
    equation: Equation, point: Point, excess: Callable[[Point], Array], judge: NextAccuracy, most: int
) -> Point:
    """Newton's iteration on F = ``excess`` from a point, with ``most`` steps. The system of an affine operator stays.

    ``judge`` sees every point with F there. It says how accurately the next step is to be solved, and where to end.
    """
    solve = equation.system(point.u) if equation.component.affine else None
    for _ in range(most):
        F = excess(point)
        accuracy = judge(point, F)
        if accuracy is None:
            break
        point = step(equation, point, F, accuracy, solve)
    return point


def step(equation: Equation, point: Point, F: Array, accuracy: float, solve: Solve | None = None) -> Point:
    """z + t d with J d = -F to a relative ``accuracy``.

    t is 1 where that shrinks F, and comes from a line search elsewhere. ``solve`` is the system, if it is known.
    """
    d = -(solve or equation.system(point.u))(F, accuracy)
    with np.errstate(over="ignore", invalid="ignore"):  # a step too far may overflow: it is shortened
        full = equation.at(point.z + d)
        left = F + (full.value - point.value)
        if equation.component.affine or dot(left, left) <= SHRUNK**2 * dot(F, F):
            return full
    v = equation.A.times(d)
    constant = dot(d, F) - dot(v, equation.s(point.u))
    t = line_search(equation.along(point.u, v), constant, dot(equation.D * d, d))
    return full if t == 1.0 else equation.at(point.z + t * d)


def falls(after: float, before: float) -> bool:
    """Whether what a step must not raise has risen by rounding at most; not where it is NaN."""
    return after <= before + RISE * abs(before)


def line_search(terms: Callable[[float], Array], constant: float, linear: float) -> float:
    """A length t near the minimum along d, by the sign of m(t) = d'F(z + t d) alone.

    m(t) = sum of terms(t) + constant + linear t, where ``terms`` are the samples' v s(u + t v), u = A z
    and v = A d: a trial does not touch A. A monotone g with a symmetric Jacobian is the gradient of a convex loss
    whether or not the operator gives it, so m increases from m(0) < 0 and is enough to bracket the minimum;
    unlike the loss it does not drown in rounding near the solution.
    """

    def m(t: float) -> tuple[float, float]:
        """m(t), and how much of it may be rounding."""
        parts = terms(t)
        return float(parts.sum()) + constant + linear * t, STEP_ROUNDING * float(np.abs(parts).sum())

    t, low, high = 1.0, 0.0, math.inf
    with np.errstate(over="ignore", invalid="ignore"):  # a trial too far may overflow: it is shortened
        first = abs(m(0.0)[0])
        for _ in range(MAX_TRIALS):
            slope, noise = m(t)
            if slope < -0.25 * first - noise:
                low = t
            elif slope <= 0.1 * first + noise < math.inf:
                return t
            else:
                high = t
            t = 4.0 * t if high == math.inf else 0.5 * (low + high)
    return low
