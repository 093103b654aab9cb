"""scikit-learn estimators: a model of all nodes' data with the habits of scikit-learn.

``fit(X, y)`` splits the data over simulated nodes; ``fit(X, y, nodes=site_of_row)`` takes the split as
it is. The result is that of scikit-learn's estimator on the pooled data, to the tolerance asked for.

    w, b = argmin  (1/sum s) sum_i s_i loss(x_i'w + b, y_i) + lam ((1 - l1_ratio)/2 ||w||^2 + l1_ratio ||w||_1)

with sample weights s and an intercept b that is not regularised; each class says how its alpha or C
gives lam. Estimators are dataclasses: the generated ``__init__`` stores its arguments and does nothing
else, which is scikit-learn's contract.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from dsba import operators
from dsba.algorithms import Algorithm
from dsba.engine.run import Result, Status
from dsba.errors import InputError, as_share
from dsba.fitting import Fit, FitSpec, Rows, as_rows, fit_rows, not_converged, numbered
from dsba.fitting.fit import Coefficients
from dsba.fitting.rows import measured
from dsba.network import Alone, Group
from dsba.network.contract import TOTALS
from dsba.operators import Operator
from dsba.operators.penalties import L1
from dsba.types import Array

ESTIMATOR_DEFAULTS = FitSpec()


@dataclass(kw_only=True, eq=False, repr=False)
class Decentralized(BaseEstimator):
    """Base class of the estimators.

    Parameters
    ----------
    n_nodes : int
        Nodes to split the data over, at most one per row; not used where ``nodes`` or the graph say it.
    graph : str, path-like, networkx.Graph, Topology or list of pairs
        What ``Topology.of`` accepts. The nodes of a networkx graph are taken in sorted order, as the names in ``nodes``
        are.
    algorithm : str or Algorithm
        A registered name or an ``Algorithm`` object. "auto" takes what ``dsba.algorithms.planner`` expects to be the
        fastest (``plan_`` shows the comparison), or dsba where ``step_size`` or ``communication`` is given.
    fit_intercept : bool
        Whether to fit an intercept, exact and not regularised.
    l1_ratio : float
        The share of the regularisation that is ||w||_1 in place of ||w||^2/2, as in scikit-learn's elastic
        nets; above 0 the algorithm must be one with a proximal step.
    tol : float
        Stop when the norm of the optimality condition is this small, relative to its norm at the model of the
        intercept alone (or at 0, where it is smaller), and the nodes' models agree as closely.
    max_passes : float
        Stop after this many passes over the data, with a ConvergenceWarning.
    step_size : float or str
        A number or a rule's name.
    random_state : object
        Of the split, the random graph and the order of the samples; a number is the seed itself, None
        draws a new one at every fit.
    warm_start : bool
        Start from the last fit's coefficients, where their shape still fits.
    communication : str or None
        "dense", "compressed", "sparse" or "cached" for the methods that know it; None is the method's own.
    network : object
        An MPI network, whose graph is used; then X and y are this process's rows, and ``nodes`` tells
        its own nodes apart (None: all rows are one node's).
    callbacks : Sequence[Callable[[dict[str, float]], object]]
        Functions called with each record of the history; a true return value stops the fit.
    verbose : bool
        Show a progress bar.
    """

    n_nodes: int = 10
    graph: Any = ESTIMATOR_DEFAULTS.graph
    algorithm: str | Algorithm = ESTIMATOR_DEFAULTS.algorithm
    fit_intercept: bool = ESTIMATOR_DEFAULTS.intercept
    l1_ratio: float = 0.0
    tol: float = ESTIMATOR_DEFAULTS.tol
    max_passes: float = ESTIMATOR_DEFAULTS.max_passes
    step_size: float | str = ESTIMATOR_DEFAULTS.step_size
    random_state: Any = ESTIMATOR_DEFAULTS.seed
    warm_start: bool = False
    communication: str | None = ESTIMATOR_DEFAULTS.communication
    network: Any = None
    callbacks: Sequence[Callable[[dict[str, float]], object]] = ()
    verbose: bool = False
    _unit = 1.0  # what labels are divided by; a penalty of squares is multiplied by it
    _extra = 0.0  # where the operator's extra coordinates start

    _loss: ClassVar[str | Operator] = ""

    def _operator(self) -> Operator:
        return operators.get(getattr(self, "operator", self._loss))

    def _lam(self, total: float) -> float:
        """lam, given the sum of all sample weights."""
        raise NotImplementedError

    @property
    def _group(self) -> Group:
        return self.network or Alone()

    def _rows(self, X: Any, y: npt.NDArray[Any], nodes: Any, sample_weight: Any) -> Rows:
        """The samples, checked, with nodes numbered."""
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return as_rows(X, y, weight, None if nodes is None else numbered(nodes, len(y)))

    def _ratio(self) -> float:
        return as_share("l1_ratio", self.l1_ratio)

    def _spec(self, total: float) -> FitSpec:
        lam, ratio = self._lam(total), self._ratio()
        return FitSpec(
            operator=self._operator(), lam=(1.0 - ratio) * self._unit * lam, intercept=bool(self.fit_intercept),
            graph=self.graph, penalty=L1(ratio * lam) if ratio > 0.0 else None,
            algorithm=self.algorithm, communication=self.communication, step_size=self.step_size,
            max_passes=self.max_passes, tol=self.tol,
            seed=self._group.share(_seed(self.random_state), discloses=TOTALS)[0],
        )  # fmt: skip

    def _solve(self, rows: Rows, previous: Coefficients | None) -> Fit:
        """One problem from its rows to its solution; ``previous`` coefficients and intercepts are a warm start."""
        size = measured(rows, self._group)
        done = fit_rows(
            rows, self._spec(size.weight), n_nodes=self.n_nodes, size=size, network=self.network, previous=previous,
            extra=self._extra, progress=bool(self.verbose), callbacks=self.callbacks,
        )  # fmt: skip
        _warn_unless_converged(done.result, self)
        return done

    def _keep(self, fits: list[Fit], scale: float = 1.0) -> None:
        """What a fit leaves behind; several fits are one-vs-rest's classes. Node rows are (N x outputs x d)."""
        self.node_coef_ = scale * np.concatenate([fit.nodes[0] for fit in fits], axis=1)
        self.node_intercept_ = scale * np.concatenate([fit.nodes[1] for fit in fits], axis=1)
        self.coef_ = scale * np.concatenate([fit.mean[0] for fit in fits])
        self.intercept_: Any = scale * np.concatenate([fit.mean[1] for fit in fits])
        results = [fit.result for fit in fits]
        self.history_ = results[0].history if len(results) == 1 else [result.history for result in results]
        self.plan_ = results[0].plan
        self.n_iter_ = max(int(result.history["iteration"][-1]) for result in results)
        self.consensus_error_ = max(float(result.history["consensus"][-1]) for result in results)

    def _previous(self, shape: tuple[int, ...]) -> Coefficients | None:
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


def _seed(random_state: Any) -> int:
    """A number is the seed itself; scikit-learn's other ways to say it draw one."""
    generator = check_random_state(random_state)
    if isinstance(random_state, numbers.Integral):
        return int(random_state)
    return int(generator.randint(2**31 - 1))


def _warn_unless_converged(result: Result, estimator: Decentralized) -> None:
    if result.status in (Status.CONVERGED, Status.INTERRUPTED):
        return
    name, advice = type(estimator).__name__, not_converged.ADVICE[result.status]
    not_converged.warn(not_converged.unconverged(name, result.message, estimator.tol, advice), stacklevel=4)


def of_one_score(estimator: Decentralized, operator: Operator, instead: str) -> Operator:
    """The operator, if a sample has one score in it."""
    if operator.labels == "multiclass":
        name, kind = type(operator).__name__, type(estimator).__name__
        raise InputError(f"{kind} fits losses of one score, and {name} has one for each class: {instead}.")
    return operator
