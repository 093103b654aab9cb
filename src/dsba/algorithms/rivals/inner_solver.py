"""What P-EXTRA, SSDA, MSDA and D-ADMM share: they solve a local problem at every node in every iteration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dsba.algorithms.base import Algorithm
from dsba.problem.problem import Problem
from dsba.solvers.local import LocalSolver, Solution
from dsba.solvers.newton import unsolvable
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

    def passes(self, s: Any, problem: Problem) -> float:
        return float(problem.total(np.array([s.touched]))) / problem.n_samples

    def nominal_passes(self, s: Any, problem: Problem) -> float:
        return float(s.t)

    def refusal(self, problem: Problem) -> str | None:
        reason = unsolvable(problem.component)
        return f"it solves local problems, and {reason}." if reason else None


def not_strongly_convex(problem: Problem) -> str | None:
    """Why a local objective may have no unique minimum, or None."""
    if problem.lam_diag.min() > 0:
        return None
    name, where = type(problem.component).__name__, "" if problem.lam == 0 else " on some coordinates"
    return f"{name}'s local objectives must be strongly convex, and lam is 0{where}."
