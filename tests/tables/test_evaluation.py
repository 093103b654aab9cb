"""Measures of a table's model against scikit-learn, what travels for them, held-out rows, and the model's page."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hospital_tables import hospitals, on_sites, pooled
from mpi import MPIEXEC, mpiexec, needs_mpi
from queues import together
from registered_models import JOINED
from scipy.stats import norm
from sklearn import metrics
from sklearn.calibration import calibration_curve
from test_inference import FORMULAS, patients
from test_table_commands import ask, refused, tables

import dsba
from dsba.fitting.disclosure import Guards
from dsba.fitting.measures import ClassMeasures, RocPoint
from dsba.fitting.spec import FitSpec
from dsba.tables import fit as fitting
from dsba.tables.design import held_out
from dsba.tables.evaluation import evaluate
from dsba.tables.inputs import as_sites
from dsba.tables.page import interval, model_page, picture, roc_picture, standalone, survival_picture, ticks

SECRET = "patient-4711"
OUTCOMES = {"logistic": "readmitted", "poisson": "visits", "linear": "cost"}


def outcome(frame, operator):
    values = frame[OUTCOMES[operator]]
    return (values == "yes").astype(int) if operator == "logistic" else values


def assert_measures(found, y, p, operator):
    """scikit-learn's, on the same rows."""
    assert found.rows == len(y)
    assert found.mean_outcome == pytest.approx(y.mean())
    assert found.mean_prediction == pytest.approx(p.mean())
    if operator == "logistic":
        assert found.events == y.sum()
        assert abs(found.auc - metrics.roc_auc_score(y, p)) <= found.auc_within < 0.01
        assert found.log_loss == pytest.approx(metrics.log_loss(y, p), rel=1e-12)
        assert found.brier == pytest.approx(metrics.brier_score_loss(y, p), rel=1e-12)
        observed, predicted = calibration_curve(y, p, n_bins=10)
        np.testing.assert_allclose([group.observed for group in found.calibration], observed, rtol=1e-12)
        np.testing.assert_allclose([group.predicted for group in found.calibration], predicted, rtol=1e-12)
        assert sum(group.rows for group in found.calibration) == len(y)
    elif operator == "poisson":
        assert found.deviance == pytest.approx(metrics.mean_poisson_deviance(y, p), rel=1e-12)
        assert found.d2 == pytest.approx(metrics.d2_tweedie_score(y, p, power=1), rel=1e-10)
    else:
        assert found.r2 == pytest.approx(metrics.r2_score(y, p), rel=1e-12)
        assert found.rmse == pytest.approx(metrics.root_mean_squared_error(y, p), rel=1e-12)


@pytest.mark.parametrize("operator", list(FORMULAS))
def test_measures_are_those_of_scikit_learn(operator):
    fit = dsba.fit(patients(), FORMULAS[operator], operator, sites="hospital")
    new = patients((200, 90, 70, 60), seed=5)
    found = fit.evaluate(new, sites="hospital")
    p = fit.predict(new)
    assert_measures(found.pooled, outcome(new, operator), p, operator)
    for name, part in new.groupby("hospital"):
        assert_measures(found.sites[name], outcome(part, operator), p[part.index], operator)


def test_ends_of_the_scores_and_one_class():
    """Scores beyond the bins are ties; without an event there is no curve."""
    fit = dsba.fit(patients(), "readmitted ~ age", sites="hospital")
    extreme = pd.DataFrame({"age": [-1e4, 1e4, 50.0], "readmitted": ["no", "yes", "no"]})
    assert fit.evaluate(extreme).pooled.auc == 1.0
    none = fit.evaluate(patients(seed=2).query("readmitted == 'no'")).pooled
    assert none.auc is None
    assert none.events == 0


