"""Regressors: one number per row."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import validate_data

from dsba.errors import as_number
from dsba.estimators.base import ROUGH_PASSES, ROUGH_TOL, Array, Decentralized, Fit, Rows, _packed
from dsba.operators import Operator, ScaledHuber
from dsba.operators import get as get_operator
from dsba.problem import Problem


@dataclass(eq=False, repr=False)
class _Regressor(RegressorMixin, Decentralized):
    """Fits and predicts one number. ``alpha`` is the regularisation: lam = alpha / sum of the weights."""

    alpha: float = 1.0

    def _lam(self, total: float) -> float:
        return as_number("alpha", self.alpha, at_least=0.0) / total

    def fit(self, X: Any, y: Any, nodes: Any = None, sample_weight: Any = None) -> Self:
        """Fit to the rows of X; ``nodes`` says at which node each row is, by number or by name."""
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

    def _start(self, problem: Problem, y: npt.NDArray[Any], weight: Array) -> Array:
        """The model of the intercept alone, so that ``tol`` does not depend on where the labels lie."""
        return _packed(problem, np.zeros(problem.dim), np.zeros((1, 1)), self._centre(y, weight))

    def _centre(self, y: npt.NDArray[Any], weight: Array) -> Array:
        """A score near the labels."""
        return np.array([self._mean(y, weight)])

    def predict(self, X: Any) -> Array:
        """The predicted labels."""
        return self._scores(X)


@dataclass(eq=False, repr=False)
class DecentralizedRegressor(_Regressor):
    """Any loss for real labels: min_w sum_i s_i loss_i + alpha/2 ||w||^2.

    ``operator`` is "ridge", "huber", or an operator object of your own.
    """

    operator: str | Operator = "ridge"

    def _operator(self) -> Operator:
        return get_operator(self.operator)


@dataclass(eq=False, repr=False)
class DecentralizedRidge(_Regressor):
    """Ridge regression: min_w ||y - Xw||^2 + alpha ||w||^2, as ``sklearn.linear_model.Ridge``."""

    def _operator(self) -> Operator:
        return get_operator("ridge")


@dataclass(eq=False, repr=False)
class DecentralizedPoisson(_Regressor):
    """Poisson regression with a logarithmic link, as ``sklearn.linear_model.PoissonRegressor``.

    min_w (1/sum s) sum_i s_i (exp(x_i'w) - y_i x_i'w) + alpha/2 ||w||^2; predictions are exp(x'w).
    """

    def _operator(self) -> Operator:
        return get_operator("poisson")

    def _lam(self, total: float) -> float:
        return as_number("alpha", self.alpha, at_least=0.0)

    def _centre(self, y: npt.NDArray[Any], weight: Array) -> Array:
        return np.log(np.maximum(super()._centre(y, weight), 1e-10))

    def predict(self, X: Any) -> Array:
        return np.exp(self._scores(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags


@dataclass(eq=False, repr=False)
class DecentralizedHuber(_Regressor):
    """Robust regression, as ``sklearn.linear_model.HuberRegressor``, whose scale sigma is estimated too.

    min over w and sigma of sum_i s_i (sigma + sigma H((x_i'w - y_i)/sigma)) + alpha ||w||^2, H quadratic up
    to ``epsilon`` and linear beyond. For Huber's loss with a fixed width use
    ``DecentralizedRegressor(operator=dsba.operators.Huber(delta))``.
    """

    alpha: float = 0.0001
    epsilon: float = 1.35

    def _operator(self) -> Operator:
        return ScaledHuber(as_number("epsilon", self.epsilon))

    def _lam(self, total: float) -> float:
        return 2.0 * as_number("alpha", self.alpha, at_least=0.0) * self._unit / total

    def _fit(self, rows: Rows, scale: float = 1.0) -> Fit:
        """With labels in units of sigma, or nearly: step sizes are planned for sigma = 1."""
        warm = self._previous((1, rows.X.shape[1])) is not None
        self._unit = self.scale_ if warm else self._residual_size(rows)
        fit = super()._fit(rows, self._unit)
        self.scale_: float = self._unit * float(fit.result.z[-1])
        return fit

    def _residual_size(self, rows: Rows) -> float:
        """The mean absolute residual of a rough least-squares fit."""
        names = {field.name for field in fields(Decentralized)}
        shared = {name: value for name, value in self.get_params(deep=False).items() if name in names}
        rough = {"warm_start": False, "tol": ROUGH_TOL, "max_passes": ROUGH_PASSES, "callbacks": (), "verbose": False}
        model = DecentralizedRidge(self.alpha, **(shared | rough))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model._fit(rows)
        residual = rows.y - safe_sparse_dot(rows.X, model.coef_) - model.intercept_
        return self._mean(np.abs(residual), rows.weight) or 1.0

    def _start(self, problem: Problem, y: npt.NDArray[Any], weight: Array) -> Array:
        start = super()._start(problem, y, weight)
        start[-1] = 1.0
        return start
