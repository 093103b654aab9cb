"""Stacked rows: one row of Z for each node held here, and sums over the samples of each node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dsba._system.threads import run_pieces
from dsba.kernels import samples as kernel
from dsba.kernels.hessians import add_diagonals, add_hessians
from dsba.types import Array

if TYPE_CHECKING:
    from dsba.problem.problem import Problem

LEAST_PLANNED_SLOPE = 1e-10  # relative to the slopes that steps are planned with


@dataclass(slots=True)
class LocalSums:
    """What each node makes of its own samples, with a z of its own or one for all nodes."""

    problem: Problem

    def add_operator(self, Z: Array, factor: float, out: Array) -> None:
        """out <- out + factor times the local operators at Z, without Lambda."""
        self.sweep(kernel.add_operator_rows, self.problem.component, self.problem.samples, factor, Z, out)

    def table(self, Z: Array) -> Array:
        """g(A_i z_n) for every sample i of every node n (Q x k)."""
        return self.problem.component.forward_rows(self.images(Z), self.problem.y)

    def images(self, Z: Array) -> Array:
        """A_i z_n for every sample i of every node n (Q x k)."""
        return self._of_samples(kernel.image_rows, Z)

    def images_of(self, z: Array) -> Array:
        """A_i z for every sample (Q x k)."""
        return self._of_samples(kernel.image_all, np.ascontiguousarray(z, np.float64))

    def average(self, table: Array) -> Array:
        """Row n: c_n (1/q_n) sum_i A_i' table_i."""
        p = self.problem
        return self.spread_rows((p.weight / np.repeat(p.sizes, p.sizes))[:, None] * table)

    def derivatives(self, z: Array, hessian: bool = True, chords: bool = False) -> Array:
        """Row n, for an exact sum over the nodes: loss, sum of B_i and its Jacobian over the node's samples, at z.

        The Jacobian is the upper triangle of a symmetric matrix, row by row; without ``hessian``, its diagonal alone.
        ``chords`` puts slopes that lead towards the labels where a loss is straight (see ``_jacobians``).
        A saddle has one column more (``Saddle``: the matrix with T in the corner, then c). No objective: a loss of 0.
        """
        p = self.problem
        U = self.images_of(z)
        losses = self.losses(U) if p.has_objective else np.zeros(len(p.nodes))
        parts = [losses[:, None], self.spread_rows(self.weighted(U))]
        if p.component.has_saddle:
            return np.hstack([*parts, *self._saddles()])
        jacobians = self._jacobians(U, chords)
        if hessian:
            return np.hstack([*parts, self._triangles(jacobians)])
        diagonals = np.zeros((len(p.nodes), p.dim))
        weights = np.ascontiguousarray(np.diagonal(jacobians, axis1=1, axis2=2))
        self.sweep(add_diagonals, p.csr, p.start, weights, diagonals)
        return np.hstack([*parts, diagonals])

    def _triangles(self, jacobians: Array) -> Array:
        """Row n: the upper triangle of the sum of A_i' J_i A_i over the node's samples."""
        p = self.problem
        out = np.zeros((len(p.nodes), p.dim * (p.dim + 1) // 2))
        self.sweep(add_hessians, p.csr, p.start, jacobians, p.dim, out)
        return out

    def hessians(self, Z: Array) -> Array:
        """The Jacobians of the local operators, Lambda included, each at its row of Z (N x p x p)."""
        p = self.problem
        triangles = self._triangles(self._jacobians(self.images(Z), chords=False))
        out = np.zeros((len(p.nodes), p.dim, p.dim))
        rows, columns = np.triu_indices(p.dim)
        out[:, rows, columns] = out[:, columns, rows] = p.n_nodes / p.n_samples * triangles
        return out + np.diag(p.lam_diag)

    def products(self, z: Array) -> Callable[[Array], Array]:
        """A function of v. Row n: the sum over the node's samples of the Jacobians of B_i at z, times v."""
        jacobians = self._jacobians(self.images_of(z), chords=False)
        return lambda v: self.spread_rows(np.einsum("icd,id->ic", jacobians, self.images_of(v)))

    def _jacobians(self, U: Array, chords: bool) -> Array:
        """The Jacobian of g for every sample, weighted (Q x k x k).

        Where a loss of one score is straight (Huber's far ends), a trace of its slope is put in, so that
        a Hessian is singular only where the data is; a likelihood's slopes may be tiny, but it is straight nowhere.
        With ``chords`` it is g/(u - y), whose step never goes too far.
        """
        p = self.problem
        columns = [p.component.curvature(U, np.tile(unit, (p.y.size, 1)), p.y) for unit in np.eye(p.k)]
        blocks = np.stack(columns, axis=2)
        if p.k == 1 and not p.component.family:
            slopes = LEAST_PLANNED_SLOPE * p.component.planning_slopes(p.y)
            if chords and p.component.labels == "real":
                G = p.component.forward_rows(U, p.y)
                slopes = np.maximum(slopes, np.abs(G[:, 0] / np.where(U[:, 0] == p.y, 1.0, U[:, 0] - p.y)))
            blocks = np.where(blocks == 0.0, slopes[:, None, None], blocks)
        return p.sample_weight[:, None, None] * blocks

    def _saddles(self) -> tuple[Array, Array]:
        """Row n: the matrix of the node's ``Saddle``, as a triangle with T in the corner, and its c."""
        p = self.problem
        matrices, couplings = np.zeros((len(p.nodes), p.dim * (p.dim + 1) // 2)), []
        for n, (first, last) in enumerate(zip(p.start[:-1], p.start[1:], strict=True)):
            rows = p.A[first * p.k : last * p.k]
            B, weights, c, T = p.component.saddle(rows, p.y[first:last], p.sample_weight[first:last])
            csr = (B.indptr.astype(np.int64), B.indices, B.data)
            ends = np.array([0, last - first])
            add_hessians(0, 1, csr, ends, weights[:, None, None], p.dim, matrices[n : n + 1])
            matrices[n, -1] += T
            couplings.append(c)
        return matrices, np.stack(couplings)

    def losses(self, U: Array) -> Array:
        """For each node held here, the sum of its samples' losses, given their images."""
        p = self.problem
        own = np.empty(p.y.size)
        kernel.loss_all(p.component, U, p.y, p.sample_weight, own)
        return p.sums(own)

    def weighted(self, U: Array) -> Array:
        """The weighted g of every sample, given its image."""
        return self.problem.sample_weight[:, None] * self.problem.component.forward_rows(U, self.problem.y)

    def spread_rows(self, table: Array) -> Array:
        """Row n: the sum of A_i' table_i over the node's samples."""
        p = self.problem
        out = np.zeros((len(p.nodes), p.dim))
        self.sweep(kernel.add_block_rows, p.csr, p.start, table, out)
        return out

    def _of_samples(self, sweep: Any, z: Array) -> Array:
        p, out = self.problem, np.empty((self.problem.y.size, self.problem.k))
        run_pieces(sweep, p.node_cuts, p.csr, p.start, z, out)
        return out

    def sweep(self, sweep: Any, *args: Any) -> None:
        """A kernel over all nodes, in pieces for the cores."""
        run_pieces(sweep, self.problem.node_cuts, *args)
