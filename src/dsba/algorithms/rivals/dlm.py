"""DLM: decentralised linearised alternating direction method of multipliers (Ling, Shi, Wu and Ribeiro, 2015)."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from dsba.algorithms.base import Algorithm, Array, Indices, Network, Problem, State, Topology
from dsba.algorithms.open_constants import OpenConstant, filled
from dsba.algorithms.rivals.extra import smoothness
from dsba.errors import as_number


@dataclass
class DLMState(State):
    """Z, LZ = L_G Z from the last exchange, the multipliers phi (N x p each)."""

    LZ: Array
    phi: Array


@dataclass(frozen=True)
class DLM(Algorithm):
    """D-ADMM with each local objective replaced by its tangent and a proximal term of weight rho.

        Z+   = Z - (B(Z) + c L_G Z + phi) / (2 c deg + rho),      rho = 1 / step_size
        phi+ = phi + c L_G Z+

    Start: equal rows, so L_G Z = 0, and phi = 0. L_G is the graph's Laplacian, one exchange serves both lines.

    Parameters
    ----------
    c : float or None
        The penalty, and the step of the multipliers; None is rho / (4 max deg).
    force : bool
        Also run on operators that are not gradients.
    """

    c: float | None = None
    force: bool = False

    name = "dlm"
    rows_updated = 5
    factors = (0.3, 1.0, 1.4)
    opens = (OpenConstant("c", start=(0.1, 0.3, 1.0, 3.0), bounds=(1e-4, 100.0)),)

    def init(self, problem: Problem, net: Network, z0: Array) -> DLMState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        return DLMState(Z, np.zeros_like(Z), np.zeros_like(Z))

    def step(self, s: DLMState, problem: Problem, net: Network, samples: Indices) -> DLMState:
        c, rho = filled(self.c), 1 / self.alpha
        slope = problem.local_operator(s.Z) + c * s.LZ + s.phi
        Z = s.Z - slope / (2 * c * net.degrees[:, None] + rho)
        LZ = net.laplacian(Z)
        return DLMState(Z, LZ, s.phi + c * LZ, t=s.t + 1)

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """rho = 3/4 L, L the largest local Lipschitz constant; rho > L/2 suffices to converge."""
        return 4 / (3 * smoothness(problem))

    def resolved(self, problem: Problem, topology: Topology) -> Self:
        known = super().resolved(problem, topology)
        if known.c is None:
            return replace(known, c=1 / (4 * known.alpha * max(1, int(topology.degrees.max()))))
        return replace(known, c=as_number("c", known.c, above=0.0))

    def why_not(self, problem: Problem, net: Network) -> str | None:
        if reason := super().why_not(problem, net):
            return reason
        if problem.has_objective or self.force:
            return None
        name = type(problem.component).__name__
        return f"{name} is not the gradient of an objective, and DLM is proved for those only; force=True runs it."
