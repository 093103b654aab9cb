"""Nodes at institutions: every site starts its own process, and neighbours of the graph talk over pinned TLS.

There is no server. What must reach a site that is no neighbour is relayed along the graph, as the questions of every
transport are.

An **epoch** is a stretch in which no site was restarted. Every site draws a nonce for it; neighbours tell each other
epoch and nonce whenever they connect. A neighbour with another nonce in the same epoch was restarted: the next epoch
begins, everybody is told along the graph, and the run goes on from its latest common checkpoint. A run's identity is
the hash of all sites' nonces. A line that breaks and comes back within an epoch changes nothing.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path
from queue import Empty
from typing import Any, TypeVar

import numpy as np

from dsba._system import signals
from dsba._version import __version__
from dsba.errors import DsbaError, InputError, NetworkError, printable
from dsba.graph.topology import Topology
from dsba.network import exact_sum
from dsba.network.contract import ITERATES, ROWS_OF_DATA, TOTALS
from dsba.network.exact_sum import SparseRows, WideIntegers
from dsba.network.messages.routing import Routing
from dsba.network.tls.answers import Answers
from dsba.network.tls.connections import Connections
from dsba.network.tls.frames import cut
from dsba.network.tls.link import MOST_UNREAD, SiteLink
from dsba.network.tls.masks import WHOLE_WINDOW, Agreement, Guesses, Masks, Window, around
from dsba.network.tls.pinned import Member
from dsba.network.tls.protocol import OF_LARGEST, OF_LEVELS, OF_SUMS, SIGNATURE_BYTES, Ending, Exchange, made_by
from dsba.network.tls.transcript import HASH_BYTES, INT64, Begun, Newcomer, Recorded, Signed, Transcript
from dsba.network.transport import FRAMES, PARCEL, QUESTIONS, ROWS, Network, unpacked
from dsba.types import Array, Words

Answer = TypeVar("Answer")

SITE_PATIENCE = 1800.0  # seconds to wait for a site
SAY_AFTER, SAY_EVERY = 3.0, 60.0  # seconds of waiting until people are told for whom
TELL_EVERY = 1.0  # the same for the neighbours
DISCLOSED_BY = {ROWS: ITERATES, FRAMES: ROWS_OF_DATA}  # a question says itself what it discloses
FIRST_REST, LONGEST_REST = 0.005, 1.0  # seconds before a run begins anew: every beginning is written down
LINGER = 30.0  # seconds to wait at the end for neighbours that have not all they need
MASKED_FROM = 3  # sites: of two, each knows the other's part whatever is masked
SMALLEST_PATIENCE = 0.1
MOST_GUESSES, GUESS_BYTES = 64, 1 << 13  # scales of one sum that are tried at once
FIRST_GUESS = 20  # the binary exponent of sums over some thousand rows
MOST_AGREED = 1 << 14  # characters with which a site describes its data and its policy
MOST_SHARED = 1 << 22  # bytes of a value as JSON: what is made of them takes a hundred times as much memory
SPREAD_BYTES = 1 << 26  # of all parts of a question together, up to which everybody gets every part


class RestartedError(DsbaError):
    """A site was restarted: everything since the last common checkpoint is done again."""


class FinishedError(DsbaError):
    """The run is over at other sites; ``result`` is the digest of what came out."""

    def __init__(self, result: str) -> None:
        super().__init__(result)
        self.result = result


@dataclass(frozen=True)
class SitePlace:
    """Who takes part, and who this site is."""

    members: Sequence[Member]
    rank: int
    key: Path
    """The file with the key and the certificate of this site."""
    sign: Callable[[bytes], bytes]
    study: bytes
    """The hash of the study, 32 bytes."""
    data: str = ""
    """Stands for this site's data: it must not change within a run."""
    policy: str = ""
    """The guards that hold here, for the history of the run."""
    listen: tuple[str, int] | None = None
    """Where this site listens, if that is not its address: behind a forwarded port, for example."""
    refusal: str | None = None
    """Why this site takes no part now: neighbours are told so when they meet it, and nothing else."""
    notify: Callable[[str], object] = field(default=lambda sentence: None)
    """Called with sentences for people."""
    log: Callable[..., object] = field(default=lambda event, **details: None)
    """Called with events and their details."""
    keep: Callable[[Recorded], object] = field(default=lambda line: None)
    """Called with every line of the record: how the run began, the exact totals, and the signatures under its end."""
    totals_only: bool = False
    """Whether iterates never leave this site: the study's method sends totals."""
    answers: Answers | None = None
    """What this site has answered in earlier starts; None limits nothing."""

    @property
    def name(self) -> str:
        return self.members[self.rank].name


