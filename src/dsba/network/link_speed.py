"""How fast the lines between processes are: a few exchanges with all neighbours at once, agreed by all processes."""

from __future__ import annotations

import math
import time
from typing import Protocol

import numpy as np

from dsba.graph.link import Link
from dsba.network.contract import Group
from dsba.network.placement import Placement

EXCHANGES = 7  # of a short message, for the latency
PROBE = 1 << 16  # bytes of a long message, for the bandwidth
FASTEST = 1e11  # bits a second that such a message can tell apart


class Lines(Protocol):
    """What of a transport is measured."""

    placement: Placement

    def send(self, peer: int, message: bytes, purpose: int) -> None: ...

    def receive(self, peer: int, purpose: int) -> bytes: ...

    def aside(self) -> Group: ...


def measured(net: Lines, purpose: int) -> Link:
    """The slowest process's median latency and its bandwidth, as 1, 2 or 5 times a power of ten.

    A method's round is such an exchange. The numbers are rounded so that two runs on the same lines make the same plan.
    """
    _exchange(net, b"", purpose)  # all begin together
    latency = float(np.median([_exchange(net, b"", purpose) for _ in range(EXCHANGES)]))
    longer = min(_exchange(net, bytes(PROBE), purpose) for _ in range(2)) - latency
    bits = 8.0 * PROBE * len(net.placement.peers)
    bandwidth = bits / max(longer, bits / FASTEST)
    latency, slowness = net.aside().largest(np.array([latency, 1.0 / bandwidth])).tolist()
    return Link(coarse(latency), coarse(1.0 / slowness))


def _exchange(net: Lines, message: bytes, purpose: int) -> float:
    """Seconds until every neighbouring process's message is here."""
    begun = time.perf_counter()
    for peer in net.placement.peers:
        net.send(peer, message, purpose)
    for peer in net.placement.peers:
        net.receive(peer, purpose)
    return time.perf_counter() - begun


def coarse(value: float) -> float:
    """The nearest of 1, 2 and 5 times the powers of ten."""
    power = math.floor(math.log10(value))
    steps = [float(f"{digit}e{power}") for digit in (1, 2, 5, 10)]
    return min(steps, key=lambda step: abs(math.log(step / value)))
