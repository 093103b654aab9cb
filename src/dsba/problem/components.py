"""What an iteration takes of each node: one component, a single sample or a batch of samples (docs/rounds.md).

A node's q samples are cut into q' = ceil(q / b) batches whose sizes differ by at most one. The component of batch S is

    B_S = (q'/q) sum_{i in S} B_i,

so that the mean over the q' batches is the mean over the q samples, whatever the sizes. In the words of docs/rounds.md
this is c_S times the mean of the batch, c_S = b_S q'/q. All of DSBA and DSA holds with q' components in place of q.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dsba.errors import InputError
from dsba.kernels import samples as kernel
from dsba.kernels.batches import DIRECT, BatchPlan, gram_batches, largest_eigenvalues, resolve_batch, rows_apart
from dsba.kernels.dense import KernelComponents, Recursion
from dsba.types import Array, Indices

if TYPE_CHECKING:
    from dsba.problem.problem import Problem

MAX_ROOT, ROOT_ROUNDING = 200, 4e-16  # trials for the score of a resolvent with a penalty, and when it is found


class Layout(NamedTuple):
    """All components held here as CSR rows: what a message names, and what it carries the first time."""

    start: Indices  # of every node, its first component, and the end
    indptr: Indices
    indices: Any
    rows: int  # of a component; the last of a small one are empty


def counts(sizes: Indices, batch_size: int) -> Indices:
    """How many batches of at most ``batch_size`` each node needs."""
    return -(-sizes // batch_size)


class Components:
    """Single samples. ``Batches`` has the same interface; a method that uses no more of it takes either.

    ``samples[n]`` is the number, within node n, of the component that node n takes.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.weight, self.sizes = problem, problem.weight, problem.sizes

    @property
    def all_sizes(self) -> Indices:
        """How many components each node of all processes has."""
        return self.problem.all_sizes

    # One component a node ---------------------------------------------------------------------------

    def ids(self, samples: Any) -> Any:
        """The places, among all samples held here, of the samples in these components.

        A table has one entry for each sample held here: ``table[components.ids(samples)]`` are those of an iteration.
        """
        return self.problem.start[:-1] + samples

    def owners(self, samples: Any) -> Any:
        """For each of the ``ids``, which of the nodes held here has it."""
        return np.arange(len(samples))

    def image(self, samples: Any, Z: Array) -> Array:
        """A_i z_n for these samples (one row of k numbers for each of the ``ids``)."""
        ids = self.ids(samples)
        out = np.empty((ids.size, self.problem.k))
        kernel.image_samples(self.problem.csr, ids, self.owners(samples), Z, out)
        return out

    def forward(self, samples: Any, Z: Array) -> Array:
        """g(A_i z_n) for these samples."""
        return self.problem.component.forward_rows(self.image(samples, Z), self.problem.y[self.ids(samples)])

    def spread(self, samples: Any, coefficients: Array) -> Array:
        """Row n: the sum over node n's samples of their weights times A_i' coefficients_i."""
        out = np.zeros((len(self.problem.nodes), self.problem.dim))
        places = (self.ids(samples), self.owners(samples))
        kernel.spread_samples(self.problem.csr, self.weight, *places, coefficients, np.ones(self.problem.dim), out)
        return out

    def backward(self, samples: Any, Z: Array, D: Array, t: float) -> tuple[Array, Array]:
        """Z+ with (1 + t Lambda)(z+_n - z_n) + t B(z+_n) = d_n for node n's component B, and g(A_i z+_n).

        The resolvent of t (B + Lambda) at v = (1 + t Lambda) z + d. Given as an increment, a
        fixed point stays one in floating point; r v with a rounded r would creep. With a penalty it is the
        resolvent of t (B + Lambda + the penalty's subdifferential), for single samples where k = 1.
        """
        p, r = self.problem, 1.0 / (1.0 + t * self.problem.lam_diag)
        ids, new = self.ids(samples), Z + r * D
        if p.penalty is not None:
            return self._proximal_backward(ids, new, t, r)
        out = np.empty((ids.size, p.k))
        kernel.backward_samples(p.component, p.csr, p.y, ids, t * self.weight[ids], r, new, out)
        return new, out

    def _proximal_backward(self, ids: Any, V: Array, t: float, r: Array) -> tuple[Array, Array]:
        """Z+ = prox_{t r}(V - t c_n g(u) r a) with u = a'Z+, and g(u).

        With more g the score a'Z+ only falls, so u is the root of an increasing function: Newton, kept inside a
        shrinking bracket, for all nodes at once.
        """
        p = self.problem
        a, y, step = p.A[ids].toarray(), p.y[ids], t * p.weight[ids]
        u, lo, hi = np.zeros(len(ids)), np.full(len(ids), -np.inf), np.full(len(ids), np.inf)
        for trial in range(MAX_ROOT):
            G = p.component.forward_rows(u[:, None], y)
            point = V - step[:, None] * G * (r * a)
            Z = p.pooled.prox(point, t * r)
            score = np.einsum("nj,nj->n", a, Z)
            lo, hi = np.maximum(lo, np.minimum(u, score)), np.minimum(hi, np.maximum(u, score))
            bend = p.component.curvature(u[:, None], np.ones_like(G), y)[:, 0]
            gain = np.einsum("nj,nj->n", a * a * r, p.pooled.prox_slope(point, t * r))
            new = u - (u - score) / (1.0 + step * bend * gain)
            outside = ~((lo <= new) & (new <= hi)) | (trial % 4 == 3)
            new = np.where(outside & (lo < hi), lo + 0.5 * (hi - lo), np.clip(new, lo, hi))
            if (np.abs(new - u) <= ROOT_ROUNDING * np.abs(u)).all():
                break
            u = new
        return Z, G

    def rescaled(self, made: KernelComponents, rule: Recursion) -> KernelComponents:
        """``kernel(rule)`` from what was made for another step size; for batches."""
        raise NotImplementedError

    def curvatures(self, made: KernelComponents, slopes: Array) -> Array:
        """For each node a mean of its components' curvatures; for batches."""
        raise NotImplementedError

    # For kernels, messages and step sizes -------------------------------------------------------------

    def kernel(self, rule: Recursion) -> KernelComponents:
        """What kernels need of the components, for iterations with the numbers ``rule``."""
        return KernelComponents(rule, self.problem.samples, self.problem.start, 1)

    @property
    def layout(self) -> Layout:
        """How the components go into messages."""
        return Layout(self.problem.start, *self.problem.csr[:2], self.problem.k)

    @property
    def smoothness(self) -> float:
        """The largest Lipschitz constant of a component, to plan step sizes with; the same at all processes."""
        return self.problem.constants.L_plan


