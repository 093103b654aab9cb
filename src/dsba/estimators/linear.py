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
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_curve
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from dsba import operators
from dsba._system.docstrings import inherit_parameters
from dsba.algorithms import Algorithm
from dsba.engine.run import Result, Status
from dsba.errors import InputError, as_number, as_share, require_known
from dsba.fitting import Fit, FitSpec, Rows, as_rows, fit_rows, not_converged, numbered
from dsba.fitting.fit import Coefficients
from dsba.fitting.rows import measured, sums
from dsba.network import Alone, Group
from dsba.network.contract import ROWS_OF_DATA, TOTALS
from dsba.operators import Operator, ScaledHuber
from dsba.operators.penalties import L1
from dsba.types import Array

ESTIMATOR_DEFAULTS = FitSpec()
ROUGH_TOL, ROUGH_PASSES = 1e-2, 100  # of a fit that only finds a scale


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


def _of_one_score(estimator: Decentralized, operator: Operator, instead: str) -> Operator:
    """The operator, if a sample has one score in it."""
    if operator.labels == "multiclass":
        name, kind = type(operator).__name__, type(estimator).__name__
        raise InputError(f"{kind} fits losses of one score, and {name} has one for each class: {instead}.")
    return operator


# Classifiers -------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class _Classifier(ClassifierMixin, Decentralized):
    """One score for two classes, one per class for more. ``C`` is the inverse regularisation: lam = 1/(C sum s).

    Parameters
    ----------
    C : float
        The inverse of the regularisation: lam = 1/(C sum of weights).
    """

    C: float = 1.0

    def _lam(self, total: float) -> float:
        return 1.0 / (as_number("C", self.C, above=0.0) * total)

    def fit(self, X: Any, y: Any, nodes: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix
            One row for each sample.
        y : array-like
            One label for each row.
        nodes : array-like or None
            The node of each row, by number or by name; None splits the rows at random.
        sample_weight : array-like or None
            A weight of each row; None is 1.

        Returns
        -------
        object
            The estimator itself.

        Raises
        ------
        InputError
            If data, labels or settings are not usable.
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        if self._group.size > 1:
            self.classes_ = np.unique(np.concatenate(self._group.share(self.classes_.tolist(), discloses=TOTALS)))
        if self.classes_.size < 2:
            raise InputError(
                f"{type(self).__name__} needs samples of two classes, got one class: {self.classes_[0]!r}."
            )
        rows = self._rows(X, y, nodes, sample_weight)
        self._require_weight(rows)
        self._fit_classes(rows)
        return self

    def _require_weight(self, rows: Rows) -> None:
        """A class whose weights are all 0 is as good as absent, and the intercept would grow without end."""
        present = np.unique(rows.y[rows.weight > 0]).tolist()
        heavy = set().union(*self._group.share(present, discloses=TOTALS))
        if len(heavy) < 2:
            raise InputError(f"{type(self).__name__} needs samples of two classes with a weight above 0.")
        if light := [label for label in self.classes_.tolist() if label not in heavy]:
            raise InputError(f"all samples of the class {light[0]!r} have the weight 0: leave them out.")

    def _fit_classes(self, rows: Rows) -> None:
        """Two classes are one problem, more are one against the rest for each."""
        targets = self.classes_[1:] if self.classes_.size == 2 else self.classes_
        previous = self._previous((len(targets), rows.X.shape[1]))
        fits = []
        for c, target in enumerate(targets):
            start = None if previous is None else (previous[0][c : c + 1], previous[1][c : c + 1])
            fits.append(self._solve(rows._replace(y=np.where(rows.y == target, 1.0, -1.0)), start))
        self._keep(fits)

    def decision_function(self, X: Any) -> Array:
        """The score of each class, or of the second one where there are two.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix
            One row for each sample.

        Returns
        -------
        numpy.ndarray
            One number per sample, or one column per class.
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The predicted classes.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix
            One row for each sample.

        Returns
        -------
        numpy.ndarray
            One class per sample.
        """
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]


