"""What is told before a run is a bound of what the run moves: rounds and bytes into the busiest site, on five sites."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT
from queues import together
from registered_models import FIVE, GUARDED, REGISTERED, Registered, own_sites, table

import dsba
from dsba.data.table_files import open_table
from dsba.fitting.spec import FitSpec
from dsba.network import Simulator
from dsba.tables import disclosure
from dsba.tables import fit as tables
from dsba.tables.elastic_net import path_of
from dsba.tables.expected_cost import column_names
from dsba.tables.models import MODELS
from dsba.tables.survival import curves_of
from dsba.tables.terms import ModelTerms

TOLD = re.compile(r"Expected: at most (\d+) rounds and ([\d.]+) (kB|MB) into the busiest site")
SPLINE = "ns(age, df=3) + scale(bmi) + poly(years, degree=2)"
CASES = {name: case.spec() for name, case in REGISTERED.items()} | {
    "logistic": Registered("logistic", "readmitted", {}).spec(cov="HC1"),
    "linear": Registered("linear", "sbp", {}).spec(cov="site"),
    "poisson": Registered("poisson", "visits", {}).spec(exposure="years"),
    "gamma/robust": REGISTERED["gamma"].spec(exposure="years", cov="site"),
    "cox/own grid": REGISTERED["cox/strata"].spec(strata=None, cov="HC1"),
    "cap": Registered("logistic", "readmitted", {}).spec(right="cap(age*bmi) + treated", cov="HC1"),
    "product": Registered("logistic", "readmitted", {}).spec(right="age*bmi + treated", cov="HC1"),
    "spline": Registered("gamma", "cost", {}).spec(right=SPLINE),
    "splines": Registered("gamma", "cost", {}).spec(right="ns(age, df=3) + ns(bmi, df=4)"),
}
MOST_ROUNDS = 230  # of one Newton iteration at five sites on a ring
SUM_ROUNDS = 4 * FIVE.graph.tree.depth  # two questions, up the tree and down
LEAST_SHARE = 0.45  # of what was told: all that is told is used at least by this


def require_bound(told, rounds, received):
    """``told`` has the sentence, and it is neither too small nor far too large."""
    (said,) = (found for line in told if (found := TOLD.match(line)))
    bound, size = int(said[1]), float(said[2]) * (1e6 if said[3] == "MB" else 1e3)
    assert LEAST_SHARE * bound <= rounds <= bound, (told, rounds)
    assert received <= size, (told, received)
    return size


def moved(work):
    """What ``work(net, tell)`` told the first of five processes; the rounds, and the bytes into the busiest one."""

    noisy, total = [], disclosure._DesignCheck.total

    def noted(check, rows):
        noisy.append(check.group.rank)
        return total(check, rows)

    def counted(net):
        told = []
        found = work(net, told.append)
        return told, found, float(net.counts.bytes.max())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disclosure._DesignCheck, "total", noted)
        everyone = together(FIVE, 5, counted)
    rounds = everyone[0][1] + SUM_ROUNDS * noisy.count(0)  # sums with noise are told, but are not a model's rounds
    return everyone[0][0], rounds, max(received for *_, received in everyone)


@pytest.mark.parametrize("name", CASES)
def test_a_fit_moves_no_more_than_it_told(name):
    spec = CASES[name]

    def work(net, tell):
        return tables.fit_sites(own_sites(net), spec, net, notify=tell).rounds

    told, rounds, received = moved(work)
    size = require_bound(told, rounds, received)
    if spec.operator in MODELS or spec.random:  # the counters of other models begin anew when their method starts
        assert received > 0.25 * size
    if name == "gamma":
        assert set(told) & set((ROOT / "docs" / "howto" / "models.md").read_text().replace("    E", "E").splitlines())
    if spec.exposure is None and name not in ("cap", "spline", "splines"):  # these take more, with sums with noise
        assert rounds <= MOST_ROUNDS


def test_the_page_says_how_many_rounds_these_took():
    page = " ".join((ROOT / "docs" / "howto" / "models.md").read_text().split())
    said = re.search(r"random intercept took (\d+)\. A spline without knots took (\d+), also beside", page)
    one, two = (Registered("gamma", "cost", {}).spec(right=f"ns(age, df=3){more}") for more in ("", " + ns(bmi, df=3)"))
    found = []
    for spec in (CASES["random intercept"], one, two, CASES["spline"]):
        net = Simulator(FIVE)
        found.append(tables.fit_sites(own_sites(net), spec, net).rounds)
    intercept, spline = map(int, said.groups())
    assert found == [intercept, spline, spline, spline]  # all functions share their sums


@pytest.mark.parametrize(("operator", "left"), [("linear", "sbp"), ("logistic", "readmitted"), ("poisson", "visits")])
@pytest.mark.parametrize("folds", [None, 3])
def test_an_elastic_net_moves_no_more_than_it_told(operator, left, folds):
    spec = FitSpec(formula=f"{left} ~ age + bmi + treated", operator=operator)
    lambdas = np.geomspace(0.1, 0.001, 6)

    def work(net, tell):
        path_of(own_sites(net), spec, net, 1.0, lambdas, folds, tell)
        return net.rounds

    require_bound(*moved(work))


@pytest.mark.parametrize(("group", "grid"), [("1", None), ("1", GUARDED), ("treated", None)])
@pytest.mark.parametrize("strata", [None, "site"])
def test_curves_move_no_more_than_they_told(group, grid, strata):
    spec = FitSpec(formula=f"Surv(time, died) ~ {group}", operator="cox", strata=strata, grid=grid)

    def work(net, tell):
        curves_of(own_sites(net), spec, net, notify=tell)
        return net.rounds

    require_bound(*moved(work))


@pytest.mark.parametrize("name", CASES)
def test_names_of_columns_follow_from_types_and_levels(name):
    """So a study says what it costs before any table is read."""
    frame, spec = table(), CASES[name]
    terms = ModelTerms.of(spec)
    kinds = {c: "number" if frame[c].dtype.kind in "if" else tuple(sorted(set(frame[c]))) for c in terms.columns}
    found = together(FIVE, 5, lambda net: tables.fit_sites(own_sites(net), spec, net))[0]
    wanted = found.schema
    classes = len(wanted.classes or ()) if "multi" in name else 2
    names = column_names(terms, kinds, ["a", "b", "c", "d", "e"])
    assert len(names) * (classes - 1) + (name == "ordinal") * 2 == len(found.params)


def test_one_site_talks_to_nobody():
    told = []
    spec = CASES["gamma"]
    net = Simulator(dsba.Topology.complete(1))
    tables.fit_sites(own_sites(net, table().assign(site="all")), spec, net, notify=told.append)
    assert any("at most 0 rounds" in line for line in told)


@pytest.mark.parametrize(
    ("family", "size", "rounds"), [("ring", 5, 172), ("star", 20, 86), ("complete", 5, 86), ("ring", 20, 860)]
)
def test_the_rounds_that_the_pages_name(family, size, rounds, tmp_path):
    """A logistic model with six Newton steps, every site a process; README.md and docs/howto/hospitals.md."""
    rng, files = np.random.default_rng(0), [tmp_path / f"site{place:02}.csv" for place in range(size)]
    for file in files:
        frame = pd.DataFrame({"age": rng.integers(20, 90, 200), "crp": rng.normal(size=200)})
        frame["sex"] = rng.choice(["F", "M"], 200)
        score = 0.05 * (frame["age"] - 55) + 0.4 * (frame["sex"] == "M")
        frame["y"] = np.where(rng.random(200) < 1 / (1 + np.exp(-score)), "yes", "no")
        frame.to_csv(file, index=False)
    spec = FitSpec(formula="y ~ age + crp + C(sex)", graph=family)

    def one(net):
        file = files[net.rank]
        return tables.train_own({file.stem: open_table(file)}, spec, net, notify=lambda sentence: None)

    found = together(spec.topology(size), size, one)
    assert found[0].model.run.message.startswith("6 Newton steps, ")
    assert {results.rounds for results in found} == {rounds}