def test_interval_and_curve_against_loops_over_pairs():
    """DeLong's interval by its definition, of scores in the bins; the points of the curve are counts of rows."""
    fit = dsba.fit(patients(), FORMULAS["logistic"], sites="hospital")
    new = patients((60, 40, 30, 20), seed=5)
    y, score = outcome(new, "logistic").to_numpy(), np.floor(64 * fit.scores(new)[0])
    found = fit.evaluate(new).pooled
    events, others = score[y == 1], score[y == 0]
    right = [[1.0 if a > b else 0.5 if a == b else 0.0 for b in others] for a in events]
    assert found.auc == pytest.approx(np.mean(right), rel=1e-12)
    spread = sum(np.var(np.mean(right, axis=k), ddof=1) / np.shape(right)[1 - k] for k in (0, 1))
    reach = norm.ppf(0.975) * np.sqrt(spread)
    assert (found.auc_low, found.auc_high) == pytest.approx((found.auc - reach, found.auc + reach))
    first, *points, last = found.roc
    assert (first.false_positive, first.true_positive) == (0.0, 0.0)
    assert (last.false_positive, last.true_positive) == (1.0, 1.0)
    assert len(points) >= 5
    for point in points:
        assert point.true_positive == np.mean(events >= 64 * point.score)
        assert point.false_positive == np.mean(others >= 64 * point.score)
    above = [np.sum(score >= 64 * point.score) for point in points]
    assert np.diff([0, *above, len(y)]).min() >= 10


def test_calibration_slope_and_intercept_are_those_of_statsmodels():
    import statsmodels.api as sm

    fit = dsba.fit(patients(), FORMULAS["logistic"], sites="hospital")
    new = patients((200, 90, 70, 60), seed=5)
    found, y, score = fit.evaluate(new).pooled, outcome(new, "logistic"), fit.scores(new)[0]
    slope = sm.GLM(y, sm.add_constant(score), sm.families.Binomial()).fit(tol=1e-14)
    large = sm.GLM(y, np.ones(len(y)), sm.families.Binomial(), offset=score).fit(tol=1e-14)
    for name, value, error in (("slope", slope.params.iloc[1], slope.bse.iloc[1]),
                               ("intercept", large.params.iloc[0], large.bse.iloc[0])):  # fmt: skip
        assert getattr(found, f"calibration_{name}") == pytest.approx(value, rel=1e-8)
        assert getattr(found, f"calibration_{name}_se") == pytest.approx(error, rel=1e-6)
    seen = fit.evaluate(patients()).pooled  # the rows of the fit
    assert seen.calibration_slope == pytest.approx(1.0, abs=1e-7)
    assert seen.calibration_intercept == pytest.approx(0.0, abs=1e-7)
    parted = pd.DataFrame({"age": [20.0, 30, 70, 80] * 5, "readmitted": ["no", "no", "yes", "yes"] * 5})
    alone = dsba.fit(patients(), "readmitted ~ age", sites="hospital").evaluate(parted).pooled
    assert alone.calibration_slope is None  # the outcomes are separated


def test_rows_that_cannot_be_predicted_are_left_out_and_counted():
    fit = dsba.fit(patients(), FORMULAS["logistic"], sites="hospital")
    new = patients(seed=4)
    gaps = new.copy()
    gaps.loc[gaps.index[:3], "age"] = np.nan
    gaps.loc[gaps.index[3:5], "sex"] = "X"
    gaps.loc[gaps.index[5], "readmitted"] = None
    found = fit.evaluate(gaps).pooled
    assert found.left_out == 6
    assert replace(found, left_out=0) == fit.evaluate(new.iloc[6:]).pooled


@pytest.mark.parametrize("operator", list(FORMULAS))
def test_a_weighted_model_is_evaluated_on_rows_without_weights(operator):
    frame = patients()
    fit = dsba.fit(frame.assign(times=1.0), FORMULAS[operator], operator, sites="hospital", weights="times")
    found = fit.evaluate(frame, sites="hospital").pooled
    assert_measures(found, outcome(frame, operator), fit.predict(frame), operator)


