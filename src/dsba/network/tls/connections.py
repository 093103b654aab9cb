"""The threads of a site: one that answers, one for each neighbour to dial, one for each connection of a member.

All of them end when the network is closed. Whoever is not a neighbour with the right certificate, the same study and
the same version is refused with a sentence, and costs a running study nothing.
"""

from __future__ import annotations

import json
import random
import re
import socket
import ssl
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from dsba._version import __version__
from dsba.errors import InputError, printable
from dsba.network.tls.frames import FRAME_VERSION, FrameError
from dsba.network.tls.handshakes import Handshakes, Strangers
from dsba.network.tls.link import SiteLink
from dsba.network.tls.pinned import CLOSED_BY_BOTH, HANDSHAKE, Hearing, Refusal, RefusedError, context, dialled, opened
from dsba.network.tls.protocol import Ending

if TYPE_CHECKING:
    from dsba.network.tls.site_network import SiteNetwork

BACKLOG = 1024  # connections that the system accepts for us
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  # seconds between attempts to connect
LONGEST_SENTENCE = 500  # of what another site sends to be shown
MOST_SITE_LINES, SITE_LINE_EVERY = 30, 60.0  # about one site: so many lines at once, and one more in so many seconds
MOST_ANSWERED = 32  # connections of one member at a time


class Allowance:
    """How many lines about one site may be told and logged: a member that dials all the time fills no log."""

    def __init__(self) -> None:
        self.lines, self.since, self.withheld = float(MOST_SITE_LINES), time.monotonic(), 0

    def take(self) -> dict[str, int] | None:
        """None if a line is one too many; else what it says of those that were withheld before it."""
        now = time.monotonic()
        self.lines, self.since = min(MOST_SITE_LINES, self.lines + (now - self.since) / SITE_LINE_EVERY), now
        if self.lines < 1.0:
            self.withheld += 1
            return None
        self.lines, withheld, self.withheld = self.lines - 1.0, self.withheld, 0
        return {"withheld": withheld} if withheld else {}


