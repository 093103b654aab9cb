"""Nothing is answered twice with other numbers: a member that makes sites start again learns no new total."""

from __future__ import annotations

import numpy as np
import pytest
from local_sites import Sites
from queues import side_by_side

import dsba
from dsba.algorithms.newton import INFORMATION
from dsba.network.tls.answers import Answers
from dsba.network.tls.site_network import SiteNetwork
from dsba.network.tls.transcript import Begun, Newcomer

PATH = dsba.Topology.path(3)


def begun(epoch, data="abc"):
    roster = [Newcomer(f"site{n}", b"", b"", b"", one, "", b"") for n, one in enumerate(data)]
    return Begun("1", epoch, True, tuple(roster))


class Site:
    """What one site keeps on its disk; ``start`` is a new process there."""

    def __init__(self, **limits):
        self.lines, self.epoch, self.limits = [], 0, limits

    def start(self, data="abc"):
        self.epoch += 1
        answers = Answers(lambda part: part.hex(), self.lines.append, list(self.lines), **self.limits)
        answers.began(begun(self.epoch, data))
        return answers


def ask(answers, at, own=b"own", total=b"total"):
    answers.asked(INFORMATION, at, own)
    answers.record(-90, total)


def test_the_same_answers_after_a_restart_add_nothing():
    site = Site()
    for _ in range(3):
        answers = site.start()
        for at in (b"z0", b"z1", b"z1"):  # one point may be asked about twice
            ask(answers, at)
    assert [line for line in site.lines if "begun" not in line] == site.lines[1:5]
    assert sum("begun" in line for line in site.lines) == 3


def test_a_question_is_written_down_before_it_is_answered():
    site = Site()
    answers = site.start()
    assert site.lines == []  # nothing was summed: this start tells nothing
    answers.asked(INFORMATION, b"z0", b"own")
    assert [*map(list, site.lines)] == [["begun", "data"], ["asked", "own", "numbers"]]


@pytest.mark.parametrize("when", [0, 1, 2])
def test_another_own_part_is_not_sent(when):
    """A member made the sites agree on other columns after the restart."""
    site = Site()
    first = site.start()
    for at in (b"z0", b"z1", b"z2"):
        ask(first, at)
    again = site.start()
    for place, at in enumerate((b"z0", b"z1", b"z2")):
        if place == when:
            written = list(site.lines)
            with pytest.raises(dsba.InputError, match="Nothing was sent"):
                again.asked(INFORMATION, at, b"other")
            assert site.lines[len(written) :] == ([{"begun": 2, "data": ["a", "b", "c"]}] if when == 0 else [])
            return
        ask(again, at)


def test_another_total_is_not_read():
    site = Site()
    ask(site.start(), b"z0")
    with pytest.raises(dsba.NetworkError, match=r"a site has changed its part\. The total was not read"):
        ask(site.start(), b"z0", total=b"other")


def test_a_site_with_other_data_is_named():
    site = Site()
    ask(site.start(), b"z0")
    with pytest.raises(dsba.NetworkError, match="the data of site2 changed since the run began"):
        site.start("abx")


def test_starts_are_limited():
    site = Site()
    for _ in range(3):
        site.start().asked("sum", b"", b"")
    with pytest.raises(dsba.InputError, match="has begun 3 times and did not end, and this site allows 3 starts"):
        site.start()
    site.limits = {"starts": 4}
    site.start()


def test_points_are_limited_over_all_starts():
    """A member whose every start leads elsewhere, after a total that nobody had read before."""
    site = Site(starts=100)
    for start in range(8):
        answers = site.start()
        ask(answers, b"z0")
        for step in range(2):
            if start < 7:
                ask(answers, f"{start} {step}".encode())
    with pytest.raises(dsba.InputError, match="at 15 points, restarts included, and this site allows 15"):
        ask(answers, b"another")
    assert sum("told" in line for line in site.lines) == 15


