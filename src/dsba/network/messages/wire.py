"""The wire format of DSBA-s and of compressed rows, version 1: one frame per neighbour and round, little-endian.

A frame is a header of 24 bytes and its entries, one after the other, in increasing order of their source::

    magic u8 | version u8 | sender u16 | receiver u16 | count u16 | session u32 | round u32 | payload bytes u32 | CRC-32

The checksum covers everything but itself. It guards against accidents, not against a forger, so whatever
passes it is still read with suspicion: every length and index is checked before it is used.

An entry is the delta of one source, A_i' c with a block A_i of k sparse rows, in one of four kinds::

    again    kind u8 | source | sample |                           k coefficients
    vector   kind u8 | source |          k lengths | indices | values                  the paper's DSBA-s
    first    kind u8 | source | sample | k lengths | indices | values | k coefficients
    dense    kind u8 | source |                                p values                  the starting table's mean

Whole numbers are varints (7 bits a byte, the low ones first, in as few bytes as will do); a row's indices are
its first one and then the gaps between neighbours less one; reals are float64. k and p are known to both ends.

A frame of a compressed row (``levels.py``) has one entry, a dense one of the sender's or this::

    levels   kind u8 | number of levels u8 | scale float32 | DEFLATE of p levels

The number of levels is 3, 5, 9, ... 129, and level l of 2h + 1 stands for l - h times the scale. Of 3, 5 and 9 levels
five, three and two go into a byte, the first one lowest (l0 + 5 l1 + 25 l2), and of more levels one. The last byte
has zeros in places that are left. DEFLATE is one raw stream (RFC 1951) of exactly these bytes.

NaN and infinities pass, bit by bit: a run that diverges is the engine's business.

Every node receives the deltas of a source once and in order, so which of its samples are known (``SampleCache``)
follows from the source's own sequence: the source codes an entry once, all others relay its bytes unchanged.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from dsba.errors import InputError
from dsba.kernels import varints
from dsba.kernels.levels import unpack_levels
from dsba.types import Array, Integers

IntOrIntegers = TypeVar("IntOrIntegers", int, Integers)

WIRE_MAGIC, WIRE_VERSION = 0xDB, 1
WIRE_HEADER = struct.Struct("<BBHHHIIII")
HEADER_BYTES = WIRE_HEADER.size
CHECKSUM_BYTES = 4  # the header's last
MAX_WIRE_NODES = MAX_ENTRIES = 65535

AGAIN, VECTOR, DENSE_ROW, LEVELS = 1, 2, 4, 8  # bits: a sample with its coefficients, a block, a dense row, levels
FIRST_TIME = AGAIN | VECTOR
ENTRY_KINDS = (AGAIN, VECTOR, FIRST_TIME, DENSE_ROW)

CUT_SHORT = "it ends in the middle of an entry"
WIRE_REASONS = {varints.TRUNCATED: CUT_SHORT, varints.OVERLONG: "a whole number takes more bytes than it may"}
LEVELS_START = struct.Struct("<BBf")  # kind, number of levels, scale
STRATEGIES = (zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE)  # a search for repeats takes longer, and its codes are longer
HALVES = (1, 2, 4, 8, 16, 32, 64)  # of 2h + 1 levels
IDENTITY = ("is of session", "was sent by node", "is meant for node", "is of round")  # Header's fields, in words


class WireError(InputError):
    """A frame is corrupt, foreign or not the expected one, or something does not fit into a frame."""


class Block(NamedTuple):
    """A sample's k sparse rows, one after the other; indices increase strictly within a row."""

    lengths: Integers  # (k,)
    indices: Integers  # (nnz,)
    values: Array  # (nnz,)


class Entry(NamedTuple):
    """The delta of one source, as received."""

    source: int
    sample: int  # -1 for a vector or dense entry
    coefficients: Array  # (k,), empty for a vector or dense entry
    block: Block | None  # None for an "again" or dense entry
    dense: Array | None  # (p,), of a dense entry only
    raw: bytes  # the entry's bytes, to relay unchanged


class Header(NamedTuple):
    """What the header of a frame holds, and what its receiver expects."""

    session: int  # a number of the run, u32
    sender: int
    receiver: int
    round: int  # u32


class Bounds(NamedTuple):
    """What both ends know of the problem."""

    n_nodes: int
    dim: int
    k: int
    sizes: tuple[int, ...]  # samples per node


# Gaps between indices


