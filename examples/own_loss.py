"""A loss of your own: log-cosh regression, compared under DSBA and DSA. Run: python own_loss.py

One small class is all: the loss, its derivative and its second derivative as scalar functions. They
are compiled when a kernel meets them; the backward step of DSBA is found by a safeguarded Newton.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from sklearn.datasets import load_diabetes

import dsba


@dataclass(frozen=True)
class LogCosh(dsba.ScalarOperator):
    """scale^2 log cosh(r / scale), r = u - y: quadratic near 0, scale |r| far away."""

    scale: float = 1.0
    lipschitz: ClassVar[float] = 1.0  # sup of ``slope``

    def value(self, u: float, y: float) -> float:
        a = abs(u - y) / self.scale
        return self.scale**2 * (a + math.log1p(math.exp(-2.0 * a)) - math.log(2.0))

    def map(self, u: float, y: float) -> float:
        return self.scale * math.tanh((u - y) / self.scale)

    def slope(self, u: float, y: float) -> float:
        return 1.0 - math.tanh((u - y) / self.scale) ** 2


def main() -> None:
    X, y = load_diabetes(return_X_y=True)
    problem = dsba.Problem.from_arrays(X, (y - y.mean()) / y.std(), LogCosh(scale=0.5), n_nodes=5, lam=0.01)
    topology = dsba.Topology.ring(5)
    runs = {
        name: dsba.solve(problem, topology, name, max_passes=60, record_every=10, reference=True).history
        for name in ("dsba", "dsa")
    }
    print(f"{problem}: distance to the pooled optimum")
    print("passes", *(f"{name:>9}" for name in runs))
    for passes, *distances in zip(runs["dsba"]["passes"], *(run["distance"] for run in runs.values()), strict=True):
        print(f"{passes:6.0f}", *(f"{d:9.1e}" for d in distances))


if __name__ == "__main__":
    main()
