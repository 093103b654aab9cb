"""Huber's loss with its scale estimated along with the weights: what scikit-learn's HuberRegressor minimises."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dsba.errors import InputError
from dsba.kernels.resolvents import MAX_NEWTON
from dsba.operators.base import Operator, with_unit_rows
from dsba.types import Array


@dataclass(frozen=True)
class ScaledHuber(Operator):
    """Huber's loss with its scale: sigma + sigma H(r), r = (u - y)/sigma.

    z = [w; sigma], and a sample touches (x'w, sigma). Jointly convex; with a = 2 clip(r) the gradient
    is (a, 1 - a^2/4). Below sigma = 0 the loss is continued by 2 epsilon |u - y| + (1 - epsilon^2) sigma.
    The gradient has no Lipschitz constant near sigma = 0: step sizes are planned for sigma = 1, so
    give labels in units in which the residuals are of that size, and start at sigma = 1.

    Parameters
    ----------
    epsilon : float
        Where H(r) = r^2 ends; it is 2 epsilon abs(r) - epsilon^2 beyond.

    Examples
    --------
    >>> import dsba
    >>> dsba.operators.ScaledHuber().k
    2
    """

    epsilon: float = 1.35
    k = 2
    extra = 1
    longest_step = 0.1  # of sigma = 1: longer ones throw samples to the kink at sigma <= 0

    def __post_init__(self) -> None:
        if not self.epsilon >= 1.0:
            raise InputError(f"ScaledHuber needs epsilon >= 1, got {self.epsilon!r}.")

    def loss(self, u: Any, y: float) -> float:
        r, sigma = abs(u[0] - y), u[1]
        if sigma > 0.0 and r <= self.epsilon * sigma:
            return sigma + r * r / sigma
        return 2.0 * self.epsilon * r + (1.0 - self.epsilon**2) * sigma

    def forward(self, u: Any, y: float, out: Any) -> None:
        r, sigma = u[0] - y, u[1]
        if sigma > 0.0 and abs(r) <= self.epsilon * sigma:
            a = 2.0 * r / sigma
        else:
            a = 2.0 * self.epsilon if r > 0.0 else -2.0 * self.epsilon
        out[0] = a
        out[1] = 1.0 - 0.25 * a * a

    def jacobian(self, u: Any, y: float, out: Any) -> None:
        """2/sigma (1, -r)' (1, -r) where |r| <= epsilon, 0 beyond."""
        sigma = u[1] if u[1] > 0.0 else 1.0
        r = (u[0] - y) / sigma
        scale = 2.0 / sigma if u[1] > 0.0 and abs(r) <= self.epsilon else 0.0
        out[0, 0], out[0, 1] = scale, -scale * r
        out[1, 0], out[1, 1] = -scale * r, scale * r * r

    def backward(self, b: Any, t: float, s: Any, y: float, out: Any) -> None:
        """With sigma(a) = b1 - t1 (1 - a^2/4), a solves t0 a + sigma(a) a/2 = b0 - y: a cubic.

        Mirrored so that b0 >= y. Where sigma > 0 the left side increases with a and is convex, so
        Newton from the right end a = 2 epsilon never overshoots. If it starts below b0 - y, the
        sample is an outlier and a stays there; if sigma would be 0 first, u is at the kink (y, sigma <= 0).
        """
        t0, t1 = t * s[0], t * s[1]
        sign = 1.0 if b[0] >= y else -1.0
        far = abs(b[0] - y)
        a = 2.0 * self.epsilon
        sigma = b[1] - t1 * (1.0 - 0.25 * a * a)
        excess = t0 * a + 0.5 * max(sigma, 0.0) * a - far
        if excess <= 0.0:
            out[0], out[1] = b[0] - sign * t0 * a, sigma
            return
        for _ in range(MAX_NEWTON):
            step = excess / (t0 + 0.5 * sigma + 0.25 * t1 * a * a) if sigma > 0.0 else 0.0
            a -= step
            sigma = b[1] - t1 * (1.0 - 0.25 * a * a)
            excess = t0 * a + 0.5 * sigma * a - far
            if not (sigma > 0.0 and step > 1e-16 * a):
                break
        if sigma > 0.0:
            out[0], out[1] = b[0] - sign * t0 * a, sigma
        else:
            out[0], out[1] = y, min(0.0, b[1] - t1 * (1.0 - self.epsilon**2))

    def blocks(self, X: sp.csr_array, y: Array) -> sp.csr_array:
        """Rows x and e_sigma for each sample."""
        return with_unit_rows(X, np.full((X.shape[0], 1), X.shape[1]), 1)

    def planning_slopes(self, y: Array) -> Array:
        return np.full(y.shape, 2.0 * (1.0 + self.epsilon**2))

    def planning_constants(self, s: Array, y: Array) -> Array:
        return 2.0 * (s[:, 0] + self.epsilon**2 * s[:, 1])

    def lipschitz_constants(self, s: Array, y: Array) -> Array:
        return np.full(y.shape, np.inf)

    def curvature(self, U: Array, V: Array, y: Array) -> Array:
        """2/sigma (1, -r)' (1, -r) where |r| <= epsilon, 0 beyond."""
        sigma = np.where(U[:, 1] > 0.0, U[:, 1], 1.0)
        r = (U[:, 0] - y) / sigma
        inside = (U[:, 1] > 0.0) & (np.abs(r) <= self.epsilon)
        along = np.where(inside, 2.0 / sigma * (V[:, 0] - r * V[:, 1]), 0.0)
        return np.stack([along, -r * along], axis=1)
