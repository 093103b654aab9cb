"""Logistic loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dsba.kernels.resolvents import MAX_NEWTON
from dsba.operators.base import ScalarOperator


@dataclass(frozen=True)
class Logistic(ScalarOperator):
    """log(1 + exp(-y u)), y in {-1, +1}."""

    labels: ClassVar[str] = "binary"
    wrong_side: ClassVar[float] = math.log(2.0)
    link: ClassVar[str] = "logit"
    family: ClassVar[str] = "binomial"
    lipschitz: ClassVar[float] = 0.25

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
