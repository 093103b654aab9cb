"""Reference values belong to the tables beside them, and an independent program finds the same values."""

from __future__ import annotations

import hashlib
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT
from reference_values import YARDSTICKS, table, values

SUBJECTS = sorted(path.stem for path in YARDSTICKS.glob("*.json"))
SHARED = {"common", "grids"}  # scripts that other scripts take in


def close(found, wanted, limit=1e-10):
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(wanted, float), rtol=limit, atol=limit)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_file_belongs_to_the_table_beside_it(subject):
    found = values(subject)
    assert hashlib.sha256((YARDSTICKS / found["table"]).read_bytes()).hexdigest() == found["sha256"]
    assert found["made_with"]["R"]


def test_make_yardsticks_makes_every_file_and_the_folder_is_small():
    made = re.search(r"^SUBJECTS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()
    assert set(made) == {path.stem for path in YARDSTICKS.glob("*.R")} - SHARED
    assert set(made) - {"cohort"} == set(SUBJECTS)
    assert sum(path.stat().st_size for path in YARDSTICKS.iterdir() if path.is_file()) < 1_500_000


def design(frame, columns):
    """The columns of a model, by their names in R."""
    made = {"(Intercept)": np.ones(len(frame)), "log(crp)": np.log(frame["crp"]), "smokeryes": frame["smoker"] == "yes"}
    made |= {"sexM": frame["sex"] == "M"} | {f"stage{level}": frame["stage"] == level for level in ("II", "III", "IV")}
    return np.column_stack([made[name] if name in made else frame[name] for name in columns]).astype(float)


def on_grid(kind, subject):
    frame = table()
    if kind != "exact":
        ends = np.array(subject["grids"][kind])
        frame["time"] = ends[np.searchsorted(ends, frame["time"])]
    return frame


@pytest.mark.parametrize("ties", ["efron", "breslow"])
@pytest.mark.parametrize("kind", ["exact", "counts"])
def test_cox(kind, ties):
    from statsmodels.duration.hazard_regression import PHReg

    subject = values("cox")
    frame = on_grid(kind, subject)
    for strata in ("site", "none"):
        wanted = subject["cases"][f"{kind}/{strata}/{ties}"]
        X = design(frame, wanted["params"])
        groups = frame["site"] if strata == "site" else None
        model = PHReg(frame["time"], X - X.mean(0), status=frame["died"], ties=ties, strata=groups)
        at = np.array(list(wanted["params"].values()))
        close(model.loglike(at), wanted["llf"])
        close(np.linalg.inv(-model.hessian(at)), wanted["cov"])
        close(model.score(at) * wanted["bse"], 0)


def risk_sets(frame, X, beta, groups):
    """For every share of an event time (Efron): time, sum of the risks, mean and covariance of the risk set."""
    risk = np.exp(X @ beta)
    time, died = frame["time"].to_numpy(), frame["died"].to_numpy() == 1
    for group in np.unique(groups):
        for at in np.unique(time[died & (groups == group)]):
            here, events = (groups == group) & (time >= at), (groups == group) & died & (time == at)
            for share in np.arange(events.sum()) / events.sum():
                w = risk * here - share * risk * events
                mean = w @ X / w.sum()
                yield at, w.sum(), mean, (X.T * w) @ X / w.sum() - np.outer(mean, mean)


def test_predicted_survival():
    """The variance of the cumulative hazard is that of its jumps and that of the coefficients."""
    subject, frame = values("cox"), table()
    wanted, person = subject["cases"]["exact/none/efron"], pd.DataFrame(subject["persons"]).assign(smoker="no")[1:2]
    X = design(frame, wanted["params"]) - design(person, wanted["params"])
    sets = list(risk_sets(frame, X, np.array(list(wanted["params"].values())), np.zeros(len(frame))))
    curve = wanted["persons"]["2"]["log"]
    for at, survival, error in zip(subject["horizons"], curve["survival"], curve["std_err"], strict=True):
        jumps = np.array([1 / total for time, total, _, _ in sets if time <= at])
        slope = sum(mean / total for time, total, mean, _ in sets if time <= at)
        close(np.exp(-jumps.sum()), survival)
        close(survival * np.sqrt(jumps @ jumps + slope @ wanted["cov"] @ slope), error)


def test_proportional_hazards():
    """The score test of a coefficient that moves with the time."""
    frame, wanted = table(), values("cox")["cases"]["exact/site/efron"]
    X = design(frame, wanted["params"])
    X -= X.mean(0)
    deaths = frame["died"].to_numpy() == 1
    centre = frame["time"][deaths].mean()
    sets = list(risk_sets(frame, X, np.array(list(wanted["params"].values())), frame["site"].to_numpy()))
    score = (frame["time"] - centre)[deaths] @ X[deaths] - sum((at - centre) * mean for at, _, mean, _ in sets)
    I = [sum((at - centre) ** power * V for at, _, _, V in sets) for power in range(3)]
    inner = I[2] - I[1] @ np.linalg.solve(I[0], I[1])
    close(score @ np.linalg.solve(inner, score), wanted["zph"]["terms"]["identity"]["GLOBAL"]["chi2"])
    close(score[0] ** 2 / inner[0, 0], wanted["zph"]["terms"]["identity"]["age"]["chi2"])


@pytest.mark.parametrize("kind", ["exact", "quarters", "counts"])
def test_curves_and_log_rank(kind):
    from statsmodels.duration.survfunc import SurvfuncRight, survdiff

    subject = values("curves")
    frame, wanted = on_grid(kind, subject), subject["cases"][kind]
    for level, rows in frame.groupby("treated"):
        curve, found = wanted["curves"]["treated"][str(level)], SurvfuncRight(rows["time"], rows["died"])
        at = np.searchsorted(curve["time"], found.surv_times)
        close(found.surv_prob, np.array(curve["survival"])[at])
        close(found.surv_prob_se, np.array(curve["std_err"])[at])
    plain = survdiff(frame["time"], frame["died"], frame["stage"])[0]
    stratified = survdiff(frame["time"], frame["died"], frame["treated"], strata=frame["site"])[0]
    close(plain, wanted["tests"]["stage"]["log-rank"]["chi2"])
    close(stratified, wanted["tests"]["treated + strata(site)"]["log-rank"]["chi2"])


def families():
    from statsmodels.genmod import families as f

    return {
        "logistic": ("readmitted", f.Binomial()),
        "probit": ("readmitted", f.Binomial(f.links.Probit())),
        "cloglog": ("readmitted", f.Binomial(f.links.CLogLog())),
        "poisson/exposure": ("visits", f.Poisson()),
        "gamma/log": ("cost", f.Gamma(f.links.Log())),
        "inverse-gaussian/log": ("cost", f.InverseGaussian(f.links.Log())),
    }


def test_families():
    from statsmodels.genmod.generalized_linear_model import GLM

    frame, cases = table(), values("families")["cases"]
    for name, (left, family) in families().items():
        wanted = cases[name]
        exposure = frame["years"] if "exposure" in name else None
        model = GLM(frame[left], design(frame, wanted["params"]), family=family, exposure=exposure)
        found = model.fit(tol=1e-14, tol_criterion="params", maxiter=200)
        close(found.params, list(wanted["params"].values()))
        close(found.bse, wanted["bse"])
        close(model.fit(tol=1e-14, tol_criterion="params", maxiter=200, cov_type="HC0").bse, wanted["bse_hc0"])
        close([found.deviance, found.null_deviance, found.scale, found.pearson_chi2],
              [wanted[key] for key in ("deviance", "null_deviance", "dispersion", "pearson_chi2")])  # fmt: skip


def test_negative_binomial_and_multinomial():
    from statsmodels.discrete.discrete_model import MNLogit, NegativeBinomial

    frame, wanted = table(), values("families")["cases"]["negative-binomial"]
    X = design(frame, wanted["params"])
    found = NegativeBinomial(frame["los"], X).fit(method="newton", disp=0, maxiter=100, tol=1e-14)
    close(found.params.iloc[:-1], list(wanted["params"].values()))
    close([1 / found.params["alpha"], found.llf, found.aic], [wanted["theta"], wanted["llf"], wanted["aic"]])
    wanted = values("classes")["cases"]["multinomial"]
    found = MNLogit(pd.Categorical(frame["score"]).codes, X).fit(method="newton", disp=0, tol=1e-14)
    close(found.params.T.ravel(), list(wanted["params"].values()))
    close(found.bse.T.ravel(), wanted["bse"])


def test_ordinal():
    """Differences of the log-likelihood stand for its gradient."""
    frame, wanted = table(), values("classes")["cases"]["ordinal"]
    names = list(wanted["params"])[:-2]
    X, k = design(frame, names), pd.Categorical(frame["severity"]).codes

    def llf(theta):
        cuts = np.concatenate([[-np.inf], theta[-2:], [np.inf]])
        below = 1 / (1 + np.exp(-(cuts[:, None] - X @ theta[:-2])))
        return np.log(np.diff(below, axis=0)[k, np.arange(len(k))]).sum()

    theta = np.array(list(wanted["params"].values()))
    close(llf(theta), wanted["llf"])
    for step in np.diag(wanted["bse"]) * 1e-4:
        close(llf(theta + step) - llf(theta - step), 0, 1e-9)


def test_meta_analysis():
    for case in values("meta")["cases"].values():
        y, v = (np.array(list(case[key].values())) for key in ("estimates", "variances"))
        w = 1 / v
        Q = w @ (y - w @ y / w.sum()) ** 2
        tau2 = max(0, (Q - len(y) + 1) / (w.sum() - w @ w / w.sum()))
        for method, weights in {"fixed": w, "DL": 1 / (v + tau2)}.items():
            found = [weights @ y / weights.sum(), weights.sum() ** -0.5, Q]
            close(found, [case[method][key] for key in ("estimate", "se", "Q")])
        close(tau2, case["DL"]["tau2"])
        weights = 1 / (v + case["REML"]["tau2"])
        slope = weights**2 @ (y - weights @ y / weights.sum()) ** 2 - weights.sum() + weights @ weights / weights.sum()
        assert abs(slope) < 1e-9 or (case["REML"]["tau2"] == 0 and slope < 0)


def test_random_intercept():
    from statsmodels.regression.mixed_linear_model import MixedLM

    frame, wanted = table(), values("mixed")["cases"]["sbp ~ age + sex + bmi + treated/ML"]
    model = MixedLM(frame["sbp"], design(frame, wanted["params"]), frame["site"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.fit(reml=False, method="bfgs", gtol=1e-9)
    close(found.llf, wanted["llf"])
    close([found.cov_re.iloc[0, 0], found.scale], [wanted["site_variance"], wanted["residual_variance"]], 1e-6)


@pytest.mark.parametrize("alpha", [1, 0.5])
def test_elastic_net(alpha):
    from sklearn.linear_model import ElasticNet

    subject, frame = values("elastic_net"), table()
    case = subject["cases"][f"gaussian/{alpha}/raw"]
    X, y = design(frame, subject["columns"]), frame["sbp"].to_numpy(float)
    for j in (3, 12, 24):
        first, second = case["lambda"][j] * alpha, case["lambda"][j] * (1 - alpha) / y.std()
        net = ElasticNet(alpha=first + second, l1_ratio=first / (first + second), tol=1e-14, max_iter=100_000)
        close(net.fit(X, y).coef_, case["coefficients"][j], 1e-8)


def test_robust_errors_and_predictions():
    from statsmodels.regression.linear_model import OLS

    frame, subject = table(), values("after_fit")
    for kind in ("HC0", "HC1", "HC2", "HC3", "ward"):
        wanted = subject["robust"]["linear"]
        X = design(frame, wanted["params"])
        groups = {"cov_kwds": {"groups": pd.Categorical(frame["ward"]).codes}} if kind == "ward" else {}
        found = OLS(frame["sbp"], X).fit(cov_type="cluster" if groups else kind, **groups)
        close(found.bse, wanted[kind]["bse"])
    new = design(pd.DataFrame(subject["persons"]).assign(smoker="no"), wanted["params"])
    found, wanted = OLS(frame["sbp"], X).fit().get_prediction(new).summary_frame(), subject["predictions"]["linear"]
    close(found[list(wanted)], np.column_stack(list(wanted.values())))


def test_description():
    frame, subject = table("gaps"), values("description")
    for site, rows in frame.groupby("site"):
        for name in ("age", "crp", "cost"):
            wanted, known = subject["by_site"][site][name], rows[name].dropna()
            close([len(known), rows[name].isna().sum(), known.sum(), known.std()],
                  [wanted[key] for key in ("n", "missing", "sum", "sd")])  # fmt: skip
            close(np.quantile(known, subject["probabilities"]), wanted["quantiles_type7"])
            inverse = np.quantile(known, subject["probabilities"], method="inverted_cdf")
            close(inverse, wanted["quantiles_type1"])
        assert rows["stage"].value_counts().to_dict() == subject["by_site"][site]["stage"]["counts"]


def natural_spline(x, inner):
    """R's ns without its intercept: B-splines turned so that the second derivatives vanish at both ends."""
    from scipy.interpolate import BSpline

    ends = np.array([x.min(), x.max()])
    knots = np.concatenate([np.repeat(ends[0], 4), inner, np.repeat(ends[1], 4)])
    basis = BSpline(knots, np.eye(len(knots) - 4), 3)
    turn = np.linalg.qr(basis(ends, nu=2)[:, 1:].T, mode="complete")[0]
    return basis(x)[:, 1:] @ turn[:, 2:]


def test_formulas():
    from formulaic import model_matrix
    from formulaic.transforms.contrasts import PolyContrasts, SumContrasts, TreatmentContrasts

    known = {name: getattr(np, name) for name in ("log1p", "sqrt", "abs", "log2", "log10")}
    known |= {"pmin": np.minimum, "pmax": np.maximum, "Sum": SumContrasts(), "Poly": PolyContrasts()}
    known |= {"Treatment": TreatmentContrasts, "ns": lambda x, df: natural_spline(x, np.quantile(x, [1 / 3, 2 / 3]))}
    respelled = {"y ~ a / (1 + x) - 1": "y ~ 0 + a + a:x"}  # formulaic refuses the first
    frame, cases = table("small"), values("formulas")["cases"]
    assert len({case["formula"] for case in cases}) >= 40
    for case in cases:
        matrix = model_matrix(respelled.get(case["formula"], case["formula"]), frame, context=known)
        X = np.asarray(matrix.rhs, float)
        assert np.linalg.matrix_rank(X) == case["rank"]
        close(np.sort(X.sum(0)), np.sort(case["sums"]))
        close(np.sort((X**2).sum(0)), np.sort(case["squares"]))
