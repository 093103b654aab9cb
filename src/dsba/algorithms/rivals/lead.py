"""LEAD: linear convergence with compressed differences (Liu, Li, Wang, Tang and Yan, ICLR 2021)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dsba.algorithms.base import WithCoins
from dsba.algorithms.needs import Need, exact_links, objective, single_rounds
from dsba.algorithms.rivals.extra import smoothness
from dsba.algorithms.sampling import generators
from dsba.errors import InputError, as_integer
from dsba.graph.topology import Topology
from dsba.network import Network
from dsba.problem.problem import Problem
from dsba.types import Array, Indices

MEMORY = 0.5  # the paper's alpha: how much of a difference enters the states H
PACE = 1.0  # the paper's gamma: the step of the dual variables


@dataclass
class LEADState:
    """Z, the dual variables D, the states H that neighbours know, and W H (N x p each)."""

    Z: Array
    D: Array
    H: Array
    WH: Array
    t: int = 0


@dataclass(frozen=True)
class LEAD(WithCoins):
    """NIDS with compressed messages: differences from what the neighbours know already (Algorithm 1 of the paper).

        Y  = Z - eta B(Z) - eta D
        Q  = C(Y - H),      Y^ = H + Q,      WY^ = WH + W Q
        H+ = (1 - a) H + a Y^,               WH+ = (1 - a) WH + a WY^
        D+ = D + gamma/(2 eta) (Y^ - WY^)
        Z+ = Z - eta B(Z) - eta D+

    Start: D = 0, H = Z0. ``step_size`` is eta; a = 1/2, gamma = 1. C rounds every number at random to a multiple of
    2^(1-bits) times the largest one, up or down so that its mean is right. A message is that largest number and a
    level for each coordinate, several of them in a byte.
    """

    bits: int = 2
    """2^bits + 1 levels: 2 is 5 levels, three of them in a byte."""

    name: ClassVar[str] = "lead"
    needs: ClassVar[tuple[Need, ...]] = (
        objective,
        single_rounds,
        exact_links("its nodes add up all messages of their neighbours"),
    )
    factors: ClassVar[tuple[float, ...]] = (0.25, 0.5, 1.0)

    def __post_init__(self) -> None:
        if as_integer("bits", self.bits, at_least=1) > 7:
            raise InputError(f"bits must be between 1 and 7, got {self.bits}.")

    def init(self, problem: Problem, net: Network, z0: Array) -> LEADState:
        Z = np.tile(z0, (len(problem.nodes), 1))
        return LEADState(Z, np.zeros_like(Z), Z, Z)  # W H = H where all rows are the same

    def step(
        self, s: LEADState, problem: Problem, net: Network, samples: Indices, coins: Array | None = None
    ) -> LEADState:
        assert coins is not None
        eta, G = self.alpha, problem.local_operator(s.Z)
        Y = s.Z - eta * G - eta * s.D
        Q, WQ = self.exchanged(Y - s.H, net, generators(coins[0], net.nodes))
        Y_hat, WY_hat = s.H + Q, s.WH + WQ
        D = s.D + PACE / (2 * eta) * (Y_hat - WY_hat)
        H, WH = s.H + MEMORY * Q, s.WH + MEMORY * WQ
        return LEADState(s.Z - eta * G - eta * D, D, H, WH, s.t + 1)

    def exchanged(self, V: Array, net: Network, random: list[np.random.Generator]) -> tuple[Array, Array]:
        """Q = C(V), and W Q from the messages. In place of a row that it did not hear, a node takes its own row."""
        codec, W = LeadLevels(self.bits), net.topology.W
        frames = [codec.encoded(v, generator.random(v.size)) for v, generator in zip(V, random, strict=True)]
        neighbors = [net.topology.neighbors[n].tolist() for n in net.nodes]
        heard = net.exchange([dict.fromkeys(m, frame) for m, frame in zip(neighbors, frames, strict=True)])
        net.count(0, [len(box) for box in heard], [sum(map(len, box.values())) - 8 * len(box) for box in heard], 0)
        Q = np.stack([codec.decoded(frame, V.shape[1]) for frame in frames])
        WQ = Q.copy()
        for row, n in enumerate(net.nodes):
            for m, frame in sorted(heard[row].items()):
                WQ[row] -= W[n, m] * (Q[row] - codec.decoded(frame, V.shape[1]))
        return Q, WQ

    def step_sizes(self, problem: Problem, topology: Topology) -> Mapping[str, Callable[[], float]]:
        """ "auto": 1/L."""
        return {"auto": lambda: 1 / smoothness(problem)}


class LeadLevels:
    """Vectors as their largest magnitude and, for each number, one of 2^bits + 1 levels."""

    def __init__(self, bits: int) -> None:
        self.half = 2 ** (bits - 1)
        self.count = 2 * self.half + 1
        self.places = self.count ** np.arange(int(math.log(256, self.count)))  # of the levels in one byte

    def encoded(self, v: Array, u: Array) -> bytes:
        """``u`` in [0, 1) decides for each number between the two levels around it."""
        top = float(np.abs(v).max(initial=0.0))
        levels = np.sign(v) * np.floor(self.half * np.abs(v) / top + u) if top > 0.0 else np.zeros_like(v)
        digits = np.zeros(-(-v.size // self.places.size) * self.places.size, np.int64)
        digits[: v.size] = levels + self.half
        return np.float64(top).tobytes() + (digits.reshape(-1, self.places.size) @ self.places).astype("u1").tobytes()

    def decoded(self, frame: bytes, size: int) -> Array:
        packed: npt.NDArray[np.int64] = np.frombuffer(frame, "u1", offset=8).astype(np.int64)
        levels = (packed[:, None] // self.places % self.count).ravel()[:size] - self.half
        return np.frombuffer(frame, "<f8", 1)[0] / self.half * levels
