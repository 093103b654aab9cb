"""The estimators at default settings, N = 10, beside scikit-learn's on the pooled data."""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

import dsba
from benchmarks.measure import Row

SETS = (
    "mushrooms", "ijcnn1.tr", "a9a", "w8a", "reuters-moneyfx.trn", "rcv1-vw-small", "farm-ads",
    "news20.binary", "news20",
)  # fmt: skip
MODELS = {
    "logistic": (dsba.DecentralizedLogisticRegression, LogisticRegression),
    "ridge": (dsba.DecentralizedRidge, Ridge),
    "AUC": (dsba.DecentralizedAUCClassifier, LogisticRegression),
    "SVM": (dsba.DecentralizedSVM, LinearSVC),
}
TEN_CLASSES = 10  # of the twenty of News20, against the others


def against_pooled() -> list[Row]:
    """The residual reached (1e-4 is asked for) and the CPU seconds to fit, theirs beside."""
    names = SETS if os.environ.get("DSBA_DATA") else ("breast-cancer", "synthetic-text")
    rows = []
    for name in names:
        X, y = dsba.load_libsvm(name) if names is SETS else dsba.data.load(name)
        if name == "news20":
            y = y > TEN_CLASSES
        rows += [_fitted(f"{kind} on {name}", *models, X, 1.0 * y) for kind, models in MODELS.items()]
    return rows


def _fitted(title: str, ours: Any, theirs: Any, X: Any, y: Any) -> Row:
    few = np.concatenate([np.flatnonzero(y == label)[:20] for label in np.unique(y)])
    model = ours(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        ours(max_passes=1).fit(X[few], y[few])  # compiles
        seconds = _seconds(lambda: model.fit(X, y))
        pooled = _seconds(lambda: theirs().fit(X, y))
    passes, residual = model.history_["passes"][-1], model.history_["residual"][-1]
    note = f"{seconds:.1f} CPU s, {passes:.0f} passes; {theirs.__name__} on pooled data {pooled:.1f} CPU s"
    return Row(f"estimator at default settings, {title}: residual", float(residual), 1e-4, unit="", note=note)


def _seconds(task: Any) -> float:
    begun = time.process_time()
    task()
    return time.process_time() - begun
