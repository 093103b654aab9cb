"""Elastic nets with the habits of scikit-learn, and cross-validation with folds inside nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dsba.algorithms.newton import MOST_COLUMNS, symmetric
from dsba.errors import InputError, as_integer, as_number, as_share, require_known
from dsba.estimators.regression import DecentralizedRidge
from dsba.fitting import Fit, Rows
from dsba.fitting.fit import Coefficients
from dsba.fitting.rows import sums
from dsba.network import Group
from dsba.problem.validation import require_weight
from dsba.solvers.exact import lasso
from dsba.types import Array

RULES = ("min", "1se")
LEAST_ALPHA = 1e-15  # where no column has anything to do with the labels


@dataclass(eq=False, repr=False)
class DecentralizedElasticNet(DecentralizedRidge):
    """A linear model with both penalties, as ``sklearn.linear_model.ElasticNet``.

    min_w (1/(2 sum s)) sum_i s_i (y_i - x_i'w)^2 + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2)

    Parameters
    ----------
    alpha : float
        The regularisation: lam = alpha.

    Examples
    --------
    >>> import dsba, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> dsba.DecentralizedElasticNet(alpha=0.1, n_nodes=4).fit(X, X @ [2.0, 0.0, 0.0]).coef_.round(1).tolist()
    [1.9, 0.0, 0.0]
    """

    l1_ratio: float = 0.5

    def _lam(self, total: float) -> float:
        return as_number("alpha", self.alpha, at_least=0.0)


@dataclass(eq=False, repr=False)
class DecentralizedElasticNetCV(DecentralizedElasticNet):
    """The elastic net whose alpha is chosen by cross-validation, as ``sklearn.linear_model.ElasticNetCV``.

    One sum over all nodes holds the products of columns within every fold; every path follows from it to the last
    digits. Afterwards ``alpha_`` is the chosen penalty, ``alpha_min_`` and ``alpha_1se_`` are those of both rules,
    ``alphas_``, ``mse_path_`` and ``coef_path_`` the path of the chosen ``l1_ratio_``.

    Parameters
    ----------
    l1_ratio : float or Sequence[float]
        As of ``DecentralizedElasticNet``, above 0; of several the best is taken.
    alphas : int or Sequence[float]
        How many penalties to try, or the penalties themselves.
    eps : float
        The smallest penalty relative to the largest, which leaves no coefficient.
    cv : int or Iterable
        The number of folds, or pairs of the rows to fit to and the rows to test. Row i of a node is in fold i mod cv.
    rule : str
        "min": the smallest mean squared error. "1se": the largest alpha within one standard error of it.

    Examples
    --------
    >>> import dsba, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> y = X @ [2.0, 0.0, 0.0] + np.random.default_rng(1).normal(size=200)
    >>> model = dsba.DecentralizedElasticNetCV(n_nodes=4, rule="1se").fit(X, y)
    >>> bool(model.alpha_ == model.alpha_1se_ > model.alpha_min_)
    True
    """

    alpha: float = field(default=1.0, init=False)
    l1_ratio: Any = 0.5
    alphas: int | Sequence[float] = 100
    eps: float = 1e-3
    cv: Any = 5
    rule: str = "min"

    def _lam(self, total: float) -> float:
        return self.alpha_

    def _ratio(self) -> float:
        return self.l1_ratio_

    def _previous(self, shape: tuple[int, ...]) -> Coefficients | None:
        return self._chosen

    def _fit(self, rows: Rows, scale: float = 1.0) -> Fit:
        if rows.X.shape[1] > MOST_COLUMNS:
            raise InputError(f"cross-validation sums products of columns: {MOST_COLUMNS} columns at most.")
        require_known("rule", self.rule, RULES)
        products = _products(rows, _folds(rows, self.cv), self.fit_intercept, self._group)
        ratios = _several("l1_ratio", np.atleast_1d(self.l1_ratio).tolist(), as_share)
        paths = [_path(products, ratio, self._alphas(products.fits[0], ratio)) for ratio in ratios]
        best = min(range(len(paths)), key=lambda k: float(paths[k].mean.min()))
        path, self.l1_ratio_ = paths[best], ratios[best]
        self.alphas_, self.mse_path_, self.coef_path_ = path.alphas, path.losses, path.coefficients[:, :-1].T
        low = int(path.mean.argmin())
        near = int(np.flatnonzero(path.mean <= path.mean[low] + path.errors[low])[0])
        self.alpha_min_, self.alpha_1se_ = float(path.alphas[low]), float(path.alphas[near])
        at = low if self.rule == "min" else near
        self.alpha_ = float(path.alphas[at])
        self._chosen = path.coefficients[at : at + 1, :-1], path.coefficients[at, -1:]
        fit = super()._fit(rows, scale)
        del self._chosen
        return fit

    def _alphas(self, whole: _Products, ratio: float) -> Array:
        if not isinstance(self.alphas, int | np.integer):
            return np.sort(_several("alphas", self.alphas, partial(as_number, at_least=0.0)))[::-1]
        if not ratio > 0.0:
            raise InputError("without |w|_1 no penalty leaves no coefficient: give the alphas, or an l1_ratio above 0.")
        top = max(float(np.abs(whole.pull).max(initial=0.0)) / ratio, LEAST_ALPHA)
        low = as_share("eps", as_number("eps", self.eps, above=0.0)) * top
        return np.geomspace(top, low, as_integer("alphas", self.alphas, at_least=1))


def _several(name: str, given: Any, check: Callable[[str, Any], float]) -> list[float]:
    """The numbers of a list, checked one by one."""
    if not isinstance(given, Iterable) or isinstance(given, str) or not (found := [check(name, one) for one in given]):
        raise InputError(f"{name} must be a list with at least one number, got {given!r}.")
    return found


class _Products(NamedTuple):
    """Weighted means of products of columns and labels around a centre, over some rows."""

    weight: float
    whole: Array
    """Of [columns, label, 1]."""
    H: Array
    """Of the columns, around their own means if there is an intercept."""
    pull: Array

    @classmethod
    def of(cls, sums: Array, p: int, intercept: bool) -> _Products:
        A = symmetric(sums, p + 2)
        weight = float(A[-1, -1])
        A = A / weight if weight > 0.0 else A
        shift = np.outer(A[:-1, -1], A[:-1, -1]) if intercept else 0.0
        around = A[:-1, :-1] - shift
        return cls(weight, A, around[:p, :p], around[:p, p])

    def intercept(self, w: Array) -> float:
        return float(self.whole[-2, -1] - self.whole[:-2, -1] @ w)

    def loss(self, w: Array, intercept: float) -> float:
        """The mean squared error of a model."""
        c = np.concatenate([-w, [1.0, -intercept]])
        return max(float(c @ self.whole @ c), 0.0)


class _FoldProducts(NamedTuple):
    """All rows and the rows of each fit; the rows left out of each; and what all are centred by."""

    fits: list[_Products]
    tests: list[_Products]
    centre: Array
    fit_intercept: bool


class _Path(NamedTuple):
    alphas: Array
    coefficients: Array
    """A row for each alpha, the intercept last."""
    losses: Array
    """A column for each fold."""
    mean: Array
    errors: Array


def _folds(rows: Rows, cv: Any) -> list[tuple[Array, Array]]:
    """How often each row is fitted to and tested, for each fold."""
    if isinstance(cv, Iterable):
        return _folds_of_pairs(len(rows.y), cv)
    place = np.zeros(len(rows.y), int)
    for at in rows.by_node:
        place[at] = np.arange(at.size)
    own = place % as_integer("cv", cv, at_least=2)
    return [(1.0 * (own != fold), 1.0 * (own == fold)) for fold in range(cv)]


def _folds_of_pairs(count: int, pairs: Iterable[Any]) -> list[tuple[Array, Array]]:
    """Rows are chosen as NumPy does: by number, from the end if negative, several times, or by a mask."""
    everyone = np.arange(count)

    def times(chosen: Any) -> Array:
        return np.bincount(everyone[np.asarray(chosen)], minlength=count).astype(float)

    try:
        found = [(times(fit), times(test)) for fit, test in pairs]
    except (TypeError, ValueError, IndexError):
        found = []
    if not found:
        raise InputError("cv must be a number of folds, or pairs of the rows to fit to and the rows to test.")
    return found


def _products(rows: Rows, folds: list[tuple[Array, Array]], intercept: bool, group: Group) -> _FoldProducts:
    """The products of all rows and of each part of each fold, in one sum over all nodes."""
    Z = np.column_stack([rows.X.toarray(), rows.y, np.ones(len(rows.y))])
    totals = sums(rows, group, *(rows.weight[:, None] * Z).T)
    require_weight(totals[-1])
    centre = np.array(totals) / totals[-1] * intercept
    centre[-1] = 0.0
    Z -= centre
    everyone = np.ones(len(rows.y))
    masks = [everyone, *(fit for fit, _ in folds), *(test for _, test in folds)]
    upper, p = np.triu_indices(Z.shape[1]), len(centre) - 2
    own = []
    for at in rows.by_node:
        here = Z[at]
        parts = [(here * (rows.weight * mask)[at, None]).T @ here for mask in masks]
        own.append(np.concatenate([part[upper] for part in parts]))
    made = [_Products.of(part, p, intercept) for part in group.sum(np.array(own)).reshape(len(masks), -1)]
    if min(one.weight for one in made) <= 0.0:
        raise InputError(f"a fold of {len(rows.y)} samples has no row that has a weight: take fewer folds.")
    return _FoldProducts(made[: len(folds) + 1], made[len(folds) + 1 :], centre, intercept)


def _path(products: _FoldProducts, ratio: float, alphas: Array) -> _Path:
    """The models at all alphas, and the errors of the rows left out."""
    whole, *others = [_solved(one, ratio, alphas, products.fit_intercept) for one in products.fits]
    losses = np.array(
        [[test.loss(w[:-1], w[-1]) for w in path] for path, test in zip(others, products.tests, strict=True)]
    ).T
    mean, spread = losses.mean(axis=1), losses.std(axis=1) / np.sqrt(max(losses.shape[1] - 1, 1))  # as scikit-learn
    centre = products.centre
    whole[:, -1] += centre[-2] - whole[:, :-1] @ centre[:-2]
    return _Path(alphas, whole, losses, mean, spread)


def _solved(one: _Products, ratio: float, alphas: Array, intercept: bool) -> Array:
    found, w = [], np.zeros(len(one.pull))
    for alpha in alphas:
        w = lasso(one.H + np.diag(np.full(len(w), alpha * (1.0 - ratio))), one.pull, np.full(len(w), alpha * ratio), w)
        found.append([*w, one.intercept(w) if intercept else 0.0])
    return np.array(found)
