"""Frequencies are rows that are repeated, precisions scale variances, and sampling weights ask for robust errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from queues import together
from registered_models import FIVE, REGISTERED, fitted, table

import dsba
from dsba.fitting.spec import FitSpec
from dsba.network import Simulator
from dsba.tables.fit import fit_sites
from dsba.tables.inputs import as_sites
from dsba.tables.models import MODELS
from dsba.tables.page import model_page

SHARED = {"linear": "cost", "logistic": "readmitted", "poisson": "los"}
RIGHT = " ~ age + bmi + treated"
FIGURES = ("nobs", "df_resid", "llf", "llnull", "aic", "bic", "deviance", "null_deviance", "scale", "pearson_chi2")


def close(found, wanted, rtol=1e-9):
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(wanted, float), rtol=rtol, atol=1e-12)


def counted():
    return table().assign(times=lambda f: 1 + f["events"] % 3)


def repeated(frame):
    return frame.loc[frame.index.repeat(frame["times"])].reset_index(drop=True)


def require_alike(weighted, twin):
    close(weighted.params, twin.params)
    close(weighted.bse, twin.bse)
    close(weighted.pvalues, twin.pvalues)
    for name in FIGURES:
        if getattr(twin, name) is None:
            assert getattr(weighted, name) is None
        else:
            close(getattr(weighted, name), getattr(twin, name))
    assert weighted.metadata.events == twin.metadata.events


@pytest.mark.parametrize("cov", ["classical", "HC0", "HC1", "HC2", "HC3", "site", "cluster"])
@pytest.mark.parametrize("operator", SHARED)
def test_frequencies_are_repeated_rows(operator, cov):
    options = {"cov": cov, "clusters": "ward" if cov == "cluster" else None, "sites": "site"}
    frame, formula = counted(), SHARED[operator] + RIGHT
    weighted = dsba.fit(frame, formula, operator, weights="times", weight_kind="frequency", **options)
    twin = dsba.fit(repeated(frame), formula, operator, **options)
    require_alike(weighted, twin)
    close(weighted.vif(), twin.vif())
    if operator == "logistic":
        for ours, theirs in zip(weighted.metadata.calibration, twin.metadata.calibration, strict=True):
            close(list(vars(ours).values()), list(vars(theirs).values()))


@pytest.mark.parametrize("cov", ["classical", "HC1", "cluster"])
@pytest.mark.parametrize("name", [name for name, case in REGISTERED.items() if case.operator in MODELS])
def test_frequencies_are_repeated_rows_in_every_model(name, cov):
    """Efron's ties as well: a row that stands for two events is two tied events."""
    frame, options = counted(), {"cov": cov, "clusters": "ward" if cov == "cluster" else None}
    weighted = fitted(name, Simulator(FIVE), frame, weights="times", weight_kind="frequency", **options)
    require_alike(weighted, fitted(name, Simulator(FIVE), repeated(frame), **options))


@pytest.mark.parametrize("operator", SHARED)
def test_frequencies_and_precisions_as_statsmodels_has_them(operator):
    frame = counted().assign(readmitted=lambda f: (f["readmitted"] == f["readmitted"].max()).astype(int))
    family = {"linear": "Gaussian", "logistic": "Binomial", "poisson": "Poisson"}[operator]
    X = sm.add_constant(frame[["age", "bmi", "treated"]].astype(float))
    data = frame[SHARED[operator]].astype(float), X, getattr(sm.families, family)()
    for kind, name in (("frequency", "freq_weights"), ("precision", "var_weights")):
        theirs = sm.GLM(*data, **{name: frame["times"].astype(float)}).fit(tol=1e-14, maxiter=100)
        ours = dsba.fit(
            frame, SHARED[operator] + RIGHT, operator, sites="site", weights="times", weight_kind=kind
        )  # fmt: skip
        close(ours.bse, theirs.bse, 1e-8)
        assert ours.df_resid == theirs.df_resid
        close(ours.deviance, theirs.deviance, 1e-8)
        if (operator, kind) != ("linear", "precision"):  # there statsmodels' likelihood leaves out the weights
            close(ours.llf, theirs.llf_scaled(theirs.deviance / frame["times"].sum()) if operator == "linear"
                  else theirs.llf, 1e-8)  # fmt: skip
    if operator == "linear":
        wls = sm.WLS(data[0], X, frame["times"]).fit()
        close([ours.llf, ours.scale], [wls.llf, wls.scale], 1e-8)
        close(ours.bse, wls.bse, 1e-8)


