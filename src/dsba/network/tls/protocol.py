"""The questions between sites as a table of states, without sockets.

An ``Exchange`` is one site in one epoch. It makes the messages of a question and reads those of all sites, in order of
their numbers; how they travel is not its matter. Every message begins with a signature by the pinned key of its site
over the question, which holds T, number, kind, point and length (``transcript.py``). There are two ways to ask.

Parts, which everybody may read (settings, clocks, hashes)::

    READY --part--> ASKED --parts--> READY

Sums, in which nobody may choose a part after seeing the others'::

    READY --pledge--> PLEDGED --reveal--> REVEALED --vectors--> HELD --confirmed--> ADDED --answered--> READY

A pledge is a hash of the site's masked vector and of a random salt. A site sends its vector when it has the pledges of
all sites, signed over the same question and so over the same history. With its vector it signs the hash of all pledges
that it has seen. When it holds the vectors of all sites, each as it was pledged, it signs that. So a member that sends
two sites different pledges, vectors, parts or answers is found before anything is added at either. Whatever does not
fit ends the exchange: from ENDED no event leads anywhere.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from dsba.errors import NetworkError
from dsba.network.tls.transcript import HASH_BYTES, INT64, Question, Transcript, hashed, packed

if TYPE_CHECKING:
    from dsba.network.tls.pinned import Member

SIGNATURE_BYTES = 64
OF_PARTS, OF_LARGEST, OF_LEVELS, OF_SUMS = "parts", "largest", "levels", "sum"  # kinds of questions


class Phase(StrEnum):
    """Where a site is within a question."""

    READY = "ready"
    ASKED = "asked"
    PLEDGED = "pledged"
    REVEALED = "revealed"
    HELD = "held"
    ADDED = "added"
    ENDED = "ended"


class Event(StrEnum):
    """What a site does next in a question."""

    PART = "part"
    PARTS = "parts"
    PLEDGE = "pledge"
    REVEAL = "reveal"
    VECTORS = "vectors"
    CONFIRMED = "confirmed"
    UNPLEDGED = "unpledged"
    ANSWERED = "answered"


PHASES = {
    (Phase.READY, Event.PART): Phase.ASKED,
    (Phase.ASKED, Event.PARTS): Phase.READY,
    (Phase.READY, Event.PLEDGE): Phase.PLEDGED,
    (Phase.PLEDGED, Event.REVEAL): Phase.REVEALED,
    (Phase.REVEALED, Event.VECTORS): Phase.HELD,
    (Phase.HELD, Event.CONFIRMED): Phase.ADDED,
    (Phase.READY, Event.UNPLEDGED): Phase.ADDED,
    (Phase.ADDED, Event.ANSWERED): Phase.READY,
}
"""The phase after an event. Every other pair of a phase and an event leads to ENDED."""


def public_key(certificate: bytes) -> Ed25519PublicKey:
    key = x509.load_der_x509_certificate(certificate).public_key()
    assert isinstance(key, Ed25519PublicKey)
    return key


def is_signed(key: Ed25519PublicKey, message: bytes, signature: bytes) -> bool:
    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True


def made_by(certificate: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the key of a certificate made the signature."""
    return is_signed(public_key(certificate), message, signature)


def signed_part(question: Question, rank: int, part: bytes) -> bytes:
    """What the site of this number signs when it gives its part."""
    return _said("part", question.packed(), rank, part)


def _said(what: str, question: bytes, rank: int, *fields: bytes) -> bytes:
    """Stands for what a site says at one step of a question, which is packed."""
    return hashed(f"dsba {what}", question, INT64.pack(rank), *fields)


class Ending(NamedTuple):
    """That a run is over: all sites, the reader included, have signed this result after the same history."""

    result: str
    question: str
    """The last question, packed, in hexadecimal digits; so are the signatures."""
    signatures: list[str]

    @classmethod
    def read(cls, said: Any, members: Sequence[Member]) -> Ending:
        """What a neighbour says of the end; a ``ValueError`` or ``TypeError`` unless all sites have signed it."""
        ending = cls(*said)
        question, part = bytes.fromhex(ending.question), json.dumps(ending.result).encode()
        for rank, (member, signature) in enumerate(zip(members, ending.signatures, strict=True)):
            signed = _said("part", question, rank, part)
            if not made_by(member.certificate, bytes.fromhex(signature), signed):
                raise ValueError(f"{member.name} has not signed the end")
        return ending


