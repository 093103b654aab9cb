"""What has no solution is named, what is missing at a site is no matter, and nothing called converged is off."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.special import gammaln

import dsba
from dsba.network import Alone
from dsba.tables.design import Design
from dsba.tables.models import Binomial, Cox, Gamma, NegativeBinomial, Ordinal
from dsba.tables.models.base import Outcomes
from dsba.tables.models.glm import Cloglog, Probit, QuasiPoisson
from dsba.tables.models.scoring import eliminated, maximised


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
        ("Surv(time, died) ~ x", "logistic", {}, "do not fit"),
        ("time ~ x", "cox", {"strata": "site"}, "do not fit"),
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


# Against an independent minimiser --------------------------------------------------------------------


def tables_of(seed):
    """A small table, its model, and minus the log-likelihood as a function that knows nothing of the model's code."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(8, 40)), int(rng.integers(1, 4))
    X = np.column_stack([np.ones(n), rng.normal(size=(n, p))])
    u = X @ rng.normal(size=p + 1) * 0.8
    kind = ("logit", "probit", "cloglog", "gamma", "counts", "cox", "ordinal", "nb")[seed % 8]
    if kind in ("logit", "probit", "cloglog"):
        y = (rng.random(n) < 1 / (1 + np.exp(-u))).astype(float)
        return kind, X, y, {"logit": Binomial(), "probit": Probit(), "cloglog": Cloglog()}[kind]
    if kind == "gamma":
        return kind, X, rng.gamma(2.0, np.exp(u)) + 1e-3, Gamma()
    if kind == "counts":
        return kind, X, rng.poisson(np.exp(np.minimum(u, 4.0))).astype(float), QuasiPoisson()
    if kind == "nb":
        return kind, X, rng.negative_binomial(1, 1 / (1 + np.exp(np.minimum(u, 3.0)))).astype(float), NegativeBinomial()
    if kind == "ordinal":
        return kind, X[:, 1:], np.clip(np.round(u + rng.logistic(size=n)), 0, 2), Ordinal(3)
    y = np.column_stack([rng.integers(1, 9, n), rng.random(n) < 0.7]).astype(float)
    return kind, X[:, 1:], y, Cox("efron", "site")


def minus_llf(kind, X, y, z):
    """Slow and obvious."""
    from scipy.stats import logistic, norm

    u = X @ z[: X.shape[1]]
    if kind in ("logit", "probit"):
        F = logistic if kind == "logit" else norm
        return -np.where(y > 0, F.logcdf(u), F.logsf(u)).sum()
    if kind == "cloglog":
        return -np.where(y > 0, np.log(-np.expm1(-np.exp(u))), -np.exp(u)).sum()
    if kind == "gamma":
        return (y / np.exp(u) + u).sum()
    if kind == "counts":
        return (np.exp(u) - y * u).sum()
    if kind == "nb":
        t = np.exp(z[-1])
        ways = gammaln(y + t) - gammaln(t) - gammaln(y + 1)
        return -(ways + t * np.log(t) + y * u - (y + t) * np.log(np.exp(u) + t)).sum()
    if kind == "ordinal":
        cuts = np.array([-np.inf, *z[X.shape[1] :], np.inf])
        P = logistic.cdf(cuts[y.astype(int) + 1] - u) - logistic.cdf(cuts[y.astype(int)] - u)
        return -np.log(np.where(P > 0, P, 1e-300)).sum()
    total = 0.0
    for t in np.unique(y[y[:, 1] > 0, 0]):
        dead, risk = (y[:, 0] == t) & (y[:, 1] > 0), y[:, 0] >= t
        for share in range(dead.sum()):
            total += np.log(np.exp(u[risk]).sum() - share / dead.sum() * np.exp(u[dead]).sum())
    return total - u[y[:, 1] > 0].sum()


def check(seed):
    """Whether a random table had a solution; an error if what is called one is off."""
    kind, X, y, model = tables_of(seed)
    columns = X.shape[1]
    design = Design((), X, y, np.ones(len(X)), np.zeros(len(X)))
    known = Outcomes(len(X), float(len(X)), model.outcome_sums(design), None)
    if known.totals.min() <= 0 or (kind in ("logit", "probit", "cloglog") and known.totals[0] == known.totals[1]):
        return False
    start = model.start(known, columns, 0 if model.intercept else None)
    try:
        found = maximised(model, [design], start, Alone())
    except dsba.InputError:
        return False
    if not found.converged:
        return False
    here = minus_llf(kind, X, y, found.params)
    with np.errstate(all="ignore"):
        there = minimize(lambda z: minus_llf(kind, X, y, z), found.params, method="BFGS", options={"gtol": 1e-9})
    assert here <= there.fun + 1e-7 * max(1.0, abs(there.fun)), (seed, kind)
    errors = np.sqrt(np.diag(eliminated(found.terms.observed, np.eye(found.params.size))))
    assert (np.abs(there.x - found.params) <= 1e-2 * errors + 1e-4).all(), (seed, kind)
    return True


def test_nothing_called_converged_is_off():
    solved = sum(check(seed) for seed in range(40))
    assert solved > 25


@pytest.mark.full
def test_nothing_called_converged_is_off_on_2000_tables():
    assert sum(check(seed) for seed in range(2000)) > 1200
