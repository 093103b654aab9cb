"""Mutations: input number i of a reader is the same on every machine."""

from __future__ import annotations

import random
import re

LONGEST = 200_000  # bytes of a mutated file
NUMBER = re.compile(rb"[0-9]+(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?")
ODD_NUMBERS = [
    b"0", b"-1", b"-0", b"+7", b"1.5", b".5", b"5.", b"1e3", b"1e999", b"-1e-999", b"5e-324", b"nan", b"-inf",
    b"infinity", b"2147483648", b"4611686018427387904", b"9223372036854775807", b"18446744073709551616",
    b"9" * 400, b"0" * 5000 + b"1",
    b"1_0", b"0x10", b"1e", b"--1", "٣".encode(), b"", b"100000", b"99999999", b"true", b"1,5",
]  # fmt: skip
ODD_BYTES = [
    b"\x00",
    b"\xff" * 8,
    bytes(8),
    b"\n",
    b"\r",
    b"\t",
    b"#",
    b":",
    b'"',
    b"\xef\xbb\xbf",
    b"\xf0\x28",
    b"[" * 2000,
]


def mutated(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """One to three mutations of ``data``."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(MUTATIONS)(data, others, rng)[:LONGEST]
    return data


def _span(data: bytes, rng: random.Random, longest: int = 64) -> tuple[int, int]:
    begin = rng.randint(0, len(data))
    return begin, min(len(data), begin + rng.randint(1, longest))


def _flip(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    if not data:
        return b"\x01"
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _overwrite(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    a, b = _span(data, rng, 9)
    return data[:a] + rng.randbytes(b - a) + data[b:]


def _remove(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    a, b = _span(data, rng)
    return data[:a] + data[b:]


def _cut(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    return data[: rng.randint(0, len(data))]


def _insert(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + rng.choice((*ODD_BYTES, *ODD_NUMBERS)) + data[at:]


def _repeat(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    a, b = _span(data, rng)
    return data[:a] + data[a:b] * rng.choice((2, 3, 100)) + data[b:]


def _exchange(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    a, b, c, d = sorted(rng.randint(0, len(data)) for _ in range(4))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _number(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    found = list(NUMBER.finditer(data, pos := rng.randint(0, len(data)), pos + 4000))
    if not found:
        return _flip(data, others, rng)
    chosen = rng.choice(found)
    return data[: chosen.start()] + rng.choice(ODD_NUMBERS) + data[chosen.end() :]


def _splice(data: bytes, others: list[bytes], rng: random.Random) -> bytes:
    other = rng.choice(others)
    return data[: rng.randint(0, len(data))] + other[rng.randint(0, len(other)) :]


MUTATIONS = (_flip, _flip, _overwrite, _remove, _cut, _insert, _repeat, _exchange, _number, _number, _splice)