@pytest.mark.parametrize("operator", [*SHARED, "gamma"])
def test_sampling_weights_have_the_sandwich_and_no_likelihood(operator):
    """Linearisation: M (sum w^2 r^2 x x') M n/(n - p), by hand."""
    frame = counted().assign(readmitted=lambda f: (f["readmitted"] == f["readmitted"].max()).astype(int))
    frame["w"] = 0.7 * frame["times"]
    left = {**SHARED, "gamma": "cost"}[operator]
    ours = dsba.fit(
        frame, left + RIGHT, operator, sites="site", weights="w", weight_kind="sampling", cov="HC1"
    )  # fmt: skip
    X = sm.add_constant(frame[["age", "bmi", "treated"]].astype(float)).to_numpy()
    y, w, u = frame[left].to_numpy(float), frame["w"].to_numpy(), X @ ours.params.to_numpy()
    mean, slope = {
        "linear": (u, np.ones_like(u)), "poisson": (np.exp(u), np.exp(u)), "gamma": (np.exp(u), y * np.exp(-u)),
        "logistic": (1 / (1 + np.exp(-u)), 1 / (2 + np.exp(u) + np.exp(-u))),
    }[operator]  # fmt: skip
    residual = y / mean - 1.0 if operator == "gamma" else y - mean
    np.testing.assert_allclose(X.T @ (w * residual) / np.abs(X).T.dot(w * np.abs(residual)), 0.0, atol=1e-9)
    M = np.linalg.inv(X.T @ (X * (w * slope)[:, None]))
    meat = X.T @ (X * (w * residual)[:, None] ** 2)
    close(ours.cov_params(), M @ meat @ M * len(y) / (len(y) - 4), 1e-7)
    assert (ours.nobs, ours.llf) == (len(frame), None)
    assert np.isnan(ours.aic)
    with pytest.raises(dsba.InputError, match="sampling weights have no likelihood"):
        ours.compare_lr_test(ours)
    doubled = dsba.fit(
        frame.assign(w=2.0 * frame["w"]), left + RIGHT, operator, sites="site", weights="w", weight_kind="sampling",
        cov="HC1",
    )  # fmt: skip
    close(doubled.bse, ours.bse)


@pytest.mark.parametrize("cov", ["HC2", "HC3"])
@pytest.mark.parametrize("name", ["gamma", "probit", "quasi-poisson"])
def test_a_leverage_is_that_of_one_of_the_repeated_rows(name, cov):
    weighted = fitted(name, Simulator(FIVE), counted(), weights="times", weight_kind="frequency", cov=cov)
    require_alike(weighted, fitted(name, Simulator(FIVE), repeated(counted()), cov=cov))


def test_the_mean_that_fills_gaps_counts_frequencies():
    frame = counted()
    frame.loc[frame.index[::7], "bmi"] = np.nan
    options = {"sites": "site", "missing": "mean"}
    weighted = dsba.fit(frame, "cost ~ age + bmi", "linear", weights="times", weight_kind="frequency", **options)
    require_alike(weighted, dsba.fit(repeated(frame), "cost ~ age + bmi", "linear", **options))
    assert "standard errors are too small" in weighted.headline()
    assert "Standard errors are then too small" in model_page(weighted, "dsba train")
    assert "too small" not in dsba.fit(counted(), "cost ~ age + bmi", "linear", **options).headline()


