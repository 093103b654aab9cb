"""One node of DSBA-s or DSA-s: it sees its own samples and what its neighbours send, nothing else.

Instead of iterates the nodes send deltas, and every node rebuilds from them what it needs of the others'
iterates, in one of two exact forms:

    Replay   dense replicas of all rows, the bits of ``form="dense"``; O(p (edges + N)) work per iteration
    Lazy     one mode-space state for the whole network, work per iteration proportional to the nonzeros received
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dsba.errors import CheckpointError
from dsba.graph.topology import Topology
from dsba.kernels import modes as kernel
from dsba.kernels.dense import DenseRows, KernelComponents, Recursion
from dsba.kernels.replay import Place, Received, Replicas, Visit, advance_replicas
from dsba.network import Network
from dsba.network.messages import wire
from dsba.network.messages.routing import Routing
from dsba.operators import Operator
from dsba.problem.components import Components
from dsba.types import Array, Arrays, Indices


@dataclass(frozen=True)
class Common:
    """What all nodes know: the graph, the method's numbers, the sizes of things."""

    topology: Topology
    routing: Routing
    bounds: wire.Bounds
    component: Operator
    rule: Recursion  # each node's own has the norms of its samples alone
    lam: float
    plan: kernel.ModePlan | None  # for the lazy form; its columns are each node's own
    cache_bytes: int | None  # per source
    session: int


class Shard(NamedTuple):
    """A node's own components, its table, and where the rows of every component end (``Layout``)."""

    components: KernelComponents
    phi: Array
    ends: Indices

    def block(self, i: int, rows: int) -> wire.Block:
        """Component i, with its empty rows."""
        _, indices, data = self.components.samples.A
        ends = self.ends[i * rows : (i + 1) * rows + 1]
        return wire.Block(np.diff(ends), indices[ends[0] : ends[-1]], data[ends[0] : ends[-1]])


class Replay:
    """A replica of every row, as far as the deltas received allow. ``arrays`` is all its memory."""

    def __init__(self, common: Common, n: int, shard: Shard, z0: Array) -> None:
        topology = common.topology
        self.common, self.n = common, n
        self.arrays: Arrays = {
            "Z": np.tile(z0, (topology.n_nodes, 1)),
            "ahead": np.tile(z0, (2, topology.n_nodes, 1)),
            **{name: np.zeros((topology.n_nodes, z0.size)) for name in ("V", "carry", "low")},
        }
        share = 1.0 / np.array(common.bounds.sizes)
        self.place = Place(topology.mixing.kernel_rows, share, np.array(topology.distances[n]))

    def start(self, carry: Array) -> None:
        """Set up the state before iteration 0 from the carries of all nodes."""
        self.arrays["carry"][:] = carry
        self.arrays["V"][:] = self.common.rule.alpha * carry

    def advance(self, shard: Shard, t: int, sample: int, received: Received) -> Array:
        """Make iteration t. Returns the weighted coefficients of the node's own delta, one for each row."""
        delta = np.zeros(self.common.bounds.k)
        rows = DenseRows(*(self.arrays[name] for name in DenseRows._fields))
        memory = Replicas(rows, self.arrays["ahead"], shard.phi)
        own, visit = (self.common.component, shard.components), Visit(self.n, sample, t)
        advance_replicas(*own, self.place, memory, visit, received, delta)
        return delta

    def z(self, t: int) -> Array:
        """The node's own iterate after t iterations."""
        return self.arrays["Z"][self.n].copy()


