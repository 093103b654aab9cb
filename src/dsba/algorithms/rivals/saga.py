"""SAGA (Defazio, Bach and Lacoste-Julien, 2014), for one node: the reference for DSA with N = 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from dsba.algorithms.base import Algorithm
from dsba.algorithms.needs import Need, one_node
from dsba.algorithms.rivals.point_saga import TableState, empty_table, with_entry
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.types import Array, Indices


@dataclass(frozen=True)
class SAGA(Algorithm):
    """A forward step on one sample i, corrected by the table; the regulariser outside the table.

        z+    = z - alpha (B_i(z) - phi_i + mean of phi + Lambda z)
        phi_i <- B_i(z)

    Start: phi = 0.
    """

    name: ClassVar[str] = "saga"
    needs: ClassVar[tuple[Need, ...]] = (one_node,)

    def init(self, problem: Problem, net: Network, z0: Array) -> TableState:
        return empty_table(problem, z0)

    def step(self, s: TableState, problem: Problem, net: Network, samples: Indices) -> TableState:
        i = samples
        g = problem.components.forward(i, s.Z)
        Z = s.Z - self.alpha * (problem.components.spread(i, g - s.phi[i]) + s.mean + problem.lam_diag * s.Z)
        return with_entry(s, problem, i, g, Z)

    def samples_per_step(self, problem: Problem) -> int:
        return 1

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """ "auto": 1/(3 L), L the largest constant of a component with its share of the regulariser."""
        return {"auto": lambda: 1 / (3 * (problem.constants.L_plan + problem.lam))}
