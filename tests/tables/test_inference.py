"""Standard errors, likelihoods and predictions against statsmodels on the pooled rows."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from numpy import log  # noqa: F401  (for the formulas of statsmodels)
from rich.console import Console
from scipy import stats
from scipy.optimize import minimize

import dsba
from dsba.errors import FitError, InputError
from dsba.fitting.spec import FitSpec
from dsba.tables import fit as tables
from dsba.tables.inputs import as_sites
from dsba.tables.page import model_page

FOUR = Path(os.environ.get("DSBA_DATA", "nowhere")) / "sites"
four_hospitals = pytest.mark.skipif(not FOUR.is_dir(), reason="DSBA_DATA has no folder sites")
FAMILIES = {"logistic": sm.families.Binomial(), "poisson": sm.families.Poisson()}
FORMULAS = {
    "logistic": "readmitted ~ age + C(sex) + log(crp) + lab",
    "poisson": "visits ~ age + C(sex) + log(crp) + lab + C(ward)",
    "linear": "cost ~ age*C(sex) + log(crp) + lab",
}


def patients(rows=(150, 90, 120, 60), seed=1):
    """One table with a column ``hospital``; the columns differ in size by many orders."""
    rng = np.random.default_rng(seed)
    n = sum(rows)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 90, n).astype(float),
            "sex": rng.choice(["F", "M"], n),
            "ward": rng.choice(["A&E", "cardio", "surgery"], n),
            "crp": rng.exponential(5.0, n) + 0.1,
            "lab": 100 + 0.01 * rng.normal(size=n),
            "days": rng.uniform(1, 30, n),
            "weight": rng.uniform(0.2, 3.0, n),
            "hospital": np.repeat([f"h{k}" for k in range(len(rows))], rows),
        }
    )
    score = 0.03 * (frame["age"] - 50) + 0.4 * (frame["sex"] == "M") + 0.2 * np.log(frame["crp"])
    frame["readmitted"] = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no")
    frame["visits"] = rng.poisson(np.exp(0.5 * score))
    frame["cost"] = 5000 + 100 * score + rng.normal(size=n) * 30 * (1 + frame["age"] / 50)
    return frame


class Shifted:
    """Results of statsmodels for columns from which a number was taken off, as results for the columns themselves.

    On a column of 100 +- 0.01 statsmodels itself loses half of its digits.
    """

    def __init__(self, found, shifts):
        self.found = found
        T = pd.DataFrame(np.eye(len(found.params)), found.params.index, found.params.index)
        for name in shifts.keys() & set(T.columns):
            T.loc["Intercept", name] = -shifts[name]
        self.params, self.cov = T @ found.params, T @ found.cov_params() @ T.T
        self.bse = np.sqrt(pd.Series(np.diag(self.cov), self.cov.index))
        self.shifts = shifts

    def __getattr__(self, name):
        return getattr(self.found, name)

    def predict(self, frame, **options):
        return self.found.predict(shifted(frame, self.shifts), **options)


SHIFTS = dict.fromkeys(("lab", "lab0", "lab2", "lab5"), 100.0)


def shifted(frame, shifts):
    return frame.assign(**{name: frame[name] - by for name, by in shifts.items() if name in frame})


def theirs(frame, *args, **options):
    return Shifted(plainly(shifted(frame, SHIFTS), *args, **options), SHIFTS)


def plainly(frame, formula, operator, cov="classical", sites="hospital", **options):
    """statsmodels on the pooled rows; its GLM ignores HC1's factor."""
    frame = frame.copy()
    response = formula.partition("~")[0].strip()
    if operator == "logistic":
        frame[response] = (frame[response] == "yes").astype(float)
    groups = {"groups": frame[sites].astype("category").cat.codes, "use_correction": True}
    kinds = {"classical": {}, "HC0": {"cov_type": "HC0"}, "HC1": {"cov_type": "HC1"}}
    kind = kinds.get(cov, {"cov_type": "cluster", "cov_kwds": groups})
    if operator == "linear":
        model = smf.wls(formula, frame, **options) if options else smf.ols(formula, frame)
        return model.fit(**kind)
    return smf.glm(formula, frame, family=FAMILIES[operator], **options).fit(tol=1e-14, maxiter=100, **kind)


