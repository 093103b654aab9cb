"""An algorithm of your own, gradient tracking, beside DSBA and EXTRA. Draws algorithms.png."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import matplotlib.pyplot as plt
import numpy as np

import dsba
from dsba.algorithms import Algorithm


@dataclass
class State:
    Z: np.ndarray
    Y: np.ndarray
    B: np.ndarray
    t: int = 0


@dataclass(frozen=True)
class GradientTracking(Algorithm):
    """Z+ = W~ Z - alpha Y,   Y+ = W~ Y + B(Z+) - B(Z),   started from Y = B(Z)."""

    name: ClassVar[str] = "gradient-tracking"

    def init(self, problem: Any, net: Any, z0: np.ndarray) -> State:
        Z = np.tile(z0, (len(problem.nodes), 1))
        B = problem.local_operator(Z)
        return State(Z, B, B)

    def step(self, s: State, problem: Any, net: Any, samples: np.ndarray) -> State:
        Z = net.mix(s.Z) - self.alpha * s.Y
        B = problem.local_operator(Z)
        return State(Z, net.mix(s.Y) + B - s.B, B, s.t + 1)

    def auto_step(self, problem: Any, topology: Any) -> float:
        return 0.5 / problem.local_smoothness.max()


def main() -> None:
    problem = dsba.Problem.from_arrays(*dsba.data.load("breast-cancer"), "logistic", n_nodes=10, lam=0.01)
    topology = dsba.Topology.random(10, 0.4, seed=0)
    figure, axes = plt.subplots(figsize=(6, 4))
    for algorithm in ("dsba", "extra", GradientTracking()):
        result = dsba.solve(problem, topology, algorithm, max_passes=100, reference=True)
        axes.semilogy(result.history["passes"], result.history["distance"], label=result.algorithm.name)
        print(f"{result.algorithm.name:18} distance to the optimum {result.history['distance'][-1]:.1e}")
    axes.set(xlabel="passes over the data", ylabel="distance to the optimum")
    axes.legend()
    figure.savefig("algorithms.png", dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main()
