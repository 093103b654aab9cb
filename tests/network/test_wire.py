"""What goes on the wire comes back bit by bit, costs what the simulator counts, and nothing else is let in."""

from __future__ import annotations

import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsba.errors import InputError
from dsba.network.messages import wire
from dsba.network.messages.wire import Block, Bounds, Header, SampleCache, WireError

HERE = Header(session=0xFEEDBEEF, sender=2, receiver=1, round=70_000)
BOUNDS = Bounds(n_nodes=6, dim=1000, k=3, sizes=(300, 300, 300, 300, 300, 300))
SOURCES = (0, 2, 3, 5)

quick = settings(deadline=None, max_examples=150)

# The extremes come often: zeros of both signs, infinities, quiet and signalling NaN with payloads, subnormals.
EXTREMES = (0, 1 << 63, 0x7FF0 << 48, 0xFFF0 << 48, 0x7FF8000000000ABC, 0x7FF0000000000001, 1, 0x7FEFFFFFFFFFFFFF)
bits = st.one_of(st.sampled_from(EXTREMES), st.integers(0, 2**64 - 1))


def reals(size):
    return st.lists(bits, min_size=size, max_size=size).map(lambda x: np.array(x, np.uint64).view(np.float64))


@st.composite
def blocks(draw, dim, k):
    some = st.integers(0, dim - 1) | st.sampled_from([0, dim - 1, min(127, dim - 1), min(128, dim - 1)])
    rows = [sorted(draw(st.sets(some, max_size=min(dim, 12)))) for _ in range(k)]
    indices = np.array([i for row in rows for i in row], np.int64)
    return Block(np.array([len(row) for row in rows], np.int64), indices, draw(reals(indices.size)))


dims = st.one_of(st.integers(1, 9), st.integers(1, 2**40), st.just(2**40))
samples = st.integers(0, 2**40 - 1) | st.integers(0, 300)


@st.composite
def messages(draw):
    """Coded entries with what they were made of: (kind, sample, coefficients, block, dense)."""
    k, dim = draw(st.sampled_from([1, 3])), draw(dims)
    sources = sorted(draw(st.sets(st.integers(0, 65_534), max_size=4)))
    kinds = ["again", "vector", "first"] + ["dense"] * (dim < 10)
    made, entries = [], []
    for source in sources:
        kind, sample = draw(st.sampled_from(kinds)), draw(samples)
        block, coefficients = draw(blocks(dim, k)), draw(reals(k))
        if kind == "again":
            made.append((source, sample, coefficients, None, None))
            entries.append(wire.encode_again(source, sample, coefficients))
        elif kind == "first":
            made.append((source, sample, coefficients, block, None))
            entries.append(wire.encode_first(source, sample, block, coefficients))
        elif kind == "vector":
            made.append((source, -1, np.empty(0), block, None))
            entries.append(wire.encode_vector(source, block))
        else:
            dense = draw(reals(dim))
            made.append((source, -1, np.empty(0), None, dense))
            entries.append(wire.encode_dense(source, dense))
    return Bounds(65_535, dim, k, (2**40,) * 65_535), sources, made, entries


def same_bits(a, b):
    if a is None or b is None:
        return a is b
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@quick
@given(messages(), st.sampled_from([bytes, bytearray, memoryview]))
def test_round_trip_keeps_every_bit(message, kind):
    bounds, sources, made, entries = message
    frame = wire.pack(HERE, entries)
    assert len(frame) == wire.HEADER_BYTES + sum(map(len, entries))
    received = wire.unpack(kind(frame), HERE, sources, bounds)
    assert [entry.raw for entry in received] == entries
    for got, (source, sample, coefficients, block, dense) in zip(received, made, strict=True):
        assert (got.source, got.sample) == (source, sample)
        assert same_bits(got.coefficients, coefficients)
        assert same_bits(got.dense, dense)
        assert (got.block is None) == (block is None)
        for part, wanted in zip(got.block or (), block or (), strict=True):
            assert same_bits(part, wanted)
            assert part.flags.owndata or part.base.flags.owndata  # no view that would keep the whole frame alive


