"""Counting what the sparse protocol would send; see ``network/messages/traffic.py``."""

from typing import Any, NamedTuple

from dsba.kernels.cache import njit, part
from dsba.types import Integers

UNCACHED, NEW, KNOWN = range(3)  # what a cache knows of a sample, and the first index of ``Prices.costs``


class Prices(NamedTuple):
    """What the samples cost on the wire and in a cache."""

    costs: Integers  # (kind, sample; DOUBLEs, other bytes, all bytes)
    room: Integers  # bytes in a cache
    limit: int  # of each source's cache, in bytes


class Caches(NamedTuple):
    """What is known of every source's samples."""

    fifo: Integers  # (node; head, count, bytes)
    queue: Integers
    known: Integers


@njit(cache=True)
def send(samples: Any, t0: int, start: Any, prices: Any, sent: Any, caches: Any) -> None:
    """One entry per node and row of ``samples``: sent[t + 1] <- sent[t] + its cost."""
    span, known = sent.shape[0], caches.known
    for t in range(samples.shape[0]):
        for n in range(samples.shape[1]):
            i = start[n] + samples[t, n]
            kind = UNCACHED
            if prices.room[i] <= prices.limit:
                kind = KNOWN if known[i] else NEW
            if kind == NEW:
                queue = caches.queue[start[n] : start[n + 1]]
                _remember(i, prices.room, prices.limit, caches.fifo[n], queue, known)
            for c in range(3):
                sent[(t0 + t + 1) % span, n, c] = sent[(t0 + t) % span, n, c] + prices.costs[kind, i, c]


@part()
def _remember(i: int, room: Any, limit: int, fifo: Any, queue: Any, known: Any) -> None:
    """Sample i enters one source's cache (``wire.SampleCache``), and the oldest leave until it fits."""
    head, count, used = fifo[0], fifo[1], fifo[2]
    while used > limit - room[i]:
        oldest = queue[head]
        head, count = (head + 1) % queue.size, count - 1
        known[oldest], used = 0, used - room[oldest]
    queue[(head + count) % queue.size] = i
    known[i] = 1
    fifo[0], fifo[1], fifo[2] = head, count + 1, used + room[i]
