"""What has no solution is named with its columns, and what is missing at a site is no matter."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dsba


def cohort(n=120, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.normal(size=n), "z": rng.normal(size=n), "site": np.repeat(["a", "b", "c"], n // 3)})
    frame["time"], frame["died"] = rng.integers(1, 30, n), rng.integers(0, 2, n)
    frame["y"], frame["count"] = rng.integers(0, 2, n), rng.poisson(3.0, n)
    frame["kind"] = rng.choice(["p", "q", "r"], n)
    return frame


@pytest.mark.parametrize("operator", ["probit", "cloglog"])
def test_separated_labels_name_the_column(operator):
    frame = cohort()
    frame["y"] = (frame["x"] > 0).astype(int)
    with pytest.raises(dsba.InputError, match=r"separated by .*x"):
        dsba.fit(frame, "y ~ x + z", operator, sites="site")


@pytest.mark.parametrize(
    ("operator", "options"), [("multinomial", {}), ("ordinal", {"levels": {"kind": ["p", "q", "r"]}})]
)
def test_a_separated_class_names_the_column(operator, options):
    frame = cohort()
    frame["kind"] = np.where(frame["x"] < -0.5, "p", np.where(frame["x"] < 0.5, "q", "r"))
    with pytest.raises(dsba.InputError, match=r"separated from the others by .*x"):
        dsba.fit(frame, "kind ~ x + z", operator, sites="site", levels={"kind": ["p", "q", "r"]})


@pytest.mark.parametrize("strata", ["site", None])
def test_a_monotone_likelihood_names_the_column(strata):
    frame = cohort()
    frame["flag"] = frame["died"] * (np.arange(len(frame)) % 2)
    frame.loc[frame["died"] == 1, "flag"] = 1  # nobody without the flag has an event
    with pytest.raises(dsba.InputError, match=r"rises for ever .*flag"):
        dsba.fit(frame, "Surv(time, died) ~ flag + z", "cox", sites="site", strata=strata)


def test_theta_without_end_is_named():
    frame = cohort()
    frame["count"] = np.where(np.arange(len(frame)) % 2, 3, 4)  # less spread than Poisson's
    with pytest.raises(dsba.InputError, match="theta grows without end"):
        dsba.fit(frame, "count ~ x", "negative-binomial", sites="site")


def test_dependent_columns_are_named():
    frame = cohort()
    frame["w"] = frame["x"] + frame["z"]
    for operator, left, options in (("gamma", "time", {}), ("cox", "Surv(time, died)", {"strata": "site"})):
        with pytest.raises(dsba.InputError, match=r"x, z and w|weighted sum"):
            dsba.fit(frame, f"{left} ~ x + z + w", operator, sites="site", **options)


@pytest.mark.parametrize(
    ("formula", "operator", "options", "sentence"),
    [
        ("Surv(time, died) ~ x", "cox", {}, "must be told its strata"),
        ("Surv(time, died) ~ x", "logistic", {}, "give the operator cox"),
        ("time ~ x", "cox", {"strata": "site"}, "needs the outcome Surv"),
        ("Surv(time, count) ~ x", "cox", {"strata": "site"}, "must be 0 or 1"),
        ("cbind(count, y - count) ~ x", "logistic", {}, "negative"),
        ("count ~ x", "gamma", {}, "above 0"),
        ("kind ~ x", "ordinal", {}, "need an order"),
        ("kind ~ x", "multinomial", {"offset": "z"}, "cancel out"),
        ("y ~ x", "probit", {"lam": 0.1}, "takes no penalty"),
        ("y ~ x", "probit", {"algorithm": "dsba"}, "by newton only"),
    ],
)
def test_what_does_not_fit_is_refused(formula, operator, options, sentence):
    with pytest.raises(dsba.InputError, match=sentence):
        dsba.fit(cohort(), formula, operator, sites="site", **options)


def test_no_event_and_no_class_at_a_site():
    frame = cohort()
    frame.loc[frame["site"] == "a", "died"] = 0
    frame.loc[(frame["site"] == "b") & (frame["kind"] == "q"), "kind"] = "p"
    assert dsba.fit(frame, "Surv(time, died) ~ x", "cox", sites="site", strata="site").bse["x"] > 0
    assert dsba.fit(frame, "Surv(time, died) ~ x", "cox", sites="site", strata=None).bse["x"] > 0
    assert dsba.fit(frame, "kind ~ x", "multinomial", sites="site").bse["q:x"] > 0
    frame["died"] = 0
    with pytest.raises(dsba.InputError, match="no row of any site has an event"):
        dsba.fit(frame, "Surv(time, died) ~ x", "cox", sites="site", strata="site")


def test_ties_at_every_time():
    frame = cohort()
    frame["time"] = 1 + np.arange(len(frame)) % 2
    efron = dsba.fit(frame, "Surv(time, died) ~ x + z", "cox", sites="site", strata=None)
    assert efron.model.run.status == "converged"
