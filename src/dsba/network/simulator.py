"""All nodes in one process."""

from __future__ import annotations

from typing import Any

from dsba.graph.mixing import Mixing
from dsba.graph.topology import Topology
from dsba.network import exact_sum
from dsba.network.exact_sum import SparseRows
from dsba.network.transport import Network
from dsba.types import Array


class Simulator(Network):
    """All nodes in one process; counts what the nodes would have received.

    A subclass may change how rows are mixed (``mix``, ``differences``, ``laplacian``), and every method uses it.

    Parameters
    ----------
    topology : Topology
        The graph.
    topology : Topology
        The graph.

    Examples
    --------
    >>> import dsba
    >>> problem = dsba.Problem.from_arrays(*dsba.data.load_breast_cancer(), n_nodes=4, lam=0.1)
    >>> ring = dsba.Topology.ring(4)
    >>> net = dsba.Simulator(ring)
    >>> print(dsba.solve(problem, ring, "extra", max_passes=3, network=net).history["rounds"][-1])
    3.0
    """

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)


class MessageSimulator(Simulator):
    """A slow simulator: rows are mixed one round at a time, and messages are really made and moved.

    Parameters
    ----------
    topology : Topology
        The graph.

    Examples
    --------
    >>> import dsba
    >>> problem = dsba.Problem.from_arrays(*dsba.data.load_breast_cancer(), n_nodes=4, lam=0.1)
    >>> ring = dsba.Topology.ring(4)
    >>> net = dsba.network.MessageSimulator(ring)
    >>> print(dsba.solve(problem, ring, "extra", max_passes=3, network=net).history["rounds"][-1])
    3.0
    """

    def local_mixing(self) -> Mixing | None:
        return None


class Alone:
    """The group of one process that holds everything.

    Examples
    --------
    >>> import dsba
    >>> dsba.network.Alone().share("a value", discloses="totals")
    ['a value']
    """

    rank = 0
    size = 1
    masked = False
    replayed = False

    def share(self, value: Any, *, discloses: str) -> list[Any]:
        return [value]

    def gather(self, values: Array, *, discloses: str) -> Array:
        return values

    def largest(self, values: Array) -> Array:
        return values

    def sum(self, rows: Array | SparseRows) -> Array:
        return exact_sum.total(rows)

    def about(self, kind: str, point: Array) -> None:
        """There is no history."""

    def tells_of(self, coefficients: int, cells: int) -> None:
        """There is no other process."""

    def aside(self) -> Alone:
        return self

    def network(self, topology: Topology) -> Simulator:
        return Simulator(topology)