@quick
@given(st.sampled_from([1, 3]), dims, st.data())
def test_counted_sizes_are_the_lengths_of_entries(k, dim, data):
    made = data.draw(st.lists(blocks(dim, k), max_size=6))
    source = np.array(data.draw(st.lists(st.integers(0, 65_534), min_size=len(made), max_size=len(made))), np.int64)
    sample = np.array(data.draw(st.lists(samples, min_size=len(made), max_size=len(made))), np.int64)
    lengths = np.concatenate([np.empty(0, np.int64), *(block.lengths for block in made)])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([np.empty(0, np.int64), *(block.indices for block in made)])
    if dim <= 2**31:  # SciPy's usual index type counts the same
        indptr, indices = indptr.astype(np.int32), indices.astype(np.int32)
    kinds = (wire.VECTOR, wire.FIRST_TIME, wire.AGAIN)
    vector, first, again = (wire.entry_costs(kind, source, sample, indptr, indices, k) for kind in kinds)
    coefficients = np.ones(k)
    for i, block in enumerate(made):
        s, j, nnz = int(source[i]), int(sample[i]), block.indices.size
        for costs, entry, doubles in (
            (vector, wire.encode_vector(s, block), nnz),
            (first, wire.encode_first(s, j, block, coefficients), nnz + k),
            (again, wire.encode_again(s, j, coefficients), k),
        ):
            assert costs[i].tolist() == [doubles, len(entry) - 8 * doubles, len(entry)]


def test_the_bytes_of_version_1():
    """The format itself, written down: a change of it needs a new version."""
    block = Block(np.array([3, 0]), np.array([0, 5, 300]), np.array([1.0, -2.0, 0.5]))
    entry = wire.encode_first(200, 7, block, np.array([3.0, 4.0]))
    numbers = bytes([3, 200, 1, 7, 3, 0, 0, 4, 0xA6, 2])  # kind, source, sample, lengths, indices
    assert entry == numbers + np.array([1.0, -2.0, 0.5, 3.0, 4.0], "<f8").tobytes()
    frame = wire.pack(Header(0x04030201, 2, 1, 9), [entry])
    start = bytes([0xDB, 1, 2, 0, 1, 0, 1, 0, 1, 2, 3, 4, 9, 0, 0, 0, len(entry), 0, 0, 0])
    assert frame == start + zlib.crc32(start + entry).to_bytes(4, "little") + entry


def test_a_known_sample_costs_at_most_40_bytes():
    """Header and all, for a frame of one entry: any node, up to 268 million samples each."""
    assert wire.HEADER_BYTES <= 24
    frame = wire.pack(HERE, [wire.encode_again(65_534, 2**28 - 1, np.ones(1))])
    assert len(frame) <= 40
    assert len(wire.pack(HERE, [wire.encode_again(9, 1000, np.ones(1))])) == 36


# The cache


@quick
@given(
    st.none() | st.integers(0, 400) | st.integers(0, 50).map(lambda n: 8 * n),  # some are filled to the last byte
    st.lists(st.integers(0, 9), max_size=60),
    st.lists(st.integers(0, 12), min_size=10, max_size=10),
)
def test_both_ends_always_know_the_same_samples(limit, sequence, nonzeros):
    """The sender looks into its own cache, the receiver only at what comes."""
    own = [Block(np.array([n]), np.arange(n), np.arange(n) + 0.5 * i) for i, n in enumerate(nonzeros)]
    bounds = Bounds(1, 12, 1, (10,))
    sender, receiver = SampleCache(limit), SampleCache(limit)
    order = []  # the oldest first: an independent model of the cache
    for i in sequence:
        if i in sender:
            coded = wire.encode_again(0, i, np.ones(1))
        else:
            coded = wire.encode_first(0, i, own[i], np.ones(1))
            sender.add(i, own[i])
        (entry,) = wire.unpack(wire.pack(HERE, [coded]), HERE, [0], bounds)
        assert (entry.block is None) == (i in order)
        if entry.block is None:
            assert all(map(same_bits, receiver.get(i), own[i]))
        else:
            receiver.add(i, entry.block)
            size = 16 * nonzeros[i] + 8
            if limit is None or size <= limit:
                while limit is not None and sum(16 * nonzeros[j] + 8 for j in order) + size > limit:
                    order.pop(0)
                order.append(i)
        assert [j for j in range(10) if j in receiver] == [j for j in range(10) if j in sender] == sorted(order)
        assert sender.bytes == receiver.bytes == sum(16 * nonzeros[j] + 8 for j in order)
        assert limit is None or sender.bytes <= limit


def test_the_cache_refuses_what_does_not_agree():
    block = Block(np.array([1]), np.array([0]), np.array([1.0]))
    cache = SampleCache(None)
    with pytest.raises(WireError, match=r"sample 4 .* not known"):
        cache.get(4)
    cache.add(4, block)
    with pytest.raises(WireError, match=r"sample 4 .* is known"):
        cache.add(4, block)
    with pytest.raises(InputError, match=r">= 0 or None, got -1"):
        SampleCache(-1)


