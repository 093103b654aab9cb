"""Elimination and coordinate descent of single operations of IEEE arithmetic: the same bits on every processor.

LAPACK's bits depend on the processor and on the number of threads. Where every site solves a system by itself and
all must come to the same step, this is how.
"""

import math
from typing import Any

from dsba.kernels.cache import njit


@njit(cache=True)
def eliminate(A: Any, least: float) -> float:
    """[H | R] becomes [. | H^-1 R] for a symmetric H; pivots below ``least`` are replaced by it.

    Returns the smallest pivot that was found.
    """
    p, width = A.shape
    smallest = math.inf
    for k in range(p):
        pivot = A[k, k]
        smallest = min(smallest, pivot)
        if not pivot >= least:
            pivot = least
        for j in range(k + 1, width):
            A[k, j] /= pivot
        for i in range(p):
            factor = A[i, k]
            if i != k and factor != 0.0:
                for j in range(k + 1, width):
                    A[i, j] -= factor * A[k, j]
    return smallest


@njit(cache=True)
def descend(H: Any, left: Any, l1: Any, z: Any, sweeps: int) -> float:
    """Coordinate descent on z'Hz/2 - pull'z + sum l1 |z|, where ``left`` is pull - Hz; z and left are changed.

    Returns the largest move of the last sweep.
    """
    move = 0.0
    for _ in range(sweeps):
        move = 0.0
        for j in range(len(z)):
            if H[j, j] <= 0.0:
                continue
            aim = left[j] + H[j, j] * z[j]
            new = math.copysign(max(abs(aim) - l1[j], 0.0), aim) / H[j, j]
            change = new - z[j]
            if change != 0.0:
                for i in range(len(z)):
                    left[i] -= change * H[i, j]
                z[j] = new
            move = max(move, abs(change))
    return move