def factor(found, operator, cov):
    """What statsmodels' GLM leaves out of HC1."""
    n, p = found.nobs, len(found.params)
    return np.sqrt(n / (n - p)) if operator != "linear" and cov == "HC1" else 1.0


def assert_same(ours, found, operator, cov):
    names = list(found.params.index)
    assert sorted(ours.params.index) == sorted(names)
    se = found.bse * factor(found, operator, cov)
    assert (abs(ours.params[names] - found.params) / se).max() < 1e-8
    np.testing.assert_allclose(ours.bse[names], se, rtol=1e-8)
    z = found.params / se
    np.testing.assert_allclose(ours.tvalues[names], z, atol=1e-8, rtol=1e-8)
    spread = stats.t(found.df_resid) if operator == "linear" and cov == "classical" else stats.norm
    spread = stats.t(len(ours.schema.parts) - 1) if cov == "site" else spread
    np.testing.assert_allclose(ours.pvalues[names], 2 * spread.sf(abs(z)), atol=1e-8)
    if factor(found, operator, cov) == 1.0 and cov != "site":
        same = [name for name in names if name != "Intercept"]  # which Shifted changes
        np.testing.assert_allclose(ours.pvalues[same], found.pvalues[same], atol=1e-8)
        away = np.abs(ours.conf_int().loc[same] - found.conf_int().loc[same]).max(axis=1)
        assert (away / se[same]).max() < 1e-8
    size = np.outer(se, se)
    covariance = found.cov.to_numpy() * factor(found, operator, cov) ** 2
    assert (np.abs(ours.cov_params().loc[names, names] - covariance) / size).to_numpy().max() < 1e-8
    assert ours.nobs == found.nobs
    assert ours.llf == pytest.approx(found.llf, rel=1e-8)
    assert ours.aic == pytest.approx(found.aic, rel=1e-8)
    assert ours.bic == pytest.approx(found.bic if operator == "linear" else found.bic_llf, rel=1e-8)
    assert ours.df_resid == found.df_resid
    if operator == "linear":
        assert ours.deviance == pytest.approx(found.ssr, rel=1e-8)
        assert ours.null_deviance == pytest.approx(found.centered_tss, rel=1e-8)
    else:
        assert ours.deviance == pytest.approx(found.deviance, rel=1e-8)
        assert ours.null_deviance == pytest.approx(found.null_deviance, rel=1e-8)
        for kind in ("cs", "mcf"):
            assert ours.pseudo_rsquared(kind) == pytest.approx(found.pseudo_rsquared(kind), rel=1e-7)


@pytest.mark.parametrize("cov", ["classical", "HC0", "HC1", "site"])
@pytest.mark.parametrize("operator", list(FORMULAS))
def test_inference_is_that_of_the_pooled_rows(operator, cov, monkeypatch):
    """By site CR1, which models of many coefficients have."""
    monkeypatch.setattr("dsba.tables.clustered.MOST_COEFFICIENTS", 0)
    frame = patients()
    ours = dsba.fit(frame, FORMULAS[operator], operator, sites="hospital", cov=cov, graph="ring")
    assert_same(ours, theirs(frame, FORMULAS[operator], operator, cov), operator, cov)
    assert ours.statistic == ("t" if (operator, cov) == ("linear", "classical") or cov == "site" else "z")


@pytest.mark.parametrize("operator", list(FORMULAS))
def test_weights(operator):
    frame = patients()
    ours = dsba.fit(frame, FORMULAS[operator], operator, sites="hospital", weights="weight")
    options = {"weights" if operator == "linear" else "var_weights": frame["weight"]}
    assert_same(ours, theirs(frame, FORMULAS[operator], operator, **options), operator, "classical")


