"""Every registered model against R's values: coefficients, errors, likelihoods, what is saved and what is shown."""

from __future__ import annotations

import html
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from registered_models import COUNTS, GUARDED, ORDERED, RIGHT, table, values

import dsba
from dsba.fitting.spec import FitSpec
from dsba.network import Simulator
from dsba.tables import fit as tables
from dsba.tables.inputs import as_sites
from dsba.tables.models import MODELS
from dsba.tables.page import model_page
from dsba.tables.terms import ModelTerms

LIVES = "Surv(time, died) ~ age + sex + bmi + log(crp) + treated + stage"


class Case(NamedTuple):
    operator: str
    formula: str
    options: dict
    subject: str = ""
    case: str = ""


def of(operator, left, case, **options):
    return Case(operator, f"{left} ~ {RIGHT}", options, "families", case)


CASES = [
    of("logistic", "readmitted", "logistic/offset", offset="tenth"),
    of("logistic", COUNTS, "binomial-counts"),
    of("quasi-binomial", COUNTS, "quasi-binomial-counts"),
    of("probit", COUNTS, "binomial-counts/probit"),
    of("probit", "readmitted", "probit"),
    of("probit", "readmitted", "probit/offset", offset="tenth"),
    of("cloglog", "readmitted", "cloglog"),
    of("cloglog", "readmitted", "cloglog/exposure", exposure="years"),
    of("gamma", "cost", "gamma/log"),
    of("gamma", "cost", "gamma/log/exposure", exposure="years"),
    of("inverse-gaussian", "cost", "inverse-gaussian/log"),
    of("quasi-poisson", "los", "quasi-poisson"),
    of("quasi-poisson", "visits", "quasi-poisson/exposure", exposure="years"),
    of("negative-binomial", "los", "negative-binomial"),
    of("negative-binomial", "los", "negative-binomial/exposure", exposure="years"),
    Case("multinomial", f"score ~ {RIGHT}", {}, "classes", "multinomial"),
    Case("ordinal", f"severity ~ {RIGHT}", ORDERED, "classes", "ordinal"),
    *(
        Case("cox", LIVES, {"strata": strata, "ties": ties, "grid": grid}, "cox", f"{times}/{strata or 'none'}/{ties}")
        for times, grid in (("exact", None), ("quarters", values("cox")["grids"]["quarters"]))
        for strata in ("site", None)
        for ties in ("efron", "breslow")
    ),
    Case("cox", LIVES, {"strata": "site", "offset": "fiftieth"}, "cox", "exact/site/efron/offset"),
    Case("cox", LIVES, {"strata": None, "grid": GUARDED}, "cox", "guarded/none/efron"),
]
every = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.operator}-{case.case}")

FIRST = {case.operator: case for case in CASES}
one_of_each = pytest.mark.parametrize("case", FIRST.values(), ids=FIRST.keys())


def cohort():
    frame = table()
    return frame.assign(tenth=0.1 * frame["years"], fiftieth=0.02 * frame["years"])


@cache
def found_for(index):
    """The fit of a case, which several tests look at."""
    return fitted(CASES[index])


def fitted(case, **options):
    spec = FitSpec(formula=case.formula, operator=case.operator, graph="ring", **{**case.options, **options})
    sites = as_sites(cohort(), "site")
    return tables.fit_sites(sites, spec, Simulator(spec.topology(len(sites))))


def close(found, wanted, tol):
    wanted = np.asarray(wanted, np.float64)
    np.testing.assert_allclose(np.asarray(found, np.float64), wanted, rtol=0, atol=tol * np.abs(wanted).max())


@every
def test_values_of_r(case):
    wanted, found = values(case.subject)["cases"][case.case], found_for(CASES.index(case))
    close(found.params, list(wanted["params"].values()), 1e-11)
    close(found.cov_params(), wanted["cov"], 1e-11)
    assert found.metadata.names == tuple(found.params.index)
    for name in ("llf", "aic", "bic", "deviance", "null_deviance"):
        if name in wanted:
            close(getattr(found, name), wanted[name], 1e-11)
    if "llf_null" in wanted:
        close(found.llnull, wanted["llf_null"], 1e-11)
    if "pvalues" in wanted:
        close(found.pvalues, wanted["pvalues"], 1e-10)
        close(found.scale, wanted["dispersion"], 1e-10)
    if "theta" in wanted:
        close([found.theta, found.metadata.figures.theta_se], [wanted["theta"], wanted["theta_se"]], 1e-10)


@every
def test_robust_errors_of_r(case):
    wanted = values(case.subject)["cases"][case.case]
    if "bse_hc1" in wanted:
        close(fitted(case, cov="HC1").bse, wanted["bse_hc1"], 1e-11)


