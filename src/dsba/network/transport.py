"""What all transports share, made of two primitives.

A transport between processes gives ``send`` and ``receive``: messages of bytes between neighbouring processes, whole
and in order, with a deadline. Rows, frames and questions are made of these. A transport may carry rows or questions
in a faster way of its own, as long as it gives the same bits.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dsba.errors import InputError, NetworkError
from dsba.graph.link import Link
from dsba.graph.mixing import Mixing
from dsba.graph.topology import Topology
from dsba.kernels.mixing import difference_rows, mix_rows
from dsba.network import exact_sum
from dsba.network.contract import ROWS_OF_DATA, Boxes, Counts
from dsba.network.exact_sum import SparseRows, WideIntegers
from dsba.network.link_speed import measured
from dsba.network.placement import Placement
from dsba.types import Array

ROWS, FRAMES, QUESTIONS = 1, 2, 3  # what a message is for: iterates; frames with rows of the data; questions
PARCEL = struct.Struct("<IQ")  # rank, bytes

Draws = tuple[npt.NDArray[Any], ...]  # of some iterations: arrays with a row for each
MIXED_BY = ("mix", "differences", "laplacian", "_sum_neighbours")  # how rows come together


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


class Network:
    """The nodes of the process ``rank`` of ``size``: a ``Group`` whose processes own the nodes of a graph.

    It moves rows and frames between neighbours, answers questions, and counts. An algorithm, a problem or the engine
    uses what is documented here and in ``Group``. Every network gives the same bits: rows are summed in node order,
    sums over nodes are exact. The counters are ``rounds`` and for each owned node ``doubles`` (float64 numbers
    received), ``index_bytes`` (bytes that are not float64 numbers, headers aside) and ``bytes`` (all bytes).

    Parameters
    ----------
    topology : Topology
        The graph.
    rank : int
        The number of this process.
    size : int
        The number of processes.

    Raises
    ------
    NetworkError
        If a process is silent or a connection fails.

    Examples
    --------
    A transport defines ``send`` and ``receive``; CONTRIBUTING.md shows a whole one.

    >>> import dsba
    >>> network = dsba.Simulator(dsba.Topology.ring(4))
    >>> network.size, list(network.nodes)
    (1, [0, 1, 2, 3])
    """

    session = 0  # marks the frames of one run
    masked = False
    replayed = False
    crowding: float = 1.0  # processes for each core of the most crowded machine, where all have sent theirs
    flaws: frozenset[str] = frozenset()  # names of what is wrong with the links (``dsba.network.imperfect``)

    def __init__(self, topology: Topology, rank: int = 0, size: int = 1) -> None:
        self.topology, self.rank, self.size = topology, rank, size
        self.placement = Placement(topology, rank, size)
        self.nodes = self.placement.nodes
        self.talks = int(topology.n_nodes > 1)  # a single node has no neighbour: its rounds do not count
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
        """The owned nodes' numbers of neighbours."""
        return self.topology.degrees[self.nodes.start : self.nodes.stop]

    def mix(self, Z: Array) -> Array:
        """The owned rows of W~Z; Z has one row for each owned node."""
        if self.topology.mixing.rounds > 1:
            return Z - self.differences(Z)
        return self._sum_neighbours(mix_rows, self.placement.mixing, Z)

    def differences(self, Z: Array) -> Array:
        """The owned rows of (I - W~) Z, row n: sum over neighbours m of w_nm (z_n - z_m)."""

        def one_round(Y: Array) -> Array:
            return self._sum_neighbours(difference_rows, self.placement.mixing, Y)

        return self.topology.mixing.differences(one_round, Z)

    def laplacian(self, Z: Array) -> Array:
        """The owned rows of L_G Z, row n: sum over neighbours m of (z_n - z_m)."""
        indptr, places, weights = self.placement.mixing
        return self._sum_neighbours(difference_rows, (indptr, places, np.ones_like(weights)), Z)

    def local_mixing(self) -> Mixing | None:
        """The mixing, if all rows are here and are mixed by it alone; None if they must go through the network.

        A fused kernel may use its arrays, and counts with ``tally`` what it would have moved.
        """
        return self.topology.mixing if self.size == 1 and self.mixes_by_matrix else None

    @property
    def identity(self) -> dict[str, str]:
        """What tells runs on these links from runs on others; empty for links that deliver what was sent."""
        return {}

    @property
    def mixes_by_matrix(self) -> bool:
        """Whether rows are mixed by the mixing matrix alone: no subclass and no attribute changes it."""
        changed = any(getattr(type(self), name) is not getattr(Network, name) for name in MIXED_BY)
        return not (changed or vars(self).keys() & set(MIXED_BY))

    def meeting(self, Z: Array, round: int, unit: bool) -> Meeting:
        """What a round would bring, for a wrapper to change; ``unit`` weights make it the graph's Laplacian."""
        indptr, places, weights = self.placement.mixing
        diagonal = places == np.repeat(np.arange(len(self.nodes)), np.diff(indptr))
        weights = np.ones_like(weights) if unit else weights
        message = Message(Z.shape[1], 0, 8 * Z.shape[1])
        return Meeting(self.meet(Z), places, weights, ~diagonal, (~diagonal).astype(np.int64), message)

    @property
    def history(self) -> bytes:
        """Stands for all answers that this run has received so far, where a transport keeps account of it."""
        return b""

    @property
    def memory(self) -> dict[str, Array]:
        """What links remember between rounds, for checkpoints; a transport by itself remembers nothing."""
        return {}

    @memory.setter
    def memory(self, arrays: Mapping[str, Array]) -> None:
        """Nothing to put back."""

    def rehearse(self, iteration: Callable[[], None]) -> int:
        """Make an iteration that leaves no trace in the counters; the rounds that it took."""
        before = self.counts
        iteration()
        made, self.counts = self.rounds - before.rounds, before
        return made

    def portions(self, draws: Draws) -> Iterator[Draws]:
        """The draws of the next iterations in the portions that a method may advance by at once: all together."""
        yield draws

    def _sum_neighbours(self, kernel: Any, weights: Any, Z: Array) -> Array:
        """One round: every owned row is combined with its neighbours' rows, in node order."""
        out = np.empty_like(Z)
        kernel(weights, self.meet(Z), out)
        if Z.shape[1] not in self._of_width:  # the numbers and the bytes that every node here receives
            received = Z.shape[1] * self.degrees.astype(np.float64)
            self._of_width[Z.shape[1]] = received, 8 * received
        received, received_bytes = self._of_width[Z.shape[1]]
        self.rounds += self.talks
        self.doubles += received
        self.bytes += received_bytes
        return out

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

    def exchange(self, outboxes: Boxes, *, discloses: str = ROWS_OF_DATA) -> Boxes:
        """One round: every owned node sends a frame to every neighbour, and receives one from every neighbour.

        Counts the round and its bytes. The receivers count what the bytes contain.
        """
        purpose = FRAMES if discloses == ROWS_OF_DATA else ROWS
        inboxes: Boxes = [{} for _ in self.nodes]
        parcels: dict[int, list[bytes]] = {peer: [] for peer in self.placement.peers}
        for sender, outbox in zip(self.nodes, outboxes, strict=True):
            for receiver, frame in sorted(outbox.items()):
                if receiver in self.nodes:
                    inboxes[receiver - self.nodes.start][sender] = frame
                else:
                    parcels[int(self.placement.owner[receiver])].append(frame)
        for peer, frames in parcels.items():
            self.send(peer, _bundle(frames), purpose)
        for peer, links in self.placement.incoming.items():
            for (sender, receiver), frame in zip(links, self._unbundled(peer, len(links), purpose), strict=True):
                inboxes[receiver - self.nodes.start][sender] = frame
        self.count(1, 0, 0, [sum(map(len, inbox.values())) for inbox in inboxes])
        return inboxes

    def _unbundled(self, peer: int, count: int, purpose: int) -> list[bytes]:
        """The next frames of a neighbouring process: what ``_bundle`` put together."""
        message = self.receive(peer, purpose)
        if count == 1:
            return [message]
        lengths = np.frombuffer(message[: 4 * count].ljust(4 * count, b"\0"), "<u4")
        ends = np.cumsum(lengths, dtype=np.int64) + 4 * count
        self.whole(peer, message, int(ends[-1]))
        return [message[a:b] for a, b in zip([4 * count, *ends[:-1].tolist()], ends.tolist(), strict=True)]

    # Questions ------------------------------------------------------------------------------------

    def aside(self) -> Aside:
        return Aside(self)

    def network(self, topology: Topology) -> Network:
        if topology != self.topology:
            mine, theirs = self.topology.mixing, topology.mixing
            if not all(map(np.array_equal, mine.rows, theirs.rows)):
                raise InputError(f"the network was made for {self.topology}, got {topology}.")
            self.topology = topology  # the same links and weights, in mixings of another number of rounds
        return self

    def share(self, value: Any, *, discloses: str) -> list[Any]:
        parts = self._collect(json.dumps(value).encode(), discloses)
        self._count_question(0, sum(map(len, parts)), numbers=False)
        return [self._loaded(rank, part) for rank, part in enumerate(parts)]

    def _loaded(self, rank: int, part: bytes) -> Any:
        try:
            return json.loads(part)
        except (ValueError, RecursionError):
            raise NetworkError(f"{self.called(rank)} sent an answer that is not JSON.") from None

    def gather(self, values: Array, *, discloses: str) -> Array:
        parts = self._collect(np.ascontiguousarray(values, "<f8").tobytes(), discloses)
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

    def about(self, kind: str, point: Array) -> None:
        """Nothing to keep: only sites have a history."""

    def tells_of(self, coefficients: int, cells: int) -> None:
        """Nothing to limit: only sites keep account of what they have disclosed."""

    def sum(self, rows: Array | SparseRows) -> Array:
        top = self.top(exact_sum.largest(rows))
        if top == 0.0 or not math.isfinite(top):
            return np.full(rows.shape[1], top and math.nan)
        scale = exact_sum.exponent(top, self.topology.n_nodes)
        total = self.add(exact_sum.integers(rows, scale))
        return exact_sum.numbers(total, scale)

    def bytes_of_sums(self, sizes: Sequence[int]) -> int:
        """What sums of so many numbers bring into the busiest node at most: scales and numbers, up and down a tree."""
        tree = self.topology.graph.tree
        return sum(8 + 16 * m for m in sizes) * int((tree.children + (tree.parents >= 0)).max())

    def top(self, own: float) -> float:
        """The largest of all processes' magnitudes, or any number with its exponent."""
        return float(self.largest(np.array([own]))[0])

    def add(self, own: WideIntegers) -> WideIntegers:
        """The sum of all processes' integers, modulo 2^128."""

        def plus(a: bytes, b: bytes) -> bytes:
            return WideIntegers.from_bytes(a).plus(WideIntegers.from_bytes(b)).to_bytes()

        self._count_question(16 * own.low.size, 16 * own.low.size)
        return own if self.size == 1 else WideIntegers.from_bytes(self._ask(own.to_bytes(), plus))

    def _collect(self, own: bytes, discloses: str) -> list[bytes]:
        """What each process gave, in order."""
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

    def measured_link(self) -> Link | None:
        return measured(self, QUESTIONS) if self.size > 1 else None

    # Counters -------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Set all counters to zero."""
        self.counts = Counts(0, *np.zeros((3, len(self.nodes))))

    @property
    def counts(self) -> Counts:
        """All four counters at once; may be set."""
        return Counts(self.rounds, self.doubles.copy(), self.index_bytes.copy(), self.bytes.copy())

    @counts.setter
    def counts(self, counts: Counts) -> None:
        self.rounds = int(counts.rounds)
        self.doubles, self.index_bytes, self.bytes = (np.array(part, np.float64) for part in counts[1:])

    def tally(self, mixings: int, width: int) -> None:
        """Count what so many mixings of rows of ``width`` numbers move."""
        rounds = mixings * self.topology.mixing.rounds
        received = rounds * width * self.degrees
        self.count(rounds, received, 0, 8 * received)

    def count(self, rounds: int, doubles: npt.ArrayLike, index_bytes: npt.ArrayLike, bytes: npt.ArrayLike) -> None:
        """Add to the counters, per owned node."""
        self.rounds += rounds * self.talks
        self.doubles += np.asarray(doubles)
        self.index_bytes += np.asarray(index_bytes)
        self.bytes += np.asarray(bytes)

    def _count_question(self, up: int, down: int, numbers: bool = True) -> None:
        """Count a question: up the graph's tree and down again, with these bytes from a child and from a parent.

        An answer of all processes' values counts on its way down.
        """
        tree = self.topology.graph.tree
        own = slice(self.nodes.start, self.nodes.stop)
        received = up * tree.children[own] + down * (tree.parents[own] >= 0)
        self.count(2 * tree.depth, received / 8 if numbers else 0, 0 if numbers else received, received)


def _uncounted(question: str) -> Any:
    """The transport's question of this name; its counters stay as they are."""

    def ask(self: Aside, *given: Any, **options: Any) -> Any:
        before = self.net.counts
        answer = getattr(self.net, question)(*given, **options)
        self.net.counts = before
        return answer

    return ask


class Aside:
    """A transport's questions without its counters."""

    share, gather, largest = _uncounted("share"), _uncounted("gather"), _uncounted("largest")
    sum = _uncounted("sum")

    def __init__(self, net: Network) -> None:
        self.net, self.rank, self.size = net, net.rank, net.size
        self.masked, self.replayed = net.masked, net.replayed
        self.about, self.tells_of, self.network = net.about, net.tells_of, net.network

    def aside(self) -> Aside:
        return self


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