def test_offsets():
    frame = patients().assign(log_days=lambda f: np.log(f["days"]))
    ours = dsba.fit(frame, FORMULAS["poisson"], "poisson", sites="hospital", offset="log_days")
    found = theirs(frame, FORMULAS["poisson"], "poisson", offset=frame["log_days"])
    assert_same(ours, found, "poisson", "classical")
    np.testing.assert_allclose(ours.predict(frame), found.predict(frame, offset=frame["log_days"]), rtol=1e-10)
    linear = dsba.fit(frame, FORMULAS["linear"], "linear", sites="hospital", offset="days")
    shifted = theirs(frame.assign(cost=frame["cost"] - frame["days"]), FORMULAS["linear"], "linear")
    np.testing.assert_allclose(linear.params[shifted.params.index], shifted.params, rtol=1e-8)
    logistic = dsba.fit(frame, FORMULAS["logistic"], "logistic", sites="hospital", offset="log_days")
    found = theirs(frame, FORMULAS["logistic"], "logistic", offset=frame["log_days"])
    names = list(found.params.index)
    np.testing.assert_allclose(logistic.params[names], found.params, rtol=1e-8)
    np.testing.assert_allclose(logistic.bse[names], found.bse, rtol=1e-8)
    assert logistic.deviance == pytest.approx(found.deviance, rel=1e-8)


def test_a_penalty_does_not_depend_on_the_unit_of_an_exposure():
    """The minimum of sum(w loss) / sum(w) + lam/2 ||b||^2 in scaled columns, whatever exp(offset) is measured in."""
    frame = patients()
    age, weight = frame["age"], frame["weight"]
    scaled = (age - age.mean()) / age.std(ddof=0)
    for unit in (1.0, 1 / 365):
        table = frame.assign(time=np.log(unit * frame["days"]))

        def objective(b, offset=table["time"]):
            score = b[0] + b[1] * scaled + offset
            return np.average(np.exp(score) - frame["visits"] * score, weights=weight) + 0.05 * b[1] ** 2

        start = np.log(np.sum(weight * frame["visits"]) / np.sum(weight * np.exp(table["time"])))
        wanted = minimize(objective, [start, 0.0], tol=1e-12).x[1] / age.std(ddof=0)
        ours = dsba.fit(table, "visits ~ age", "poisson", sites="hospital", lam=0.1, offset="time", weights="weight")
        assert ours.params["age"] == pytest.approx(wanted, rel=1e-4)
        assert ours.model.spec.lam == 0.1


def test_without_an_intercept():
    frame = patients()
    ours = dsba.fit(frame, "cost ~ 0 + age + C(sex)", "linear", sites="hospital")
    assert not ours.by_site(frame, sites="hospital").failed
    assert "cost ~ 0 + age + C(sex)" in model_page(ours, "dsba train")
    found = theirs(frame, "cost ~ 0 + age + C(sex)", "linear")
    names = ours.bse.index.str.replace("T.", "")  # formulaic calls all levels C(sex)[T.F], patsy C(sex)[F]
    np.testing.assert_allclose(ours.bse, found.bse[names], rtol=1e-8)
    np.testing.assert_allclose(ours.params, found.params[names], rtol=1e-8)


def test_the_split_over_sites_does_not_matter():
    frame = patients()
    one = dsba.fit(frame, FORMULAS["logistic"])
    frames = [part.drop(columns="hospital") for _, part in frame.groupby("hospital")]
    for table in (frames, dict(enumerate(frames))):
        many = dsba.fit(table, FORMULAS["logistic"], graph="ring")
        np.testing.assert_allclose(many.params, one.params, rtol=1e-10)
        np.testing.assert_allclose(many.bse, one.bse, rtol=1e-10)


def test_site_effects():
    frame = patients()
    frames = {name: part.drop(columns="hospital") for name, part in frame.groupby("hospital")}
    ours = dsba.fit(frames, "readmitted ~ age + C(site)")
    found = theirs(frame.rename(columns={"hospital": "site"}), "readmitted ~ age + C(site)", "logistic", sites="site")
    assert_same(ours, found, "logistic", "classical")
    new = frames["h2"].head()
    np.testing.assert_allclose(ours.predict(new, name="h2"), found.predict(new.assign(site="h2")), atol=1e-10)
    with pytest.raises(InputError, match=r"5 rows of the table have a level of 'site' that the model does not know"):
        ours.predict(new)


