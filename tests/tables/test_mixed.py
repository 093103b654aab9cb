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
        assert getattr(found.metadata.figures, name) == pytest.approx(wanted[name], rel=1e-8)
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
    assert found.metadata.figures.site_variance == 0.0
    np.testing.assert_allclose(found.bse, plain.bse, rtol=1e-10)


def test_restricted_likelihoods_are_not_compared():
    """Those of other columns are of other data: chi squared was 233 beside a model without sites."""
    fit = dsba.fit(table(), FORMULA, "linear", sites="site", random="site")
    for smaller in ({"random": "site"}, {}):
        with pytest.raises(dsba.InputError, match="restricted"):
            fit.compare_lr_test(dsba.fit(table(), "sbp ~ age", "linear", sites="site", **smaller))
    with pytest.raises(dsba.InputError, match="restricted"):
        fit.pseudo_rsquared()


def test_a_new_outcome_varies_with_its_site():
    """Its interval had the residual variance only, which is that of rows around the intercept of a known site."""
    fit = dsba.fit(table(), FORMULA, "linear", sites="site", random="site")
    shown, variances = fit.get_prediction(table().head(3)).summary_frame(), fit.metadata.figures
    reach = 1.959963984540054 * np.sqrt(shown["mean_se"] ** 2 + variances.residual_variance + variances.site_variance)
    np.testing.assert_allclose(shown["obs_ci_upper"] - shown["mean"], reach, rtol=1e-9)


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
    shrink = 1.0 + np.multiply.outer(theta, found)
    weights = np.concatenate([theta[:, None] / shrink, 1.0 / shrink**2, -2.0 * np.array(found) / shrink**3])
    kinds = np.concatenate(np.split(told[:, 3:], 3, axis=1))
    squares = np.linalg.lstsq(weights, kinds, rcond=None)[0]  # of each site: (1, x, y) with (1, x, y)
    means = squares[:, 1:3] / np.square(found)[:, None]
    np.testing.assert_allclose(means, [W[:, 1:].mean(axis=0) for W in parts], rtol=1e-4)


def dense(parts, theta, restricted):
    """The log-likelihood by the matrix V of all rows, and its slope by theta."""
    X, y = (np.concatenate([d[k] for d in parts]) for k in (1, 2))
    Z = np.repeat(np.eye(len(parts)), [len(d.y) for d in parts], axis=0)
    inverse = np.linalg.inv(np.eye(len(y)) + theta * Z @ Z.T)
    bread = np.linalg.inv(X.T @ inverse @ X)
    P = inverse - inverse @ X @ bread @ X.T @ inverse
    free = len(y) - X.shape[1] * restricted
    rss = y @ P @ y
    llf = free * (np.log(2 * np.pi * rss / free) + 1) - np.linalg.slogdet(inverse)[1]
    spread = P if restricted else inverse
    seen, expected = free * ((Z.T @ P @ y) ** 2).sum() / rss, np.trace(Z.T @ spread @ Z)
    return -0.5 * (llf - np.linalg.slogdet(bread)[1] * restricted), seen, expected


@pytest.mark.parametrize("restricted", [True, False])
def test_newtons_steps_find_the_maximum_of_the_dense_likelihood(restricted):
    """On sites of any size, with differences from none to a thousand residuals' deviations, in ten steps at most."""
    rng, inside = np.random.default_rng(4), 0
    for _ in range(60):
        sizes = rng.integers(1, 60, rng.integers(3, 9))
        spread = 10.0 ** rng.uniform(-2, 3)
        parts = []
        for n in sizes:
            x = rng.normal(rng.normal(), 1, n)
            y = spread * rng.normal() + x + rng.normal(size=n)
            parts.append(Design((), np.column_stack([np.ones(n), x]), y, np.ones(n), np.zeros(n)))
        found = fit_mixed(parts, Alone(), restricted)
        theta = found.site_variance / found.residual_variance
        llf, seen, expected = dense(parts, theta, restricted)
        assert found.llf == pytest.approx(llf, rel=1e-9)
        assert len(found.slopes) <= mixed.USUAL_THETAS
        assert seen <= expected * (1 + 1e-6)
        inside += theta > 0
        assert theta == 0 or seen == pytest.approx(expected, rel=1e-6)
        assert max(dense(parts, theta * k, restricted)[0] for k in (0.5, 2.0)) <= llf + 1e-9 * abs(llf)
    assert inside > 30


def test_columns_that_tell_all_sites_apart_leave_nothing():
    frame = table()
    frame["ward"] = frame["site"]
    with pytest.raises(dsba.InputError, match="tell all sites apart"):
        dsba.fit(frame, "sbp ~ age + C(ward)", "linear", sites="site", random="site")


def test_sites_without_residuals_have_no_ratio():
    """The same outcome for all rows of a site, but for a few digits."""
    frame = table()
    frame["sbp"] = frame.groupby("site")["sbp"].transform("mean") + 1e-6 * np.random.default_rng(0).normal(
        size=len(frame)
    )
    with pytest.raises(dsba.InputError, match="differ so much"):
        dsba.fit(frame, "sbp ~ 1", "linear", sites="site", random="site")


def test_a_large_mean_of_the_outcome_costs_no_digits():
    plain, moved = (
        dsba.fit(table().assign(sbp=lambda f, by=by: f["sbp"] + by), FORMULA, "linear", sites="site", random="site")
        for by in (0.0, 2.0**30)
    )
    np.testing.assert_allclose(moved.params.iloc[1:], plain.params.iloc[1:], rtol=1e-9)
    np.testing.assert_allclose(moved.bse, plain.bse, rtol=1e-9)
    assert moved.metadata.figures.site_variance == pytest.approx(plain.metadata.figures.site_variance, rel=1e-8)
