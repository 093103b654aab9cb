"""Five hospitals whose patients differ: each alone, all pooled, all together without pooling. Run: python hospitals.py

The split is by label: one hospital has seen almost only benign tumours, another only malignant ones.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import dsba


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X, X_test, y, y_test = train_test_split(StandardScaler().fit_transform(X), y, random_state=0)
    rng = np.random.default_rng(0)
    order = np.argsort(y + 0.3 * rng.normal(size=len(y)))  # nearly sorted by label
    names = np.array(["Aarhus", "Bergen", "Cork", "Delft", "Espoo"])
    hospital = np.empty(len(y), dtype=names.dtype)
    for name, rows in zip(names, np.array_split(order, 5), strict=True):
        hospital[rows] = name

    def quality(model: object) -> float:
        return balanced_accuracy_score(y_test, model.predict(X_test))

    print(f"{'trained by':24} {'patients':>9} {'malignant':>10} {'balanced accuracy':>18}")
    for name in names:
        own = hospital == name
        one_class = len(set(y[own])) < 2
        alone = (DummyClassifier() if one_class else LogisticRegression()).fit(X[own], y[own])
        print(f"{name + ' alone':24} {own.sum():9} {np.mean(y[own] == 0):10.0%} {quality(alone):18.3f}")
    together = dsba.DecentralizedLogisticRegression(graph="ring", random_state=0).fit(X, y, nodes=hospital)
    pooled = LogisticRegression().fit(X, y)
    for name, model in (("all five, data at home", together), ("all five, data pooled", pooled)):
        print(f"{name:24} {len(y):9} {np.mean(y == 0):10.0%} {quality(model):18.3f}")


if __name__ == "__main__":
    main()
