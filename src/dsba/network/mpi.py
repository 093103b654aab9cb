"""Nodes on the ranks of an MPI run: rows and frames travel, and no wait is without end.

Every rank owns a block of nodes, in order. Only buffer calls are used, never a pickle, and every one of them is
non-blocking and polled, so that a silent neighbour ends the run with a sentence instead of hanging it.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dsba._version import __version__
from dsba.errors import InputError, NetworkError, as_number
from dsba.group import require_agreement
from dsba.network.base import Array
from dsba.network.rows import Rows
from dsba.topology import Topology

TIMEOUT = 300.0  # seconds a rank may be silent
PATIENT_POLLS = 200  # of busy waiting, before the processor is given to others in earnest
ROWS, FOLD, FRAMES = 1, 2, 16  # tags; frames have one for each pair of neighbours
WORLD_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "PMIX_SIZE")


class MPINetwork(Rows):
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
        if self.size > topology.n_nodes:
            raise InputError(f"{self.size} ranks for {topology.n_nodes} nodes: there may be at most one per node.")
        self.topology = topology
        facts = {"program": f"dsba {__version__}", "topology": repr(topology) + topology.digest()}
        require_agreement(self, facts)
        self.session = zlib.crc32(json.dumps(facts).encode())
        self._place()
        self.reset()

    def __deepcopy__(self, memo: dict[int, Any]) -> MPINetwork:
        return self  # a place among processes has no copy; scikit-learn's clone asks for one

    def _place(self) -> None:
        """Who owns which nodes, whose rows go where, and the mixing matrix by local places."""
        topology = self.topology
        blocks = np.array_split(np.arange(topology.n_nodes), self.size)
        self.owner = np.repeat(np.arange(self.size), [len(block) for block in blocks])
        own = blocks[self.rank]
        self.nodes = range(int(own[0]), int(own[-1]) + 1)
        self.send_rows: dict[int, npt.NDArray[np.int64]] = {}
        self.receive_rows: dict[int, slice] = {}
        place = {int(n): i for i, n in enumerate(own)}
        for rank in range(self.size):
            mine, theirs = self._beside(own, rank), self._beside(blocks[rank], self.rank)
            if rank == self.rank or not mine:
                continue
            self.send_rows[rank] = np.array(mine) - self.nodes.start
            self.receive_rows[rank] = slice(len(place), len(place) + len(theirs))
            place |= {m: len(place) + i for i, m in enumerate(theirs)}
        indptr, nodes, weights = topology.mixing_rows
        part = slice(indptr[self.nodes.start], indptr[self.nodes.stop])
        local = np.array([place[int(m)] for m in nodes[part]], np.int64)
        ends = indptr[self.nodes.start : self.nodes.stop + 1] - indptr[self.nodes.start]
        self.mixing_rows = (np.array(ends), local, np.array(weights[part]))
        self.n_rows = len(place)

    def _beside(self, nodes: Any, rank: int) -> list[int]:
        """Which of the nodes have a neighbour at ``rank``."""
        return [int(n) for n in nodes if (self.owner[self.topology.neighbors[n]] == rank).any()]

    # Rows and frames ---------------------------------------------------------------------------

    def _meet(self, Z: Array) -> Array:
        """The owned rows, and after them those of neighbours elsewhere."""
        rows = np.empty((self.n_rows, Z.shape[1]))
        rows[: len(Z)] = Z
        requests = [(self.comm.Irecv(rows[part], rank, ROWS), rank) for rank, part in self.receive_rows.items()]
        outgoing = {rank: np.ascontiguousarray(Z[mine]) for rank, mine in self.send_rows.items()}
        requests += [(self.comm.Isend(buffer, rank, ROWS), rank) for rank, buffer in outgoing.items()]
        self._wait(requests)
        return rows

    def exchange(self, outboxes: list[dict[int, bytes]]) -> list[dict[int, bytes]]:
        """One round of frames; those between nodes of one rank stay in memory."""
        inboxes: list[dict[int, bytes]] = [{} for _ in self.nodes]
        requests = []
        for sender, outbox in zip(self.nodes, outboxes, strict=True):
            for receiver, frame in outbox.items():
                if receiver in self.nodes:
                    inboxes[receiver - self.nodes.start][sender] = frame
                else:
                    to = int(self.owner[receiver])
                    requests.append((self.comm.Isend([frame, self.mpi.BYTE], to, self._tag(sender, receiver)), to))
        for receiver, inbox in zip(self.nodes, inboxes, strict=True):
            for sender in self.topology.neighbors[receiver].tolist():
                if sender not in self.nodes:
                    inbox[sender] = self._receive(sender, receiver)
        self._wait(requests)
        self.count(1, 0, 0, [sum(map(len, inbox.values())) for inbox in inboxes])
        return inboxes

    def _tag(self, sender: int, receiver: int) -> int:
        return FRAMES + sender * self.topology.n_nodes + receiver

    def _receive(self, sender: int, receiver: int) -> bytes:
        """A frame, whose length is not known before it comes."""
        status, source = self.mpi.Status(), int(self.owner[sender])
        message: list[Any] = []

        def arrived() -> bool:
            found = self.comm.Improbe(source, self._tag(sender, receiver), status)
            message.extend([] if found is None else [found])
            return found is not None

        self._poll(arrived, lambda: [source])
        frame = bytearray(status.Get_count(self.mpi.BYTE))
        message[0].Recv([frame, self.mpi.BYTE])
        return bytes(frame)

    # The group ---------------------------------------------------------------------------------

    def share(self, value: Any) -> list[Any]:
        own = np.frombuffer(json.dumps(value).encode(), np.uint8)
        sizes, total = self._all(own, np.uint8)
        return [json.loads(part.tobytes()) for part in np.split(total, np.cumsum(sizes)[:-1])]

    def gather(self, values: Array) -> Array:
        return self._all(np.ascontiguousarray(values, dtype=np.float64).ravel(), np.float64)[1]

    def _all(self, own: npt.NDArray[Any], kind: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        """How much each rank gave, and all of it in order."""
        sizes = np.empty(self.size, np.int64)
        self._wait([(self.comm.Iallgather(np.array([own.size], np.int64), sizes), None)])
        total = np.empty(int(sizes.sum()), kind)
        self._wait([(self.comm.Iallgatherv(own, [total, sizes]), None)])
        return sizes, total

    def largest(self, values: Array) -> Array:
        out = np.empty_like(values)
        self._wait([(self.comm.Iallreduce(values, out, self.mpi.MAX), None)])
        return out

    def fold(self, total: Array, add: Callable[[Array], None]) -> Array:
        if self.rank > 0:
            self._wait([(self.comm.Irecv(total, self.rank - 1, FOLD), self.rank - 1)])
        add(total)
        if self.rank < self.size - 1:
            self._wait([(self.comm.Isend(total, self.rank + 1, FOLD), self.rank + 1)])
        self._wait([(self.comm.Ibcast(total, self.size - 1), self.size - 1)])
        return total

    # Waiting -----------------------------------------------------------------------------------

    def _wait(self, requests: Sequence[tuple[Any, int | None]]) -> None:
        """Until all requests are done; the ranks they wait for are named if they take too long."""
        left = [request for request, _ in requests]
        silent = {id(request): rank for request, rank in requests}

        def done() -> bool:
            left[:] = [request for request in left if not request.Test()]
            return not left

        self._poll(done, lambda: [silent[id(request)] for request in left])

    def _poll(self, done: Callable[[], bool], waiting_for: Callable[[], list[int | None]]) -> None:
        polls, deadline = 0, time.monotonic() + self.timeout
        while not done():
            polls += 1
            if polls < PATIENT_POLLS:
                os.sched_yield()
                continue
            time.sleep(5e-5)
            if time.monotonic() > deadline:
                ranks = sorted({rank for rank in waiting_for() if rank is not None})
                who = f"rank {', '.join(map(str, ranks))}" if ranks else "some rank"
                raise NetworkError(f"rank {self.rank} has heard nothing from {who} for {self.timeout:g} seconds.")


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
