"""VI-PAPC with variance reduction (Kovalev, Beznosikov et al., NeurIPS 2022)."""

import math
from dataclasses import dataclass, field

import numpy as np

from dsba.algorithms.base import NO_COINS, Array, CountedState, Indices, Network, Problem, Topology, WithCoins
from dsba.algorithms.rivals.extra import smoothness
from dsba.algorithms.rivals.vi_papc import VIPlan
from dsba.algorithms.sampling import anchor_probability, batches
from dsba.errors import as_integer


@dataclass
class VRState(CountedState):
    """Z, the anchors T, the dual variables Y (N x p each), all now and one iteration before.

    ``mean`` is the data's operator at T_prev (N x p), phi and phi_prev are the tables of T and T_prev (Q x k).
    """

    Z_prev: Array
    Y: Array
    Y_prev: Array
    T: Array
    phi: Array
    phi_prev: Array
    mean: Array
    mean_prev: Array
    plan: VIPlan = field(metadata={"static": True})


@dataclass(frozen=True)
class VIPAPCVR(WithCoins):
    """Optimistic steps on mini-batch estimates around an anchor T (the paper's Algorithm 1).

        delta = mean over a batch of [F_i(Z) - F_i(T_prev) + a (F_i(Z) - F_i(Z_prev))] + F(T_prev)
        Z+    = Z + p (T - Z) - eta (delta - Y - a (Y - Y_prev))
        half  = mean over another batch of [F_i(Z+) - F_i(T)] + F(T)
        Y+    = Y - theta (Lap/l2) (Z+ - b (half - Y))
        T+    = Z+ with probability p, else T

    Start: Z_prev = T = T_prev = Z, Y_prev = Y = 0. F_i is B_i with lambda, p = ``batch_size``/q, q the samples of the
    largest node. ``step_size`` is eta; a, b and theta are those of VI-PAPC. The pull towards T has the weight p too, as
    in the authors' program, which keeps p below 1/16. Here p may be up to 1: with one sample a node T is always Z, and
    the steps are those of VI-PAPC.

    Parameters
    ----------
    batch_size : int
        The number of samples in a batch.
    """

    batch_size: int = 1

    name = "vi-papc-vr"
    rows_updated = 16
    coins = 3
    factors = (0.3, 1.0, 3.0)

    def __post_init__(self) -> None:
        as_integer("batch_size", self.batch_size, at_least=1)

    def init(self, problem: Problem, net: Network, z0: Array) -> VRState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        phi, Y = problem.local.table(Z), np.zeros_like(Z)
        mean = problem.local.average(phi)
        plan = VIPlan.of(problem, net.topology, self.alpha, smoothness(problem))
        return VRState(Z, Z, Y, Y, Z, phi, phi, mean, mean, plan, touched=problem.n_samples)

    def step(self, s: VRState, problem: Problem, net: Network, samples: Indices, coins: Array = NO_COINS) -> VRState:
        plan, eta, p = s.plan, self.alpha, anchor_probability(problem, self.batch_size)
        first, second = (batches(coin, problem.nodes, problem.sizes, self.batch_size) for coin in coins[:2])
        delta = self.estimate(problem, first, s.Z, s.phi_prev, s.mean_prev)
        delta += plan.a * self.difference(problem, first, s.Z, s.Z_prev)
        Z = s.Z + p * (s.T - s.Z) - eta * (delta - s.Y - plan.a * (s.Y - s.Y_prev))
        half = self.estimate(problem, second, Z, s.phi, s.mean)
        Y = s.Y - plan.theta / plan.l2 * 2 * net.differences(Z - plan.b * (half - s.Y))
        touched, t = s.touched + 3 * self.batch_size * problem.n_nodes, s.t + 1
        if coins[2] >= p:
            return VRState(Z, s.Z, Y, s.Y, s.T, s.phi, s.phi, s.mean, s.mean, plan, t=t, touched=touched)
        phi = problem.local.table(Z)
        mean = problem.local.average(phi)
        return VRState(Z, s.Z, Y, s.Y, Z, phi, s.phi, mean, s.mean, plan, t=t, touched=touched + problem.n_samples)

    def estimate(self, problem: Problem, batch: Indices, Z: Array, phi: Array, mean: Array) -> Array:
        """F(Z) from a batch around the anchor of this table and this mean."""
        taken = problem.components
        parts = [taken.spread(i, taken.forward(i, Z) - phi[taken.ids(i)]) for i in batch]
        return mean + problem.lam_diag * Z + sum(parts) / self.batch_size

    def difference(self, problem: Problem, batch: Indices, Z: Array, other: Array) -> Array:
        """F(Z) - F(other) from a batch."""
        taken = problem.components
        parts = [taken.spread(i, taken.forward(i, Z) - taken.forward(i, other)) for i in batch]
        return problem.lam_diag * (Z - other) + sum(parts) / self.batch_size

    def samples_per_step(self, problem: Problem) -> float:
        """In the mean: one batch at two points, another at one, and all samples where the anchors move."""
        return 3 * self.batch_size * problem.n_nodes + anchor_probability(problem, self.batch_size) * problem.n_samples

    def passes(self, s: VRState, problem: Problem) -> float:
        return s.touched / problem.n_samples

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """min(1/(3 L_local), 1.5 sqrt(p b)/L_mean), p the probability of a new anchor, b the batch size.

        L_local is the largest constant of a local operator, and L_mean the paper's constant in the mean: the mean of
        |F_i(z) - F_i(z')|^2 over a node's samples is at most (L_mean |z - z'|)^2. It is planned as sqrt(L L_local),
        L the largest constant of a component. That is a bound where all F_i are gradients, and for AUC it is close.
        The paper divides by sqrt(chi) too; without that the method was stable on all graphs tried, and mostly faster.
        """
        return self.planned_step(problem)

    def planned_step(self, problem: Problem) -> float:
        local, component = smoothness(problem), problem.constants.L_plan + problem.lam
        spread = anchor_probability(problem, self.batch_size) * self.batch_size / (component * local)
        return min(1 / (3 * local), 1.5 * math.sqrt(spread))
