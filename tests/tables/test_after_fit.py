"""Tests, predictions with intervals, robust covariances and inflation factors against R's values."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hospital_tables import on_sites, pooled
from reference_values import table, values
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.fitting.spec import FitSpec
from dsba.tables.fit import fit_sites
from dsba.tables.page import model_page

WANTED = values("after_fit")
OUTCOMES = {"linear": "sbp", "logistic": "readmitted"}
EXPOSED = {"formula": "visits ~ age + sex + treated", "operator": "poisson", "exposure": "years"}
pytestmark = pytest.mark.filterwarnings("ignore:Between owners")


def model(kind, right=WANTED["formula"], **options):
    given = EXPOSED if kind == "poisson/exposure" else {"formula": f"{OUTCOMES[kind]} ~ {right}", "operator": kind}
    return dsba.fit(table(), sites="site", **given, **options)


@pytest.fixture(scope="module")
def models():
    return {kind: model(kind) for kind in ("linear", "logistic", "poisson/exposure")}


def close(found, wanted):
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(wanted, float), rtol=1e-8, atol=1e-12)


def of_r(text):
    """R's names of levels as ours."""
    for level in ("IV", "III", "II"):
        text = text.replace(f"stage{level}", f"stage[T.{level}]")
    return text.replace("sexM", "sex[T.M]").replace("10 age", "10*age")


@pytest.mark.parametrize("cov", ["classical", "HC1"])
@pytest.mark.parametrize("kind", OUTCOMES)
def test_hypotheses_are_those_of_r(kind, cov, models):
    fit = models[kind] if cov == "classical" else model(kind, cov=cov)
    wanted = WANTED["tests"][kind][cov]
    for text, about in wanted.items():
        if text == "terms":
            chi2, f = fit.wald_test_terms(use_f=False), fit.wald_test_terms(use_f=True)
            for term, one in about.items():
                close(chi2.loc[term, ["statistic", "pvalue", "df"]], [one["chi2"], one["p"], one["df"]])
                close(f.loc[term, ["statistic", "pvalue"]], [one["f"], one["f_p"]])
        elif text.startswith("t: "):
            found = fit.t_test(of_r(text[3:]))
            close([found.effect[0], found.sd[0]], [about["estimate"], about["se"]])
            if cov == "classical":
                close([found.statistic[0], found.pvalue[0]], [about["statistic"], about["p"]])
                close(found.conf_int()[0], [about["lower"], about["upper"]])
        else:
            close(fit.wald_test(of_r(text), use_f=False)[:3], [about["chi2"], about["p"], about["df"]])
            close(fit.wald_test(of_r(text), use_f=True)[:2], [about["f"], about["f_p"]])


def test_a_matrix_says_the_same_as_a_text(models):
    fit = models["linear"]
    R = np.zeros((2, len(fit.params)))
    R[0, 1], R[1, 5] = 1.0, -2.0
    assert fit.wald_test(R) == pytest.approx(fit.wald_test("age = 0, -2*treated = 0"))
    named = pd.DataFrame(R, columns=fit.params.index)  # the names of its columns were taken for hypotheses
    assert fit.wald_test(named) == fit.wald_test(R)
    assert fit.wald_test(np.array(["age", "treated"])).df == 2
    frame = fit.t_test("(age - 1)/2 = 3*0.5").summary_frame()
    assert frame.loc["(age - 1)/2 = 3*0.5", "coef"] == pytest.approx((fit.params["age"] - 1) / 2 - 1.5)
    assert str(fit.t_test("age")) == fit.t_test("age").summary_frame().to_string()
    assert fit.t_test(["age", "treated"]).effect.tolist() == fit.params[["age", "treated"]].tolist()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("age = ", "wanted the name of a coefficient or a number"),
        ("height = 0", "character 1: wanted the name of a coefficient"),
        ("age*treated = 0", "wanted a linear equation"),
        ("age/0 = 1", "wanted a linear equation"),
        ("1 = 1", "wanted a coefficient"),
        ("age = 0, age = 0", "the hypotheses depend on each other"),
        ("(age = 0", r"wanted '\)'"),
        ("age = 0; treated", "wanted an equation"),
        ("__import__('os')", "wanted the name of a coefficient"),
        ([1.0, 2.0], "a matrix with 9 columns"),
        ([[1.0], [1.0, 2.0]], "a matrix with 9 columns"),
        (["age = 0", 3], "a matrix with 9 columns"),
        (7, "a matrix with 9 columns"),
        ({"age": 0.02}, "a matrix with 9 columns"),
    ],
)
def test_what_is_no_hypothesis_is_refused(models, text, sentence):
    with pytest.raises(dsba.InputError, match=sentence):
        models["linear"].wald_test(text)


