"""Softmax (multinomial logistic) loss: one score per class (k = C)."""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from dsba.kernels.resolvents import MAX_NEWTON, near_softmax
from dsba.operators.base import Operator
from dsba.types import Array


@dataclass(frozen=True)
class Softmax(Operator):
    """Multinomial loss: log sum_c exp(u_c) - u_y, y in {0, ..., C-1}; g(u) = p - e_y with p = softmax(u).

    A block has C rows, x in the columns of each class, so all its rows have the same norm. The
    problem fills in the number of classes.

    Parameters
    ----------
    classes : float
        The number of classes; the problem fills it in.

    Examples
    --------
    >>> import dsba
    >>> dsba.operators.Softmax(3).k
    3
    """

    classes: float = math.nan
    labels = "multiclass"
    wrong_side = math.log(2.0)
    link = "softmax"

    @property
    def k(self) -> int:  # type: ignore[override]
        return int(self.classes)

    copies = k

    def fitted(self, y: Array, weight: Array) -> Self:
        return replace(self, classes=float(y.max()) + 1.0)

    def loss(self, u: Any, y: float) -> float:
        largest, total = u[0], 0.0
        for c in range(1, len(u)):
            largest = max(largest, u[c])
        for c in range(len(u)):
            total += math.exp(u[c] - largest)
        return largest + math.log(total) - u[int(y)]

    def forward(self, u: Any, y: float, out: Any) -> None:
        """p_y - 1 as minus the sum of the others: near the solution p_y is 1 but for rounding."""
        largest, total, others = u[0], 0.0, 0.0
        for c in range(1, len(u)):
            largest = max(largest, u[c])
        for c in range(len(u)):
            out[c] = math.exp(u[c] - largest)
            total += out[c]
        for c in range(len(u)):
            out[c] /= total
            if c != int(y):
                others += out[c]
        out[int(y)] = -others

    def jacobian(self, u: Any, y: float, out: Any) -> None:
        """diag(p) - p p'."""
        p = np.empty(len(u))
        self.forward(u, y, p)
        p[int(y)] += 1.0
        for c in range(len(u)):
            for d in range(len(u)):
                out[c, d] = -p[c] * p[d]
            out[c, c] += p[c]

    def backward(self, b: Any, t: float, s: Any, y: float, out: Any) -> None:
        """Newton's iteration on u + t (p - e_y) = b in R^k (t times s from here on), from a start that is off by 0.01.

        J = I + t (diag(p) - p p') is inverted in O(k): with D = 1 + t p and F the excess,
        J^-1 F = F/D + (t p/D) (sum p F/D) / (sum p/D).
        """
        t = t * s[0]
        label = int(y)
        if t == 0.0:
            for c in range(len(b)):
                out[c] = b[c]
            return
        near_softmax(b, t, label, out)
        p = np.empty(len(b))
        last = math.inf
        for _ in range(MAX_NEWTON):
            self.forward(out, y, p)
            along, weight = 0.0, 0.0
            for c in range(len(b)):
                share = p[c] + (1.0 if c == label else 0.0)
                along += share * (out[c] - b[c] + t * p[c]) / (1.0 + t * share)
                weight += share / (1.0 + t * share)
            step, size = 0.0, 0.0
            for c in range(len(b)):
                share = p[c] + (1.0 if c == label else 0.0)
                change = (out[c] - b[c] + t * p[c] + t * share * along / weight) / (1.0 + t * share)
                out[c] -= change
                step, size = max(step, abs(change)), max(size, abs(out[c]))
            # The next step would be a square of this one. One that no longer shrinks is rounding.
            if step * step <= 1e-17 * size or step >= last:
                break
            last = step

    def blocks(self, X: sp.csr_array, y: Array) -> sp.csr_array:
        """Row c of a block: x in the columns j C + c, so that the classes' weights of a feature are neighbours."""
        C, rows = self.k, X.shape[0]
        counts = np.repeat(np.diff(X.indptr), C)
        indptr = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        where = np.arange(indptr[-1]) - np.repeat(indptr[:-1] - np.repeat(X.indptr[:-1], C), counts)
        kind = X.indices.dtype if X.shape[1] * C < 2**31 else np.int64
        indices = X.indices[where].astype(kind) * C + np.repeat(np.tile(np.arange(C, dtype=kind), rows), counts)
        return sp.csr_array((X.data[where], indices, indptr), shape=(rows * C, X.shape[1] * C))

    def planning_slopes(self, y: Array) -> Array:
        return np.full(y.shape, 0.5)  # the largest eigenvalue of diag(p) - p p'

    def lipschitz_constants(self, s: Array, y: Array) -> Array:
        return 0.5 * s.max(axis=1)

    def curvature(self, U: Array, V: Array, y: Array) -> Array:
        """The Jacobians of g at U times V: p (v - p'v), sample by sample."""
        p = np.exp(U - U.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        return p * (V - np.sum(p * V, axis=1, keepdims=True))