def test_without_room_nothing_is_kept():
    cache = SampleCache(0)
    cache.add(0, Block(np.array([0]), np.empty(0, np.int64), np.empty(0)))
    assert 0 not in cache
    assert cache.bytes == 0


def test_cached_bytes_of_many_blocks():
    assert (
        wire.cached_bytes(np.array([0, 5]), 3).tolist()
        == [wire.cached_bytes(0, 3), wire.cached_bytes(5, 3)]
        == [24, 104]
    )


# Frames that must not get in


def random_entries(rng):
    """One coded entry for each of SOURCES."""
    entries = []
    for source in SOURCES:
        lengths = rng.integers(0, 9, BOUNDS.k)
        rows = [np.sort(rng.choice(BOUNDS.dim, n, replace=False)) for n in lengths]
        block = Block(lengths, np.concatenate(rows), rng.normal(size=lengths.sum()))
        sample, coefficients = int(rng.integers(300)), rng.normal(size=BOUNDS.k)
        entries.append(
            (
                lambda s=source, b=block: wire.encode_vector(s, b),
                lambda s=source, i=sample, b=block, c=coefficients: wire.encode_first(s, i, b, c),
                lambda s=source, i=sample, c=coefficients: wire.encode_again(s, i, c),
                lambda s=source: wire.encode_dense(s, rng.normal(size=BOUNDS.dim)),
            )[rng.choice(4, p=[0.3, 0.4, 0.27, 0.03])]()
        )
    return entries


def sealed(frame, length=None):
    """The frame with the checksum (and the length of its payload) put right, as a careful forger would."""
    frame = bytearray(frame)
    frame[16:20] = (len(frame) - wire.HEADER_BYTES if length is None else length).to_bytes(4, "little")
    frame[20:24] = zlib.crc32(frame[24:], zlib.crc32(frame[:20])).to_bytes(4, "little")
    return bytes(frame)


def mutate(rng, frame, other, entries):
    """One random damage."""
    frame, at = bytearray(frame), int(rng.integers(len(frame)))
    match rng.integers(8):
        case 0:
            frame[at] ^= 1 << int(rng.integers(8))
        case 1:
            frame[at] = int(rng.choice([0, 1, 127, 128, 255, rng.integers(256)]))
        case 2:
            del frame[at:]
        case 3:
            frame += rng.bytes(int(rng.integers(1, 30)))
        case 4:
            frame[at:] = other[int(rng.integers(len(other))) :]
        case 5:
            order = rng.permutation(len(entries))
            frame[24:] = b"".join(entries[i] for i in order)
        case 6:  # a length or an index that claims a lot, or a varint without end
            size = int(rng.integers(1, 12))
            frame[at : at + int(rng.integers(3))] = b"\xff" * size + bytes([int(rng.integers(128))])
        case 7:
            count = int(rng.integers(1, 9))
            del frame[at : at + count]
    return bytes(frame)


def recoded(entry):
    """The bytes of an entry made anew from what was read, and that all of it is within bounds."""
    assert entry.source in SOURCES
    if entry.dense is not None:
        assert entry.dense.size == BOUNDS.dim
        return wire.encode_dense(entry.source, entry.dense)
    if entry.block is not None:
        lengths, indices, values = entry.block
        assert lengths.size == BOUNDS.k
        assert lengths.sum() == indices.size == values.size
        for row in np.split(indices, np.cumsum(lengths)[:-1]):
            assert (np.diff(row) > 0).all()
            assert ((row >= 0) & (row < BOUNDS.dim)).all()
        if entry.sample == -1:
            return wire.encode_vector(entry.source, entry.block)
    assert 0 <= entry.sample < BOUNDS.sizes[entry.source]
    assert entry.coefficients.size == BOUNDS.k
    if entry.block is None:
        return wire.encode_again(entry.source, entry.sample, entry.coefficients)
    return wire.encode_first(entry.source, entry.sample, entry.block, entry.coefficients)


