"""Waiting for others: no wait is without end, and whoever is silent is named."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from dsba.errors import NetworkError

PATIENCE = {True: 0.05, False: 2e-4}  # seconds before it sleeps between two looks: with a core of its own, and without
POLL_PAUSE = 5e-5  # seconds of sleep


def poll(done: Callable[[], bool], silent: Callable[[], NetworkError], timeout: float, own_core: bool = False) -> None:
    """Wait until ``done``. After ``timeout`` seconds raise the error that ``silent`` makes."""
    if done():
        return
    begun = time.monotonic()
    while not done():
        waited = time.monotonic() - begun
        if waited > timeout:
            raise silent()
        if waited > PATIENCE[own_core]:
            time.sleep(POLL_PAUSE)
        else:
            os.sched_yield()


def silence(rank: int, others: Iterable[int | None], timeout: float) -> NetworkError:
    """The error of a process that waited in vain; an unknown process among the others is None."""
    known = sorted({other for other in others if other is not None})
    who = f"rank {', '.join(map(str, known))}" if known else "some rank"
    return NetworkError(f"rank {rank} has heard nothing from {who} for {timeout:g} seconds.")