def test_tables_that_do_not_fit_are_refused_without_a_value():
    logistic = dsba.fit(patients(), "readmitted ~ age", sites="hospital")
    linear = dsba.fit(patients(), "cost ~ age", "linear", sites="hospital")
    new = patients(seed=4)
    for fit, spoilt, sentence in (
        (logistic, new.drop(columns="readmitted"), "all has no column 'readmitted', which is the outcome"),
        (logistic, new.drop(columns="age"), "all has no column 'age', which the model needs"),
        (logistic, new.assign(readmitted=SECRET), "some rows of all have an outcome that the model does not know"),
        (linear, new.assign(cost=SECRET), "the column 'cost' of all is not a number"),
        (linear, new.assign(age=SECRET), "the column 'age' of all is text"),
        (linear, new.assign(cost=np.nan), "there is no row to evaluate"),
        (logistic, new.assign(age=np.inf), "the score is not a finite number in some rows of all"),
        (linear, new.assign(cost=-np.inf), "the outcome is not a finite number in some rows of all"),
    ):
        with pytest.raises(dsba.InputError, match=sentence) as error:
            fit.evaluate(spoilt)
        assert SECRET not in str(error.value)


@pytest.mark.parametrize("operator", list(FORMULAS))
def test_only_sums_travel(operator):
    """Every site a process of its own: the same bits, and no question but agreed facts and sums."""
    fit = dsba.fit(patients(), FORMULAS[operator], operator, sites="hospital")
    sites = as_sites(patients((200, 90, 70, 60), seed=5), "hospital")
    one = evaluate(fit, sites, dsba.Simulator(dsba.Topology.path(4)))

    def work(net):
        for question in ("gather", "share", "mix", "exchange"):
            setattr(net, question, lambda *_: pytest.fail("something else than a sum was told"))
        widths, add = [], net.sum
        net.sum = lambda rows: widths.append(rows.shape) or add(rows)
        return evaluate(fit, [sites[net.rank]], net), widths

    everyone = together(dsba.Topology.path(4), 4, work)
    for rank, (found, widths) in enumerate(everyone):
        assert found.pooled == everyone[0][0].pooled
        for name, value in vars(one.pooled).items():
            assert getattr(found.pooled, name) == value or name in JOINED, name
        if operator == "logistic":
            assert abs(found.pooled.auc - one.pooled.auc) <= found.pooled.auc_within < 0.05
        assert found.sites == {sites[rank].name: one.sites[sites[rank].name]}
        assert {rows for rows, _ in widths} == {1}  # one row of sums a site, of a length that the data does not change
        assert len(widths) == len(everyone[0][1])
        if operator != "logistic":
            assert widths[-1][1] == 2


def shown_counts(found, m, n):
    """Events and other rows between the points of the curve, and in the groups of the calibration."""
    points = [(n * one.false_positive, m * one.true_positive) for one in found.roc]
    groups = [(g.rows * (1.0 - g.observed), g.rows * g.observed) for g in found.calibration]
    return np.round(np.diff(points, axis=0)), np.round(groups)


def own_counts(found, y, score):
    """The same of the rows of one site."""
    ends = [np.inf if k == 0 else -np.inf if one.score is None else one.score
            for k, one in enumerate(found.roc)]  # fmt: skip
    p = 1 / (1 + np.exp(-score))
    curve = [[np.sum((y == label) & (score >= low) & (score < high)) for label in (0, 1)]
             for high, low in pairwise(ends)]  # fmt: skip
    groups = [[np.sum((y == label) & (p >= g.low - 1e-12) & (p < g.high + (g.high == 1.0)))
               for label in (0, 1)] for g in found.calibration]  # fmt: skip
    return np.array(curve), np.array(groups)


