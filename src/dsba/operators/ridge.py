"""Least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dsba.operators.base import ScalarOperator


@dataclass(frozen=True)
class Ridge(ScalarOperator):
    """(u - y)^2 / 2."""

    family: ClassVar[str] = "gaussian"
    lipschitz: ClassVar[float] = 1.0
    monotonicity: ClassVar[float] = 1.0

    def value(self, u: float, y: float) -> float:
        return 0.5 * (u - y) ** 2

    def map(self, u: float, y: float) -> float:
        return u - y

    def slope(self, u: float, y: float) -> float:
        return 1.0

    def resolvent(self, b: float, t: float, y: float) -> float:
        return (b + t * y) / (1.0 + t)