@pytest.mark.parametrize("kind", OUTCOMES)
def test_likelihood_ratios_of_nested_models(kind, models):
    for right, wanted in WANTED["comparisons"][kind].items():
        if right == "1":
            continue
        found = models[kind].compare_lr_test(model(kind, right))
        close(found, [wanted["lr"], wanted["lr_p"], wanted["df"]])
    with pytest.raises(dsba.InputError, match="smaller and nested"):
        model(kind, "age").compare_lr_test(models[kind])
    with pytest.raises(dsba.InputError, match="must have the same outcome, rows, operator"):
        models["linear"].compare_lr_test(models["logistic"])


@pytest.mark.parametrize("kind", WANTED["predictions"])
def test_predictions_with_intervals(kind, models):
    wanted = WANTED["predictions"][kind]
    found = models[kind].get_prediction(pd.DataFrame(WANTED["persons"]))
    for name, column in found.summary_frame().items():
        close(column, wanted[name])
    if kind != "linear":
        close(found.linear, wanted["linear"])
        close(found.linear_se, wanted["linear_se"])
    with pytest.raises(dsba.InputError, match="missing values in columns that the model needs"):
        models[kind].get_prediction(pd.DataFrame(WANTED["persons"]).assign(age=None, bmi=None).astype({"age": float}))


@pytest.mark.parametrize(("outcome", "operator"), [("readmitted", "logistic"), ("stage", "multinomial")])
def test_rows_with_a_function_that_is_no_number_have_no_prediction(outcome, operator):
    """Before, log(-3) had no probability and yet the first class as its label, and log(0) had a probability of 0."""
    fit = dsba.fit(table(), f"{outcome} ~ age + log(crp)", operator, sites="site")
    new = table().head(4).assign(crp=[-3.0, 0.0, 2.0, np.nan])
    for labels in (False, True):
        found = fit.predict(new, labels=labels)
        assert np.reshape(found.isna(), (4, -1)).all(axis=1).tolist() == [True, True, False, True]
        assert np.reshape(found.isna(), (4, -1)).any(axis=1).tolist() == [True, True, False, True]
    whole = fit.predict(new.iloc[[2]])
    np.testing.assert_allclose(np.ravel(fit.predict(new).iloc[2]), np.ravel(whole), rtol=1e-13)


@pytest.mark.parametrize("kind", ["linear", "logistic", "poisson/exposure"])
def test_robust_covariances(kind):
    for cov in ("HC0", "HC1", "HC2", "HC3"):
        close(model(kind, cov=cov).cov_params(), WANTED["robust"][kind][cov]["cov"])
    close(model(kind, cov="cluster", clusters="ward").bse, WANTED["robust"][kind]["ward"]["bse"])


def test_clusters_are_asked_for_completely(models):
    for given in ({"cov": "cluster"}, {"clusters": "ward"}):
        with pytest.raises(dsba.InputError, match="give both or neither"):
            model("linear", **given)
    with pytest.raises(dsba.InputError, match="no column 'wrad'; did you mean 'ward'"):
        model("linear", cov="cluster", clusters="wrad")
    gaps = table().assign(ward=table()["ward"].where(table()["age"] > 30))
    with pytest.raises(dsba.InputError, match="clusters are never filled in"):
        dsba.fit(gaps, "sbp ~ age", "linear", sites="site", cov="cluster", clusters="ward", missing="mean")


