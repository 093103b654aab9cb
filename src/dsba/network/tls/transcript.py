"""The history of one run between sites: a chain of hashes over everything that all sites were told alike.

T_0 is a hash of how the run began. After question number k::

    T <- SHA-256("dsba question" | T | number | kind | at | scales | length | exponent | answer)

and every field has its length before it, in 8 bytes. Masks and signatures contain T. So two sites that were told
different things, at any time before, have masks that do not cancel and signatures that do not fit, and neither of them
gets a total.

This file knows no sockets and no files. A ``Transcript`` calls ``keep`` with every answer. The record of an epoch is
``Begun``, the answers in order, and ``Signed`` where the run came to its end: ``replayed`` computes every T from T_0
and the answers. An answer holds:

- ``number``: of the question, from 0 in every epoch.
- ``kind``: "parts" (each site's own), "largest", "levels" (the scale of a sum) or "sum"; or what an algorithm calls its
  sum, such as "information".
- ``at``: the point at which an algorithm asks, as float64 numbers (little-endian); empty if there is none.
- ``scales``: the binary exponents that a sum offers: the lowest one and how many, 8 bytes each.
- ``length``: of this site's part in bytes; 0 where parts may have different lengths.
- ``exponent``: of an exact sum, whose totals are multiples of 2^exponent. None where there are no totals: the question
  is not a sum, no offered scale was right (the sum is asked for again), or a part was not finite.
- ``answer``: of a sum the totals, integers of 128 bits in two's complement, as little-endian halves of 64 bits: all the
  high ones and then all the low ones (``WideIntegers.to_bytes``). Otherwise all parts, each with its length before it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dsba.errors import InputError
from dsba.network.exact_sum import WideIntegers, numbers
from dsba.types import Array

INT64 = struct.Struct("<q")
HASH_BYTES = 32
DAMAGED_LINE = (KeyError, TypeError, ValueError, AttributeError)  # what a line of another form raises


def packed(*fields: bytes) -> bytes:
    """The fields, each with its length before it: no two lists of fields give the same bytes."""
    return b"".join(INT64.pack(len(field)) + field for field in fields)


def unpack(data: bytes) -> list[bytes]:
    """The fields of what ``packed`` gave; an ``InputError`` if it is damaged."""
    fields, at = [], 0
    while (
        at + INT64.size <= len(data) and 0 <= (length := INT64.unpack_from(data, at)[0]) <= len(data) - at - INT64.size
    ):
        at += INT64.size + length
        fields.append(data[at - length : at])
    if at != len(data):
        raise damaged()
    return fields


def hashed(purpose: str, *fields: bytes) -> bytes:
    """SHA-256 of the purpose and the fields."""
    return hashlib.sha256(packed(purpose.encode(), *fields)).digest()


class Newcomer(NamedTuple):
    """What one site brings to the beginning of a run; its pinned key has signed it."""

    name: str
    certificate: bytes
    key: bytes
    """The public half of its key for this epoch."""
    nonce: bytes
    data: str
    """Its commitment to its data."""
    policy: str
    """The guards that hold there."""
    signature: bytes

    def packed(self) -> bytes:
        texts = (self.name.encode(), self.data.encode(), self.policy.encode())
        return packed(*texts, self.certificate, self.key, self.nonce, self.signature)

    def agreed(self, study: bytes, epoch: int, rank: int) -> bytes:
        """What the site of this number signs when it agrees on a run."""
        texts = (self.nonce.hex(), self.key.hex(), self.data, self.policy)
        return b"dsba agreement" + packed(study, INT64.pack(epoch), INT64.pack(rank), *(one.encode() for one in texts))


def beginning(study: bytes, program: str, epoch: int, roster: Sequence[Newcomer]) -> bytes:
    """T_0. The hash of the study stands for its model, its sites and the start value that the model fixes.

    A run that goes on from a checkpoint compares the T at which the sites wrote it, by its first questions.
    """
    sites = packed(*(one.packed() for one in roster))
    return hashed("dsba history", study, program.encode(), INT64.pack(epoch), sites)


class Begun(NamedTuple):
    """The first line of an epoch's record: what T_0 is made of, beside the study."""

    program: str
    epoch: int
    masked: bool
    roster: tuple[Newcomer, ...]

    def history(self, study: bytes) -> bytes:
        """T_0."""
        return beginning(study, self.program, self.epoch, self.roster)

    def to_record(self) -> dict[str, Any]:
        return {**self._asdict(), "roster": [_texts(one) for one in self.roster]}

    @classmethod
    def from_record(cls, record: Any) -> Begun:
        """What ``to_record`` gave; one of ``DAMAGED_LINE`` if it is damaged."""
        raw = ("certificate", "key", "nonce", "signature")
        roster = [{**one, **{name: bytes.fromhex(one[name]) for name in raw}} for one in record["roster"]]
        made = cls(**{**record, "roster": tuple(Newcomer(**one) for one in roster)})
        texts = [made.program, *(text for one in made.roster for text in (one.name, one.data, one.policy))]
        if not (_is_int64(made.epoch) and type(made.masked) is bool and all(type(text) is str for text in texts)):
            raise damaged()
        return made