class Exchange:
    """The questions of the site number ``rank`` in one epoch."""

    def __init__(
        self, rank: int, members: Sequence[Member], sign: Callable[[bytes], bytes], transcript: Transcript
    ) -> None:
        self.rank, self.transcript, self.phase = rank, transcript, Phase.READY
        self.last: Question | None = None  # that was answered by parts
        self.signatures: list[bytes] = []  # of all sites, under these parts
        self._members, self._sign = members, sign
        self._keys = [public_key(member.certificate) for member in members]
        self._vector = self._salt = self._seen = b""
        self._pledges, self._vectors = list[bytes](), list[bytes]()

    # Parts --------------------------------------------------------------------------------------------

    def part(self, own: bytes, kind: str = OF_PARTS, length: int = 0) -> bytes:
        """The message of this site with its part; parts of another ``length`` are refused, unless it is 0."""
        self._go(Event.PART)
        question = self.transcript.ask(kind, length=length)
        return self._sign(signed_part(question, self.rank, own)) + own

    def parts(self, messages: Sequence[bytes]) -> list[bytes]:
        """All sites' parts, which become the answer."""
        question = self._go(Event.PARTS)
        parts = [self._cut(rank, message, question.length) for rank, message in enumerate(messages)]
        self.signatures = [message[:SIGNATURE_BYTES] for message in messages]
        for rank, part in enumerate(parts):
            self._require(rank, self.signatures[rank], signed_part(question, rank, part))
        self.transcript.answered(None, packed(*parts))
        self.last = question
        return parts

    def ending(self, result: str) -> Ending:
        """That all sites gave this result in the last question."""
        assert self.last is not None, "no result was exchanged"
        return Ending(result, self.last.packed().hex(), [one.hex() for one in self.signatures])

    # Sums ---------------------------------------------------------------------------------------------

    def pledge(self, kind: str, at: bytes, scales: bytes, own: bytes) -> bytes:
        """The message with the pledge of this site for its masked vector."""
        self._go(Event.PLEDGE)
        question = self.transcript.ask(kind, at, scales, len(own))
        self._vector, self._salt = own, secrets.token_bytes(HASH_BYTES)
        pledged = _said("salt", question.packed(), self.rank, self._salt, own)
        return self._sign(_said("pledge", question.packed(), self.rank, pledged)) + pledged

    def reveal(self, messages: Sequence[bytes]) -> bytes:
        """The message with the vector of this site, once the pledges of all sites are here."""
        question = self._go(Event.REVEAL)
        self._pledges = [self._cut(rank, message, HASH_BYTES) for rank, message in enumerate(messages)]
        for rank, pledged in enumerate(self._pledges):
            signed = _said("pledge", question.packed(), rank, pledged)
            self._require(rank, messages[rank][:SIGNATURE_BYTES], signed)
        self._seen = hashed("dsba pledges", *self._pledges)
        return self._sign(self._over(question, self.rank, self._vector)) + self._salt + self._vector

    def vectors(self, messages: Sequence[bytes]) -> bytes:
        """The message that this site holds all sites' vectors, each the one that was pledged."""
        question, self._vectors = self._go(Event.VECTORS), []
        for rank, message in enumerate(messages):
            rest = self._cut(rank, message, HASH_BYTES + question.length)
            salt, vector = rest[:HASH_BYTES], rest[HASH_BYTES:]
            self._require(rank, message[:SIGNATURE_BYTES], self._over(question, rank, vector))
            if _said("salt", question.packed(), rank, salt, vector) != self._pledges[rank]:
                raise self._end(f"{self._members[rank].name} sent another part than the one it had pledged.")
            self._vectors.append(vector)
        return self._sign(_said("held", question.packed(), self.rank, self._seen))

    def confirmed(self, messages: Sequence[bytes]) -> list[bytes]:
        """All sites' vectors, once all sites hold them."""
        question = self._go(Event.CONFIRMED)
        for rank, message in enumerate(messages):
            self._require(rank, message, _said("held", question.packed(), rank, self._seen))
        return self._vectors

    def unpledged(self, kind: str, at: bytes, scales: bytes, length: int) -> None:
        """A sum whose vectors are too long to go to everybody: it is added on the way, and only masked."""
        self._go(Event.UNPLEDGED)
        self.transcript.ask(kind, at, scales, length)

    def answered(self, exponent: int | None, answer: bytes) -> None:
        self._go(Event.ANSWERED)
        self.transcript.answered(exponent, answer)

    # Small parts --------------------------------------------------------------------------------------

    def _go(self, event: Event) -> Question:
        self.phase = PHASES.get((self.phase, event), Phase.ENDED)
        if self.phase is Phase.ENDED:
            raise NetworkError("this run has ended: a question does not go on after an error.")
        return self.transcript.open  # type: ignore[return-value]  # only the events that ask find none

    def _over(self, question: Question, rank: int, vector: bytes) -> bytes:
        return _said("vector", question.packed(), rank, self._seen, hashlib.sha256(vector).digest())

    def _cut(self, rank: int, message: bytes, length: int) -> bytes:
        """What follows the signature; ``length`` 0 is any."""
        found, name = len(message) - SIGNATURE_BYTES, self._members[rank].name
        if found < 0 or (length and found != length):
            raise self._end(f"{name} sent {max(found, 0)} bytes where {length} are due: report this.")
        return message[SIGNATURE_BYTES:]

    def _require(self, rank: int, signature: bytes, message: bytes) -> None:
        if not is_signed(self._keys[rank], message, signature):
            raise self._end(
                f"what {self._members[rank].name} sent is not signed for this question as it is asked here: sites were "
                "given different answers before, or the message was changed on the way. No total was read."
            )

    def _end(self, sentence: str) -> NetworkError:
        self.phase = Phase.ENDED
        return NetworkError(sentence)
