"""What every algorithm is: a frozen dataclass of hyper-parameters with ``init`` and ``step``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from dsba.errors import InputError, unknown_name
from dsba.network import Network
from dsba.problem import Problem
from dsba.topology import Topology

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


class State(Protocol):
    """An algorithm's memory: a dataclass of arrays and numbers. ``t`` counts iterations.

    Fields with metadata {"static": True} are rebuilt by ``init`` and not checkpointed.
    """

    t: int

    @property
    def Z(self) -> Array:
        """The nodes' iterates, one row each."""
        ...


@dataclass(frozen=True)
class Algorithm:
    """Base of the algorithms. A subclass gives ``name``, ``init``, ``step`` and step-size rules.

    ``step`` is the definition; ``advance`` makes many steps at once and may be a fused kernel that
    reuses the arrays of the state it is given, as long as it returns what ``step`` would.
    """

    step_size: float | str = "auto"

    name: ClassVar[str] = ""

    def init(self, problem: Problem, net: Network, z0: Array) -> Any:
        """The state before the first iteration, all nodes at ``z0``."""
        raise NotImplementedError

    def step(self, s: Any, problem: Problem, net: Network, samples: Indices) -> Any:
        """One iteration; ``samples`` names one sample per node."""
        raise NotImplementedError

    def advance(self, s: Any, problem: Problem, net: Network, samples: Indices) -> Any:
        """One iteration for each row of ``samples``."""
        for row in samples:
            s = self.step(s, problem, net, row)
        return s

    def samples_per_step(self, problem: Problem) -> int:
        """Samples touched in one iteration: all of them, for a full-gradient method."""
        return problem.n_samples

    def passes(self, s: Any, problem: Problem) -> float:
        """Samples touched so far over samples held."""
        return s.t * self.samples_per_step(problem) / problem.n_samples

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """Named step-size rules; "auto" among them."""
        raise NotImplementedError

    def refusal(self, problem: Problem) -> str | None:
        """Why the method does not apply to the problem, or None."""
        return None

    def resolved(self, problem: Problem, topology: Topology) -> Self:
        """The same algorithm with its step size as a number, checked."""
        if reason := self.refusal(problem):
            raise InputError(f"{self.name} does not apply to this problem: {reason}")
        alpha = self.step_size
        if isinstance(alpha, str):
            rules = self.step_sizes(problem, topology)
            if alpha not in rules:
                raise unknown_name("step size", alpha, rules)
            alpha = rules[alpha]()
        if isinstance(alpha, bool) or not isinstance(alpha, (int, float, np.floating)):
            raise InputError(f"step_size must be a number or a rule's name, got {alpha!r}.")
        if not (alpha > 0 and math.isfinite(alpha)):
            raise InputError(f"step_size must be positive and finite, got {alpha}.")
        return replace(self, step_size=float(alpha))
