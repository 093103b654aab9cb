"""A member with a changed program in a whole study: what it does to the method, to the end and to the epochs."""

from __future__ import annotations

import threading
import time

import pytest
from local_sites import GIVE_UP, Sites
from queues import side_by_side
from test_other_studies import arranged
from test_study import tables, together

import dsba
from dsba.network.tls.site_network import SiteNetwork
from dsba.study import join as joining
from dsba.study.audit import AUDIT, RunState, read_log

__all__ = ["arranged", "tables"]  # fixtures
LIAR = 2


@pytest.fixture
def lying(monkeypatch):
    """Let the last site run another network."""

    def changed(kind):
        def made(topology, place, **options):
            return (kind if place.rank == LIAR else SiteNetwork)(topology, place, **options)

        monkeypatch.setattr(joining, "SiteNetwork", made)

    return changed


def made_up(chosen, *estimates):
    return {"chosen": chosen, "reason": "a plan", "estimates": estimates}


PLANS = {
    "another method": made_up(["dsba"]),
    "a batch below zero": made_up(["dsba", -5]),
    "endless rounds": made_up(["dsba", 1, None, 10**9]),
    "no rounds": made_up(["dsba", 1, None, 0]),
    "another form of an estimate": made_up(["newton"], [[["dsba"]], 1, 1, 1, 1]),
    "a method's name of another type": made_up([["dsba"]]),
    "damaged": ["chosen"],
    "a number": 7,
}


@pytest.mark.parametrize("plan", PLANS)
def test_a_member_cannot_choose_the_method(plan, arranged, lying):
    """It says that a checkpoint of its own began with another one, which would send iterates."""

    class Chooser(SiteNetwork):
        def share(self, value, *, discloses):
            if value is None:
                value = PLANS[plan]
            return super().share(value, discloses=discloses)

    lying(Chooser)
    places = arranged()
    found, _ = together(places)
    for seat, end in zip(places[:2], found, strict=False):
        sent = {event["discloses"] for event in read_log(seat.out / AUDIT) if event["event"] == "sent"}
        assert sent <= {"totals"}, (plan, sent)
        assert isinstance(end, dsba.NetworkError | dsba.InputError), end


def forged(net, result):
    """All signatures but those of the others."""
    own = net.place.sign(b"whatever").hex()
    return [result, net.questions.transcript.history.hex(), [own] * net.size]


ENDS = {
    "a digest": lambda net, result: result,
    "own signatures": forged,
    "no signatures": lambda net, result: [result, "", []],
    "other forms": lambda net, result: [{"a": 1}, 3, [None] * net.size],
    "nothing": lambda net, result: None,
}


@pytest.mark.parametrize("way", ENDS)
def test_an_end_that_not_all_sites_signed(way, arranged, lying):
    """After the last sum the liar tells the first site that the run is over, and leaves: neither site has a result."""

    class Ender(SiteNetwork):
        def finish(self, result):
            self.links[0].notify(finished=ENDS[way](self, result))
            self._wait_for(lambda: self.links[0].connection is None, list)  # it has read the notice, and left
            self.links[1].notify(farewell="cork has left the run.")
            self._wait_for(lambda: all(link.connection is None for link in self.links.values()), list)
            raise dsba.NetworkError("over.")

    lying(Ender)
    places = arranged()
    found, _ = together(places)
    assert all(isinstance(end, dsba.NetworkError) for end in found[:2]), found
    assert "cork says that the run is over, and not all sites have signed its end" in str(found[0])
    assert [RunState.read(seat.out)[0].result for seat in places[:2]] == [None, None]


def test_a_member_that_begins_anew_for_ever(tmp_path):
    """Every wait is short, because a new epoch ends it; all of them together are limited by the patience."""
    sites, over = Sites(tmp_path, 3, patience=1.0), threading.Event()

    def one(rank):
        try:
            with sites.network(dsba.Topology.path(3), rank) as net:
                if rank == LIAR:
                    return begin_anew(net, over)
                return net.run(lambda: [net.share(None, discloses="totals") for _ in range(1_000_000)])
        except dsba.NetworkError as error:
            return error
        finally:
            over.set()

    found = side_by_side(3, one)
    assert all(isinstance(end, dsba.NetworkError) for end in found[:2]), found
    assert any("restarted again and again for 1 seconds, and no sum was made" in str(end) for end in found[:2]), found


def begin_anew(net, over):
    deadline = time.monotonic() + GIVE_UP
    while not over.wait(0.02):
        assert time.monotonic() < deadline, "the others go on and on"
        with net.changed:
            net._enter(net.epoch + 1)
        for link in net.links.values():
            link.announce()
    raise dsba.NetworkError("over.")
