"""Huber's robust regression loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dsba.errors import InputError
from dsba.operators.base import ScalarOperator


@dataclass(frozen=True)
class Huber(ScalarOperator):
    """r^2/2 where |r| <= delta, delta |r| - delta^2/2 beyond; r = u - y."""

    delta: float = 1.35
    lipschitz: ClassVar[float] = 1.0

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