class SiteNetwork(Network):
    """The nodes of one site; a context that closes all its connections and ends all its threads.

    Parameters
    ----------
    topology
        The graph, the same at all sites.
    place
        Who takes part.
    patience
        Seconds to wait for a site that is not there.
    masked
        Whether sums are masked; None is from three sites on.
    rows_allowed
        Whether this site lets rows of its data leave it (``communication="sparse"``, "cached").
    """

    def __init__(
        self, topology: Topology, place: SitePlace, *, patience: float = SITE_PATIENCE, masked: bool | None = None,
        rows_allowed: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(topology, place.rank, len(place.members))
        self.place, self.patience, self.rows_allowed = place, max(patience, SMALLEST_PATIENCE), rows_allowed
        self.masked = self.size >= MASKED_FROM if masked is None else masked
        self.masks: Masks | None = None
        self.questions: Exchange | None = None  # None until the sites have agreed on a run
        self._about = OF_SUMS, b""  # the kind and the point of the next sum
        self.tops: dict[int, int] = {}  # by width, the largest exponent in the last sum
        self.last_top = 0.0
        self.routes = Routing(self.placement.graph, self.placement.graph.diameter)
        self.changed = threading.Condition()
        self.waiting = False  # whether somebody waits for ``changed``
        self.links = {peer: SiteLink(peer, place.members[peer].name) for peer in self.placement.peers}
        self.epoch, self.joined, self.nonce = 1, 0, b""
        self.run_id = b""
        self.restarted, self.restarts = 0.0, 0  # when and how often a site was restarted since the last sum
        self.ended: str | None = None  # a sentence from another site that ends the run here, too
        self.finished: Ending | None = None  # what all have signed, once all have the result
        self.elsewhere: str | None = None  # the digest of the result, as a neighbour showed that all signed it
        self._asked = TOTALS
        self._enter(1)
        self.lines = Connections(self)

    def __enter__(self) -> SiteNetwork:
        self.lines.open()
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Tell the neighbours why, and leave no thread behind."""
        if error is None:
            self._linger()
        else:
            why = self.ended or f"{self.place.name} has left the run: {_plainly(error)}"
            self._tell_neighbours(farewell=why)
        self.lines.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> SiteNetwork:
        return self  # a place among sites has no copy; scikit-learn's clone asks for one

    # Epochs -------------------------------------------------------------------------------------------

    def run(self, work: Callable[[], Answer]) -> Answer:
        """``work()`` among all sites; again from its start whenever a site was restarted."""
        while True:
            try:
                self._begin()
                return work()
            except RestartedError:
                self.place.notify("A site was restarted: all go on from the latest common checkpoint.")
                self._require_progress()

    def _require_progress(self) -> None:
        """An error if sites begin anew again and again for longer than this site waits, and no sum is made."""
        self.restarted, self.restarts = self.restarted or time.monotonic(), self.restarts + 1
        if time.monotonic() - self.restarted > self.patience:
            raise NetworkError(
                f"sites were restarted again and again for {self.patience:g} seconds, and no sum was made: find out "
                "which one does not run as it should. When all sites start again they go on from the last checkpoint."
            )
        time.sleep(min(FIRST_REST * 2.0**self.restarts, LONGEST_REST))

    def finish(self, result: str) -> None:
        """All sites have what came out, whose digest this is; it must be the same everywhere."""
        everyone = self.aside().share(result, discloses=TOTALS)
        if odd := [self.called(n) for n, theirs in enumerate(everyone) if theirs != everyone[0]]:
            raise NetworkError(f"{odd[0]} came to another result than {self.called(0)}: report this.")
        self.place.keep(Signed(tuple(self._run.signatures)))
        with self.changed:
            self.finished = self._run.ending(result)

    def heard(self, link: SiteLink, epoch: int, nonce: bytes) -> None:
        """What a neighbour says of its epoch; called by the threads that read, within ``changed``."""
        if self.finished is not None:
            if nonce != link.theirs:
                link.notify(finished=self.finished)
            return
        restarted = epoch == self.epoch and link.theirs not in (None, nonce)
        if epoch > self.epoch or restarted:
            self._enter(max(epoch, self.epoch + restarted))
        if epoch == self.epoch and link.theirs is None:
            link.meet(nonce, self.place.study)
        self.wake()

    def wake(self) -> None:
        """Whoever waits looks up; called within ``changed``."""
        self.changed.notify_all()
        for link in self.links.values():
            link.wake()

    def _enter(self, epoch: int) -> None:
        self.epoch, self.nonce = epoch, secrets.token_bytes(32)
        for link in self.links.values():
            link.reset(epoch, self.nonce)

    def _begin(self) -> None:
        """Wait for the neighbours, and agree with all sites on a run and on secrets for its masks."""
        with self.changed:
            self.joined, self.masks, self.questions, self.tops = self.epoch, None, None, {}
            self._about, self._asked = (OF_SUMS, b""), TOTALS
        links = self.links.values()
        self._wait_for(lambda: all(one.theirs for one in links), lambda: [one.name for one in links if not one.theirs])
        agreement = Agreement()
        me, place = self.place.members[self.rank], self.place
        said = Newcomer(me.name, me.certificate, agreement.public, self.nonce, place.data, place.policy, b"")
        own = {"nonce": said.nonce.hex(), "key": said.key.hex(), "data": said.data, "policy": said.policy}
        own["signature"] = place.sign(said.agreed(place.study, self.joined, self.rank)).hex()
        roster = self._verified(self.aside().share(own, discloses=TOTALS))
        begun = Begun(__version__, self.joined, self.masked, tuple(roster))
        self.run_id = begun.history(place.study)
        if place.answers is not None:
            place.answers.began(begun)
        place.keep(begun)
        self.session = int.from_bytes(self.run_id[:4], "little")
        transcript = Transcript(self.run_id, self.place.keep)
        if self.masked:
            others = {n: one for n, one in enumerate(roster) if n != self.rank}
            agreed = {n: agreement.secret(one.key, one.name) for n, one in others.items()}
            self.masks = Masks(self.rank, agreed, self.place.study, transcript)
        self.questions = Exchange(self.rank, self.place.members, self.place.sign, transcript)
        self.place.log("run", run=self.run_id.hex(), epoch=self.joined, masked=self.masked)

    def _verified(self, everyone: list[Any]) -> list[Newcomer]:
        """Who begins the run, if what all sites said is signed by them."""
        roster = []
        for rank, said in enumerate(everyone):
            member = self.place.members[rank]
            try:
                key, nonce, signature = (bytes.fromhex(said[name]) for name in ("key", "nonce", "signature"))
                one = Newcomer(member.name, member.certificate, key, nonce, said["data"], said["policy"], signature)
                signed = one.agreed(self.place.study, self.joined, rank)
                if len(one.data) + len(one.policy) > MOST_AGREED:  # it is written down in every epoch
                    raise ValueError
            except (KeyError, TypeError, ValueError, AttributeError):
                raise NetworkError(f"what {member.name} sent to agree on a run is damaged.") from None
            if not made_by(member.certificate, signature, signed):
                sentence = f"the agreement of {member.name} is not signed with its key: it was changed on the way."
                raise NetworkError(sentence)
            roster.append(one)
        return roster

    def decline(self, seconds: float) -> list[str]:
        """Wait until all neighbours were told the refusal of this place, or so long; the names of those who were."""
        deadline = time.monotonic() + seconds
        while len(self.lines.declined) < len(self.links) and time.monotonic() < deadline:
            time.sleep(0.05)
        return [link.name for link in self.links.values() if link.rank in self.lines.declined]

    # Waiting ------------------------------------------------------------------------------------------

    def _wait_for(self, ready: Callable[[], bool], missing: Callable[[], list[str]]) -> None:
        """Until ``ready``, with patience; ``missing`` names those who are waited for."""

        def look(seconds: float) -> bool | None:
            with self.changed:
                self.waiting = True
                found = self.changed.wait_for(lambda: ready() or self._disturbance(), seconds)
                self.waiting = False
            return True if found else None

        self._require_current()
        if not ready():
            self._patiently(look, missing)

    def _patiently(self, look: Callable[[float], Answer | None], missing: Callable[[], list[str]]) -> Answer:
        """What ``look(seconds)`` finds at last. It is over when patience is, and when this epoch is."""
        begun, say_at, tell_at = time.monotonic(), SAY_AFTER, TELL_EVERY
        while True:
            found = look(min(0.5, self.patience))
            self._require_current()
            if found is not None:
                if tell_at > TELL_EVERY:
                    self._tell_neighbours(awaits={})
                return found
            waited, awaited = time.monotonic() - begun, self._awaited(missing())
            if waited > self.patience:
                raise NetworkError(
                    f"{self.place.name} has waited {self.patience:g} seconds for {', '.join(awaited)}. "
                    "When all sites start again they go on from the last checkpoint."
                )
            if waited > tell_at:
                self._tell_neighbours(awaits=awaited)
                tell_at = waited + TELL_EVERY
            if waited > say_at:
                why = "".join(f" {name} refuses: {reason}" for name, reason in awaited.items() if reason)
                self.place.notify(f"Waiting for {', '.join(awaited)} ({waited:.0f} s).{why}")
                say_at += SAY_EVERY
            if waited > SAY_AFTER and signals.requested():
                raise KeyboardInterrupt

    def _awaited(self, missing: Sequence[str]) -> dict[str, str]:
        """The sites that are not there, and why: a neighbour that is there may itself wait for another site."""
        awaited: dict[str, str] = {}
        for link in self.links.values():
            if link.name in missing:
                beyond = {} if link.connection is None else dict(link.awaits)
                beyond.pop(self.place.name, None)
                awaited |= beyond or {link.name: link.refusal}
        return awaited

    def _tell_neighbours(self, **message: Any) -> None:
        for link in self.links.values():
            link.notify(**message)

    def _disturbance(self) -> DsbaError | None:
        """Why waiting is in vain."""
        if self.ended is not None:
            return NetworkError(self.ended)
        if self.elsewhere is not None and self.finished is None:
            return FinishedError(self.elsewhere)
        return RestartedError() if self.joined != self.epoch else None

    def _require_current(self) -> None:
        if error := self._disturbance():
            raise error

    def _linger(self) -> None:
        """Neighbours may still need what was sent last. A site that is done sends a notice."""
        deadline = time.monotonic() + min(LINGER, self.patience)
        while time.monotonic() < deadline:
            self._tell_neighbours(done=True)
            with self.changed:
                if self.ended or all(link.done for link in self.links.values()):
                    return
                self.changed.wait(0.5)

    # The two primitives -------------------------------------------------------------------------------

    def send(self, peer: int, message: bytes, purpose: int) -> None:
        if len(message) > MOST_UNREAD:
            raise InputError(f"a message of {len(message)} bytes is too long for sites: {MOST_UNREAD} are allowed.")
        link, left = self.links[peer], len(message)
        if purpose == FRAMES and not self.rows_allowed:
            raise InputError(
                f"this method sends rows of the data, and {self.place.name} does not allow it: choose "
                "communication='dense' in the study, or allow it at every site."
            )
        if purpose == ROWS and self.place.totals_only:
            raise InputError(f"a method that sends iterates was chosen, and {self.place.name} approved totals alone.")
        self.place.log("sent", discloses=DISCLOSED_BY.get(purpose, self._asked), bytes=left)
        for part in cut(message):
            left -= len(part)
            self._wait_for(partial(link.has_room, len(part)), lambda: [link.name])
            if not link.put(self.joined, purpose, part, left > 0):
                raise RestartedError

    def receive(self, peer: int, purpose: int) -> bytes:
        link = self.links[peer]
        inbox = link.inbox[purpose]
        self._require_current()  # after the inbox was taken, which therefore is of this epoch

        def look(seconds: float) -> bytes | None:
            try:
                return inbox.get(timeout=seconds)
            except Empty:
                return None

        message = self._patiently(look, lambda: [link.name])
        link.read += len(message)
        return message

    # Questions ----------------------------------------------------------------------------------------

    @property
    def history(self) -> bytes:
        return self._run.transcript.history

    def about(self, kind: str, point: Array) -> None:
        self._about = kind, np.ascontiguousarray(point, "<f8").tobytes()

    def tells_of(self, coefficients: int, cells: int) -> None:
        if self.place.answers is not None:
            self.place.answers.tells_of(coefficients, cells)

    def sum(self, rows: Array | SparseRows) -> Array:
        """Masked sums guess their scale, and take one question where the guess is right."""
        (kind, at), self._about = self._about, (OF_SUMS, b"")
        if self.place.answers is not None:
            told = rows.shape[1] - 1  # beside the sum of losses
            self.place.answers.asked(kind, at, _content(rows) if at else b"", told)
        width = rows.shape[1]
        count = _guesses(width) if self.masks is not None else 0
        found = self._guessed(rows, around(self.tops.get(width, FIRST_GUESS), count), kind, at) if count else None
        if found is None:
            found = self._asked_for(rows, kind, at)
        if self.last_top:
            self.tops[width] = math.frexp(self.last_top)[1]
        return found

    def bytes_of_sums(self, sizes: Sequence[int]) -> int:
        return bytes_of_spread_sums(self.size, sizes)

    def _asked_for(self, rows: Array | SparseRows, kind: str, at: bytes) -> Array:
        """The sum by two questions: its scale first."""
        top = self.top(exact_sum.largest(rows))
        if top == 0.0 or not math.isfinite(top):
            return np.full(rows.shape[1], top and math.nan)
        scale = exact_sum.exponent(top, self.topology.n_nodes)
        own = exact_sum.integers(rows, scale)
        own = own if self.masks is None else self.masks.hide(own)
        self._count_question(16 * own.low.size, 16 * own.low.size)
        total = WideIntegers.from_bytes(self._added(own.to_bytes(), _plus, kind, at, INT64.pack(scale)))
        return self._converted(total, scale)

    def top(self, own: float) -> float:
        """Masked, the largest exponent of all sites is learned and not whose it is."""
        if self.masks is None:
            return super().top(own)
        hidden = self.masks.hide_words(WHOLE_WINDOW.levels(own, secrets.token_bytes))
        total = self._added(_bytes(hidden), lambda a, b: _bytes(_words(a) + _words(b)), OF_LEVELS)
        self._count_question(8, 8)
        top = WHOLE_WINDOW.largest(_words(total))
        self.last_top = math.inf if top is None else top
        self._run.answered(None, np.float64(self.last_top).tobytes())
        return self.last_top

    def _guessed(self, rows: Array | SparseRows, window: Window, kind: str, at: bytes) -> Array | None:
        """The sum, if its scale is in the window; None if it must be asked for."""
        assert self.masks is not None
        guesses, top_bytes = Guesses(window, self.topology.n_nodes), 8 * (window.size + 2)
        levels = self.masks.hide_words(window.levels(exact_sum.largest(rows), secrets.token_bytes))
        parts = self.masks.hide(guesses.parts(rows))

        def plus(a: bytes, b: bytes) -> bytes:
            words = _words(a[:top_bytes]) + _words(b[:top_bytes])
            return _bytes(words) + _plus(a[top_bytes:], b[top_bytes:])

        scales = INT64.pack(window.lowest) + INT64.pack(window.size)
        answer = self._added(_bytes(levels) + parts.to_bytes(), plus, kind, at, scales)
        top = window.largest(_words(answer[:top_bytes]))
        if top is None:
            self._run.answered(None, b"")
            return None
        self.last_top = top
        self._count_question(8, 8)
        if top == 0.0:
            return self._converted(WideIntegers(*np.zeros((2, rows.shape[1]), np.uint64)), 0)
        self._count_question(16 * rows.shape[1], 16 * rows.shape[1])
        return self._converted(*guesses.total(top, WideIntegers.from_bytes(answer[top_bytes:])))

    def _converted(self, total: WideIntegers, scale: int) -> Array:
        """The totals as numbers, after they are part of the history."""
        self._run.answered(scale, total.to_bytes())
        self.restarted, self.restarts = 0.0, 0
        if self.place.answers is not None:
            self.place.answers.record(scale, total.to_bytes())
        return exact_sum.numbers(total, scale)

    @property
    def _run(self) -> Exchange:
        assert self.questions is not None, "the sites have not agreed on a run"
        return self.questions

    def _added(
        self, own: bytes, plus: Callable[[bytes, bytes], bytes], kind: str, at: bytes = b"", scales: bytes = b""
    ) -> bytes:
        """The sum of all sites' masked vectors: after all pledges all sites get all vectors, and then add them."""
        run = self._run
        if self.size * len(own) > SPREAD_BYTES:
            run.unpledged(kind, at, scales, len(own))
            return super()._ask(own, plus)
        vectors = self._spread(run.reveal(self._spread(run.pledge(kind, at, scales, own))))
        return reduce(plus, run.confirmed(self._spread(run.vectors(vectors))))

    def _collect(self, own: bytes, discloses: str) -> list[bytes]:
        """The parts of all sites, signed. The log shows what the question discloses."""
        if discloses == ROWS_OF_DATA and not self.rows_allowed:
            raise InputError(f"this needs every row's label and score at all sites, and {self.place.name} refuses it.")
        self._asked = discloses
        run = self.questions  # None: the agreement on a run, which signs itself
        parts = self._spread(own) if run is None else run.parts(self._spread(run.part(own)))
        self._asked = TOTALS
        return parts

    def _loaded(self, rank: int, part: bytes) -> Any:
        if len(part) > MOST_SHARED:
            found = f"{self.called(rank)} sent {len(part)} bytes"
            raise NetworkError(f"{found} where {MOST_SHARED} are allowed at most: report this.")
        return super()._loaded(rank, part)

    def _ask(self, own: bytes, merge: Callable[[bytes, bytes], bytes]) -> bytes:
        """The largest of all sites' numbers, which are not hidden."""
        return reduce(merge, self._run.parts(self._spread(self._run.part(own, OF_LARGEST, len(own)))))

    def _spread(self, own: bytes) -> list[bytes]:
        """Everybody's part goes to everybody on the shortest way: it takes as many hops as the graph is wide.

        Up a tree and down again it would take up to twice as many.
        """
        parts, routes, here = {self.rank: own}, self.routes, self.rank
        for hop in range(routes.setup):
            for peer in self.placement.peers:
                if due := routes.due(here, peer, hop):
                    self.send(peer, b"".join(PARCEL.pack(n, len(parts[n])) + parts[n] for n in due), QUESTIONS)
            for peer in self.placement.peers:
                if due := routes.due(peer, here, hop):
                    parts |= unpacked(self.receive(peer, QUESTIONS), due, self.called(peer))
        return [parts[rank] for rank in range(self.size)]

    def called(self, rank: int) -> str:
        return self.place.members[rank].name


def _guesses(width: int) -> int:
    """How many scales of a masked sum of so many numbers are tried at once."""
    return min(MOST_GUESSES, GUESS_BYTES // (16 * width)) if width else 0


def bytes_of_spread_sums(sites: int, sizes: Sequence[int]) -> int:
    """What sums of so many numbers bring into a site at most, if all parts go to all sites and no scale is guessed."""
    scale, each = 8 * (WHOLE_WINDOW.size + 2), 3 * (SIGNATURE_BYTES + PARCEL.size) + 2 * HASH_BYTES
    guessed = [count * (16 * m + 8) + 16 for m in sizes if (count := _guesses(m))]
    return (sites - 1) * (sum(guessed) + sum(scale + 16 * m + 3 * each for m in sizes))


def _plus(a: bytes, b: bytes) -> bytes:
    return WideIntegers.from_bytes(a).plus(WideIntegers.from_bytes(b)).to_bytes()


def _content(rows: Array | SparseRows) -> bytes:
    parts = (rows.values, rows.columns) if isinstance(rows, SparseRows) else (rows,)
    return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


def _words(data: bytes) -> Words:
    return np.frombuffer(data, "<u8").astype(np.uint64)


def _bytes(words: Words) -> bytes:
    return words.astype("<u8").tobytes()


def _plainly(error: BaseException) -> str:
    """Why this site leaves, for the others: a sentence without its notes, and nothing of an unforeseen error."""
    if isinstance(error, InputError | NetworkError):
        return printable(str(error))
    if isinstance(error, OSError):  # whose sentence names a file here
        return "it cannot read or write a file."
    return "it was stopped." if isinstance(error, KeyboardInterrupt | SystemExit) else "it failed."