@pytest.mark.parametrize("seed", range(4))
def test_no_curve_and_no_group_shows_few_rows(seed):
    """Of y ~ age the score is the age: a bin with one event would be a person of this age with this outcome."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"h": rng.choice(["h0", "h1", "h2"], 600), "age": rng.normal(60, 15, 600)})
    frame["y"] = (rng.random(600) < 1 / (1 + np.exp(-(0.15 * (frame["age"] - 60) - seed)))).astype(int)
    frame.loc[0, ["age", "y"]] = 2.0, 1
    sites = as_sites(frame, "h")
    spec = FitSpec(formula="y ~ age", graph="ring", guards=Guards(leverage=1.0))

    def work(net):
        fit = fitting.fit_sites([sites[net.rank]], spec, net)
        return fit, evaluate(fit, [sites[net.rank]], net, Guards()).pooled

    fit, found = together(dsba.Topology.ring(3), 3, work)[0]
    m = int(frame["y"].sum())
    assert sum(group.rows for group in found.calibration) == 600
    of_fit = replace(found, calibration=fit.metadata.calibration)
    for measures in (found, of_fit):
        shown = shown_counts(measures, m, 600 - m)
        assert len(shown[0]) >= 3
        for site in sites:
            own = own_counts(measures, site.frame["y"].to_numpy(), fit.scores(site.frame)[0])
            for total, here in zip(shown, own, strict=True):
                for counts in (total, total - here):
                    assert not ((counts > 0) & (counts < 3)).any()
    alone = evaluate(fit, sites, dsba.Simulator(dsba.Topology.ring(3)), Guards()).pooled
    counts = np.concatenate(shown_counts(alone, m, 600 - m))
    assert ((counts > 0) & (counts < 3)).any()  # in one process nothing is joined


def test_few_events_are_counted_together():
    """Two sites with three events each: only rows without an event may be told apart."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"h": np.repeat(["h0", "h1", "h2"], 50), "age": rng.normal(60, 15, 150), "y": 0})
    frame.loc[[3, 9, 20, 60, 70, 80], "y"] = 1
    sites, fit = as_sites(frame, "h"), dsba.fit(frame, "y ~ age", sites="h")
    everyone = together(dsba.Topology.ring(3), 3, lambda net: evaluate(fit, [sites[net.rank]], net, Guards()).pooled)
    for found in everyone:
        assert sorted({events for _, events in shown_counts(found, 6, 144)[0].tolist()}) == [0.0, 6.0]
        assert [(group.low, group.high) for group in found.calibration] == [(0.0, 1.0)]


def test_no_text_is_wider_than_its_picture():
    """A letter is taken to be 6.5 of the 12 pixels of its size wide."""
    points = [RocPoint(None, 0.0, 0.0), RocPoint(None, 1.0, 1.0)]
    for drawn in (roc_picture(points), picture([]), survival_picture([(9.0, 0.5)])):
        width = float(re.search(r'viewBox="0 0 (\S+) ', drawn)[1])
        for middle, text in re.findall(r'<text class="" x="(\S+)" \S+ text-anchor="middle">(.*?)</text>', drawn):
            reach = 6.5 * len(text) / 2
            assert float(middle) - reach >= 0.0, text
            assert float(middle) + reach <= width, text


# Held-out rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", list(FORMULAS))
def test_a_held_out_share(operator):
    """The model is that of the other rows, and its measures are those of the held-out ones."""
    frame = patients()
    sites = as_sites(frame, "hospital")
    fit = dsba.fit(frame, FORMULAS[operator], operator, sites="hospital", test_share=0.2)
    kept, tests = [], []
    for node, site in enumerate(sites):
        y = outcome(site.frame, operator).to_numpy()
        out = held_out(y if operator == "logistic" else np.zeros(len(y)), 0.2, 0, node)
        kept.append(site.frame[~out])
        tests.append(site.frame[out])
    whole = dsba.fit(pd.concat(kept), FORMULAS[operator], operator, sites="hospital")
    assert (fit.params == whole.params).all()
    assert whole.test is None
    test = pd.concat(tests)
    assert fit.test.rows == len(test) == pytest.approx(0.2 * len(frame), abs=4)
    assert_measures(fit.test, outcome(test, operator), whole.predict(test), operator)
    if operator == "logistic":
        assert np.mean(test["readmitted"] == "yes") == pytest.approx(np.mean(frame["readmitted"] == "yes"), abs=0.01)


