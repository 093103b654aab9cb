"""The form that is the definition of DSBA and DSA: the method's ``step`` on stacked rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np

from dsba.algorithms.dsba.form import Counted, HeldRows, Start
from dsba.network import Network
from dsba.problem.components import Components
from dsba.problem.problem import Problem
from dsba.types import Array, Indices

if TYPE_CHECKING:
    from dsba.algorithms.dsba.one_sample import OneSample


@dataclass
class StepForm(Counted, HeldRows):
    """Stacked rows: Z, Z_prev (N x p), the table phi (Q x k), carry (N x p). Advanced by the method's ``step``."""

    Z: Array
    Z_prev: Array
    phi: Array
    carry: Array
    components: Components = field(metadata={"static": True})
    t: int = 0

    @classmethod
    def start(cls, method: OneSample, problem: Problem, net: Network, begin: Start) -> Self:
        Z = np.tile(begin.z0, (len(problem.nodes), 1))
        ledger = cls.ledger(method, problem, net, begin)
        return cls(Z, Z.copy(), begin.phi, begin.carry.copy(), begin.components, **ledger)  # type: ignore[arg-type]

    def advance(self, method: OneSample, problem: Problem, net: Network, samples: Indices) -> Self:
        s = self
        for row in samples:
            s = method.step(s, problem, net, row)
        self.recount(net, self.t, samples, problem.dim)
        return s

    def warm_up(self, method: OneSample, problem: Problem, net: Network) -> None:
        method.step(self, problem, net, np.zeros(len(problem.nodes), np.int64))


SomeForm = TypeVar("SomeForm", bound=StepForm)
