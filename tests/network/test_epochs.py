"""Connections, epochs and refusals of a site as a table of states, driven by random events without sockets."""

from __future__ import annotations

import json
import random
import threading
import time
from contextlib import suppress

import numpy as np
import pytest
from local_sites import GIVE_UP, Sites, until

import dsba
from dsba.network.tls.frames import ACKNOWLEDGE, Frame, FrameError, encode
from dsba.network.tls.pinned import RefusedError
from dsba.network.tls.site_network import FinishedError, RestartedError
from dsba.network.transport import QUESTIONS

ALONE, HEARD, MET, BROKEN = "alone", "heard", "met", "broken"
"""A line has no connection or has one, and the nonce of the neighbour in this epoch is known or not."""
STATES = {(False, False): ALONE, (True, False): HEARD, (True, True): MET, (False, True): BROKEN}
SAME, OTHER, LATER, EARLIER = "same", "other", "later", "earlier"  # what a neighbour says of its epoch and nonce
TABLE = {
    # (state, what the neighbour says): (a new epoch begins here, the nonce is known then)
    (HEARD, SAME): (False, True), (HEARD, OTHER): (False, True),
    (HEARD, LATER): (True, True), (HEARD, EARLIER): (False, False),
    (MET, SAME): (False, True), (MET, OTHER): (True, False),
    (MET, LATER): (True, True), (MET, EARLIER): (False, True),
}  # fmt: skip
REFUSALS = (FrameError, ValueError, TypeError, KeyError)  # those which end a connection, and not the run


class Wire:
    """A connection that keeps what is pushed, and may break."""

    def __init__(self, rng):
        self.rng, self.sent = rng, []

    def push(self, data):
        if self.rng.random() < 0.02:
            raise ConnectionError
        self.sent.append(data)

    def close_socket(self):
        """Nothing to close."""


class Driven:
    """A site in the middle of a path that was never opened, and what random events do to it."""

    def __init__(self, sites, seed):
        self.rng = random.Random(seed)
        self.net = sites.network(dsba.Topology.path(3), 1)
        self.seen = set()
        self.said = {peer: rng_nonce(self.rng) for peer in self.net.links}
        self.events = [self.connect, self.lose, self.says, self.frame, self.sends, self.notice, self.begins]

    def state(self, link):
        return STATES[link.connection is not None, link.theirs is not None]

    def happen(self):
        net, link = self.net, self.rng.choice(list(self.net.links.values()))
        epoch, nonce, finished = net.epoch, net.nonce, net.finished
        with net.changed:
            self.rng.choice(self.events)(link)
        assert net.epoch >= epoch
        assert (net.nonce == nonce) == (net.epoch == epoch)  # a nonce is of one epoch only
        assert net.finished == finished or finished is None
        for one in net.links.values():
            assert one.epoch == net.epoch
            assert 0 <= one.acknowledged <= one.number
            assert self.state(one) in STATES.values()
            assert one.theirs is not None or (one.received, one.tag) == (0, 0)

    def connect(self, link):
        link.attach(Wire(self.rng), self.rng.choice([0, link.number, 10**9]))

    def lose(self, link):
        link.connection = None

    def says(self, link):
        """The neighbour's epoch, as a greeting or a notice tells it; the table has what follows."""
        if link.connection is None:
            return
        what = self.rng.choices([SAME, OTHER, LATER, EARLIER], [6, 1, 1, 1])[0]
        known = self.said[link.rank] if link.theirs is None else link.theirs
        nonce = known if what == SAME else rng_nonce(self.rng)
        epoch = self.net.epoch + {LATER: self.rng.randint(1, 3), EARLIER: -1}.get(what, 0)
        before, state, over = self.net.epoch, self.state(link), self.net.finished is not None
        self.net.lines._notice(link, {"begin": [epoch, nonce.hex()]} if epoch >= 0 else {})
        began, met = TABLE[state, what]
        self.seen.add((state, what))
        if over:
            assert (self.net.epoch, self.state(link)) == (before, state)
        elif epoch >= 0:
            assert self.net.epoch == (max(epoch, before + 1) if began else before), (state, what)
            assert (link.theirs is not None) == met, (state, what)
            assert not began or all(one.theirs is None for one in self.net.links.values() if one is not link)

    def frame(self, link):
        """As it is due, or a replayed, an early, a damaged one, or one of another epoch."""
        number = max(0, link.received + self.rng.choice([0, 0, 0, -1, 1]))
        received = self.rng.choice([link.acknowledged, link.number, link.number + 1])
        kind = self.rng.choice([QUESTIONS, ACKNOWLEDGE])
        data = encode(link.tag ^ (self.rng.random() < 0.1), Frame(kind, False, number, received, b"x"))
        if self.rng.random() < 0.1:
            data = data[: self.rng.randrange(len(data))]
        before, come = link.received, link.come
        try:
            link.take(data)
        except REFUSALS:
            link.connection = None
        due = link.received - before
        assert due == link.come - come  # each frame once, and in order
        assert due == 0 or (due == 1 and number == before and kind == QUESTIONS and link.theirs is not None)

    def sends(self, link):
        epoch = self.net.epoch - (self.rng.random() < 0.2)
        assert link.put(epoch, QUESTIONS, b"y", False) == (epoch == self.net.epoch)

    def notice(self, link):
        said = self.rng.choice([
            {"begin": [1]}, {"begin": [-1, "00"]}, {"begin": None}, {"begin": [1.5, "0" * 64]}, {"refused": "x\n\x00"},
            {"done": True}, {"what": 1}, {"begin": [2**70, "0" * 64]},
        ])  # fmt: skip
        before = self.net.epoch
        try:
            self.net.lines._notice(link, said)
        except REFUSALS:
            link.connection = None
        assert self.net.epoch == before

    def begins(self, link):
        """What waiting in vain would be told, by what the site knows."""
        if self.rng.random() < 0.5:
            self.net.joined = self.net.epoch
        why = self.net._disturbance()
        wanted = type(None) if self.net.joined == self.net.epoch else RestartedError
        assert type(why) is wanted
        if self.net.finished is None and self.rng.random() < 0.01:
            self.net.elsewhere = "a digest"
            assert type(self.net._disturbance()) is FinishedError
            self.net.ended = "site0 has left."
            assert type(self.net._disturbance()) is dsba.NetworkError
            self.net.elsewhere = self.net.ended = None


