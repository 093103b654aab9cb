"""Connections that have not shown a certificate yet: one thread for all of them, and a bounded queue.

A connection here costs a socket and no thread. It has a deadline. There are two queues: of those that have sent
nothing, and of those that have begun TLS. Where one is full its own oldest is dropped. So a member gets through a flood
of connections that say nothing, and through one of connections that begin TLS and go no further, also from its own
address. Strangers are one sentence and one audit line a minute.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from dsba.network.tls.pinned import HANDSHAKE, PLAIN_ANSWER, TLS_RECORD, Member, RefusedError, explained, member_of

MOST_UNFINISHED = 384  # in each queue; at a thousand a second a member has 0.4 seconds in either one
ACCEPTED_AT_ONCE = 64  # before those that are under way go on
LEAVING = 1.0  # seconds for our last words to arrive
MOST_LAST_READS = 64
LOOK = 0.2  # seconds between looks whether all is over
STRANGERS_EVERY = 60.0  # seconds
MOST_ADDRESSES = 1000  # that are counted
TOO_MANY = "there were too many unfinished handshakes, and it was the oldest."

Welcome = Callable[[ssl.SSLSocket, int, float], bool]
"""Called with a line, the member at its other end, and the time by which it must have opened a WebSocket."""


class Strangers:
    """Who was refused before showing a certificate: the first at once, and then a summary once a minute."""

    def __init__(self, notify: Callable[[str], object], log: Callable[..., object]) -> None:
        self._notify, self._log = notify, log
        self._count, self._addresses, self._due = 0, set[str](), 0.0

    def add(self, address: str, why: str) -> None:
        self._count += 1
        if len(self._addresses) < MOST_ADDRESSES:
            self._addresses.add(address)
        self._last = address, why
        self.summarise()

    def summarise(self, over: bool = False) -> None:
        """Tell and log what has come together, if it is time to, or if all is over."""
        if not self._count or not (over or time.monotonic() >= self._due):
            return
        address, why = self._last
        many = f"{self._count} connections from {len(self._addresses)} addresses, the last one"
        self._notify(f"Refused {'a connection' if self._count == 1 else many} from {address}: {why}")
        self._log("strangers", connections=self._count, addresses=len(self._addresses), last=address, said=why)
        self._count, self._addresses, self._due = 0, set(), time.monotonic() + STRANGERS_EVERY


@dataclass(eq=False)
class Visitor:
    """One connection on its way; ``step`` is what comes next whenever its socket is ready."""

    sock: socket.socket
    address: str
    step: Callable[[Visitor], None]
    deadline: float = field(default_factory=lambda: time.monotonic() + HANDSHAKE)
    reads: int = 0


class Handshakes:
    """Answers at a listener until ``closing`` is set; whoever shows a member's certificate is welcomed."""

    def __init__(
        self, listener: socket.socket, using: ssl.SSLContext, members: Sequence[Member], closing: threading.Event,
        welcome: Welcome, strangers: Strangers,
    ) -> None:  # fmt: skip
        listener.setblocking(False)
        self.listener, self.using, self.members, self.closing = listener, using, members, closing
        self.welcome, self.strangers = welcome, strangers
        self.silent: dict[Visitor, None] = {}  # oldest first
        self.begun: dict[Visitor, None] = {}  # TLS, or leaving

    @property
    def unfinished(self) -> int:
        return len(self.silent) + len(self.begun)

    def run(self) -> None:
        with selectors.DefaultSelector() as self.ready:
            self.ready.register(self.listener, selectors.EVENT_READ)
            while not self.closing.is_set():
                for key, _ in self.ready.select(LOOK):
                    if key.data is None:
                        self._accept()
                    else:
                        self._go_on(key.data)
                self._drop_late()
                self.strangers.summarise()
            for visitor in (*self.silent, *self.begun):
                self._drop(visitor, "this site was about to end.")
        self.strangers.summarise(over=True)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                sock, address = self.listener.accept()
            except BlockingIOError:
                return
            except OSError:  # closed, or no more files
                if self.unfinished:
                    self._drop_oldest(self.silent or self.begun)
                else:
                    self.closing.wait(LOOK)
                return
            sock.setblocking(False)
            if len(self.silent) >= MOST_UNFINISHED:
                self._drop_oldest(self.silent)
            visitor = Visitor(sock, str(address[0]), self._first_byte)
            self.silent[visitor] = None
            self.ready.register(sock, selectors.EVENT_READ, visitor)

    def _go_on(self, visitor: Visitor) -> None:
        if visitor not in self.silent and visitor not in self.begun:  # dropped in this very turn
            return
        try:
            visitor.step(visitor)
        except (ssl.SSLWantReadError, BlockingIOError):
            self.ready.modify(visitor.sock, selectors.EVENT_READ, visitor)
        except ssl.SSLWantWriteError:
            self.ready.modify(visitor.sock, selectors.EVENT_WRITE, visitor)
        except (OSError, ValueError, RefusedError) as error:
            self._refuse(visitor, str(error) if isinstance(error, RefusedError) else explained(error))

    # The steps of a visitor ---------------------------------------------------------------------------

    def _first_byte(self, visitor: Visitor) -> None:
        first = visitor.sock.recv(1, socket.MSG_PEEK)
        if len(self.begun) >= MOST_UNFINISHED:
            self._drop_oldest(self.begun)
        del self.silent[visitor]
        self.begun[visitor] = None
        if first and first[0] != TLS_RECORD:
            visitor.sock.send(PLAIN_ANSWER)
            raise RefusedError("it speaks plain text and not TLS.")
        self.ready.unregister(visitor.sock)
        try:
            visitor.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
            visitor.sock = self.using.wrap_socket(visitor.sock, server_side=True, do_handshake_on_connect=False)
        finally:
            self.ready.register(visitor.sock, selectors.EVENT_READ, visitor)
        visitor.step = self._handshake
        self._handshake(visitor)

    def _handshake(self, visitor: Visitor) -> None:
        secured: Any = visitor.sock
        secured.do_handshake()
        rank = member_of(secured.getpeercert(binary_form=True), self.members)
        self._forget(visitor)
        secured.setblocking(True)
        if not self.welcome(secured, rank, visitor.deadline):
            secured.close()

    def _last_words(self, visitor: Visitor) -> None:
        """Until the other side has read ours: a socket closed with unread bytes in it would take them back."""
        visitor.reads += 1
        try:
            if visitor.sock.recv(4096) and visitor.reads < MOST_LAST_READS:
                return
        except BlockingIOError:
            return
        except (OSError, ValueError):
            pass
        self._end(visitor)

    # How they end -------------------------------------------------------------------------------------

    def _refuse(self, visitor: Visitor, why: str) -> None:
        self.strangers.add(visitor.address, why)
        visitor.step, visitor.deadline = self._last_words, time.monotonic() + LEAVING
        try:
            visitor.sock.shutdown(socket.SHUT_WR)
            self.ready.modify(visitor.sock, selectors.EVENT_READ, visitor)
        except (OSError, ValueError, KeyError):  # it has gone already
            self._end(visitor)

    def _drop_oldest(self, queue: dict[Visitor, None]) -> None:
        self._drop(next(iter(queue)), TOO_MANY)

    def _drop_late(self) -> None:
        now = time.monotonic()
        for visitor in (*self.silent, *self.begun):
            if visitor.deadline < now:
                self._drop(visitor, explained(TimeoutError()))

    def _drop(self, visitor: Visitor, why: str) -> None:
        self._end(visitor)
        if visitor.step != self._last_words:
            self.strangers.add(visitor.address, why)

    def _end(self, visitor: Visitor) -> None:
        self._forget(visitor)
        visitor.sock.close()

    def _forget(self, visitor: Visitor) -> None:
        self.silent.pop(visitor, None)
        self.begun.pop(visitor, None)
        with suppress(KeyError, ValueError, OSError):
            self.ready.unregister(visitor.sock)
