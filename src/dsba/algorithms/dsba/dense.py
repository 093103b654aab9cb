"""The dense form of DSBA and DSA: stacked rows, advanced by a kernel."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

import numpy as np

from dsba.algorithms.dsba.form import Counted, HeldRows, Start
from dsba.graph.mixing import Mixing
from dsba.kernels.dense import DenseRows, KernelComponents, advance_dense, finish_dense
from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.types import Array, Indices

if TYPE_CHECKING:
    from dsba.algorithms.dsba.one_sample import OneSample


@dataclass
class DenseForm(Counted, HeldRows):
    """Advanced by a fused kernel if all rows are in this process, otherwise by one kernel call after each mixing.

    Stacked rows: Z, V = Z - Z_prev + alpha carry, what rounding left of Z (low), carry (N x p each); the table phi.
    """

    Z: Array
    V: Array
    low: Array
    phi: Array
    carry: Array
    components: KernelComponents = field(metadata={"static": True})
    t: int = 0

    @classmethod
    def start(cls, method: OneSample, problem: Problem, net: Network, begin: Start) -> Self:
        Z = np.tile(begin.z0, (len(problem.nodes), 1))
        ledger = cls.ledger(method, problem, net, begin)
        components = begin.components.kernel(method.recursion(problem))
        state = (Z, method.alpha * begin.carry, np.zeros_like(Z), begin.phi, begin.carry.copy(), components)
        return cls(*state, **ledger)  # type: ignore[arg-type]

    def advance(self, method: OneSample, problem: Problem, net: Network, samples: Indices) -> Self:
        mixing = net.local_mixing()
        if mixing is None or mixing.rounds > 1:
            self._advance_meeting(problem, net, samples)
            self.recount(net, self.t, samples, problem.dim)
        else:
            self._advance_fused(problem, mixing, samples)
            self.count(net, self.t, samples, problem.dim)
        return replace(self, t=self.t + len(samples))

    @property
    def _rows(self) -> DenseRows:
        return DenseRows(self.Z, self.V, self.carry, self.low)

    def _advance_fused(self, problem: Problem, mixing: Mixing, samples: Indices) -> None:
        """All iterations in one call, in place."""
        advance_dense(problem.component, self.components, samples, mixing.kernel_rows, self._rows, self.phi)

    def _advance_meeting(self, problem: Problem, net: Network, samples: Indices) -> None:
        """The same arithmetic for rows that are mixed through the network: one kernel call per iteration."""
        for row in samples:
            ahead = self.Z + (self.V - self.components.rule.alpha * self.carry)
            self._land(problem, row, net.differences(ahead))

    def _land(self, problem: Problem, samples: Indices, apart: Array) -> None:
        """The part of an iteration after the mixing, in place. ``apart`` is (I - W~)(Z + U)."""
        finish_dense(problem.component, self.components, samples, self._rows, self.phi, apart)

    def warm_up(self, method: OneSample, problem: Problem, net: Network) -> None:
        mixing = net.local_mixing()
        if mixing is None or mixing.rounds > 1:
            if mixing is not None:  # elsewhere it would send messages that nobody counts
                net.differences(self.Z)
            self._land(problem, np.zeros(0, np.int64), np.zeros((0, problem.dim)))
        else:
            self._advance_fused(problem, mixing, np.zeros((0, len(problem.nodes)), np.int64))