def test_a_row_with_a_coefficient_of_its_own_has_no_leveraged_covariance():
    frame = table().assign(alone=(np.arange(500) == 7).astype(float))
    with pytest.raises(dsba.InputError, match="HC3 does not exist: a coefficient depends on one row alone"):
        dsba.fit(frame, "sbp ~ age + alone", "linear", cov="HC3")


@pytest.mark.parametrize("kind", OUTCOMES)
def test_figures_of_the_whole_model(kind, models):
    fit, wanted = models[kind], WANTED["models"][kind]
    assert repr(fit) == f"<{fit.headline()}>"  # before, all arrays of the model
    assert (fit.df_model, fit.df_resid, fit.converged) == (8, wanted["df_resid"], True)
    close(fit.vif(), list(WANTED["vif"][kind]["columns"].values()))
    residuals = table()[OUTCOMES[kind]] - fit.predict(table())
    mu = fit.predict(table())
    close(fit.pearson_chi2, (residuals**2 / (1.0 if kind == "linear" else mu * (1 - mu))).sum())


@pytest.mark.parametrize("cov", ["HC3", "cluster"])
def test_sites_of_their_own_find_the_same_bits(cov):
    frames = {str(name): frame.reset_index(drop=True) for name, frame in table().groupby("site")}
    given = {"clusters": "ward"} if cov == "cluster" else {}
    spec = FitSpec(formula="sbp ~ age + treated", operator="linear", cov=cov, graph="ring", **given)
    apart = on_sites(frames, lambda sites, net: fit_sites(sites, spec, net))
    whole = dsba.fit(frames, "sbp ~ age + treated", "linear", cov=cov, graph="ring", **given)
    assert len({one.digest() for one in apart}) == 1
    assert (apart[0].cov_params().to_numpy() == whole.cov_params().to_numpy()).all()
    assert apart[0].vif().tolist() == whole.vif().tolist()
    assert len(pooled(frames)) == whole.nobs


def test_the_summary_as_json_has_all_of_it(tmp_path, models):
    models["linear"].save(tmp_path)
    found = json.loads(CliRunner().invoke(app, ["summary", str(tmp_path), "--json"], catch_exceptions=False).stdout)
    assert found["terms"]["stage"]["df"] == 3
    assert found["vif"]["age"] == models["linear"].vif()["age"]
    assert found["df_model"] == 8
    assert found["converged"] is True


def test_quasi_models_have_no_likelihood_to_compare():
    fits = [dsba.fit(table(), f"visits ~ {right}", "quasi-poisson", sites="site") for right in ("age + sex", "age")]
    for ask in (lambda: fits[0].compare_lr_test(fits[1]), fits[0].pseudo_rsquared):
        with pytest.raises(dsba.InputError, match="this model has no likelihood"):
            ask()


@pytest.mark.parametrize(
    ("operator", "formula", "smaller", "other"),
    [
        ("poisson", "visits ~ age", "visits ~ 1", {"exposure": "years"}),
        ("cox", "Surv(years, died) ~ age + crp", "Surv(years, died) ~ age", {"strata": "site"}),
        ("cox", "Surv(years, died) ~ age + crp", "Surv(years, died) ~ age", {"ties": "breslow"}),
    ],
)
def test_likelihoods_of_other_offsets_strata_or_ties_are_not_compared(operator, formula, smaller, other):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.normal(size=90), "crp": rng.normal(size=90), "site": np.repeat(["A", "B", "C"], 30)}
    )
    frame["years"], frame["died"] = rng.integers(1, 20, 90), rng.integers(0, 2, 90)
    frame["visits"] = rng.poisson(2.0, 90)
    usual = {"strata": None} if operator == "cox" else {}
    larger = dsba.fit(frame, formula, operator, sites="site", **usual)
    assert larger.compare_lr_test(dsba.fit(frame, smaller, operator, sites="site", **usual))[2] == 1
    with pytest.raises(dsba.InputError, match="must have the same outcome"):
        larger.compare_lr_test(dsba.fit(frame, smaller, operator, sites="site", **usual | other))


