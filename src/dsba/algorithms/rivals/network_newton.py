"""Network Newton (Mokhtari, Ling and Ribeiro, 2017): Newton's steps on a penalised problem, with a truncated series."""

from dataclasses import dataclass

import numpy as np

from dsba._system.threads import one_blas_thread
from dsba.algorithms.base import Algorithm, Array, Indices, Network, Problem, State, Topology
from dsba.algorithms.needs import objective
from dsba.algorithms.newton import MOST_COLUMNS
from dsba.algorithms.rivals.extra import smoothness
from dsba.errors import InputError, as_integer
from dsba.solvers.newton import unsolvable


def hessians(problem: Problem, net: Network) -> str | None:
    """Small ones, at every node."""
    if reason := unsolvable(problem.component):
        return f"it needs Hessians, and {reason}."
    if problem.dim > MOST_COLUMNS:
        return f"it solves systems of {problem.dim:,} coefficients at every node; at most {MOST_COLUMNS:,} are taken."
    return None


@dataclass(frozen=True)
class NetworkNewton(Algorithm):
    """NN-K: K + 1 terms of the series for Newton's direction on  Z'(I - W)Z/2 + alpha (sum of f_n).

        g      = (I - W) Z + alpha B(Z)
        D_n    = alpha (the Hessian of f_n) + 2 (1 - w_nn) I
        d_0    = -D^-1 g
        d_k+1  = D^-1 ((I - 2 diag(W) + W) d_k - g)
        Z+     = Z + d_K

    The solution of the penalised problem is off that of the problem by O(alpha), and the iterations needed grow as
    1/alpha: a method for a neighbourhood. ``step_size`` is alpha. K + 1 rounds an iteration.

    Parameters
    ----------
    K : int
        Terms of the series beyond the first; each is a round.
    """

    K: int = 1

    name = "network-newton"
    needs = (objective, hessians)
    linear = False
    factors = (0.1, 1.0, 10.0)

    def __post_init__(self) -> None:
        as_integer("K", self.K, at_least=0)

    def init(self, problem: Problem, net: Network, z0: Array) -> State:
        return State(np.tile(z0, (len(problem.nodes), 1)))

    def step(self, s: State, problem: Problem, net: Network, samples: Indices) -> State:
        alpha, own = self.alpha, np.diag(net.topology.W)[net.nodes, None]
        g = 2 * net.differences(s.Z) + alpha * problem.local_operator(s.Z)
        D = alpha * problem.local.hessians(s.Z) + 2 * (1 - own[:, :, None]) * np.eye(problem.dim)
        d = -solved(D, g)
        for _ in range(self.K):
            Bd = 2 * (1 - own) * d - 2 * net.differences(d)  # W d = d - 2 differences(d)
            d = solved(D, Bd - g)
        return State(s.Z + d, t=s.t + 1)

    def work(self, s: State, problem: Problem, net: Network) -> float:
        """With the Hessians, and K + 1 systems of p equations at every node."""
        systems = (self.K + 1) * problem.n_nodes * problem.dim**3 / 3
        return super().work(s, problem, net) + s.t * (problem.gram_work + systems) / problem.sweep

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """gamma/(10 L): a tenth of where the penalty outweighs the objective."""
        return 0.1 * topology.gamma / smoothness(problem)


def solved(D: Array, rows: Array) -> Array:
    """D_n^-1 times row n, for every node."""
    try:
        with one_blas_thread():  # the bits of a factorisation may depend on the number of threads
            return np.linalg.solve(D, rows[:, :, None])[:, :, 0].astype(np.float64)
    except np.linalg.LinAlgError:
        raise InputError(
            "a node's system is singular: its lam is 0 or too small beside the curvature there "
            '(regularize="all" also gives intercepts one).'
        ) from None
