"""Sums whose parts are hidden by masks, between sites."""

from __future__ import annotations

import threading
from fractions import Fraction

import numpy as np
import pytest
from conformance import TOPOLOGIES, rows
from local_sites import Sites

import dsba
from dsba.network import exact_sum
from dsba.network.tls.masks import Guesses, Window
from dsba.network.tls.site_network import SiteNetwork


@pytest.fixture(autouse=True, scope="module")
def _no_thread_is_left():
    before = set(threading.enumerate())
    yield
    assert not [thread.name for thread in set(threading.enumerate()) - before]


# Secure sums -----------------------------------------------------------------------------------------


def test_masked_and_unmasked_sums_have_the_same_bits(tmp_path):
    sites, topology = Sites(tmp_path, 5), TOPOLOGIES["random"]
    parts = [rows(seed, 10.0 ** (20 * seed - 40)) for seed in range(5)] + [np.zeros((5, 3)), np.full((5, 2), 5e-324)]

    def work(net):
        return [net.sum(part[net.nodes.start : net.nodes.stop]).tolist() for part in parts]

    masked, bare = (sites.together(topology, work, masked=masked) for masked in (True, False))
    assert masked == bare == [[dsba.Simulator(topology).sum(part).tolist() for part in parts]] * 5


@pytest.mark.parametrize("lowest", [-1073, -300, -40, 0, 900])
def test_a_guessed_scale_gives_the_total_modulo_2_to_the_128_and_nothing_else(lowest):
    """Also where a number is far too large for the scale: no site's part is left out of any total."""
    parts = [rows(seed, 10.0**power) for seed, power in enumerate((-300, -12, 0, 12, 150))]
    guesses = Guesses(Window(lowest, 5), 5)
    low, high = zip(*((made.low, made.high) for made in (guesses.parts(part) for part in parts)), strict=True)
    for place, exponent in enumerate(guesses.window.exponents):
        scale = exact_sum.exponent(2.0 ** (exponent - 1), 5)
        for column in range(rows().shape[1]):
            at = place * rows().shape[1] + column
            found = sum(int(a[at]) + (int(b[at]) << 64) for a, b in zip(low, high, strict=True))
            units = Fraction(2) ** scale
            wanted = sum(round(Fraction(float(x)) / units) for part in parts for x in part[:, column])
            assert (found - wanted) % 2**128 == 0


def test_a_sum_whose_scale_is_near_the_last_one_is_one_question(tmp_path):
    """The third sum of a width is far away from the one before, and takes two more questions."""
    asked = []

    def work(net):
        found = []
        for scale in (1.0, 1e-3, 1e90, 1e89):
            before = net.masks._sums
            found.append(net.sum(scale * rows()[net.rank : net.rank + 1]).tolist())
            asked.append(net.masks._sums - before)
        return found

    everyone = Sites(tmp_path, 3).together(dsba.Topology.path(3), work)
    simulator = dsba.Simulator(dsba.Topology.path(3))
    assert everyone == [[simulator.sum(scale * rows()[:3]).tolist() for scale in (1.0, 1e-3, 1e90, 1e89)]] * 3
    assert sorted(asked) == [2] * 9 + [4] * 3


def test_nothing_that_a_site_sends_is_an_unmasked_contribution(tmp_path, monkeypatch):
    """Everything that site1 sends is read: with masks none of its parts is in there, without them they are."""
    parts = rows()[:3] * [[1.0], [1e-15], [1.0]]
    words = exact_sum.integers(parts[1:2], exact_sum.exponent(np.abs(parts).max(), 3)).low
    wanted = [word for word in (word.astype("<u8").tobytes() for word in words) if len(set(word) - {0, 255}) > 4]
    assert len(wanted) > 3

    def sent_by_site1(masked):
        messages, masks = [], []
        real_send, real_begin = SiteNetwork.send, SiteNetwork._begin

        def send(net, peer, message, purpose):
            if net.rank == 1:
                messages.append(message)
            real_send(net, peer, message, purpose)

        def begin(net):
            real_begin(net)
            if net.rank == 1 and net.masks is not None:
                net.masks.derived = lambda other, number: masks.append((net.run_id, other, number))

        def work(net):
            answers = [net.sum(parts[net.rank : net.rank + 1]).tolist() for _ in range(3)]
            if net.epoch == 1 and net.rank == 2:  # as if the site had been restarted
                with net.changed:
                    net._enter(2)
                net.lines._announce()
            return [*answers, net.sum(parts[net.rank : net.rank + 1]).tolist()]

        monkeypatch.setattr(SiteNetwork, "send", send)
        monkeypatch.setattr(SiteNetwork, "_begin", begin)
        answers = Sites(tmp_path / str(masked), 3).together(dsba.Topology.ring(3), work, masked=masked)
        monkeypatch.undo()
        assert answers[0] == answers[1] == answers[2]
        return messages, masks

    for masked in (True, False):
        (tmp_path / str(masked)).mkdir()
    hidden, masks = sent_by_site1(True)
    bare, none = sent_by_site1(False)
    for part in wanted:
        assert any(part in message for message in bare)
        assert not any(part in message for message in hidden)
    assert len({run for run, _, _ in masks}) == 2  # before and after the rejoin
    assert len(set(masks)) == len(masks) > 0
    assert not none
