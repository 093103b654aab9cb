"""Kaplan-Meier curves and log-rank tests against R's survival package."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from queues import together

import dsba
from dsba.fitting.spec import FitSpec
from dsba.tables.fit import fit_sites
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


def few(**changed):
    frame = {"time": [1.0, 2, 2, 3, 4, 5], "died": [1, 0, 1, 1, 0, 1], "arm": list("aabbab"), "site": [1, 2] * 3}
    return pd.DataFrame(frame | changed)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"died": [2, 0, 2, 2, 0, 2]}, "the event of Surv(time, event) must be 0 or 1"),
        ({"time": [-1.0, 2, 2, 3, 4, 5]}, "a negative time"),
        ({"died": [0] * 6}, "log-rank test needs events"),
        ({"died": [0] * 5 + [1]}, "log-rank test needs events"),  # of one group only somebody is at risk then
    ],
)
def test_rows_without_an_answer_are_named(changed, sentence):
    with pytest.raises(dsba.InputError, match=re.escape(sentence)):
        dsba.survival_curve(few(**changed), "Surv(time, died) ~ arm", sites="site")


def test_without_events_there_is_a_curve():
    found = dsba.survival_curve(few(died=[0] * 6), "Surv(time, died) ~ 1", sites="site")
    assert (found.curves["all"]["survival"] == 1.0).all()


def test_sites_with_numbers_for_names_are_levels():
    assert dsba.fit(few(), "time ~ site", "linear", sites="site").params.index.tolist() == ["Intercept", "site[T.2]"]
    assert list(dsba.survival_curve(few(), "Surv(time, died) ~ site", sites="site").curves) == [1, 2]
    named = dsba.survival_curve(few(site=["1", "2"] * 3), "Surv(time, died) ~ site", sites="site")
    assert [*named.curves] == ["1", "2"]


def on_ring(work, frame):
    sites = as_sites(frame, "site")
    return together(dsba.Topology.ring(5), 5, lambda net: work([sites[net.rank]], net))[0]


@pytest.mark.parametrize("strata", [None, "site"])
def test_no_time_is_rounded_down_to_the_last_end_of_a_grid(strata):
    """Events after it stay behind it: in a curve and in a Cox model, in one process and in five."""
    frame, short = table(), (90.0, 180.0, 270.0)
    longer = (*short, float(np.ceil(frame["time"].max() / 100) * 100))
    late = int((frame["died"] * (frame["time"] > 270)).sum())
    spec = FitSpec(formula="Surv(time, died) ~ 1", operator="cox", strata=strata, grid=short)
    alone = dsba.survival_curve(frame, spec.formula, sites="site", strata=strata, grid=short)
    for found in (alone, on_ring(lambda own, net: curves_of(own, spec, net), frame)):
        curve = found.curves["all"]
        assert curve["time"].tolist() == list(longer)
        assert curve["n_event"].iloc[-1] == late > 0
    formula = "Surv(time, died) ~ age + treated"
    spec = FitSpec(formula=formula, operator="cox", strata=strata or "none", grid=short)
    wanted = dsba.fit(frame, formula, "cox", sites="site", strata=strata, grid=longer).params
    assert dsba.fit(frame, formula, "cox", sites="site", strata=strata, grid=short).params.equals(wanted)
    assert on_ring(lambda own, net: fit_sites(own, spec, net), frame).params.equals(wanted)


@pytest.mark.parametrize("formula", ["died ~ treated", "Surv(time, died) ~ age + sex", "Surv(time, died) ~ log(age)"])
def test_other_formulas_are_refused(formula):
    with pytest.raises(dsba.InputError, match="Surv"):
        dsba.survival_curve(table(), formula)


def test_a_dot_is_all_other_columns():
    """It was no column at all: all rows had one curve."""
    frame = table()[["site", "time", "died", "treated", "age"]]
    found = dsba.survival_curve(frame.drop(columns="age"), "Surv(time, died) ~ .", sites="site")
    assert found.column == "treated"
    with pytest.raises(dsba.InputError, match="wanted a formula such as"):
        dsba.survival_curve(frame, "Surv(time, died) ~ .", sites="site")
