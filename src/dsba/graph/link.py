"""How fast a line is: the one description of latency and bandwidth."""

from dataclasses import dataclass
from typing import Any, ClassVar

from dsba.errors import InputError, as_number

LONGEST_LATENCY = 1e6  # seconds: beyond any line
LEAST_BANDWIDTH, LARGEST_BANDWIDTH = 1.0, 1e19  # bits a second


@dataclass(frozen=True)
class Link:
    """The speed of a line between two nodes.

    Parameters
    ----------
    latency : float
        Seconds that a message takes, whatever its size.
    bandwidth : float
        Bits per second into a node.

    Raises
    ------
    InputError
        If a number is negative or out of range.

    Examples
    --------
    >>> import dsba
    >>> dsba.Link(latency=0.01, bandwidth=8e6).seconds(rounds=10, received=100_000)
    0.2
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
        """The time that some rounds take.

        Parameters
        ----------
        rounds : float
            Communication rounds.
        received : float
            Bytes that a node receives in all of them.

        Returns
        -------
        float
            Seconds: the latency of all rounds plus the time for the bytes.
        """
        return rounds * self.latency + 8 * received / self.bandwidth

    def __str__(self) -> str:
        return f"{1000 * self.latency:g} ms and {self.bandwidth / 1e6:g} Mbit/s"
