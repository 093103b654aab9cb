"""DSA: decentralised double stochastic averaging gradient (Mokhtari and Ribeiro, 2016)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from dsba.algorithms.dsba.one_sample import OneSample
from dsba.algorithms.dsba.step import SomeForm
from dsba.algorithms.step_rules import finite_lipschitz, forward_step
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.types import Indices


@dataclass(frozen=True)
class DSA(OneSample):
    """DSBA with everything forward, at the current point.

        delta = B_i(Z) - phi_i,   phi_i <- B_i(Z)
        Z+    = W~ (2 Z - Z_prev) + alpha (carry - delta) - alpha lam (Z - Z_prev)
        carry <- (1 - 1/q) delta

    Start: Z_prev = Z, carry = -(mean of phi + lam Z). With N = 1 this is SAGA.
    """

    name: ClassVar[str] = "dsa"
    backward: ClassVar[bool] = False

    def step(self, s: SomeForm, problem: Problem, net: Network, samples: Indices) -> SomeForm:
        alpha, lam = self.alpha, problem.lam_diag
        ids = s.components.ids(samples)
        g = s.components.forward(samples, s.Z)
        delta = s.components.spread(samples, g - s.phi[ids])
        mixed = net.mix(2 * s.Z - s.Z_prev)
        Z = mixed + alpha * (s.carry - delta) - alpha * lam * (s.Z - s.Z_prev)
        table = s.phi.copy()
        table[ids] = g
        carry = (1 - 1 / s.components.sizes)[:, None] * delta
        return replace(s, Z=Z, Z_prev=s.Z, phi=table, carry=carry, t=s.t + 1)

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """ "auto": 1/L to 3/L, the longer the less the rows of a node overlap; "paper": 1/(24 L), as for DSBA."""
        return {
            "auto": lambda: forward_step(problem, topology, self.samples_at_once, self.communication == "compressed"),
            "paper": lambda: 1.0 / (24.0 * finite_lipschitz(problem, self.samples_at_once)),
        }
