"""One positive in forty: maximise the AUC itself. Draws auc.png. Run: python auc_unbalanced.py"""

from __future__ import annotations

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import RocCurveDisplay, balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import dsba


def main() -> None:
    X, y = make_classification(
        4000, 20, n_informative=6, n_clusters_per_class=1, weights=[0.975], class_sep=0.8, flip_y=0.01, random_state=1
    )
    X, X_test, y, y_test = train_test_split(StandardScaler().fit_transform(X), y, stratify=y, random_state=0)
    models = {
        "logistic, pooled": LogisticRegression(),
        "logistic, 10 nodes": dsba.DecentralizedLogisticRegression(random_state=0),
        "AUC, 10 nodes": dsba.DecentralizedAUCClassifier(tol=1e-3, random_state=0),
    }
    figure, axes = plt.subplots(figsize=(5, 5))
    print(f"{'':20} {'test AUC':>9} {'balanced accuracy':>18}")
    for name, model in models.items():
        scores = model.fit(X, y).decision_function(X_test)
        accuracy = balanced_accuracy_score(y_test, model.predict(X_test))
        print(f"{name:20} {roc_auc_score(y_test, scores):9.3f} {accuracy:18.3f}")
        RocCurveDisplay.from_predictions(y_test, scores, name=name, ax=axes)
    axes.set_title("Test data, one positive in forty")
    figure.savefig("auc.png", dpi=120, bbox_inches="tight")
    print("\nauc.png shows the three ROC curves.")


if __name__ == "__main__":
    main()
