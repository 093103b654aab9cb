"""How far a Cox model on a grid of times, as processes fit it, is from the one on exact times: three cohorts."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT
from queues import together
from reference_values import table

import dsba
from dsba.fitting.spec import FitSpec
from dsba.tables import fit as tables
from dsba.tables.inputs import as_sites

SITES = {"yardsticks": 5, "early events": 5, "few events": 3}


def cohort(name):
    """The rows, and the right side of the model."""
    if name == "yardsticks":
        return table(), "age + bmi + treated + stage"
    rng, rows = np.random.default_rng(3), {"early events": 3000, "few events": 200}[name]
    x, z, treated = rng.normal(size=rows), rng.normal(size=rows), rng.integers(0, 2, rows)
    risk = 0.5 * x - 0.3 * z - 0.6 * treated
    lifetime, end = rng.weibull(0.6, rows) * 400 * np.exp(-risk / 0.6), rng.uniform(100, 2000, rows)
    frame = pd.DataFrame({"time": np.ceil(np.minimum(lifetime, end)), "died": (lifetime <= end).astype(int)})
    return frame.assign(x=x, z=z, treated=treated, site=rng.integers(0, SITES[name], rows)), "x + z + treated"


def found(name):
    """The number of intervals, and the largest difference of a coefficient in standard errors."""
    frame, right = cohort(name)
    formula, sites = f"Surv(time, died) ~ {right}", as_sites(frame, "site")
    exact = dsba.fit(frame, formula, "cox", sites="site", strata=None)
    spec = FitSpec(formula=formula, operator="cox", strata=None)
    ring = dsba.Topology.ring(len(sites))
    grouped = together(ring, len(sites), lambda net: tables.fit_sites([sites[net.rank]], spec, net))[0]
    off = float(np.abs((grouped.params - exact.params) / exact.bse).max())
    assert np.abs(grouped.bse / exact.bse - 1.0).max() < 0.03
    return int(frame["died"].sum()), int(grouped.metadata.figures.time_intervals), off


@pytest.mark.parametrize("name", SITES)
def test_the_error_of_the_grid_is_as_documented(name):
    page = (ROOT / "docs" / "howto" / "models.md").read_text()
    events, intervals, off = re.search(rf"\| {name} \|[^|]*\| (\d+) \| (\d+) \| ([\d.]+) \|", page).groups()
    deaths, counted, measured = found(name)
    assert (deaths, counted) == (int(events), int(intervals))
    assert round(measured, 2) == float(off)


def test_a_finer_grid_is_nearer():
    """With many events, four wide intervals are much worse than what is proposed."""
    frame, right = cohort("early events")
    formula = f"Surv(time, died) ~ {right}"
    exact = dsba.fit(frame, formula, "cox", sites="site", strata=None)
    coarse = dsba.fit(frame, formula, "cox", sites="site", strata=None, grid=[500, 1000, 1500, 2000])
    off = float(np.abs((coarse.params - exact.params) / exact.bse).max())
    assert off > 5 * found("early events")[2]
