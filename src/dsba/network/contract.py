"""The contract of a group: what the processes that hold a problem together may ask each other.

``dsba.network.transport.Network`` is a group whose processes own the nodes of a graph. No code asks for its class.
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

TOTALS, SITE_TOTALS, ITERATES, ROWS_OF_DATA = "totals", "site totals", "iterates", "rows"
"""What a question or a method discloses: sums over sites; estimates of single sites; iterates; rows of the data."""
DISCLOSURE_CLASSES = (TOTALS, SITE_TOTALS, ITERATES, ROWS_OF_DATA)  # each discloses more than the one before
Boxes = list[dict[int, bytes]]  # for each owned node, frames by neighbour
MOST = 2.0**53  # of what is counted: a float64 has no larger whole number and all smaller ones


class Counts(NamedTuple):
    """What was moved so far.

    Parameters
    ----------
    rounds : int
        Communication rounds.
    doubles : numpy.ndarray
        Float64 values that each owned node received.
    index_bytes : numpy.ndarray
        Bytes received that are not float64 values, headers aside.
    bytes : numpy.ndarray
        All bytes received.

    Examples
    --------
    >>> import dsba
    >>> dsba.Simulator(dsba.Topology.ring(4)).counts.rounds
    0
    """

    rounds: int
    doubles: Array
    index_bytes: Array
    bytes: Array


COUNTERS = Counts._fields


class Group(Protocol):
    """The questions that the processes of a problem may ask each other, answered in node order.

    Every process must ask the same questions in the same order. ``discloses`` says what a question tells of the data
    (``TOTALS``, ``ITERATES`` or ``ROWS_OF_DATA``). ``largest`` and ``sum`` disclose totals by definition.

    Examples
    --------
    >>> import dsba, numpy as np
    >>> dsba.network.Alone().sum(np.array([[0.1], [0.2]])).tolist()
    [0.30000000000000004]
    """

    rank: int
    size: int
    masked: bool  # whether a sum hides the part of a single process from all others
    replayed: bool  # whether the answers come from a record: the rows here are made up, and none of them is looked at

    def share(self, value: Any, *, discloses: str) -> list[Any]:
        """Every process's value (of JSON's types), in order.

        Parameters
        ----------
        value : object
            The value of this process.
        discloses : str
            The disclosure class of the value.

        Returns
        -------
        list
            The values of all processes.
        """

    def gather(self, values: Array, *, discloses: str) -> Array:
        """The processes' arrays, flattened, one after the other.

        Parameters
        ----------
        values : numpy.ndarray
            The array of this process.
        discloses : str
            The disclosure class of the array.

        Returns
        -------
        numpy.ndarray
            All numbers, in the order of the processes.
        """

    def largest(self, values: Array) -> Array:
        """The largest over the processes, number by number.

        Parameters
        ----------
        values : numpy.ndarray
            The numbers of this process; none is NaN.

        Returns
        -------
        numpy.ndarray
            The largest of each number.
        """

    def sum(self, rows: Array | SparseRows) -> Array:
        """The exact sum over all nodes of one row each, given the rows of the nodes here; see ``exact_sum.py``.

        Parameters
        ----------
        rows : numpy.ndarray or SparseRows
            A row for each node of this process.

        Returns
        -------
        numpy.ndarray
            The sum, rounded once; NaN everywhere if anything in the rows is not finite.
        """

    def about(self, kind: str, point: Array) -> None:
        """What the next sum is, and where it is taken: sites bind it to the history of their run.

        Parameters
        ----------
        kind : str
            What is summed.
        point : numpy.ndarray
            The iterate at which it is taken.
        """

    def tells_of(self, coefficients: int, cells: int) -> None:
        """The next sums are of a model with so many coefficients, and the others' rows have so many cells.

        Sites limit how much a run discloses of them.

        Parameters
        ----------
        coefficients : int
            The coefficients of the model.
        cells : int
            The cells of the other processes' rows.
        """

    def aside(self) -> Group:
        """The same processes, for questions that are not part of a method. Such questions are not counted."""

    def network(self, topology: Topology) -> Network:
        """The network on which these processes run a method.

        Parameters
        ----------
        topology : Topology
            Nodes, edges and mixing weights.

        Returns
        -------
        Network
            The network of these processes.

        Raises
        ------
        InputError
            If the processes are connected by another topology.
        """


def alike(group: Group, own: Any) -> list[Any]:
    """The value of every process, checked to be of one type.

    Parameters
    ----------
    group : Group
        The processes.
    own : object
        The value of this process, a property of the whole process.

    Returns
    -------
    list[object]
        The values in the order of the processes.

    Raises
    ------
    NetworkError
        If a process sent a value of another type.

    Examples
    --------
    >>> import dsba
    >>> dsba.network.alike(dsba.network.Alone(), 3)
    [3]
    """
    everyone = group.share(own, discloses=TOTALS)
    if odd := [rank for rank, theirs in enumerate(everyone) if type(theirs) is not type(own)]:
        raise other_form(odd[0])
    return everyone


def other_form(rank: Any) -> NetworkError:
    return NetworkError(f"rank {rank} sent an answer of another form than was asked for.")


def summed(group: Group, rows: Array) -> Array:
    """The exact sum over all nodes, checked to be finite.

    Parameters
    ----------
    group : Group
        The processes.
    rows : numpy.ndarray
        One row for each node of this process.

    Returns
    -------
    numpy.ndarray
        The sum of the rows of all nodes.

    Raises
    ------
    InputError
        If the rows of this process overflow.
    NetworkError
        If another process sent a number that is not finite.

    Examples
    --------
    >>> import dsba, numpy as np
    >>> dsba.network.summed(dsba.network.Alone(), np.array([[1e16], [1.0], [-1e16]])).tolist()
    [1.0]
    """
    total = group.sum(rows)
    if np.isfinite(total).all():
        return total
    if not np.isfinite(rows).all():
        raise InputError("the sums over the rows here overflow: rescale the columns with the largest numbers.")
    raise NetworkError("a sum over all processes is not finite: another process sent a part that is no finite number.")


def counted(group: Group, rows: Array) -> list[int]:
    """The sum of counts over all nodes, checked to be counts.

    Parameters
    ----------
    group : Group
        The processes.
    rows : numpy.ndarray
        One row of counts for each node of this process.

    Returns
    -------
    list[int]
        The totals.

    Raises
    ------
    NetworkError
        If a total is negative, fractional or too large.

    Examples
    --------
    >>> import dsba, numpy as np
    >>> dsba.network.counted(dsba.network.Alone(), np.array([[2.0], [3.0]]))
    [5]
    """
    return require_counts(summed(group, rows))


def require_counts(total: Array) -> list[int]:
    """A sum over all processes as counts; an error if one of its numbers is none."""
    if (total < 0.0).any() or (total > MOST).any() or (total % 1.0).any():
        raise NetworkError("a count over all processes is not a count: another process sent a wrong part of it.")
    return [int(count) for count in total]


def require_agreement(group: Group, identity: Mapping[str, Any]) -> None:
    """Raise an error at all processes if one of them was given other values.

    Parameters
    ----------
    group : Group
        The processes.
    identity : Mapping[str, object]
        The values of this process by name.

    Raises
    ------
    InputError
        If a value differs. The message names the process and the value.

    Examples
    --------
    >>> import dsba
    >>> dsba.network.require_agreement(dsba.network.Alone(), {"lam": 0.1})
    """
    everyone = alike(group, dict(identity))
    for rank, theirs in enumerate(everyone):
        for name, wanted in everyone[0].items():
            if (got := theirs.get(name)) != wanted:
                raise InputError(f"rank {rank} differs from rank 0 in {name}: it has {got!r}, rank 0 has {wanted!r}.")
