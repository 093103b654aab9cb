"""scikit-learn estimators: a model of all nodes' data with the habits of scikit-learn.

``fit(X, y)`` splits the data over simulated nodes; ``fit(X, y, nodes=site_of_row)`` takes the split as
it is. The result is that of scikit-learn's estimator on the pooled data, to the tolerance asked for.

    w, b = argmin  (1/sum s) sum_i s_i loss(x_i'w + b, y_i) + lam/2 ||w||^2

with sample weights s and an intercept b that is not regularised; each class says how its alpha or C
gives lam. Estimators are dataclasses: the generated ``__init__`` stores its arguments and does nothing
else, which is scikit-learn's contract.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from dsba import algorithms
from dsba.algorithms import Algorithm
from dsba.algorithms.one_sample import OneSample
from dsba.engine import Result, Status, solve
from dsba.errors import InputError, as_array, as_integer, as_number
from dsba.operators import Operator
from dsba.problem import Problem
from dsba.topology import Topology

Array = npt.NDArray[np.float64]

EVEN = 2.0  # a row this many times the mean squared norm is held as several rows that share its weight
ROUGH_TOL, ROUGH_PASSES = 1e-2, 100  # of a fit that only finds a scale
CONSTANT = 0.5  # the constant column that carries the intercept, relative to the rows' norms


class Fit(NamedTuple):
    """One solved problem: the mean model, (copies x d) and (copies), and each node's."""

    result: Result
    mean: tuple[Array, Array]
    nodes: tuple[Array, Array]


class Rows(NamedTuple):
    """Samples on their way into a problem; ``nodes`` is None where the problem shall split them."""

    X: Any
    y: npt.NDArray[Any]
    weight: Array
    nodes: npt.NDArray[np.int64] | None


