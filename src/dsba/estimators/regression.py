"""Regressors of all nodes' data, with the habits of scikit-learn."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from dsba.errors import as_number
from dsba.estimators.base import Decentralized, of_one_score
from dsba.fitting import Fit, Rows
from dsba.fitting.rows import sums
from dsba.operators import Operator, ScaledHuber
from dsba.types import Array

ROUGH_TOL, ROUGH_PASSES = 1e-2, 100  # of a fit that only finds a scale


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
        return of_one_score(self, super()._operator(), "classes are for the classifiers")


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
