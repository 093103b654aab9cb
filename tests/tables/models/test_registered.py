"""What holds for every model because it is registered: bits on all networks, splits, weights, few rounds, refusals."""

from __future__ import annotations

import json
import sys
from functools import cache

import numpy as np
import pytest
import registered_models
from local_sites import Sites
from mpi import mpiexec, needs_mpi
from queues import together
from registered_models import FIVE, REGISTERED, answers, fitted, table

import dsba
from dsba.network import Simulator
from dsba.network.tls.replay import RecordedNetwork
from dsba.tables.models import MODELS

every = pytest.mark.parametrize("name", REGISTERED)
newton = pytest.mark.parametrize("name", [name for name, case in REGISTERED.items() if case.operator in MODELS])
MOST_ROUNDS = 230


@cache
def simulated():
    return answers(Simulator(FIVE))


def require_same(everyone):
    """Every process has the simulator's bits, and no model of one Newton iteration takes more rounds than it may."""
    for found in everyone:
        assert found.keys() == simulated().keys()
        assert [name for name, bits in simulated().items() if found[name][:2] != bits[:2]] == []
        rounds = {name: said[2] for name, said in found.items() if len(said) > 2}
        many = {name: count for name, count in rounds.items() if count > MOST_ROUNDS}
        assert many == {}


def test_five_threads_have_the_bits_of_one_process():
    require_same(together(FIVE, 5, answers))


def test_five_sites_over_tls_have_the_bits_of_one_process(tmp_path):
    """And so has the record of their totals, with other rows: nothing of a site's own rows but the sums is used."""
    sites, records = Sites(tmp_path, 5), [[] for _ in range(5)]
    places = [sites.place(rank, keep=records[rank].append) for rank in range(5)]
    require_same(sites.together(FIVE, answers, places))
    begun, *record = records[0]
    assert all(lines == records[0] for lines in records)
    replay = RecordedNetwork(FIVE, 2, record, masked=begun.masked)
    require_same([answers(replay, table().groupby("site").head(9))])
    assert replay.asked == len(record)
    assert (replay.points > 50, replay.furthest) == (True, 0.0)


@needs_mpi
@pytest.mark.parametrize("ranks", [2, pytest.param(5, marks=pytest.mark.full)])
def test_ranks_of_mpi_have_the_bits_of_one_process(ranks, tmp_path):
    code, text = mpiexec(ranks, sys.executable, registered_models.__file__, tmp_path / "found.json")
    assert code == 0, text
    everyone = json.loads((tmp_path / "found.json").read_text())
    assert len(everyone) == ranks
    require_same(everyone)


def close(found, wanted):
    found, wanted = np.asarray(found), np.asarray(wanted)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-11 * np.abs(wanted).max())


@every
def test_the_split_does_not_matter(name):
    """Where the sites mean nothing, other sites and one site give the same."""
    if "site" in REGISTERED[name].options.values():
        pytest.skip("the sites are a part of this model")
    whole, frame = fitted(name, Simulator(FIVE)), table()
    for sites in (3, 1):
        there = dsba.Topology.complete(sites)
        other = fitted(name, Simulator(there), frame.assign(site=np.arange(len(frame)) % sites))
        close(other.params, whole.params)
        close(other.bse, whole.bse)


@newton
def test_a_weight_of_two_is_a_row_twice(name):
    frame = table().assign(twice=lambda f: 1.0 + (f["events"] % 2))
    if REGISTERED[name].options.get("strata", "") is not None and "cox" in name:
        frame["time"] += 1e-3 * np.arange(len(frame))  # Efron's tied rows share a mean weight
    weighted = fitted(name, Simulator(FIVE), frame, weights="twice", ties="breslow")
    twice = frame.loc[frame.index.repeat(frame["twice"].astype(int))].reset_index(drop=True)
    close(weighted.params, fitted(name, Simulator(FIVE), twice, ties="breslow").params)


@newton
def test_clusters_that_are_the_sites_give_the_errors_by_site(name):
    by_site = fitted(name, Simulator(FIVE), cov="site")
    frame = table().assign(place=lambda f: f["site"])
    close(fitted(name, Simulator(FIVE), frame, cov="cluster", clusters="place").cov_params(), by_site.cov_params())


@pytest.mark.parametrize(("name", "family"), [("gamma", "Gamma"), ("probit", "Binomial")])
def test_clusters_within_sites_against_statsmodels(name, family):
    import statsmodels.api as sm
    import statsmodels.formula.api as smf

    link = sm.families.links.Log() if name == "gamma" else sm.families.links.Probit()
    frame, case = table(), REGISTERED[name]
    model = smf.glm(f"{case.left} ~ age + bmi + treated", frame, family=getattr(sm.families, family)(link))
    codes = np.unique(frame["ward"], return_inverse=True)[1]
    theirs = model.fit(method="newton", tol=1e-14, maxiter=200, cov_type="cluster", cov_kwds={"groups": codes})
    ours = fitted(name, Simulator(FIVE), right="age + bmi + treated", cov="cluster", clusters="ward")
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-7)


@every
def test_dependent_columns_are_named(name):
    frame = table().assign(double=lambda f: 2.0 * f["age"] - f["bmi"])
    with pytest.raises(dsba.InputError, match=r"age.*(bmi|double).* weighted sum"):
        fitted(name, Simulator(FIVE), frame, right="age + bmi + double + treated")


@newton
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lam": 0.1}, "takes no penalty"),
        ({"algorithm": "extra"}, "by newton only"),
        ({"right": "age + nowhere"}, "nowhere"),
        ({"weights": "nothing"}, "weight"),
    ],
)
def test_what_no_model_can_do_is_refused(name, options, sentence):
    with pytest.raises(dsba.InputError, match=sentence):
        fitted(name, Simulator(FIVE), table().assign(nothing=0.0), **options)
