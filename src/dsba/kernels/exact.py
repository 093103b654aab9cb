"""Floating-point numbers as integers of 128 bits: the arithmetic of exact sums.

A number x is held as the integer nearest to x / 2^exponent, in two's complement, as a high and a low half of 64
bits. Integers add without rounding, so a sum has the same bits in whatever order it is made.
"""

import math
from typing import Any

import numpy as np
from numba import types

from dsba.kernels.cache import njit, part
from dsba.kernels.internals import ir
from dsba.kernels.simd import Emit, instructions

ZERO, ONE = np.uint64(0), np.uint64(1)
LOW = 2.0**64  # what one of the high half is worth


@part()
def _negated_if(minus: Any, h: Any, l: Any) -> Any:
    """-(h, l) if ``minus`` is 1, (h, l) if it is 0: without a branch, which would be guessed wrong half of the time."""
    l = (l ^ (ZERO - minus)) + minus
    return (h ^ (ZERO - minus)) + (minus & np.uint64(l == ZERO)), l


@part()
def _add(x: float, unit: float, j: int, high: Any, low: Any) -> None:
    """high_j, low_j <- high_j, low_j + the integer nearest to x / 2^exponent, ties to even; unit = 2^-(exponent + 64).

    Nothing is rounded before ``rint``: a power of two changes no digit of x, nor does taking the whole part away.
    What underflows is less than half an integer anyway.
    """
    size = abs(x) * unit
    whole = np.floor(size)
    h, l = np.uint64(whole), np.uint64(np.rint((size - whole) * LOW))
    h, l = _negated_if(np.uint64(x < 0.0), h, l)
    low[j] += l
    high[j] += h + np.uint64(low[j] < l)


@njit(cache=True)
def add_numbers(rows: Any, exponent: int, high: Any, low: Any) -> None:
    """high, low <- high, low + the sum of the rows."""
    unit = math.ldexp(1.0, -(exponent + 64))
    for n in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            _add(rows[n, j], unit, j, high, low)


@njit(cache=True)
def add_entries(values: Any, columns: Any, exponent: int, high: Any, low: Any) -> None:
    """The same for single entries of rows, in these columns."""
    unit = math.ldexp(1.0, -(exponent + 64))
    for e in range(values.size):
        _add(values[e], unit, np.uint64(columns[e]), high, low)


@njit(cache=True)
def add_integers(high: Any, low: Any, more_high: Any, more_low: Any) -> None:
    """high, low <- high, low + more, modulo 2^128."""
    for j in range(low.size):
        low[j] += more_low[j]
        high[j] += more_high[j] + (ONE if low[j] < more_low[j] else np.uint64(0))


@instructions(types.uint64)
def _leading_zeros(emit: Emit, h: Any) -> Any:
    """Of 64 bits, one instruction where the machine has it."""
    return emit.builder.ctlz(h.value, ir.IntType(1)(0))


@njit(allocates=True, cache=True)
def to_numbers(high: Any, low: Any, exponent: int, out: Any) -> None:
    """out <- the integers times 2^exponent, each with one rounding."""
    units = np.array([math.ldexp(1.0, exponent + shift) for shift in range(65)])
    for j in range(low.size):
        minus = high[j] >> np.uint64(63)
        h, l = _negated_if(minus, high[j], low[j])
        shift = np.int64(0)
        if h != np.uint64(0):  # keep the top 64 bits; the last one says whether anything was dropped
            zeros = _leading_zeros(h)
            dropped = l << zeros != np.uint64(0)
            if zeros:
                h = (h << zeros) | (l >> (np.uint64(64) - zeros))
            l = h | (ONE if dropped else np.uint64(0))
            shift = np.int64(64) - np.int64(zeros)
        out[j] = np.float64(l) * units[shift] * (1.0 - 2.0 * minus)