def test_held_out_rows_with_a_level_of_their_own_are_left_out():
    frame = patients()
    fit = dsba.fit(frame, "readmitted ~ age + C(ward)", sites="hospital", test_share=0.3)
    first = as_sites(frame, "hospital")[0].frame
    y = outcome(first, "logistic").to_numpy()
    out = first.index[held_out(y, 0.3, 0, 0)]
    frame.loc[frame.index[frame["hospital"] == "h0"][out[:2]], "ward"] = "new"
    again = dsba.fit(frame, "readmitted ~ age + C(ward)", sites="hospital", test_share=0.3)
    assert (again.params == fit.params).all()
    assert again.test.left_out == 2


@pytest.mark.parametrize("share", [-0.1, 1.0, "much"])
def test_a_share_that_is_none(share):
    with pytest.raises(dsba.InputError, match=r"held-out share|test_share must be a number"):
        dsba.fit(patients(), "cost ~ age", "linear", sites="hospital", test_share=share)


# Commands ----------------------------------------------------------------------------------------


def test_a_share_that_is_not_one_row(monkeypatch):
    """It is refused before the fit, whose work would be lost."""
    monkeypatch.setattr(fitting, "_rows", lambda *_: pytest.fail("the model was fitted"))
    with pytest.raises(dsba.InputError, match=r"a test share of 0.001 is not one row at any site"):
        dsba.fit(patients(), "cost ~ age", "linear", sites="hospital", test_share=0.001)


def test_the_commands(tmp_path):
    files = tables(tmp_path)
    words = ("train", *files, "--formula", FORMULAS["logistic"], "--graph", "ring", "--test-share", 0.25)
    said = ask(*words, "--out", tmp_path / "run")
    assert "Held-out rows of all sites: rows 105" in said
    fit = dsba.load(tmp_path / "run")
    frames = {file.stem: pd.read_csv(file, sep=None, engine="python") for file in files}
    ours = fit.evaluate(frames)
    found = json.loads(ask("evaluate", tmp_path / "run", *files, "--json", "--plot", tmp_path / "cal.svg",
                           "--roc", tmp_path / "roc.svg"))  # fmt: skip
    assert found == json.loads(json.dumps(ours.plain()))
    text = ask("evaluate", tmp_path / "run", *files)
    assert "h1: rows 90" in text
    assert "All sites: rows 420" in text
    assert "predicted 0.6 to 0.7:" in text
    assert (tmp_path / "cal.svg").read_text().startswith("<svg xmlns=")
    assert (tmp_path / "roc.svg").read_text().count("<polyline") == 1
    page = (tmp_path / "run" / "report.html").read_text()
    assert "held-out rows of all sites" in page
    assert "ROC curve" in page
    svm = [tmp_path / f"{n}.svm" for n in range(2)]
    for file in svm:
        file.write_text("".join(f"{(-1) ** k} 1:{k}\n" for k in range(9)))
    ask("train", *svm, "--graph", "path", "--out", tmp_path / "other")
    assert "was not trained on a table" in refused("evaluate", tmp_path / "other", *files)
    assert "test_share is for tables" in refused("train", *svm, "--test-share", 0.2, "--out", tmp_path / "no")


