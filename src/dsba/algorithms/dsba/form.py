"""What the forms of DSBA and DSA share. A form holds the iterates and advances them; all have the same iterates.

    StepForm    (step.py)   the definition, NumPy on stacked rows
    DenseForm   (dense.py)  a fused kernel on stacked rows, O(p (edges + N)) work per iteration
    LazyForm    (lazy.py)   a fused kernel in mode space, O(N^2 nnz) work per iteration
    DualForm    (dual.py)   a kernel on stacked rows that are sent as they are or compressed; alpha may change
    NodesForm   (nodes.py)  every node an object that sees nothing but its messages

A form is a state that can advance itself. All have one protocol: ``start`` makes it, ``advance`` makes iterations,
``rows`` gives the iterates, ``warm_up`` compiles without changing anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

import numpy as np

from dsba.algorithms.iterates import Iterates, StackedRows
from dsba.network import Network
from dsba.network.messages.traffic import Traffic
from dsba.problem.components import Components
from dsba.problem.problem import Problem
from dsba.types import Array, Indices

if TYPE_CHECKING:
    from dsba.algorithms.dsba.one_sample import OneSample


class Start(NamedTuple):
    """Where a run begins: the common z0, the table phi (Q x k), the carries (N x p); and what iterations take."""

    z0: Array
    phi: Array
    carry: Array
    components: Components


class Form(Protocol):
    """What every form can do."""

    t: int

    @property
    def Z(self) -> Array:
        """The iterates, as of any state."""
        ...

    @classmethod
    def start(cls, method: OneSample, problem: Problem, net: Network, begin: Start) -> Self:
        """The form before the first iteration."""
        ...

    def advance(self, method: OneSample, problem: Problem, net: Network, samples: Indices) -> Self:
        """One iteration for each row of ``samples``; the arrays of the form may be reused."""
        ...

    def rows(self) -> Array:
        """The iterates of the nodes here, in an array of their own."""
        ...

    def iterates(self, problem: Problem) -> Iterates:
        """The iterates of all nodes, for measuring."""
        ...

    def warm_up(self, method: OneSample, problem: Problem, net: Network) -> None:
        """Compile, or load compiled kernels; nothing changes."""
        ...


class HeldRows:
    """Forms that hold rows. The rows are measured."""

    Z: Array

    def rows(self) -> Array:
        return np.array(self.Z)

    def iterates(self, problem: Problem) -> Iterates:
        return StackedRows(problem, self.rows())


@dataclass
class Counted:
    """Counts deltas instead of rows if the simulated method sends deltas. ``sent`` is the memory of ``traffic``."""

    sent: Indices = field(default_factory=lambda: np.zeros(0, np.int64), kw_only=True)
    traffic: Traffic | None = field(default=None, metadata={"static": True}, kw_only=True)

    @staticmethod
    def ledger(method: OneSample, problem: Problem, net: Network, begin: Start) -> dict[str, Traffic | Indices]:
        """The two fields for a run that begins."""
        if not method.sends_deltas:
            return {}
        traffic = Traffic(net.topology, *begin.components.layout, method.cache_limit)
        if method.table == "full":
            net.count(*traffic.flood(problem.dim))
        sent = traffic.memory()
        traffic.advance(sent, 0, np.zeros((0, problem.n_nodes), np.int64))  # compiled before the clock runs
        return {"traffic": traffic, "sent": sent}

    def count(self, net: Network, t: int, samples: Indices, width: int) -> None:
        """What iterations t, t + 1, ... moved: rows, or the deltas that stand for them."""
        if self.traffic is None:
            net.tally(len(samples), width)
        else:
            net.count(*self.traffic.advance(self.sent, t, samples))

    def recount(self, net: Network, t: int, samples: Indices, width: int) -> None:
        """The network has counted the rows that it mixed. If the method sends deltas, count those instead."""
        if self.traffic is not None:
            net.tally(-len(samples), width)
            self.count(net, t, samples, width)
