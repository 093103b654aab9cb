"""Requests to stop: Ctrl-C, and the signals by which systems end a process (SIGTERM, SIGHUP)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Handler = Callable[[int, Any], None]

_asked: list[threading.Event] = []  # of the blocks under way, the innermost last
_orderly = ContextVar("orderly", default=False)
POLITE = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """The first signal sets the event, so that a run stops cleanly. A second one does what it usually does.

    At the end of the block the first signal does so, too, unless a command has asked for an orderly end: signals
    belong to the program and not to the library.
    """
    event, caught = threading.Event(), list[int]()

    def once(signum: int, frame: Any) -> None:
        event.set()
        caught.append(signum)
        signal.signal(signum, previous[signum])

    try:
        with _handled([signal.SIGINT, *POLITE], once) as previous:
            _asked.append(event)
            try:
                yield event
            finally:
                _asked.remove(event)
    finally:
        for signum in [] if _orderly.get() else caught:
            signal.raise_signal(signum)


def requested() -> bool:
    """Whether somebody has asked to stop. Code that waits for other processes asks this, so that it stops waiting."""
    return any(event.is_set() for event in tuple(_asked))


@contextmanager
def orderly_end() -> Iterator[None]:
    """Within the block, of a command, a signal during a run ends the run with a result, and has no other effect."""
    before = _orderly.set(True)
    try:
        yield
    finally:
        _orderly.reset(before)


@contextmanager
def ending_like_ctrl_c() -> Iterator[None]:
    """An orderly end of runs; and outside of runs SIGTERM and SIGHUP raise KeyboardInterrupt."""

    def interrupt(signum: int, frame: Any) -> None:
        raise KeyboardInterrupt

    with orderly_end(), _handled(POLITE, interrupt):
        yield


@contextmanager
def _handled(signals: list[signal.Signals], handler: Handler) -> Iterator[dict[int, Any]]:
    """Set the handler for these signals, except for ignored ones (as under nohup) and those with a handler that is
    not Python's, which could not be set again. Yields the handlers before."""
    previous: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # no other thread may handle signals
        previous = {s: signal.getsignal(s) for s in signals if signal.getsignal(s) not in (signal.SIG_IGN, None)}
    for number in previous:
        signal.signal(number, handler)
    try:
        yield previous
    finally:
        for number, before in previous.items():
            signal.signal(number, before)
