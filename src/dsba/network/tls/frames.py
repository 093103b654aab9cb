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

from dsba.errors import DsbaError
from dsba.network.transport import FRAMES, QUESTIONS, ROWS

FRAME_MAGIC, FRAME_VERSION = b"DS", 1
FRAME_HEADER = struct.Struct("<2sBBQQQI")
FRAME_CRC_BYTES = 4
ACKNOWLEDGE = 0
GOES_ON = 0x80
KINDS = (ACKNOWLEDGE, ROWS, FRAMES, QUESTIONS)
MOST_PAYLOAD = 1 << 16
MOST_FRAME_BYTES = FRAME_HEADER.size + MOST_PAYLOAD


class FrameError(DsbaError, ValueError):
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
    start = FRAME_HEADER.pack(FRAME_MAGIC, FRAME_VERSION, kind, tag, frame.number, frame.received, 0)[:-FRAME_CRC_BYTES]
    crc = zlib.crc32(frame.payload, zlib.crc32(start))
    return start + crc.to_bytes(FRAME_CRC_BYTES, "little") + frame.payload


def decode(data: bytes, tag: int) -> Frame:
    """The frame in ``data``, which must be whole and have the tag that is due."""
    if not FRAME_HEADER.size <= len(data) <= MOST_FRAME_BYTES:
        raise FrameError(f"it has {len(data)} bytes, and {FRAME_HEADER.size} to {MOST_FRAME_BYTES} are wanted")
    magic, version, kind, found, number, received, crc = FRAME_HEADER.unpack_from(data)
    if magic != FRAME_MAGIC:
        raise FrameError("it does not begin like a frame of dsba")
    if version != FRAME_VERSION:
        raise FrameError(f"it is of version {version} of the format, and this program reads version {FRAME_VERSION}")
    payload = data[FRAME_HEADER.size :]
    if crc != zlib.crc32(payload, zlib.crc32(data[: FRAME_HEADER.size - FRAME_CRC_BYTES])):
        raise FrameError("its checksum is wrong")
    if found != tag:
        raise FrameError("it belongs to an earlier run, or to another one")
    if kind & ~GOES_ON not in KINDS or (kind == ACKNOWLEDGE and payload) or kind == ACKNOWLEDGE | GOES_ON:
        raise FrameError(f"it is of the unknown kind {kind}")
    return Frame(kind & ~GOES_ON, bool(kind & GOES_ON), number, received, payload)


def cut(message: bytes) -> list[bytes]:
    """The payloads of a message's frames, in order; an empty message has one empty payload."""
    return [message[at : at + MOST_PAYLOAD] for at in range(0, len(message), MOST_PAYLOAD)] or [b""]
