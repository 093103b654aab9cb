"""The iterates of all nodes, as far as measuring goes: rows, or their mean and scatter."""

import numpy as np

from dsba.problem.problem import Problem
from dsba.types import Array


class StackedRows:
    """Iterates that are held as rows: ``kept`` has one for each node held here."""

    def __init__(self, problem: Problem, Z: Array) -> None:
        self.problem, self.kept, self.mean = problem, Z, problem.mean(Z)

    def squares(self, center: Array) -> float:
        """The sum over all nodes of ||z_n - center||^2; one row at a time, to save memory."""
        return float(self.problem.total(np.array([np.sum((z - center) ** 2) for z in self.kept])))


class MeanAndScatter:
    """Iterates of which the mean and the sum of ||z_n - mean||^2 are known."""

    kept = None

    def __init__(self, n_nodes: int, mean: Array, scatter: float) -> None:
        self.n_nodes, self.mean, self.scatter = n_nodes, mean, scatter

    def squares(self, center: Array) -> float:
        if center is self.mean:
            return self.scatter
        return self.scatter + self.n_nodes * float(np.sum((self.mean - center) ** 2))


Iterates = StackedRows | MeanAndScatter
