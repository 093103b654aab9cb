"""A model of data at ten nodes, and scikit-learn's on the pooled data beside it. Run: python quickstart.py"""

from __future__ import annotations

from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dsba


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    decentralised = dsba.DecentralizedLogisticRegression(n_nodes=10, tol=1e-6, random_state=0)
    models = {"pooled": LogisticRegression(), "decentralised": decentralised}
    print(f"{'':14} {'accuracy':>9} {'mean radius':>12} {'mean texture':>13}")
    for name, model in models.items():
        pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
        print(f"{name:14} {pipeline.score(X_test, y_test):9.3f} {model.coef_[0, 0]:12.5f} {model.coef_[0, 1]:13.5f}")
    history = decentralised.history_
    print(f"\nafter {history['passes'][-1]:.0f} passes the nodes agree up to {decentralised.consensus_error_:.0e};")
    print(f"the busiest of them received {history['doubles_max'][-1]:.0f} numbers, and nobody's rows left their node.")


if __name__ == "__main__":
    main()
