"""Poisson regression with the logarithmic link."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dsba.operators.base import ScalarOperator
from dsba.types import Array

_LARGEST = 700.0  # exp of it is still finite; beyond, the loss is continued by its tangent


@dataclass(frozen=True)
class Poisson(ScalarOperator):
    """exp(u) - y u, y >= 0. g' = exp(u) has no bound: step sizes are planned with g' where exp(u) = y."""

    labels: ClassVar[str] = "count"
    family: ClassVar[str] = "poisson"

    def value(self, u: float, y: float) -> float:
        return math.exp(min(u, _LARGEST)) * (1.0 + max(u - _LARGEST, 0.0)) - y * u

    def map(self, u: float, y: float) -> float:
        return math.exp(min(u, _LARGEST)) - y

    def slope(self, u: float, y: float) -> float:
        return math.exp(min(u, _LARGEST))

    def planning_slopes(self, y: Array) -> Array:
        return np.maximum(y, 1.0)
