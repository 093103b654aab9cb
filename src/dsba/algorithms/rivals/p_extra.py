"""P-EXTRA: EXTRA with the local operators implicit (Shi, Ling, Wu and Yin, 2015)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from dsba.algorithms.rivals.inner_solver import InnerSolver, InnerState
from dsba.errors import require_known
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.network.messages.levels import CompressedRows, Compression
from dsba.problem.problem import Problem
from dsba.solvers.local import LocalSolver
from dsba.types import Array, Indices


@dataclass
class PExtraState(InnerState):
    """Z, Z_prev, V (N x p)."""

    Z_prev: Array
    V: Array


@dataclass
class CompressedState(InnerState):
    """Z, the dual rows Y (N x p each), and H, what neighbours know of Z."""

    Y: Array
    H: Array
    known: CompressedRows = field(metadata={"static": True})


@dataclass(frozen=True)
class PExtra(InnerSolver):
    """Each node solves a backward step on its whole local operator B (lam included).

        V+ = V + W~ (2 Z - Z_prev) - Z
        Z+ = J_{alpha B}(V+),   that is   Z+ + alpha B(Z+) = V+

    Start: Z_prev = Z = V, as if B(Z) = 0. With V = Z + alpha B(Z) put in, this is EXTRA's recursion
    Z+ + alpha B(Z+) = W~ (2 Z - Z_prev) + alpha B(Z). Keeping V instead of B(Z), an inexact Z+ does
    not move the limit: V remembers what the inner solver still owes. Compressed, with d = (I - W) Z^ and Z^ what the
    neighbours know of Z, the same iteration is

        V+ = Z - d - alpha Y,      Y+ = Y + d/(2 alpha),      Y = 0 at the start.

    Parameters
    ----------
    communication : str
        "dense": iterates to the neighbours; "compressed": their changes in few levels.
    """

    communication: str = "dense"

    name: ClassVar[str] = "p-extra"

    def __post_init__(self) -> None:
        require_known("communication", self.communication, ("dense", "compressed"))

    @property
    def exact_links(self) -> str:
        if self.communication == "dense":
            return ""
        return "with communication='compressed' nodes rebuild the rows of others from all messages"

    def init(self, problem: Problem, net: Network, z0: Array) -> PExtraState | CompressedState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        solver = LocalSolver(problem, 1.0 / self.alpha)
        first, touched = solver.begin(Z)
        touched += solver.touched
        if self.communication == "dense":
            return PExtraState(*first, solver, Z, Z, touched=touched)
        known = CompressedRows(net, problem.dim, Compression())
        return CompressedState(*first, solver, np.zeros_like(Z), known.start(z0), known, touched=touched)

    def step(self, s: Any, problem: Problem, net: Network, samples: Indices) -> Any:
        return self._dense_step(s, net) if self.communication == "dense" else self._compressed_step(s)

    def _compressed_step(self, s: CompressedState) -> CompressedState:
        apart, H = s.known.differences(s.Z, s.H)
        V = s.Z - 2 * apart - self.alpha * s.Y
        solution, touched = s.solver.solve(V / self.alpha, s.solution)
        Y = s.Y + apart / self.alpha
        return CompressedState(*solution, s.solver, Y, H, s.known, t=s.t + 1, touched=s.touched + touched)

    def _dense_step(self, s: PExtraState, net: Network) -> PExtraState:
        V = s.V + (net.mix(2 * s.Z - s.Z_prev) - s.Z)
        solution, touched = s.solver.solve(V / self.alpha, s.solution)
        return PExtraState(*solution, s.solver, s.Z, V, t=s.t + 1, touched=s.touched + touched)

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """ "auto": 2 sqrt(gamma / (mu L)).

        The root balances the contraction alpha mu of the nodes with gamma / (alpha L), that of the
        network. On real data L is reached in few directions and longer steps pay: the 2 is a compromise.
        """
        mu, L = problem.constants.mu, float(problem.local_smoothness.max())
        return {"auto": lambda: 2 * math.sqrt(topology.gamma / (mu * L))}