@needs_mpi
@pytest.mark.full
def test_ranks_evaluate_and_hold_out_what_one_process_does(tmp_path):
    files = tables(tmp_path)
    words = ("--formula", FORMULAS["logistic"], "--graph", "ring", "--test-share", 0.25, "--out")
    ask("train", *files, *words, tmp_path / "one")
    program = (MPIEXEC.parent / "python", "-m", "dsba")
    code, text = mpiexec(4, *program, "train", *files, *words, tmp_path / "many")
    assert code == 0, text
    one, many = dsba.load(tmp_path / "one"), dsba.load(tmp_path / "many")
    assert replace(one.metadata, test=None) == replace(many.metadata, test=None)
    for name, value in vars(one.test).items():
        assert getattr(many.test, name) == value or name in JOINED, name
    assert abs(one.test.auc - many.test.auc) <= many.test.auc_within
    code, text = mpiexec(4, *program, "evaluate", tmp_path / "many", *files)
    assert code == 0, text
    assert measured_lines(text) == measured_lines(ask("evaluate", tmp_path / "one", *files))
    code, text = mpiexec(2, *program, "evaluate", tmp_path / "many", *files[:2])
    assert code == 2
    assert "2 sites take part, and at least 3 are wanted" in text
    other = tmp_path / "other"
    ask("train", *files, "--formula", "readmitted ~ age", "--out", other)
    parts = [(":",) * (n > 0) + ("-n", 1, *program, "evaluate", tmp_path / run, *files[:3])
             for n, run in enumerate(("one", "other", "one"))]  # fmt: skip
    code, text = mpiexec_of(parts)
    assert code == 2
    assert "differs from rank 0 in model" in text


def measured_lines(text):
    """Those of each site, and that of all without what is counted in joined bins."""
    lines = [line for line in text.splitlines() if re.match(r"h\d|All", line)]
    return sorted(
        re.sub(r", (AUC|error of the AUC by bins, at most) [^,]*", "", line) if line.startswith("All") else line
        for line in lines
    )


def mpiexec_of(parts):
    from mpi import run

    return run(MPIEXEC, *(word for part in parts for word in part))


# The page ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", list(FORMULAS))
def test_the_page_has_everything_and_asks_nobody(operator):
    fit = dsba.fit(patients(), FORMULAS[operator], operator, sites="hospital")
    page = model_page(fit, "dsba train <all> --out run")
    assert "dsba train &lt;all&gt; --out run" in page
    for word in ("h3", "C(sex)[T.M]", "std err", "Convergence", "What was disclosed to whom", "numpy", "4 sites"):
        assert word in page
    assert ("Calibration</h2>" in page) == (operator == "logistic")
    if operator != "linear":
        ratio, low, high = fit.ratios().loc["age"]
        assert f"<td>{ratio:.4g} ({low:.4g} to {high:.4g})</td>" in page
    for asked in ("<script", "http://", "https://", "src=", "@import", "url("):
        assert asked not in page
    assert "{{" not in page


def test_names_cannot_leave_their_place_on_the_page():
    evil = "<script>alert(1)</script>"
    frame = patients().rename(columns={"age": evil})
    fit = dsba.fit(frame, f"cost ~ `{evil}`", "linear", sites="hospital", lam=0.1)
    page = model_page(fit, evil)
    assert evil not in page
    assert "A penalty shrinks the coefficients" in page


def test_the_calibration_is_that_of_the_rows_of_the_fit():
    frame = patients()
    fit = dsba.fit(frame, FORMULAS["logistic"], sites="hospital")
    found = fit.evaluate(frame).pooled.calibration
    one = dsba.fit(frame, FORMULAS["logistic"])  # the owner of all rows; of several sites groups are joined
    assert len(found) > len(fit.metadata.calibration) >= 3
    assert [group.rows for group in one.metadata.calibration] == [group.rows for group in found]
    for key in ("predicted", "observed"):
        ours, wanted = ([getattr(group, key) for group in groups] for groups in (one.metadata.calibration, found))
        np.testing.assert_allclose(ours, wanted, rtol=1e-12)
    for group in fit.metadata.calibration:
        inside = [g for g in found if group.low <= g.low and g.high <= group.high]
        assert group.rows == sum(g.rows for g in inside)
        assert group.rows * group.predicted == pytest.approx(sum(g.rows * g.predicted for g in inside))
    assert fit.metadata.events == (frame["readmitted"] == "yes").sum()
    assert standalone(picture(found)).count("<circle") == len(found)


def test_small_parts_of_pictures():
    from statsmodels.stats.proportion import proportion_confint

    np.testing.assert_allclose(interval(0.3, 40), proportion_confint(12, 40, method="wilson"), rtol=1e-12)
    assert ticks(0.0, 1.0, 5) == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert ticks(2.0, 2.0) == [2.0]


