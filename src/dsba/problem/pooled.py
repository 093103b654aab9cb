"""The pooled problem: operator, objective, residual and prox over the samples of all nodes of all processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dsba.errors import InputError
from dsba.kernels import samples as kernel
from dsba.network.exact_sum import SparseRows, norm
from dsba.types import Array

if TYPE_CHECKING:
    from dsba.problem.problem import Problem

NARROW = 64  # columns up to which nodes' sums are dense rows, by kernels that Newton's method has compiled anyway
LEAST_RESIDUAL = 1e-14  # of the mean norm of the components: a residual at 0 below this is rounding


@dataclass(slots=True)
class Pooled:
    """The problem as one operator on one z."""

    problem: Problem

    def operator(self, z: Array, images: Array | None = None) -> Array:
        """(1/Q) sum_i B_i(z) + Lambda z: zero exactly at the solution of a problem without a penalty.

        One sweep over the data. If there are ``images`` (Q x k), they become A_i z.
        """
        p = self.problem
        images = np.empty((p.y.size, p.k)) if images is None else images
        total = p.group.sum((self._dense_rows if p.dim <= NARROW else self._sparse_rows)(z, images)) / p.n_samples
        total[: p.n_regular] += p.lam * z[: p.n_regular]
        return total

    def _dense_rows(self, z: Array, images: Array) -> Array:
        """Row n: the sum of B_i(z) over the node's samples."""
        local = self.problem.local
        images[:] = local.images_of(z)
        return local.spread_rows(local.weighted(images))

    def _sparse_rows(self, z: Array, images: Array) -> SparseRows:
        """The same, bit by bit, in the columns that the node's samples touch."""
        p = self.problem
        columns, _ = p.touched_columns
        entries, samples = np.empty(columns.size), p.samples._replace(weight=p.sample_weight)
        z = np.ascontiguousarray(z, np.float64)
        p.local.sweep(kernel.sum_entries, p.component, samples, z, p.touched_columns, images, entries)
        return SparseRows(entries, columns, (len(p.nodes), p.dim))

    def residual(self, z: Array, images: Array | None = None) -> Array:
        """Zero exactly at the solution: F(z) = ``operator(z)``, with a penalty (z - prox_t(z - t F(z)))/t, t fixed.

        ``images`` are as in ``operator``.
        """
        F = self.operator(z, images)
        if self.problem.penalty is None:
            return F
        t = self.forward_step
        return (z - self.prox(z - t * F, t)) / t

    def objective(self, z: Array, images: Array | None = None) -> float:
        """(1/Q) sum loss + lam/2 ||z||^2 over the regularised coordinates, and the penalty where there is one."""
        p = self.problem
        if not p.has_objective:
            raise InputError(f"{type(p.component).__name__} is not the gradient of an objective.")
        losses = p.local.losses(p.local.images_of(z) if images is None else images)
        return self.objective_of(z, float(p.total(losses)))

    def objective_of(self, z: Array, losses: float) -> float:
        """The objective at z, given the sum of all samples' losses."""
        p = self.problem
        regular = z[: p.n_regular]
        smooth = losses / p.n_samples + 0.5 * p.lam * float(regular @ regular)
        return smooth if p.penalty is None else smooth + p.penalty.value(z[self.penalised])

    def scores(self, z: Array) -> Array:
        """x'w for every sample."""
        return self.problem.local.images_of(z)[:, 0]

    @property
    def forward_step(self) -> float:
        """A step at which gradient descent on the pooled problem is stable, wherever a loss has a bounded slope."""
        return 1.0 / (self.problem.constants.L_plan + self.problem.lam)

    @property
    def penalised(self) -> slice:
        """The coordinates that a penalty concerns."""
        return slice(0, self.problem.component.copies * self.problem.n_features)

    def prox(self, V: Array, t: Any) -> Array:
        """The penalty's proximal map of step t (a number, or one for each coordinate) on every row of V."""
        if self.problem.penalty is None:
            return V
        own, out = self.penalised, V.copy()
        out[..., own] = self.problem.penalty.prox(V[..., own], t if np.isscalar(t) else t[own])
        return out

    def prox_slope(self, V: Array, t: Any) -> Array:
        """The derivative of ``prox`` by V, coordinate by coordinate."""
        out = np.ones_like(V)
        if self.problem.penalty is not None:
            own = self.penalised
            out[..., own] = self.problem.penalty.slope(V[..., own], t if np.isscalar(t) else t[own])
        return out


def residual_unit(problem: Problem) -> float:
    """What ``tol`` is relative to, whatever the start: the norm of the residual at 0.

    Where 0 is the solution, it is the mean norm of the components at 0; where these are all 0, it is 1.
    """
    at_zero = norm(problem.pooled.residual(np.zeros(problem.dim)))
    G = problem.local.weighted(np.zeros((problem.y.size, problem.k)))
    norms = np.sqrt((G**2 * problem.squared_norms()).sum(axis=1))  # the rows of an A_i have no column in common
    components = float(problem.total(problem.sums(norms))) / problem.n_samples
    solved = at_zero <= LEAST_RESIDUAL * components < np.inf
    return (components if solved else at_zero) or 1.0
