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
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dsba._system.memory import own_pages
from dsba._system.once import computed_once
from dsba._system.threads import CORES, WORTH
from dsba._version import __version__
from dsba.data import dataset
from dsba.errors import InputError, NetworkError
from dsba.kernels import samples as kernel
from dsba.network import Alone, Group, alike, counted, require_agreement
from dsba.network.contract import TOTALS
from dsba.operators import Operator
from dsba.operators.consistency import require_consistent
from dsba.operators.penalties import Penalty
from dsba.problem import constants as bounds
from dsba.problem import validation
from dsba.problem.components import Batches, Components
from dsba.problem.local import LocalSums
from dsba.problem.pooled import Pooled, residual_unit
from dsba.types import Array


class PartWatch(Protocol):
    """What a process looks at before it sends its part of a sum at a new point."""

    def __call__(self, z: Array, last: Array, information: Array) -> bool:
        """Whether the part at ``z`` must not be sent; ``information`` is the mean Hessian of the last point."""

    def end(self) -> None:
        """An error at all processes if one of them does not send its part."""


class Problem:
    """The data of all nodes, an operator (the loss) and lambda.

    Parameters
    ----------
    shards : Sequence[tuple[object, ...]]
        One pair (X, y) per node, or (X, y, sample weights); X a scipy sparse matrix or array-like,
        all of one width.
    operator : str or Operator
        A registered name ("ridge", "logistic", "auc", ...) or an operator object.
    lam : float or None
        The regularisation; None is the paper's 1/(10 Q).
    regularize : str
        "weights" leaves the operator's extra coordinates (AUC's a, b, theta) free, "all" is
        the paper's lambda on everything.
    intercept : bool or float
        Append a constant column, free of lambda like the extra coordinates; a number is its value
        (True is 1), which leaves the solution's predictions alone but not the conditioning.
    penalty : Penalty or None
        A convex function of the weights beyond lambda, such as ``dsba.penalties.L1(0.01)``; for objectives only,
        and for the methods that have a proximal step.
    group : Group or None
        The processes that hold the problem together, each with the shards of its own nodes: a
        ``dsba.MPINetwork`` or another transport; None is this one alone.
    classes : Sequence[object] or None
        The labels of all processes, sorted, if they are known; with None the processes exchange theirs.

    Attributes
    ----------
    n_nodes, n_samples, n_features, dim : int
        The numbers of nodes, of all their samples, of columns, and of coordinates of z.
    lam : float
        The regularisation.
    classes : array or None
        The labels, sorted; None for losses of numbers.

    Raises
    ------
    InputError
        If shards, labels or numbers are not usable, or processes were given different settings.

    Notes
    -----
    The attributes above, ``from_arrays`` and ``objective`` are kept within a major version. The other names
    are for algorithms and networks (see "Architecture" in the documentation), and may change with a minor version.

    Examples
    --------
    >>> import dsba, numpy as np
    >>> X, y = np.eye(4), np.array([1.0, 2.0, 3.0, 4.0])
    >>> problem = dsba.Problem([(X[:2], y[:2]), (X[2:], y[2:])], "ridge", lam=0.1)
    >>> problem.n_nodes, problem.n_samples, problem.dim
    (2, 4, 4)
    """

    watch: PartWatch | None = None

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
        samples = validation.of_shards(shards)
        terms = validation.checked_terms(operator, lam, regularize, intercept, penalty, classes)
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
        """Pooled data, split over nodes.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix
            One row for each sample.
        y : array-like
            One label for each row.
        operator : str or Operator
            A registered name or an operator object, as in ``Problem``.
        n_nodes : int
            The number of nodes. With "column:4" and with an array as ``split`` it follows from the data.
        lam : float or None
            The regularisation; None is 1/(10 Q).
        split : str or array-like
            A name that ``dsba.data.splits`` lists ("random", "label", "dirichlet:0.3", ...), or the node of each row.
        normalize : bool
            Scale every row to norm 1 (without the intercept); empty rows stay empty.
        seed : int
            The seed of a random split.
        regularize : str
            As in ``Problem``.
        intercept : bool or float
            As in ``Problem``.
        penalty : Penalty or None
            As in ``Problem``.
        sample_weight : array-like or None
            A weight of each row; None is 1.

        Returns
        -------
        Problem
            The problem of all nodes.

        Raises
        ------
        InputError
            If data, labels or the split are not usable.

        Examples
        --------
        >>> import dsba
        >>> dsba.Problem.from_arrays(*dsba.data.load_breast_cancer(), n_nodes=4, lam=0.1).sizes.tolist()
        [143, 142, 142, 142]
        """
        X = validation.as_csr(X, "X")
        y = validation.as_labels(y, X.shape[0], "X")
        weights = validation.as_weights(sample_weight, X.shape[0], "X")
        order, sizes = validation.split_rows(X, y, n_nodes, split, seed)
        X = sp.csr_array(X[order])  # a copy: scaled in place below
        if normalize:
            kernel.normalize_rows(X.indptr, X.data)
        self = cls.__new__(cls)
        samples = validation.GivenSamples(X, y[order], weights[order], sizes)
        self._assemble(samples, validation.checked_terms(operator, lam, regularize, intercept, penalty), Alone())
        return self

    def _assemble(self, samples: validation.GivenSamples, terms: validation.Terms, group: Group) -> None:
        self.group, self.sizes = group, samples.sizes
        self.intercept, self.penalty, self.n_features = terms.intercept, terms.penalty, int(samples.X.shape[1])
        self._agree(samples.sizes, terms)
        self.lam = 1.0 / (10 * self.n_samples) if terms.lam is None else terms.lam
        self.y, self.classes = validation.map_labels(samples.y, terms, group)
        self.sample_weight = samples.weights / self._mean_weight(samples.weights)
        self.component = self._fitted(terms.component)
        require_consistent(self.component, self.y)
        self.k, copies = self.component.k, self.component.copies
        self.dim = copies * (self.n_features + bool(self.intercept)) + self.component.extra
        self.n_regular = self.dim if terms.regularize == "all" else copies * self.n_features
        self.weight = self.sample_weight * np.repeat(self.n_nodes * self.sizes / self.n_samples, self.sizes)
        self._keep(samples.X)

    def _agree(self, sizes: npt.NDArray[np.int64], terms: validation.Terms) -> None:
        """All processes were given the same, and know how many nodes and samples there are."""
        if (empty := np.flatnonzero(sizes == 0)).size:
            counts = sizes.tolist()
            raise InputError(f"every node needs at least one sample, node {empty[0]} has none (sizes {counts}).")
        if not self.n_features and not terms.intercept:
            raise InputError("the samples have no columns, and there is no intercept.")
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
        nonzeros = np.diff(self.A.indptr[self.start * self.k]).astype(np.float64)
        self.mean_nnz = float(self.total(nonzeros)) / self.n_samples

    def gathered(self, rows: Array, *, discloses: str) -> Array:
        """The rows (or numbers) of all processes' nodes, given one for each node held here."""
        everyone, wanted = self.group.gather(rows, discloses=discloses), (self.n_nodes, *rows.shape[1:])
        if everyone.size != (due := math.prod(wanted)):
            raise NetworkError(f"all processes together sent {everyone.size} numbers where {due} are due.")
        return everyone.reshape(wanted)

    def _mean_weight(self, weights: Array) -> float:
        total = float(self.total(self.sums(weights)))
        validation.require_weight(total)
        return total / self.n_samples

    def _fitted(self, component: Operator) -> Operator:
        """The operator with what it must know of all labels; of classes, that is their total weights."""
        if self.classes is None:
            return component.fitted(self.y, self.sample_weight)
        values = np.array([-1.0, 1.0]) if component.labels == "binary" else np.arange(float(self.classes.size))
        weights = [self.sums(self.sample_weight * (self.y == value)) for value in values]
        return component.fitted(values, self.total(np.column_stack(weights)))

    def __repr__(self) -> str:
        name = type(self.component).__name__
        return f"Problem({name}, {self.n_samples} x {self.n_features}, N={self.n_nodes}, lam={self.lam:.3g})"

    # What is computed with the problem -----------------------------------------------------------

    @property
    def components(self) -> Components:
        """What an iteration takes of each node: one sample."""
        return Components(self)

    def batches(self, batch_size: int) -> Components:
        """What an iteration takes of each node: a batch of at most ``batch_size`` samples."""
        return Components(self) if batch_size == 1 else Batches(self, batch_size)

    @property
    def local(self) -> LocalSums:
        """Stacked rows, and sums over each node's samples."""
        return LocalSums(self)

    @property
    def pooled(self) -> Pooled:
        """The problem over all samples of all nodes."""
        return Pooled(self)

    constants = computed_once(bounds.constants)
    largest_plan = computed_once(bounds.largest_plan)
    local_smoothness = computed_once(bounds.local_smoothness)
    mean_curvature = computed_once(bounds.mean_curvature)
    residual_unit = computed_once(residual_unit)

    def local_operator(self, Z: Array) -> Array:
        """Row n: the local operator c_n (1/q_n) sum_i B_i(z_n) + Lambda z_n."""
        out = self.lam_diag * Z
        self.local.add_operator(Z, 1.0, out)
        return out

    @property
    def has_objective(self) -> bool:
        return self.component.has_loss

    def objective(self, z: Array) -> float:
        """(1/Q) sum loss + lam/2 ||z||^2 over the regularised coordinates, and the penalty where there is one.

        Parameters
        ----------
        z : array
            A point of ``dim`` coordinates.

        Returns
        -------
        float
            The pooled objective. All processes of a group must ask for it together.

        Raises
        ------
        InputError
            If the operator is not the gradient of an objective.

        Examples
        --------
        >>> import dsba, numpy as np
        >>> problem = dsba.Problem([(np.eye(2), np.array([1.0, 3.0]))], "ridge", lam=0.1)
        >>> problem.objective(np.zeros(2))
        2.5
        """
        return self.pooled.objective(z)

    # What the samples are ------------------------------------------------------------------------

    @cached_property
    def lam_diag(self) -> Array:
        """Lambda's diagonal."""
        diag = np.full(self.dim, self.lam)
        diag[self.n_regular :] = 0.0
        return diag

    @property
    def sweep(self) -> float:
        """Multiply-adds of one sweep of all data: the image of every sample, and its way back."""
        return 2.0 * self.mean_nnz * self.n_samples

    @property
    def gram_work(self) -> float:
        """Multiply-adds of the nodes' matrices A'A: n^2 for a row of A with n entries, here of the mean length.

        Rows of unequal lengths take more. Their squares would be one more sum over all processes.
        """
        return self.n_samples * self.mean_nnz**2 / self.k

    @cached_property
    def touched_columns(self) -> tuple[Any, Any]:
        """Node by node, the columns that its samples touch, in order; and where each node's begin."""
        (indptr, indices, _), place, columns = self.csr, np.empty(self.dim, np.int64), []
        for first, last in pairwise(indptr[self.start * self.k]):
            own, at = indices[first:last], np.arange(last - first)
            place[own] = at  # of the entries of a column one stays
            columns.append(np.sort(own[place[own] == at]))
        return np.concatenate(columns), np.concatenate([[0], np.cumsum([part.size for part in columns])])

    def mean(self, Z: Array) -> Array:
        """The mean of all nodes' rows."""
        return self.total(Z) / self.n_nodes

    def total(self, rows: Array) -> Array:
        """The exact sum over all nodes, given one row (or number) for each node held here."""
        return self.group.sum(rows.reshape(len(rows), -1)).reshape(rows.shape[1:])

    def sums(self, of_samples: Array) -> Array:
        """For each node held here, the sum over its samples."""
        return np.add.reduceat(of_samples, self.start[:-1])

    def unpack(self, Z: Array) -> tuple[Array, Array]:
        """The weights (copies x n_features) and the intercepts (copies) of one iterate, or of rows of them."""
        copies = self.component.copies
        columns = Z[..., : Z.shape[-1] - self.component.extra].reshape(*Z.shape[:-1], -1, copies)
        weights = np.moveaxis(columns[..., : self.n_features, :], -1, -2)
        constant = columns[..., -1, :] if self.intercept else np.zeros(weights.shape[:-1])
        return weights, self.intercept * constant

    @cached_property
    def node_cuts(self) -> list[int]:
        """The nodes in one piece per core, of about equal nonzeros; in one piece if there are too few for threads."""
        if self.A.nnz < WORTH:
            return [0, len(self.nodes)]
        nonzeros = self.A.indptr[self.start * self.k].astype(np.float64)
        shares = np.linspace(0, nonzeros[-1], CORES + 1)
        return [int(c) for c in np.unique([0, *np.searchsorted(nonzeros, shares[1:-1]), len(self.nodes)])]

    @property
    def samples(self) -> kernel.Samples:
        """What kernels need of the samples held here."""
        return kernel.Samples(self.csr, self.y, self.weight, self.start, self.k)

    def squared_norms(self, r: Array | None = None) -> Array:
        """Squared norms of the rows of every A_i, in the metric diag(r) (Q x k)."""
        out = np.empty((self.y.size, self.k))
        kernel.norms_all(self.csr, np.ones(self.dim) if r is None else r, out)
        return out

    @computed_once
    def all_sizes(self) -> npt.NDArray[np.int64]:
        """How many samples each node has; methods that need it ask all processes for it."""
        return self.gathered(self.sizes.astype(np.float64), discloses=TOTALS).astype(np.int64)

    def digest(self) -> str:
        """A fingerprint of data, split, operator and lambda, to match checkpoints with."""
        h = hashlib.sha256(repr((self.component, self.lam, self.dim, self.n_regular, self.penalty)).encode())
        indptr, indices, values = self.csr
        for array in (indptr, indices.astype(np.int64), values, self.y, self.weight, self.start):
            h.update(np.ascontiguousarray(array).data)
        return h.hexdigest()
