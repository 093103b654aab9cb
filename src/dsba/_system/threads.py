"""Threads: independent pieces of a sweep on all cores, and threads that wait for each other.

Pieces share nothing, and the sums of a thread pair are split in one way, so results have the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

WORTH = 2_000_000  # numbers that are read; with fewer, waking threads costs more than it gains


def own_cores() -> list[int]:
    """The cores that this process may use; where the system does not say, all there are."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


CORES = int(os.environ.get("DSBA_THREADS") or len(own_cores()))  # a pool of processes sets one each


def even_cuts(size: int, work: int = WORTH) -> list[int]:
    """0..size in one piece per core; in one piece if there is too little ``work`` for threads."""
    if work < WORTH:
        return [0, size]
    return [int(c) for c in np.unique(np.linspace(0, size, CORES + 1).astype(int))]


def run_pieces(sweep: Callable[..., None], cuts: Sequence[int], *args: Any) -> None:
    """sweep(lo, hi, *args) for each piece between two cuts; the kernels release the interpreter's lock."""
    mine, *others = pairwise(cuts)
    pieces = [_pool().submit(sweep, lo, hi, *args) for lo, hi in others] if others else ()
    sweep(*mine, *args)
    for piece in pieces:
        piece.result()


def run_thread_pair(work: Callable[[Any], int], shares: Sequence[Any]) -> int:
    """work(share) for every share at the same time, in threads that wait for each other; what the first one gives.

    Each has a thread of its own, as those of a pool may all be busy elsewhere. One that fails leaves the pair.
    """
    if len(shares) == 1:
        return work(shares[0])
    with ThreadPoolExecutor(len(shares) - 1) as own:
        try:  # before anybody waits for the first one, which may be interrupted
            others = [own.submit(_and_leave, work, share) for share in shares[1:]]
            done = work(shares[0])
        finally:
            shares[0].leave()
    for other in others:
        other.result()
    return done


def _and_leave(work: Callable[[Any], int], share: Any) -> int:
    try:
        return work(share)
    finally:
        share.leave()


def one_blas_thread() -> AbstractContextManager[Any]:
    """A block in which every BLAS library uses one thread."""
    return _blas().limit(limits=1)


@cache
def _blas() -> Any:
    """The threads of all BLAS libraries, those of NumPy and SciPy; found when they are first asked for."""
    import scipy.linalg  # noqa: F401  brings SciPy's own BLAS
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(CORES)


if hasattr(os, "register_at_fork"):  # not on Windows, where processes are not forked
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork
