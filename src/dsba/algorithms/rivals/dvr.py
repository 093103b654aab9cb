"""DVR: dual-free decentralised variance reduction (Hendrikx, Bach and Massoulie, NeurIPS 2020), with Catalyst."""

import copy
import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dsba.algorithms.base import NO_COINS, Array, CountedState, Indices, Network, Problem, Topology, WithCoins
from dsba.algorithms.needs import lipschitz_gradients, objective, strong_convexity
from dsba.algorithms.open_constants import OpenConstant, filled
from dsba.errors import InputError, as_number
from dsba.kernels.dvr import GossipModes, dvr_iterations

LAZY_FROM = 0.5  # columns, over those that an iteration touches if none is touched twice
LAZY_WORK = 3  # multiply-adds that move a mode of a column to the present, read it and add to it
TABLED_ROUNDS = 4096  # of gossip, whose factors are computed beforehand


class EdgePlan(NamedTuple):
    """sigma, tau, the probability of a computation, l2, the length of an inner loop, the momentum beta."""

    sigma: float
    tau: float
    p_comp: float
    l2: float
    inner: int
    beta: float


@dataclass
class DVRState(CountedState):
    """Z, the centre C, the solution X_last of the last inner loop (N x p each), points y, their table phi (Q x k)."""

    C: Array
    X_last: Array
    y: Array
    phi: Array
    plan: EdgePlan = field(metadata={"static": True})

    lazy: ClassVar[bool] = False


@dataclass
class LazyDVRState:
    """The same without Catalyst: Z as modes (``kernels/dvr.py``), each column as of ``stamp`` rounds of gossip."""

    modes: Array
    stamp: Indices
    y: Array
    phi: Array
    plan: EdgePlan = field(metadata={"static": True})
    basis: Array = field(metadata={"static": True})
    powers: Array = field(metadata={"static": True})
    gossips: int = 0
    t: int = 0
    touched: float = 0.0

    lazy: ClassVar[bool] = True

    @property
    def Z(self) -> Array:
        often, rest = np.divmod(self.gossips - self.stamp, TABLED_ROUNDS)
        moved = self.modes * self.powers[rest] * self.powers[-1] ** often[:, None]
        return np.ascontiguousarray(self.basis @ moved.T)


