"""A member that tells different sites different things: both honest sites end within one question, without a total."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import numpy as np
import pytest
from local_sites import STUDY, Sites
from queues import side_by_side

import dsba
from dsba.network.exact_sum import WideIntegers, integers, numbers
from dsba.network.tls.masks import Agreement, Masks
from dsba.network.tls.protocol import PHASES, Ending, Event, Exchange, Phase, signed_part
from dsba.network.tls.site_network import SiteNetwork
from dsba.network.tls.transcript import Newcomer, Transcript, beginning
from dsba.network.transport import PARCEL

SCALE = -100
ROWS = [np.array([[1.0, 2.0]]), np.array([[10.0, 20.0]]), np.array([[100.0, 200.0]])]


class Triple:
    """Three sites without sockets; what each one hears may be changed on the way: ``twist(step, to, messages)``."""

    def __init__(self, sites, twist=lambda step, to, messages: messages, nonces=None):
        self.twist, self.step, self.converted = twist, 0, [0, 0, 0]
        halves = [Agreement() for _ in range(3)]
        self.exchanges, self.masks = [], []
        for rank in range(3):
            heard = nonces[rank] if nonces else [b"0" * 32] * 3
            roster = [
                Newcomer(one.name, one.certificate, halves[n].public, heard[n], "", "", b"")
                for n, one in enumerate(sites.members)
            ]
            transcript = Transcript(beginning(STUDY, "1", 1, roster))
            secrets = {n: halves[rank].secret(halves[n].public, "x") for n in range(3) if n != rank}
            self.masks.append(Masks(rank, secrets, STUDY, transcript))
            self.exchanges.append(Exchange(rank, sites.members, sites.keys[rank].sign, transcript))

    def all(self, work):
        """``work(rank)`` at every site: its result, or the sentence of its end."""
        found = []
        for rank in range(3):
            try:
                found.append(work(rank))
            except dsba.NetworkError as error:
                found.append(error)
        return found

    def _spread(self, made):
        """What the sites hear of each other; an error is heard as silence, and ends whoever waits."""
        self.step += 1
        if any(isinstance(one, Exception) for one in made):
            return [[b""] * 3] * 3
        return [self.twist(self.step, to, list(made)) for to in range(3)]

    def share(self, values):
        heard = self._spread(self.all(lambda n: self.exchanges[n].part(values[n])))
        return self.all(lambda n: self.exchanges[n].parts(heard[n]))

    def sum(self):
        def pledged(n):
            vector = self.masks[n].hide(integers(ROWS[n], SCALE)).to_bytes()
            return self.exchanges[n].pledge("sum", b"", b"", vector)

        pledges = self._spread(self.all(pledged))
        shown = self._spread(self.all(lambda n: self.exchanges[n].reveal(pledges[n])))
        held = self._spread(self.all(lambda n: self.exchanges[n].vectors(shown[n])))
        return self.all(lambda n: self._read(n, held[n]))

    def _read(self, n, messages):
        total = WideIntegers(*np.zeros((2, 2), np.uint64))
        for vector in self.exchanges[n].confirmed(messages):
            total = total.plus(WideIntegers.from_bytes(vector))
        self.exchanges[n].answered(SCALE, total.to_bytes())
        self.converted[n] += 1
        return numbers(total, SCALE).tolist()


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    return Sites(tmp_path_factory.mktemp("keys"), 3)


STEPS = 3  # of a sum: pledges, vectors, and that all have them


def ended(found):
    """At both honest sites."""
    assert all(isinstance(one, dsba.NetworkError) for one in found[:2]), found


def test_honest_sites_add_the_same_total(sites):
    triple = Triple(sites)
    for _ in range(3):
        assert triple.sum() == [[111.0, 222.0]] * 3
        assert triple.share([b"a", b"bb", b""]) == [[b"a", b"bb", b""]] * 3
    assert len({one.transcript.history for one in triple.exchanges}) == 1


def test_different_histories_have_masks_that_do_not_cancel(sites):
    """Without signatures: the total of sites with another T is noise."""
    triple = Triple(sites, nonces=[[b"0" * 32] * 3, [b"0" * 32] * 3, [b"0" * 32, b"0" * 32, b"1" * 32]])
    parts = [triple.masks[n].hide(integers(ROWS[n], SCALE)) for n in range(3)]
    total = numbers(parts[0].plus(parts[1]).plus(parts[2]), SCALE)
    assert not np.isclose(total, [111.0, 222.0]).any()
    assert abs(total).max() > 1e3


def test_different_start_up_answers(sites):
    """The third site showed the first two different nonces: nothing is revealed."""
    triple = Triple(sites, nonces=[[b"0" * 32] * 3, [b"0" * 32, b"0" * 32, b"1" * 32], [b"0" * 32] * 3])
    ended(triple.sum())
    assert triple.converted == [0, 0, 0]


def test_an_end_is_believed_if_all_sites_signed_it(sites):
    """Not without one of them, not for another result, and not after different histories."""
    triple = Triple(sites)
    triple.share([b'"a digest"'] * 3)
    said = json.loads(json.dumps(triple.exchanges[0].ending("a digest")))
    assert Ending.read(said, sites.members).result == "a digest"
    other = Triple(sites, nonces=[[b"1" * 32] * 3] * 3)
    other.share([b'"a digest"'] * 3)
    elsewhere = json.loads(json.dumps(other.exchanges[0].ending("a digest")))
    result, question, signatures = said
    for rank in range(3):
        mixed = [*signatures[:rank], elsewhere[2][rank], *signatures[rank + 1 :]]
        with pytest.raises(ValueError, match=f"site{rank} has not signed the end"):
            Ending.read([result, question, mixed], sites.members)
    for odd in (["another", question, signatures], [result, elsewhere[1], signatures], [result, question, []]):
        with pytest.raises(ValueError, match=r"has not signed|shorter"):
            Ending.read(odd, sites.members)


def liar_signs(sites, question, part):
    return sites.keys[2].sign(signed_part(question, 2, part)) + part


def test_different_facts(sites):
    """A member signs two parts. Both are right by themselves, and the next sum ends before any vector is sent."""

    def twist(step, to, messages):
        if step == 1 and to == 1:
            messages[2] = liar_signs(sites, triple.exchanges[1].transcript.open, b"another step")
        return messages

    triple = Triple(sites, twist)
    assert triple.share([b"", b"", b"a step"])[1] == [b"", b"", b"another step"]
    ended(triple.sum())
    assert triple.converted == [0, 0, 0]


@pytest.mark.parametrize("when", ["pledge", "vector"])
def test_different_parts(when, sites):
    """The member makes a second masked vector for the second site, with everything signed as it must be."""

    def twist(step, to, messages):
        if to == 1 and step == 1 and when == "pledge":
            messages[2] = other.exchanges[2].pledge("sum", b"", b"", vector(other))
        if to == 1 and step == 2:
            messages[2] = messages[2][:-1] + bytes([messages[2][-1] ^ 1])
        return messages

    def vector(of):
        return of.masks[2].hide(integers(7 * ROWS[2], SCALE)).to_bytes()

    other = Triple(sites)
    triple = Triple(sites, twist)
    other.exchanges[2].transcript.history = triple.exchanges[2].transcript.history
    ended(triple.sum())
    assert triple.converted == [0, 0, 0]
    ended(triple.sum())
    assert triple.converted == [0, 0, 0]


@pytest.mark.parametrize("shown", [b"", b"wrong"])
def test_a_last_word_that_one_site_does_not_get_is_a_drop_out(shown, sites):
    """One site ends without the total. The other one has the total that the pledges had fixed, and no further one.

    So a wrong last word is worth as much as silence, which no number of further exchanges could forbid: the last
    message of any of them may be kept from one site.
    """

    def twist(step, to, messages):
        if step == STEPS and to == 1:
            messages[2] = shown and messages[2][:-1] + bytes([messages[2][-1] ^ 1])
        return messages

    triple = Triple(sites, twist)
    found = triple.sum()
    assert isinstance(found[1], dsba.NetworkError)
    assert found[0] == Triple(sites).sum()[0] == [111.0, 222.0]
    assert triple.converted == [1, 0, 1]
    for question in (triple.sum, lambda: triple.share([b"a", b"b", b"c"])):
        ended(question())
    assert triple.converted == [1, 0, 1]


def test_a_replayed_question_is_refused(sites):
    """All messages of the first sum, sent again for the second one."""
    seen = {}

    def twist(step, to, messages):
        seen[step, to] = list(messages)
        return seen[step - STEPS, to] if step > STEPS else messages

    triple = Triple(sites, twist)
    assert triple.sum() == [[111.0, 222.0]] * 3
    ended(triple.sum())
    assert triple.converted == [1, 1, 1]


WAYS = {
    "start-up": lambda net: net.sum(np.ones((1, 3))),
    "parts": lambda net: net.share("a step", discloses="totals"),
    "largest": lambda net: net.largest(np.arange(2.0)),
    "sum": lambda net: net.sum(np.ones((1, 3))),
    "information": lambda net: (net.about("information", np.zeros(3)), net.sum(np.ones((1, 3)))),
    "levels": lambda net: net.sum(np.full((1, 3), 1e200)),  # no scale near the usual one is right
}


class TwoTongued(SiteNetwork):
    """Over real lines: its first message of a kind is another one for the first site, signed as it must be."""

    way, lies = "", 0

    def send(self, peer, message, purpose):
        if peer == 0 and not self.lies and (other := self.vector(message) or self.other()):
            self.lies += 1
            message = PARCEL.pack(self.rank, len(other)) + other
        super().send(peer, message, purpose)

    def other(self):
        run = self.questions
        if run is None:
            return self.start_up() if self.way == "start-up" else b""
        question = run.transcript.open
        if question is None or question.kind != self.way:
            return b""
        if run.phase is Phase.ASKED:
            part = b'"another step"' if self.way == "parts" else np.arange(2.0)[::-1].tobytes()
            return self.place.sign(signed_part(question, self.rank, part)) + part
        double = Exchange(self.rank, self.place.members, self.place.sign, Transcript(question.before))
        double.transcript.number = question.number
        return double.pledge(question.kind, question.at, question.scales, bytes(question.length))

    def vector(self, message):
        """Another vector than the one that was pledged."""
        run, question = self.questions, self.questions and self.questions.transcript.open
        if self.way != "vector" or run is None or run.phase is not Phase.REVEALED or question.kind != "sum":
            return b""
        return message[PARCEL.size : -1] + bytes([message[-1] ^ 1])

    def start_up(self):
        """Another nonce than the one that the other site gets."""
        said = Newcomer("", b"", Agreement().public, bytes(32), "", "", b"")
        own = {"nonce": said.nonce.hex(), "key": said.key.hex(), "data": "", "policy": ""}
        own["signature"] = self.place.sign(said.agreed(self.place.study, self.joined, self.rank)).hex()
        return json.dumps(own).encode()


@pytest.mark.parametrize("way", WAYS)
def test_two_tongues_over_real_lines(way, tmp_path, monkeypatch):
    """Both honest sites end within one question, and no total is converted."""
    sites, converted = Sites(tmp_path, 3), []
    monkeypatch.setattr("dsba.network.exact_sum.numbers", lambda *given: converted.append(given))
    monkeypatch.setattr(TwoTongued, "way", way)

    def one(rank):
        try:
            with (TwoTongued if rank == 2 else SiteNetwork)(
                dsba.Topology.ring(3), sites.place(rank), patience=30
            ) as net:
                nets.append(net)
                return net.run(lambda: (WAYS[way](net), net.sum(np.ones((1, 3)))))
        except Exception as error:
            return error

    nets = []
    found = side_by_side(3, one)
    assert sum(net.lies for net in nets if isinstance(net, TwoTongued)) == 1
    ended(found)
    assert any("not signed for this question" in str(end) for end in found[:2]), found
    assert not converted


def test_a_wrong_vector_over_real_lines(tmp_path, monkeypatch):
    """The site that gets it ends at once, and the other one as well: it adds nothing before all have all vectors."""
    sites, converted = Sites(tmp_path, 3), [[], [], []]
    monkeypatch.setattr(TwoTongued, "way", "vector")

    def one(rank):
        def work():
            for _ in range(3):
                converted[rank].append(net.sum(ROWS[rank]).tolist())

        try:
            with (TwoTongued if rank == 2 else SiteNetwork)(
                dsba.Topology.ring(3), sites.place(rank), patience=30
            ) as net:
                return net.run(work)
        except Exception as error:
            return error

    found = side_by_side(3, one)
    ended(found)
    assert "site2" in str(found[0]), found
    assert "No total was read" in str(found[0])
    assert converted == [[], [], []]


def mutated(rng, message):
    """Another message: bits, lengths, fields exchanged; some of it looks right."""
    way = rng.randrange(6)
    if way == 0 and message:
        at = rng.randrange(len(message))
        return message[:at] + bytes([message[at] ^ (1 << rng.randrange(8))]) + message[at + 1 :]
    if way == 1:
        return message[: rng.randrange(len(message) + 1)]
    if way == 2:
        return message + rng.randbytes(rng.choice([1, 8, 16, 64]))
    if way == 3:
        return message[64:] + message[:64]
    if way == 4:
        return rng.randbytes(len(message))
    return message[:64] + rng.randbytes(len(message) - 64)


def one_mutation(sites, seed):
    """A question of each kind with one message of the liar changed for one or both of the others."""
    rng = random.Random(seed)
    chosen, listeners = rng.randrange(1, 2 * STEPS + 2), rng.choice([[0], [1], [0, 1]])
    made = {}

    def twist(step, to, messages):
        if step == chosen and to in listeners:
            while made.get(0, messages[2]) == messages[2]:  # a cut at the end, or a random byte, may change nothing
                made[0] = mutated(rng, messages[2])
            messages[2] = made[0]
        return messages

    triple = Triple(sites, twist)
    answers = [triple.sum(), triple.share([b"x", b"y", b"z"]), triple.sum()]
    return [answer[:2] for answer in answers], chosen


def no_harm(sites, seeds):
    """Where one site ends in a sum, neither has its total, but for a last word that was kept from one of them."""
    for seed in seeds:
        answers, chosen = one_mutation(sites, seed)
        for question, (one, other) in enumerate(answers):
            ends = [isinstance(one, Exception), isinstance(other, Exception)]
            assert any(ends) or one == other, seed
            last_word = chosen in (STEPS, 2 * STEPS + 1)
            assert all(ends) or not any(ends) or question == 1 or last_word, seed
        for before, after in pairwise(answers):  # whoever has ended has ended
            for then, now in zip(before, after, strict=True):
                assert not isinstance(then, Exception) or isinstance(now, dsba.NetworkError), seed
        assert any(isinstance(one, dsba.NetworkError) for one in answers[-1]), seed


def test_mutated_contributions(sites):
    no_harm(sites, range(100))


@pytest.mark.full
def test_10000_mutated_contributions(sites):
    no_harm(sites, range(100, 10_100))


WAITING = (Phase.ASKED, Phase.PLEDGED, Phase.REVEALED, Phase.HELD)  # for the messages of all sites


def drive(sites, events, seed):
    """Random events in any order: the phase is always one of the table, and from ENDED none leads anywhere."""
    rng, exchange, ends, last, seen = random.Random(seed), None, 0, b"", set()
    names = list(Event)
    junk = [b"", bytes(64), bytes(96), rng.randbytes(160)]
    key = sites.keys[0].sign
    for _ in range(events):
        if exchange is None or rng.random() < 0.1:
            exchange = Exchange(0, sites.members[:1], key, Transcript(rng.randbytes(32)))
        before = exchange.phase
        due = [event for phase, event in PHASES if phase is before]
        event = rng.choice(due if due and rng.random() < 0.5 else names)
        right = rng.random() < 0.7
        last = happen(exchange, event, [last] if right and before in WAITING
                      else [rng.choice(junk)], rng)  # fmt: skip
        wanted = PHASES.get((before, event), Phase.ENDED)
        assert exchange.phase in (wanted, Phase.ENDED), (before, event)
        assert before is not Phase.ENDED or exchange.phase is Phase.ENDED
        ends += exchange.phase is Phase.ENDED
        seen.add(exchange.phase)
    assert 0 < ends < events
    assert seen == set(Phase)


def happen(exchange, event, messages, rng):
    """What the event makes, which may be the next message; b"" after an error."""
    vector = rng.randbytes(32)
    does = {
        Event.PART: lambda: exchange.part(vector),
        Event.PARTS: lambda: exchange.parts(messages),
        Event.PLEDGE: lambda: exchange.pledge("sum", b"", b"", vector),
        Event.REVEAL: lambda: exchange.reveal(messages),
        Event.VECTORS: lambda: exchange.vectors(messages),
        Event.CONFIRMED: lambda: exchange.confirmed(messages),
        Event.UNPLEDGED: lambda: exchange.unpledged("sum", b"", b"", 32),
        Event.ANSWERED: lambda: exchange.answered(SCALE, vector),
    }
    try:
        made = does[event]()
    except dsba.NetworkError:
        return b""
    return made if isinstance(made, bytes) else b""


def test_random_events_have_defined_phases(sites):
    drive(sites, 10_000, 0)


@pytest.mark.full
def test_1000000_random_events_have_defined_phases(sites):
    drive(sites, 1_000_000, 1)


@pytest.mark.parametrize("point", [bytes(32), (1).to_bytes(32, "little")])
def test_keys_without_a_secret_are_refused(point):
    """X25519 with points of small order gives zero."""
    with pytest.raises(dsba.NetworkError, match="a key that gives no secret"):
        Agreement().secret(point, "site2")