@every
@pytest.mark.parametrize("cov", ["HC2", "HC3"])
def test_leveraged_covariances_of_r(case, cov):
    """R's hatvalues; between its scores and leverages stand two inverses of the observed information, as for HC0."""
    wanted = values(case.subject)["cases"][case.case]
    if case.subject == "families":
        close(fitted(case, cov=cov).cov_params(), wanted[f"cov_{cov.lower()}"], 1e-8)
    else:
        with pytest.raises(
            dsba.InputError, match=f"{cov} divides by 1 minus the leverage of a row, .* {case.operator}"
        ):
            fitted(case, cov=cov)


@every
def test_errors_by_site_of_r(case):
    wanted = values(case.subject)["cases"][case.case]
    if "bse_site" in wanted:
        close(fitted(case, cov="site").bse, wanted["bse_site"], 1e-11)


@every
def test_saved_and_loaded_models_predict_the_same(case, tmp_path):
    found, rows = found_for(CASES.index(case)), cohort().head(5)
    found.save(tmp_path)
    loaded = dsba.load(tmp_path)
    assert loaded.params.equals(found.params)
    assert loaded.predict(rows).equals(found.predict(rows))
    assert str(loaded.summary()) == str(found.summary())


def test_every_registered_model_has_a_case():
    assert {case.operator for case in CASES} == {*MODELS, "logistic"}


PLAIN = ("vif", "terms", "deviance", "aic", "bic", "llf", "scale", "pearson_chi2", "df_model", "df_resid", "converged")


@one_of_each
def test_every_model_answers_or_refuses_all_that_is_asked_after_a_fit(case):
    """Names of statsmodels, and tables for papers; what a model does not have is None or one sentence."""
    found, rows, p = found_for(CASES.index(case)), cohort().head(5), len(found_for(CASES.index(case)).params)
    plain = found.plain()
    assert set(PLAIN) <= plain.keys()
    levels = [name for name in found.params.index if "|" in name or name.endswith("Intercept")]
    assert (found.df_model, found.converged) == (p - len(levels), True)
    assert found.df_resid == found.nobs - p
    z = found.params.iloc[0] / found.bse.iloc[0]
    close([found.wald_test(np.eye(p)[:1], use_f=False).statistic], [z**2], 1e-12)
    close(found.t_test(np.eye(p)[:1]).statistic, [z], 1e-12)
    assert (found.vif() >= 1.0).all()
    assert len(found.tidy()) == p
    assert found.glance()["nobs"].item() == found.nobs
    assert "nan" not in dsba.side_by_side({"one": found, "two": found}).to_csv()
    if case.operator in ("multinomial", "ordinal"):
        with pytest.raises(dsba.InputError, match="no single score: predict gives its probabilities"):
            found.get_prediction(rows)
    else:
        close(found.get_prediction(rows).summary_frame()["mean"], found.predict(rows), 1e-14)
    if case.operator.startswith("quasi"):
        assert plain["llf"] is None
        with pytest.raises(dsba.InputError, match="no likelihood"):
            found.compare_lr_test(found)


@one_of_each
def test_the_page_of_every_model_is_made(case):
    results = found_for(CASES.index(case))
    page = model_page(results, "dsba train")
    assert all(html.escape(name) in page for name in results.metadata.names)
    kind = {"logistic": "Logistic"}.get(case.operator, case.operator.capitalize())
    assert f"{kind} model of 500 rows at 5 sites" in page
    assert "None" not in page
    assert "Newton steps; upwards: next step in standard errors" in page
    assert html.escape(ModelTerms.of(results.model.spec).model().tells()) in page
    assert all(name.replace("_", " ") in page for name in vars(results.metadata.figures))


def test_the_page_of_a_cox_model_has_a_curve_where_times_are_grouped():
    grouped, exact = (next(c for c in CASES if c.case == f"{kind}/none/efron") for kind in ("guarded", "exact"))
    results = found_for(CASES.index(grouped))
    page = model_page(results, "dsba train")
    assert f"Times were grouped into {len(GUARDED)} intervals." in page
    assert 'aria-label="Survival"' in page
    assert f"Time intervals {len(GUARDED)}." in str(results.summary()).replace("\n", " ")
    hazard = results.baseline_hazard(cohort(), sites="site")
    times, found = zip(*results.metadata.survival, strict=True)
    stratum = hazard.strata["all"]
    close(found, np.exp(-stratum.hazard), 1e-12)  # its rows are around their means
    assert times == tuple(stratum.time)
    page = model_page(found_for(CASES.index(exact)), "dsba train")
    assert "would show single rows" in page
    assert 'aria-label="Survival"' not in page