class Lazy:
    """The same interface. The modes of the whole network, without the deltas still under way; its own row is exact."""

    def __init__(self, common: Common, n: int, shard: Shard, z0: Array) -> None:
        assert common.plan is not None
        self.common, self.n, self.z0 = common, n, z0
        indices = shard.components.samples.A[1]
        position = kernel.column_positions(indices, z0.size, common.rule.n_regular)
        topology = common.topology
        ages = np.maximum(topology.distances[n] - 1, 0)
        spectrum = kernel.Spectrum(topology.eigenvalues, topology.eigenvectors)
        effects = kernel.plan_effects(common.rule, common.lam, spectrum, common.bounds.sizes, ages)
        self.plan = common.plan._replace(position=position, indices=position[indices], effects=effects)
        modes = np.zeros((z0.size, 2, self.plan.basis.shape[1]))
        self.arrays: Arrays = {"modes": modes, "stamp": np.zeros(z0.size, np.int64)}

    def start(self, carry: Array) -> None:
        self.arrays["modes"][:] = kernel.start_modes(self.plan, self.z0, carry, self.common.rule.alpha)

    def advance(self, shard: Shard, t: int, sample: int, received: Received) -> Array:
        delta = np.zeros(self.common.bounds.k)
        indptr, indices, values = received.deltas
        came = received._replace(deltas=(indptr, self.plan.position[indices], values))
        own, visit = (self.common.component, shard.components), Visit(self.n, sample, t)
        kernel.advance_own_row(*own, self.plan, self._state(shard.phi), visit, came, delta)
        return delta

    def z(self, t: int) -> Array:
        out = np.empty((1, self.z0.size))
        kernel.rows_from_modes(self.plan, self._state(np.empty((0, 0))), t, out, self.n)
        return out[0]

    def _state(self, phi: Array) -> kernel.ModeState:
        return kernel.ModeState(self.arrays["modes"], self.arrays["stamp"], phi)