# Guards ------------------------------------------------------------------------------------------


def test_rows_without_an_outcome_do_not_make_a_site_large_enough(tmp_path):
    """A site with 5 rows that can be evaluated had 30, and took part; one with none may."""
    model = dsba.fit(patients((40, 40, 40), seed=1), "cost ~ age", operator="linear", sites="hospital")
    tables = [rows.reset_index(drop=True) for _, rows in patients((40, 40, 40), seed=2).groupby("hospital")]

    def attempt(known):
        tables[0].loc[known:, "cost"] = np.nan
        for n, rows in enumerate(tables):
            rows.to_csv(tmp_path / f"h{n}.csv", index=False)

        def one(net):
            try:
                return fitting.evaluate_files(
                    model, [tmp_path / f"h{n}.csv" for n in range(3)], net, Guards()
                ).pooled.rows
            except dsba.InputError as error:
                return str(error)

        return together(dsba.Topology.ring(3), 3, one)

    assert attempt(40) == [120] * 3
    assert all("h0 has fewer usable rows than the 10" in said for said in attempt(5))
    assert attempt(0) == [80] * 3


def test_a_site_may_switch_its_guards_off_and_everybody_is_told():
    frames = dict(list(patients((40, 8), seed=1).groupby("hospital")))
    spec = FitSpec(formula="cost ~ age", operator="linear")

    def work(net, *guards):
        name = f"h{net.rank}"
        site = fitting.SiteTable(name, frames[name].reset_index(drop=True))
        return fitting.fit_sites([site], replace(spec, guards=guards[net.rank]), net)

    def attempt(*guards):
        def one(net):
            try:
                return work(net, *guards)
            except dsba.InputError as error:
                return str(error)

        return together(dsba.Topology.path(2), 2, one)

    off = fitting.Guards.off()
    assert all("2 sites take part" in said for said in attempt(off, fitting.Guards()))
    assert all("h1 has fewer usable rows" in said for said in attempt(fitting.Guards(sites=2), fitting.Guards(sites=2)))
    for results in attempt(fitting.Guards(sites=2), off):
        assert [part.guards.loosened for part in results.schema.parts] == [
            "allows two sites",
            "has switched its guards off",
        ]
        page = model_page(results, "dsba train")
        assert "h1 has switched its guards off." in page
        assert results.schema.parts[1].guards.rows == 0


def test_the_picture_of_effects_has_the_intervals_of_the_table():
    """Of few rows, those of a t distribution: p = 0.05 is where a bar ends at zero."""
    table = patients((10, 10, 10))
    fit = dsba.fit(table, "cost ~ age + days", "linear", sites="hospital")
    page = model_page(fit, "dsba train")
    picture = re.search(r'<svg[^>]*aria-label="Effects.*?</svg>', page, re.S)[0]
    bars = np.array(re.findall(r'class="line" x1="([\d.]+)" y1="[\d.]+" x2="([\d.]+)"', picture), float)
    zero = float(re.search(r'class="zero" x1="([\d.]+)"', picture)[1])
    intervals = fit.conf_int().iloc[1:].to_numpy() * np.array(fit.metadata.sd)[1:, None]
    unit = (bars[0, 1] - bars[0, 0]) / (intervals[0, 1] - intervals[0, 0])
    np.testing.assert_allclose(bars, zero + unit * intervals, atol=0.2)
    assert "information matrix and deviance." in page


def evaluated(frames, guards=None):
    """What every site ends with: a sentence or measures of the model of these rows."""
    model = dsba.fit(pooled(hospitals()), "outcome ~ age + crp", "logistic", sites="site", event="yes")

    def attempt(own, net):
        try:
            return evaluate(model, own, net, guards).pooled
        except dsba.InputError as error:
            return str(error)

    return on_sites(frames, attempt)