def _gaps(block: Block) -> Integers:
    """A row's first index, then the gaps less one; negative where indices are or do not increase."""
    lengths, indices, values = block
    if (lengths < 0).any() or not lengths.sum() == indices.size == values.size:
        raise WireError(f"a block of rows {lengths.tolist()} long has {indices.size} indices and {values.size} values.")
    gaps = indices.astype(np.int64)
    gaps[1:] -= gaps[:-1] + 1
    starts = (np.cumsum(lengths) - lengths)[lengths > 0]
    gaps[starts] = indices[starts]
    return gaps


# Entries, as their source codes them


def encode_vector(source: int, block: Block) -> bytes:
    """The paper's DSBA-s: the values of ``block`` are the products already."""
    return _encode(VECTOR, source, (), block, ())


def encode_first(source: int, sample: int, block: Block, coefficients: Array) -> bytes:
    """A sample that is not in the cache: its block and k coefficients."""
    if len(coefficients) != block.lengths.size:
        raise WireError(f"a block of {block.lengths.size} rows has {len(coefficients)} coefficients.")
    return _encode(FIRST_TIME, source, (sample,), block, coefficients)


def encode_again(source: int, sample: int, coefficients: Array) -> bytes:
    """A sample that is in the cache: k coefficients."""
    return _encode(AGAIN, source, (sample,), None, coefficients)


def encode_dense(source: int, values: Array) -> bytes:
    """A dense row."""
    return _encode(DENSE_ROW, source, (), None, values)