# What is made of it ----------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", list(FORMULAS))
def test_predictions_and_files(operator, tmp_path):
    frame = patients()
    ours = dsba.fit(frame, FORMULAS[operator], operator, sites="hospital")
    ours.save(tmp_path / "run")
    back = dsba.load(tmp_path / "run")
    new = patients(seed=2)[["age", "sex", "crp", "lab", "ward"]].iloc[5:25]
    found = theirs(frame, FORMULAS[operator], operator).predict(new)
    np.testing.assert_allclose(ours.predict(new), found, rtol=1e-10)
    pd.testing.assert_series_equal(back.predict(new), ours.predict(new))
    pd.testing.assert_frame_equal(back.to_frame(), ours.to_frame())
    pd.testing.assert_frame_equal(back.cov_params(), ours.cov_params())
    assert json.dumps(back.plain()) == json.dumps(ours.plain())
    gaps = new.assign(sex=new["sex"].where(new.index != new.index[3]))
    assert back.predict(gaps).isna().tolist() == [k == 3 for k in range(20)]
    for spoilt, sentence in (
        (new.drop(columns="crp"), "the table has no column 'crp', which the model needs"),
        (new.assign(age="old"), "the column 'age' of the table is text, and the model was trained with number"),
        (new.assign(sex="X"), "20 rows of the table have a level of 'sex' that the model does not know"),
    ):
        with pytest.raises(InputError, match=sentence):
            back.predict(spoilt)


def test_labels_and_ratios():
    frame = patients()
    ours = dsba.fit(frame, FORMULAS["logistic"], sites="hospital")
    likely = ours.predict(frame) > 0.5
    assert (ours.predict(frame, labels=True) == np.where(likely, "yes", "no")).all()
    ratios = ours.ratios()
    np.testing.assert_allclose(ratios["odds ratio"], np.exp(ours.params))
    np.testing.assert_allclose(ratios[["low", "high"]], np.exp(ours.conf_int()))
    linear = dsba.fit(frame, FORMULAS["linear"], "linear", sites="hospital")
    for ask in (linear.ratios, lambda: linear.predict(frame, labels=True)):
        with pytest.raises(InputError):
            ask()


def test_the_summary():
    ours = dsba.fit(patients(), FORMULAS["linear"], "linear", sites="hospital")
    text, html = str(ours.summary()), ours.summary()._repr_html_()
    for name in ("Intercept", "C(sex)[T.M]", "std err", "P>|t|", "[0.025"):
        assert name in text
    assert "C(sex)[T.M]" in html
    assert "420 rows of 4 sites" in " ".join(text.split())
    assert ours.to_frame().loc["age", "coef"] == ours.params["age"]


def test_a_penalty_has_no_standard_errors():
    frame = patients()
    ours = dsba.fit(frame, FORMULAS["logistic"], sites="hospital", lam=0.1)
    free = dsba.fit(frame, FORMULAS["logistic"], sites="hospital")
    assert abs(ours.params["age"]) < abs(free.params["age"])
    with pytest.raises(InputError, match="A penalty shrinks the coefficients"):
        _ = ours.bse
    assert "A penalty shrinks" in " ".join(str(ours.summary()).split())
    assert ours.plain()["se"] is None
    assert list(ours.to_frame().columns) == ["coef"]


