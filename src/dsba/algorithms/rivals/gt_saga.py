"""GT-SAGA: gradient tracking with a table of gradients (Xin, Khan and Kar, 2020)."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from dsba.algorithms.base import Algorithm, Array, Indices, Network, Problem, State, Topology
from dsba.algorithms.needs import objective
from dsba.algorithms.rivals.dvr import touches_few_columns
from dsba.kernels.tracking import TrackedColumns, TrackingPlan, tracked_rows, tracking_iterations

TABLED_POWERS = 256  # and as many of the longest of them: a column that waits longer takes several products
LAZY_TRACKING_WORK = 12  # multiply-adds that move a mode of a column to the present, read it and add to it


@dataclass
class GTSAGAState(State):
    """Z, the trackers Y, the estimates G (N x p each), the table phi (Q x k) and the mean of its entries (N x p)."""

    Y: Array
    G: Array
    phi: Array
    mean: Array

    lazy: ClassVar[bool] = False


@dataclass
class LazyGTSAGAState:
    """The same as modes (``kernels/tracking.py``), each column as of ``stamp`` iterations; the mean is not needed."""

    modes: Array
    stamp: Indices
    phi: Array
    plan: TrackingPlan = field(metadata={"static": True})
    t: int = 0

    lazy: ClassVar[bool] = True

    @property
    def Z(self) -> Array:
        rows = np.empty((self.plan.h.size, self.stamp.size))
        tracked_rows(self.t, self.plan, TrackedColumns(self.modes, self.stamp), rows)
        return rows


@dataclass(frozen=True)
class GTSAGA(Algorithm):
    """Every node follows a tracker of the mean over all nodes of SAGA's estimates (Algorithm 1 of the paper).

        Z+    = W~ Z - alpha Y
        G+    = B_i(Z+) - phi_i + mean of phi + Lambda Z+,      phi_i <- B_i(Z+)
        Y+    = W~ Y + G+ - G

    Start: phi = B(z0), Y = G = B(z0) + Lambda z0, which is one pass over the data. Z and Y travel in one message. The
    paper wants a primitive doubly stochastic matrix, and W~ is one wherever W is a mixing matrix.
    """

    name = "gt-saga"
    rows_mixed, rows_updated = 2, 6
    first_passes = 1.0  # the first table
    needs = (objective,)
    factors = (0.3, 1.0, 3.0)

    def init(self, problem: Problem, net: Network, z0: Array) -> GTSAGAState | LazyGTSAGAState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        phi = problem.local.table(Z)
        mean = problem.local.average(phi)
        G = mean + problem.lam_diag * Z
        if problem.penalty is not None or not touches_few_columns(problem, net):
            return GTSAGAState(Z, G, G, phi, mean)
        modes, basis = np.zeros((problem.dim, 3, problem.n_nodes)), net.topology.eigenvectors
        modes[:, 0], modes[:, 1] = Z.T @ basis, G.T @ basis
        return LazyGTSAGAState(modes, np.zeros(problem.dim, np.int64), phi, self.lazy_plan(problem, net.topology))

    def step(self, s: GTSAGAState, problem: Problem, net: Network, samples: Indices) -> GTSAGAState:
        WZ, WY = np.hsplit(net.mix(np.hstack([s.Z, s.Y])), 2)
        Z = WZ - self.alpha * s.Y
        G, phi, mean = self.estimated(s, problem, samples, Z)
        return GTSAGAState(Z, WY + G - s.G, G, phi, mean, t=s.t + 1)

    def advance(self, s: Any, problem: Problem, net: Network, samples: Indices) -> Any:
        """Steps, or for a lazy state one compiled call."""
        if not s.lazy:
            return super().advance(s, problem, net, samples)
        columns = TrackedColumns(s.modes, s.stamp)
        tracking_iterations(problem.component, problem.samples, samples, s.t, s.plan, columns, s.phi)
        rounds, rows = self.traffic(net.topology)
        net.tally(rounds * len(samples), rows * problem.dim)
        return replace(s, t=s.t + len(samples))

    def traffic(self, topology: Topology) -> tuple[int, int]:
        """Of an iteration: the rounds, and the rows of p numbers in a message."""
        return 1, 2

    def mode_factors(self, topology: Topology) -> tuple[Array, Array, Array, Array]:
        """f, b, g, h of every mode: z+ = f z - b y, and y+ = g y + h (what G rises by)."""
        values = topology.eigenvalues
        return values, np.full_like(values, self.alpha), values, np.ones_like(values)

    def lazy_plan(self, problem: Problem, topology: Topology) -> TrackingPlan:
        """What moves columns: of G only Lambda Z changes where no sample is touched."""
        f, b, g, h = self.mode_factors(topology)
        lams, kind = np.unique(problem.lam_diag, return_inverse=True)
        lam = lams[:, None]
        moved = np.broadcast_arrays(f, -b, h * lam * (f - 1), g - h * lam * b)
        first = np.stack(moved, axis=-1).reshape(lams.size, f.size, 2, 2)
        powers = np.empty((lams.size, 2, TABLED_POWERS, f.size, 2, 2))
        with np.errstate(all="ignore"):  # a step size that is too long ends as a run that diverged
            for k in range(2):
                powers[:, k, 0] = np.eye(2)
                for n in range(1, TABLED_POWERS):
                    powers[:, k, n] = powers[:, k, n - 1] @ first
                first = powers[:, k, -1] @ first
        basis = np.ascontiguousarray(topology.eigenvectors)
        return TrackingPlan(basis, h, powers.reshape(*powers.shape[:4], 4), kind.astype(np.int64))

    def estimated(self, s: GTSAGAState, problem: Problem, samples: Indices, Z: Array) -> tuple[Array, Array, Array]:
        """SAGA's estimates G at Z, and the table and its means with the samples' new entries."""
        ids, g = problem.components.ids(samples), problem.components.forward(samples, Z)
        change = problem.components.spread(samples, g - s.phi[ids])
        phi = s.phi.copy()
        phi[ids] = g
        return change + s.mean + problem.lam_diag * Z, phi, s.mean + change / problem.sizes[:, None]

    def samples_per_step(self, problem: Problem) -> int:
        return problem.n_nodes

    def row_work(self, s: Any, problem: Problem, net: Network) -> float:
        """Whole rows, or the modes of the columns that a lazy state has met."""
        if not s.lazy:
            return super().row_work(s, problem, net)
        return (self.passes(s, problem) - 1.0) * LAZY_TRACKING_WORK * problem.n_nodes / 2

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """1/(3 L), L the largest constant of a component with its share of the regulariser."""
        return 1 / (3 * (problem.constants.L_plan + problem.lam))
