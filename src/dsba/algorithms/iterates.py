"""The iterates of all nodes, as far as measuring goes: rows, or their mean and scatter."""

from collections.abc import Sequence

import numpy as np

from dsba.network import exact_sum
from dsba.problem.problem import Problem
from dsba.types import Array


class StackedRows:
    """Iterates that are held as rows: ``kept`` has one for each node held here."""

    def __init__(self, problem: Problem, Z: Array) -> None:
        self.problem, self.kept, self.mean = problem, Z, problem.mean(Z)

    def totals(self, centers: Sequence[Array], own: Array) -> list[float]:
        """Sums over all nodes by one question: of ||z_n - center||^2 for every center, and of the columns of ``own``.

        One row at a time, to save memory.
        """
        squares = [[np.sum((z - center) ** 2) for center in centers] for z in self.kept]
        totals: list[float] = self.problem.total(np.hstack([squares, own])).tolist()
        return totals


class MeanAndScatter:
    """Iterates of which the mean and the sum of ||z_n - mean||^2 are known."""

    kept = None

    def __init__(self, n_nodes: int, mean: Array, scatter: float) -> None:
        self.n_nodes, self.mean, self.scatter = n_nodes, mean, scatter

    def totals(self, centers: Sequence[Array], own: Array) -> list[float]:
        """As of ``StackedRows``; all nodes are here."""
        shifts = [0.0 if center is self.mean else float(np.sum((self.mean - center) ** 2)) for center in centers]
        return [self.scatter + self.n_nodes * shift for shift in shifts] + exact_sum.total(own).tolist()


Iterates = StackedRows | MeanAndScatter
