"""Waiting for others: no wait is without end, and whoever is silent is named."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable

from dsba.errors import NetworkError

PATIENT_POLLS = 200  # of busy waiting, before the processor is given to others in earnest
PAUSE = 5e-5  # seconds between two polls after that


def poll(done: Callable[[], bool], silent: Callable[[], NetworkError], timeout: float) -> None:
    """Until ``done``; after ``timeout`` seconds the error that ``silent`` makes is raised."""
    polls, deadline = 0, time.monotonic() + timeout
    while not done():
        polls += 1
        if polls < PATIENT_POLLS:
            os.sched_yield()
            continue
        time.sleep(PAUSE)
        if time.monotonic() > deadline:
            raise silent()


def silence(rank: int, others: Iterable[int | None], timeout: float) -> NetworkError:
    """The error of a process that waited in vain; an unknown process among the others is None."""
    known = sorted({other for other in others if other is not None})
    who = f"rank {', '.join(map(str, known))}" if known else "some rank"
    return NetworkError(f"rank {rank} has heard nothing from {who} for {timeout:g} seconds.")
