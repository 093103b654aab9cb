"""A run of three sites that goes on while a neighbour sends mutated frames and strangers hold connections half open."""

from __future__ import annotations

import random
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # local_sites sits there

from local_sites import Running
from tests.soak.mutate import mutated

from dsba.network.tls import connections
from dsba.network.tls.frames import KINDS, Frame, encode

LONGEST = 60.0  # seconds until a frame is read
PAUSE = 0.002  # seconds until the neighbour that was refused dials again
SERIES = 1000  # in one round, beside one run
HELD = 50  # connections that are open at a time


def mutated_frames(run: Running, count: int, rng: random.Random) -> None:
    """Mutations of the frames that are due or nearly so, one after the other, each read by site0 after a handshake.

    The neighbour that sends them is refused and dials again.
    """
    read: list[bytes] = []
    reader, pause = run.nets[0].links[1], connections.FIRST_PAUSE
    take, connections.FIRST_PAUSE = reader.take, PAUSE
    reader.take = lambda message: (read.append(message), take(message))[1]
    try:
        for _ in range(count):
            link = run.nets[1].links[0]
            number, seen = link.number + rng.randint(-1, 1), link.received + rng.randint(-1, 1)
            frames = [encode(link.tag, Frame(kind, False, max(0, number), max(0, seen), b"what")) for kind in KINDS[1:]]
            damaged = mutated(rng.choice(frames), frames, rng)
            if damaged in frames:
                damaged += b"x"
            _until_read(run, damaged, read)
    finally:
        reader.take, connections.FIRST_PAUSE = take, pause


def _until_read(run: Running, damaged: bytes, read: list[bytes]) -> None:
    """Send it until site0 has read it: a line that breaks at that moment takes it along."""
    deadline = time.monotonic() + LONGEST
    while damaged not in read:
        read.clear()
        line = run.nets[1].links[0].connection
        run.send(damaged)
        while damaged not in read and run.nets[1].links[0].connection is line:
            assert time.monotonic() < deadline, f"a frame was not read: {run.errors} {run.sites.said}"[-2000:]
            time.sleep(0.0005)


def half_open(run: Running, count: int, rng: random.Random) -> None:
    """Strangers that say nothing, that stop within the handshake, or that close at once."""
    held: list[socket.socket] = []
    for _ in range(count):
        with suppress(OSError):
            held.append(socket.create_connection(run.sites.members[0].address, 10))
            held[-1].sendall(rng.choice([b"", b"\x16", b"\x16\x03\x01\x02\x00\x01", rng.randbytes(300), b"GET /"]))
        while len(held) > rng.randint(0, HELD):
            held.pop(rng.randrange(len(held))).close()
    for line in held:
        line.close()


NOISES = {mutated_frames: 100_000, half_open: 1000}
"""How many of each in a full soak."""


def round_of_noise(
    noise: Callable[[Running, int, random.Random], None], count: int, rng: random.Random
) -> dict[str, int]:
    """So much noise beside a run: 0 are different if every sum of every site was right and the run went on after it."""
    try:
        with tempfile.TemporaryDirectory() as folder, Running(Path(folder)) as run:
            noise(run, count, rng)
            run.more()
    except AssertionError as error:
        print(f"{noise.__name__}: {error}")
        return {"kills": count, "different": count}
    return {"kills": count, "different": 0}
