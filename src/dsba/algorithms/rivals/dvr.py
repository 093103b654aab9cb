"""DVR: dual-free decentralised variance reduction (Hendrikx, Bach and Massoulie, NeurIPS 2020), with Catalyst."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dsba.algorithms.base import WithCoins
from dsba.algorithms.needs import Need, lipschitz_gradients, objective, strong_convexity
from dsba.algorithms.rivals.ssda import laplacian_spectrum
from dsba.graph.topology import Topology
from dsba.kernels.samples import forward_all
from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.types import Array, Indices


class EdgePlan(NamedTuple):
    """sigma, tau, the probability of a computation, l2, the length of an inner loop, the momentum beta."""

    sigma: float
    tau: float
    p_comp: float
    l2: float
    inner: int
    beta: float


@dataclass
class DVRState:
    """Z, the centre C, the solution X_last of the last inner loop (N x p each), points y, their table phi (Q x k)."""

    Z: Array
    C: Array
    X_last: Array
    y: Array
    phi: Array
    plan: EdgePlan = field(metadata={"static": True})
    t: int = 0
    touched: float = 0.0


@dataclass(frozen=True)
class DVR(WithCoins):
    """Coordinate descent in the dual without dual variables; a common coin chooses between two steps.

        gossip:       Z+  = Z - Lap Z / l2
        computation:  y_i <- (1 - rho) y_i + rho A_i Z,   phi_i <- g(y_i),
                      Z+  = Z - c_n A_i' (the change of phi_i) / (q sigma)

    Start: y_i = A_i z0, Z = (tau C - mean of c_n A_i' phi_i)/sigma, sigma = lam + tau: a relation that holds at all
    times for the means over the nodes. ``step_size`` is the rho of the largest node; a node's rho is in proportion to
    its samples. The probability of a computation is the paper's, from sigma, the constants of samples and nodes, and
    the extreme nonzero eigenvalues l1, l2 of Lap = I - W. Without ``catalyst`` tau = 0. With it tau/2 ||z - C||^2 is
    added, and after every inner loop C+ = Z + beta (Z - X_last), X_last+ = Z.
    """

    catalyst: bool = False

    name: ClassVar[str] = "dvr"
    needs: ClassVar[tuple[Need, ...]] = (lipschitz_gradients, objective, strong_convexity)
    factors: ClassVar[tuple[float, ...]] = (0.3, 1.0, 2.0)

    def init(self, problem: Problem, net: Network, z0: Array) -> DVRState:
        C = np.tile(z0, (len(problem.nodes), 1))
        y, phi = problem.local.images(C), problem.local.table(C)
        plan = self.plan(problem, net.topology)
        Z = (plan.tau * C - problem.local.average(phi)) / plan.sigma
        return DVRState(Z, C, C, y, phi, plan, touched=problem.n_samples)

    def step(
        self, s: DVRState, problem: Problem, net: Network, samples: Indices, coins: Array | None = None
    ) -> DVRState:
        assert coins is not None
        if coins[0] < s.plan.p_comp:
            after = self.computed(s, problem, samples)
        else:
            Z = s.Z - 2 * net.differences(s.Z) / s.plan.l2
            after = DVRState(Z, s.C, s.X_last, s.y, s.phi, s.plan, s.t + 1, s.touched)
        if s.plan.tau == 0.0 or after.t % s.plan.inner:
            return after
        C = after.Z + s.plan.beta * (after.Z - s.X_last)
        Z = after.Z + s.plan.tau / s.plan.sigma * (C - s.C)
        return DVRState(Z, C, after.Z, after.y, after.phi, s.plan, after.t, after.touched)

    def warm_up(self, s: DVRState, problem: Problem, net: Network, *draws: Any) -> None:
        """Both outcomes of the coin: a computation, and a round of communication."""
        samples, coins = draws
        self.computed(s, problem, samples[0])
        super().warm_up(s, problem, net, samples, np.ones_like(coins))

    def computed(self, s: DVRState, problem: Problem, samples: Indices) -> DVRState:
        """A computation at every node."""
        ids, sizes = problem.components.ids(samples), problem.sizes[:, None]
        rho = np.minimum(1.0, self.alpha * sizes / int(problem.all_sizes.max()))
        y, phi = s.y.copy(), s.phi.copy()
        y[ids] = (1 - rho) * s.y[ids] + rho * problem.components.image(samples, s.Z)
        g = np.empty((len(ids), problem.k))
        forward_all(problem.component, y[ids], problem.y[ids], g)
        phi[ids] = g
        Z = s.Z - problem.components.spread(samples, g - s.phi[ids]) / (sizes * s.plan.sigma)
        return DVRState(Z, s.C, s.X_last, y, phi, s.plan, s.t + 1, s.touched + problem.n_nodes)

    def plan(self, problem: Problem, topology: Topology) -> EdgePlan:
        c, (l1, l2) = problem.constants, laplacian_spectrum(topology)
        tau = self.tau(problem)
        sigma = problem.lam + tau
        weight = 2 * l1 / (sigma + float(problem.local_smoothness.max()))  # of the paper's edges to the samples
        samples, nodes = weight * (c.q + c.L_plan / sigma), l2 / sigma
        p_comp = samples / (samples + nodes)
        root = math.sqrt(problem.lam / sigma)
        return EdgePlan(sigma, tau, p_comp, l2, math.ceil((c.q + c.L_plan / sigma) / p_comp), (1 - root) / (1 + root))

    def tau(self, problem: Problem) -> float:
        """Catalyst's weight for methods that touch one of q samples at a time: L/q - lam, where that is positive."""
        c = problem.constants
        return max(0.0, c.L_plan / c.q - problem.lam) if self.catalyst else 0.0

    def samples_per_step(self, problem: Problem) -> int:
        return problem.n_nodes

    def passes(self, s: DVRState, problem: Problem) -> float:
        return s.touched / problem.n_samples

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """ "auto": the paper's q/(q + L/sigma), L the largest constant of a component."""
        c = problem.constants
        return {"auto": lambda: c.q / (c.q + c.L_plan / (problem.lam + self.tau(problem)))}
