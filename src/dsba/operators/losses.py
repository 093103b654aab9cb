"""Losses of one score."""

import math
from dataclasses import dataclass

import numpy as np

from dsba.errors import InputError
from dsba.kernels.resolvents import MAX_NEWTON
from dsba.operators.base import ScalarOperator
from dsba.types import Array

_LARGEST = 700.0  # exp of it is still finite; beyond, the loss is continued by its tangent


@dataclass(frozen=True)
class Ridge(ScalarOperator):
    """Squared loss: (u - y)^2 / 2.

    Examples
    --------
    >>> import dsba
    >>> dsba.operators.Ridge().value(3.0, 1.0)
    2.0
    """

    family = "gaussian"
    lipschitz = 1.0
    monotonicity = 1.0

    def value(self, u: float, y: float) -> float:
        return 0.5 * (u - y) ** 2

    def map(self, u: float, y: float) -> float:
        return u - y

    def slope(self, u: float, y: float) -> float:
        return 1.0

    def resolvent(self, b: float, t: float, y: float) -> float:
        return (b + t * y) / (1.0 + t)


@dataclass(frozen=True)
class Logistic(ScalarOperator):
    """Logistic loss: log(1 + exp(-y u)), y in {-1, +1}.

    Examples
    --------
    >>> import dsba
    >>> round(dsba.operators.Logistic().value(0.0, 1.0), 4)
    0.6931
    """

    labels = "binary"
    wrong_side = math.log(2.0)
    link = "logit"
    family = "binomial"
    lipschitz = 0.25

    def value(self, u: float, y: float) -> float:
        m = y * u
        return math.log1p(math.exp(-abs(m))) + max(-m, 0.0)

    def map(self, u: float, y: float) -> float:
        m = y * u
        e = math.exp(-abs(m))  # of the side that cannot overflow
        return -y * (e if m > 0.0 else 1.0) / (1.0 + e)

    def slope(self, u: float, y: float) -> float:
        e = math.exp(-abs(u))
        return e / (1.0 + e) ** 2

    def resolvent(self, b: float, t: float, y: float) -> float:
        """Newton from 0: g's inflection point, so the iterates approach the root from one side."""
        u = 0.0
        for _ in range(MAX_NEWTON):
            step = (u - b + t * self.map(u, y)) / (1.0 + t * self.slope(u, y))
            u -= step
            if abs(step) <= 1e-15 * abs(u):
                break
        return u


@dataclass(frozen=True)
class SquaredHinge(ScalarOperator):
    """Squared hinge loss: max(0, 1 - y u)^2, y in {-1, +1}.

    Examples
    --------
    >>> import dsba
    >>> dsba.operators.SquaredHinge().value(0.0, 1.0)
    1.0
    """

    labels = "binary"
    lipschitz = 2.0

    def value(self, u: float, y: float) -> float:
        return max(0.0, 1.0 - y * u) ** 2

    def map(self, u: float, y: float) -> float:
        return -2.0 * y * max(0.0, 1.0 - y * u)

    def slope(self, u: float, y: float) -> float:
        return 2.0 if y * u < 1.0 else 0.0

    def resolvent(self, b: float, t: float, y: float) -> float:
        if y * b >= 1.0:
            return b
        return (b + 2.0 * t * y) / (1.0 + 2.0 * t)


@dataclass(frozen=True)
class Huber(ScalarOperator):
    """Huber's loss of r = u - y: r^2/2 where abs(r) <= delta, delta abs(r) - delta^2/2 beyond.

    Parameters
    ----------
    delta : float
        The width of the quadratic part.

    Examples
    --------
    >>> import dsba
    >>> dsba.operators.Huber(1.0).value(3.0, 0.0)
    2.5
    """

    delta: float = 1.35
    lipschitz = 1.0

    def __post_init__(self) -> None:
        if not self.delta > 0:
            raise InputError(f"Huber needs delta > 0, got {self.delta!r}.")

    def value(self, u: float, y: float) -> float:
        r = abs(u - y)
        return 0.5 * r * r if r <= self.delta else self.delta * (r - 0.5 * self.delta)

    def map(self, u: float, y: float) -> float:
        return min(max(u - y, -self.delta), self.delta)

    def slope(self, u: float, y: float) -> float:
        return 1.0 if abs(u - y) <= self.delta else 0.0

    def resolvent(self, b: float, t: float, y: float) -> float:
        r = (b - y) / (1.0 + t)
        if abs(r) <= self.delta:
            return (b + t * y) / (1.0 + t)
        # b - t delta, rounded, must not fall back inside, where g differs by t times that rounding
        return max(b - t * self.delta, y + self.delta) if r > 0.0 else min(b + t * self.delta, y - self.delta)


@dataclass(frozen=True)
class Poisson(ScalarOperator):
    """Poisson loss: exp(u) - y u, y >= 0.

    Examples
    --------
    >>> import dsba
    >>> dsba.operators.Poisson().value(0.0, 2.0)
    1.0
    """

    labels = "count"
    family = "poisson"

    def value(self, u: float, y: float) -> float:
        return math.exp(min(u, _LARGEST)) * (1.0 + max(u - _LARGEST, 0.0)) - y * u

    def map(self, u: float, y: float) -> float:
        return math.exp(min(u, _LARGEST)) - y

    def slope(self, u: float, y: float) -> float:
        return math.exp(min(u, _LARGEST))

    def planning_slopes(self, y: Array) -> Array:
        return np.maximum(y, 1.0)