@pytest.mark.parametrize(("rows", "columns", "most"), [(60, 8, 4), (47, 3, 5), (1000, 1, 15)])
def test_the_numbers_told_are_at_most_half_of_the_others_cells(rows, columns, most):
    """K ((p + 1) (p + 2) / 2 + p + 1) <= p (n - n_own) / 2, over all starts. A question counts once."""
    site, q = Site(starts=100), columns + 1
    told = q * (q + 1) // 2 + q
    assert most == min(15, columns * rows // 2 // told)

    def start_to(point):
        answers = site.start()
        answers.tells_of(q, columns * rows)
        for at in range(point + 1):
            answers.asked(INFORMATION, np.full(q, at, "<f8").tobytes(), b"own", told)

    for point in range(most):
        start_to(point)
    with pytest.raises(dsba.InputError, match=r"would tell \d+ numbers of the rows|at 15 points"):
        start_to(most)
    assert most == sum("asked" in line for line in site.lines)


def test_a_model_of_too_few_rows_is_refused_before_its_first_sum():
    answers = Site().start()
    answers.tells_of(9, 8 * 27)  # two points of 54 numbers, and 108 are half of the cells
    with pytest.raises(dsba.InputError, match=r"would tell 108 numbers .* Use fewer columns or more rows"):
        answers.tells_of(9, 8 * 26)
    site = Site(told=1.0)
    site.start().tells_of(9, 8 * 26)
    site.start().tells_of(1, 0)  # an intercept alone
    assert site.lines == []


def test_a_second_matrix_is_counted_and_sums_over_risk_sets_are_not():
    for told, numbers in ((9, 9), (15, 15), (500, 15)):  # of 3 coefficients: one matrix, two, and risk sets
        site = Site()
        site.start().asked(INFORMATION, bytes(24), b"own", told)
        assert site.lines[-1]["numbers"] == numbers


def test_two_questions_at_one_point_keep_their_order():
    site = Site()
    for _ in range(2):
        answers = site.start()
        for own in (b"one", b"two", b"one"):
            ask(answers, b"z0", own, own)
    assert sum("asked" in line for line in site.lines) == 2
    with pytest.raises(dsba.InputError, match="Nothing was sent"):
        ask(site.start(), b"z0", b"two")


def kept_by(sites, lines, rank, **limits):
    answers = Answers(sites.keys[rank].commitment, lines[rank].append, list(lines[rank]), **limits)
    return sites.place(rank, data=f"rows of {rank}", answers=answers)


def run(sites, lines, parts, liar=SiteNetwork, steps=3):
    """Three sites whose next point is their last total; ``parts[rank](z)`` are their parts."""

    def work(net):
        z, seen = np.zeros(2), []
        for _ in range(steps):
            net.about(INFORMATION, z)
            z = net.sum(parts[net.rank](z)[None])
            seen.append(z.tolist())
        return seen

    def one(rank):
        try:
            with (liar if rank == 2 else SiteNetwork)(PATH, kept_by(sites, lines, rank), patience=30) as net:
                return net.run(lambda: work(net))
        except Exception as error:
            return error

    return side_by_side(3, one)


def honest(rank):
    return lambda z: np.cos(z) + rank


class Forgetful(SiteNetwork):
    """It keeps no account of its own answers."""

    def __init__(self, topology, place, **options):
        super().__init__(topology, place, **options)
        object.__setattr__(self.place, "answers", None)


@pytest.mark.parametrize("step", [0, 2])
def test_a_member_that_restarts_with_another_part_gets_no_total(step, tmp_path, monkeypatch):
    """Fork by restart: the run ends at both honest sites within the question, before a total becomes numbers."""
    sites, lines, parts = Sites(tmp_path, 3), [[], [], []], [honest(rank) for rank in range(3)]
    first = run(sites, lines, parts)
    assert first[0] == first[1] == first[2]
    count = iter(range(9))
    parts[2] = lambda z: honest(2)(z) + (next(count) == step)
    converted, numbers = [], dsba.network.exact_sum.numbers
    monkeypatch.setattr("dsba.network.exact_sum.numbers", lambda *one: converted.append(one) or numbers(*one))
    before = [list(one) for one in lines[:2]]
    for end in run(sites, lines, parts, Forgetful)[:2]:
        assert isinstance(end, dsba.NetworkError)
        assert "a site has changed its part" in str(end)
    assert len(converted) <= 3 * step + 1  # the liar itself may read its last one
    assert all(
        [line for line in now if "begun" not in line] == then[1:] for now, then in zip(lines, before, strict=False)
    )


def test_a_run_that_starts_again_as_it_was_has_the_same_totals(tmp_path):
    """Also where the first start was broken off: then it goes on to new points."""
    sites, lines, parts = Sites(tmp_path, 3), [[], [], []], [honest(rank) for rank in range(3)]
    short = run(sites, lines, parts, steps=2)
    whole = run(sites, lines, parts)
    assert whole[0] == whole[1] == whole[2]
    assert whole[0][:2] == short[0]
