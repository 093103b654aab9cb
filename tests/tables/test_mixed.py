"""A random intercept of each site against R's lme4."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import dsba
from dsba.network import Alone
from dsba.tables import mixed
from dsba.tables.design import Design
from dsba.tables.mixed import fit_mixed

sys.path.append(str(Path(__file__).parents[1] / "yardsticks"))
from reference_values import table, values

CASES, FORMULA = values("mixed")["cases"], "sbp ~ age + sex + bmi + treated"


def test_values_of_r():
    wanted = CASES[f"{FORMULA}/REML"]
    found = dsba.fit(table(), FORMULA, "linear", sites="site", random="site")
    np.testing.assert_allclose(found.params, list(wanted["params"].values()), rtol=1e-9)
    np.testing.assert_allclose(found.bse, wanted["bse"], rtol=1e-9)
    for name in ("llf", "aic", "bic"):
        assert getattr(found, name) == pytest.approx(wanted[name], rel=1e-9)
    for name in ("site_variance", "residual_variance"):
        assert found.metadata.figures[name] == pytest.approx(wanted[name], rel=1e-8)
    assert "Site variance 4.223" in str(found.summary())


@pytest.mark.parametrize("formula", [FORMULA, "sbp ~ 1"])
@pytest.mark.parametrize("kind", ["REML", "ML"])
def test_both_likelihoods_of_r(formula, kind):
    frame, wanted = table(), CASES[f"{formula}/{kind}"]
    columns = [np.ones(len(frame))]
    if formula == FORMULA:
        columns += [frame["age"], frame["sex"] == "M", frame["bmi"], frame["treated"]]
    X, y = np.column_stack(columns).astype(float), frame["sbp"].to_numpy(float)
    at = [np.flatnonzero(frame["site"] == site) for site in sorted(set(frame["site"]))]
    designs = [Design((), X[i], y[i], np.ones(len(i)), np.zeros(len(i))) for i in at]
    found = fit_mixed(designs, Alone(), restricted=kind == "REML")
    np.testing.assert_allclose(found.b, list(wanted["params"].values()), rtol=1e-8)
    np.testing.assert_allclose(np.sqrt(np.diag(found.covariance)), wanted["bse"], rtol=1e-8)
    assert found.site_variance == pytest.approx(wanted["site_variance"], rel=1e-8)
    assert found.llf == pytest.approx(wanted["llf"], rel=1e-10)


def test_sites_that_do_not_differ_have_no_variance():
    frame = table()
    frame["sbp"] = frame["sbp"] - frame.groupby("site")["sbp"].transform("mean")
    found = dsba.fit(frame, "sbp ~ age", "linear", sites="site", random="site")
    plain = dsba.fit(frame, "sbp ~ age", "linear", sites="site")
    assert found.metadata.figures["site_variance"] == 0.0
    np.testing.assert_allclose(found.bse, plain.bse, rtol=1e-10)


@pytest.mark.parametrize("options", [{"cov": "HC1"}, {"lam": 0.1}, {"operator": "poisson"}, {"weights": "trials"}])
def test_what_it_cannot_do_is_refused(options):
    given = {"operator": "linear", **options}
    with pytest.raises(dsba.InputError, match="random intercept"):
        dsba.fit(table(), "los ~ age", sites="site", random="site", **given)


def test_the_totals_of_a_run_give_the_sums_of_each_site(monkeypatch):
    """Why a random intercept discloses site totals: the totals at several ratios are equations for the sites' sums."""
    rng, totals, thetas = np.random.default_rng(0), [], []
    add, profile = mixed.summed, mixed.SiteSums.profile
    monkeypatch.setattr(mixed, "summed", lambda *asked: totals.append(add(*asked)) or totals[-1])
    monkeypatch.setattr(mixed.SiteSums, "profile", lambda *asked: thetas.append(asked[1]) or profile(*asked))
    sizes = (40, 55, 83)
    parts = [np.column_stack([np.ones(n), rng.normal(k, 1, n), rng.normal(2 * k, 1, n)]) for k, n in enumerate(sizes)]
    fit_mixed([Design((), W[:, :2], W[:, 2], np.ones(len(W)), np.zeros(len(W))) for W in parts], Alone())
    rows, told, theta = int(totals[0][0]), np.array(totals[1:]), np.array(thetas)

    def shares(n):  # of every site at every theta
        return np.array(n) / (1.0 + np.multiply.outer(theta, n))

    guesses = [(a, b, rows - a - b) for a in range(1, rows // 3 + 1) for b in range(a, (rows - a) // 2 + 1)]
    found = min(guesses, key=lambda n: np.abs(shares(n).sum(axis=1) - told[:, 1]).max())
    assert found == sizes
    weights = theta[:, None] / (1.0 + np.multiply.outer(theta, found))
    squares = np.linalg.lstsq(weights, told[:, 2:8], rcond=None)[0]  # of each site: (1, x, y) with (1, x, y)
    means = squares[:, 1:3] / np.square(found)[:, None]
    np.testing.assert_allclose(means, [W[:, 1:].mean(axis=0) for W in parts], rtol=1e-4)
