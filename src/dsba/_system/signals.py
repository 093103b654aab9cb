"""Requests to stop: Ctrl-C, and the signals by which systems end a process (SIGTERM, SIGHUP)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Handler = Callable[[int, Any], None]

_asked: list[threading.Event] = []  # of the blocks under way, the innermost last
POLITE = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """The first request sets the event, so that a run stops cleanly; a second one does what it usually does."""
    event = threading.Event()

    def once(signum: int, frame: Any) -> None:
        event.set()
        signal.signal(signum, previous[signum])

    with _handled([signal.SIGINT, *POLITE], once) as previous:
        _asked.append(event)
        try:
            yield event
        finally:
            _asked.remove(event)


def requested() -> bool:
    """Whether somebody has asked to stop. Code that waits for other processes asks this, so that it stops waiting."""
    return any(event.is_set() for event in tuple(_asked))


@contextmanager
def ending_like_ctrl_c() -> Iterator[None]:
    """Within the block, SIGTERM and SIGHUP raise KeyboardInterrupt."""

    def interrupt(signum: int, frame: Any) -> None:
        raise KeyboardInterrupt

    with _handled(POLITE, interrupt):
        yield


@contextmanager
def _handled(signals: list[signal.Signals], handler: Handler) -> Iterator[dict[int, Any]]:
    """Set the handler for these signals, except for ignored ones (as under nohup). Yields the handlers before."""
    previous: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # no other thread may handle signals
        previous = {s: signal.getsignal(s) for s in signals if signal.getsignal(s) is not signal.SIG_IGN}
    for number in previous:
        signal.signal(number, handler)
    try:
        yield previous
    finally:
        for number, before in previous.items():
            signal.signal(number, before)
