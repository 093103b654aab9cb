"""AUC maximisation: the saddle-point form of the pairwise squared loss (k = 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from dsba.errors import InputError
from dsba.operators.base import Array, Operator


@dataclass(frozen=True)
class AUC(Operator):
    """z = [w; a; b; theta]; a positive sample touches (x'w, a, theta), a negative one (x'w, b, theta).

    With c = 2(1-p), sign = +1 for a positive and c = 2p, sign = -1 for a negative sample, and
    u = (x'w, a or b, theta):

        g(u) = ( c (u0 - u1 - sign (1 + u2)),  -c (u0 - u1),  2p(1-p) u2 + sign c u0 ).

    p is the share of positives in ALL data; the problem fills it in.
    """

    p: float = math.nan
    k: ClassVar[int] = 3
    extra: ClassVar[int] = 3
    cocoercive: ClassVar[bool] = False
    labels: ClassVar[str] = "binary"

    def forward(self, u: Any, y: float, out: Any) -> None:
        sign = 1.0 if y > 0.0 else -1.0
        c = 2.0 * (1.0 - self.p) if y > 0.0 else 2.0 * self.p
        out[0] = c * (u[0] - u[1] - sign * (1.0 + u[2]))
        out[1] = -c * (u[0] - u[1])
        out[2] = 2.0 * self.p * (1.0 - self.p) * u[2] + sign * c * u[0]

    def backward(self, b: Any, t: float, s: Any, y: float, out: Any) -> None:
        """Eliminate u1 = (b1 + t1 u0)/(1 + t1) and u2 = (b2 - sign t2 u0)/m2, then solve for u0."""
        sign = 1.0 if y > 0.0 else -1.0
        c = 2.0 * (1.0 - self.p) if y > 0.0 else 2.0 * self.p
        t0, t1, t2 = t * s[0] * c, t * s[1] * c, t * s[2] * c
        m2 = 1.0 + t * s[2] * 2.0 * self.p * (1.0 - self.p)
        u0 = b[0] + t0 * (b[1] / (1.0 + t1) + sign * (1.0 + b[2] / m2))
        u0 /= 1.0 + t0 * (1.0 / (1.0 + t1) + t2 / m2)
        out[0] = u0
        out[1] = (b[1] + t1 * u0) / (1.0 + t1)
        out[2] = (b[2] - sign * t2 * u0) / m2

    def fitted(self, y: Array, weight: Array) -> AUC:
        share = float(weight @ (y > 0) / weight.sum())
        if not 0.0 < share < 1.0:
            raise InputError("AUC needs samples of both classes, got one class only.")
        return replace(self, p=share)

    def blocks(self, X: sp.csr_array, y: Array) -> sp.csr_array:
        """Rows x, e_a or e_b, e_theta for each sample: two entries more than x, in the same order."""
        n, d = X.shape
        indptr = np.empty(3 * n + 1, np.int64)
        ends = X.indptr[1:] + 2 * np.arange(1, n + 1)
        indptr[0], indptr[3::3], indptr[2::3], indptr[1::3] = 0, ends, ends - 1, ends - 2
        body = np.ones(indptr[-1], bool)
        body[indptr[1::3]] = body[indptr[2::3]] = False
        indices = np.empty(indptr[-1], X.indices.dtype if d + 3 < 2**31 else np.int64)
        data = np.ones(indptr[-1])
        indices[body], data[body] = X.indices, X.data
        indices[indptr[1::3]] = np.where(y > 0, d, d + 1)
        indices[indptr[2::3]] = d + 2
        return sp.csr_array((data, indices, indptr), shape=(3 * n, d + 3))

    def jacobians(self, y: Array) -> Array:
        """The matrix of g's linear part for each sample (Q x 3 x 3)."""
        sign = np.where(y > 0, 1.0, -1.0)
        c = np.where(y > 0, 2.0 * (1.0 - self.p), 2.0 * self.p)
        J = np.zeros((y.size, 3, 3))
        J[:, 0, 0], J[:, 0, 1], J[:, 0, 2] = c, -c, -sign * c
        J[:, 1, 0], J[:, 1, 1] = -c, c
        J[:, 2, 0], J[:, 2, 2] = sign * c, 2.0 * self.p * (1.0 - self.p)
        return J

    def planning_slopes(self, y: Array) -> Array:
        positive, negative = np.linalg.norm(self.jacobians(np.array([1.0, -1.0])), ord=2, axis=(1, 2))
        return np.where(y > 0, positive, negative)

    def lipschitz_constants(self, s: Array, y: Array) -> Array:
        root = np.sqrt(s)
        return np.linalg.norm(root[:, :, None] * self.jacobians(y) * root[:, None, :], ord=2, axis=(1, 2))
