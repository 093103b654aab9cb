"""Baseline hazards, predicted survival and tests of proportional hazards against R's survival package."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from queues import together

import dsba
from dsba.fitting.spec import FitSpec
from dsba.tables import fit as tables
from dsba.tables.hazards import baseline_hazard, proportional_hazards
from dsba.tables.inputs import as_sites

sys.path.append(str(Path(__file__).parents[1] / "yardsticks"))
from reference_values import table, values

COX = values("cox")
FORMULA = "Surv(time, died) ~ age + sex + bmi + log(crp) + treated + stage"


def fitted(times, strata, ties):
    return dsba.fit(
        table(), FORMULA, "cox", sites="site", strata=strata, ties=ties, grid=COX["grids"].get(times)
    )  # fmt: skip


@pytest.mark.parametrize("ties", ["efron", pytest.param("breslow", marks=pytest.mark.full)])
@pytest.mark.parametrize("strata", ["site", None])
@pytest.mark.parametrize("times", ["exact", "quarters"])
def test_survival_of_r(times, strata, ties):
    wanted = COX["cases"][f"{times}/{strata or 'none'}/{ties}"]["persons"]
    hazard = fitted(times, strata, ties).baseline_hazard(table(), sites="site")
    persons = pd.DataFrame(COX["persons"])
    for n, known in enumerate(wanted.values()):
        site = persons["site"][n] if strata else None
        for scale in ("log", "log-log"):
            found = hazard.survival(persons.iloc[[n]], COX["horizons"], site=site, conf_type=scale)
            for name, value in known[scale].items():
                np.testing.assert_allclose(found[name], value, rtol=1e-9, err_msg=f"{scale} {name}")


@pytest.mark.parametrize("strata", ["site", None])
@pytest.mark.parametrize("transform", ["identity", "log"])
@pytest.mark.parametrize("times", ["exact", pytest.param("quarters", marks=pytest.mark.full)])
def test_proportional_hazards_of_r(times, strata, transform):
    wanted = COX["cases"][f"{times}/{strata or 'none'}/efron"]["zph"]["columns"][transform]
    fit = fitted(times, strata, "efron")
    found = fit.proportional_hazards_test(table(), sites="site", transform=transform)
    np.testing.assert_allclose(found["chi2"], [one["chi2"] for one in wanted.values()], rtol=1e-8)
    np.testing.assert_allclose(found["p"], [one["p"] for one in wanted.values()], rtol=1e-8)


def test_five_processes_find_the_same():
    sites, grid = as_sites(table(), "site"), tuple(COX["grids"]["guarded"])
    spec = FitSpec(formula=FORMULA, operator="cox", strata=None, grid=grid)
    alone = dsba.fit(table(), FORMULA, "cox", sites="site", strata=None, grid=grid)
    test = alone.proportional_hazards_test(table(), sites="site")
    hazard = alone.baseline_hazard(table(), sites="site").strata["all"].hazard

    def work(net):
        own = [sites[net.rank]]
        found = tables.fit_sites(own, spec, net)
        return proportional_hazards(found, own, net, "log"), baseline_hazard(found, own, net).strata["all"].hazard

    for other, cumulative in together(dsba.Topology.ring(5), 5, work):
        np.testing.assert_allclose(other["chi2"], test["chi2"], rtol=1e-9)
        np.testing.assert_allclose(cumulative, hazard, rtol=1e-12)


def test_a_stratum_of_a_site_stays_there():
    sites = as_sites(table(), "site")
    spec = FitSpec(formula="Surv(time, died) ~ age", operator="cox", strata="site")

    def work(net):
        own = [sites[net.rank]]
        with pytest.raises(dsba.InputError, match="site's own"):
            baseline_hazard(tables.fit_sites(own, spec, net), own, net)

    together(dsba.Topology.ring(5), 5, work)


def test_other_models_have_no_hazards():
    fit = dsba.fit(table(), "sbp ~ age", "linear", sites="site")
    with pytest.raises(dsba.InputError, match="Cox"):
        fit.baseline_hazard(table(), sites="site")


def lives():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=150), "site": np.repeat(["A", "B", "C"], 50)})
    return frame.assign(time=rng.integers(1, 30, 150), died=rng.integers(0, 2, 150))


def test_nobody_dies_in_a_stratum_without_events():
    frame = lives().assign(died=lambda f: f["died"] * (f["site"] != "A"))
    fit = dsba.fit(frame, "Surv(time, died) ~ x", "cox", sites="site", strata="site")
    hazard = fit.baseline_hazard(frame, sites="site")
    for scale in ("log", "log-log"):
        found = hazard.survival(frame.head(1), [5.0], site="A", conf_type=scale)
        assert found[["survival", "lower", "upper"]].to_numpy().tolist() == [[1.0, 1.0, 1.0]]


@pytest.mark.parametrize(
    ("odd", "sentence"),
    [
        ({"x": np.nan}, "x is not a finite number in some rows"),
        ({"died": 2}, "must be 0 or 1"),
        ({"died": "yes"}, "'died' of all is not a number"),
        ({"died": 0}, "no row of the table has an event"),
    ],
)
def test_rows_that_no_model_was_fitted_to_have_no_hazards(odd, sentence):
    """Missing values were called numbers that overflow, a 2 was an event, and texts ended with a traceback."""
    fit = dsba.fit(lives(), "Surv(time, died) ~ x", "cox", strata=None)
    for ask in (fit.baseline_hazard, fit.proportional_hazards_test):
        with pytest.raises(dsba.InputError, match=sentence):
            ask(lives().assign(**odd))


def test_the_logarithm_of_an_event_at_0_is_named():
    frame = lives().assign(time=lambda f: f["time"] - 1)
    fit = dsba.fit(frame, "Surv(time, died) ~ x", "cox", strata=None)
    with pytest.raises(dsba.InputError, match="the time 0 has no logarithm"):
        fit.proportional_hazards_test(frame)
    assert fit.proportional_hazards_test(frame, transform="identity")["p"].between(0.0, 1.0).all()
