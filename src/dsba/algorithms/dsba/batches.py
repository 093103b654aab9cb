"""Components of DSBA and DSA: single samples, or fixed blocks of them (``batch_size``; docs/rounds.md).

A node's q samples are cut into q' = ceil(q / b) blocks whose sizes differ by at most one. The component of block S is

    B_S = (q'/q) sum_{i in S} B_i,

so that the mean over the q' blocks is the mean over the q samples, whatever the sizes. In the words of docs/rounds.md
this is c_S times the mean of the block, c_S = b_S q'/q. All of DSBA and DSA holds with q' components in place of q.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from dsba._system.once import computed_once
from dsba.errors import InputError
from dsba.kernels.batches import BlockPlan, gram_blocks, resolve_block, rows_apart
from dsba.kernels.samples import Samples
from dsba.problem.problem import Problem
from dsba.types import Array, Indices


class Layout(NamedTuple):
    """Components as blocks of rows, in CSR: what a message names, and what it carries the first time."""

    start: Indices  # of every node, its first component, and the end
    indptr: Indices
    indices: Any
    rows: int  # of a component


class Components(Protocol):
    """What a step needs of its components; a ``Problem`` has single samples as components."""

    sizes: Any
    """Components of each node held here."""
    all_sizes: Any
    """Components of all nodes."""

    def ids(self, samples: Any) -> Any:
        """The places in the table of the samples that the components ``samples[n]`` of each node n are made of."""
        ...

    def forward(self, samples: Any, Z: Array) -> Array:
        """g(A_i z_n) for these samples."""
        ...

    def backward(self, samples: Any, Z: Array, D: Array, t: float) -> tuple[Array, Array]:
        """Z+ with (1 + t Lambda)(z+_n - z_n) + t B(z+_n) = d_n for node n's component B, and g(A_i z+_n)."""
        ...

    def spread(self, samples: Any, coefficients: Array) -> Array:
        """Row n: the weighted sum of A_i' coefficients_i over the samples of node n's component."""
        ...


