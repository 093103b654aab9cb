"""EXTRA, the exact first-order decentralised gradient method, and PG-EXTRA (Shi, Ling, Wu and Yin, 2015)."""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from dsba._system.memory import own_pages
from dsba._system.threads import WORTH, even_cuts, run_pieces
from dsba.algorithms.base import Algorithm, Array, Indices, Network, Problem, State, Topology, most_of_a_mixing
from dsba.algorithms.open_constants import OpenConstant, filled
from dsba.errors import as_number
from dsba.kernels.extra import extra_iterations, extra_mix


@dataclass
class ExtraState(State):
    """Z, and P, the sum of (W~ - W) Z over the past (N x p each)."""

    P: Array
    spare: Array = field(metadata={"static": True})


@dataclass(frozen=True)
class EXTRA(Algorithm):
    """Z+ = W~ (2 Z - Z_prev) - alpha [B(Z) - B(Z_prev)],  started from Z_prev = Z0, B(Z_prev) := 0.

    Summed over time, which needs no old operator value and takes no differences of large numbers:

        Z+ = W Z - P - alpha B(Z),      P+ = P + (W~ - W) Z,      P = 0 at the start.
    """

    name = "extra"
    factors = (0.25, 0.5, 1.0, 2.0)

    def init(self, problem: Problem, net: Network, z0: Array) -> ExtraState:
        Z, P, spare = (own_pages((len(problem.nodes), z0.size)) for _ in range(3))
        Z[:] = z0
        return ExtraState(Z, P, spare)

    def step(self, s: ExtraState, problem: Problem, net: Network, samples: Indices) -> ExtraState:
        D = net.differences(s.Z)  # (W~ - W) Z, and W Z = Z - 2 D
        Z = s.Z - 2 * D - s.P - self.alpha * problem.lam_diag * s.Z
        problem.local.add_operator(s.Z, -self.alpha, Z)
        return ExtraState(Z, s.P + D, s.spare, t=s.t + 1)

    def advance(self, s: ExtraState, problem: Problem, net: Network, samples: Indices) -> ExtraState:
        """The same in two fused sweeps, in place; in ``step``, temporaries cost more than the data at large d."""
        mixing = net.local_mixing()
        if mixing is None or mixing.rounds > 1:
            return super().advance(s, problem, net, samples)
        Z, P, new, shrink = s.Z, s.P, s.spare, self.alpha * problem.lam_diag
        count = len(samples)
        if max(Z.size, problem.A.nnz) < WORTH:
            rule = (self.alpha, shrink)
            extra_iterations(count, problem.component, problem.samples, rule, mixing.kernel_rows, Z, P, new)
            Z, new = (new, Z) if count % 2 else (Z, new)
        else:
            columns = even_cuts(problem.dim) if Z.size > WORTH else [0, problem.dim]
            for _ in samples:
                run_pieces(extra_mix, columns, mixing.kernel_rows, shrink, Z, P, new)
                problem.local.add_operator(Z, -self.alpha, new)
                Z, new = new, Z
        net.tally(count, problem.dim)
        return ExtraState(Z, P, new, t=s.t + count)

    def most(self, s: ExtraState, problem: Problem, net: Network) -> dict[str, float]:
        return super().most(s, problem, net) | most_of_a_mixing(net, problem.dim)

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """Four fifths of (5 + 3 lambda_min(W)) / (4 L), Li and Yan's (2021) bound for objectives.

        AUC's operator, which is no gradient, became unstable at twice this or later in all cases tried.
        """
        smallest = float(topology.eigenvalues[-1])  # of W~ = (I + W)/2
        return 0.8 * (1 + 3 * smallest) / (2 * smoothness(problem))


@dataclass
class PGExtraState(State):
    """Z, the sum P of the past (N x p each)."""

    P: Array


@dataclass(frozen=True)
class PGExtra(Algorithm):
    """V+ = W Z + V - W~ Z_prev - alpha [B(Z) - B(Z_prev)],   Z+ = prox_alpha(V+) (Algorithm 1 of the paper).

    Started from V = W Z0 - alpha B(Z0). Summed over time, as EXTRA is here:

        V+ = W Z - P - alpha B(Z),      Z+ = prox_alpha(V+),      P+ = P + (W~ - W) Z,      P = 0 at the start.

    prox is the proximal map of the problem's penalty; without one this is EXTRA.
    """

    name = "pg-extra"
    composite = True
    factors = EXTRA.factors

    def init(self, problem: Problem, net: Network, z0: Array) -> PGExtraState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        return PGExtraState(Z, np.zeros_like(Z))

    def step(self, s: PGExtraState, problem: Problem, net: Network, samples: Indices) -> PGExtraState:
        D = net.differences(s.Z)  # (W~ - W) Z, and W Z = Z - 2 D
        V = s.Z - 2 * D - s.P - self.alpha * problem.local_operator(s.Z)
        return PGExtraState(problem.pooled.prox(V, self.alpha), s.P + D, t=s.t + 1)

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """EXTRA's."""
        return EXTRA().auto_step(problem, topology)


def smoothness(problem: Problem) -> float:
    """The largest Lipschitz constant of a local operator, Lambda included."""
    return float(problem.local_smoothness.max()) + problem.lam


@dataclass(frozen=True)
class WithSmoothness(Algorithm):
    """Base of methods whose rules contain L. On real data L is reached in few directions, and a smaller one may pay.

    Parameters
    ----------
    L : float or None
        The smoothness that the rules take; None is the largest Lipschitz constant of a local operator, with lambda.
    """

    L: float | None = None

    opens = (OpenConstant("L", start=(0.01, 0.1, 1.0), bounds=(1e-4, 10.0)),)

    @property
    def planned_L(self) -> float:
        """L as a number; ``resolved`` fills in the automatic one."""
        return filled(self.L)

    def resolved(self, problem: Problem, topology: Topology) -> Self:
        L = smoothness(problem) if self.L is None else as_number("L", self.L, above=0.0)
        return super(WithSmoothness, replace(self, L=L)).resolved(problem, topology)
