"""Kaplan-Meier curves and log-rank tests against R's survival package."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from queues import together

import dsba
from dsba.fitting.spec import FitSpec
from dsba.tables.inputs import as_sites
from dsba.tables.survival import curves_of

sys.path.append(str(Path(__file__).parents[1] / "yardsticks"))
from reference_values import table, values

CURVES = values("curves")
SLOWER = [pytest.param(times, marks=pytest.mark.full) for times in ("quarters", "counts")]
grids = pytest.mark.parametrize("times", ["exact", "guarded", *SLOWER])


def close(found, wanted):
    wanted = np.array([np.nan if x is None else x for x in wanted], np.float64)
    np.testing.assert_allclose(np.asarray(found, np.float64), wanted, rtol=1e-12, atol=1e-12)


@grids
@pytest.mark.parametrize("by", ["1", "treated", "stage"])
def test_curves_of_r(times, by):
    case = CURVES["cases"][times]["curves"].get(by)
    if case is None:
        return
    grid = CURVES["grids"].get(times)
    for scale, key in (("log", "log"), ("log-log", "loglog")):
        found = dsba.survival_curve(table(), f"Surv(time, died) ~ {by}", sites="site", grid=grid, conf_type=scale)
        for (level, curve), wanted in zip(found.curves.items(), case.values(), strict=True):
            for name in ("time", "n_risk", "n_event", "n_censor", "survival"):
                close(curve[name], wanted[name])
            known = curve["survival"] > 0
            close(curve["std_err"][known], np.array(wanted["std_err"])[known])
            for name in ("lower", "upper"):
                close(curve[name], wanted[f"{name}_{key}"])
            median = wanted["median"] if scale == "log" else [wanted["median"][0], *wanted["median_loglog"]]
            close(found.median().loc[level], median)
            at = wanted["n_risk_at"]
            close(found.at_risk([float(t) for t in at]).loc[level], list(at.values()))


@grids
@pytest.mark.parametrize("by", ["treated", "stage"])
@pytest.mark.parametrize("strata", [None, "site"])
def test_log_rank_of_r(times, by, strata):
    wanted = CURVES["cases"][times]["tests"].get(by if strata is None else f"{by} + strata(site)")
    if wanted is None:
        return
    frame, grid = table(), CURVES["grids"].get(times)
    if strata and grid:  # within sites the test takes exact times: the rounded ones are given
        frame["time"] = np.array(grid)[np.searchsorted(grid, frame["time"])]
        grid = None
    test = dsba.survival_curve(frame, f"Surv(time, died) ~ {by}", sites="site", strata=strata, grid=grid).test
    close([test.chi2, test.df, test.p], [wanted["log-rank"][name] for name in ("chi2", "df", "p")])
    close(test.observed, wanted["log-rank"]["observed"])
    close(test.expected, wanted["log-rank"]["expected"])


def test_five_processes_count_on_a_guarded_grid():
    frame, grid = table(), tuple(float(end) for end in CURVES["grids"]["guarded"])
    spec = FitSpec(formula="Surv(time, died) ~ 1", operator="cox", strata=None, grid=grid)
    sites = as_sites(frame, "site")
    alone = dsba.survival_curve(frame, spec.formula, sites="site", grid=grid)
    found = together(dsba.Topology.ring(5), 5, lambda net: curves_of([sites[net.rank]], spec, net))
    for one in found:
        pd.testing.assert_frame_equal(one.curves["all"], alone.curves["all"])
    spec = FitSpec(formula="Surv(time, died) ~ treated", operator="cox", strata=None)
    first, *_ = together(dsba.Topology.ring(5), 5, lambda net: curves_of([sites[net.rank]], spec, net))
    for curve in first.curves.values():
        assert ((curve["n_event"] == 0) | (curve["n_event"] >= 6)).all()
        assert (curve["n_event"] + curve["n_censor"] >= 6).all()


@pytest.mark.parametrize("formula", ["died ~ treated", "Surv(time, died) ~ age + sex", "Surv(time, died) ~ log(age)"])
def test_other_formulas_are_refused(formula):
    with pytest.raises(dsba.InputError, match="Surv"):
        dsba.survival_curve(table(), formula)
