"""DGD: decentralised gradient descent (Nedic and Ozdaglar, 2009)."""

import math
from dataclasses import dataclass

import numpy as np

from dsba.algorithms.base import Algorithm, Array, Indices, Network, Problem, State, Topology
from dsba.algorithms.rivals.extra import smoothness
from dsba.errors import InputError

EIGENVALUE_ROUNDING = 1e-12  # of an eigenvalue that should be 0


@dataclass(frozen=True)
class DGD(Algorithm):
    """Z+ = W Z - alpha_t B(Z): average with the neighbours, then go down the node's own slope.

    With the constant step alpha_t = alpha it converges linearly, but to a point off the solution by
    O(alpha): the nodes pull apart where their operators differ. The diminishing step
    alpha_t = alpha / sqrt(t + 1) reaches the solution, and no faster than the step vanishes.

    Parameters
    ----------
    diminishing : bool
        Whether the step size decreases.
    """

    diminishing: bool = False

    name = "dgd"
    linear = False
    proven_on = ("loss", "changing graph", "compressed changes", "bursty loss", "resting nodes")

    def init(self, problem: Problem, net: Network, z0: Array) -> State:
        return State(np.tile(z0, (len(problem.nodes), 1)))

    def step(self, s: State, problem: Problem, net: Network, samples: Indices) -> State:
        alpha = self.alpha / math.sqrt(s.t + 1) if self.diminishing else self.alpha
        WZ = 2 * net.mix(s.Z) - s.Z
        return State(WZ - alpha * problem.local_operator(s.Z), t=s.t + 1)

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """Half of (1 + lambda_min(W)) / L, beyond which a constant step is unstable."""
        smallest = float(topology.eigenvalues[-1])  # of W~ = (I + W)/2
        if smallest < EIGENVALUE_ROUNDING:
            raise InputError("dgd has no stable step where W has the eigenvalue -1: mix with another matrix or tau.")
        return smallest / smoothness(problem)
