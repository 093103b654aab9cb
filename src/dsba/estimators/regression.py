"""Regressors: one number per row."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from dsba.errors import as_number
from dsba.estimators.base import Decentralized
from dsba.fitting import Fit, Rows
from dsba.fitting.fit import Coefficients
from dsba.fitting.rows import sums
from dsba.operators import Operator, ScaledHuber
from dsba.operators import get as get_operator
from dsba.types import Array

ROUGH_TOL, ROUGH_PASSES = 1e-2, 100  # of a fit that only finds a scale


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
        return 2.0 * as_number("alpha", self.alpha, at_least=0.0) / total

    def _fit(self, rows: Rows, scale: float = 1.0) -> Fit:
        """Fit with labels in units of about sigma, because step sizes are planned for sigma = 1."""
        warm = self._previous((1, rows.X.shape[1])) is not None
        self._unit = self.scale_ if warm else self._residual_size(rows)
        fit = super()._fit(rows, self._unit)
        self.scale_: float = self._unit * float(fit.result.z[-1])
        return fit

    def _solve(self, rows: Rows, previous: Coefficients | None, extra: float = 1.0) -> Fit:
        return super()._solve(rows, previous, extra)  # sigma starts at 1

    def _residual_size(self, rows: Rows) -> float:
        """The mean absolute residual of a rough least-squares fit."""
        names = {field.name for field in fields(Decentralized)}
        shared = {name: value for name, value in self.get_params(deep=False).items() if name in names}
        rough = {"warm_start": False, "tol": ROUGH_TOL, "max_passes": ROUGH_PASSES, "callbacks": (), "verbose": False}
        model = DecentralizedRidge(self.alpha, **(shared | rough))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model._fit(rows)
        residual = np.abs(rows.y - rows.X @ model.coef_ - model.intercept_)
        total, weight = sums(rows, self._group, rows.weight * residual, rows.weight)
        return total / weight or 1.0
