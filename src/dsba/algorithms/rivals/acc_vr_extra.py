"""Acc-VR-EXTRA: EXTRA with loopless Katyusha's acceleration and variance reduction (Li, Lin and Fang, 2022)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from dsba.algorithms.base import WithCoins, anchor_probability
from dsba.algorithms.needs import Need, objective, strong_convexity
from dsba.algorithms.rivals.extra import smoothness
from dsba.algorithms.sampling import batches
from dsba.errors import as_integer
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.types import Array, Indices


@dataclass
class KatyushaState:
    """The points Z (the X of the formula), Y's partner S and anchor T, U2 S, the dual variables V (N x p each).

    phi is the table of the anchor (Q x k), ``mean`` the mean of its entries (N x p); ``touched`` counts samples.
    """

    Z: Array
    S: Array
    US: Array
    V: Array
    T: Array
    phi: Array
    mean: Array
    t: int = 0
    touched: float = 0.0


@dataclass(frozen=True)
class AccVRExtra(WithCoins):
    """Accelerated steps on mini-batch estimates around an anchor T, which all nodes renew by a common coin.

        Y  = th1 S + T/2 + (1/2 - th1) X
        G  = mean over a batch of [B_i(Y) - B_i(T)] + B(T) + lam Y
        S+ = (m Y + S - (alpha/th1) (G + V + th1 beta U2 S)) / (1 + m),      m = lam alpha/th1
        V+ = V + th1 beta U2 S+
        X+ = Y + th1 (S+ - S)
        T+ = X+ with probability b/q, else T

    Start: X = S = T = Z0, V = 0. U2 = (I - W)/2, b = ``batch_size``, q the samples of the largest node,
    th1 = min(1/2, sqrt(q lam/(b L))/2) with L the largest constant of a component, beta that of a local operator.
    ``step_size`` is alpha. A batch is drawn with replacement.
    """

    batch_size: int | None = None
    """b; None is the square root of q, rounded up."""

    name: ClassVar[str] = "acc-vr-extra"
    needs: ClassVar[tuple[Need, ...]] = (objective, strong_convexity)
    coins: ClassVar[int] = 2
    factors: ClassVar[tuple[float, ...]] = (0.3, 1.0, 3.0)

    def init(self, problem: Problem, net: Network, z0: Array) -> KatyushaState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        phi = problem.local.table(Z)
        zero = np.zeros_like(Z)
        return KatyushaState(Z, Z, zero, zero, Z, phi, problem.local.average(phi), touched=problem.n_samples)

    def step(
        self, s: KatyushaState, problem: Problem, net: Network, samples: Indices, coins: Array | None = None
    ) -> KatyushaState:
        assert coins is not None
        th1, beta = self.momentum(problem), smoothness(problem)
        m = problem.lam * self.alpha / th1
        Y = th1 * s.S + s.T / 2 + (0.5 - th1) * s.Z
        G = self.estimate(Y, s, problem, coins[0])
        S = (m * Y + s.S - self.alpha / th1 * (G + s.V + th1 * beta * s.US)) / (1 + m)
        US = net.differences(S)
        X, V = Y + th1 * (S - s.S), s.V + th1 * beta * US
        touched = s.touched + self.batch * problem.n_nodes
        if coins[1] >= anchor_probability(problem, self.batch):
            return KatyushaState(X, S, US, V, s.T, s.phi, s.mean, s.t + 1, touched)
        phi = problem.local.table(X)
        return KatyushaState(X, S, US, V, X, phi, problem.local.average(phi), s.t + 1, touched + problem.n_samples)

    def estimate(self, Y: Array, s: KatyushaState, problem: Problem, coin: float) -> Array:
        """B(Y) from a batch, around the anchor."""
        G = s.mean + problem.lam_diag * Y
        taken = problem.components
        for i in batches(coin, problem.nodes, problem.sizes, self.batch):
            G += taken.spread(i, taken.forward(i, Y) - s.phi[taken.ids(i)]) / self.batch
        return G

    def momentum(self, problem: Problem) -> float:
        """th1."""
        c = problem.constants
        return min(0.5, 0.5 * math.sqrt(c.q * problem.lam / (self.batch * (c.L_plan + problem.lam))))

    @property
    def batch(self) -> int:
        """b as a number; ``resolved`` fills in the automatic one."""
        assert self.batch_size is not None
        return self.batch_size

    def resolved(self, problem: Problem, topology: Topology) -> Self:
        b = math.ceil(math.sqrt(problem.all_sizes.max())) if self.batch_size is None else self.batch_size
        known = replace(self, batch_size=as_integer("batch_size", b, at_least=1))
        return super(AccVRExtra, known).resolved(problem, topology)

    def samples_per_step(self, problem: Problem) -> float:
        """In the mean: a batch, and all samples where the anchors move."""
        return self.batch * problem.n_nodes + anchor_probability(problem, self.batch) * problem.n_samples

    def passes(self, s: KatyushaState, problem: Problem) -> float:
        return s.touched / problem.n_samples

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """ "auto": 1/(3 max(L_local, L/b)), L_local the largest constant of a local operator, L of a component."""
        L = problem.constants.L_plan + problem.lam
        return {"auto": lambda: 1 / (3 * max(smoothness(problem), L / self.batch))}