@dataclass(eq=False, repr=False)
class DecentralizedClassifier(_Classifier):
    """Any loss for two classes, one-vs-rest for more: min_w C sum_i s_i loss_i + 1/2 ||w||^2.

    Parameters
    ----------
    operator : str or Operator
        The loss: "logistic", "squared-hinge", or an operator object with binary labels.

    Examples
    --------
    >>> import dsba
    >>> X, y = dsba.data.load_breast_cancer()
    >>> model = dsba.DecentralizedClassifier(n_nodes=4).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    operator: str | Operator = "logistic"

    def _operator(self) -> Operator:
        return _of_one_score(self, super()._operator(), "DecentralizedLogisticRegression has one for each class")


@dataclass(eq=False, repr=False)
class DecentralizedLogisticRegression(_Classifier):
    """Logistic regression, as ``sklearn.linear_model.LogisticRegression`` with its L2 penalty.

    min_w C sum_i s_i log(1 + exp(-y_i x_i'w)) + 1/2 ||w||^2 for two classes.

    Parameters
    ----------
    multi_class : str
        For more than two classes: "multinomial" (the softmax of one score per class) or "ovr" (one class against the
        rest).

    Examples
    --------
    >>> import dsba
    >>> X, y = dsba.data.load_breast_cancer()
    >>> model = dsba.DecentralizedLogisticRegression(n_nodes=4).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    multi_class: str = "multinomial"

    def _fit_classes(self, rows: Rows) -> None:
        require_known("multi_class", self.multi_class, ("multinomial", "ovr"))
        if not self._joint:
            super()._fit_classes(rows)
            return
        numbers = np.searchsorted(self.classes_, rows.y)
        previous = self._previous((self.classes_.size, rows.X.shape[1]))
        self._keep([self._solve(rows._replace(y=numbers), previous)])

    @property
    def _joint(self) -> bool:
        return self.classes_.size > 2 and self.multi_class == "multinomial"

    def _operator(self) -> Operator:
        return operators.get("softmax" if self._joint else "logistic")

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix
            One row for each sample.

        Returns
        -------
        numpy.ndarray
            One column per class.
        """
        scores = self.decision_function(X)
        if self._joint:
            return softmax(scores, axis=1)
        shares = expit(scores)
        if shares.ndim == 1:
            return np.column_stack([1.0 - shares, shares])
        return shares / shares.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix
            One row for each sample.

        Returns
        -------
        numpy.ndarray
            One column per class.
        """
        return np.log(self.predict_proba(X))


@dataclass(eq=False, repr=False)
class DecentralizedSVM(_Classifier):
    """Support vector machine with the squared hinge loss, as ``sklearn.svm.LinearSVC``; one-vs-rest.

    min_w C sum_i s_i max(0, 1 - y_i x_i'w)^2 + 1/2 ||w||^2. The intercept is not regularised, which it is in
    ``LinearSVC``: with ``fit_intercept=False`` the two are the same.

    Examples
    --------
    >>> import dsba
    >>> X, y = dsba.data.load_breast_cancer()
    >>> model = dsba.DecentralizedSVM(n_nodes=4).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _loss = "squared-hinge"


@dataclass(eq=False, repr=False)
class DecentralizedAUCClassifier(_Classifier):
    """Maximises the area under the ROC curve by the pairwise squared loss, for two classes.

    ``decision_function`` ranks; ``predict`` cuts at the threshold with the best balanced accuracy on the
    training scores, which is minus ``intercept_``.

    Examples
    --------
    >>> import dsba
    >>> X, y = dsba.data.load_breast_cancer()
    >>> model = dsba.DecentralizedAUCClassifier(n_nodes=4).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _loss = "auc"

    def _fit_classes(self, rows: Rows) -> None:
        if self.classes_.size > 2:
            raise InputError(
                "Only binary classification is supported. DecentralizedAUCClassifier ranks two classes, got "
                f"{self.classes_.size}."
            )
        super()._fit_classes(rows)
        self.intercept_ = np.array([-self._threshold(rows)]) if self.fit_intercept else np.zeros(1)
        self.node_intercept_ = np.tile(self.intercept_, (len(self.node_coef_), 1))

    def _threshold(self, rows: Rows) -> float:
        scores = rows.X @ self.coef_[0]
        positive, weight = rows.y == self.classes_[1], rows.weight
        parts = (scores, positive, weight)
        scores, positive, weight = (self._group.gather(1.0 * part, discloses=ROWS_OF_DATA) for part in parts)
        false, true, thresholds = roc_curve(positive, scores, sample_weight=weight)
        best = int(np.argmax(true - false))
        above = thresholds[best] if np.isfinite(thresholds[best]) else scores.max()
        below = scores[scores < above]
        return float(0.5 * (above + below.max())) if below.size else float(above)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


# Regressors --------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class _Regressor(RegressorMixin, Decentralized):
    """Fits and predicts one number. ``alpha`` is the regularisation: lam = alpha / sum of the weights.

    Parameters
    ----------
    alpha : float
        The regularisation: lam = alpha / sum of weights.
    """

    alpha: float = 1.0

    def _lam(self, total: float) -> float:
        return as_number("alpha", self.alpha, at_least=0.0) / total

    def fit(self, X: Any, y: Any, nodes: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix
            One row for each sample.
        y : array-like
            One label for each row.
        nodes : array-like or None
            The node of each row, by number or by name; None splits the rows at random.
        sample_weight : array-like or None
            A weight of each row; None is 1.

        Returns
        -------
        object
            The estimator itself.

        Raises
        ------
        InputError
            If data, labels or settings are not usable.
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
        self._fit(self._rows(X, y.astype(np.float64), nodes, sample_weight))
        return self

    def _fit(self, rows: Rows, scale: float = 1.0) -> Fit:
        """Solve with labels in units of ``scale``."""
        previous = self._previous((1, rows.X.shape[1]))
        start = None if previous is None else (previous[0] / scale, previous[1] / scale)
        fit = self._solve(rows._replace(y=rows.y / scale), start)
        self._keep([fit], scale)
        self.node_coef_, self.node_intercept_ = self.node_coef_[:, 0], self.node_intercept_[:, 0]
        self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        return fit

    def predict(self, X: Any) -> Array:
        """The predicted labels; the expected counts where the loss is one of counts.

        Parameters
        ----------
        X : array-like or scipy.sparse matrix
            One row for each sample.

        Returns
        -------
        numpy.ndarray
            One number per sample.
        """
        scores, operator = self._scores(X), self._operator()
        return operator.decide(scores[:, None]) if operator.decision == "number" else scores


@dataclass(eq=False, repr=False)
class DecentralizedRegressor(_Regressor):
    """Any loss for real labels: min_w sum_i s_i loss_i + alpha/2 ||w||^2.

    Parameters
    ----------
    operator : str or Operator
        The loss: "ridge", "huber", or an operator object.

    Examples
    --------
    >>> import dsba, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = dsba.DecentralizedRegressor(n_nodes=4).fit(X, X @ [1.0, 2.0, 3.0])
    >>> bool(model.score(X, X @ [1.0, 2.0, 3.0]) > 0.9)
    True
    """

    operator: str | Operator = "ridge"

    def _operator(self) -> Operator:
        return _of_one_score(self, super()._operator(), "classes are for the classifiers")


@dataclass(eq=False, repr=False)
class DecentralizedRidge(_Regressor):
    """Ridge regression: min_w ||y - Xw||^2 + alpha ||w||^2, as ``sklearn.linear_model.Ridge``.

    Examples
    --------
    >>> import dsba, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = dsba.DecentralizedRidge(n_nodes=4).fit(X, X @ [1.0, 2.0, 3.0])
    >>> bool(model.score(X, X @ [1.0, 2.0, 3.0]) > 0.9)
    True
    """

    _loss = "ridge"


@dataclass(eq=False, repr=False)
class DecentralizedPoisson(_Regressor):
    """Poisson regression with a logarithmic link, as ``sklearn.linear_model.PoissonRegressor``.

    min_w (1/sum s) sum_i s_i (exp(x_i'w) - y_i x_i'w) + alpha/2 ||w||^2; predictions are exp(x'w).

    Parameters
    ----------
    alpha : float
        The regularisation: lam = alpha.

    Examples
    --------
    >>> import dsba, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> model = dsba.DecentralizedPoisson(alpha=0.01, n_nodes=4).fit(X, rng.poisson(np.exp(X[:, 0])))
    >>> model.coef_.round(1).tolist()
    [1.0, -0.0]
    """

    _loss = "poisson"

    def _lam(self, total: float) -> float:
        return as_number("alpha", self.alpha, at_least=0.0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


@dataclass(eq=False, repr=False)
class DecentralizedHuber(_Regressor):
    """Robust regression, as ``sklearn.linear_model.HuberRegressor``, with an estimated scale sigma.

    min over w and sigma of sum_i s_i (sigma + sigma H((x_i'w - y_i)/sigma)) + alpha ||w||^2, H quadratic up
    to ``epsilon`` and linear beyond. For Huber's loss with a fixed width use
    ``DecentralizedRegressor(operator=dsba.operators.Huber(delta))``.

    Parameters
    ----------
    alpha : float
        The regularisation: lam = 2 alpha / sum of weights.
    epsilon : float
        Residuals above epsilon sigma count linearly.

    Examples
    --------
    >>> import dsba, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> model = dsba.DecentralizedHuber(n_nodes=4).fit(X, X @ [1.0, 2.0, 3.0] + rng.normal(size=200))
    >>> model.coef_.round(0).tolist()
    [1.0, 2.0, 3.0]
    """

    alpha: float = 0.0001
    epsilon: float = 1.35
    _extra = 1.0  # sigma

    def _operator(self) -> Operator:
        return ScaledHuber(as_number("epsilon", self.epsilon))

    def _lam(self, total: float) -> float:
        return 2.0 * as_number("alpha", self.alpha, at_least=0.0) / total

    def _fit(self, rows: Rows, scale: float = 1.0) -> Fit:
        """Fit with labels in units of about sigma, because step sizes are planned for sigma = 1."""
        warm = self._previous((1, rows.X.shape[1])) is not None
        self._unit = self.scale_ if warm else self._residual_size(rows)
        fit = super()._fit(rows, self._unit)
        self.scale_: float = self._unit * float(fit.result.z[-1])
        return fit

    def _residual_size(self, rows: Rows) -> float:
        """The mean absolute residual of a rough least-squares fit."""
        shared = {field.name: getattr(self, field.name) for field in fields(Decentralized)}
        rough = {"warm_start": False, "tol": ROUGH_TOL, "max_passes": ROUGH_PASSES, "callbacks": (), "verbose": False}
        model = DecentralizedRidge(self.alpha, **(shared | rough))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model._fit(rows)
        residual = np.abs(rows.y - rows.X @ model.coef_ - model.intercept_)
        total, weight = sums(rows, self._group, rows.weight * residual, rows.weight)
        return total / weight or 1.0


for _estimator in (
    DecentralizedAUCClassifier, DecentralizedClassifier, DecentralizedHuber, DecentralizedLogisticRegression,
    DecentralizedPoisson, DecentralizedRegressor, DecentralizedRidge, DecentralizedSVM,
):  # fmt: skip
    inherit_parameters(_estimator)
