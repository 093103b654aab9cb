"""Rows in few levels: what a frame holds, how coarse it may be, and that nothing else is let in."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsba.network.messages import wire
from dsba.network.messages.levels import Compression
from dsba.network.messages.wire import Header, WireError

HERE = Header(session=7, sender=2, receiver=1, round=9)
HALVES = (1, 2, 4, 8, 16, 32, 64)


def read(frame, dim):
    return wire.unpack_row(frame, HERE, 4, dim)


@pytest.mark.parametrize("half", HALVES)
def test_levels_survive_their_bytes(half):
    rng = np.random.default_rng(half)
    for dim in (1, 2, 3, 7, 100):
        levels = rng.integers(-half, half + 1, size=dim).astype(np.int8)
        coded = read(wire.pack(HERE, [wire.encode_levels(half, 0.25, levels)]), dim)
        assert (coded.levels == levels).all()
        assert (coded.scale, coded.row) == (0.25, None)


@pytest.mark.parametrize("half", HALVES)
def test_rounding_is_to_a_multiple_around_and_right_in_the_mean(half):
    rng = np.random.default_rng(0)
    v, known = rng.normal(size=101), rng.normal(size=101)
    coded = [Compression(half, guarded=False).coded(0, v, known, rng.random(101), 1.0) for _ in range(400)]
    found, unit = np.array([c.scale * c.levels for c in coded]), coded[0].scale
    assert unit == np.float32(unit) >= np.abs(v - known).max() / half
    assert np.abs(found - (v - known)).max() < unit
    assert np.abs(found.mean(axis=0) - (v - known)).max() < 5 * unit / 20
    nearest = Compression(half, guarded=False).coded(0, v, known, np.full(101, 0.5), 1.0)
    assert np.abs(nearest.scale * nearest.levels - (v - known)).max() <= 0.5 * unit


def test_the_guard_takes_as_many_levels_as_are_needed():
    """One large number among 199 small ones: 5 levels lose the small ones, and too much must not be lost."""
    known, u = np.zeros(200), np.full(200, 0.5)
    for small, kappa, count in ((0.0, 4.0, 5), (0.1, 0.5, 5), (0.01, 8.0, 5), (0.13, 1.0, 9), (0.1, 2.0, 17)):
        v = np.full(200, small)
        v[3] = 1.0
        coded = Compression().coded(0, v, known, u, kappa)
        assert coded.entry[1] == count, (small, kappa)
    hopeless = np.full(200, 1e-3)
    hopeless[3] = 1.0
    assert Compression().coded(0, hopeless, known, u, 1e9).row is hopeless
    assert Compression(half=128).coded(0, v, known, u, 1.0).row is v


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_rows_beyond_a_float32_go_as_they_are(value):
    v = np.array([1.0, value, 2.0])
    coded = Compression().coded(2, v, np.zeros(3), np.full(3, 0.5), 1.0)
    found = read(wire.pack(HERE, [coded.entry]), 3)
    assert found.row is not None
    assert found.row.tobytes() == v.tobytes()
    tiny = Compression().coded(2, np.full(3, 1e-300), np.zeros(3), np.full(3, 0.5), 1.0)
    assert tiny.row is not None or tiny.scale > 0.0


def whole_frame():
    levels = np.random.default_rng(1).integers(-2, 3, size=100).astype(np.int8)
    return wire.pack(HERE, [wire.encode_levels(2, 0.5, levels)])


def checked(frame):
    """The frame with the length and the checksum that fit its bytes, as a forger would make it."""
    start = frame[:16] + (len(frame) - 24).to_bytes(4, "little")
    return start + zlib.crc32(frame[24:], zlib.crc32(start)).to_bytes(4, "little") + frame[24:]


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_damaged_frames_are_refused_or_are_rows(data):
    """Whatever passes a forged checksum is 100 levels within bounds, or 100 numbers."""
    frame = bytearray(whole_frame())
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    frame = bytes(frame[: data.draw(st.integers(1, len(frame)))])
    if frame != whole_frame():
        with pytest.raises(WireError):
            read(frame, 100)
    if len(frame) < 24:
        return
    try:
        found = read(checked(frame), 100)
    except WireError:
        return
    assert found.row is not None or (found.levels.shape == (100,) and np.abs(found.levels).max() <= 64)


def raw(packed):
    deflate = zlib.compressobj(wbits=-15)
    return deflate.compress(packed) + deflate.flush()


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (b"\x08\x05\0\0\0", "ends in the middle"),
        (b"\x08\x06\0\0\x80\x3f" + raw(b"\0" * 34), "6 levels"),
        (b"\x08\xff\0\0\x80\x3f" + raw(b"\0" * 100), "255 levels"),
        (b"\x08\x05\0\0\xc0\x7f" + raw(b"\0" * 34), "units of nan"),
        (b"\x08\x05\0\0\x80\xbf" + raw(b"\0" * 34), "units of -1"),
        (b"\x08\x05\0\0\x80\x3f" + raw(b"\0" * 33), "not those of a row of 100"),
        (b"\x08\x05\0\0\x80\x3f" + raw(b"\0" * 10_000_000), "not those of a row of 100"),
        (b"\x08\x05\0\0\x80\x3f" + raw(b"\0" * 33 + b"\x7d"), "not those of a row of 100"),
        (b"\x08\x05\0\0\x80\x3f" + raw(b"\0" * 33 + b"\x05"), "not those of a row of 100"),  # 100 = 33 * 3 + 1
        (b"\x08\x05\0\0\x80\x3f" + raw(b"\0" * 34) + b"x", "not those of a row of 100"),
        (b"\x08\x05\0\0\x80\x3fnonsense", "not those of a row of 100"),
        (wire.encode_dense(2, np.zeros(100)) + b"x", "1 bytes follow"),
        (wire.encode_dense(3, np.zeros(100)), "source 3 where source 2 is due"),
        (wire.encode_again(2, 0, np.zeros(1)), "holds no row"),
        (b"", "holds no row"),
    ],
)
def test_what_is_not_a_row_is_refused(entry, reason):
    with pytest.raises(WireError, match=reason):
        read(wire.pack(HERE, [entry]), 100)
