"""What the messages of the sparse protocol cost, from the samples alone: nothing is coded or sent.

An entry's size depends on its sample and on whether the sample is in the source's cache, and every node
receives the entries of source j in order, distance(n, j) rounds late. So it is enough to keep, for each
source, its cache and what its entries have cost in all, as of the last ``diameter`` iterations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dsba.graph.topology import Topology
from dsba.kernels.traffic import Caches, Prices, send
from dsba.network.contract import Counts
from dsba.network.messages.wire import AGAIN, FIRST_TIME, HEADER_BYTES, VECTOR, cached_bytes, encode_dense, entry_costs
from dsba.types import Integers

UNLIMITED = np.iinfo(np.int64).max


class Traffic:
    """A counter for the blocks of all samples (CSR, k rows each; node n has those from ``start[n]`` on).

    ``limit`` bounds each source's cache in bytes; None is no bound, 0 the protocol without a cache. What the
    counter remembers is one array of integers, ``memory()`` at the start.
    """

    def __init__(
        self, topology: Topology, start: Integers, indptr: Integers, indices: Any, k: int, limit: int | None
    ) -> None:
        self.topology, self.start = topology, start
        limit = UNLIMITED if limit is None else limit
        sizes = np.diff(start)
        source = np.repeat(np.arange(sizes.size), sizes)
        sample = np.arange(source.size) - start[source]
        kinds = (VECTOR, FIRST_TIME, AGAIN)
        costs = np.array([entry_costs(kind, source, sample, indptr, indices, k) for kind in kinds])
        self.prices = Prices(costs, cached_bytes(np.diff(indptr[::k]), k), limit)
        self.span = topology.diameter + 1

    @property
    def most_doubles(self) -> float:
        """What a node receives in a round, at most: one entry of every other node."""
        return float((self.start.size - 2) * self.prices.costs[..., 0].max())

    def memory(self) -> Integers:
        """Nothing sent, nothing cached."""
        n_nodes, n_samples = self.start.size - 1, self.prices.room.size
        return np.zeros(3 * n_nodes * (self.span + 1) + (2 * n_samples if self.prices.limit else 0), np.int64)

    def _parts(self, memory: Integers) -> tuple[Integers, Caches]:
        """Views: sums sent (iteration, node, cost), and the caches."""
        n_nodes = self.start.size - 1
        ring = 3 * n_nodes * self.span
        sent, fifo, rest = np.split(memory, [ring, ring + 3 * n_nodes])
        queue, known = np.split(rest, 2)
        return sent.reshape(self.span, n_nodes, 3), Caches(fifo.reshape(n_nodes, 3), queue, known)

    def advance(self, memory: Integers, t: int, samples: Integers) -> Counts:
        """Count the rounds of the iterations t, t + 1, ... with these samples (one row each)."""
        before = self._received(memory, t)
        send(samples, t, self.start, self.prices, *self._parts(memory))
        doubles, index_bytes, total = (self._received(memory, t + len(samples)) - before).T
        return self._with_headers(len(samples), doubles, index_bytes, total)

    def flood(self, width: int) -> Counts:
        """A row of ``width`` numbers from every node to every other, as before the first iteration."""
        n_nodes = self.start.size - 1
        heads = np.array([len(encode_dense(j, np.empty(0))) for j in range(n_nodes)])
        doubles, index_bytes = np.full(n_nodes, width * (n_nodes - 1)), heads.sum() - heads
        return self._with_headers(self.topology.diameter, doubles, index_bytes, index_bytes + 8 * doubles)

    def _received(self, memory: Integers, t: int) -> Integers:
        """For each node, the cost of the others' entries that it has received after t iterations (node, cost)."""
        age = self.topology.distances
        made = t - age  # iterations of which node n (row) knows source j's (column) entries
        sent = self._parts(memory)[0][made % self.span, np.arange(len(age))]
        return np.where(((age > 0) & (made > 0))[..., None], sent, 0).sum(axis=1)

    def _with_headers(self, rounds: int, doubles: Integers, index_bytes: Integers, entries: Integers) -> Counts:
        received = (doubles, index_bytes, entries + rounds * HEADER_BYTES * self.topology.degrees)
        return Counts(rounds, *(part.astype(np.float64) for part in received))