class SparseNode:
    """A node: its shard, its replica of the network, what it knows of others' samples, and its mail.

    In every round, ``outbox`` is a frame for each neighbour; then each neighbour's frame is given to
    ``receive``; then ``step`` makes the iteration, or ``settle`` ends a set-up round.
    """

    def __init__(self, n: int, common: Common, shard: Shard, replica: Replay | Lazy, carry: Array) -> None:
        self.n, self.common, self.shard, self.replica = n, common, shard, replica
        self.round = 0
        self.caches = [wire.SampleCache(common.cache_bytes) for _ in common.bounds.sizes]
        self.heard: set[int] = set()
        self.received: dict[int, wire.Entry] = {}
        self.mail: dict[int, bytes] = {}  # by source: what came in the last round, and the node's own entry
        self.carry = carry
        if common.routing.setup:
            self.mail[n] = wire.encode_dense(n, carry[n])
        else:
            replica.start(carry)

    @property
    def t(self) -> int:
        """Iterations made; negative during set-up."""
        return self.round - self.common.routing.setup

    @property
    def z(self) -> Array:
        return self.replica.z(self.t)

    def outbox(self) -> dict[int, bytes]:
        """This round's frame for each neighbour; one without entries says that the node is alive."""
        frames = {}
        for m in self.common.topology.neighbors[self.n].tolist():
            entries = [self.mail[j] for j in self.common.routing.due(self.n, m, self.round)]
            frames[m] = wire.pack(wire.Header(self.common.session, self.n, m, self.round), entries)
        return frames

    def receive(self, neighbour: int, frame: bytes) -> tuple[int, int]:
        """Take in a neighbour's frame. Returns the number of float64 values in its entries, and of all other bytes."""
        if neighbour in self.heard or neighbour not in self.common.topology.neighbors[self.n]:
            raise wire.WireError(f"node {self.n} has no frame due from node {neighbour} in round {self.round}.")
        header = wire.Header(self.common.session, neighbour, self.n, self.round)
        due = self.common.routing.due(neighbour, self.n, self.round)
        entries = wire.unpack(frame, header, due, self.common.bounds)
        for entry in entries:
            self._require_fitting(entry, neighbour)
        self.received |= {entry.source: entry for entry in entries}
        self.heard.add(neighbour)
        doubles = sum(map(_doubles, entries))
        return doubles, sum(len(entry.raw) for entry in entries) - 8 * doubles

    def _require_fitting(self, entry: wire.Entry, neighbour: int) -> None:
        """An error if entries of this kind are not due now, or if the sample is known (or new) against what it says."""
        if (entry.dense is not None) != (self.t < 0):
            kind = "delta" if entry.dense is None else "dense row"
            raise wire.WireError(f"node {neighbour} sent a {kind} of source {entry.source} in round {self.round}.")
        known = entry.sample in self.caches[entry.source]
        if entry.sample >= 0 and known == (entry.block is not None):
            how = "with its block, which is known" if known else "without its block, which is not known"
            raise wire.WireError(f"sample {entry.sample} of source {entry.source} came {how} here.")

    def settle(self) -> None:
        """End a set-up round; after the last one the carries of all nodes are known."""
        for entry in self._close_round().values():
            self.carry[entry.source] = entry.dense
        if self.t == 0:
            self.replica.start(self.carry)
            self.carry = np.empty((0, 0))  # as large as all iterates, and not needed any more

    def step(self, sample: int) -> None:
        """One iteration with the node's own ``sample``. All frames of the round must have been received."""
        t, entries = self.t, self._close_round()
        delta = self.replica.advance(self.shard, t, sample, self._deltas(entries))
        self.mail[self.n] = self._entry(sample, delta)

    def _close_round(self) -> dict[int, wire.Entry]:
        """The entries of the round. They also go into the mail for the next round."""
        if silent := sorted(set(self.common.topology.neighbors[self.n].tolist()) - self.heard):
            raise wire.WireError(f"node {self.n} has no frame from node {silent[0]} in round {self.round}.")
        entries, self.received, self.heard = self.received, {}, set()
        self.mail = {source: entry.raw for source, entry in entries.items()}
        self.round += 1
        return entries

    def _deltas(self, entries: dict[int, wire.Entry]) -> Received:
        distance = self.common.topology.distances[self.n]
        sources = sorted(entries, key=lambda j: (-distance[j], j))
        deltas = [self._delta(entries[j]) for j in sources]
        indptr = np.cumsum([0, *(values.size for _, values in deltas)])
        indices = np.concatenate([np.empty(0, np.int64), *(indices for indices, _ in deltas)])
        values = np.concatenate([np.empty(0), *(values for _, values in deltas)])
        return Received(np.array(sources, np.int64), (indptr, indices, values))

    def _delta(self, entry: wire.Entry) -> tuple[Indices, Array]:
        """The product A_i' coef as indices and values."""
        if entry.sample < 0:
            assert entry.block is not None
            return entry.block.indices, entry.block.values
        cache = self.caches[entry.source]
        if entry.block is not None:
            cache.add(entry.sample, entry.block)
        block = cache.get(entry.sample) if entry.block is None else entry.block
        return block.indices, _products(block, entry.coefficients)

    def _entry(self, sample: int, delta: Array) -> bytes:
        """The node's own delta as an entry: the short one if the others have the sample in their caches."""
        k, cache = delta.size, self.caches[self.n]
        block = self.shard.block(sample, k)
        if wire.cached_bytes(block.indices.size, k) > cache.limit:
            return wire.encode_vector(self.n, block._replace(values=_products(block, delta)))
        if sample in cache:
            return wire.encode_again(self.n, sample, delta)
        cache.add(sample, block)
        return wire.encode_first(self.n, sample, block, delta)

    def rehearse(self) -> None:
        """Compile what an iteration needs, on copies of what it changes."""
        twin = copy(self)
        twin.replica, twin.shard = copy(self.replica), self.shard._replace(phi=self.shard.phi.copy())
        twin.replica.arrays = {name: array.copy() for name, array in self.replica.arrays.items()}
        twin.caches = [wire.SampleCache(0) for _ in self.caches]
        entry = twin._entry(0, twin.replica.advance(twin.shard, twin.t, 0, twin._deltas({})))
        header = wire.Header(0, self.n, self.n, 0)
        twin._deltas(
            {e.source: e for e in wire.unpack(wire.pack(header, [entry]), header, [self.n], self.common.bounds)}
        )

    # Checkpoints: between two iterations, when nothing is half received ------------------------

    def to_arrays(self) -> Arrays:
        known = [list(cache.items()) for cache in self.caches]
        blocks = [block for cached in known for _, block in cached]
        mail = sorted(self.mail.items())
        return {
            **self.replica.arrays,
            "phi": self.shard.phi,
            "mail.sources": np.array([source for source, _ in mail], np.int64),
            "mail.sizes": np.array([len(raw) for _, raw in mail], np.int64),
            "mail.bytes": np.frombuffer(b"".join(raw for _, raw in mail), np.uint8),
            "cache.counts": np.array([len(cached) for cached in known]),
            "cache.samples": np.array([sample for cached in known for sample, _ in cached], np.int64),
            "cache.lengths": np.array([b.lengths for b in blocks], np.int64).reshape(-1, self.common.bounds.k),
            "cache.indices": np.concatenate([np.empty(0, np.int64), *(b.indices for b in blocks)]),
            "cache.values": np.concatenate([np.empty(0), *(b.values for b in blocks)]),
        }

    def restore(self, arrays: Arrays, t: int) -> None:
        """Go back to what ``to_arrays`` gave after iteration t."""
        for name, now in self.to_arrays().items():
            kept = arrays.get(name)
            ragged = name.startswith(("mail.", "cache.")) and kept is not None and kept.ndim == now.ndim
            if kept is None or kept.dtype != now.dtype or not (ragged or kept.shape == now.shape):
                raise CheckpointError(
                    f"the checkpoint's state does not fit this run: node {self.n}'s {name!r} differs."
                )
        for name, now in (self.replica.arrays | {"phi": self.shard.phi}).items():
            now[:] = arrays[name]
        self.round = self.common.routing.setup + t
        try:
            self.mail = self._kept_mail(arrays)
            self._refill_caches(arrays)
            self.outbox()  # has it all that is due next?
        except (IndexError, KeyError, ValueError) as error:
            raise CheckpointError(f"the checkpoint's mail or caches of node {self.n} are damaged ({error}).") from error

    def _kept_mail(self, arrays: Arrays) -> dict[int, bytes]:
        ends = np.cumsum(arrays["mail.sizes"])[:-1]
        parts = np.split(arrays["mail.bytes"], ends) if ends.size or arrays["mail.sizes"].size else []
        return {int(j): part.tobytes() for j, part in zip(arrays["mail.sources"], parts, strict=True)}

    def _refill_caches(self, arrays: Arrays) -> None:
        counts, lengths, indices = (arrays[f"cache.{name}"] for name in ("counts", "lengths", "indices"))
        sizes = lengths.sum(axis=1)
        if (lengths < 0).any() or ((indices < 0) | (indices >= self.common.bounds.dim)).any():
            raise ValueError("a length or an index is out of bounds")
        if not (sizes.sum() == indices.size == arrays["cache.values"].size and counts.sum() == sizes.size):
            raise ValueError("its parts do not fit together")
        ends = np.concatenate([[0], np.cumsum(sizes)])
        owners = np.repeat(np.arange(counts.size), counts)
        self.caches = [wire.SampleCache(self.common.cache_bytes) for _ in self.common.bounds.sizes]
        for e, (owner, sample) in enumerate(zip(owners, arrays["cache.samples"], strict=True)):
            part = slice(ends[e], ends[e + 1])
            self.caches[owner].add(int(sample), wire.Block(lengths[e], indices[part], arrays["cache.values"][part]))


