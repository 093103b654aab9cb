"""Models without a column: ``y ~ 1``, beside statsmodels, on every transport, saved, shown and compared."""

from __future__ import annotations

import json

import numpy as np
import pytest
import statsmodels.api as sm
from hospital_tables import on_sites
from reference_values import table
from registered_models import ORDERED
from scipy.special import logit
from test_table_commands import ask, refused

import dsba
from dsba.fitting.spec import FitSpec
from dsba.tables.fit import fit_sites

FAMILIES = {
    "linear": ("sbp", sm.families.Gaussian()),
    "logistic": ("readmitted", sm.families.Binomial()),
    "poisson": ("los", sm.families.Poisson()),
    "probit": ("readmitted", sm.families.Binomial(sm.families.links.Probit())),
    "cloglog": ("readmitted", sm.families.Binomial(sm.families.links.CLogLog())),
    "gamma": ("cost", sm.families.Gamma(sm.families.links.Log())),
    "inverse-gaussian": ("cost", sm.families.InverseGaussian(sm.families.links.Log())),
}


def close(found, wanted):
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(wanted, float), rtol=1e-9)


def alone(operator, left=None, **options):
    return dsba.fit(table(), f"{left or FAMILIES[operator][0]} ~ 1", operator, sites="site", **options)


@pytest.mark.parametrize("operator", FAMILIES)
def test_it_is_the_model_of_statsmodels(operator):
    left, family = FAMILIES[operator]
    frame = table()
    theirs = sm.GLM(frame[left], np.ones(len(frame)), family).fit(tol=1e-14)
    fit = alone(operator)
    close([fit.params["Intercept"], fit.bse["Intercept"]], [theirs.params.iloc[0], theirs.bse.iloc[0]])
    close([fit.deviance, fit.null_deviance], [theirs.deviance, theirs.null_deviance])
    close(fit.pearson_chi2, theirs.pearson_chi2)
    assert (fit.df_model, fit.df_resid, len(fit.vif())) == (0, theirs.df_resid, 0)
    close(fit.predict(frame), theirs.fittedvalues)
    shown = fit.get_prediction(frame[:3]).summary_frame()["mean_se"]
    close(shown, theirs.get_prediction(np.ones((3, 1))).summary_frame()["mean_se"])
    larger = dsba.fit(frame, f"{left} ~ age + sex", operator, sites="site")
    statistic, _, df = larger.compare_lr_test(fit)
    close(statistic, 2.0 * (larger.llf - larger.llnull))
    assert df == 2
    assert fit.wald_test_terms().empty
    assert fit.plain()["terms"] == {}


@pytest.mark.parametrize("cov", ["HC0", "HC1", "HC2", "HC3"])
def test_its_robust_errors_are_those_of_statsmodels(cov):
    frame = table()
    theirs = sm.OLS(frame["sbp"], np.ones(len(frame))).fit(cov_type=cov)
    close(alone("linear", cov=cov).bse, theirs.bse)


def test_rates_weights_and_a_penalty():
    frame = table()
    theirs = sm.GLM(frame["visits"], np.ones(len(frame)), FAMILIES["poisson"][1], exposure=frame["years"]).fit()
    rate = alone("poisson", "visits", exposure="years")
    close([rate.params["Intercept"], rate.bse["Intercept"]], [theirs.params.iloc[0], theirs.bse.iloc[0]])
    weighted = alone("logistic", weights="years")
    close(weighted.params, [logit(np.average(frame["readmitted"], weights=frame["years"]))])
    close(alone("logistic", lam=0.1).params, alone("logistic").params)  # no penalty is on an intercept


def test_classes():
    shares = table()["score"].value_counts(normalize=True).sort_index().to_numpy()
    close(alone("multinomial", "score").params, np.log(shares[1:] / shares[0]))
    order = ORDERED["levels"]["severity"]
    shares = table()["severity"].value_counts(normalize=True)[order].to_numpy()
    ordinal = alone("ordinal", "severity", **ORDERED)
    close(ordinal.params, logit(np.cumsum(shares)[:-1]))
    close(ordinal.llf, ordinal.llnull)
    close(ordinal.predict(table()[:1]), shares[None, :])


@pytest.mark.parametrize("operator", ["logistic", "probit", "linear"])
def test_sites_of_their_own_find_the_same_bits(operator):
    frames = {str(name): frame.reset_index(drop=True) for name, frame in table().groupby("site")}
    spec = FitSpec(formula=f"{FAMILIES[operator][0]} ~ 1", operator=operator, graph="ring")
    apart = on_sites(frames, lambda sites, net: fit_sites(sites, spec, net))
    whole = dsba.fit(frames, spec.formula, operator, graph="ring")
    assert {one.digest() for one in apart} == {whole.digest()}


def test_the_commands_know_it(tmp_path):
    files = []
    for site, frame in table().groupby("site"):
        files.append(tmp_path / f"{site}.csv")
        frame.drop(columns="site").to_csv(files[-1], index=False)
    ask("train", *files, "--formula", "readmitted ~ 1", "--out", tmp_path / "run")
    found = json.loads(ask("summary", tmp_path / "run", "--json"))
    close(found["coef"], [logit(table()["readmitted"].mean())])
    assert "Intercept" in (tmp_path / "run" / "report.html").read_text()
    first = ask("predict", tmp_path / "run", files[0]).splitlines()[1]
    close(float(first), table()["readmitted"].mean())
    assert "AUC (95 % interval) 0.5 " in ask("evaluate", tmp_path / "run", *files)
    sentence = refused("train", *files, "--formula", "readmitted ~ 0", "--out", tmp_path / "none")
    assert sentence == "the right side '0' gives the model no column: wanted at least one."
    with pytest.raises(dsba.InputError, match="an intercept alone: there is no coefficient to draw"):
        dsba.load(tmp_path / "run").forest(tmp_path / "plot.svg")


@pytest.mark.parametrize("operator", ["probit", "gamma", "multinomial", "linear"])
def test_every_model_has_its_summary_as_json(operator, tmp_path):
    left, more = {"multinomial": "score", "linear": "sbp"}.get(operator) or FAMILIES[operator][0], {}
    if operator == "linear":
        more = {"random": "site"}
    fit = dsba.fit(table(), f"{left} ~ age + bmi", operator, sites="site", **more)
    fit.save(tmp_path)
    assert dsba.load(tmp_path).digest() == fit.digest()
    found = json.loads(ask("summary", tmp_path, "--json"))
    wanted = dsba.fit(table(), "sbp ~ age + bmi", "linear", sites="site").vif()  # it depends on the columns alone
    close(list(found["vif"].values()), list(wanted) * (len(found["vif"]) // 2))
    assert len(found["terms"]) == 2
