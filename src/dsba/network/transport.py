"""What all transports share: the whole contract, made of two primitives.

A transport between processes gives ``send`` and ``receive``: messages of bytes between neighbouring processes, whole
and in order, with a deadline. Rows, frames and questions are made of these. A transport may carry rows or questions
in a faster way of its own, as long as it gives the same bits.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from dsba.errors import InputError, NetworkError
from dsba.graph.mixing import Mixing
from dsba.graph.topology import Topology
from dsba.kernels.mixing import difference_rows, mix_rows
from dsba.network import exact_sum
from dsba.network.contract import Counts
from dsba.network.exact_sum import SparseRows, WideIntegers
from dsba.network.placement import Placement
from dsba.types import Array

ROWS, FRAMES, QUESTIONS = 1, 2, 3  # what a message is for
PARCEL = struct.Struct("<IQ")  # rank, bytes

MEETINGS = ("mix", "differences", "laplacian", "_sum_neighbours", "meet")  # how rows come together


class Message(NamedTuple):
    """What one row costs on a link: float64 numbers, other bytes, all bytes."""

    doubles: float
    index_bytes: float
    bytes: float


class Meeting(NamedTuple):
    """One round at the owned nodes, as wrappers of a transport see it (``dsba.network.imperfect``).

    Links are the entries of ``placement.mixing``; the rows of ``places`` are heard over them.
    """

    rows: Array  # those of the owned nodes first
    places: npt.NDArray[np.int64]
    weights: Array
    up: npt.NDArray[np.bool_]  # whether a row is heard
    arrived: npt.NDArray[np.int64]  # messages that arrive
    message: Message


class Transport:
    """The contract (``dsba.network.contract.Network``) for the process ``rank`` of ``size``."""

    session = 0
    masked = False
    same_rows: ClassVar[Mapping[str, Any]] = {}  # methods of a subclass that bring the same rows in another way
    flaws: frozenset[str] = frozenset()
    streams = 1

    def __init__(self, topology: Topology, rank: int = 0, size: int = 1) -> None:
        self.topology, self.rank, self.size = topology, rank, size
        self.placement = Placement(topology, rank, size)
        self.nodes = self.placement.nodes
        self.talks = int(topology.n_nodes > 1)  # a single node talks to nobody: its rounds do not count
        self._of_width: dict[int, tuple[Array, Array]] = {}
        self.reset()

    def send(self, peer: int, message: bytes, purpose: int) -> None:
        """Send a message to a neighbouring process; it does not wait for the receiver."""
        raise NotImplementedError

    def receive(self, peer: int, purpose: int) -> bytes:
        """The next message of a neighbouring process; a NetworkError that names it if it stays silent."""
        raise NotImplementedError

    # Rows -----------------------------------------------------------------------------------------

    @property
    def degrees(self) -> npt.NDArray[np.int64]:
        return self.topology.degrees[self.nodes.start : self.nodes.stop]

    def mix(self, Z: Array) -> Array:
        if self.topology.mixing.rounds > 1:
            return Z - self.differences(Z)
        return self._sum_neighbours(mix_rows, self.placement.mixing, Z)

    def differences(self, Z: Array) -> Array:
        def one_round(Y: Array) -> Array:
            return self._sum_neighbours(difference_rows, self.placement.mixing, Y)

        return self.topology.mixing.differences(one_round, Z)

    def laplacian(self, Z: Array) -> Array:
        indptr, places, weights = self.placement.mixing
        return self._sum_neighbours(difference_rows, (indptr, places, np.ones_like(weights)), Z)

    def local_mixing(self) -> Mixing | None:
        """The mixing, unless rows are elsewhere or a subclass (or an attribute) changes how they are mixed."""
        return self.topology.mixing if self.size == 1 and self.meets_as_told and not self.same_rows else None

    @property
    def meets_as_told(self) -> bool:
        """Whether rows are mixed by the mixing matrix alone: no subclass and no attribute changes it."""
        told = {name: getattr(Transport, name) for name in MEETINGS} | dict(self.same_rows)
        changed = any(getattr(type(self), name) is not told[name] for name in MEETINGS)
        return not (changed or vars(self).keys() & set(MEETINGS))

    def meeting(self, Z: Array, round: int, unit: bool) -> Meeting:
        """What a round would bring, for a wrapper to change; ``unit`` weights make it the graph's Laplacian."""
        indptr, places, weights = self.placement.mixing
        diagonal = places == np.repeat(np.arange(len(self.nodes)), np.diff(indptr))
        weights = np.ones_like(weights) if unit else weights
        message = Message(Z.shape[1], 0, 8 * Z.shape[1])
        return Meeting(self.meet(Z), places, weights, ~diagonal, (~diagonal).astype(np.int64), message)

    @property
    def memory(self) -> dict[str, Array]:
        """What links remember between rounds, for checkpoints; a transport by itself remembers nothing."""
        return {}

    @memory.setter
    def memory(self, arrays: Mapping[str, Array]) -> None:
        """Nothing to put back."""

    def describe(self) -> str:
        """A text that says what is wrong with the links, with all settings; empty if nothing is wrong."""
        return ""

    def _sum_neighbours(self, kernel: Any, weights: Any, Z: Array) -> Array:
        """One round: every owned row meets its neighbours' rows, in node order."""
        out = np.empty_like(Z)
        kernel(weights, self.meet(Z), out)
        received, received_bytes = self._received(Z.shape[1])
        self.rounds += self.talks
        self.doubles += received
        self.bytes += received_bytes
        return out

    def _received(self, width: int) -> tuple[Array, Array]:
        """The numbers and the bytes that every node here receives in a round of rows; computed once for every width."""
        if width not in self._of_width:
            received = width * self.degrees.astype(np.float64)
            self._of_width[width] = received, 8 * received
        return self._of_width[width]

    def meet(self, Z: Array) -> Array:
        """The owned rows, and after them those of neighbours elsewhere; valid until the next round."""
        if self.size == 1:
            return Z
        rows = np.empty((self.placement.n_rows, Z.shape[1]))
        rows[: len(Z)] = Z
        for peer, mine in self.placement.send_rows.items():
            self.send(peer, np.ascontiguousarray(Z[mine], "<f8").tobytes(), ROWS)
        for peer, theirs in self.placement.receive_rows.items():
            message = self.whole(peer, self.receive(peer, ROWS), rows[theirs].nbytes)
            rows[theirs] = np.frombuffer(message, "<f8").reshape(-1, Z.shape[1])
        return rows

    # Frames ---------------------------------------------------------------------------------------

    def exchange(self, outboxes: list[dict[int, bytes]]) -> list[dict[int, bytes]]:
        inboxes: list[dict[int, bytes]] = [{} for _ in self.nodes]
        parcels: dict[int, list[bytes]] = {peer: [] for peer in self.placement.peers}
        for sender, outbox in zip(self.nodes, outboxes, strict=True):
            for receiver, frame in sorted(outbox.items()):
                if receiver in self.nodes:
                    inboxes[receiver - self.nodes.start][sender] = frame
                else:
                    parcels[int(self.placement.owner[receiver])].append(frame)
        for peer, frames in parcels.items():
            self.send(peer, _bundle(frames), FRAMES)
        for peer, links in self.placement.incoming.items():
            for link, frame in zip(links, self._unbundled(peer, len(links)), strict=True):
                sender, receiver = link
                inboxes[receiver - self.nodes.start][sender] = frame
        self.count(1, 0, 0, [sum(map(len, inbox.values())) for inbox in inboxes])
        return inboxes

    def _unbundled(self, peer: int, count: int) -> list[bytes]:
        """The next frames of a neighbouring process: what ``_bundle`` put together."""
        message = self.receive(peer, FRAMES)
        if count == 1:
            return [message]
        lengths = np.frombuffer(message[: 4 * count].ljust(4 * count, b"\0"), "<u4")
        ends = np.cumsum(lengths, dtype=np.int64) + 4 * count
        self.whole(peer, message, int(ends[-1]))
        return [message[a:b] for a, b in zip([4 * count, *ends[:-1].tolist()], ends.tolist(), strict=True)]

    # Questions ------------------------------------------------------------------------------------

    def aside(self) -> Aside:
        return Aside(self)

    def network(self, topology: Topology) -> Transport:
        if topology != self.topology:
            raise InputError(f"the network was made for {self.topology}, got {topology}.")
        return self

    def share(self, value: Any, *, discloses: str) -> list[Any]:
        parts = self._collect(json.dumps(value).encode())
        self._count_question(0, sum(map(len, parts)), numbers=False)
        return [self._loaded(rank, part) for rank, part in enumerate(parts)]

    def _loaded(self, rank: int, part: bytes) -> Any:
        try:
            return json.loads(part)
        except (ValueError, RecursionError):
            raise NetworkError(f"{self.called(rank)} sent an answer that is not JSON.") from None

    def gather(self, values: Array, *, discloses: str) -> Array:
        parts = self._collect(np.ascontiguousarray(values, "<f8").tobytes())
        self._count_question(0, sum(map(len, parts)))
        whole = [self.whole(rank, part, len(part) // 8 * 8) for rank, part in enumerate(parts)]
        return np.frombuffer(b"".join(whole), "<f8").astype(np.float64)

    def largest(self, values: Array) -> Array:
        def larger(a: bytes, b: bytes) -> bytes:
            return np.maximum(np.frombuffer(a, "<f8"), np.frombuffer(b, "<f8")).tobytes()

        self._count_question(8 * values.size, 8 * values.size)
        if self.size == 1:
            return np.array(values, np.float64)
        answer = self._ask(np.ascontiguousarray(values, "<f8").tobytes(), larger)
        return np.frombuffer(answer, "<f8").reshape(values.shape).astype(np.float64)

    @property
    def root(self) -> int:
        return self.placement.tree.root if self.size > 1 else 0

    def broadcast(self, values: Array) -> Array:
        self._count_question(0, 8 * values.size, ways=1)
        if self.size == 1:
            return np.array(values, np.float64)
        answer = self._handed_down(np.ascontiguousarray(values, "<f8").tobytes(), 8 * values.size)
        return np.frombuffer(answer, "<f8").reshape(values.shape).astype(np.float64)

    def sum(self, rows: Array | SparseRows) -> Array:
        top = self.top(exact_sum.largest(rows))
        if top == 0.0 or not math.isfinite(top):
            return np.full(rows.shape[1], top and math.nan)
        scale = exact_sum.exponent(top, self.topology.n_nodes)
        total = self.add(exact_sum.integers(rows, scale))
        return exact_sum.numbers(total, scale)

    def top(self, own: float) -> float:
        """The largest of all processes' magnitudes, or any number with its exponent."""
        return float(self.largest(np.array([own]))[0])

    def add(self, own: WideIntegers) -> WideIntegers:
        """The sum of all processes' integers, modulo 2^128."""

        def plus(a: bytes, b: bytes) -> bytes:
            return WideIntegers.from_bytes(a).plus(WideIntegers.from_bytes(b)).to_bytes()

        self._count_question(16 * own.low.size, 16 * own.low.size)
        return own if self.size == 1 else WideIntegers.from_bytes(self._ask(own.to_bytes(), plus))

    def _collect(self, own: bytes) -> list[bytes]:
        """What each process gave, in order."""
        if self.size == 1:
            return [own]
        answer = self._relayed(PARCEL.pack(self.rank, len(own)) + own, lambda a, b: a + b, None)
        return [part for _, part in sorted(unpacked(answer, range(self.size), "some process").items())]

    def _ask(self, own: bytes, merge: Callable[[bytes, bytes], bytes]) -> bytes:
        """Merge parts of equal length, so that all processes have the same answer."""
        return self._relayed(own, merge, len(own))

    def _relayed(self, own: bytes, merge: Callable[[bytes, bytes], bytes], length: int | None) -> bytes:
        """Merge the parts up the tree of processes and hand the answer down; None is any ``length``."""
        for child in self.placement.children:
            own = merge(own, self._heard(child, length))
        if self.placement.parent >= 0:
            self.send(self.placement.parent, own, QUESTIONS)
        return self._handed_down(own, length)

    def _handed_down(self, own: bytes, length: int | None) -> bytes:
        """What the root of the tree of processes has, passed on from parents to children."""
        if self.placement.parent >= 0:
            own = self._heard(self.placement.parent, length)
        for child in self.placement.children:
            self.send(child, own, QUESTIONS)
        return own

    def _heard(self, peer: int, length: int | None) -> bytes:
        part = self.receive(peer, QUESTIONS)
        return part if length is None else self.whole(peer, part, length)

    def whole(self, rank: int, part: bytes, length: int) -> bytes:
        """What a process sent; an error that names it unless it has the length that is due."""
        if len(part) != length:
            raise NetworkError(f"{self.called(rank)} sent {len(part)} bytes where {length} are due: report this.")
        return part

    def called(self, rank: int) -> str:
        """A process, for people."""
        return f"rank {rank}"

    # Counters -------------------------------------------------------------------------------------

    def reset(self) -> None:
        self.counts = Counts(0, *np.zeros((3, len(self.nodes))))

    @property
    def counts(self) -> Counts:
        return Counts(self.rounds, self.doubles.copy(), self.index_bytes.copy(), self.bytes.copy())

    @counts.setter
    def counts(self, counts: Counts) -> None:
        self.rounds = int(counts.rounds)
        self.doubles, self.index_bytes, self.bytes = (np.array(part, np.float64) for part in counts[1:])

    def tally(self, mixings: int, width: int) -> None:
        rounds = mixings * self.topology.mixing.rounds
        received = rounds * width * self.degrees
        self.count(rounds, received, 0, 8 * received)

    def count(self, rounds: int, doubles: npt.ArrayLike, index_bytes: npt.ArrayLike, bytes: npt.ArrayLike) -> None:
        self.rounds += rounds * self.talks
        self.doubles += np.asarray(doubles)
        self.index_bytes += np.asarray(index_bytes)
        self.bytes += np.asarray(bytes)

    def _count_question(self, up: int, down: int, numbers: bool = True, ways: int = 2) -> None:
        """Count a question: up the graph's tree and down again, with these bytes from a child and from a parent.
        One of two ``ways`` is down only.

        An answer of all processes' values counts on its way down, where every node receives the whole of it.
        """
        tree = self.topology.graph.tree
        own = slice(self.nodes.start, self.nodes.stop)
        received = up * tree.children[own] + down * (tree.parents[own] >= 0)
        self.count(ways * tree.depth, received / 8 if numbers else 0, 0 if numbers else received, received)


class Aside:
    """A transport's questions without its counters."""

    def __init__(self, net: Transport) -> None:
        self._net, self.rank, self.size, self.masked = net, net.rank, net.size, net.masked

    @contextmanager
    def _uncounted(self) -> Iterator[Transport]:
        before = self._net.counts
        yield self._net
        self._net.counts = before

    def share(self, value: Any, *, discloses: str) -> list[Any]:
        with self._uncounted() as net:
            return net.share(value, discloses=discloses)

    def gather(self, values: Array, *, discloses: str) -> Array:
        with self._uncounted() as net:
            return net.gather(values, discloses=discloses)

    def largest(self, values: Array) -> Array:
        with self._uncounted() as net:
            return net.largest(values)

    @property
    def root(self) -> int:
        return self._net.root

    def broadcast(self, values: Array) -> Array:
        with self._uncounted() as net:
            return net.broadcast(values)

    def sum(self, rows: Array | SparseRows) -> Array:
        with self._uncounted() as net:
            return net.sum(rows)

    def aside(self) -> Aside:
        return self

    def network(self, topology: Topology) -> Transport:
        return self._net.network(topology)


def _bundle(frames: list[bytes]) -> bytes:
    """The frames of one message; a single one needs no table of lengths."""
    if len(frames) == 1:
        return frames[0]
    return np.array([len(frame) for frame in frames], "<u4").tobytes() + b"".join(frames)


def unpacked(message: bytes, due: Iterable[int], sender: str) -> dict[int, bytes]:
    """The parts of the processes that are due in a message, and nothing else."""
    parts: dict[int, bytes] = {}
    at = 0
    while len(message) >= at + PARCEL.size:
        rank, length = PARCEL.unpack_from(message, at)
        at += PARCEL.size + length
        parts[rank] = message[at - length : at]
    if at != len(message) or parts.keys() != set(due):
        raise NetworkError(f"{sender} passed on something else than was due: report this.")
    return parts
