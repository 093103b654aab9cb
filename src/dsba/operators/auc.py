"""AUC maximisation: the saddle-point form of the pairwise squared loss, with centred components or the paper's own."""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from dsba.errors import InputError
from dsba.kernels.resolvents import resolve_paper_auc, solve_auc
from dsba.operators.base import Operator, Saddle, with_unit_rows
from dsba.types import Array

ROUNDS = 3  # of the resolvent's linear solve: one leaves 1e-6 of it at steps of 1e8, two 1e-10, three 1e-14


@dataclass(frozen=True)
class AUC(Operator):
    """Saddle-point form of the area under the ROC curve: z = [w; a; b; theta], u = (x'w, a, b, theta).

    With p the share of positives in ALL data (the problem fills it in), m = 2p(1-p), h = 1 + theta,
    and for a positive sample c = 2(1-p), e = x'w - a, sign = 1, for a negative one c = 2p,
    e = x'w - b, sign = -1, the components are the derivatives (theta's with a minus) of

        c e^2 / 2  -  sign c h e  +  m h (b - a)  -  m theta^2 / 2.

    The paper has x'w in place of e in the second term and no third one: ``centered=False``, with u = (x'w, own,
    theta), own being a or b (k = 3). Over all samples the two are the same, but the paper's components change with a
    common shift of all scores, a and b, which the mean does not, and that noise brakes every stochastic method
    along it (docs/architecture.md). A node's samples do not sum to the same either: the local operators of all
    methods, EXTRA's too, differ between the two forms.

    Parameters
    ----------
    p : float
        The share of positives in all data; the problem fills it in.
    centered : bool
        Whether components do not change with a common shift of all scores; False gives those of the paper.

    Examples
    --------
    >>> import dsba
    >>> dsba.operators.AUC().k, dsba.operators.AUC(centered=False).k
    (4, 3)
    """

    p: float = math.nan
    centered: bool = True
    extra = 3
    cocoercive = False
    labels = "binary"
    decision = "rank"

    @property
    def k(self) -> int:  # type: ignore[override]
        return 4 if self.centered else 3

    def forward(self, u: Any, y: float, out: Any) -> None:
        if not self.centered:
            sign = 1.0 if y > 0.0 else -1.0
            c = 1.0 + sign - sign * 2.0 * self.p
            out[0] = c * (u[0] - u[1] - sign * (1.0 + u[2]))
            out[1] = c * (u[1] - u[0])
            out[2] = 2.0 * self.p * (1.0 - self.p) * u[2] + sign * c * u[0]
            return
        sign, own, other = (1.0, 1, 2) if y > 0.0 else (-1.0, 2, 1)
        c, m = 1.0 + sign - sign * 2.0 * self.p, 2.0 * self.p * (1.0 - self.p)
        e, h = u[0] - u[own], sign * (1.0 + u[3])
        out[0] = c * (e - h)
        out[own] = -c * (e - h) - m * h
        out[other] = m * h
        out[3] = m * u[3] + sign * (c * e - m * (u[other] - u[own]))

    def jacobian(self, u: Any, y: float, out: Any) -> None:
        """g is affine, so its values at the unit vectors less the one at 0."""
        k = len(out)
        zero, unit, column = np.empty(k), np.zeros(k), np.empty(k)
        self.forward(unit, y, zero)
        for d in range(k):
            unit[d] = 1.0
            self.forward(unit, y, column)
            unit[d] = 0.0
            for c in range(k):
                out[c, d] = column[c] - zero[c]

    def backward(self, b: Any, t: float, s: Any, y: float, out: Any) -> None:
        """One linear system, solved again for what rounding left of it."""
        if not self.centered:
            resolve_paper_auc(self.p, ROUNDS, b, t, s, y, out)
            return
        sign, own, other = (1.0, 1, 2) if y > 0.0 else (-1.0, 2, 1)
        c, m = 1.0 + sign - sign * 2.0 * self.p, 2.0 * self.p * (1.0 - self.p)
        steps = (t * s[0], t * s[own], t * s[other], t * s[3])
        x0, x1, x2, x3 = b[0], b[own], b[other], sign * b[3]
        u0, u1, u2, u3 = 0.0, 0.0, 0.0, 0.0
        for _ in range(ROUNDS):
            f, h = c * (u0 - u1 - u3 - sign), m * (u3 + sign)
            v0, v1, v2, v3 = solve_auc(
                c, m, steps,
                x0 - u0 - steps[0] * f,
                x1 - u1 + steps[1] * (f + h),
                x2 - u2 - steps[2] * h,
                x3 - u3 - steps[3] * (m * u3 + c * (u0 - u1) - m * (u2 - u1)),
            )  # fmt: skip
            u0, u1, u2, u3 = u0 + v0, u1 + v1, u2 + v2, u3 + v3
        out[0], out[own], out[other], out[3] = u0, u1, u2, sign * u3

    def fitted(self, y: Array, weight: Array) -> Self:
        share = float(weight @ (y > 0) / weight.sum())
        if not 0.0 < share < 1.0:
            raise InputError("AUC needs samples of both classes, got one class only.")
        return replace(self, p=share)

    def blocks(self, X: sp.csr_array, y: Array) -> sp.csr_array:
        """Rows x, e_a, e_b, e_theta for each sample, or x, e_a or e_b, e_theta: k - 1 entries more than x."""
        n, d = X.shape
        columns = np.broadcast_to(d + np.arange(3), (n, 3))
        if not self.centered:
            columns = np.stack([np.where(y > 0, d, d + 1), np.full(n, d + 2)], axis=1)
        return with_unit_rows(X, columns, 3)

    def jacobians(self, y: Array) -> Array:
        """The matrix of g's linear part for each sample (Q x k x k)."""
        J = np.empty((2, self.k, self.k))
        for of_class, label in zip(J, (1.0, -1.0), strict=True):
            self.jacobian(np.zeros(self.k), label, of_class)
        return np.where((y > 0)[:, None, None], J[0], J[1])

    def saddle(self, A: sp.csr_array, y: Array, scale: Array) -> Saddle:
        """B has the rows x - e_a or x - e_b, c couples a, b and the scores with theta, which is the last."""
        J = scale[:, None, None] * self.jacobians(y)
        own = np.where(y > 0, 1, 2) if self.centered else 1
        first = self.k * np.arange(y.size)
        coupling = J[:, :, -1].copy()
        coupling[:, -1] = 0.0
        B = sp.csr_array(A[first] - A[first + own])
        return Saddle(B, J[:, 0, 0], A.T @ coupling.ravel(), float(J[:, -1, -1].sum()))

    def planning_slopes(self, y: Array) -> Array:
        positive, negative = np.linalg.norm(self.jacobians(np.array([1.0, -1.0])), ord=2, axis=(1, 2))
        return np.where(y > 0, positive, negative)

    def lipschitz_constants(self, s: Array, y: Array) -> Array:
        root = np.sqrt(s)
        return np.linalg.norm(root[:, :, None] * self.jacobians(y) * root[:, None, :], ord=2, axis=(1, 2))
