"""Conjugate gradients, for the reference and the inner solver."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

MAX_CG = 5000


def conjugate_gradients(product: Callable[[Array], Array], inverse: Array, r: Array, accuracy: float) -> Array:
    """x with product(x) = r to a relative residual of ``accuracy``, preconditioned by the diagonal ``inverse``.

    ``product`` is a positive definite matrix. Cut short at MAX_CG, x is still a direction of descent.
    """
    enough = accuracy**2 * dot(r, r)
    x, r, direction = np.zeros_like(r), r.copy(), inverse * r
    energy = dot(r, direction)
    for _ in range(MAX_CG):
        if not dot(r, r) > enough:
            break
        image = product(direction)
        length = energy / dot(direction, image)
        x += length * direction
        r -= length * image
        conditioned = inverse * r
        previous, energy = energy, dot(r, conditioned)
        direction = conditioned + (energy / previous) * direction
    return x


def dot(x: Array, y: Array) -> float:
    """x'y in one thread: a threaded BLAS waits for its threads longer than it computes."""
    return float(np.einsum("i,i->", x, y))