def rng_nonce(rng):
    return rng.randbytes(32)


def drive(sites, events, seed):
    seen = set()
    for part in range(events // 1000):
        driven = Driven(sites, seed + part)
        for _ in range(990):
            driven.happen()
        driven.net.finished = "a digest"  # all sites have the result: nothing begins anew
        for _ in range(10):
            driven.happen()
        seen |= driven.seen
    assert seen == TABLE.keys()


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    return Sites(tmp_path_factory.mktemp("keys"), 3)


def test_random_events_lead_where_the_table_says(sites):
    drive(sites, 10_000, 0)


@pytest.mark.full
def test_1000000_random_events_lead_where_the_table_says(sites):
    drive(sites, 1_000_000, 10_000)


JUNK = [None, True, -1, 0, 1.5, 2**70, "", "x", "0" * 64, [], ["a"], {}, {"a": 1}]


def mutations(sites, count, seed):
    """First messages and agreements with one field changed, removed or added: refused with a sentence, or harmless."""
    rng, net = random.Random(seed), sites.network(dsba.Topology.path(3), 1)
    link = net.links[0]
    hello = {**net.lines.hello(link), "site": "site0"}
    roster = [{"nonce": "00" * 32, "key": "11" * 32, "data": "d", "policy": "p", "signature": "22" * 64}] * 3
    for _ in range(count):
        said = dict(hello)
        said[rng.choice([*hello, "more"])] = rng.choice(JUNK)
        if rng.random() < 0.2:
            said.pop(rng.choice(list(said)))
        unfit = net.lines._unfit(rng.choice(JUNK) if rng.random() < 0.1 else json.loads(json.dumps(said)), link)
        assert unfit is None or isinstance(unfit, RefusedError)
        everyone = [dict(one) for one in roster]
        everyone[0][rng.choice([*roster[0], "more"])] = rng.choice(JUNK)
        everyone[0] = everyone[0] if rng.random() < 0.9 else rng.choice(JUNK)
        with pytest.raises(dsba.NetworkError, match=r"is damaged|is not signed"):
            net._verified(everyone)


def test_mutated_first_messages(sites):
    mutations(sites, 100, 0)


@pytest.mark.full
def test_10000_mutated_first_messages(sites):
    mutations(sites, 10_000, 1)


def test_the_same_key_at_two_places(tmp_path):
    """A second process with the key of site2: nobody gets a wrong total, and the run ends or goes on."""
    sites, found = Sites(tmp_path, 3, patience=2.0), []
    wanted = [3.0, 6.0]

    def work(net):
        for _ in range(30):
            found.append(net.sum(np.array([[1.0, 2.0]])).tolist())
            time.sleep(0.01)

    def one(rank):
        with suppress(dsba.NetworkError), sites.network(dsba.Topology.path(3), rank) as net:
            net.run(lambda: work(net))

    threads = [threading.Thread(target=one, args=(rank,)) for rank in (0, 2, 1)]
    for thread in threads:
        thread.start()
    until(lambda: len(found) >= 6 or not any(thread.is_alive() for thread in threads))
    threads.append(threading.Thread(target=one, args=(2,)))  # site2 dials and does not listen
    threads[-1].start()
    for thread in threads:
        thread.join(GIVE_UP)
    assert not any(thread.is_alive() for thread in threads)
    assert all(total == wanted for total in found)