def encode_levels(half: int, scale: float, levels: npt.NDArray[np.int8]) -> bytes:
    """A row of whole numbers from -half to half, in units of ``scale``, which is a float32.

    As many levels a byte as fit, the first one lowest; -half is 0, and so are the places after the last level.
    """
    count, digits = 2 * half + 1, _digits(half)
    packed = np.zeros(-(-levels.size // digits), np.uint8)
    for i in range(digits):
        places = (levels[i::digits] + half).astype(np.uint8)
        packed[: places.size] += places * np.uint8(count**i)
    data = packed.tobytes()
    return LEVELS_START.pack(LEVELS, 2 * half + 1, scale) + min((_deflated(data, s) for s in STRATEGIES), key=len)


def _deflated(data: bytes, strategy: int) -> bytes:
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS, strategy=strategy)
    return deflate.compress(data) + deflate.flush()


def _digits(half: int) -> int:
    """How many of 2 half + 1 levels go into a byte."""
    return int(math.log(256, 2 * half + 1))


def _encode(kind: int, source: int, sample: tuple[int, ...], block: Block | None, reals: npt.ArrayLike) -> bytes:
    if not 0 <= source < MAX_WIRE_NODES:
        raise WireError(f"the source must be a node below {MAX_WIRE_NODES}, not {source}.")
    parts: list[npt.ArrayLike] = [(source, *sample)]
    values = b""
    if block is not None:
        parts += [block.lengths, _gaps(block)]
        values = np.asarray(block.values, "<f8").tobytes()
    numbers = np.concatenate(parts, dtype=np.int64)
    if (numbers < 0).any():
        raise WireError(f"source {source} has a negative sample number, or indices that do not increase from 0 on.")
    return bytes([kind]) + varints.put_varints(numbers).tobytes() + values + np.asarray(reals, "<f8").tobytes()


# Frames


def pack(header: Header, entries: Sequence[bytes]) -> bytes:
    """One frame of coded entries, which are in increasing order of their source."""
    payload = b"".join(entries)
    session, sender, receiver, round_ = header
    if len(entries) > MAX_ENTRIES or max(sender, receiver) >= MAX_WIRE_NODES:
        raise WireError(f"a frame is of at most {MAX_ENTRIES} entries and nodes, got {len(entries)} with {header}.")
    try:
        fields = (WIRE_MAGIC, WIRE_VERSION, sender, receiver, len(entries), session, round_, len(payload))
        start = WIRE_HEADER.pack(*fields, 0)[:-CHECKSUM_BYTES]
    except struct.error as error:
        raise WireError(f"a frame of {len(payload)} bytes cannot be sent with {header} ({error}).") from error
    return start + zlib.crc32(payload, zlib.crc32(start)).to_bytes(CHECKSUM_BYTES, "little") + payload


def unpack(frame: bytes | memoryview, expected: Header, sources: Sequence[int], bounds: Bounds) -> list[Entry]:
    """The entries of a frame that is whole, the one ``expected``, and of exactly the ``sources`` due, in order.

    Anything else is a WireError. Whether a kind of entry fits the moment, and an "again" the cache, is for
    the caller to judge.
    """
    reader = _Reader(bytes(frame), expected, bounds)
    count = reader.header()
    if count != len(sources):
        reader.refuse(f"it holds {count} entries where {len(sources)} are due")
    entries = [reader.entry(source) for source in sources]
    if reader.left:
        reader.refuse(f"{reader.left} bytes follow its last entry")
    return entries


class CodedRow(NamedTuple):
    """A row in a frame: its entry, and either whole numbers and their unit, or the row itself."""

    entry: bytes
    levels: npt.NDArray[np.int8]
    scale: float
    row: Array | None


def unpack_row(frame: bytes, expected: Header, n_nodes: int, dim: int) -> CodedRow:
    """The row of a frame that is whole and the one ``expected``; anything else is a WireError."""
    reader = _Reader(frame, expected, Bounds(n_nodes, dim, 0, (0,) * n_nodes))
    if (count := reader.header()) != 1:
        reader.refuse(f"it holds {count} entries where 1 is due")
    kind = frame[HEADER_BYTES:][:1]
    if kind == bytes([LEVELS]):
        return CodedRow(frame[HEADER_BYTES:], *reader.levels(), None)
    if kind != bytes([DENSE_ROW]):
        reader.refuse("it holds no row")
    entry = reader.entry(expected.sender)
    if reader.left:
        reader.refuse(f"{reader.left} bytes follow its last entry")
    return CodedRow(entry.raw, np.zeros(0, np.int8), 0.0, entry.dense)


class _Reader:
    """A place in a frame, and what may come there."""

    def __init__(self, frame: bytes, expected: Header, bounds: Bounds) -> None:
        self.frame, self.expected, self.bounds = frame, expected, bounds
        self.buffer = np.frombuffer(frame, np.uint8)
        self.at = HEADER_BYTES

    @property
    def left(self) -> int:
        return len(self.frame) - self.at

    def refuse(self, reason: str) -> NoReturn:
        due = self.expected
        raise WireError(f"refused the frame from node {due.sender} in round {due.round}: {reason}.")

    def header(self) -> int:
        """The number of entries, once the header is found to be in order."""
        if len(self.frame) < HEADER_BYTES:
            self.refuse(f"it has {len(self.frame)} bytes, and a header alone has {HEADER_BYTES}")
        magic, version, sender, receiver, count, session, round_, length, crc = WIRE_HEADER.unpack_from(self.frame)
        if magic != WIRE_MAGIC:
            self.refuse("it does not begin like a frame of dsba")
        if version != WIRE_VERSION:
            self.refuse(f"it is of version {version} of the format, and this program reads version {WIRE_VERSION}")
        if length != self.left:
            self.refuse(f"it has {self.left} bytes after its header, which announces {length}")
        view = memoryview(self.frame)
        if crc != zlib.crc32(view[HEADER_BYTES:], zlib.crc32(view[: HEADER_BYTES - CHECKSUM_BYTES])):
            self.refuse("its checksum is wrong, it was damaged on the way")
        for what, got, due in zip(IDENTITY, (session, sender, receiver, round_), self.expected, strict=True):
            if got != due:
                self.refuse(f"it {what} {got}, not {due}")
        return count

    def entry(self, due: int) -> Entry:
        """The next entry, which must be of source ``due``."""
        begin, k = self.at, self.bounds.k
        if not self.left:
            self.refuse(CUT_SHORT)
        kind = self.frame[self.at]
        self.at += 1
        if kind not in ENTRY_KINDS:
            self.refuse(f"it has an entry of the unknown kind {kind}")
        source, *numbers = self.numbers(1 + bool(kind & AGAIN) + k * bool(kind & VECTOR)).tolist()
        if source >= self.bounds.n_nodes:
            self.refuse(f"it has an entry of source {source}, and there are {self.bounds.n_nodes} nodes")
        if source != due:
            self.refuse(f"it has an entry of source {source} where source {due} is due")
        sample = numbers.pop(0) if kind & AGAIN else -1
        if sample >= self.bounds.sizes[source]:
            self.refuse(f"it names sample {sample} of source {source}, which has {self.bounds.sizes[source]}")
        block = self.block(numbers) if kind & VECTOR else None
        coefficients = self.reals(k if kind & AGAIN else 0)
        dense = self.reals(self.bounds.dim) if kind & DENSE_ROW else None
        return Entry(source, sample, coefficients, block, dense, self.frame[begin : self.at])

    def numbers(self, count: int) -> Integers:
        out = np.empty(count, np.int64)
        at = varints.take_varints(self.buffer, self.at, out)
        if at < 0:
            self.refuse(WIRE_REASONS[at])
        self.at = at
        return out

    def reals(self, count: int) -> Array:
        begin, end = self.at, self.at + 8 * count
        if end > len(self.frame):
            self.refuse(CUT_SHORT)
        self.at = end
        return self.buffer[begin:end].copy().view("<f8").astype(np.float64, copy=False)

    def levels(self) -> tuple[npt.NDArray[np.int8], float]:
        """Whole numbers and their unit, to the end of the frame."""
        if self.left < LEVELS_START.size:
            self.refuse(CUT_SHORT)
        _, count, scale = LEVELS_START.unpack_from(self.frame, self.at)
        half = count // 2
        if half not in HALVES or count % 2 == 0 or not 0.0 <= scale < math.inf:
            self.refuse(f"it has {count} levels in units of {scale}")
        out, inflate = np.empty(self.bounds.dim, np.int8), zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        due = -(-out.size // _digits(half))
        try:
            packed = inflate.decompress(self.frame[self.at + LEVELS_START.size :], due + 1)
        except zlib.error:
            packed = b""
        whole = inflate.eof and not inflate.unused_data and len(packed) == due
        if not whole or not unpack_levels(np.frombuffer(packed, np.uint8), half, _digits(half), out):
            self.refuse(f"its levels are not those of a row of {out.size} numbers")
        return out, scale

    def block(self, lengths: list[int]) -> Block:
        dim, nnz = self.bounds.dim, sum(lengths)
        if max(lengths) > dim:
            self.refuse(f"it has a row of {max(lengths)} indices below {dim}")
        if 9 * nnz > self.left:  # before room is made for them: an index has at least one byte, its value eight
            self.refuse(CUT_SHORT)
        rows, indices = np.array(lengths, np.int64), self.numbers(nnz)
        if not varints.indices_from_gaps(rows, indices, dim):
            self.refuse(f"it has an index that is not below {dim}")
        return Block(rows, indices, self.reals(nnz))


# What both ends remember


def cached_bytes(nnz: IntOrIntegers, k: int) -> IntOrIntegers:
    """What a block of k rows counts in the cache."""
    return 16 * nnz + 8 * k


class SampleCache:
    """The known samples of one source, first in, first out; the same at both ends, as both add the same ones.

    ``limit`` is in bytes: None keeps everything, 0 nothing. A sample that is in is not added again.
    """

    def __init__(self, limit: int | None) -> None:
        if limit is not None and limit < 0:
            raise InputError(f"the cache's limit must be a number of bytes >= 0 or None, got {limit}.")
        self.limit = math.inf if limit is None else limit
        self.bytes = 0
        self._blocks: OrderedDict[int, Block] = OrderedDict()

    def __contains__(self, sample: int) -> bool:
        return sample in self._blocks

    def get(self, sample: int) -> Block:
        if sample not in self._blocks:
            raise WireError(f"sample {sample} came without its block, which is not known here (or no longer).")
        return self._blocks[sample]

    def items(self) -> Iterable[tuple[int, Block]]:
        """What is known, oldest first."""
        return self._blocks.items()

    def add(self, sample: int, block: Block) -> None:
        """Keep a block, and drop the oldest ones until it fits; one that never fits is not kept."""
        if sample in self._blocks:
            raise WireError(f"sample {sample} came with its block, which is known here.")
        size = cached_bytes(block.indices.size, block.lengths.size)
        if size > self.limit:
            return
        while self.bytes + size > self.limit:
            _, oldest = self._blocks.popitem(last=False)
            self.bytes -= cached_bytes(oldest.indices.size, oldest.lengths.size)
        self._blocks[sample] = block
        self.bytes += size


# Sizes of entries that are not coded, for a simulator


def entry_costs(kind: int, source: Integers, sample: Integers, indptr: Integers, indices: Integers, k: int) -> Integers:
    """For each of Q samples, an entry's float64 numbers, its other bytes, and all its bytes.

    Blocks are CSR rows, k for each sample. ``source`` are the samples' nodes, ``sample`` their numbers there.
    """
    index, reals = 1 + varints.varint_sizes(source), np.zeros(source.size, np.int64)
    if kind & AGAIN:
        index, reals = index + varints.varint_sizes(sample), reals + k
    if kind & VECTOR:
        index, reals = index + varints.block_index_bytes(indptr, indices, k), reals + np.diff(indptr[::k])
    return np.stack([reals, index, index + 8 * reals], axis=1)
