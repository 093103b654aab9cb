"""The processes that hold a problem together, one after the other in node order.

A problem or a run asks them for what must be known in common. Everything a process does with others goes
through these five questions, so that one process (``Alone``) and many (``dsba.MPINetwork``) run the same code
and come to the same bits: sums are made in node order, whoever holds the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dsba.errors import InputError

Array = npt.NDArray[np.float64]


class Group(Protocol):
    """What processes tell each other. Every process must ask the same questions in the same order."""

    rank: int
    size: int

    def share(self, value: Any) -> list[Any]:
        """Every process's value (of JSON's types), in order."""
        ...

    def gather(self, values: Array) -> Array:
        """The processes' arrays, one after the other."""
        ...

    def largest(self, values: Array) -> Array:
        """The largest over the processes, number by number."""
        ...

    def fold(self, total: Array, add: Callable[[Array], None]) -> Array:
        """``total`` after each process in turn has added to it in place; the same at all of them."""
        ...


class Alone:
    """One process that holds everything."""

    rank = 0
    size = 1

    def share(self, value: Any) -> list[Any]:
        return [value]

    def gather(self, values: Array) -> Array:
        return values

    def largest(self, values: Array) -> Array:
        return values

    def fold(self, total: Array, add: Callable[[Array], None]) -> Array:
        add(total)
        return total


def require_agreement(group: Group, facts: Mapping[str, Any]) -> None:
    """An error at all processes if one of them was given anything else; it says who differs in what."""
    everyone = group.share(dict(facts))
    for rank, theirs in enumerate(everyone):
        for name, wanted in everyone[0].items():
            if theirs.get(name) != wanted:
                raise InputError(
                    f"rank {rank} differs from rank 0 in {name}: it has {theirs.get(name)!r}, rank 0 has {wanted!r}."
                )
