"""DSBA: decentralised stochastic backward aggregation (Shen et al., ICML 2018)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from dsba.algorithms.dsba.one_sample import OneSample
from dsba.algorithms.dsba.step import SomeForm
from dsba.algorithms.step_rules import finite_lipschitz, practical_step, proved_lipschitz
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.types import Indices


@dataclass(frozen=True)
class DSBA(OneSample):
    """Each node solves a backward step on one sample i and exchanges its iterate with its neighbours.

        Psi   = W~ (2 Z - Z_prev) + alpha (carry + lam Z)
        Z+    = J_{alpha (B_i + lam)} (Psi + alpha phi_i)
        delta = B_i(Z+) - phi_i,   phi_i <- B_i(Z+),   carry <- (1 - 1/q) delta

    Start: Z_prev = Z, carry = -(mean of phi + lam Z). With N = 1 this is Point-SAGA. With a penalty its subgradient at
    Z+, which the resolvent has found, is treated as lam Z+ is; it is added to the carry.
    """

    name: ClassVar[str] = "dsba"
    backward: ClassVar[bool] = True
    composite: ClassVar[bool] = True

    def step(self, s: SomeForm, problem: Problem, net: Network, samples: Indices) -> SomeForm:
        alpha = self.alpha
        ids = s.components.ids(samples)
        phi = s.phi[ids]
        # Psi + alpha phi_i less (1 + alpha lam) Z: the lam Z of the docstring cancels
        D = net.mix(2 * s.Z - s.Z_prev) - s.Z + alpha * (s.carry + s.components.spread(samples, phi))
        Z, g = s.components.backward(samples, s.Z, D, alpha)
        delta = s.components.spread(samples, g - phi)
        table = s.phi.copy()
        table[ids] = g
        carry = (1 - 1 / s.components.sizes)[:, None] * delta
        if problem.penalty is not None:
            carry += (D - (1 + alpha * problem.lam_diag) * (Z - s.Z)) / alpha - s.components.spread(samples, g)
        return replace(s, Z=Z, Z_prev=s.Z, phi=table, carry=carry, t=s.t + 1)

    def why_not(self, problem: Problem, net: Network) -> str | None:
        if reason := super().why_not(problem, net):
            return reason
        if problem.penalty is None or problem.k == 1:
            return None
        name = type(problem.component).__name__
        return f"a resolvent with a penalty is exact for losses of one score, and {name} has {problem.k}."

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """ "auto": Point-SAGA's step, capped by the graph; "proved" 1/L; "paper" 1/(24 L)."""
        return {
            "auto": lambda: practical_step(problem, topology, self.samples_at_once),
            "proved": lambda: 1.0 / proved_lipschitz(problem, self.samples_at_once),
            "paper": lambda: 1.0 / (24.0 * finite_lipschitz(problem, self.samples_at_once)),
        }
