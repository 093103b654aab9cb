"""Secure sums: what a site sends is hidden by masks that cancel in the total.

Every pair of sites agrees on a secret (X25519, with keys made anew for every epoch and signed with the pinned keys).
For sum number k both derive the same pseudo-random integers from it and from the history T of the run
(``transcript.py``); the site of the smaller number adds them to its part and the other one subtracts them. All integers
are modulo 2^128 (2^64 for the scale of a sum), so a masked part is uniformly distributed whatever it hides, and the
total is that of the parts, bit by bit. The masks of sites with different histories do not cancel: their total is noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dsba.errors import NetworkError
from dsba.network import exact_sum
from dsba.network.exact_sum import SparseRows, WideIntegers
from dsba.network.tls.transcript import Transcript
from dsba.types import Array, Words

LOWEST, HIGHEST = -1073, 1024  # the exponents that frexp gives to positive numbers


class Agreement:
    """The own half of this site's agreements with all others, for one epoch."""

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes_raw()

    def secret(self, theirs: bytes, site: str) -> bytes:
        try:
            return self._private.exchange(X25519PublicKey.from_public_bytes(theirs))
        except ValueError:
            raise NetworkError(f"{site} offered a key that gives no secret: the agreement is bad.") from None


class Masks:
    """The masks of one run at the site of number ``rank``; ``secrets`` are by the other sites' numbers."""

    def __init__(self, rank: int, secrets: Mapping[int, bytes], study: bytes, transcript: Transcript) -> None:
        self.rank, self.study, self.transcript = rank, study, transcript
        self._secrets = dict(secrets)
        self._sums = 0
        self.derived: Callable[[int, int], object] = lambda other, number: None
        """Called with every mask's other site and number; a test listens here."""

    def hide(self, own: WideIntegers) -> WideIntegers:
        """The part of this site, masked for the next sum."""
        for sign, stream in self._streams(16 * own.low.size):
            mask = WideIntegers.from_bytes(stream)
            own = own.plus(mask if sign > 0 else _negative(mask))
        return own

    def hide_words(self, own: Words) -> Words:
        """The same for integers modulo 2^64."""
        own = own.copy()
        for sign, stream in self._streams(8 * own.size):
            mask = np.frombuffer(stream, "<u8").astype(np.uint64)
            own = own + mask if sign > 0 else own - mask
        return own

    def _streams(self, length: int) -> list[tuple[int, bytes]]:
        """For every other site, the sign of its mask and the mask's bytes; the number of the sum goes up by one."""
        number, self._sums = self._sums, self._sums + 1
        streams = []
        for other, secret in self._secrets.items():
            self.derived(other, number)
            stream = mask_stream(secret, self.study, self.transcript.history, number, length)
            streams.append((1 if self.rank < other else -1, stream))
        return streams


def mask_stream(secret: bytes, study: bytes, history: bytes, number: int, length: int) -> bytes:
    """HKDF gives one key for each sum and history, and ChaCha20 as many bytes as the sum is long."""
    info = b"dsba mask" + history + number.to_bytes(8, "little")
    key = HKDF(SHA256(), 32, salt=study, info=info).derive(secret)
    return Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor().update(bytes(length))


def _negative(value: WideIntegers) -> WideIntegers:
    one = WideIntegers(np.zeros_like(value.high), np.ones_like(value.low))
    return WideIntegers(~value.high, ~value.low).plus(one)


# The scale of a sum ---------------------------------------------------------------------------------


class Window(NamedTuple):
    """Binary exponents, as frexp gives them, among which the largest of all sites is looked for."""

    lowest: int
    size: int

    @property
    def exponents(self) -> range:
        return range(self.lowest, self.lowest + self.size)

    def levels(self, largest: float, random: Callable[[int], bytes]) -> Words:
        """A word for "something", for every exponent and for "beyond": random up to that of ``largest``, then zero.

        The sum over the sites is random up to the largest exponent of all and zero from there on. It tells that
        exponent, and not who has it. A random word is never zero; that several sites' words cancel has a probability
        of 2^-64.
        """
        words = np.zeros(self.size + 2, np.uint64)
        if largest == 0.0:
            return words
        place = math.frexp(largest)[1] - self.lowest + 1 if math.isfinite(largest) else self.size + 1
        drawn = words[: min(max(place, 0), self.size + 1) + 1]
        drawn[:] = np.maximum(np.frombuffer(random(8 * drawn.size), "<u8"), 1)
        return words

    def largest(self, total: Words) -> float | None:
        """A number with the exponent that the summed levels tell; 0 if nobody has anything, None if it is outside."""
        found = np.flatnonzero(total)
        if not found.size:
            return 0.0
        place = int(found[-1])
        return math.ldexp(0.5, self.lowest + place - 1) if 1 <= place <= self.size else None


WHOLE_WINDOW = Window(LOWEST, HIGHEST - LOWEST + 1)
"""All exponents that a number can have: outside is only what is not finite."""


def around(exponent: int, size: int) -> Window:
    """``size`` exponents near one that was right before. Most of them are lower, because most sums get smaller."""
    return Window(min(max(exponent - 3 * size // 4, LOWEST), HIGHEST + 1 - size), size)


class Guesses(NamedTuple):
    """A sum over ``nodes`` nodes with several scales at once, so that it need not be asked first which one is right."""

    window: Window
    nodes: int

    def parts(self, rows: Array | SparseRows) -> WideIntegers:
        """This site's part in the unit of every scale, modulo 2^128."""
        scales = [self._scale(exponent) for exponent in self.window.exponents]
        made = [exact_sum.integers(_modulo(rows, scale), scale) for scale in scales]
        return WideIntegers(*(np.concatenate(half) for half in zip(*made, strict=True)))

    def total(self, top: float, totals: WideIntegers) -> tuple[WideIntegers, int]:
        """The sum, and the scale that ``top`` needs: no other one is right."""
        exponent = math.frexp(top)[1]
        high, low = (half.reshape(self.window.size, -1)[exponent - self.window.lowest] for half in totals)
        return WideIntegers(high, low), self._scale(exponent)

    def _scale(self, exponent: int) -> int:
        return exact_sum.exponent(math.ldexp(0.5, exponent), self.nodes)


def _modulo(rows: Array | SparseRows, scale: int) -> Array | SparseRows:
    """The rows modulo 2^128 units of 2^scale, which ``fmod`` gives exactly; what is not finite becomes zero."""

    def rest(values: Array) -> Array:
        return np.fmod(np.where(np.isfinite(values), values, 0.0), np.ldexp(1.0, scale + 128))

    return rows._replace(values=rest(rows.values)) if isinstance(rows, SparseRows) else rest(rows)
