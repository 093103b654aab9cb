"""A link to a neighbouring site: frames that arrive once and in order, over whatever connection there is.

A link lives as long as the run; connections come and go. What was sent and not acknowledged is kept and sent again over
the next connection. Numbers and inboxes begin anew with every epoch (see ``dsba.network.tls.site_network``).
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import deque
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from dsba.network.tls.frames import ACKNOWLEDGE, KINDS, Frame, FrameError, decode, encode
from dsba.network.tls.pinned import Hearing

Inbox = SimpleQueue[bytes | None]  # messages that have come whole; None only wakes

WINDOW = 1 << 17  # payload bytes under way: they fit into the system's buffers, so that sending does not wait
ACKNOWLEDGE_EVERY = 16  # frames, where nothing is sent the other way
ACKNOWLEDGE_BYTES = WINDOW // 4
MOST_UNREAD = 1 << 28  # bytes of a message, and of all messages that wait to be read


class SiteLink:
    """One neighbour. ``epoch`` and ``nonce`` are this site's; ``theirs`` is the neighbour's nonce, once it is known."""

    def __init__(self, rank: int, name: str) -> None:
        self.rank, self.name = rank, name
        self.connection: Hearing | None = None
        self.known_data: str | None = None
        self.done = False  # the neighbour needs nothing any more
        self.refusal = ""  # what the neighbour said the last time that it refused this site
        self.sent_bytes = self.received_bytes = 0
        self._order = threading.RLock()  # held while frames are numbered and sent
        self.inbox: dict[int, Inbox] = {}
        self.reset(0, b"")

    def reset(self, epoch: int, nonce: bytes) -> None:
        """Begin anew: nothing of an earlier epoch is sent or read any more."""
        with self._order:
            self.epoch, self.nonce, self.tag = epoch, nonce, 0
            self.theirs: bytes | None = None
            self.awaits: dict[str, str] = {}  # the sites that the neighbour waits for, and why they are not there
            self.announced = False
            self.kept: deque[Frame] = deque()  # sent, and perhaps not arrived
            self.number = self.acknowledged = self.received = 0
            self.owed_frames = self.owed_bytes = 0  # received since the last acknowledgement
            self.parts: list[bytes] = []
            self.come = self.read = 0  # payload bytes; the first is changed by those who bring, the other by who reads
            self.wake()
            self.inbox = {kind: SimpleQueue() for kind in KINDS}

    def meet(self, theirs: bytes, study: bytes) -> None:
        """The neighbour's nonce of this epoch: from now on frames may go both ways."""
        both = sorted([self.nonce, theirs])
        digest = hashlib.sha256(b"dsba link" + study + self.epoch.to_bytes(8, "little") + both[0] + both[1]).digest()
        self.tag, self.theirs = int.from_bytes(digest[:8], "little"), theirs

    def has_room(self, length: int) -> bool:
        """Whether so many payload bytes may be sent, beside those that are not acknowledged."""
        if self.acknowledged == self.number:
            return True
        under_way = sum(len(frame.payload) for frame in tuple(self.kept) if frame.number >= self.acknowledged)
        return under_way + length <= WINDOW

    # Sending ------------------------------------------------------------------------------------------

    def put(self, epoch: int, kind: int, payload: bytes, goes_on: bool) -> bool:
        """Number a frame and send it, now or over the next connection; False if the epoch is over."""
        with self._order:
            if epoch != self.epoch:
                return False
            frame = Frame(kind, goes_on, self.number, self.received, payload)
            self.number += 1
            while self.kept and self.kept[0].number < self.acknowledged:
                self.kept.popleft()
            self.kept.append(frame)
            self._send(frame)
            return True

    def attach(self, connection: Hearing, arrived: int) -> None:
        """Go on over a new connection; ``arrived`` is how many frames the neighbour has."""
        with self._order:
            if self.connection is not None:
                self.connection.close_socket()
            self.connection, self.announced = connection, False
            self.refusal, self.awaits = "", {}
            self.acknowledged = max(self.acknowledged, min(arrived, self.number))
            self.announce()
            for frame in list(self.kept):
                if frame.number >= self.acknowledged:
                    self._send(frame)

    def announce(self) -> None:
        """Tell the neighbour the epoch and the nonce of this site, unless it was told."""
        with self._order:
            if not self.announced and self.connection is not None:
                self.notify(begin=[self.epoch, self.nonce.hex()])
                self.announced = True

    def notify(self, **message: Any) -> None:
        """A message beside the frames; it is lost with the connection."""
        with suppress(Exception):
            if self.connection is not None:
                self.connection.push(json.dumps(message))

    def _send(self, frame: Frame) -> None:
        self.announce()
        if self.connection is None:
            return
        if frame.received != self.received:
            frame = frame._replace(received=self.received)
        data = encode(self.tag, frame)
        self.owed_frames = self.owed_bytes = 0
        try:
            self.connection.push(data)
            self.sent_bytes += len(data)
        except Exception:  # the connection is gone; the frame is kept for the next one
            self.connection = None

    # Receiving ----------------------------------------------------------------------------------------

    def take(self, data: bytes) -> bool:
        """Read a frame; True if it is time to acknowledge. A frame that came before is passed over."""
        self.received_bytes += len(data)
        if self.theirs is None:  # of an epoch that is over
            return False
        frame = decode(data, self.tag)
        if frame.received > self.number:
            raise FrameError(f"it acknowledges frame {frame.received}, and {self.number} were sent")
        self.acknowledged = max(self.acknowledged, frame.received)
        if frame.kind == ACKNOWLEDGE or frame.number < self.received:
            return False
        if frame.number > self.received:
            raise FrameError(f"it has the number {frame.number}, and number {self.received} is due")
        self.received += 1
        self.come += len(frame.payload) or 1  # an empty one takes memory as well
        if self.come - self.read > MOST_UNREAD:
            raise FrameError(f"more than {MOST_UNREAD} bytes came that nobody asked for")
        self.parts.append(frame.payload)
        if not frame.goes_on:
            self.inbox[frame.kind].put(b"".join(self.parts))
            self.parts = []
        self.owed_frames += 1
        self.owed_bytes += len(frame.payload)
        return self.owed_frames >= ACKNOWLEDGE_EVERY or self.owed_bytes >= ACKNOWLEDGE_BYTES

    def wake(self) -> None:
        """Wake the thread that waits for a message, because something has changed."""
        for inbox in self.inbox.values():
            if inbox.empty():  # else whoever waits has something to read
                inbox.put(None)

    def acknowledge(self, connection: Hearing) -> None:
        self.owed_frames = self.owed_bytes = 0
        connection.push(encode(self.tag, Frame(ACKNOWLEDGE, False, 0, self.received, b"")))