class Signed(NamedTuple):
    """The last line of a run's record: the sites' signatures under the parts of the last question, and so under T."""

    signatures: tuple[bytes, ...]

    def to_record(self) -> dict[str, Any]:
        return {"signatures": [one.hex() for one in self.signatures]}

    @classmethod
    def from_record(cls, record: Any) -> Signed:
        """What ``to_record`` gave; one of ``DAMAGED_LINE`` if it is damaged."""
        return cls(tuple(bytes.fromhex(one) for one in record["signatures"]))


class Question(NamedTuple):
    """A question as all sites must ask it: ``before`` is the T before it."""

    before: bytes
    number: int
    kind: str
    at: bytes
    scales: bytes
    length: int

    def packed(self) -> bytes:
        fields = (INT64.pack(self.number), self.kind.encode(), self.at, self.scales, INT64.pack(self.length))
        return packed(self.before, *fields)

    def after(self, exponent: int | None, answer: bytes) -> bytes:
        """T after this answer."""
        scale = b"" if exponent is None else INT64.pack(exponent)
        return hashed("dsba question", self.packed(), scale, answer)


class Answered(NamedTuple):
    """One line of the record."""

    number: int
    kind: str
    at: bytes
    scales: bytes
    length: int
    exponent: int | None
    answer: bytes

    def after(self, before: bytes) -> bytes:
        """T after this line, from the T before it."""
        return Question(before, *self[:-2]).after(self.exponent, self.answer)

    @property
    def totals(self) -> Array | None:
        """The totals as float64 numbers, each rounded once; None if the answer is not a sum."""
        return None if self.exponent is None else numbers(WideIntegers.from_bytes(self.answer), self.exponent)

    @property
    def point(self) -> Array:
        return np.frombuffer(self.at, "<f8").astype(np.float64)

    def to_record(self) -> dict[str, Any]:
        """For a line of JSON."""
        return _texts(self)

    @classmethod
    def from_record(cls, record: Any) -> Answered:
        """What ``to_record`` gave; one of ``DAMAGED_LINE`` if it is damaged."""
        texts = {name: bytes.fromhex(record[name]) for name in ("at", "scales", "answer")}
        made = cls(**{**record, **texts})
        plain = _is_int64(made.number) and _is_int64(made.length) and type(made.kind) is str
        sums = made.exponent is None or (_is_int64(made.exponent) and len(made.answer) % 16 == 0)
        if not (plain and sums and len(made.at) % 8 == 0):
            raise damaged()
        return made


Recorded = Begun | Answered | Signed
"""A line of the record."""


def damaged() -> InputError:
    return InputError("a line of the record of answers is damaged.")


def _texts(line: Answered | Newcomer) -> dict[str, Any]:
    return {name: part.hex() if isinstance(part, bytes) else part for name, part in line._asdict().items()}


def _is_int64(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def replayed(start: bytes, record: Iterable[Answered]) -> bytes:
    """The last T of a record; an ``InputError`` if a question is missing or out of order."""
    history = start
    for number, line in enumerate(record):
        if line.number != number:
            raise InputError(f"the record of answers has question {line.number} where {number} is due.")
        history = line.after(history)
    return history


class Transcript:
    """The history at one site, from T_0 on: one question at a time is asked, and then answered."""

    def __init__(self, start: bytes, keep: Callable[[Answered], object] = lambda answered: None) -> None:
        self.history, self.number = start, 0
        self.open: Question | None = None
        self._keep = keep

    def ask(self, kind: str, at: bytes = b"", scales: bytes = b"", length: int = 0) -> Question:
        """The next question."""
        assert self.open is None, "a question waits for its answer"
        self.open = Question(self.history, self.number, kind, at, scales, length)
        self.number += 1
        return self.open

    def answered(self, exponent: int | None, answer: bytes) -> None:
        """The answer to the open question: T goes on."""
        assert self.open is not None, "no question is open"
        asked, self.open = self.open, None
        self.history = asked.after(exponent, answer)
        self._keep(Answered(*asked[1:], exponent, answer))
