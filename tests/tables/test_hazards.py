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
