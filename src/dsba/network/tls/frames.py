"""The frames that sites send each other, after TLS and WebSocket have done their part.

A frame is one binary message, all numbers little-endian::

    "DS" | version u8 | kind u8 | tag u64 | number u64 | received u64 | CRC-32 of all other bytes u32 | payload

``tag`` belongs to one epoch of one pair of sites, so that a frame of an earlier run fits no later one. ``number``
counts the frames of a direction from 0. ``received`` is how many frames of the other direction have come in order: it
acknowledges them. ``kind`` is what the payload is for; its highest bit says that the message goes on in the next frame.
A frame of kind 0 has no payload and no number of its own: it only acknowledges.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from dsba.network.transport import FRAMES, QUESTIONS, ROWS

MAGIC, VERSION = b"DS", 1
HEADER = struct.Struct("<2sBBQQQI")
CRC_BYTES = 4
ACKNOWLEDGE = 0
GOES_ON = 0x80
KINDS = (ACKNOWLEDGE, ROWS, FRAMES, QUESTIONS)
MOST_PAYLOAD = 1 << 16
MOST_BYTES = HEADER.size + MOST_PAYLOAD


class FrameError(ValueError):
    """A frame is not the expected one. The message is the reason; the caller makes a sentence of it."""


class Frame(NamedTuple):
    """What a frame says."""

    kind: int
    goes_on: bool
    number: int
    received: int
    payload: bytes


def encode(tag: int, frame: Frame) -> bytes:
    """The bytes of a frame."""
    kind = frame.kind | (GOES_ON if frame.goes_on else 0)
    start = HEADER.pack(MAGIC, VERSION, kind, tag, frame.number, frame.received, 0)[:-CRC_BYTES]
    crc = zlib.crc32(frame.payload, zlib.crc32(start))
    return start + crc.to_bytes(CRC_BYTES, "little") + frame.payload


def decode(data: bytes, tag: int) -> Frame:
    """The frame in ``data``, which must be whole and have the tag that is due."""
    if not HEADER.size <= len(data) <= MOST_BYTES:
        raise FrameError(f"it has {len(data)} bytes, and {HEADER.size} to {MOST_BYTES} are wanted")
    magic, version, kind, found, number, received, crc = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise FrameError("it does not begin like a frame of dsba")
    if version != VERSION:
        raise FrameError(f"it is of version {version} of the format, and this program reads version {VERSION}")
    payload = data[HEADER.size :]
    if crc != zlib.crc32(payload, zlib.crc32(data[: HEADER.size - CRC_BYTES])):
        raise FrameError("its checksum is wrong")
    if found != tag:
        raise FrameError("it belongs to an earlier run, or to another one")
    if kind & ~GOES_ON not in KINDS or (kind == ACKNOWLEDGE and payload) or kind == ACKNOWLEDGE | GOES_ON:
        raise FrameError(f"it is of the unknown kind {kind}")
    return Frame(kind & ~GOES_ON, bool(kind & GOES_ON), number, received, payload)


def cut(message: bytes) -> list[bytes]:
    """The payloads of a message's frames, in order; an empty message has one empty payload."""
    return [message[at : at + MOST_PAYLOAD] for at in range(0, len(message), MOST_PAYLOAD)] or [b""]
