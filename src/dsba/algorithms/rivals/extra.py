"""EXTRA: exact first-order decentralised gradient method (Shi, Ling, Wu and Yin, 2015)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from dsba._system.memory import own_pages
from dsba._system.threads import WORTH, even_cuts, run_pieces
from dsba.algorithms.base import Algorithm, most_of_a_mixing
from dsba.graph.topology import Topology
from dsba.kernels.extra import extra_iterations, extra_mix
from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.types import Array, Indices


@dataclass
class ExtraState:
    """Z, and P, the sum of (W~ - W) Z over the past (N x p each)."""

    Z: Array
    P: Array
    spare: Array = field(metadata={"static": True})
    t: int = 0


@dataclass(frozen=True)
class EXTRA(Algorithm):
    """Z+ = W~ (2 Z - Z_prev) - alpha [B(Z) - B(Z_prev)],  started from Z_prev = Z0, B(Z_prev) := 0.

    Summed over time, which needs no old operator value and takes no differences of large numbers:

        Z+ = W Z - P - alpha B(Z),      P+ = P + (W~ - W) Z,      P = 0 at the start.
    """

    name: ClassVar[str] = "extra"
    factors: ClassVar[tuple[float, ...]] = (0.25, 0.5, 1.0, 2.0)

    def init(self, problem: Problem, net: Network, z0: Array) -> ExtraState:
        Z, P, spare = (own_pages((len(problem.nodes), z0.size)) for _ in range(3))
        Z[:] = z0
        return ExtraState(Z, P, spare)

    def step(self, s: ExtraState, problem: Problem, net: Network, samples: Indices) -> ExtraState:
        D = net.differences(s.Z)  # (W~ - W) Z, and W Z = Z - 2 D
        Z = s.Z - 2 * D - s.P - self.alpha * problem.lam_diag * s.Z
        problem.local.add_operator(s.Z, -self.alpha, Z)
        return ExtraState(Z, s.P + D, s.spare, s.t + 1)

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
        return ExtraState(Z, P, new, s.t + count)

    def most(self, s: ExtraState, problem: Problem, net: Network) -> dict[str, float]:
        return super().most(s, problem, net) | most_of_a_mixing(net, problem.dim)

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """ "auto": four fifths of (5 + 3 lambda_min(W)) / (4 L), Li and Yan's (2021) bound for objectives.

        AUC's operator, which is no gradient, became unstable at twice this or later in all cases tried.
        """
        smallest = float(topology.eigenvalues[-1])  # of W~ = (I + W)/2
        return {"auto": lambda: 0.8 * (1 + 3 * smallest) / (2 * smoothness(problem))}


def smoothness(problem: Problem) -> float:
    """The largest Lipschitz constant of a local operator, Lambda included."""
    return float(problem.local_smoothness.max()) + problem.lam
