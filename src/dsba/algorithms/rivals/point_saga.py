"""Point-SAGA (Defazio, 2016), for one node: written independently, the reference for DSBA with N = 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dsba.algorithms.base import Algorithm
from dsba.algorithms.needs import Need, one_node
from dsba.algorithms.step_rules import practical_step
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.types import Array, Indices


@dataclass
class TableState:
    """Z (1 x p), the table phi (Q x k coefficients) and the mean of its entries (1 x p)."""

    Z: Array
    phi: Array
    mean: Array
    t: int = 0


@dataclass(frozen=True)
class PointSAGA(Algorithm):
    """A proximal step on one sample i and the regulariser, corrected by the table.

        z+    = J_{alpha (B_i + Lambda)} (z + alpha (phi_i - mean of phi))
        phi_i <- B_i(z+)

    Start: phi = 0.
    """

    name: ClassVar[str] = "point-saga"
    needs: ClassVar[tuple[Need, ...]] = (one_node,)

    def init(self, problem: Problem, net: Network, z0: Array) -> TableState:
        return empty_table(problem, z0)

    def step(self, s: TableState, problem: Problem, net: Network, samples: Indices) -> TableState:
        alpha, i = self.alpha, samples
        correction = problem.components.spread(i, s.phi[i]) - s.mean
        # the resolvent's argument less (1 + alpha Lambda) z, as ``backward`` wants it
        Z, g = problem.components.backward(i, s.Z, alpha * (correction - problem.lam_diag * s.Z), alpha)
        return with_entry(s, problem, i, g, Z)

    def samples_per_step(self, problem: Problem) -> int:
        return 1

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """ "auto": DSBA's, which for one node is Defazio's."""
        return {"auto": lambda: practical_step(problem, topology)}


def empty_table(problem: Problem, z0: Array) -> TableState:
    """The start z0 with the table phi = 0."""
    return TableState(z0[None, :].copy(), np.zeros((problem.n_samples, problem.k)), np.zeros((1, problem.dim)))


def with_entry(s: TableState, problem: Problem, i: Indices, g: Array, Z: Array) -> TableState:
    """phi_i <- g, and the mean with it; Z is the next iterate."""
    phi = s.phi.copy()
    phi[i] = g
    mean = s.mean + problem.components.spread(i, g - s.phi[i]) / problem.n_samples
    return TableState(Z, phi, mean, s.t + 1)