@pytest.mark.parametrize("events", [(1, 0, 0), (12, 1, 0), (12, 2, 0)])
def test_few_events_are_not_evaluated_between_processes(events):
    """Of one event, or of one that a site does not have itself, the sums tell the score."""
    frames = hospitals()
    for frame, count in zip(frames.values(), events, strict=True):
        frame["outcome"] = np.where(np.arange(len(frame)) < count, "yes", "no")
    for sentence in evaluated(frames):
        assert "fewer than 3 rows, or rows of one class, are evaluated" in sentence
    assert all(isinstance(found, ClassMeasures) for found in evaluated(frames, Guards.off()))


def test_enough_rows_are_evaluated_between_processes():
    assert all(isinstance(found, ClassMeasures) for found in evaluated(hospitals()))


def test_a_row_that_makes_up_the_loss_is_not_evaluated_between_processes():
    frames = hospitals()
    model = dsba.fit(pooled(frames), "cost ~ age + crp", "linear", sites="site")
    frames["site1"].loc[0, "cost"] = 1e8

    def attempt(own, net):
        with pytest.raises(dsba.InputError, match="one row of site1 makes up most of the loss"):
            evaluate(model, own, net)

    on_sites(frames, attempt)
    with pytest.warns(UserWarning, match="would be refused: one row of site1 makes up most of the loss"):
        model.evaluate(pooled(frames), sites="site")


@pytest.mark.parametrize(("left", "operator"), [("cost", "linear"), ("outcome", "logistic"), ("visits", "poisson")])
@pytest.mark.parametrize("right", ["exp(-500*((age-32)*(age-32)))", "sqrt(1 + 0.01*exp(-500*((age-32)*(age-32))))"])
def test_a_model_that_singles_out_a_row_is_not_evaluated_between_processes(left, operator, right):
    """It was fitted to other people, many of them aged 32. Of these the squared errors would tell one outcome."""
    frames = hospitals()
    others = pooled(frames)
    others.loc[::3, "age"] = 32.0
    model = dsba.fit(others, f"{left} ~ {right}", operator, sites="site")
    for frame in frames.values():
        frame.loc[frame["age"] == 32, "age"] = 40.0
    frames["site1"].loc[0, "age"] = 32.0

    def attempt(own, net):
        with pytest.raises(dsba.InputError, match=r"exp\(-500 .* in all but fewer than 3 pooled rows"):
            evaluate(model, own, net)

    on_sites(frames, attempt)
    with pytest.warns(UserWarning, match=r"would be refused: the column .*exp\(-500 .* in all but fewer than 3 pooled"):
        model.evaluate(pooled(frames), sites="site")


@pytest.mark.parametrize("guards", [[Guards()] * 3, [Guards.off(), Guards(), Guards()]])
def test_scores_show_no_few_rows_of_the_others(guards):
    """The score has two values: a site that takes its own rows away would know the outcome of the other sites' one row.

    What one site wants holds for all: a site without guards asks as many questions as the others.
    """
    frames = hospitals()
    model = dsba.fit(pooled(frames), "cost ~ sex", "linear", sites="site")
    enough = on_sites(frames, lambda own, net: evaluate(model, own, net, guards[net.rank]).pooled.rows)
    assert enough == [125] * 3
    for name, frame in frames.items():
        frame["sex"] = np.where((np.arange(len(frame)) % 3 == 0) & (name == "site0"), "M", "F")
    frames["site1"].loc[0, "sex"] = "M"

    def attempt(own, net):
        with pytest.raises(dsba.InputError, match="site0 could single out fewer than 3 rows of the other sites"):
            evaluate(model, own, net, guards[net.rank])

    on_sites(frames, attempt)


def test_guards_of_several_sites_for_curves():
    """One site counts in joined bins, so all do."""
    frames = hospitals((200, 150, 120))
    model = dsba.fit(pooled(frames), "outcome ~ age", sites="site")
    guards = [Guards.off(), Guards(), Guards()]
    found = on_sites(frames, lambda own, net: evaluate(model, own, net, guards[net.rank]).pooled)
    assert found == on_sites(frames, lambda own, net: evaluate(model, own, net).pooled)
