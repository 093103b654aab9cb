"""The contract of a group: what the processes that hold a problem together may ask each other.

``dsba.network.transport.Network`` is a group whose processes own the nodes of a graph. Nobody asks for its class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from dsba.errors import InputError, NetworkError
from dsba.network.exact_sum import SparseRows
from dsba.types import Array

if TYPE_CHECKING:
    from dsba.graph.topology import Topology
    from dsba.network.transport import Network

TOTALS, ITERATES, ROWS_OF_DATA = "totals", "iterates", "rows"
"""What a question or a method discloses: sums and facts of whole sites; iterates; rows of the data."""
DISCLOSURE_CLASSES = (TOTALS, ITERATES, ROWS_OF_DATA)  # each tells more than the one before
Boxes = list[dict[int, bytes]]  # for each owned node, frames by neighbour
MOST = 2.0**53  # of what is counted: a float64 has no larger whole number and all smaller ones


class Counts(NamedTuple):
    """What was moved: the rounds; and for each owned node the numbers, the other bytes, and all bytes received."""

    rounds: int
    doubles: Array
    index_bytes: Array
    bytes: Array


COUNTERS = Counts._fields


class Group(Protocol):
    """What the processes that hold a problem together tell each other, one after the other in node order.

    Every process must ask the same questions in the same order. ``discloses`` says what a question tells of the data
    (``TOTALS``, ``ITERATES`` or ``ROWS_OF_DATA``). ``largest`` and ``sum`` disclose totals by definition.
    """

    rank: int
    size: int
    masked: bool  # whether a sum shows nobody the part of a single process

    def share(self, value: Any, *, discloses: str) -> list[Any]:
        """Every process's value (of JSON's types), in order."""

    def gather(self, values: Array, *, discloses: str) -> Array:
        """The processes' arrays, flattened, one after the other."""

    def largest(self, values: Array) -> Array:
        """The largest over the processes, number by number; nothing may be NaN."""

    def sum(self, rows: Array | SparseRows) -> Array:
        """The exact sum over all nodes of one row each, given the rows of the nodes here; see ``exact_sum.py``.

        NaN everywhere if anything in the rows is not finite.
        """

    def about(self, kind: str, point: Array) -> None:
        """What the next sum is, and where it is taken: sites bind it to the history of their run."""

    def aside(self) -> Group:
        """The same processes, for questions that are not part of a method. Such questions are not counted."""

    def network(self, topology: Topology) -> Network:
        """The network on which these processes run a method; an error if it has another topology."""


def alike(group: Group, own: Any) -> list[Any]:
    """Every process's value, a fact of the whole process; an error unless all are of the type of this process's."""
    everyone = group.share(own, discloses=TOTALS)
    if odd := [rank for rank, theirs in enumerate(everyone) if type(theirs) is not type(own)]:
        raise other_form(odd[0])
    return everyone


def other_form(rank: Any) -> NetworkError:
    return NetworkError(f"rank {rank} sent an answer of another form than was asked for.")


def summed(group: Group, rows: Array) -> Array:
    """``group.sum`` of rows that are finite at every process that has looked at its own numbers."""
    total = group.sum(rows)
    if np.isfinite(total).all():
        return total
    if not np.isfinite(rows).all():
        raise InputError("the sums over the rows here overflow: rescale the columns with the largest numbers.")
    raise NetworkError("a sum over all processes is not finite: another process sent a part that is no finite number.")


def counted(group: Group, rows: Array) -> list[int]:
    """The same for rows of counts."""
    total = summed(group, rows)
    if (total < 0.0).any() or (total > MOST).any() or (total % 1.0).any():
        raise NetworkError("a count over all processes is not a count: another process sent a wrong part of it.")
    return [int(count) for count in total]


def require_agreement(group: Group, facts: Mapping[str, Any]) -> None:
    """An error at all processes if one of them was given other facts. It says which process differs, and in what."""
    everyone = alike(group, dict(facts))
    for rank, theirs in enumerate(everyone):
        for name, wanted in everyone[0].items():
            if (got := theirs.get(name)) != wanted:
                raise InputError(f"rank {rank} differs from rank 0 in {name}: it has {got!r}, rank 0 has {wanted!r}.")
