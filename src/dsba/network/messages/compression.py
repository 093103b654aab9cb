"""Rows in fewer bits: quantised, or only some of their numbers.

A compressor turns rows of p numbers into rows of p numbers that fit into fewer bytes, and says into how many:

    "4-bit"     each number is a whole multiple of s/(2^(b-1) - 1), s the row's largest absolute value:
                8 bytes for s, then p codes of b bits
    "top-10"    the k numbers of largest absolute value: 8 k bytes, then k places of ceil(log2 p) bits
    "rand-10"   k numbers at places that sender and receiver draw from the common seed: 8 k bytes

Bits are packed, and a message is padded to whole bytes. ``apply`` gives the rows as they are after coding and decoding.
Its ``draws`` are random numbers in [0, 1), one for each number. ``unbiased``: the mean over the draws is the row, where
the compressor can be made so. ``message`` is what a row of so many numbers costs.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from dsba.errors import InputError, as_integer, as_number
from dsba.network.imperfect import COMPRESSION, ROUNDED_ROWS, Wrapper
from dsba.network.transport import Meeting, Message, Network
from dsba.types import Array

PATTERNS = ("4-bit", "top-10", "rand-10")


@dataclass(frozen=True)
class Quantised:
    """b bits a number; to the nearest level, or at random to one of the two nearest."""

    bits: int

    def __post_init__(self) -> None:
        if not 2 <= as_integer("bits", self.bits, at_least=2) <= 16:
            raise InputError(f"a number is quantised to 2 to 16 bits, got {self.bits}.")

    def apply(self, X: Array, draws: Array, unbiased: bool) -> Array:
        levels = 2 ** (self.bits - 1) - 1
        scale = np.abs(X).max(axis=1, keepdims=True, initial=0.0)
        steps = np.divide(X, scale, out=np.zeros_like(X), where=scale > 0) * levels
        codes = np.floor(steps + draws) if unbiased else np.rint(steps)
        return codes * (scale / levels)

    def message(self, width: int) -> Message:
        packed = math.ceil(width * self.bits / 8)
        return Message(1, packed, 8 + packed)


@dataclass(frozen=True)
class TopK:
    """The k numbers of largest absolute value; of equal ones, those that come first."""

    k: int

    def apply(self, X: Array, draws: Array, unbiased: bool) -> Array:
        return _only(X, np.argsort(-np.abs(X), axis=1, kind="stable")[:, : self.k])

    def message(self, width: int) -> Message:
        k = min(self.k, width)
        packed = math.ceil(k * math.ceil(math.log2(width)) / 8)
        return Message(k, packed, 8 * k + packed)


@dataclass(frozen=True)
class RandK:
    """k numbers at random places; made larger by p/k where the mean shall be the row."""

    k: int

    def apply(self, X: Array, draws: Array, unbiased: bool) -> Array:
        k = min(self.k, X.shape[1])
        return _only(X, np.argsort(draws, axis=1)[:, :k]) * (X.shape[1] / k if unbiased else 1.0)

    def message(self, width: int) -> Message:
        k = min(self.k, width)
        return Message(k, 0, 8 * k)


def _only(X: Array, places: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Array:
    out = np.zeros_like(X)
    np.put_along_axis(out, places, np.take_along_axis(X, places, axis=1), axis=1)
    return out


Compressor = Quantised | TopK | RandK


def compressor(text: str) -> Compressor:
    """The compressor that a text such as "4-bit", "top-10" or "rand-10" stands for."""
    if found := re.fullmatch(r"(\d{1,9})-bit", text):
        return Quantised(int(found[1]))
    if found := re.fullmatch(r"(top|rand)-(\d{1,9})", text):
        count = as_integer("the number of values", int(found[2]), at_least=1)
        return TopK(count) if found[1] == "top" else RandK(count)
    raise InputError(f"a compressor is written like one of {', '.join(PATTERNS)}, got {text!r}.")


class Compressed(Wrapper):
    """Rows are sent in fewer bits.

    Parameters
    ----------
    net : Network
        The network to wrap.
    compress : str or Compressor
        The compressor, by name or as an object.
    memory : bool
        The neighbours keep what they received of a node's row, and the node sends the compressed change, so that what
        compression loses is sent later. This needs links that deliver everything. If False, the rows themselves are
        compressed.
    step : float
        Scales the pull towards the neighbours (CHOCO's gamma). Coarse compressors need a number below 1.
    seed : int
        The seed of the draws.

    Raises
    ------
    InputError
        If the network is not one that can be wrapped, or a number is out of range.

    Examples
    --------
    >>> import dsba
    >>> problem = dsba.Problem.from_arrays(*dsba.data.load_breast_cancer(), n_nodes=4, lam=0.1)
    >>> ring = dsba.Topology.ring(4)
    >>> net = dsba.network.Compressed(dsba.Simulator(ring), "4-bit")
    >>> print(dsba.solve(problem, ring, "dgd", max_passes=3, network=net).status)
    budget
    """

    def __init__(
        self, net: Network, compress: str | Compressor, *, memory: bool = True, step: float = 1.0, seed: int = 0
    ) -> None:
        self.compressor = compressor(compress) if isinstance(compress, str) else compress
        self.keeps, self.step = bool(memory), as_number("step", step, above=0.0)
        self.flaw = COMPRESSION if memory else ROUNDED_ROWS
        super().__init__(net, seed)
        if self.step > 1:
            raise InputError(f"step must be a number in (0, 1], got {step!r}.")

    def settings(self) -> dict[str, object]:
        return {"compress": self.compressor, "memory": self.keeps, "step": self.step, "seed": self.seed}

    def sent(self, Z: Array, round: int) -> Array:
        draws = self._draw(round).random((self.topology.n_nodes, Z.shape[1]))[self.nodes.start : self.nodes.stop]
        if not self.keeps:
            return self.compressor.apply(Z, draws, unbiased=True)
        known = self._kept.get(self._stream(round), np.zeros_like(Z))
        rows = self._kept[self._stream(round)] = known + self.compressor.apply(Z - known, draws, unbiased=False)
        return rows

    def changed(self, met: Meeting, round: int, unit: bool) -> Meeting:
        return met._replace(weights=self.step * met.weights, message=self.compressor.message(met.rows.shape[1]))