def test_mutated_frames_are_refused_or_read_within_bounds():
    """A damaged frame is refused; with the checksum put right it is refused or means exactly what it says."""
    rng = np.random.default_rng(5)
    damages = refused = accepted = 0
    for _ in range(300):
        entries = random_entries(rng)
        frame, other = wire.pack(HERE, entries), wire.pack(HERE._replace(round=69_999), random_entries(rng))
        for _ in range(40):
            damaged = mutate(rng, frame, other, entries)
            if damaged == frame:
                continue
            damages += 1
            with pytest.raises(WireError) as error:
                wire.unpack(damaged, HERE, SOURCES, BOUNDS)
            message = str(error.value)
            assert message.startswith("refused the frame from node 2 in round 70000: ")
            assert message.endswith(".")
            if len(damaged) < wire.HEADER_BYTES:
                continue
            forged = sealed(damaged) if rng.random() < 0.9 else sealed(damaged, int(rng.integers(2**32)))
            try:
                received = wire.unpack(forged, HERE, SOURCES, BOUNDS)
            except WireError:
                refused += 1
                continue
            accepted += 1
            assert wire.pack(HERE, [recoded(entry) for entry in received]) == forged
    assert damages > 10_000
    assert refused > 5_000  # both ways were really gone
    assert accepted > 1_000


def frame_of(*entries):
    return sealed(wire.pack(HERE, entries))


HUGE = b"\xff" * 8 + b"\x7f"  # 2**63 - 1 in nine bytes
TEN = b"\xff" * 9 + b"\x01"
ROOM = bytes(9 * 8)
THREE = np.ones(3)


@pytest.fixture(scope="module")
def compiled_reader():
    """Compiling takes memory of its own, which is not the frame's."""
    wire.unpack(frame_of(b"\x02\x00\x02\x01\x00\x00\xe6\x07\xe7\x07" + bytes(24)), HERE, [0], BOUNDS)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", "ends in the middle"),
        (b"\x00", "unknown kind 0"),
        (b"\x05\x00", "unknown kind 5"),
        (b"\x01", "ends in the middle"),
        (b"\x01\x80", "ends in the middle"),
        (b"\x01\x80\x00\x01" + ROOM, "takes more bytes"),
        (b"\x01\x00" + TEN + ROOM, "takes more bytes"),
        (b"\x01\x00" + b"\xff" * 50, "takes more bytes"),
        (b"\x01\x06\x01" + ROOM, "source 6, and there are 6 nodes"),
        (b"\x01\x01\x01" + ROOM, "source 1 where source 0 is due"),
        (b"\x01\x00\xac\x02" + ROOM, "sample 300 of source 0, which has 300"),
        (b"\x01\x00" + HUGE + ROOM, "sample 9223372036854775807 of"),
        (b"\x01\x00\x01" + bytes(23), "ends in the middle"),
        (b"\x01\x00\x01" + bytes(25), "1 bytes follow"),
        (b"\x04\x00" + bytes(7999), "ends in the middle"),
        (b"\x04\x00" + bytes(8001), "1 bytes follow"),
        (b"\x02\x00" + HUGE + b"\x00\x00", "row of 9223372036854775807 indices below 1000"),
        (b"\x02\x00\xe9\x07\x00\x00" + bytes(20_000), "row of 1001 indices below 1000"),
        (b"\x02\x00\xe8\x07\xe8\x07\xe8\x07" + bytes(26_999), "ends in the middle"),
        (b"\x02\x00\x01\x00\x00\xe8\x07" + bytes(8), "index that is not below 1000"),
        (b"\x02\x00\x01\x00\x00" + HUGE + bytes(8), "index that is not below 1000"),
        (b"\x02\x00\x02\x00\x00\xe7\x07\x00" + bytes(16), "index that is not below 1000"),
        (b"\x02\x00\x02\x00\x00\x05" + HUGE + bytes(16), "index that is not below 1000"),
        (b"\x02\x00\x02\x00\x00\x80\x00\x05" + bytes(16), "takes more bytes"),
        (b"\x02\x00\x02\x00\x00\x05\x05" + bytes(15), "ends in the middle"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",  # no kilobytes in a name
)
@pytest.mark.usefixtures("compiled_reader")
def test_deep_checks_speak_before_memory_is_taken(payload, reason):
    """The checksum is right, the entry is not."""
    frame = frame_of(payload)
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match=reason):
            wire.unpack(frame, HERE, [0], BOUNDS)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000 + 3 * len(frame)


