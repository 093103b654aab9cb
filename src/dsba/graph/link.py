"""How fast a line is: the one description of latency and bandwidth."""

from dataclasses import dataclass
from typing import Any, ClassVar

from dsba.errors import InputError, as_number

LONGEST_LATENCY = 1e6  # seconds: beyond any line
LEAST_BANDWIDTH, LARGEST_BANDWIDTH = 1.0, 1e19  # bits a second


@dataclass(frozen=True)
class Link:
    """A line between two nodes.

    Parameters
    ----------
    latency
        Seconds that a message needs, whatever its size.
    bandwidth
        Bits a second into a node.
    """

    latency: float = 0.02
    bandwidth: float = 1e8

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}  # where it is a table of a file

    def __post_init__(self) -> None:
        latency = as_number("latency", self.latency, at_least=0.0)
        bandwidth = as_number("bandwidth", self.bandwidth, at_least=LEAST_BANDWIDTH)
        if latency > LONGEST_LATENCY or bandwidth > LARGEST_BANDWIDTH:
            raise InputError(
                f"a link has a latency up to {LONGEST_LATENCY:g} seconds and a bandwidth up to {LARGEST_BANDWIDTH:g} "
                f"bits a second, got {latency:g} and {bandwidth:g}."
            )

    def seconds(self, rounds: float, received: float) -> float:
        """How long so many rounds take that bring a node so many bytes."""
        return rounds * self.latency + 8 * received / self.bandwidth

    def __str__(self) -> str:
        return f"{1000 * self.latency:g} ms and {self.bandwidth / 1e6:g} Mbit/s"
