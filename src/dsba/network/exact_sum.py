"""Exact sums: the one way to add over nodes.

All nodes agree on a power of two that fits the largest contribution. Every contribution becomes an integer multiple
of it, in 128 bits. The integers are added, in any order and along any tree, and the total is rounded once. So every
transport gives the same bits. A contribution keeps its 53 bits if it is not below 1e-21 of the largest.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dsba.kernels.exact import add_entries, add_integers, add_numbers, to_numbers
from dsba.types import Array, Words

BITS = 126  # of 128, one is the sign and one is to spare
LEAST_EXPONENT = -1074  # the exponent of the smallest positive float64


class WideIntegers(NamedTuple):
    """Integers of 128 bits in two's complement, as halves."""

    high: Words
    low: Words

    def plus(self, other: WideIntegers) -> WideIntegers:
        """The sum modulo 2^128."""
        high, low = self.high.copy(), self.low.copy()
        add_integers(high, low, other.high, other.low)
        return WideIntegers(high, low)

    def to_bytes(self) -> bytes:
        """16 bytes a number, little-endian halves: all the high ones, then all the low ones."""
        return np.concatenate(self).astype("<u8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> WideIntegers:
        """What ``to_bytes`` gave."""
        high, low = np.frombuffer(data, "<u8").astype(np.uint64).reshape(2, -1)
        return cls(high, low)


class SparseRows(NamedTuple):
    """Rows of which most entries are zero: the other entries of all rows, and their columns."""

    values: Array
    columns: npt.NDArray[Any]
    shape: tuple[int, int]


def largest(rows: Array | SparseRows) -> float:
    """The largest magnitude in the rows; infinite if anything in them is not finite."""
    values = rows.values if isinstance(rows, SparseRows) else rows
    if not values.size:
        return 0.0
    top = max(float(values.max()), -float(values.min()))  # NaN stays NaN
    return top if math.isfinite(top) else math.inf


def exponent(largest: float, count: int) -> int:
    """The power of two for a sum of ``count`` contributions of magnitude at most ``largest`` > 0."""
    return max(LEAST_EXPONENT, math.frexp(largest)[1] + max(0, count - 1).bit_length() - BITS)


def integers(rows: Array | SparseRows, exponent: int) -> WideIntegers:
    """The sum of the rows, in multiples of 2^exponent."""
    total = WideIntegers(*np.zeros((2, rows.shape[1]), np.uint64))
    if isinstance(rows, SparseRows):
        add_entries(rows.values, rows.columns, exponent, *total)
        return total
    add_numbers(np.ascontiguousarray(rows, np.float64), exponent, *total)
    return total


def numbers(total: WideIntegers, exponent: int) -> Array:
    """The float64 nearest to each integer times 2^exponent."""
    out = np.empty(total.low.size)
    to_numbers(*total, exponent, out)
    return out


def total(rows: Array | SparseRows) -> Array:
    """The sum of rows that are all here; NaN everywhere if anything is not finite."""
    top = largest(rows)
    if top == 0.0 or not math.isfinite(top):
        return np.full(rows.shape[1], top and math.nan)
    scale = exponent(top, rows.shape[0])
    return numbers(integers(rows, scale), scale)


def norm(x: Array) -> float:
    """The Euclidean norm, with the same bits on every processor: runs stop by it, and must all stop together."""
    return math.sqrt(total((x * x)[:, None])[0])
