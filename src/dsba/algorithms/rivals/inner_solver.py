"""What P-EXTRA, SSDA, MSDA and D-ADMM share: they solve a local problem at every node in every iteration."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dsba.algorithms.base import Algorithm, Array, Network, Problem, State
from dsba.algorithms.needs import Need, local_solutions
from dsba.solvers.local import LocalSolver, Solution


def nothing_spent() -> Array:
    """No visits to samples, no multiply-adds."""
    return np.zeros(2)


@dataclass
class InnerState(State):
    """The local solutions Z (N x p), what the next solve needs of them (``Solution``), and what was spent."""

    values: Array
    inner: Array
    solver: LocalSolver = field(metadata={"static": True})
    touched: Array = field(default_factory=nothing_spent, kw_only=True)

    @property
    def solution(self) -> Solution:
        return Solution(self.Z, self.values, self.inner)


@dataclass(frozen=True)
class InnerSolver(Algorithm):
    """Base of methods with an inner solver. Their ``touched`` counts its visits to samples and its multiply-adds."""

    needs: ClassVar[tuple[Need, ...]] = (local_solutions,)

    def passes(self, s: Any, problem: Problem) -> float:
        return float(problem.total(s.touched[None, :1])[0]) / problem.n_samples

    def work(self, s: Any, problem: Problem, net: Network) -> float:
        return float(problem.total(s.touched[None, 1:])[0]) / problem.sweep + self.row_work(s, problem, net)

    def nominal_passes(self, s: Any, problem: Problem) -> float:
        return float(s.t)