def _doubles(entry: wire.Entry) -> int:
    block, dense = entry.block, entry.dense
    return entry.coefficients.size + (0 if block is None else block.values.size) + (0 if dense is None else dense.size)


def _products(block: wire.Block, coefficients: Array) -> Array:
    return np.repeat(coefficients, block.lengths) * block.values


def shards(components: Components, rule: Recursion, phi: Array) -> list[Shard]:
    """What each node of this process holds, and nothing of the others."""
    held, (start, indptr, _, rows) = components.kernel(rule), components.layout
    out = []
    for n, (first, last) in enumerate(pairwise(start.tolist())):
        own, ends = slice(*held.samples.start[n : n + 2].tolist()), indptr[first * rows : last * rows + 1]
        out.append(Shard(held.of_node(n), phi[own].copy(), ends - ends[0]))
    return out


def hold_round(net: Network, nodes: list[SparseNode]) -> None:
    """One round of messages. The network counts rounds and bytes, and the receivers count the values in them."""
    inboxes = net.exchange([node.outbox() for node in nodes])
    doubles, index_bytes = np.zeros((2, len(nodes)))
    for n, (node, inbox) in enumerate(zip(nodes, inboxes, strict=True)):
        for neighbour, frame in inbox.items():
            received = node.receive(neighbour, frame)
            doubles[n], index_bytes[n] = doubles[n] + received[0], index_bytes[n] + received[1]
    net.count(0, doubles, index_bytes, 0)