class Connections:
    """All connections of one site."""

    def __init__(self, net: SiteNetwork) -> None:
        self.net, self.place = net, net.place
        self.closing = threading.Event()
        self.threads: list[threading.Thread] = []
        self.starting = threading.Lock()
        self.connections: set[Any] = set()
        self.listener: socket.socket | None = None
        self.handshakes: Handshakes | None = None
        self.last_said: dict[str, str] = {}
        self.allowed: defaultdict[str, Allowance] = defaultdict(Allowance)
        self.answered: Counter[int] = Counter()  # connections of members that dialled and are not over
        self.declined: set[int] = set()  # neighbours that were told that this site takes no part

    def open(self) -> None:
        members, own = self.place.members, self.place.members[self.place.rank]
        self.client = context(self.place.key, members, server=False)
        if own.address is not None and any(not self._dials(peer) for peer in self.net.links):
            self.server = context(self.place.key, members, server=True)
            self.listener = _listening(self.place.listen or own.address)
            strangers = Strangers(self.place.notify, self.place.log)
            self.handshakes = Handshakes(self.listener, self.server, members, self.closing, self._welcome, strangers)
            self._start(self.handshakes.run)
        for peer, link in self.net.links.items():
            if self._dials(peer):
                self._start(self._dial, link)

    def close(self) -> None:
        with self.starting:
            self.closing.set()
        if self.listener is not None:
            self.listener.close()
        deadline = time.monotonic() + 2 * HANDSHAKE
        while self.threads:
            for connection in list(self.connections):
                connection.close()
            self.threads[-1].join(max(0.0, deadline - time.monotonic()))
            self.threads.pop()

    def _dials(self, peer: int) -> bool:
        """Whether this site dials: the other one listens, and this one does not listen or comes later in the list."""
        mine, theirs = self.place.members[self.place.rank], self.place.members[peer]
        return theirs.address is not None and (mine.address is None or self.place.rank > peer)

    def _start(self, work: Callable[..., None], *arguments: Any) -> bool:
        """Begin a thread, unless this site is closing."""
        with self.starting:
            if self.closing.is_set():
                return False
            self.threads = [thread for thread in self.threads if thread.is_alive()]
            thread = threading.Thread(target=work, args=arguments, daemon=True, name=f"dsba {self.place.name}")
            self.threads.append(thread)
            thread.start()
            return True

    def say(self, about: str, sentence: str) -> None:
        """Tell the people at this site, once for each change."""
        if self.last_said.get(about) != sentence and not self.closing.is_set():
            self.last_said[about] = sentence
            if self._log("line", about, about=about, said=sentence):
                self.place.notify(sentence)

    def _log(self, event: str, of: str, **details: Any) -> bool:
        """Log what is about a site, unless there was too much of it."""
        if (more := self.allowed[of].take()) is not None:
            self.place.log(event, **details, **more)
        return more is not None

    # Dialling -----------------------------------------------------------------------------------------

    def _dial(self, link: SiteLink) -> None:
        pause = FIRST_PAUSE
        while not self.closing.is_set():
            try:
                with dialled(self.place.members[link.rank], self.client) as connection:
                    self._serve(connection, link, answers=False)
                pause = FIRST_PAUSE
            except RefusedError as error:
                self.say(link.name, str(error))
            self.closing.wait(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, LONGEST_PAUSE)

    # Answering ----------------------------------------------------------------------------------------

    def _welcome(self, secured: ssl.SSLSocket, rank: int, deadline: float) -> bool:
        return self.answered[rank] < MOST_ANSWERED and self._start(self._answer, secured, rank, deadline)

    def _answer(self, secured: ssl.SSLSocket, rank: int, deadline: float) -> None:
        """A member that has dialled, whatever else came from its address."""
        link, name = self.net.links.get(rank), self.place.members[rank].name
        with ExitStack() as stack:
            stack.callback(self._count, rank, -1)
            self._count(rank, 1)
            try:
                connection = opened(secured, rank, self.place.members, self.closing, deadline)
                stack.callback(connection.close_socket)
                if link is None:
                    sentence = f"{name} and {self.place.name} are not neighbours in the study."
                    raise _refuse(connection, RefusedError(sentence, Refusal.SITE), unheard=True)
                self._serve(connection, link, answers=True)
            except RefusedError as error:
                self.say(name, f"Refused {name}: {error}")

    def _count(self, rank: int, more: int) -> None:
        with self.starting:
            self.answered[rank] += more

    # A connection -------------------------------------------------------------------------------------

    def _serve(self, connection: Hearing, link: SiteLink, *, answers: bool) -> None:
        """Greet, and read until the connection ends."""
        self.connections.add(connection)
        try:
            said = self._greeted(connection, link, answers)
            if said.get("probe"):
                _echo(connection)
                return
            self._adopt(connection, link, said)
            self._read(connection, link)
        finally:
            self.connections.discard(connection)
            connection.close_socket()
            with self.net.changed:
                if lost := link.connection is connection:
                    link.connection = None
                self.net.changed.notify_all()
            if lost and not link.done:
                self.say(link.name, f"The line to {link.name} is broken.")

    def hello(self, link: SiteLink) -> dict[str, Any]:
        run = {"data": self.place.data, "epoch": self.net.epoch, "nonce": self.net.nonce.hex()}
        line = {"heard": (link.theirs or b"").hex(), "arrived": link.received}
        return {**greeting(self.place.study, self.place.name), **run, **line}

    def _greeted(self, connection: Hearing, link: SiteLink, answers: bool) -> dict[str, Any]:
        """What the neighbour says of itself, if it fits. The side that dialled sends first."""
        if self.place.refusal is not None:  # nothing that the neighbour says is looked at
            error = _refuse(connection, RefusedError(self.place.refusal, Refusal.ABSENT), unheard=answers)
            if connection.close_code == CLOSED_BY_BOTH:  # it has read our message
                self.declined.add(link.rank)
            raise error
        with self.net.changed:
            own = json.dumps(self.hello(link))
        try:
            if not answers:
                connection.send(own)
            said = json.loads(connection.recv(HANDSHAKE))
            if "refused" in said:
                connection.close()  # so that the other side knows that we have read it
                raise self._refused(link, said)
            if unfit := self._unfit(said, link):
                raise _refuse(connection, unfit)
            if answers:
                connection.send(own)
        except RefusedError:
            raise
        except Exception as error:
            raise RefusedError(f"{link.name} did not say who it is.", Refusal.MESSAGE) from error
        return said

    def _unfit(self, said: Any, link: SiteLink) -> RefusedError | None:
        """Why a neighbour's hello does not fit, or None."""
        if not isinstance(said, dict):
            return RefusedError("its first message is not one of dsba.", Refusal.MESSAGE)
        here, own = self.place.name, greeting(self.place.study, self.place.name)
        if (said.get("program"), said.get("format")) != (own["program"], own["format"]):
            both = f"{link.name} has {shown(said.get('program'))} and {here} has {own['program']}"
            return RefusedError(f"{both}: use the same.", Refusal.PROGRAM)
        if said.get("study") != own["study"]:
            advice = "compare the hashes that `dsba study check` prints, and use the same file."
            return RefusedError(f"{link.name} has another study file than {here}: {advice}", Refusal.STUDY)
        if said.get("site") != link.name:
            return RefusedError(f"{link.name} calls itself {shown(said.get('site'))}.", Refusal.SITE)
        return None if said.get("probe") else _unfit_state(said, link)

    def _adopt(self, connection: Hearing, link: SiteLink, said: dict[str, Any]) -> None:
        with self.net.changed:
            link.known_data = said["data"]
            self.net.heard(link, said["epoch"], bytes.fromhex(said["nonce"]))
            link.attach(connection, said["arrived"] if said["heard"] == self.net.nonce.hex() else 0)
        self._announce()
        if self.net.finished is not None:
            link.notify(finished=self.net.finished)
        self.say(link.name, f"{link.name} is connected.")
        fingerprint, study = self.place.members[link.rank].fingerprint, self.place.study.hex()
        self._log("connected", link.name, site=link.name, fingerprint=fingerprint, study=study)

    def _announce(self) -> None:
        for link in self.net.links.values():
            link.announce()

    def _read(self, connection: Hearing, link: SiteLink) -> None:
        try:
            connection.hear(partial(self._heard, connection, link))
        except (FrameError, ValueError, TypeError, KeyError) as error:
            sentence = f"refused a frame from {link.name}: {error}."
            raise _refuse(connection, RefusedError(sentence, Refusal.MESSAGE)) from None
        except Exception:  # the connection ended, in one of many ways
            return

    def _heard(self, connection: Hearing, link: SiteLink, message: str | bytes) -> None:
        owed = False
        with self.net.changed:
            if link.connection is not connection:
                raise ConnectionError("a newer connection has taken its place")
            if isinstance(message, str):
                self._notice(link, json.loads(message))
                self.net.wake()
            else:
                owed = link.take(message)
                if self.net.waiting:
                    self.net.changed.notify_all()
        if isinstance(message, str):
            self._announce()
        if owed:
            link.acknowledge(connection)

    def _notice(self, link: SiteLink, said: dict[str, Any]) -> None:
        """A message beside the frames."""
        if "begin" in said:
            epoch, nonce = said["begin"]
            if not _epoch(epoch, nonce):
                raise ValueError("its epoch is damaged")
            self.net.heard(link, epoch, bytes.fromhex(nonce))
        if "farewell" in said:
            self.net.ended = self.net.ended or shown(said["farewell"])
        if "finished" in said:
            self._over(link, said["finished"])
        if "done" in said:
            link.done = True
        if "awaits" in said:
            names = [member.name for member in self.place.members if member.name in said["awaits"]]
            link.awaits = {name: shown(said["awaits"][name]) for name in names}
        if "refused" in said:
            self.say(link.name, f"{link.name} refused this site: {shown(said['refused'])}")

    def _over(self, link: SiteLink, said: Any) -> None:
        """The run is over elsewhere, if all sites have signed so; this one as well, before it was stopped."""
        try:
            self.net.elsewhere = Ending.read(said, self.place.members).result
        except (ValueError, TypeError, AttributeError):
            sentence = f"{link.name} says that the run is over, and not all sites have signed its end."
            self.net.ended = self.net.ended or sentence

    def _refused(self, link: SiteLink, said: dict[str, Any]) -> RefusedError:
        """The error of a neighbour that refuses this site. It ends the run if to dial again would not help."""
        link.refusal = shown(said["refused"])
        error = RefusedError(f"{link.name} refused this site: {link.refusal}")
        if said.get("kind") == Refusal.DATA:
            with self.net.changed:
                self.net.ended = self.net.ended or str(error)
                self.net.wake()
        return error