@pytest.mark.usefixtures("compiled_reader")
def test_a_claim_of_many_indices_takes_no_memory():
    """Ten bytes that announce a hundred million indices, which the dimension would allow."""
    bounds, length = BOUNDS._replace(dim=2**40), b"\x80\xc2\xd7\x2f"
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="ends in the middle"):
            wire.unpack(frame_of(b"\x02\x00\x00" + length + b"\x00"), HERE, [0], bounds)
        with pytest.raises(WireError, match="ends in the middle"):
            wire.unpack(frame_of(b"\x04\x00"), HERE, [0], bounds)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_the_last_index_and_the_last_sample_are_let_in():
    """The bounds of the refusals above, from inside."""
    (entry,) = wire.unpack(frame_of(b"\x02\x00\x02\x01\x00\x00\xe6\x07\xe7\x07" + bytes(24)), HERE, [0], BOUNDS)
    assert entry.block is not None
    assert entry.block.indices.tolist() == [0, 999, 999]
    (entry,) = wire.unpack(frame_of(b"\x01\x00\xab\x02" + bytes(24)), HERE, [0], BOUNDS)
    assert entry.sample == 299


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"round": 69_999}, "it is of round 69999, not 70000"),
        ({"round": 70_001}, "it is of round 70001, not 70000"),
        ({"session": 7}, "it is of session 7, not 4276993775"),
        ({"sender": 3}, "it was sent by node 3, not 2"),
        ({"receiver": 4}, "it is meant for node 4, not 1"),
    ],
)
def test_whole_frames_of_another_place_or_time_are_refused(change, reason):
    frame = wire.pack(HERE._replace(**change), [wire.encode_again(0, 1, THREE)])
    with pytest.raises(WireError) as error:
        wire.unpack(frame, HERE, [0], BOUNDS)
    assert str(error.value) == f"refused the frame from node 2 in round 70000: {reason}."


def test_the_right_sources_exactly_once():
    one, two = wire.encode_again(0, 1, THREE), wire.encode_again(3, 1, THREE)
    for entries, sources, reason in (
        ([one], [0, 3], "1 entries where 2 are due"),
        ([one, two], [0], "2 entries where 1 are due"),
        ([one], [], "1 entries where 0 are due"),
        ([one, one], [0, 3], "source 0 where source 3 is due"),
        ([two, one], [0, 3], "source 3 where source 0 is due"),
    ):
        with pytest.raises(WireError, match=reason):
            wire.unpack(wire.pack(HERE, entries), HERE, sources, BOUNDS)
    assert wire.unpack(wire.pack(HERE, []), HERE, [], BOUNDS) == []


def test_foreign_new_and_cut_frames_say_so():
    frame = wire.pack(HERE, [wire.encode_again(0, 1, THREE)])
    for damaged, reason in (
        (b"", "0 bytes, and a header alone has 24"),
        (frame[:23], "23 bytes, and a header alone has 24"),
        (b"G" + frame[1:], "does not begin like a frame of dsba"),
        (sealed(frame[:1] + b"\x02" + frame[2:]), "version 2 of the format, and this program reads version 1"),
        (frame[:-1], "26 bytes after its header, which announces 27"),
        (frame + b"\0", "28 bytes after its header, which announces 27"),
        (frame[:-1] + bytes([frame[-1] ^ 1]), "checksum is wrong"),
        (frame[:20] + bytes([frame[20] ^ 1]) + frame[21:], "checksum is wrong"),
    ):
        with pytest.raises(WireError, match=reason):
            wire.unpack(damaged, HERE, [0], BOUNDS)


def test_what_does_not_fit_is_not_sent():
    block = Block(np.array([1, 1]), np.array([4, 2]), THREE[:2])
    for make, reason in (
        (lambda: wire.encode_again(65_535, 0, THREE), "below 65535, not 65535"),
        (lambda: wire.encode_dense(-1, THREE), "below 65535, not -1"),
        (lambda: wire.encode_again(0, -1, THREE), "negative sample"),
        (lambda: wire.encode_first(0, 0, block, THREE), "2 rows has 3 coefficients"),
        (lambda: wire.encode_vector(0, block._replace(lengths=np.array([2, 0]))), "do not increase"),
        (lambda: wire.encode_vector(0, block._replace(indices=np.array([-1, 2]))), "do not increase from 0"),
        (lambda: wire.encode_vector(0, block._replace(lengths=np.array([2, 1]))), "2 indices and 2 values"),
        (lambda: wire.encode_vector(0, block._replace(lengths=np.array([3, -1]))), "2 indices and 2 values"),
        (lambda: wire.encode_vector(0, block._replace(values=THREE)), "2 indices and 3 values"),
        (lambda: wire.pack(HERE, [b""] * 65_536), "at most 65535 entries"),
        (lambda: wire.pack(HERE._replace(receiver=65_535), []), "receiver=65535"),
        (lambda: wire.pack(HERE._replace(round=2**32), []), "round=4294967296"),
        (lambda: wire.pack(HERE._replace(session=-1), []), "session=-1"),
    ):
        with pytest.raises(WireError, match=reason):
            make()
    assert len(wire.pack(HERE, [b""] * 65_535)) == wire.HEADER_BYTES
