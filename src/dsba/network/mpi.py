"""Nodes on the ranks of an MPI run: rows and frames travel, and no wait is without end.

Every rank owns a block of nodes, in order. Only buffer calls are used, never a pickle, and every one of them is
non-blocking and polled, so that a silent neighbour ends the run with a sentence instead of hanging it.
"""

from __future__ import annotations

import json
import math
import os
import platform
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from dsba._system.threads import own_cores
from dsba._version import __version__
from dsba.errors import InputError, NetworkError, as_number
from dsba.graph.topology import Topology
from dsba.network.contract import TOTALS, require_agreement
from dsba.network.transport import ROWS, Network
from dsba.types import Array, Indices

MPI_TIMEOUT = 300.0  # seconds a rank may be silent
PATIENCE = {True: 0.05, False: 2e-4}  # seconds of looking before it sleeps: with a core for itself, and without
POLL_PAUSE = 5e-5  # seconds of sleep
WORLD_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "PMIX_SIZE")


class RowBuffers(NamedTuple):
    """Where rows of one width are kept, the same place in every round."""

    rows: Array  # those of the nodes here, then those of neighbours elsewhere
    incoming: list[tuple[Array, int]]  # the part of ``rows`` that each neighbouring rank fills
    outgoing: list[tuple[Indices, Array, int]]  # which rows each neighbouring rank gets, and where they wait for it


class MPINetwork(Network):
    """The nodes of this rank and their neighbours elsewhere; also the group that holds the problem.

    Parameters
    ----------
    topology : Topology
        The graph, the same at all ranks.
    comm : object
        An mpi4py communicator; None is COMM_WORLD.
    timeout : float
        Seconds after which a silent rank ends the run with an error.

    Raises
    ------
    InputError
        If there are more ranks than nodes, or mpi4py is not installed.
    NetworkError
        If a rank is silent for ``timeout`` seconds.

    Examples
    --------
    Run it by ``mpiexec -n 4 python script.py``:

    >>> net = dsba.MPINetwork(dsba.Topology.ring(8))  # doctest: +SKIP
    >>> problem = dsba.Problem(own_shards, group=net)  # doctest: +SKIP
    >>> result = dsba.solve(problem, net.topology)  # doctest: +SKIP
    """

    def __init__(self, topology: Topology, comm: Any = None, timeout: float = MPI_TIMEOUT) -> None:
        self.mpi = _mpi()
        self.comm = self.mpi.COMM_WORLD if comm is None else comm
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        if comm is None:
            _require_one_world(self.mpi, self.size)
        self.timeout = as_number("timeout", timeout, above=0.0)
        self.crowding = math.inf  # until all have sent theirs
        self.outgoing: deque[tuple[Any, bytes]] = deque()  # a buffer must live until it is sent
        self.buffers: RowBuffers | None = None
        super().__init__(topology, self.rank, self.size)
        identity = {"program": f"dsba {__version__}", "topology": repr(topology) + topology.digest()}
        require_agreement(self, identity)
        self.session = zlib.crc32(json.dumps(identity).encode())
        self.crowding = _crowding(self.aside().share([platform.node(), *own_cores()], discloses=TOTALS))

    def __deepcopy__(self, memo: dict[int, Any]) -> MPINetwork:
        return self  # a place among processes has no copy; scikit-learn's clone asks for one

    def meet(self, Z: Array) -> Array:
        """Rows go straight from one array into the other, in one message to and from every neighbouring rank."""
        if self.buffers is None or self.buffers.rows.shape[1] != Z.shape[1]:
            self.buffers = self._new_buffers(Z.shape[1])
        rows, incoming, outgoing = self.buffers
        requests = [self.comm.Irecv(part, rank, ROWS) for part, rank in incoming]
        for mine, buffer, rank in outgoing:
            Z.take(mine, 0, buffer, "clip")  # they are valid, and "raise" would copy once more
            requests.append(self.comm.Isend(buffer, rank, ROWS))
        rows[: len(Z)] = Z
        self._wait(requests, self.placement.peers * 2)
        return rows

    def local_mixing(self) -> None:
        """Rows always go through MPI, also where one rank has them all."""

    def _new_buffers(self, width: int) -> RowBuffers:
        place = self.placement
        rows = np.empty((place.n_rows, width))
        incoming = [(rows[place.receive_rows[rank]], rank) for rank in place.peers]
        outgoing = [(mine := place.send_rows[rank], np.empty((len(mine), width)), rank) for rank in place.peers]
        return RowBuffers(rows, incoming, outgoing)

    def send(self, peer: int, message: bytes, purpose: int) -> None:
        while self.outgoing and self.outgoing[0][0].Test():
            self.outgoing.popleft()
        self.outgoing.append((self.comm.Isend([message, self.mpi.BYTE], peer, purpose), message))

    def receive(self, peer: int, purpose: int) -> bytes:
        """A message, whose length is not known before it comes."""
        status = self.mpi.Status()
        message: Any = None

        def arrived() -> bool:
            nonlocal message
            message = self.comm.Improbe(peer, purpose, status)
            return message is not None

        poll(arrived, lambda: silence(self.rank, [peer], self.timeout), self.timeout, self.crowding)
        frame = bytearray(status.Get_count(self.mpi.BYTE))
        message.Recv([frame, self.mpi.BYTE])
        return bytes(frame)

    def _collect(self, own: bytes, discloses: str) -> list[bytes]:
        """By MPI's own means, which need no graph: so ranks find out that their graphs differ."""
        sizes = np.empty(self.size, np.int64)
        self._wait([self.comm.Iallgather(np.array([len(own)], np.int64), sizes)], [None])
        total = np.empty(int(sizes.sum()), np.uint8)
        self._wait([self.comm.Iallgatherv(np.frombuffer(own, np.uint8), [total, sizes])], [None])
        return [part.tobytes() for part in np.split(total, np.cumsum(sizes)[:-1])]

    def _wait(self, requests: list[Any], ranks: list[Any]) -> None:
        """Until all requests are done; the ranks they wait for are named if they take too long."""
        all_done = self.mpi.Request.Testall

        def silent() -> NetworkError:
            late = [rank for request, rank in zip(requests, ranks, strict=True) if not request.Test()]
            return silence(self.rank, late, self.timeout)

        poll(lambda: all_done(requests), silent, self.timeout, self.crowding)


