"""LT-ADMM: ADMM with local training (Ren, Bastianello, Johansson and Parisini, 2025)."""

from dataclasses import dataclass, field

import numpy as np

from dsba.algorithms.base import Algorithm, Array, Indices, Network, Problem, State, Topology
from dsba.algorithms.needs import objective
from dsba.algorithms.open_constants import OpenConstant
from dsba.algorithms.rivals.extra import smoothness
from dsba.errors import as_integer


@dataclass
class LTADMMState(State):
    """Z, the dual variables P (N x p each), and the pull beta rho."""

    P: Array
    pull: float = field(metadata={"static": True})


@dataclass(frozen=True)
class LTADMM(Algorithm):
    """A round of ADMM whose local problem is answered by tau gradient steps (``local_steps``).

        Phi_0 = X,    Phi_{l+1} = Phi_l - gamma B(Phi_l) - beta (rho d_n x_n - sum_m z_nm),    X+ = Phi_tau
        z_nm+ = (z_nm - z_mn)/2 + rho x_m+            for every neighbour m of node n, d_n their number

    Start: z_nm = rho z0. Of the z_nm only a node's sum matters. With C = rho L_G X + P and P+ = P + rho/2 L_G X,
    P = 0 at the start, it is rho d_n x_n - sum of z_nm = C: a node sends its row x_n to all neighbours, and no z_nm.
    ``step_size`` is gamma; beta rho is 1/(tau l), l the largest eigenvalue of L_G.

    Parameters
    ----------
    local_steps : int
        The number tau of local gradient steps.
    """

    local_steps: int = 5

    name = "lt-admm"
    needs = (objective,)
    factors = (0.3, 1.0, 3.0)
    opens = (OpenConstant("local_steps", "integer", (2, 5, 10), (1, 50)),)

    def __post_init__(self) -> None:
        as_integer("local_steps", self.local_steps, at_least=1)

    def init(self, problem: Problem, net: Network, z0: Array) -> LTADMMState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        largest = float(np.linalg.eigvalsh(net.topology.graph.laplacian)[-1])
        return LTADMMState(Z, np.zeros_like(Z), 1 / (self.local_steps * largest) if largest > 0 else 0.0)

    def step(self, s: LTADMMState, problem: Problem, net: Network, samples: Indices) -> LTADMMState:
        apart = net.laplacian(s.Z)
        C, Phi = s.pull * apart + s.P, s.Z
        for _ in range(self.local_steps):
            Phi = Phi - self.alpha * problem.local_operator(Phi) - C
        return LTADMMState(Phi, s.P + s.pull / 2 * apart, s.pull, t=s.t + 1)

    def samples_per_step(self, problem: Problem) -> float:
        return self.local_steps * problem.n_samples

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """1/(2 L)."""
        return 1 / (2 * smoothness(problem))
