"""SSDA and MSDA: accelerated gradient ascent on the dual (Scaman, Bach, Bubeck, Lee and Massoulie, ICML 2017)."""

from dataclasses import dataclass, field

import numpy as np

from dsba.algorithms.base import Array, Indices, Network, Problem, Topology
from dsba.algorithms.needs import local_solutions, objective, strong_convexity
from dsba.algorithms.rivals.extra import WithSmoothness
from dsba.algorithms.rivals.gossip import chebyshev_gossip, chebyshev_spectrum, laplacian_gossip, laplacian_spectrum
from dsba.algorithms.rivals.inner_solver import InnerSolver, InnerState
from dsba.solvers.local import LocalSolver


@dataclass
class SSDAState(InnerState):
    """Z (the theta of the formula), and the dual points x, y (N x p)."""

    x: Array
    y: Array
    momentum: float = field(metadata={"static": True})


@dataclass(frozen=True)
class SSDA(WithSmoothness, InnerSolver):
    """Nesterov's method for the dual variables of consensus.

        theta_n = grad f_n*(x_n),   the minimiser of f_n(theta) - x_n'theta
        y+      = x - eta Lap theta,      Lap = I - W
        x+      = y+ + m (y+ - y),        m = (1 - sqrt(eta l1/L)) / (1 + sqrt(eta l1/L))

    Start: x = y = 0, so the first theta_n are the local minimisers; z0 is only the inner solver's first
    guess. The dual is l2/mu-smooth and l1/L-strongly convex, l1 and l2 the extreme nonzero eigenvalues
    of Lap, ``L`` and mu the local objectives' smoothness and convexity. ``step_size`` is eta; with mu/l2, and
    no more is stable unless the data adds to mu, m is the paper's momentum.
    """

    name = "ssda"
    needs = (objective, local_solutions, strong_convexity)
    factors = (0.3, 1.0, 3.0, 10.0)
    gossip, spectrum = staticmethod(laplacian_gossip), staticmethod(laplacian_spectrum)

    def init(self, problem: Problem, net: Network, z0: Array) -> SSDAState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        root = np.sqrt(self.alpha * self.spectrum(net.topology)[0] / self.planned_L)
        solver, x = LocalSolver(problem, 0.0), np.zeros_like(Z)
        first, touched = solver.begin(Z)
        return SSDAState(*first, solver, x, x, (1 - root) / (1 + root), touched=solver.touched + touched)

    def step(self, s: SSDAState, problem: Problem, net: Network, samples: Indices) -> SSDAState:
        theta, touched = s.solver.solve(s.x, s.solution)
        y = s.x - self.alpha * self.gossip(theta.Z, net)
        x = y + s.momentum * (y - s.y)
        return SSDAState(*theta, s.solver, x, y, s.momentum, t=s.t + 1, touched=s.touched + touched)

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """The paper's mu/l2, one over the smoothness of the dual."""
        return problem.lam / self.spectrum(topology)[1]


@dataclass(frozen=True)
class MSDA(SSDA):
    """SSDA with Lap replaced by its Chebyshev polynomial P_K(Lap), K = floor(sqrt(l2/l1)).

    P_K keeps the null space and brings the other eigenvalues together, around 1; it costs K rounds.
    """

    name = "msda"
    gossip, spectrum = staticmethod(chebyshev_gossip), staticmethod(chebyshev_spectrum)
