"""`dsba study check`: what a site can find out before anybody waits, each failure with what repairs it."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from dsba.data.sources import TableSource
from dsba.data.table_files import open_table
from dsba.errors import DsbaError
from dsba.network.tls.connections import greeting, shown
from dsba.network.tls.frames import MOST_PAYLOAD
from dsba.network.tls.pinned import HANDSHAKE, Member, RefusedError, context, dialled, explained
from dsba.study import join, keys
from dsba.study.file import Study
from dsba.study.policy import Policy
from dsba.types import Finding

BURST = 16  # payloads that are sent to measure the bandwidth
SOON = 30  # days before the end of a certificate or a study at which people are told
BEFORE_PROGRAMS = datetime(2024, 1, 1, tzinfo=UTC)  # a clock that shows an earlier time is wrong


def check(
    study: Study, site: str | None, key: Path | None, data: Path | TableSource | None, policy: Policy | None = None
) -> Iterator[Finding]:
    """Check everything about the file and, for a given site, its own files and every neighbour that it can dial."""
    yield from _about_study(study)
    if site is None:
        return
    rank, own_policy = study.rank(site), policy or Policy()
    yield found(
        partial(join.require_young, study),
        f"No certificate is valid for more than {keys.OLDEST.days} days, the largest age of a key.",
    )
    complaint = own_policy.complaint(study, join.disclosed(study))
    yield Finding(complaint is None, complaint or f"The policy of {site} allows the study.")
    for number in own_policy.numbers(study):
        yield Finding(True, f"Guard at {site}: {number}.")
    if data is not None:
        table = open_table(data)
        yield found(lambda: join.require_columns(study, table, str(data)), f"{data} has the columns of the study.")
        if own_policy.row_id is not None:
            yield found(lambda: own_policy.require_row_id(table), f"{data} has the column of row_id.")
    if key is None:
        return
    own = found(lambda: join.own_key(study, site, key), f"{key} is the key of {site}.")
    yield own
    if own.fine:
        for neighbour in study.topology.neighbors[rank]:
            yield from _about_neighbour(study, rank, int(neighbour), key)


def _about_study(study: Study) -> Iterator[Finding]:
    yield Finding(True, f"The hash of the study {study.name} is {study.hash}: compare it with the other sites.")
    now = datetime.now(UTC)
    clock = f"The clock of this computer shows {now:%Y-%m-%d %H:%M} UTC"
    yield Finding(now >= BEFORE_PROGRAMS, clock + ("." if now >= BEFORE_PROGRAMS else ", which cannot be: set it."))
    yield found(study.require_open, f"The study is open until {study.ends}.")
    if 0 <= (left := (study.ends - now.date()).days) < SOON:
        yield Finding(True, f"The study ends in {left} days.")
    for sentence in [*join.of_model(study), *join.expected(study)]:
        yield Finding(True, sentence)
    for member in study.members:
        until = keys.parse(keys.text_of(member.certificate)).not_valid_after_utc
        fine = f"The certificate of {member.name} is valid until {until:%Y-%m-%d}."
        if 0 <= (left := (until - now).days) < SOON:
            fine += f" These are {left} days: `dsba study rotate` replaces the key, and the study stays the same."
        yield found(partial(join.require_valid, member.certificate, member.name), fine)
    yield from (Finding(True, sentence) for sentence in join.replaced(study))


def found(work: Callable[[], object], fine: str) -> Finding:
    try:
        work()
    except DsbaError as error:
        return Finding(False, str(error))  # as it is: it may begin with the name of a file
    return Finding(True, fine)


def _about_neighbour(study: Study, rank: int, neighbour: int, key: Path) -> Iterator[Finding]:
    them = study.members[neighbour]
    if them.address is None:
        yield Finding(True, f"{them.name} only dials out: it will dial this site.")
        return
    host, port = them.address
    try:
        address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0]
    except OSError as error:
        yield Finding(False, f"{them.name} at {host}:{port}: {explained(error)}")
        return
    yield Finding(True, f"{them.name}: {host} is {address}.")
    try:
        yield from _measured(study, rank, them, key)
    except RefusedError as error:
        yield Finding(False, str(error))


def _measured(study: Study, rank: int, them: Member, key: Path) -> Iterator[Finding]:
    hello = greeting(study.digest, study.sites[rank].name) | {"probe": True}
    with dialled(them, context(key, study.members, server=False)) as connection:
        yield Finding(True, f"{them.name} speaks TLS 1.3 and shows the certificate of the study.")
        try:
            connection.send(json.dumps(hello))
            said = json.loads(connection.recv(HANDSHAKE))
        except Exception as error:
            raise RefusedError(f"{them.name} did not say who it is: {explained(error)}") from error
        if "refused" in said:
            raise RefusedError(f"{them.name} refused this site: {shown(said['refused'])}")
        if said.get("study") != hello["study"] or said.get("program") != hello["program"]:
            raise RefusedError(f"{them.name} has another study or version: compare the hashes and `dsba --version`.")
        yield Finding(True, f"{them.name} has the same study and version.")
        delay, rate = _line(connection)
        yield Finding(True, f"The line to {them.name}: {1e3 * delay:.1f} ms there and back, {rate / 1e6:.1f} MB/s.")


def _line(connection: Any) -> tuple[float, float]:
    """Seconds there and back for one byte, and bytes a second."""
    delays = [_exchange(connection, 1) for _ in range(3)]
    seconds = sum(_exchange(connection, MOST_PAYLOAD) for _ in range(BURST))
    spent = max(seconds - BURST * min(delays), 1e-6)
    return min(delays), 2 * BURST * MOST_PAYLOAD / spent


def _exchange(connection: Any, length: int) -> float:
    begun = time.perf_counter()
    try:
        connection.send(bytes(length))
        connection.recv(HANDSHAKE)
    except Exception as error:
        raise RefusedError(f"the line broke while it was measured: {explained(error)}") from error
    return time.perf_counter() - begun