def test_frequencies_are_whole_numbers():
    with pytest.raises(dsba.InputError, match=r"'w' at .* has frequencies, and some are not whole numbers"):
        dsba.fit(counted().assign(w=1.5), "cost ~ age", "linear", sites="site", weights="w", weight_kind="frequency")


@pytest.mark.parametrize("kind", ["precision", "frequency", "sampling"])
def test_the_kind_is_shown(kind):
    fit = dsba.fit(
        counted(), "cost ~ age", "linear", sites="site", weights="times", weight_kind=kind, cov="HC1"
    )  # fmt: skip
    assert f"{kind} weights times" in fit.headline()
    assert fit.plain()["weights"] == f"{kind} weights times"
    assert f"{kind} weights times" in model_page(fit, "dsba train")
    said = []
    fit_sites(as_sites(counted(), "site"), fit.model.spec, Simulator(dsba.Topology.ring(5)), notify=said.append)
    assert any("times" in line and "counts" in line for line in said)


@pytest.mark.parametrize("kind", ["precision", "frequency", "sampling"])
@pytest.mark.parametrize("operator", ["linear", "gamma"])
def test_weights_that_single_out_a_row_are_refused_before_a_weighted_sum(kind, operator, monkeypatch):
    """The weighted mean of the outcome would be that of one person of h1, whom the column of weights names."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"site": np.repeat(["h1", "h2", "h3"], 50), "age": rng.uniform(20, 90, 150)})
    frame["cost"] = rng.gamma(2.0, 10.0, 150)
    frame["w"] = 1 + rng.integers(0, 5, 150)
    frame.loc[0, "w"] = 10**9
    sites = as_sites(frame, "site")
    spec = FitSpec(
        formula="cost ~ age", operator=operator, weights="w", weight_kind=kind, cov="HC1", graph="ring"
    )  # fmt: skip
    sums = []

    def work(net):
        plain = net.sum
        net.sum = lambda rows, **how: sums.append(np.array(rows)) or plain(rows, **how)
        with pytest.raises(
            dsba.InputError, match="rows of h1, or very few of them, carry most of its weights"
        ) as error:
            fit_sites([sites[net.rank]], spec, net)
        return str(error.value)

    assert len(set(together(dsba.Topology.ring(3), 3, work))) == 1
    assert not any(np.abs(rows[np.isfinite(rows)]).max(initial=0.0) >= 1e9 for rows in sums)
    with pytest.warns(UserWarning, match="carry most of its weights"):
        dsba.fit(frame, "cost ~ age", operator, sites="site", weights="w", weight_kind=kind, cov="HC1")


@pytest.mark.parametrize(("weights", "sentence"), [
    (lambda rng, age: 1.0 + 1e-9 * rng.normal(size=len(age)), "one row of h1 makes up most of the spread of"),
    (lambda rng, age: age / 10.0, "the columns age and w together single out a row of h1"),
])  # fmt: skip
@pytest.mark.parametrize("operator", ["linear", "gamma"])
def test_weights_that_differ_from_a_column_in_one_row_are_refused(operator, weights, sentence):
    """Sums with weights, less those without them, would be this row: a constant is such a column, too."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"site": np.repeat(["h1", "h2", "h3"], 50), "age": rng.uniform(20, 90, 150)})
    frame["cost"] = rng.gamma(2.0, 10.0, 150)
    frame["w"] = weights(rng, frame["age"])
    frame.loc[0, "w"] += 1.0
    sites = as_sites(frame, "site")
    spec = FitSpec(formula="cost ~ age", operator=operator, weights="w", graph="ring")

    def work(net):
        with pytest.raises(dsba.InputError, match=sentence):
            fit_sites([sites[net.rank]], spec, net)

    together(dsba.Topology.ring(3), 3, work)