def counts(sizes: Indices, batch_size: int) -> Indices:
    """How many blocks of at most ``batch_size`` each node needs."""
    return -(-sizes // batch_size)


class Blocks:
    """Fixed blocks of neighbouring samples."""

    def __init__(self, problem: Problem, batch_size: int) -> None:
        self.problem = problem
        self.sizes, self.all_sizes = counts(problem.sizes, batch_size), counts(problem.all_sizes, batch_size)
        self.first = np.concatenate([[0], np.cumsum(self.sizes)])
        cuts = [
            start + np.arange(count + 1) * size // count
            for start, size, count in zip(problem.start[:-1], problem.sizes, self.sizes, strict=True)
        ]
        self.cuts = np.concatenate([*(part[:-1] for part in cuts), problem.start[-1:]])
        self.weight = problem.weight * np.repeat(self.sizes / problem.sizes, problem.sizes)
        self.largest = int((-(-problem.all_sizes // self.all_sizes)).max())
        """Samples of the largest block of any node."""
        indptr, indices, _ = problem.csr
        if not rows_apart(indptr, indices, problem.k, np.full(problem.dim, -1)):
            name = type(problem.component).__name__
            raise InputError(f"batch_size needs rows of blocks that share no columns, and those of {name} do.")

    # One component per node -----------------------------------------------------------------------

    def _ranges(self, samples: Any) -> list[tuple[int, int]]:
        drawn = self.first[:-1] + samples
        return list(zip(self.cuts[drawn].tolist(), self.cuts[drawn + 1].tolist(), strict=True))

    def ids(self, samples: Any) -> Any:
        return np.concatenate([np.arange(lo, hi) for lo, hi in self._ranges(samples)])

    def forward(self, samples: Any, Z: Array) -> Array:
        U = np.concatenate([self._rows(lo, hi) @ z for (lo, hi), z in zip(self._ranges(samples), Z, strict=True)])
        ids, U = self.ids(samples), U.reshape(-1, self.problem.k)
        out = np.empty_like(U)
        for i, u, g in zip(ids, U, out, strict=True):
            self.problem.component.forward(u, self.problem.y[i], g)
        return out

    def backward(self, samples: Any, Z: Array, D: Array, t: float) -> tuple[Array, Array]:
        r = 1.0 / (1.0 + t * self.problem.lam_diag)
        new, found = Z + r * D, []
        for (lo, hi), z in zip(self._ranges(samples), new, strict=True):
            rows, steps = self._rows(lo, hi), t * self.weight[lo:hi]
            v = (rows @ z).reshape(-1, self.problem.k)
            u, g = np.empty_like(v), np.empty_like(v)
            gram = np.empty(self.problem.k * (hi - lo) ** 2)
            gram_blocks(self.problem.csr, self.problem.k, np.array([lo, hi]), np.array([0, gram.size]), r, gram)
            resolve_block(self.problem.component, gram, steps, self.problem.y[lo:hi], v, u, g)
            z -= r * (rows.T @ (steps[:, None] * g).ravel())
            found.append(g)
        return new, np.concatenate(found)

    def spread(self, samples: Any, coefficients: Array) -> Array:
        ranges = self._ranges(samples)
        parts = np.split(coefficients, np.cumsum([hi - lo for lo, hi in ranges])[:-1])
        scaled = [self.weight[lo:hi, None] * part for (lo, hi), part in zip(ranges, parts, strict=True)]
        return np.stack([self._rows(lo, hi).T @ part.ravel() for (lo, hi), part in zip(ranges, scaled, strict=True)])

    def _rows(self, lo: int, hi: int) -> Any:
        return self.problem.A[lo * self.problem.k : hi * self.problem.k]

    # For kernels and messages -----------------------------------------------------------------------

    @property
    def samples(self) -> Samples:
        """The problem's samples with the weights of the components."""
        return self.problem.samples._replace(weight=self.weight)

    def plan(self, r: Array | None) -> BlockPlan:
        """With the Gram matrices in the metric r; None leaves them out, as forward steps need none."""
        sizes = np.diff(self.cuts) if r is not None else np.zeros(self.cuts.size - 1, np.int64)
        at = np.concatenate([[0], np.cumsum(self.problem.k * sizes**2)])
        gram = np.empty(at[-1])
        if r is not None:
            gram_blocks(self.problem.csr, self.problem.k, self.cuts, at, r, gram)
        return BlockPlan(self.cuts, self.first, gram, at)

    @property
    def layout(self) -> Layout:
        """Every block as k times ``largest`` rows, the last of them empty where it has fewer samples."""
        indptr, indices, _ = self.problem.csr
        lengths = np.zeros((self.cuts.size - 1, self.largest * self.problem.k), np.int64)
        full = np.diff(self.cuts)[:, None] * self.problem.k > np.arange(lengths.shape[1])
        lengths[full] = np.diff(indptr)
        return Layout(self.first, np.concatenate([[0], np.cumsum(lengths)]), indices, lengths.shape[1])

    @computed_once
    def smoothness(self) -> float:
        """The largest Lipschitz constant of a block, to plan step sizes with; the same at all processes.

        Of sum_i w_i h_i A_i' A_i, h_i the bounds on the slopes: the largest eigenvalue of (w h)^1/2 G (w h)^1/2.
        """
        plan, k = self.plan(np.ones(self.problem.dim)), self.problem.k
        root = np.sqrt(self.weight * self.problem.component.planning_slopes(self.problem.y))
        largest = 0.0
        for lo, hi, at in zip(self.cuts[:-1], self.cuts[1:], plan.at[:-1], strict=True):
            G = plan.gram[at : at + k * (hi - lo) ** 2].reshape(k, hi - lo, hi - lo)
            scale = root[lo:hi]
            largest = max(largest, float(np.linalg.eigvalsh(scale[:, None] * G * scale)[:, -1].max()))
        return float(self.problem.group.largest(np.array([largest]))[0])


def layout(problem: Problem, blocks: Blocks | None) -> Layout:
    """How the components go into messages: single samples, or blocks of them."""
    return Layout(problem.start, *problem.csr[:2], problem.k) if blocks is None else blocks.layout
