"""What P-EXTRA, SSDA, MSDA and D-ADMM share: they solve a local problem at every node in every iteration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dsba.algorithms.base import Algorithm
from dsba.algorithms.needs import Need, local_solutions
from dsba.problem.problem import Problem
from dsba.solvers.local import LocalSolver, Solution
from dsba.types import Array


@dataclass
class InnerState:
    """The local solutions Z (N x p), and what the next solve needs of them (``Solution``)."""

    Z: Array
    values: Array
    inner: Array
    solver: LocalSolver = field(metadata={"static": True})

    @property
    def solution(self) -> Solution:
        return Solution(self.Z, self.values, self.inner)


@dataclass(frozen=True)
class InnerSolver(Algorithm):
    """Base of methods with an inner solver. Their states count in ``touched`` the samples that it touches."""

    needs: ClassVar[tuple[Need, ...]] = (local_solutions,)

    def passes(self, s: Any, problem: Problem) -> float:
        return float(problem.total(np.array([s.touched]))) / problem.n_samples

    def nominal_passes(self, s: Any, problem: Problem) -> float:
        return float(s.t)