def _crowding(ranks: list[list[Any]]) -> float:
    """The ranks for each core of the most crowded machine; ``ranks`` are their machines and cores."""
    there = [[cores for name, *cores in ranks if name == machine] for machine in {machine for machine, *_ in ranks}]
    return max(len(cores) / len(set().union(*cores)) for cores in there)


def _mpi() -> Any:
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise InputError(
            f"MPINetwork needs mpi4py and an MPI: install dsba[mpich], or dsba[mpi] for a site's own MPI ({error})."
        ) from None
    return MPI


def _require_one_world(mpi: Any, size: int) -> None:
    """The mpiexec of another MPI starts so many copies of "rank 0 of 1"."""
    for name in WORLD_SIZES:
        count = os.environ.get(name, "")
        if size == 1 and count.isdigit() and int(count) > 1:
            library = mpi.Get_library_version().split("\n")[0].strip("\0")
            raise InputError(
                f"mpiexec started {count} processes ({name}), but mpi4py sees a world of one: this mpiexec belongs to "
                f"another MPI than mpi4py's, which is {library}. Use that one's mpiexec."
            )


def poll(done: Callable[[], bool], silent: Callable[[], NetworkError], timeout: float, crowding: float) -> None:
    """Wait until ``done``. After ``timeout`` seconds raise the error that ``silent`` makes."""
    if done():
        return
    begun = time.monotonic()
    while not done():
        waited = time.monotonic() - begun
        if waited > timeout:
            raise silent()
        if waited > PATIENCE[crowding <= 1.0]:
            time.sleep(POLL_PAUSE)
        else:
            os.sched_yield()


def silence(rank: int, others: Iterable[int | None], timeout: float) -> NetworkError:
    """The error of a process that waited in vain; an unknown process among the others is None."""
    known = sorted({other for other in others if other is not None})
    who = f"rank {', '.join(map(str, known))}" if known else "some rank"
    return NetworkError(f"rank {rank} has heard nothing from {who} for {timeout:g} seconds.")