def greeting(study: bytes, site: str) -> dict[str, Any]:
    """How every first message between two sites begins."""
    return {"program": f"dsba {__version__}", "format": FRAME_VERSION, "study": study.hex(), "site": site}


def _unfit_state(said: dict[str, Any], link: SiteLink) -> RefusedError | None:
    """Why the part of a hello about run and data does not fit, or None."""
    texts = all(type(said.get(key)) is str for key in ("data", "heard"))
    if not (texts and _count(said.get("arrived")) and _epoch(said.get("epoch"), said.get("nonce"))):
        return RefusedError("its first message is damaged.", Refusal.MESSAGE)
    if link.known_data in (None, said["data"]):
        return None
    changed = f"the data of {link.name} changed since the run began"
    return RefusedError(f"{changed}: a run with other data is another run.", Refusal.DATA)


def _listening(address: tuple[str, int]) -> socket.socket:
    host, port = address
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise InputError(
            f"cannot listen at {host}:{port} ({error.strerror or error}): is the address this computer's, and free?"
        ) from None


def _refuse(connection: Hearing, error: RefusedError, unheard: bool = False) -> RefusedError:
    """Tell the other side why. ``unheard``: it has dialled, sends first, and would not read our message before."""
    try:
        if unheard:
            with suppress(Exception):
                connection.recv(HANDSHAKE)
        connection.send(json.dumps({"refused": str(error), "kind": error.kind}))
        connection.close(reason="refused")
    except Exception:  # it has gone already
        connection.close_socket()
    return error


def _echo(connection: Hearing) -> None:
    """Send back what comes, for somebody who measures the line; it ends by itself."""
    deadline = time.monotonic() + HANDSHAKE
    with suppress(Exception):  # the line was measured
        while time.monotonic() < deadline:
            connection.send(connection.recv(max(0.1, deadline - time.monotonic())))


def shown(text: object) -> str:
    """What another site sent, made safe to show: one line of limited length without control characters."""
    return printable(str(text), LONGEST_SENTENCE)


def _count(number: Any) -> bool:
    return type(number) is int and 0 <= number < 2**62


def _epoch(epoch: Any, nonce: Any) -> bool:
    """Whether these may be a number of an epoch and a nonce."""
    return _count(epoch) and isinstance(nonce, str) and re.fullmatch("[0-9a-f]{64}", nonce) is not None
