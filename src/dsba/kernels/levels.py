"""Differences of rows as whole multiples of a scale: the arithmetic of ``network/messages/levels.py``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dsba.kernels.cache import njit


@njit(cache=True)
def largest_difference(z: Any, known: Any) -> float:
    """The largest |z - known|; infinite where one of the differences is not finite."""
    largest = 0.0
    for j in range(z.size):
        size = abs(z[j] - known[j])
        if not size <= largest:
            if not size < float("inf"):
                return float("inf")
            largest = size
    return largest


@njit(cache=True)
def round_to_levels(z: Any, known: Any, u: Any, scale: float, levels: Any) -> Any:
    """levels <- floor((z - known)/scale + u); the squared norms of what rounding changed and of the difference."""
    lost, norm = 0.0, 0.0
    for j in range(z.size):  # apart from the sums, so that it is made by vectors
        levels[j] = np.int8(math.floor((z[j] - known[j]) / scale + u[j]))
    for j in range(z.size):
        difference = z[j] - known[j]
        lost += (scale * levels[j] - difference) ** 2
        norm += difference * difference
    return lost, norm


@njit(cache=True)
def add_levels(scale: float, levels: Any, known: Any, seen: Any) -> None:
    """seen <- known + scale levels;  known moves half of the way."""
    for j in range(levels.size):
        change = scale * levels[j]
        seen[j] = known[j] + change
        known[j] += 0.5 * change


@njit(cache=True)
def unpack_levels(packed: Any, half: int, digits: int, levels: Any) -> bool:
    """The levels in these bytes (``wire.encode_levels``); False if the bytes are not the code of any levels."""
    count = 2 * half + 1
    for i in range(packed.size):
        byte = int(packed[i])
        for j in range(i * digits, min((i + 1) * digits, levels.size)):
            levels[j] = byte % count - half
            byte //= count
        if byte:
            return False
    return True