@dataclass(frozen=True)
class DVR(WithCoins):
    """Coordinate descent in the dual without dual variables; a common coin chooses between two steps.

        gossip:       Z+  = Z - Lap Z / l2
        computation:  y_i <- (1 - rho) y_i + rho A_i Z,   phi_i <- g(y_i),
                      Z+  = Z - c_n A_i' (the change of phi_i) / (q sigma)

    Start: y_i = A_i z0, Z = (tau C - mean of c_n A_i' phi_i)/sigma, sigma = lam + tau: a relation that holds at all
    times for the means over the nodes. ``step_size`` is the rho of the largest node; a node's rho is in proportion to
    its samples. By default the probability of a computation is the paper's, from sigma, the constants of samples and
    nodes, and the extreme nonzero eigenvalues l1, l2 of Lap = I - W. Without ``catalyst`` tau = 0. With it
    tau/2 ||z - C||^2 is added, and after every inner loop C+ = Z + beta (Z - X_last), X_last+ = Z.

    Parameters
    ----------
    catalyst : bool
        Whether the method is accelerated by Catalyst.
    p_comp : float or None
        The probability of a computation; None is the paper's.
    """

    catalyst: bool = False
    p_comp: float | None = None

    name = "dvr"
    needs = (lipschitz_gradients, objective, strong_convexity)
    rows_updated = 0
    opens = (
        OpenConstant("step_size", "probability", start=(0.3, 1.0, 2.0), bounds=(1e-5, 1.0)),
        OpenConstant("p_comp", "probability", start=(0.3, 1.0, 3.0), bounds=(1e-4, 0.999)),
    )

    def init(self, problem: Problem, net: Network, z0: Array) -> DVRState | LazyDVRState:
        C = np.tile(z0, (len(problem.nodes), 1))
        y, phi = problem.local.images(C), problem.local.table(C)
        plan = self.plan(problem, net.topology)
        Z = (plan.tau * C - problem.local.average(phi)) / plan.sigma
        if plan.tau > 0.0 or not touches_few_columns(problem, net):
            return DVRState(Z, C, C, y, phi, plan, touched=problem.n_samples)
        basis, factors = net.topology.eigenvectors, 1.0 - 2.0 * (1.0 - net.topology.eigenvalues) / plan.l2
        powers = factors ** np.arange(TABLED_ROUNDS + 1)[:, None]
        modes, stamp = np.ascontiguousarray(Z.T @ basis), np.zeros(problem.dim, np.int64)
        return LazyDVRState(modes, stamp, y, phi, plan, np.ascontiguousarray(basis), powers, touched=problem.n_samples)

    def advance(self, s: Any, problem: Problem, net: Network, samples: Indices, coins: Array = NO_COINS) -> Any:
        """Steps, or for a lazy state one compiled call."""
        if not s.lazy:
            return super().advance(s, problem, net, samples, coins)
        computes = coins[:, 0] < s.plan.p_comp
        rule, state = (self.rho(problem).ravel(), s.plan.sigma), GossipModes(s.modes, s.stamp, s.basis, s.powers)
        gossips = dvr_iterations(
            problem.component, problem.samples, samples, computes, rule, s.gossips, state, (s.y, s.phi)
        )
        net.tally(gossips - s.gossips, problem.dim)
        touched = s.touched + int(computes.sum()) * problem.n_nodes
        return replace(s, gossips=gossips, t=s.t + len(samples), touched=touched)

    def step(self, s: DVRState, problem: Problem, net: Network, samples: Indices, coins: Array = NO_COINS) -> DVRState:
        if coins[0] < s.plan.p_comp:
            after = self.computed(s, problem, samples)
        else:
            Z = s.Z - 2 * net.differences(s.Z) / s.plan.l2
            after = replace(s, Z=Z, t=s.t + 1)
        if s.plan.tau == 0.0 or after.t % s.plan.inner:
            return after
        C = after.Z + s.plan.beta * (after.Z - s.X_last)
        Z = after.Z + s.plan.tau / s.plan.sigma * (C - s.C)
        return replace(after, Z=Z, C=C, X_last=after.Z)

    def warm_up(self, s: DVRState, problem: Problem, net: Network, *draws: Any) -> None:
        """Both outcomes of the coin: a computation, and a round of communication."""
        samples, coins = draws
        self.advance(copy.deepcopy(s), problem, net, samples, np.zeros_like(coins))
        super().warm_up(s, problem, net, samples, np.ones_like(coins))

    def computed(self, s: DVRState, problem: Problem, samples: Indices) -> DVRState:
        """A computation at every node."""
        ids, sizes = problem.components.ids(samples), problem.sizes[:, None]
        rho = self.rho(problem)
        y, phi = s.y.copy(), s.phi.copy()
        y[ids] = (1 - rho) * s.y[ids] + rho * problem.components.image(samples, s.Z)
        g = phi[ids] = problem.component.forward_rows(y[ids], problem.y[ids])
        Z = s.Z - problem.components.spread(samples, g - s.phi[ids]) / (sizes * s.plan.sigma)
        return replace(s, Z=Z, y=y, phi=phi, t=s.t + 1, touched=s.touched + problem.n_nodes)

    def rho(self, problem: Problem) -> Array:
        """Of every node held here, in a column."""
        return np.minimum(1.0, self.alpha * problem.sizes[:, None] / int(problem.all_sizes.max()))

    def plan(self, problem: Problem, topology: Topology) -> EdgePlan:
        c, tau = problem.constants, self.tau(problem)
        sigma, l2 = problem.lam + tau, topology.mixing.laplacian_range[1]
        p_comp, root = filled(self.p_comp), math.sqrt(problem.lam / sigma)
        return EdgePlan(sigma, tau, p_comp, l2, math.ceil((c.q + c.L_plan / sigma) / p_comp), (1 - root) / (1 + root))

    def resolved(self, problem: Problem, topology: Topology) -> Self:
        given = self._published(problem, topology) if self.p_comp is None else self.p_comp
        p_comp = as_number("p_comp", given, above=0.0)
        if p_comp >= 1.0 and topology.n_nodes > 1:
            raise InputError(f"p_comp must be below 1, or nodes never communicate, got {p_comp:g}.")
        return super(DVR, replace(self, p_comp=p_comp)).resolved(problem, topology)

    def _published(self, problem: Problem, topology: Topology) -> float:
        """The paper's probability of a computation."""
        c, (l1, l2) = problem.constants, topology.mixing.laplacian_range
        sigma = problem.lam + self.tau(problem)
        weight = 2 * l1 / (sigma + float(problem.local_smoothness.max()))  # of the paper's edges to the samples
        samples, nodes = weight * (c.q + c.L_plan / sigma), l2 / sigma
        return samples / (samples + nodes)

    def tau(self, problem: Problem) -> float:
        """Catalyst's weight for methods that touch one of q samples at a time: L/q - lam, where that is positive."""
        c = problem.constants
        return max(0.0, c.L_plan / c.q - problem.lam) if self.catalyst else 0.0

    def samples_per_step(self, problem: Problem) -> int:
        return problem.n_nodes

    def passes(self, s: DVRState, problem: Problem) -> float:
        return s.touched / problem.n_samples

    def row_work(self, s: Any, problem: Problem, net: Network) -> float:
        """Whole rows, or the modes of the columns that a lazy state has met."""
        if not s.lazy:
            return super().row_work(s, problem, net)
        return self.passes(s, problem) * LAZY_WORK * problem.n_nodes / 2

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """The paper's q/(q + L/sigma), L the largest constant of a component."""
        c = problem.constants
        return c.q / (c.q + c.L_plan / (problem.lam + self.tau(problem)))


def touches_few_columns(problem: Problem, net: Network) -> bool:
    """Whether to go through touched columns only: they are few, and all rows are here and mixed by the matrix alone."""
    mixing = net.local_mixing()
    few = problem.dim > LAZY_FROM * problem.n_nodes * problem.mean_nnz
    return few and mixing is not None and mixing.rounds == 1
