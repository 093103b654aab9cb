"""The problem: data at N nodes, a component operator, lambda. Knows nothing of the graph.

Find the common z with    (1/Q) sum_i B_i(z) + Lambda z = 0    over all Q samples of all nodes;
for a loss this is the minimum of (1/Q) sum_i loss_i + lam/2 ||z||^2 (regularised coordinates). A penalty
(``dsba.penalties``) may be added to the objective.
Node n holds q_n samples and its local operator is c_n (1/q_n) sum_i B_i(z) + Lambda z with
c_n = N q_n / Q, so that the mean over the nodes is the pooled problem however the data is split.

One process may hold all nodes or a block of them, the other processes of its ``group`` the rest. N and Q, lambda,
the constants and the pooled operator are the whole problem's; rows of Z, samples and labels are those held here.
A sample weight multiplies its B_i; weights are scaled to a mean of 1 over all samples.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dsba._system.memory import own_pages
from dsba._system.once import computed_once
from dsba._system.threads import CORES, WORTH, run_pieces
from dsba._version import __version__
from dsba.data import dataset
from dsba.errors import InputError, NetworkError
from dsba.kernels import samples as kernel
from dsba.kernels.hessians import add_diagonals, add_hessians
from dsba.network import Alone, Group, alike, counted, require_agreement
from dsba.network.contract import TOTALS
from dsba.network.exact_sum import SparseRows, norm
from dsba.operators import Operator
from dsba.operators.consistency import require_consistent
from dsba.operators.penalties import Penalty
from dsba.problem.validation import (
    GivenSamples,
    Terms,
    as_csr,
    as_labels,
    as_weights,
    checked_terms,
    map_labels,
    of_shards,
    split_rows,
)
from dsba.types import Array

POWER_ITERATIONS = 40
MAX_ROOT, ROOT_ROUNDING = 200, 4e-16  # trials for the score of a resolvent with a penalty, and when it is found
LEAST_PLANNED_SLOPE = 1e-10  # relative to the slopes that steps are planned with
LEAST_RESIDUAL = 1e-14  # of the mean norm of the components: a residual at 0 below this is rounding


@dataclass(frozen=True)
class Constants:
    """What step-size rules are made of, for the weighted components c_n B_i."""

    L: float  # the largest Lipschitz constant of a component; infinite where there is none
    L_plan: float  # the largest constant to plan with; always finite
    L_mean: float  # the mean of those
    mu: float  # strong monotonicity: lambda, or 1/(10 Q) to plan with where lambda is 0
    q: int  # samples at the largest node


class Problem:
    """Shards of data, an operator, lambda.

    Parameters
    ----------
    shards
        One pair (X, y) per node, or (X, y, sample weights); X a scipy sparse matrix or array-like,
        all of one width.
    operator
        A registered name ("ridge", "logistic", "auc", ...) or an operator object.
    lam
        The regularisation; None is the paper's 1/(10 Q).
    regularize
        "weights" leaves the operator's extra coordinates (AUC's a, b, theta) free, "all" is
        the paper's lambda on everything.
    intercept
        Append a constant column, free of lambda like the extra coordinates; a number is its value
        (True is 1), which leaves the solution's predictions alone but not the conditioning.
    penalty
        A convex function of the weights beyond lambda, such as ``dsba.penalties.L1(0.01)``; for objectives only,
        and for the methods that have a proximal step.
    group
        The processes that hold the problem together, each with the shards of its own nodes: a
        ``dsba.MPINetwork`` or another transport; None is this one alone.
    classes
        The labels of all processes, sorted, if they are known; with None the processes tell each other theirs.
    """

    def __init__(
        self,
        shards: Sequence[tuple[Any, ...]],
        operator: str | Operator = "logistic",
        lam: float | None = None,
        *,
        regularize: str = "weights",
        intercept: bool | float = False,
        penalty: Penalty | None = None,
        group: Group | None = None,
        classes: Sequence[Any] | None = None,
    ) -> None:
        samples = of_shards(shards)
        known = None if classes is None else tuple(classes)
        terms = checked_terms(operator, lam, regularize, intercept, penalty)._replace(classes=known)
        self._assemble(samples, terms, (group or Alone()).aside())

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any,
        operator: str | Operator = "logistic",
        n_nodes: int = 10,
        lam: float | None = None,
        split: str | npt.ArrayLike = "random",
        normalize: bool = True,
        seed: int = 0,
        *,
        regularize: str = "weights",
        intercept: bool | float = False,
        penalty: Penalty | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> Problem:
        """Pooled data, split over ``n_nodes`` nodes.

        ``split``: "random" (sizes equal but for one), "label" (sorted by label: heterogeneous), "dirichlet:0.3" (each
        class dealt out by proportions with this alpha), "column:4" (a node for each value of this column), or an
        integer array, the node of each row. With the last two, ``n_nodes`` follows from the data.
        ``normalize`` scales every row to norm 1 (without the intercept); empty rows stay empty.
        """
        X = as_csr(X, "X")
        y = as_labels(y, X.shape[0], "X")
        weights = as_weights(sample_weight, X.shape[0], "X")
        order, sizes = split_rows(X, y, n_nodes, split, seed)
        X = sp.csr_array(X[order])  # a copy: scaled in place below
        if normalize:
            kernel.normalize_rows(X.indptr, X.data)
        self = cls.__new__(cls)
        samples = GivenSamples(X, y[order], weights[order], sizes)
        self._assemble(samples, checked_terms(operator, lam, regularize, intercept, penalty), Alone())
        return self

    def _assemble(self, samples: GivenSamples, terms: Terms, group: Group) -> None:
        self.group, self.sizes = group, samples.sizes
        self.intercept, self.penalty, self.n_features = terms.intercept, terms.penalty, int(samples.X.shape[1])
        self._agree(samples.sizes, terms)
        self.lam = 1.0 / (10 * self.n_samples) if terms.lam is None else terms.lam
        self.y, self.classes = map_labels(samples.y, terms, group)
        self.sample_weight = samples.weights / self._mean_weight(samples.weights)
        self.component = self._fitted(terms.component)
        require_consistent(self.component, self.y)
        self.k, copies = self.component.k, self.component.copies
        self.dim = copies * (self.n_features + bool(self.intercept)) + self.component.extra
        self.n_regular = self.dim if terms.regularize == "all" else copies * self.n_features
        self.weight = self.sample_weight * np.repeat(self.n_nodes * self.sizes / self.n_samples, self.sizes)
        self._keep(samples.X)

    def _agree(self, sizes: npt.NDArray[np.int64], terms: Terms) -> None:
        """All processes were given the same, and know how many nodes and samples there are."""
        empty = np.flatnonzero(sizes == 0)
        if empty.size:
            raise InputError(
                f"every node needs at least one sample, node {empty[0]} has none (sizes {sizes.tolist()})."
            )
        given = terms._asdict() | {"component": repr(terms.component), "penalty": repr(terms.penalty)}
        given["operator"] = given.pop("component")
        require_agreement(self.group, {"program": f"dsba {__version__}", "width": self.n_features, **given})
        held = alike(self.group, len(sizes))
        first = sum(held[: self.group.rank])
        self.nodes = range(first, first + len(sizes))
        self.n_nodes, (self.n_samples,) = sum(held), counted(self.group, sizes.astype(np.float64)[:, None])
        self.start = np.concatenate([[0], np.cumsum(sizes)])

    def _keep(self, X: sp.csr_array) -> None:
        """The rows as blocks of the operator, in the form that kernels take."""
        if self.intercept:
            constant = sp.csr_array(np.full((X.shape[0], 1), self.intercept))
            X = sp.csr_array(sp.hstack([X, constant], format="csr"))
        blocks = self.component.blocks(X, self.y)
        self.A = sp.csr_array(dataset.csr(blocks.data, blocks.indices, blocks.indptr, blocks.shape[1]))  # small indices
        if self.A.nnz == self.A.shape[0] * self.A.shape[1]:
            values = own_pages(self.A.data.shape)
            values[:] = self.A.data
            self.A.data = values
        self.csr = (self.A.indptr.astype(np.int64), self.A.indices, self.A.data)
        self.mean_nnz = float(self.total(np.diff(self.A.indptr[self.start * self.k]).astype(np.float64)))
        self.mean_nnz /= self.n_samples

    def ids(self, samples: Any) -> Any:
        """The places, among all samples held here, of the samples that ``samples[n]`` names within each node n.

        A table has one entry for each sample held here: ``table[problem.ids(samples)]`` are the ones of an iteration.
        """
        return self.start[:-1] + samples

    def _per_node(self, of_samples: Any, values: Array) -> Array:
        """``of_samples`` (np.sum, np.max, ...) of every node's samples, for all nodes of all processes."""
        own = [of_samples(values[first:last]) for first, last in zip(self.start[:-1], self.start[1:], strict=True)]
        return self.gathered(np.array(own, dtype=np.float64))

    def gathered(self, rows: Array, discloses: str = TOTALS) -> Array:
        """The rows (or numbers) of all processes' nodes, given one for each node held here."""
        everyone = self.group.gather(rows, discloses=discloses)
        wanted = (self.n_nodes, *rows.shape[1:])
        if everyone.size != math.prod(wanted):
            raise NetworkError(
                f"all processes together sent {everyone.size} numbers where {math.prod(wanted)} are due."
            )
        return everyone.reshape(wanted)

    def _mean_weight(self, weights: Array) -> float:
        total = float(self.total(self._sums(weights)))
        if not total > 0.0:
            raise InputError("all sample weights are zero: there is nothing to learn from.")
        return total / self.n_samples

    def _fitted(self, component: Operator) -> Operator:
        """The operator with what it must know of all labels; of classes, that is their total weights."""
        if self.classes is None:
            return component.fitted(self.y, self.sample_weight)
        values = np.array([-1.0, 1.0]) if component.labels == "binary" else np.arange(float(self.classes.size))
        totals = [self.total(self._sums(self.sample_weight * (self.y == value))) for value in values]
        return component.fitted(values, np.array(totals))

    def __repr__(self) -> str:
        name = type(self.component).__name__
        return f"Problem({name}, {self.n_samples} x {self.n_features}, N={self.n_nodes}, lam={self.lam:.3g})"

    # The pooled problem ------------------------------------------------------------------------

    @cached_property
    def lam_diag(self) -> Array:
        """Lambda's diagonal."""
        diag = np.full(self.dim, self.lam)
        diag[self.n_regular :] = 0.0
        return diag

    def pooled(self, z: Array, images: Array | None = None) -> Array:
        """(1/Q) sum_i B_i(z) + Lambda z: zero exactly at the solution of a problem without a penalty.

        One sweep over the data. If there are ``images`` (Q x k), they become A_i z.
        """
        images = np.empty((self.y.size, self.k)) if images is None else images
        columns, _ = self._distinct
        entries, samples = np.empty(columns.size), self.samples._replace(weight=self.sample_weight)
        z = np.ascontiguousarray(z, np.float64)
        self._sweep(kernel.sum_entries, self.component, samples, z, self._distinct, images, entries)
        rows = SparseRows(entries, columns, (len(self.nodes), self.dim))
        total = self.group.sum(rows) / self.n_samples
        total[: self.n_regular] += self.lam * z[: self.n_regular]
        return total

    @cached_property
    def _distinct(self) -> tuple[Any, Any]:
        """Node by node, the columns that its samples touch, in order; and where each node's begin."""
        columns, ends = kernel.distinct_columns(self.csr, self.start, self.k, self.dim)
        for first, last in pairwise(ends):
            columns[first:last].sort()
        return columns, ends

    def _weighted(self, U: Array) -> Array:
        """The weighted g of every sample, given its image."""
        G = np.empty_like(U)
        kernel.forward_all(self.component, U, self.y, G)
        return self.sample_weight[:, None] * G

    def residual(self, z: Array, images: Array | None = None) -> Array:
        """Zero exactly at the solution: ``pooled``, with a penalty (z - prox_t(z - t pooled(z)))/t for a fixed t.

        ``images`` are as in ``pooled``.
        """
        pooled = self.pooled(z, images)
        if self.penalty is None:
            return pooled
        t = self.forward_step
        return (z - self.prox(z - t * pooled, t)) / t

    @computed_once
    def residual_unit(self) -> float:
        """What ``tol`` is relative to, whatever the start: the norm of ``residual`` at 0.

        Where 0 is the solution, it is the mean norm of the components at 0; where these are all 0, it is 1.
        """
        at_zero = norm(self.residual(np.zeros(self.dim)))
        G = self._weighted(np.zeros((self.y.size, self.k)))
        norms = np.sqrt((G**2 * self.squared_norms()).sum(axis=1))  # the rows of an A_i have no column in common
        components = float(self.total(self._sums(norms))) / self.n_samples
        solved = at_zero <= LEAST_RESIDUAL * components < np.inf
        return (components if solved else at_zero) or 1.0

    @property
    def forward_step(self) -> float:
        """A step at which gradient descent on the pooled problem is stable, wherever a loss has a bounded slope."""
        return 1.0 / (self.constants.L_plan + self.lam)

    @property
    def penalised(self) -> slice:
        """The coordinates that a penalty concerns."""
        return slice(0, self.component.copies * self.n_features)

    def prox(self, V: Array, t: Any) -> Array:
        """The penalty's proximal map of step t (a number, or one for each coordinate) on every row of V."""
        if self.penalty is None:
            return V
        own, out = self.penalised, V.copy()
        out[..., own] = self.penalty.prox(V[..., own], t if np.isscalar(t) else t[own])
        return out

    def prox_slope(self, V: Array, t: Any) -> Array:
        """The derivative of ``prox`` by V, coordinate by coordinate."""
        out = np.ones_like(V)
        if self.penalty is not None:
            own = self.penalised
            out[..., own] = self.penalty.slope(V[..., own], t if np.isscalar(t) else t[own])
        return out

    def _summed(self, U: Array) -> Array:
        """Row n: the sum of B_i over the node's samples, given their images."""
        return self._spread_rows(self._weighted(U))

    def _spread_rows(self, table: Array) -> Array:
        """Row n: the sum of A_i' table_i over the node's samples."""
        out = np.zeros((len(self.nodes), self.dim))
        self._sweep(kernel.add_block_rows, self.csr, self.start, table, out)
        return out

    def mean(self, Z: Array) -> Array:
        """The mean of all nodes' rows."""
        return self.total(Z) / self.n_nodes

    def total(self, rows: Array) -> Array:
        """The exact sum over all nodes, given one row (or number) for each node held here."""
        return self.group.sum(rows.reshape(len(rows), -1)).reshape(rows.shape[1:])

    def _sums(self, of_samples: Array) -> Array:
        """For each node held here, the sum over its samples."""
        return np.add.reduceat(of_samples, self.start[:-1])

    @property
    def has_objective(self) -> bool:
        return self.component.has_loss

    def objective(self, z: Array, images: Array | None = None) -> float:
        """(1/Q) sum loss + lam/2 ||z||^2 over the regularised coordinates, and the penalty where there is one."""
        if not self.has_objective:
            raise InputError(f"{type(self.component).__name__} is not the gradient of an objective.")
        losses = float(self.total(self._losses(self.images_of(z) if images is None else images)))
        regular = z[: self.n_regular]
        smooth = losses / self.n_samples + 0.5 * self.lam * float(regular @ regular)
        return smooth if self.penalty is None else smooth + self.penalty.value(z[self.penalised])

    def _losses(self, U: Array) -> Array:
        """For each node held here, the sum of its samples' losses, given their images."""
        own = np.empty(self.y.size)
        kernel.loss_all(self.component, U, self.y, self.sample_weight, own)
        return self._sums(own)

    def scores(self, z: Array) -> Array:
        """x'w for every sample."""
        return self.images_of(z)[:, 0]

    def unpack(self, Z: Array) -> tuple[Array, Array]:
        """The weights (copies x n_features) and the intercepts (copies) of one iterate, or of rows of them."""
        copies = self.component.copies
        columns = Z[..., : Z.shape[-1] - self.component.extra].reshape(*Z.shape[:-1], -1, copies)
        weights = np.moveaxis(columns[..., : self.n_features, :], -1, -2)
        constant = columns[..., -1, :] if self.intercept else np.zeros(weights.shape[:-1])
        return weights, self.intercept * constant

    def images_of(self, z: Array) -> Array:
        """A_i z for every sample (Q x k)."""
        out = np.empty((self.y.size, self.k))
        self._sweep(kernel.image_all, self.csr, self.start, np.ascontiguousarray(z, np.float64), out)
        return out

    # Stacked rows: one row of Z per node -------------------------------------------------------

    @cached_property
    def node_cuts(self) -> list[int]:
        """The nodes in one piece per core, of about equal nonzeros; in one piece if there are too few for threads."""
        if self.A.nnz < WORTH:
            return [0, len(self.nodes)]
        nonzeros = self.A.indptr[self.start * self.k].astype(np.float64)
        shares = np.linspace(0, nonzeros[-1], CORES + 1)
        return [int(c) for c in np.unique([0, *np.searchsorted(nonzeros, shares[1:-1]), len(self.nodes)])]

    def _sweep(self, sweep: Any, *args: Any) -> None:
        run_pieces(sweep, self.node_cuts, *args)

    def local_operator(self, Z: Array) -> Array:
        """Row n: the local operator c_n (1/q_n) sum_i B_i(z_n) + Lambda z_n."""
        out = self.lam_diag * Z
        self.add_operator(Z, 1.0, out)
        return out

    def derivatives(self, z: Array, hessian: bool = True, chords: bool = False) -> Array:
        """Row n, for an exact sum over the nodes: loss, sum of B_i and its Jacobian over the node's samples, at z.

        The Jacobian is the upper triangle of a symmetric matrix, row by row; without ``hessian``, its diagonal alone.
        ``chords`` puts slopes that lead towards the labels where a loss is straight (see ``_blocks``).
        A saddle has one column more (``Saddle``: the matrix with T in the corner, then c). No objective: a loss of 0.
        """
        U = self.images_of(z)
        losses = self._losses(U) if self.has_objective else np.zeros(len(self.nodes))
        parts = [losses[:, None], self._summed(U)]
        if self.component.has_saddle:
            return np.hstack([*parts, *self._saddles()])
        blocks = self._blocks(U, chords)
        if hessian:
            out = np.zeros((len(self.nodes), self.dim * (self.dim + 1) // 2))
            self._sweep(add_hessians, self.csr, self.start, blocks, self.dim, out)
        else:
            out = np.zeros((len(self.nodes), self.dim))
            weights = np.ascontiguousarray(np.diagonal(blocks, axis1=1, axis2=2))
            self._sweep(add_diagonals, self.csr, self.start, weights, out)
        return np.hstack([*parts, out])

    def hessians(self, Z: Array) -> Array:
        """The Jacobians of the local operators, Lambda included, each at its row of Z (N x p x p)."""
        triangles = np.zeros((len(self.nodes), self.dim * (self.dim + 1) // 2))
        self._sweep(add_hessians, self.csr, self.start, self._blocks(self.images(Z), False), self.dim, triangles)
        out = np.zeros((len(self.nodes), self.dim, self.dim))
        rows, columns = np.triu_indices(self.dim)
        out[:, rows, columns] = out[:, columns, rows] = self.n_nodes / self.n_samples * triangles
        return out + np.diag(self.lam_diag)

    def products(self, z: Array) -> Callable[[Array], Array]:
        """A function of v. Row n: the sum over the node's samples of the Jacobians of B_i at z, times v."""
        blocks = self._blocks(self.images_of(z), chords=False)
        return lambda v: self._spread_rows(np.einsum("icd,id->ic", blocks, self.images_of(v)))

    def _blocks(self, U: Array, chords: bool) -> Array:
        """The Jacobian of g for every sample, weighted (Q x k x k).

        Where a loss of one score is straight (Huber's far ends), a trace of its slope is put in, so that
        a Hessian is singular only where the data is; a likelihood's slopes may be tiny, but it is straight nowhere.
        With ``chords`` it is g/(u - y), whose step never goes too far.
        """
        columns = [self.component.curvature(U, np.tile(unit, (self.y.size, 1)), self.y) for unit in np.eye(self.k)]
        blocks = np.stack(columns, axis=2)
        if self.k == 1 and not self.component.family:
            slopes = LEAST_PLANNED_SLOPE * self.component.planning_slopes(self.y)
            if chords and self.component.labels == "real":
                G = np.empty_like(U)
                kernel.forward_all(self.component, U, self.y, G)
                slopes = np.maximum(slopes, np.abs(G[:, 0] / np.where(U[:, 0] == self.y, 1.0, U[:, 0] - self.y)))
            blocks = np.where(blocks == 0.0, slopes[:, None, None], blocks)
        return self.sample_weight[:, None, None] * blocks

    def _saddles(self) -> tuple[Array, Array]:
        """Row n: the matrix of the node's ``Saddle``, as a triangle with T in the corner, and its c."""
        matrices, couplings = np.zeros((len(self.nodes), self.dim * (self.dim + 1) // 2)), []
        for n, (first, last) in enumerate(zip(self.start[:-1], self.start[1:], strict=True)):
            rows = self.A[first * self.k : last * self.k]
            B, weights, c, T = self.component.saddle(rows, self.y[first:last], self.sample_weight[first:last])
            csr = (B.indptr.astype(np.int64), B.indices, B.data)
            ends = np.array([0, last - first])
            add_hessians(0, 1, csr, ends, weights[:, None, None], self.dim, matrices[n : n + 1])
            matrices[n, -1] += T
            couplings.append(c)
        return matrices, np.stack(couplings)

    def add_operator(self, Z: Array, factor: float, out: Array) -> None:
        """out <- out + factor times the local operators at Z, without Lambda."""
        self._sweep(kernel.add_operator_rows, self.component, self.samples, factor, Z, out)

    @property
    def samples(self) -> kernel.Samples:
        """What kernels need of the samples held here."""
        return kernel.Samples(self.csr, self.y, self.weight, self.start, self.k)

    def table(self, Z: Array) -> Array:
        """g(A_i z_n) for every sample i of every node n (Q x k)."""
        out = np.empty((self.y.size, self.k))
        self._sweep(kernel.table_rows, self.component, self.samples, Z, out)
        return out

    def images(self, Z: Array) -> Array:
        """A_i z_n for every sample i of every node n (Q x k)."""
        out = np.empty((self.y.size, self.k))
        self._sweep(kernel.image_rows, self.csr, self.start, Z, out)
        return out

    def average(self, table: Array) -> Array:
        """Row n: c_n (1/q_n) sum_i A_i' table_i."""
        out = np.empty((len(self.nodes), self.dim))
        self._sweep(kernel.average_rows, self.samples, table, out)
        return out

    @computed_once
    def local_smoothness(self) -> Array:
        """Of every node, a Lipschitz constant of the local operator without Lambda, to plan step sizes with.

        The largest eigenvalue of (c_n/q_n) sum_i h_i A_i' A_i, h_i the slope bounds, by power
        iteration; five percent more, as that approaches it from below. Where the operator is affine and its Jacobian
        not symmetric (AUC), the largest singular value of the Jacobian itself: bounds would forget that the parts of
        its samples cancel.
        """
        if self.component.has_saddle:
            J = self.component.jacobians(self.y)
            factors = [J, J.swapaxes(1, 2)]
        else:
            slopes = self.component.planning_slopes(self.y)
            self._require_planned(float(slopes.max(initial=0.0)))
            factors = [slopes[:, None, None] * np.eye(self.k)]
        Z = np.stack([np.random.default_rng([0, n]).normal(size=self.dim) for n in self.nodes])
        for t in range(POWER_ITERATIONS):
            norms = np.maximum(np.linalg.norm(Z, axis=1), 1e-300)
            products = np.einsum("icd,id->ic", factors[t % len(factors)], self.images(Z / norms[:, None]))
            Z = self.average(products)
        return self.gathered(1.05 * np.linalg.norm(Z, axis=1))

    @computed_once
    def mean_curvature(self) -> float:
        """The mean eigenvalue of the pooled Jacobian without Lambda, planned with the bounds on the slopes."""
        slopes = self.sample_weight * self.component.planning_slopes(self.y)
        trace = self.total(self._sums(slopes * self.squared_norms().sum(axis=1)))
        return float(trace) / self.n_samples / self.dim

    # One sample per node -----------------------------------------------------------------------

    def forward(self, samples: Any, Z: Array) -> Array:
        """g(A_i z_n), i = samples[n] (N x k)."""
        out = np.empty((len(self.nodes), self.k))
        kernel.forward_samples(self.component, self.csr, self.y, self.ids(samples), Z, out)
        return out

    def image(self, samples: Any, Z: Array) -> Array:
        """A_i z_n, i = samples[n] (N x k)."""
        out = np.empty((len(self.nodes), self.k))
        for n, i in enumerate(self.ids(samples)):
            kernel.dot_block(self.csr, i * self.k, Z[n], out[n])
        return out

    def backward(self, samples: Any, Z: Array, D: Array, t: float) -> tuple[Array, Array]:
        """Z+ with (1 + t Lambda)(z+_n - z_n) + t c_n B_i(z+_n) = d_n, i = samples[n], and g(A_i z+_n).

        The resolvent of t (B_i + Lambda) at v = (1 + t Lambda) z + d. Given as an increment, a
        fixed point stays one in floating point; r v with a rounded r would creep. With a penalty it is the
        resolvent of t (B_i + Lambda + the penalty's subdifferential), where k = 1.
        """
        ids = self.ids(samples)
        r = 1.0 / (1.0 + t * self.lam_diag)
        if self.penalty is not None:
            return self._proximal_backward(ids, Z + r * D, t, r)
        new, out = Z + r * D, np.empty((len(self.nodes), self.k))
        kernel.backward_samples(self.component, self.csr, self.y, ids, t * self.weight[ids], r, new, out)
        return new, out

    def _proximal_backward(self, ids: Any, V: Array, t: float, r: Array) -> tuple[Array, Array]:
        """Z+ = prox_{t r}(V - t c_n g(u) r a) with u = a'Z+, and g(u).

        With more g the score a'Z+ only falls, so u is the root of an increasing function: Newton, kept inside a
        shrinking bracket, for all nodes at once.
        """
        a, y, step = self.A[ids].toarray(), self.y[ids], t * self.weight[ids]
        u, lo, hi = np.zeros(len(ids)), np.full(len(ids), -np.inf), np.full(len(ids), np.inf)
        G = np.empty((len(ids), 1))
        for trial in range(MAX_ROOT):
            kernel.forward_all(self.component, u[:, None], y, G)
            point = V - step[:, None] * G * (r * a)
            Z = self.prox(point, t * r)
            score = np.einsum("nj,nj->n", a, Z)
            lo, hi = np.maximum(lo, np.minimum(u, score)), np.minimum(hi, np.maximum(u, score))
            bend = self.component.curvature(u[:, None], np.ones_like(G), y)[:, 0]
            gain = np.einsum("nj,nj->n", a * a * r, self.prox_slope(point, t * r))
            new = u - (u - score) / (1.0 + step * bend * gain)
            outside = ~((lo <= new) & (new <= hi)) | (trial % 4 == 3)
            new = np.where(outside & (lo < hi), lo + 0.5 * (hi - lo), np.clip(new, lo, hi))
            if (np.abs(new - u) <= ROOT_ROUNDING * np.abs(u)).all():
                break
            u = new
        return Z, G

    def spread(self, samples: Any, coefficients: Array) -> Array:
        """Row n: c_n A_i' coefficients_n, i = samples[n]."""
        ids = self.ids(samples)
        out, ones = np.zeros((len(self.nodes), self.dim)), np.ones(self.dim)
        for n, i in enumerate(ids):
            kernel.add_block(self.csr, i * self.k, coefficients[n], self.weight[i], ones, out[n])
        return out

    def squared_norms(self, r: Array | None = None) -> Array:
        """Squared norms of the rows of every A_i, in the metric diag(r) (Q x k)."""
        out = np.empty((self.y.size, self.k))
        kernel.norms_all(self.csr, np.ones(self.dim) if r is None else r, out)
        return out

    @computed_once
    def all_sizes(self) -> npt.NDArray[np.int64]:
        """How many samples each node has; methods that need it ask all processes for it."""
        return self.gathered(self.sizes.astype(np.float64)).astype(np.int64)

    @computed_once
    def largest_plan(self) -> float:
        """The largest constant of a component to plan with; infinite where nothing can be planned."""
        return float(self._per_node(np.max, self._plans()).max())

    def _plans(self) -> Array:
        return self.weight * self.component.planning_constants(self.squared_norms(), self.y)

    @computed_once
    def constants(self) -> Constants:
        s = self.squared_norms()
        L = self.weight * np.where(self.weight > 0, self.component.lipschitz_constants(s, self.y), 0.0)
        largest, largest_plan, plan = float(self._per_node(np.max, L).max()), self.largest_plan, self._plans()
        self._require_planned(largest_plan)
        if not largest_plan > 0:
            raise InputError("the data is all zero: there is nothing to learn from.")
        mean_plan = float(self.total(self._sums(plan))) / self.n_samples
        mu = self.lam if self.lam > 0 else 1.0 / (10 * self.n_samples)
        return Constants(largest, largest_plan, mean_plan, mu, int(self.all_sizes.max()))

    def _require_planned(self, bound: float) -> None:
        """An error unless there is a bound of the slopes that step sizes can be planned with."""
        if not np.isfinite(bound):
            raise InputError(
                f"no step size can be planned for {type(self.component).__name__}: give its class a finite "
                "'lipschitz' (sup of slope), or its own planning_constants."
            )

    def digest(self) -> str:
        """A fingerprint of data, split, operator and lambda, to match checkpoints with."""
        h = hashlib.sha256(repr((self.component, self.lam, self.dim, self.n_regular, self.penalty)).encode())
        indptr, indices, values = self.csr
        for array in (indptr, indices.astype(np.int64), values, self.y, self.weight, self.start):
            h.update(np.ascontiguousarray(array).data)
        return h.hexdigest()
