"""A member that sends what no honest one would send: the others end with a sentence, and name it where they can."""

from __future__ import annotations

import re
from itertools import count

import numpy as np
import pytest
from hospital_tables import hospitals, sites_of, terms
from local_sites import Sites
from queues import LeavingNetwork, ends_of, side_by_side

import dsba
from dsba.fitting import FitSpec
from dsba.network.contract import counted, require_agreement, summed
from dsba.network.tls.site_network import SiteNetwork
from dsba.tables.design import design_tables
from dsba.tables.fit import fit_sites

LIAR = 2
PATH = dsba.Topology.path(3)
SENTENCES = (dsba.InputError, dsba.NetworkError)
WORK = {
    "largest": lambda net: net.largest(np.arange(3.0)),
    "gather": lambda net: net.gather(np.arange(3.0), discloses="totals"),
    "share": lambda net: net.share({"rank": net.rank}, discloses="totals"),
    "sum": lambda net: net.sum(np.arange(4.0)[None, :]),
    "agreement": lambda net: require_agreement(net, {"seed": 1}),
    "mix": lambda net: net.mix(np.arange(4.0)[None, :]),
}


def spoiled(part, manner):
    made = {"empty": b"", "short": part[:-8], "odd": part[:-3], "long": part + bytes(8)}
    return made[manner] if manner in made else np.random.default_rng(0).bytes(len(part))


def lying(kind, manner, number):
    """A transport whose part number ``number`` is spoiled: of a question, or of a sum ("inf", "nan")."""

    class Liar(kind):
        def __init__(self, *args, **options):
            self.parts = count()
            super().__init__(*args, **options)

        def sum(self, rows):
            if manner in ("inf", "nan") and next(self.parts) == number:
                rows = np.full(rows.shape, float(manner))
            return super().sum(rows)

        def _part(self, own):
            return spoiled(own, manner) if manner not in ("inf", "nan") and next(self.parts) == number else own

        def _collect(self, own, discloses):
            return super()._collect(self._part(own), discloses)

        def _ask(self, own, merge):
            return super()._ask(self._part(own), merge)

        def send(self, peer, message, purpose):
            super().send(peer, self._part(message) if purpose == 1 else message, purpose)

    class LyingSite(Liar):
        """A site spoils what it spreads, after it was signed."""

        def _part(self, own):
            return own

        def _spread(self, own):
            return super()._spread(Liar._part(self, own))

    return LyingSite if issubclass(kind, SiteNetwork) else Liar


def ends(work, manner, number):
    """What becomes of ``work(network)`` at the honest sites, and how many parts the other one had."""
    liar = lying(LeavingNetwork, manner, number)
    found, nets = ends_of(
        3, lambda rank, queues: (liar if rank == LIAR else LeavingNetwork)(PATH, rank, 3, queues), work
    )
    return found[:LIAR], next(nets[LIAR].parts)


@pytest.mark.parametrize("manner", ["empty", "short", "odd", "long"])
@pytest.mark.parametrize("question", WORK)
def test_a_part_of_another_length_is_a_sentence_that_names_the_member(question, manner):
    """Before, a kernel read beyond the end of a shorter part, and its noise was a total."""
    found, _ = ends(WORK[question], manner, 0)
    if question == "gather" and manner in ("empty", "short", "long"):  # numbers of samples need not be equal
        assert {end.size for end in found} == {{"empty": 6, "short": 8, "long": 10}[manner]}
        return
    assert any(isinstance(end, dsba.NetworkError) and "rank 2 sent" in str(end) for end in found), found
    assert all(isinstance(end, SENTENCES) for end in found if isinstance(end, Exception)), found


def fitted(net):
    """A fit with held-out rows."""
    own = [sites_of(hospitals((30, 30, 30)))[net.rank]]
    spec = FitSpec(formula="cost ~ age + C(sex)", operator="linear", graph="path", test_share=0.2)
    return fit_sites(own, spec, net)


def designed(net):
    own = [sites_of(hospitals())[net.rank]]
    asked = terms("cost ~ age + C(ward) + lab + site", missing="indicator")
    return design_tables(own, asked, net)


def requires_sentences(work, manner, numbers):
    """No error of another kind, whichever part is spoiled."""
    _, parts = ends(work, manner, -1)
    for number in numbers(parts):
        found, _ = ends(work, manner, number)
        odd = [end for end in found if isinstance(end, Exception) and not isinstance(end, SENTENCES)]
        assert not odd, (manner, number, odd)


@pytest.mark.parametrize("manner", ["inf", pytest.param("noise", marks=pytest.mark.full)])
def test_whichever_part_of_an_agreement_is_spoiled_the_others_end_with_a_sentence(manner):
    requires_sentences(designed, manner, range)


def test_the_last_parts_of_a_fit_may_be_spoiled():
    """Those of the inference and the evaluation, and the iterates."""
    requires_sentences(fitted, "inf", lambda parts: range(parts - 6, parts, 2))
    requires_sentences(fitted, "empty", lambda parts: [parts - 7])


@pytest.mark.full
@pytest.mark.parametrize("manner", ["empty", "short", "odd", "long", "inf", "nan"])
def test_any_part_of_a_fit_may_be_spoiled(manner):
    requires_sentences(fitted, manner, range)


def test_a_total_that_is_no_count_is_a_sentence():
    with pytest.raises(dsba.NetworkError, match="is not a count: another process sent a wrong part"):
        counted(dsba.Simulator(PATH), np.array([[-1284648599853.0]]))
    assert counted(dsba.Simulator(PATH), np.array([[3.0, 0.0]])) == [3, 0]
    with pytest.raises(dsba.InputError, match="the sums over the rows here overflow"):
        summed(dsba.Simulator(PATH), np.array([[np.inf]]))


@pytest.mark.parametrize(
    ("manner", "sentence"),
    [
        ("empty", "site2 sent 0 bytes where"),
        ("odd", "site2 sent [0-9]+ bytes where"),
        ("inf", "a sum over all processes is not finite: another process sent a part that is no finite number"),
    ],
)
def test_masked_sums_of_sites(manner, sentence, tmp_path):
    """Masks hide whose part is infinite; whose is too short is known."""
    sites, number = Sites(tmp_path, 3), 0 if manner == "inf" else 1  # the first part agrees on a run

    def one(rank):
        kind = lying(SiteNetwork, manner, number) if rank == LIAR else SiteNetwork
        try:
            with kind(PATH, sites.place(rank), patience=60.0) as net:
                net.run(lambda: (summed(net, np.ones((1, 4))), net.share(None, discloses="totals")))
        except Exception as error:
            return error

    for end in side_by_side(3, one)[:LIAR]:
        assert isinstance(end, dsba.NetworkError)
        assert re.search(sentence, str(end))
