"""DIGing: gradient tracking, also on graphs that change over time (Nedic, Olshevsky and Shi, 2017)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dsba.algorithms.base import Algorithm, Array, Indices, Network, Problem, State, Topology
from dsba.algorithms.needs import Need, objective
from dsba.algorithms.rivals.extra import smoothness


@dataclass
class DIGingState(State):
    """Z, the tracked mean operator Y, and B(Z) (N x p each)."""

    Y: Array
    B: Array


@dataclass(frozen=True)
class DIGing(Algorithm):
    """Every node follows an estimate Y of the mean operator, which the nodes average as they average Z.

        Z+ = W~ Z - alpha Y
        Y+ = W~ Y + B(Z+) - B(Z)

    Start: Y = B(Z), which is one pass over the data. The mean of Y is the mean of B(Z) at all times, whatever doubly
    stochastic matrix mixes: so the graph may change from round to round. Z and Y travel in one message, and meet on one
    graph. Equation (2) of the paper, with W~ as its matrix.
    """

    name = "diging"
    rows_mixed, rows_updated = 2, 4
    first_passes = 1.0  # the first operator
    needs: ClassVar[tuple[Need, ...]] = (objective,)
    proven_on: ClassVar[tuple[str, ...]] = (
        "loss",
        "changing graph",
        "compressed changes",
        "bursty loss",
        "resting nodes",
    )

    def init(self, problem: Problem, net: Network, z0: Array) -> DIGingState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        B = problem.local_operator(Z)
        return DIGingState(Z, B, B)

    def step(self, s: DIGingState, problem: Problem, net: Network, samples: Indices) -> DIGingState:
        WZ, WY = np.hsplit(net.mix(np.hstack([s.Z, s.Y])), 2)
        Z = WZ - self.alpha * s.Y
        B = problem.local_operator(Z)
        return DIGingState(Z, WY + (B - s.B), B, t=s.t + 1)

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """1/(4 L), L the largest local Lipschitz constant; nodes of one quadratic are stable up to 1/(2 L)."""
        return 1 / (4 * smoothness(problem))
