"""ProxSkip on a graph, also called decentralised Scaffnew (Mishchenko, Malinovsky, Stich and Richtarik, ICML 2022)."""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from dsba.algorithms.base import Array, Indices, Network, Problem, State, Topology, WithCoins
from dsba.algorithms.needs import objective
from dsba.algorithms.open_constants import OpenConstant, filled
from dsba.algorithms.rivals.extra import smoothness
from dsba.algorithms.step_rules import planned_convexity
from dsba.errors import InputError, as_number


@dataclass
class ProxSkipState(State):
    """Z, and the control variates H (N x p each)."""

    H: Array


@dataclass(frozen=True)
class ProxSkip(WithCoins):
    """Local gradient steps; a coin that all nodes share decides whether they communicate afterwards.

        Z^ = Z - alpha (B(Z) - H)
        with probability p:   Z+ = W~ Z^,   H+ = H + p/alpha (Z+ - Z^)
        otherwise:            Z+ = Z^,      H+ = H

    Start: H = 0. ``probability`` is p, by default min(1, sqrt(mu/(L gamma))): then mu/L and p^2 gamma, the rates of
    the local steps and of the rounds, are the same. With p = 1 this is exact diffusion.

    Parameters
    ----------
    probability : float or None
        The probability p of a round; None is the value above.
    """

    probability: float | None = None

    name = "proxskip"
    needs = (objective,)
    factors = (0.25, 0.5, 1.0, 1.8)
    opens = (OpenConstant("probability", "probability", start=(1.0, 3.0, 10.0), bounds=(1e-3, 1.0)),)

    def __post_init__(self) -> None:
        if self.probability is not None and as_number("probability", self.probability, above=0.0) > 1.0:
            raise InputError(f"probability must be at most 1, got {self.probability!r}.")

    def init(self, problem: Problem, net: Network, z0: Array) -> ProxSkipState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        return ProxSkipState(Z, np.zeros_like(Z))

    def step(
        self, s: ProxSkipState, problem: Problem, net: Network, samples: Indices, coins: Array | None = None
    ) -> ProxSkipState:
        assert coins is not None
        Z, probability = s.Z - self.alpha * (problem.local_operator(s.Z) - s.H), filled(self.probability)
        if coins[0] >= probability:
            return ProxSkipState(Z, s.H, t=s.t + 1)
        D = net.differences(Z)
        return ProxSkipState(Z - D, s.H - probability / self.alpha * D, t=s.t + 1)

    def warm_up(self, s: ProxSkipState, problem: Problem, net: Network, *draws: Any) -> None:
        """The iteration that communicates, which is the longer one."""
        samples, coins = draws
        super().warm_up(s, problem, net, samples, np.zeros_like(coins))

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """1/L, whatever the graph and the probability."""
        return 1 / smoothness(problem)

    def resolved(self, problem: Problem, topology: Topology) -> Self:
        p = self.probability
        if p is None:
            p = min(1.0, math.sqrt(planned_convexity(problem) / (smoothness(problem) * topology.gamma)))
        return super(ProxSkip, replace(self, probability=p)).resolved(problem, topology)
