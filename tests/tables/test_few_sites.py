"""Standard errors clustered by few sites, against R and against matrices of all rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tests.yardsticks.reference_values import table, values

import dsba


@pytest.mark.parametrize(("case", "column"), [("linear/few", "site"), ("linear/wards", "ward")])
def test_as_r_has_it(case, column):
    known = values("after_fit")["robust"][case]
    fit = dsba.fit(table(), known["formula"], "linear", sites=column, cov="site")
    np.testing.assert_allclose(fit.bse, known["bse_cr2"], rtol=1e-8)
    df = np.array(known["df_cr2"])
    np.testing.assert_allclose(fit.metadata.inference.df, df, rtol=1e-8)
    np.testing.assert_allclose(fit.pvalues, 2 * stats.t(df).sf(np.abs(fit.tvalues)), rtol=1e-8)
    reach = stats.t(df).ppf(0.975) * fit.bse
    np.testing.assert_allclose(fit.conf_int()[1] - fit.params, reach, rtol=1e-8)


def by_matrices(frame, fit):
    """CR2 and Satterthwaite's degrees of freedom of a logistic model, with matrices of the size of the rows."""
    X = np.column_stack([np.ones(len(frame)), frame["x"], frame["w"]])
    mu = 1 / (1 + np.exp(-X @ fit.params[["Intercept", "x", "w"]].to_numpy()))
    root = np.sqrt(mu * (1 - mu))
    Xt, e = X * root[:, None], (frame["y"].to_numpy() - mu) / root
    M = np.linalg.inv(Xt.T @ Xt)
    rest, meat, spreads = np.eye(len(X)) - Xt @ M @ Xt.T, 0.0, []
    for site in frame["site"].unique():
        rows = (frame["site"] == site).to_numpy()
        values_, vectors = np.linalg.eigh(rest[np.ix_(rows, rows)])
        A = vectors * values_**-0.5 @ vectors.T
        score = Xt[rows].T @ A @ e[rows]
        meat = meat + np.outer(score, score)
        spreads.append(rest[:, rows] @ A @ Xt[rows] @ M)
    P = np.einsum("gij,hij->jgh", spreads, spreads)
    return M @ meat @ M, np.trace(P, axis1=1, axis2=2) ** 2 / (P**2).sum(axis=(1, 2))


def clusters(sites=5, rows=30, seed=0):
    rng = np.random.default_rng(seed)
    site = np.repeat(np.arange(sites), rows)
    x, shift = rng.normal(size=site.size) + rng.normal(size=sites)[site], rng.normal(size=sites)[site]
    y = (rng.random(site.size) < 1 / (1 + np.exp(-0.5 * x - 0.5 * shift))).astype(int)
    return pd.DataFrame({"site": site.astype(str), "x": x, "w": rng.normal(size=site.size), "y": y})


def test_logistic_as_by_matrices_of_all_rows():
    frame = clusters()
    fit = dsba.fit(frame, "y ~ x + w", "logistic", sites="site", cov="site")
    covariance, df = by_matrices(frame, fit)
    np.testing.assert_allclose(fit.cov_params().to_numpy(), covariance, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(fit.metadata.inference.df, df, rtol=1e-6)
    assert fit.statistic == "t"


def test_two_sites_are_refused_and_few_are_warned_of():
    with pytest.raises(dsba.InputError, match="need at least 3 sites"):
        dsba.fit(clusters(2), "y ~ x", "logistic", sites="site", cov="site")
    fit = dsba.fit(clusters(3), "y ~ x + w", "logistic", sites="site", cov="site")
    assert "3 sites" in fit.headline()
    assert "not more than its 3 coefficients" in fit.headline()
    assert "not more" not in dsba.fit(clusters(5), "y ~ x", "logistic", sites="site", cov="site").headline()