def test_a_model_is_not_saved_below_a_file(models, tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(dsba.errors.DsbaError, match=r"cannot write into .*taken"):
        models["linear"].save(tmp_path / "taken")


@pytest.mark.parametrize("weights", [None, "u"])
def test_inflation_of_columns_that_nearly_depend_on_others(weights):
    """Beside 1/(1 - R^2) of a column on the other; such columns are mixed before the fit."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=300), "y": rng.normal(size=300), "u": rng.uniform(1.0, 5.0, 300)})
    noise = 1e-4 * rng.normal(size=300)
    frame["z"], frame["site"] = frame["x"] + noise, np.arange(300) % 3
    fit = dsba.fit(frame, "y ~ x + z", "linear", sites="site", weights=weights)
    w = np.ones(300) if weights is None else frame[weights].to_numpy()
    (a, b), (_, d) = np.cov(np.column_stack([frame["x"], noise]).T, aweights=w)
    np.testing.assert_allclose(fit.vif()["z"], (a + 2.0 * b + d) * a / (a * d - b**2), rtol=1e-6)


def test_cuts_have_no_inflation_and_no_standard_deviation():
    """Where there were as many cuts as columns, they got those of the columns."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=300), "site": np.arange(300) % 3})
    frame["grade"] = np.digitize(frame["x"] + rng.logistic(size=300), [-1, 0, 1])
    fit = dsba.fit(frame, "grade ~ x", "ordinal", sites="site")
    assert list(fit.vif().index) == ["x"]
    assert fit.metadata.sd == pytest.approx((frame["x"].std(ddof=0), 1.0, 1.0, 1.0))
    several = dsba.fit(frame, "grade ~ x", "multinomial", sites="site")
    assert list(several.vif().index) == ["1:x", "2:x", "3:x"]


def graded():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=300), "g": rng.choice(list("abc"), 300), "site": np.arange(300) % 3})
    return frame.assign(grade=np.digitize(frame["x"] + rng.logistic(size=300), [-1, 1]))


def test_a_term_has_the_coefficients_of_all_classes():
    """Only those of the second class were tested; intercepts of classes and cuts were counted in df_model."""
    fit = dsba.fit(graded(), "grade ~ x + g", "multinomial", sites="site")
    names = {"x": ["1:x", "2:x"], "g": [f"{k}:g[T.{level}]" for k in (1, 2) for level in "bc"]}
    found = fit.wald_test_terms()
    for term, own in names.items():
        assert tuple(found.loc[term])[:3] == pytest.approx(tuple(fit.wald_test(own))[:3], rel=1e-9)
    assert fit.df_model == 6
    assert dsba.fit(graded(), "grade ~ x + g", "ordinal", sites="site").df_model == 3


@pytest.mark.parametrize("operator", ["multinomial", "ordinal"])
def test_of_three_classes_none_is_the_event(operator):
    fit = dsba.fit(graded(), "grade ~ x", operator, sites="site")
    assert fit.event is None
    assert "event" not in fit.headline()
    assert fit.plain()["event"] is None


@pytest.mark.parametrize(("operator", "drawn"), [("multinomial", ["1:x", "2:x"]), ("ordinal", ["x"])])
def test_a_forest_has_no_intercepts_and_no_cuts(operator, drawn, monkeypatch):
    shown = []
    monkeypatch.setattr("dsba.tables.plots.forest", lambda frame, *more: shown.extend(frame.index))
    dsba.fit(graded(), "grade ~ x", operator, sites="site").forest("forest.pdf")
    assert shown == drawn


@pytest.mark.parametrize(("operator", "cut"), [("multinomial", "1:Intercept"), ("ordinal", "0|1")])
def test_the_picture_of_effects_has_no_intercepts_and_no_cuts(operator, cut):
    page = model_page(dsba.fit(graded(), "grade ~ x", operator, sites="site"), "dsba train")
    picture = page[page.index('aria-label="Effects') :].partition("</svg>")[0]
    assert "x" in picture
    assert cut not in picture
