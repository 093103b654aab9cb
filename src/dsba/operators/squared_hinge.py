"""Squared hinge loss, the smooth support vector machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dsba.operators.base import ScalarOperator


@dataclass(frozen=True)
class SquaredHinge(ScalarOperator):
    """max(0, 1 - y u)^2, y in {-1, +1}."""

    labels: ClassVar[str] = "binary"
    lipschitz: ClassVar[float] = 2.0

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