@dataclass(kw_only=True, eq=False, repr=False)
class Decentralized(BaseEstimator):
    """What all estimators share.

    Parameters
    ----------
    n_nodes : nodes to split the data over, at most one per row; not used where ``nodes`` or the graph say it.
    graph : "random", "ring", "path", "star", "complete", "grid", a networkx graph, a ``Topology`` or a list of
        edges. A networkx graph's nodes are taken in sorted order, as the names in ``nodes`` are.
    algorithm : a registered name or an ``Algorithm`` object, also one of your own.
    fit_intercept : whether to fit an intercept, exact and not regularised.
    tol : stop when the norm of the optimality condition is this small, relative to the model of the
        intercept alone.
    max_passes : stop after this many passes over the data, with a ConvergenceWarning.
    step_size : a number or a rule's name.
    random_state : of the split, the random graph and the order of the samples.
    warm_start : start from the last fit's coefficients, where their shape still fits.
    communication : "dense", "sparse" or "cached" for the methods that know it; None is the method's own.
    network : an MPI network, whose graph is used; then X and y are this process's rows, and ``nodes`` tells
        its own nodes apart (None: all rows are one node's).
    callbacks : functions called with each record of the history; a true return value stops the fit.
    verbose : show a progress bar.
    """

    n_nodes: int = 10
    graph: Any = "random"
    algorithm: str | Algorithm = "dsba"
    fit_intercept: bool = True
    tol: float = 1e-4
    max_passes: float = 1000
    step_size: float | str = "auto"
    random_state: Any = None
    warm_start: bool = False
    communication: str | None = None
    network: Any = None
    callbacks: Sequence[Callable[[dict[str, float]], object]] = ()
    verbose: bool = False

    def _operator(self) -> Operator:
        raise NotImplementedError

    def _lam(self, total: float) -> float:
        """lam, given the sum of all sample weights."""
        raise NotImplementedError

    def _start(self, problem: Problem, y: npt.NDArray[Any], weight: Array) -> Array:
        """Where a cold start begins."""
        return np.zeros(problem.dim)

    def _rows(self, X: Any, y: npt.NDArray[Any], nodes: Any, sample_weight: Any) -> Rows:
        """The samples, checked, with rows of exceptional length evened out and nodes numbered."""
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weight.any():
            raise InputError("all sample weights are zero: there is nothing to learn from.")
        numbers = None if nodes is None else _numbered(nodes, len(y))
        if self.network is not None and numbers is None:
            numbers = np.zeros(len(y), np.int64)
        return _evened(Rows(X, y, weight, numbers))

    def _solve(self, rows: Rows, previous: tuple[Array, Array] | None) -> Fit:
        """One problem from its rows to its solution; ``previous`` coefficients and intercepts are a warm start."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        total = self._total(rows.weight.sum())
        if self.network is None:
            topology = _topology(self.graph, _wanted_nodes(rows, self.n_nodes), seed)
        else:
            topology, seed = self.network.topology, self.network.share(seed)[0]
        problem = self._problem(rows, topology.n_nodes, self._lam(total), seed)
        start = cold = self._start(problem, rows.y, rows.weight)
        tol = as_number("tol", self.tol, at_least=0.0)
        options: dict[str, Any] = {}
        if previous is not None:
            start = _packed(problem, cold, *previous)
            tol *= _residual(problem, cold) / max(_residual(problem, start), 1e-300)
            if isinstance(algorithms.get(self.algorithm), OneSample):
                options["table"] = "full"  # a table of zeros would forget where the start is
        if self.communication is not None:
            options["communication"] = self.communication
        result = solve(
            problem, topology, self.algorithm, self.step_size, self.max_passes, tol, seed,
            z0=start, progress=bool(self.verbose), callbacks=list(self.callbacks), network=self.network, **options,
        )  # fmt: skip
        _warn_unless_converged(result, self)
        return Fit(result, problem.unpack(result.z), problem.unpack(result.Z))

    def _problem(self, rows: Rows, n_nodes: int, lam: float, seed: int) -> Problem:
        """In one process all rows; on a network the shards of this process's nodes."""
        constant = (self.fit_intercept and self._constant(rows)) or False
        operator = self._operator()
        if self.network is None:
            split = "random" if rows.nodes is None else rows.nodes
            return Problem.from_arrays(
                rows.X, rows.y, operator, n_nodes, lam, split, False, seed,
                intercept=constant, sample_weight=rows.weight,
            )  # fmt: skip
        assert rows.nodes is not None
        owned = [rows.nodes == n for n in np.unique(rows.nodes)]
        shards = [(rows.X[own], rows.y[own], rows.weight[own]) for own in owned]
        return Problem(shards, operator, lam, intercept=constant, group=self.network)

    def _constant(self, rows: Rows) -> float:
        """The value of the constant column: large enough to be found quickly, small beside the rows."""
        return CONSTANT * float(np.sqrt(self._mean(_squared_norms(rows.X), rows.weight))) or 1.0

    def _total(self, value: Any) -> float:
        """The sum over all processes."""
        return float(value) if self.network is None else float(self.network.gather(np.array([float(value)])).sum())

    def _mean(self, values: Any, weight: Array) -> float:
        """The weighted mean over all processes' samples."""
        return self._total(weight @ values) / self._total(weight.sum())

    def _keep(self, fits: list[Fit], scale: float = 1.0) -> None:
        """What a fit leaves behind; several fits are one-vs-rest's classes. Node rows are (N x outputs x d)."""
        self.node_coef_ = scale * np.concatenate([fit.nodes[0] for fit in fits], axis=1)
        self.node_intercept_ = scale * np.concatenate([fit.nodes[1] for fit in fits], axis=1)
        self.coef_ = scale * np.concatenate([fit.mean[0] for fit in fits])
        self.intercept_: Any = scale * np.concatenate([fit.mean[1] for fit in fits])
        results = [fit.result for fit in fits]
        self.history_ = results[0].history if len(results) == 1 else [result.history for result in results]
        self.n_iter_ = max(int(result.history["iteration"][-1]) for result in results)
        self.consensus_error_ = max(float(result.history["consensus"][-1]) for result in results)

    def _previous(self, shape: tuple[int, ...]) -> tuple[Array, Array] | None:
        """The last fit's coefficients (outputs x d) and intercepts, if they are a start for this one."""
        if not (self.warm_start and hasattr(self, "coef_")):
            return None
        coef = np.atleast_2d(self.coef_)
        return (coef, np.atleast_1d(self.intercept_)) if coef.shape == shape else None

    def _scores(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


# The door ----------------------------------------------------------------------------------------


def _numbered(nodes: Any, n_rows: int) -> npt.NDArray[np.int64]:
    """The node of each row as a number; names are numbered in sorted order."""
    nodes = as_array("nodes", nodes)
    if nodes.shape != (n_rows,):
        raise InputError(f"nodes must name the node of each row, got shape {nodes.shape} for {n_rows} rows.")
    if nodes.dtype.kind in "iu":
        return nodes.astype(np.int64)
    return np.unique(nodes, return_inverse=True)[1]


def _wanted_nodes(rows: Rows, n_nodes: int) -> int:
    if rows.nodes is not None:
        return int(rows.nodes.max()) + 1
    return min(as_integer("n_nodes", n_nodes, at_least=1), len(rows.y))


def _topology(graph: Any, n_nodes: int, seed: int) -> Topology:
    """The network of nodes; a graph of a given size keeps it."""
    if isinstance(graph, Topology):
        return graph
    if isinstance(graph, nx.Graph):
        return Topology.from_networkx(graph)
    if isinstance(graph, str):
        return Topology.family(graph, n_nodes, seed=seed)
    return Topology.from_edges(graph)


def _squared_norms(X: Any) -> Array:
    return np.asarray(X.multiply(X).sum(axis=1) if hasattr(X, "multiply") else np.einsum("ij,ij->i", X, X)).ravel()


def _evened(rows: Rows) -> Rows:
    """Rows much longer than the rest, each as several copies that share its weight.

    The problem stays the same. But a step size is planned for the hardest sample, and one is drawn as often
    as another: a few long rows would hold all back. At most 1/EVEN of the rows are added.
    """
    hardness = rows.weight * _squared_norms(rows.X)
    copies = np.maximum(1, np.ceil(hardness / max(EVEN * hardness.mean(), 1e-300))).astype(int)
    if copies.max() == 1:
        return rows
    at = np.repeat(np.arange(copies.size), copies)
    nodes = None if rows.nodes is None else rows.nodes[at]
    return Rows(rows.X[at], rows.y[at], (rows.weight / copies)[at], nodes)


def _packed(problem: Problem, z: Array, coef: Array, intercept: Array) -> Array:
    """z with the given weights (outputs x d) and intercepts: what ``problem.unpack`` takes apart."""
    z = z.copy()
    weights = z[: problem.component.copies * problem.n_features].reshape(problem.n_features, -1)
    weights[:] = coef.T
    if problem.intercept:
        constant = slice(weights.size, weights.size + problem.component.copies)
        z[constant] = intercept / problem.intercept
    return z


def _residual(problem: Problem, z: Array) -> float:
    return float(np.linalg.norm(problem.pooled(z)))


def _warn_unless_converged(result: Result, estimator: Decentralized) -> None:
    if result.status in (Status.CONVERGED, Status.INTERRUPTED):
        return
    advice = "scale the features (StandardScaler), raise max_passes or tol, or regularise more"
    if result.status == Status.DIVERGED:
        advice = "scale the features (StandardScaler) or give a smaller step_size"
    warnings.warn(
        f"{type(estimator).__name__} did not converge: {result.message} (tol={estimator.tol:g}). Try to {advice}.",
        ConvergenceWarning,
        stacklevel=4,
    )