class Batches(Components):
    """Fixed batches of neighbouring samples."""

    def __init__(self, problem: Problem, batch_size: int) -> None:
        self.problem, self.batch_size, self.sizes = problem, batch_size, counts(problem.sizes, batch_size)
        self.first = np.concatenate([[0], np.cumsum(self.sizes)])
        node = np.repeat(np.arange(self.sizes.size), self.sizes)
        before = (np.arange(node.size) - self.first[node]) * problem.sizes[node] // self.sizes[node]
        self.cuts = np.append(problem.start[node] + before, problem.start[-1])
        self.weight = problem.weight * np.repeat(self.sizes / problem.sizes, problem.sizes)
        indptr, indices, _ = problem.csr
        if problem.k > 1 and not rows_apart(indptr, indices, problem.k, np.full(problem.dim, -1)):
            name = type(problem.component).__name__
            raise InputError(f"batch_size needs samples whose k rows share no columns, and those of {name} do.")

    @property
    def all_sizes(self) -> Indices:
        return counts(self.problem.all_sizes, self.batch_size)

    def _ranges(self, samples: Any) -> list[tuple[int, int]]:
        return [(self.cuts[S], self.cuts[S + 1]) for S in self.first[:-1] + samples]

    def ids(self, samples: Any) -> Any:
        return np.concatenate([np.arange(lo, hi) for lo, hi in self._ranges(samples)])

    def owners(self, samples: Any) -> Any:
        return np.repeat(np.arange(len(samples)), [hi - lo for lo, hi in self._ranges(samples)])

    def backward(self, samples: Any, Z: Array, D: Array, t: float) -> tuple[Array, Array]:
        p, r, ranges = self.problem, 1.0 / (1.0 + t * self.problem.lam_diag), self._ranges(samples)
        new = Z + r * D
        V = self.image(samples, new)
        G, ends = np.empty_like(V), np.cumsum([hi - lo for lo, hi in ranges])
        for (lo, hi), end, z in zip(ranges, ends, new, strict=True):
            own, steps = slice(end - (hi - lo), end), t * self.weight[lo:hi]
            gram = np.empty(p.k * (hi - lo) ** 2)
            gram_batches(p.csr, p.k, np.array([lo, hi]), np.array([0, gram.size]), r, gram)
            resolve_batch(p.component, gram, steps, p.y[lo:hi], V[own], np.empty_like(V[own]), G[own])
            z -= r * (p.A[lo * p.k : hi * p.k].T @ (steps[:, None] * G[own]).ravel())
        return new, G

    def kernel(self, rule: Recursion) -> KernelComponents:
        """Forward steps need no Gram matrices."""
        plan = self._plan(1.0 - rule.shrink if rule.backward else None)
        samples, largest = self.problem.samples._replace(weight=self.weight), int(np.diff(self.cuts).max())
        return KernelComponents(rule, samples, self.first, largest, plan)

    def rescaled(self, made: KernelComponents, rule: Recursion) -> KernelComponents:
        """``kernel(rule)`` from what was made for another step size, without a pass over the data: of a Gram matrix the
        part of the coordinates with lambda is multiplied by a number."""
        assert made.batches
        gram, p, at = made.batches.gram.copy(), self.problem, made.batches.at
        ratio, free = (1.0 - rule.coef[0]) / (1.0 - made.rule.coef[0]), p.A[:, p.n_regular :]
        for S, (lo, hi) in enumerate(zip(self.cuts[:-1], self.cuts[1:], strict=True)):
            rest = free[lo:hi].toarray()
            fixed = (rest @ rest.T).ravel()
            gram[at[S] : at[S + 1]] = fixed + ratio * (gram[at[S] : at[S + 1]] - fixed)
        return made._replace(rule=rule, batches=made.batches._replace(gram=gram))

    def curvatures(self, made: KernelComponents, slopes: Array) -> Array:
        """For each node the mean square of its batches' largest curvatures, if the samples have these slopes; k = 1."""
        largest = np.empty(self.cuts.size - 1)
        largest_eigenvalues(made.batches, np.sqrt(self.weight * slopes), largest)
        return np.add.reduceat(largest**2, self.first[:-1]) / self.sizes

    def _plan(self, r: Array | None) -> BatchPlan:
        """With the Gram matrices in the metric r, or without any."""
        sizes = np.diff(self.cuts) if r is not None else np.zeros(self.cuts.size - 1, np.int64)
        at = np.concatenate([[0], np.cumsum(self.problem.k * sizes**2)])
        gram = np.empty(at[-1])
        if r is not None:
            gram_batches(self.problem.csr, self.problem.k, self.cuts, at, r, gram)
        large = () if r is not None and self.problem.k == 1 and sizes.max() > DIRECT else None
        return BatchPlan(self.cuts, gram, at, large)

    @property
    def layout(self) -> Layout:
        """Every batch has as many rows as the largest of any node."""
        indptr, indices, _ = self.problem.csr
        largest = int((-(-self.problem.all_sizes // self.all_sizes)).max())
        lengths = np.zeros((self.cuts.size - 1, largest * self.problem.k), np.int64)
        full = np.diff(self.cuts)[:, None] * self.problem.k > np.arange(lengths.shape[1])
        lengths[full] = np.diff(indptr)
        return Layout(self.first, np.concatenate([[0], np.cumsum(lengths)]), indices, lengths.shape[1])

    @property
    def smoothness(self) -> float:
        """Of sum_i w_i h_i A_i' A_i, h_i the bounds on the slopes: the largest eigenvalue of (w h)^1/2 G (w h)^1/2."""
        plan, k = self._plan(np.ones(self.problem.dim)), self.problem.k
        root = np.sqrt(self.weight * self.problem.component.planning_slopes(self.problem.y))
        largest = 0.0
        for lo, hi, at in zip(self.cuts[:-1], self.cuts[1:], plan.at[:-1], strict=True):
            G = plan.gram[at : at + k * (hi - lo) ** 2].reshape(k, hi - lo, hi - lo)
            scale = root[lo:hi]
            largest = max(largest, float(np.linalg.eigvalsh(scale[:, None] * G * scale)[:, -1].max()))
        return float(self.problem.group.largest(np.array([largest]))[0])
