"""Whole numbers as varints, and indices as gaps: the coding of ``network/messages/wire.py``."""

from typing import Any

import numpy as np

from dsba.kernels.cache import njit, part

TRUNCATED, OVERLONG = -1, -2  # why bytes are no varints


@part()
def varint_size(value: int) -> int:
    size = 1
    while value >= 128:
        value >>= 7
        size += 1
    return size


@njit(allocates=True, cache=True)
def varint_sizes(values: Any) -> Any:
    out = np.empty(values.size, np.int64)
    for i in range(values.size):
        out[i] = varint_size(values[i])
    return out


@njit(allocates=True, cache=True)
def put_varints(values: Any) -> Any:
    """The bytes of values >= 0."""
    out, at = np.empty(9 * values.size, np.uint8), 0
    for value in values:
        while value >= 128:
            out[at] = (value & 127) | 128
            value >>= 7
            at += 1
        out[at] = value
        at += 1
    return out[:at]


@njit(cache=True)
def take_varints(buffer: Any, at: int, out: Any) -> int:
    """Fill ``out`` with the numbers that start at ``at``; the place after them, or a negative reason."""
    for i in range(out.size):
        value, shift, byte = np.int64(0), 0, np.int64(128)
        while byte >= 128:
            if at >= buffer.size:
                return TRUNCATED
            if shift == 63:  # nine bytes hold 63 bits, more than any bound
                return OVERLONG
            byte = np.int64(buffer[at])
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
        if byte == 0 and shift > 7:  # one number, one code
            return OVERLONG
        out[i] = value
    return at


@njit(cache=True)
def indices_from_gaps(lengths: Any, gaps: Any, dim: int) -> bool:
    """Turn the gaps of all rows into indices, in place; False if one is not below ``dim``."""
    end = 0
    for length in lengths:
        lowest = 0  # that the next index may be
        for e in range(end, end + length):
            if gaps[e] >= dim - lowest:
                return False
            gaps[e] += lowest
            lowest = gaps[e] + 1
        end += length
    return True


@njit(allocates=True, cache=True)
def block_index_bytes(indptr: Any, indices: Any, k: int) -> Any:
    """The bytes of lengths and indices of all samples' blocks."""
    out = np.zeros((indptr.size - 1) // k, np.int64)
    for row in range(indptr.size - 1):
        size, lowest = varint_size(indptr[row + 1] - indptr[row]), 0
        for e in range(indptr[row], indptr[row + 1]):
            size += varint_size(indices[e] - lowest)
            lowest = indices[e] + 1
        out[row // k] += size
    return out
