"""A study begins and ends under a flood of half-open connections, and its log stays small."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from datetime import datetime

import pytest
from local_sites import GIVE_UP, until
from test_study import FORMULA, NAMES, tables  # noqa: F401 - a fixture

from dsba.fitting import FitSpec
from dsba.network.tls import handshakes
from dsba.network.tls.handshakes import Handshakes, Strangers
from dsba.study.audit import AUDIT, read_log
from dsba.study.join import Seat, join
from dsba.study.trial import arrange
from dsba.study.verify import verify_study
from dsba.tables.fit import train

FLOOD = """
import os, socket, sys, time
rate, ports, held, made, begun, parent = int(sys.argv[1]), sys.argv[2:], [], 0, time.monotonic(), os.getppid()
while os.getppid() == parent:
    while made < rate * (time.monotonic() - begun):
        line = socket.socket()
        line.setblocking(False)
        line.connect_ex(("127.0.0.1", int(ports[made % len(ports)])))
        held.append(line)
        if made % 3 == 0 and len(held) > 50:
            try:
                held[-50].send(b"\\x16\\x03\\x01\\x02\\x00\\x01")
            except OSError:
                pass
        made += 1
        if len(held) > 900:
            held.pop(0).close()
    time.sleep(0.002)
"""


@contextmanager
def flood(rate, ports):
    """So many half-open connections a second to all ports together, by a process of its own."""
    process = subprocess.Popen([sys.executable, "-c", FLOOD, str(rate), *map(str, ports)])
    try:
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def late(seats, pause):
    """Every site in a thread, one after the other."""
    found = [None] * len(seats)

    def one(rank):
        time.sleep(pause * rank)
        seats[rank].out.mkdir()
        found[rank] = join(seats[rank], notify=deque(maxlen=100).append)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(len(seats))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize(
    ("rate", "pause", "passes"), [(300, 0.3, 20.0), pytest.param(2000, 3.0, 500.0, marks=pytest.mark.full)]
)
def test_a_study_under_fire_ends_as_without(rate, pause, passes, tables, tmp_path):  # noqa: F811
    model = {"formula": FORMULA, "algorithm": "extra", "lam": 0.01, "tol": 0.0, "max_passes": passes}
    study = arrange(tables, FitSpec(**model, graph="ring"), tmp_path / "study")
    seats = [
        Seat(study, name, tmp_path / "study" / f"{name}.pem", file, tmp_path / f"out-{name}", patience=60.0)
        for name, file in zip(NAMES, tables, strict=True)
    ]
    with flood(rate, [site.address.partition(":")[2] for site in study.sites[:2]]):
        found = late(seats, pause)
    alone, refused = train(tables, FitSpec(**model, graph="ring")), 0
    for seat, results in zip(seats, found, strict=True):
        assert results is not None, seat.site
        assert (results.model.weights == alone.model.weights).all()
        assert (seat.out / AUDIT).stat().st_size < 100_000
        assert all(finding.fine for finding in verify_study(seat.out))
        crowds = [event for event in read_log(seat.out / AUDIT) if event["event"] == "strangers"]
        begun, ended = read_log(seat.out / AUDIT)[0]["time"], read_log(seat.out / AUDIT)[-1]["time"]
        assert len(crowds) <= 2 + _seconds(begun, ended) / handshakes.STRANGERS_EVERY
        refused += sum(event["connections"] for event in crowds)
    assert refused > rate // 4


def peers(queue):
    found = []
    for visitor in list(queue):
        with suppress(OSError):  # dropped in this very moment
            found.append(visitor.sock.getpeername())
    return found


def _seconds(begun, ended):
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(begun)).total_seconds()


def test_each_queue_drops_its_own_oldest_one(monkeypatch):
    """Whoever says nothing drops nobody who has begun TLS, and the other way round; a deadline ends all of them."""
    monkeypatch.setattr(handshakes, "MOST_UNFINISHED", 2)
    monkeypatch.setattr(handshakes, "HANDSHAKE", GIVE_UP)
    over, said, using = threading.Event(), [], ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answering = Handshakes(listener, using, [], over, None, Strangers(said.append, lambda event, **facts: None))
        thread = threading.Thread(target=answering.run)
        thread.start()
        lines = [socket.create_connection(listener.getsockname()) for _ in range(2)]
        until(lambda: len(answering.silent) == 2)
        for number in range(4):
            lines.append(line := socket.create_connection(listener.getsockname()))
            until(lambda: line.getsockname() in peers(answering.silent))
            line.sendall(b"\x16\x03")
            until(lambda: line.getsockname() in peers(answering.begun))
            assert len(answering.begun) == min(number + 1, 2)
        closed = [line.recv(1) == b"" for line in (lines[0], *lines[2:4])]
        assert closed == [True] * 3
        assert peers(answering.silent) == [lines[1].getsockname()]
        assert peers(answering.begun) == [line.getsockname() for line in lines[4:]]
        for visitor in [*answering.begun, *answering.silent]:
            visitor.deadline = 0.0
        until(lambda: not answering.unfinished)
        over.set()
        thread.join()
    for line in lines:
        line.close()
    assert len(said) == 2  # the first at once, and all others together
    assert "5 connections from 1 addresses, the last one from 127.0.0.1: it gave no answer within" in said[1]