def test_a_fit_that_ended_early_has_no_standard_errors():
    """Errors of another point than the solution would look as good as any."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=120), "site": np.repeat(["a", "b", "c"], 40)})
    table["y"] = rng.poisson(np.exp(1.0 + table["x"]))
    sites = as_sites(table, "site")
    spec = FitSpec(formula="y ~ x", operator="poisson", algorithm="newton", max_passes=2.0)
    results = tables.fit_sites(sites, spec, dsba.Simulator(dsba.Topology.ring(3)))
    assert "ended before its solution was reached" in results.headline()
    with pytest.raises(dsba.InputError, match="ended before its solution was reached"):
        _ = results.bse


def test_a_robust_loss_has_no_likelihood():
    ours = dsba.fit(patients(), "cost ~ age", "huber", sites="hospital")
    with pytest.raises(InputError, match="not a likelihood"):
        _ = ours.llf


def test_what_the_data_does_not_determine_is_named():
    frame = patients().assign(twice=lambda f: 2 * f["age"], event=lambda f: np.where(f["age"] > 50, "yes", "no"))
    with pytest.raises(FitError, match=r"age and twice|twice and age"):
        dsba.fit(frame, "readmitted ~ age + twice + lab", sites="hospital")
    with pytest.raises(FitError, match=r"separated perfectly by .*age"):
        dsba.fit(frame, "event ~ age", sites="hospital")


def test_bad_options():
    frame = patients()
    with pytest.raises(InputError, match="unknown cov 'HC9'"):
        dsba.fit(frame, "cost ~ age", "linear", sites="hospital", cov="HC9")
    with pytest.raises(InputError, match="need at least 3 sites"):
        dsba.fit(frame, "cost ~ age", "linear", cov="site")
    with pytest.raises(InputError, match="one coefficient for each column"):
        dsba.fit(frame, "ward ~ age", "softmax", sites="hospital")


# The four hospitals ----------------------------------------------------------------------------------

MODELS = {
    "logistic": "readmitted ~ age + C(sex) + log(crp) + creatinine + C(ward) + C(insurer)",
    "poisson": "n_visits ~ age + C(sex) + lab0 + lab1 + lab3 + C(health) + disea",
    "linear": "cost ~ age + C(sex) + sbp + C(ward) + lncoins + lab2 + lab5 + physlm",
}


@four_hospitals
@pytest.mark.parametrize("cov", ["classical", "HC1", "site"])
@pytest.mark.parametrize("operator", list(MODELS))
def test_four_hospitals(operator, cov, monkeypatch):
    monkeypatch.setattr("dsba.tables.clustered.MOST_COEFFICIENTS", 0)
    frames = {file.stem: pd.read_csv(file) for file in sorted(FOUR.glob("*.csv"))}
    whole = pd.concat([frame.assign(hospital=name) for name, frame in frames.items()], ignore_index=True)
    named = [c for c in whole.columns if c in MODELS[operator]]
    whole = whole[[*named, "hospital"]].dropna().reset_index(drop=True)
    ours = dsba.fit(frames, MODELS[operator], operator, missing="drop", cov=cov, graph="ring")
    found = theirs(whole, MODELS[operator], operator, cov)
    assert_same(ours, found, operator, cov)
    np.testing.assert_allclose(ours.predict(whole), found.predict(whole), rtol=1e-10)
    assert ours.rounds <= 200


@pytest.mark.parametrize("family", ["linear", "logistic"])
def test_rows_of_weight_0_are_no_rows(family):
    """As in R: they count neither for degrees of freedom nor for the likelihood."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=200), "site": np.repeat(["a", "b"], 100), "w": rng.integers(0, 3, 200)})
    table["y"] = table["x"] + rng.normal(size=200)
    table["y"] = table["y"] if family == "linear" else (table["y"] > 0.0).astype(int)
    whole, used = (
        dsba.fit(rows, "y ~ x", family, sites="site", weights="w", cov="HC1") for rows in (table, table[table["w"] > 0])
    )
    assert whole.nobs == used.nobs == (table["w"] > 0).sum()
    assert (whole.bse == used.bse).all()
    assert (whole.aic, whole.llf, whole.df_resid) == (used.aic, used.llf, used.df_resid)


def test_a_summary_is_whole_on_a_narrow_terminal():
    """Names with brackets are no markup, and no digit of a number is cut off."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"wbc [/nl]": rng.normal(size=90), "age [y]": rng.normal(size=90) * 1e7, 7: rng.normal(size=90)}
    )
    table["site"], table["y"] = np.repeat(["a", "b", "c"], 30), rng.integers(0, 2, 90)
    fit = dsba.fit(table, "y ~ `wbc [/nl]` + `age [y]` + `7`", sites="site")
    console = Console(width=40, no_color=True)
    with console.capture() as captured:
        console.print(fit.summary(), crop=False)
    said = captured.get()
    for column in ("coef", "std err"):
        assert all(f"{value:.4g} " in said for value in fit.to_frame()[column])
    assert "wbc [/nl] " in said
    assert "`age [y]`" in str(fit.summary())
    assert "…" not in said
    assert fit.predict(table).notna().all()
