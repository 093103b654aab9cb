"""Acc-VR-EXTRA: EXTRA with loopless Katyusha's acceleration and variance reduction (Li, Lin and Fang, 2022)."""

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from dsba.algorithms.base import NO_COINS, Array, CountedState, Indices, Network, Problem, Topology, WithCoins
from dsba.algorithms.needs import objective, strong_convexity
from dsba.algorithms.open_constants import OpenConstant, filled
from dsba.algorithms.rivals.extra import smoothness
from dsba.algorithms.sampling import anchor_probability, batches
from dsba.errors import InputError, as_integer, as_number


@dataclass
class KatyushaState(CountedState):
    """The points Z (the X of the formula), Y's partner S and anchor T, U2 S, the dual variables V (N x p each).

    phi is the table of the anchor (Q x k), ``mean`` the mean of its entries (N x p); ``touched`` counts samples.
    """

    S: Array
    US: Array
    V: Array
    T: Array
    phi: Array
    mean: Array


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
    th1 = min(1/2, sqrt(q lam/(b L))/2) unless ``theta1`` is given, with L the largest constant of a component, and beta
    is that of a local operator. ``step_size`` is alpha. A batch is drawn with replacement.

    Parameters
    ----------
    batch_size : int or None
        The size b of a batch; None is the square root of q, rounded up.
    theta1 : float or None
        The constant th1, at most 1/2; None is the value above.
    """

    batch_size: int | None = None
    theta1: float | None = None

    name = "acc-vr-extra"
    rows_updated = 12
    needs = (objective, strong_convexity)
    coins = 2
    factors = (0.3, 1.0, 3.0)
    opens = (OpenConstant("theta1", "probability", start=(1.0, 3.0, 10.0), bounds=(1e-4, 0.5)),)

    def init(self, problem: Problem, net: Network, z0: Array) -> KatyushaState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        phi = problem.local.table(Z)
        zero = np.zeros_like(Z)
        return KatyushaState(Z, Z, zero, zero, Z, phi, problem.local.average(phi), touched=problem.n_samples)

    def step(
        self, s: KatyushaState, problem: Problem, net: Network, samples: Indices, coins: Array = NO_COINS
    ) -> KatyushaState:
        th1, beta = filled(self.theta1), smoothness(problem)
        m = problem.lam * self.alpha / th1
        Y = th1 * s.S + s.T / 2 + (0.5 - th1) * s.Z
        G = self.estimate(Y, s, problem, coins[0])
        S = (m * Y + s.S - self.alpha / th1 * (G + s.V + th1 * beta * s.US)) / (1 + m)
        US = net.differences(S)
        X, V = Y + th1 * (S - s.S), s.V + th1 * beta * US
        touched = s.touched + self.batch * problem.n_nodes
        after = replace(s, Z=X, S=S, US=US, V=V, t=s.t + 1, touched=touched)
        if coins[1] >= anchor_probability(problem, self.batch):
            return after
        phi = problem.local.table(X)
        return replace(after, T=X, phi=phi, mean=problem.local.average(phi), touched=touched + problem.n_samples)

    def estimate(self, Y: Array, s: KatyushaState, problem: Problem, coin: float) -> Array:
        """B(Y) from a batch, around the anchor."""
        G = s.mean + problem.lam_diag * Y
        taken = problem.components
        for i in batches(coin, problem.nodes, problem.sizes, self.batch):
            G += taken.spread(i, taken.forward(i, Y) - s.phi[taken.ids(i)]) / self.batch
        return G

    @property
    def batch(self) -> int:
        """b as a number; ``resolved`` fills in the automatic one."""
        assert self.batch_size is not None
        return self.batch_size

    def resolved(self, problem: Problem, topology: Topology) -> Self:
        b = math.ceil(math.sqrt(problem.all_sizes.max())) if self.batch_size is None else self.batch_size
        b = as_integer("batch_size", b, at_least=1)
        c = problem.constants
        usual = min(0.5, 0.5 * math.sqrt(c.q * problem.lam / (b * (c.L_plan + problem.lam))))
        th1 = as_number("theta1", usual if self.theta1 is None else self.theta1, above=0.0)
        if th1 > 0.5:
            raise InputError(f"theta1 must be at most 1/2, got {th1:g}.")
        return super(AccVRExtra, replace(self, batch_size=b, theta1=th1)).resolved(problem, topology)

    def samples_per_step(self, problem: Problem) -> float:
        """In the mean: a batch, and all samples where the anchors move."""
        return self.batch * problem.n_nodes + anchor_probability(problem, self.batch) * problem.n_samples

    def passes(self, s: KatyushaState, problem: Problem) -> float:
        return s.touched / problem.n_samples

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """1/(3 max(L_local, L/b)), L_local the largest constant of a local operator, L of a component."""
        return 1 / (3 * max(smoothness(problem), (problem.constants.L_plan + problem.lam) / self.batch))
