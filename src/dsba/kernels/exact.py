"""Floating-point numbers as integers of 128 bits: the arithmetic of exact sums.

A number x is held as the integer nearest to x / 2^exponent, in two's complement, as a high and a low half of 64
bits. Integers add without rounding, so a sum has the same bits in whatever order it is made.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dsba.kernels.cache import njit, part

ONE = np.uint64(1)
MANTISSA = np.uint64((1 << 52) - 1)
HIDDEN = np.uint64(1 << 52)
TOP = np.uint64(1 << 63)


@part()
def _magnitude(bits: Any, exponent: int) -> Any:
    """The integer nearest to |x| / 2^exponent (ties to even) as (high, low), ``bits`` being those of x."""
    biased: Any = np.int64((bits >> np.uint64(52)) & np.uint64(0x7FF))
    m = bits & MANTISSA
    if biased > 0:
        m |= HIDDEN
    shift = max(biased, 1) - 1075 - exponent
    if shift >= 64:
        return m << np.uint64(shift - 64), np.uint64(0)
    if shift > 0:
        return m >> np.uint64(64 - shift), m << np.uint64(shift)
    if shift == 0:
        return np.uint64(0), m
    if shift < -54:
        return np.uint64(0), np.uint64(0)
    drop = np.uint64(-shift)
    whole, rest, half = m >> drop, m & ((ONE << drop) - ONE), ONE << (drop - ONE)
    if rest > half or (rest == half and whole & ONE):
        whole += ONE
    return np.uint64(0), whole


@part()
def _add(x: Any, exponent: int, j: int, high: Any, low: Any) -> None:
    """high_j, low_j <- high_j, low_j + the number whose bits are x."""
    if x << ONE == np.uint64(0):  # zeros of either sign
        return
    h, l = _magnitude(x, exponent)
    if x & TOP:
        h, l = ~h, ~l + ONE
        if l == np.uint64(0):
            h += ONE
    low[j] += l
    high[j] += h + (ONE if low[j] < l else np.uint64(0))


@njit(cache=True)
def add_numbers(bits: Any, exponent: int, high: Any, low: Any) -> None:
    """high, low <- high, low + the sum of the rows of numbers whose ``bits`` (as uint64) are given."""
    for n in range(bits.shape[0]):
        for j in range(bits.shape[1]):
            _add(bits[n, j], exponent, j, high, low)


@njit(cache=True)
def add_entries(bits: Any, columns: Any, exponent: int, high: Any, low: Any) -> None:
    """The same for single entries of rows, in these columns."""
    for e in range(bits.size):
        _add(bits[e], exponent, columns[e], high, low)


@njit(cache=True)
def add_integers(high: Any, low: Any, more_high: Any, more_low: Any) -> None:
    """high, low <- high, low + more, modulo 2^128."""
    for j in range(low.size):
        low[j] += more_low[j]
        high[j] += more_high[j] + (ONE if low[j] < more_low[j] else np.uint64(0))


@part()
def _leading_zeros(h: Any) -> int:
    """Of h > 0, in 64 bits."""
    zeros = 0
    for step in (32, 16, 8, 4, 2, 1):
        if h >> np.uint64(64 - step) == np.uint64(0):
            h <<= np.uint64(step)
            zeros += step
    return zeros


@njit(cache=True)
def to_numbers(high: Any, low: Any, exponent: int, out: Any) -> None:
    """out <- the integers times 2^exponent, each with one rounding."""
    units = np.array([math.ldexp(1.0, exponent + shift) for shift in range(65)])
    for j in range(low.size):
        h, l = high[j], low[j]
        negative = h & TOP != np.uint64(0)
        if negative:
            h, l = ~h, ~l + ONE
            if l == np.uint64(0):
                h += ONE
        shift = 0
        if h != np.uint64(0):  # keep the top 64 bits; the last one says whether anything was dropped
            zeros = _leading_zeros(h)
            dropped = l << np.uint64(zeros) != np.uint64(0)
            if zeros:
                h = (h << np.uint64(zeros)) | (l >> np.uint64(64 - zeros))
            l = h | (ONE if dropped else np.uint64(0))
            shift = 64 - zeros
        value = np.float64(l) * units[shift]
        out[j] = -value if negative else value
