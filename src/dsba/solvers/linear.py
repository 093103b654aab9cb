"""What the reference and the inner solver share: conjugate gradients, a line search."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

MAX_CG = 5000
MAX_TRIALS = 80
ROUNDING = 1e-15


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


def line_search(terms: Callable[[float], Array], constant: float, linear: float) -> float:
    """A length t near the minimum along d, by the sign of m(t) = d'F(z + t d) alone.

    m(t) = sum of terms(t) + constant + linear t, where ``terms`` are the samples' v g(u + t v), u = A z
    and v = A d: a trial does not touch A. A monotone scalar g is the slope of a convex loss whether or
    not the operator gives it, so m increases from m(0) < 0 and is enough to bracket the minimum;
    unlike the loss it does not drown in rounding near the solution.
    """

    def m(t: float) -> tuple[float, float]:
        """m(t), and how much of it may be rounding."""
        parts = terms(t)
        return float(parts.sum()) + constant + linear * t, ROUNDING * float(np.abs(parts).sum())

    t, low, high = 1.0, 0.0, math.inf
    with np.errstate(over="ignore", invalid="ignore"):  # a trial too far may overflow: it is shortened
        first = abs(m(0.0)[0])
        for _ in range(MAX_TRIALS):
            slope, noise = m(t)
            if slope < -0.25 * first - noise:
                low = t
            elif slope <= 0.1 * first + noise < math.inf:
                return t
            else:
                high = t
            t = 4.0 * t if high == math.inf else 0.5 * (low + high)
    return low


def dot(x: Array, y: Array) -> float:
    """x'y in one thread: a threaded BLAS waits for its threads longer than it computes."""
    return float(np.einsum("i,i->", x, y))
