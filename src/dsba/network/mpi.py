"""Nodes on the ranks of an MPI run: rows and frames travel, and no wait is without end.

Every rank owns a block of nodes, in order. Only buffer calls are used, never a pickle, and every one of them is
non-blocking and polled, so that a silent neighbour ends the run with a sentence instead of hanging it.
"""

from __future__ import annotations

import json
import os
import zlib
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from dsba._version import __version__
from dsba.errors import InputError, as_number
from dsba.network.contract import Array, require_agreement
from dsba.network.transport import ROWS, Transport
from dsba.network.waiting import poll, silence
from dsba.topology import Topology

TIMEOUT = 300.0  # seconds a rank may be silent
WORLD_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "PMIX_SIZE")


class MPINetwork(Transport):
    """The nodes of this rank and their neighbours elsewhere; also the group that holds the problem.

    Parameters
    ----------
    topology : the graph, the same at all ranks.
    comm : an mpi4py communicator; None is COMM_WORLD.
    timeout : seconds after which a silent rank ends the run with an error.
    """

    def __init__(self, topology: Topology, comm: Any = None, timeout: float = TIMEOUT) -> None:
        self.mpi = _mpi()
        self.comm = self.mpi.COMM_WORLD if comm is None else comm
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        if comm is None:
            _require_one_world(self.mpi, self.size)
        self.timeout = as_number("timeout", timeout, above=0.0)
        self.outgoing: deque[tuple[Any, bytes]] = deque()  # a buffer must live until it is sent
        super().__init__(topology, self.rank, self.size)
        facts = {"program": f"dsba {__version__}", "topology": repr(topology) + topology.digest()}
        require_agreement(self, facts)
        self.session = zlib.crc32(json.dumps(facts).encode())

    def __deepcopy__(self, memo: dict[int, Any]) -> MPINetwork:
        return self  # a place among processes has no copy; scikit-learn's clone asks for one

    def meet(self, Z: Array) -> Array:
        """Rows go straight from one array into the other."""
        place = self.placement
        rows = np.empty((place.n_rows, Z.shape[1]))
        rows[: len(Z)] = Z
        requests = [(self.comm.Irecv(rows[part], rank, ROWS), rank) for rank, part in place.receive_rows.items()]
        outgoing = {rank: np.ascontiguousarray(Z[mine]) for rank, mine in place.send_rows.items()}
        requests += [(self.comm.Isend(buffer, rank, ROWS), rank) for rank, buffer in outgoing.items()]
        self._wait(requests)
        return rows

    def send(self, peer: int, message: bytes, purpose: int) -> None:
        while self.outgoing and self.outgoing[0][0].Test():
            self.outgoing.popleft()
        self.outgoing.append((self.comm.Isend([message, self.mpi.BYTE], peer, purpose), message))

    def receive(self, peer: int, purpose: int) -> bytes:
        """A message, whose length is not known before it comes."""
        status = self.mpi.Status()
        message: list[Any] = []

        def arrived() -> bool:
            found = self.comm.Improbe(peer, purpose, status)
            message.extend([] if found is None else [found])
            return found is not None

        poll(arrived, lambda: silence(self.rank, [peer], self.timeout), self.timeout)
        frame = bytearray(status.Get_count(self.mpi.BYTE))
        message[0].Recv([frame, self.mpi.BYTE])
        return bytes(frame)

    def _collect(self, own: bytes) -> list[bytes]:
        """By MPI's own means, which need no graph: so ranks find out that their graphs differ."""
        sizes = np.empty(self.size, np.int64)
        self._wait([(self.comm.Iallgather(np.array([len(own)], np.int64), sizes), None)])
        total = np.empty(int(sizes.sum()), np.uint8)
        self._wait([(self.comm.Iallgatherv(np.frombuffer(own, np.uint8), [total, sizes]), None)])
        return [part.tobytes() for part in np.split(total, np.cumsum(sizes)[:-1])]

    def _wait(self, requests: Sequence[tuple[Any, int | None]]) -> None:
        """Until all requests are done; the ranks they wait for are named if they take too long."""
        left = [request for request, _ in requests]
        of = {id(request): rank for request, rank in requests}

        def done() -> bool:
            left[:] = [request for request in left if not request.Test()]
            return not left

        poll(done, lambda: silence(self.rank, [of[id(request)] for request in left], self.timeout), self.timeout)


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
        told = os.environ.get(name, "")
        if size == 1 and told.isdigit() and int(told) > 1:
            library = mpi.Get_library_version().split("\n")[0].strip("\0")
            raise InputError(
                f"mpiexec started {told} processes ({name}), but mpi4py sees a world of one: this mpiexec belongs to "
                f"another MPI than mpi4py's, which is {library}. Use that one's mpiexec."
            )
