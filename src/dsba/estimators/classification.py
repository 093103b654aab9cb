"""Classifiers of all nodes' data, with the habits of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.metrics import roc_curve
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from dsba import operators
from dsba.errors import InputError, as_number, require_known
from dsba.estimators.base import Decentralized, of_one_score
from dsba.fitting import Rows
from dsba.network.contract import ROWS_OF_DATA, TOTALS
from dsba.operators import Operator
from dsba.types import Array


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
        return of_one_score(self, super()._operator(), "DecentralizedLogisticRegression has one for each class")


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
