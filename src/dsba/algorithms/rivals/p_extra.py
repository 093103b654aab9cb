"""P-EXTRA: EXTRA with the local operators implicit (Shi, Ling, Wu and Yin, 2015)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dsba.algorithms.rivals.inner_solver import InnerSolver, InnerState
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.solvers.local import LocalSolver
from dsba.types import Array, Indices


@dataclass
class PExtraState(InnerState):
    """Z, Z_prev, V (N x p), and the samples touched so far."""

    Z_prev: Array
    V: Array
    t: int = 0
    touched: float = 0.0


@dataclass(frozen=True)
class PExtra(InnerSolver):
    """Each node solves a backward step on its whole local operator B (lam included).

        V+ = V + W~ (2 Z - Z_prev) - Z
        Z+ = J_{alpha B}(V+),   that is   Z+ + alpha B(Z+) = V+

    Start: Z_prev = Z = V, as if B(Z) = 0. With V = Z + alpha B(Z) put in, this is EXTRA's recursion
    Z+ + alpha B(Z+) = W~ (2 Z - Z_prev) + alpha B(Z). Keeping V instead of B(Z), an inexact Z+ does
    not move the limit: V remembers what the inner solver still owes.
    """

    name: ClassVar[str] = "p-extra"

    def init(self, problem: Problem, net: Network, z0: Array) -> PExtraState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        solver = LocalSolver(problem, 1.0 / self.alpha)
        first, touched = solver.begin(Z)
        return PExtraState(*first, solver, Z, Z, touched=solver.touched + touched)

    def step(self, s: PExtraState, problem: Problem, net: Network, samples: Indices) -> PExtraState:
        V = s.V + (net.mix(2 * s.Z - s.Z_prev) - s.Z)
        solution, touched = s.solver.solve(V / self.alpha, s.solution)
        return PExtraState(*solution, s.solver, s.Z, V, s.t + 1, s.touched + touched)

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """ "auto": 2 sqrt(gamma / (mu L)).

        The root balances the contraction alpha mu of the nodes with gamma / (alpha L), that of the
        network. On real data L is reached in few directions and longer steps pay: the 2 is a compromise.
        """
        mu, L = problem.constants.mu, float(problem.local_smoothness.max())
        return {"auto": lambda: 2 * math.sqrt(topology.gamma / (mu * L))}
