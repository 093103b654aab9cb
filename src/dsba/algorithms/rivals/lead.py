"""LEAD: linear convergence with compressed differences (Liu, Li, Wang, Tang and Yan, ICLR 2021)."""

from dataclasses import dataclass, field, replace

import numpy as np

from dsba.algorithms.base import Array, Indices, Network, Problem, State, Topology, WithCoins
from dsba.algorithms.needs import objective, single_rounds
from dsba.algorithms.open_constants import OpenConstant
from dsba.algorithms.rivals.extra import smoothness
from dsba.algorithms.sampling import generators
from dsba.errors import InputError, as_integer, as_number
from dsba.network.messages.levels import CompressedRows, Compression


@dataclass
class LEADState(State):
    """Z, the dual variables D (N x p each), and H, what neighbours know of Y."""

    D: Array
    H: Array
    known: CompressedRows = field(metadata={"static": True})


@dataclass(frozen=True)
class LEAD(WithCoins):
    """NIDS with compressed messages: differences from what the neighbours know already (Algorithm 1 of the paper).

        Y  = Z - eta B(Z) - eta D
        Y^ = H + C(Y - H),      H+ = (H + Y^)/2
        D+ = D + gamma (I - W) Y^ / (2 eta)
        Z+ = Z - eta B(Z) - eta D+

    Start: D = 0, H = Z0. ``step_size`` is eta; the paper's a is 1/2. C rounds every number at random to
    a multiple of 2^(1-bits) times the largest one, up or down so that its mean is right. Nodes keep copies of their
    neighbours' H, where the paper keeps W H: in floating point that would drift. Messages are those of
    ``network/messages/levels.py``.

    Parameters
    ----------
    bits : int
        The number of levels is 2^bits + 1; 2 gives 5 levels, three of them in a byte.
    gamma : float
        The step of the dual variables.
    """

    bits: int = 2
    gamma: float = 1.0

    name = "lead"
    rows_updated = 10
    exact_links = "its nodes add up all messages of their neighbours"
    needs = (objective, single_rounds)
    factors = (0.25, 0.5, 1.0)
    opens = (OpenConstant("gamma", start=(0.3, 1.0), bounds=(0.01, 4.0)),)

    def __post_init__(self) -> None:
        as_number("gamma", self.gamma, above=0.0)
        if as_integer("bits", self.bits, at_least=1) > 7:
            raise InputError(f"bits must be between 1 and 7, got {self.bits}.")

    def init(self, problem: Problem, net: Network, z0: Array) -> LEADState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        known = CompressedRows(net, problem.dim, Compression(2 ** (self.bits - 1), guarded=False))
        return LEADState(Z, np.zeros_like(Z), known.start(z0), known)

    def step(
        self, s: LEADState, problem: Problem, net: Network, samples: Indices, coins: Array | None = None
    ) -> LEADState:
        assert coins is not None
        eta, G = self.alpha, problem.local_operator(s.Z)
        draws = [generator.random(problem.dim) for generator in generators(coins[0], net.nodes)]
        apart, H = s.known.differences(s.Z - eta * G - eta * s.D, s.H, draws)
        D = s.D + self.gamma * apart / eta
        return replace(s, Z=s.Z - eta * G - eta * D, D=D, H=H, t=s.t + 1)

    def auto_step(self, problem: Problem, topology: Topology) -> float:
        """1/L."""
        return 1 / smoothness(problem)
