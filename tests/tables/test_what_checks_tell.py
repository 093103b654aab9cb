"""A check must not tell what it is there to hide: what is summed before a refusal is of no one or two rows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hospital_tables import hospitals, on_sites, sites_of
from queues import QueueNetwork
from scipy.special import expit
from test_rare_values import SENTENCE, fit_between

import dsba
from dsba.fitting.disclosure import Guards
from dsba.fitting.spec import FitSpec
from dsba.network import Alone
from dsba.study.further import require_like_rows
from dsba.tables.elastic_net import PathOptions, path_of
from dsba.tables.evaluation import evaluate
from dsba.tables.peaks import _first_of, peak_complaints
from dsba.tables.signs import signs_of
from dsba.tables.terms import ModelTerms, SiteTable

SHARP = "exp(-1000*((age-32)*(age-32)))"
SMOOTH = "exp(-0.5*((age-32)*(age-32)))"


@pytest.fixture
def told(monkeypatch):
    """Everything that the first site learns of all others: sums, largest values, and answers."""
    found = []
    for name in ("sum", "largest", "share"):
        asked = getattr(QueueNetwork, name)

        def record(net, own, *args, asked=asked, **options):
            answer = asked(net, own, *args, **options)
            if net.rank == 0:
                found.append(answer)
            return answer

        monkeypatch.setattr(QueueNetwork, name, record)
    return found


def with_victim(crp):
    """A single patient of 32 years at the second site."""
    frames = hospitals()
    for frame in frames.values():
        frame.loc[frame["age"] == 32, "age"] = 40.0
    frames["site1"].loc[0, ["age", "crp"]] = 32.0, crp
    return frames


@pytest.mark.parametrize(
    "right",
    [
        f"I({SHARP}*crp) + I({SHARP}*(crp-8))",
        " + ".join(f"I((age==32)*(crp-{c}))" for c in (1, 4, 16)),
        " + ".join(f"center({SHARP[:-1]}-{c})*crp)" for c in (2, 30)),
        f"center({SMOOTH}*lab) + center({SMOOTH}*crp) + center({SMOOTH}*(crp-8))",
    ],
)
def test_counts_of_functions_tell_no_magnitude_of_one_row(right, told):
    """Whatever the value of the patient is, all that is told before the refusal is the same."""
    worlds = []
    for crp in (2.0, 3.0, 40.0):
        told.clear()
        (sentence, *_) = fit_between(with_victim(crp), f"cost ~ visits + {right}")
        assert "all but fewer than 3 pooled rows" in sentence or "makes up most of the spread of the column" in sentence
        worlds.append([one.tolist() if isinstance(one, np.ndarray) else one for one in told])
    assert worlds[0] == worlds[1] == worlds[2]


def test_counts_of_products_tell_no_value_of_one_row(told):
    """A column of the table that is one in one row, times thresholds: before, every product was counted."""
    worlds = []
    for crp in (2.0, 40.0):
        told.clear()
        frames = with_victim(crp)
        for name, frame in frames.items():
            frame["cell"] = ((np.arange(len(frame)) == 0) & (name == "site1")).astype(float)
        fit_between(frames, "cost ~ I(cell*(lab>0)) + " + " + ".join(f"I(cell*(crp>{c}))" for c in (1, 3, 5)))
        last = max(n for n, one in enumerate(told) if isinstance(one, np.ndarray) and one.size > 60)
        worlds.append([np.sum(one) if isinstance(one, np.ndarray) else one for one in told[last + 1 :]])
    assert worlds[0] == worlds[1]
    assert SENTENCE in str(worlds[0])


def test_one_magnitude_is_told_where_a_row_dominates_and_no_other(told):
    """The first function ends the run; of the second no interval has fewer than three rows of a site."""
    fit_between(with_victim(40.0), f"cost ~ center({SMOOTH}*lab) + center({SMOOTH}*crp)")
    histograms = [one for one in told if isinstance(one, np.ndarray) and one.size > 60]
    assert [one.size for one in histograms] == [325, 65]  # both functions and their parts, and the first alone
    counts = histograms[0].reshape(5, 65)[:, :-1]
    assert counts[counts > 0].min() >= 3


def test_sites_whose_function_is_zero_do_not_hide_a_small_peak():
    """Before, the exponent of zero was taken for that of one, and a peak far below was not seen."""
    X = [np.zeros((20, 1)), np.zeros((20, 1)), np.zeros((20, 1))]
    X[1][3] = 1e-13
    assert peak_complaints(["f"], X, ["a", "b", "c"], Guards(), Alone())[0] == [
        "the column f has the same value in all but fewer than 3 pooled rows, and a model would show these rows."
    ]


def test_many_functions_are_refused_before_their_sums(told):
    """The sums of 200 functions of two columns determine the rows of a small table."""
    for right in ("poly(crp, 20)", " + ".join(f"center(crp*(age+{n}))" for n in range(20))):
        told.clear()
        (sentence, *_) = fit_between(hospitals(), f"cost ~ {right}")
        assert "coefficients for 125 pooled rows, and at least 10 rows are wanted for each" in sentence
        assert max(one.size for one in told if isinstance(one, np.ndarray)) < 100


@pytest.mark.parametrize(("known", "refused"), [((0, 1, 0), True), ((9, 1, 0), True), ((9, 4, 3), False)])
@pytest.mark.parametrize("missing", ["mean", "indicator"])
def test_a_mean_of_few_known_values_is_not_summed(missing, known, refused, told):
    frames = hospitals()
    for frame, count in zip(frames.values(), known, strict=True):
        frame["lab"] = np.where(np.arange(len(frame)) < count, 123.456 + np.arange(len(frame)), np.nan)
    (found, *_) = fit_between(frames, "cost ~ age + lab", missing=missing)
    sums = [one for one in told if isinstance(one, np.ndarray)]
    assert any((np.abs(one) > 123).any() and (one % 1 > 0).any() for one in sums) != refused
    if refused:
        few = "fewer than 3 pooled rows have a value of 'lab'" if sum(known) < 3 else "fewer than 3 rows of the other"
        assert few in found


@pytest.mark.parametrize(
    ("right", "missing"),
    [("center(dose)", "error"), ("cap(dose)", "error"), ("poly(dose, 2)", "error"), ("dose", "mean")],
)
def test_no_mean_of_one_row_that_differs_is_summed(right, missing, told):
    """A column of zeros but for one row: its sum is the value of the row."""
    frames = hospitals()
    for frame in frames.values():
        frame["dose"] = 0.0
    frames["site1"].loc[[0, 1], "dose"] = 37.25, np.nan if missing == "mean" else 0.0
    (sentence, *_) = fit_between(frames, f"cost ~ age + {right}", missing=missing)
    assert "the column dose has the same value in all but fewer than 3 pooled rows" in sentence
    assert not any((one == 37.25).any() for one in told if isinstance(one, np.ndarray))


def test_no_mean_of_known_values_is_that_of_one_heavy_row(told):
    frames = hospitals()
    for frame in frames.values():
        frame["times"] = 1.0
    frames["site1"].loc[0, ["times", "lab"]] = 10**9, 37.25
    frames["site1"].loc[1, "lab"] = np.nan
    weights = {"weights": "times", "weight_kind": "frequency"}
    (sentence, *_) = fit_between(frames, "cost ~ age + lab", missing="mean", **weights)
    assert "rows of site1, or very few of them, carry most of its weights" in sentence
    assert not any((np.abs(one) > 1e9).any() for one in told if isinstance(one, np.ndarray))


def test_levels_that_are_values_of_single_rows_do_not_travel(told):
    for column in ("crp", "secret name"):
        told.clear()
        (sentence, *_) = fit_between(hospitals((30, 30, 30)), f"cost ~ C(`{column}`)")
        assert sentence.startswith(f"most rows of site0 have a value of {column!r} of their own")
        assert str(hospitals((30, 30, 30))["site1"][column].iloc[0]) not in str(told)


def test_folds_of_few_rows_are_refused_before_their_noisy_sums(told):
    """The noise of a site is a part of its rows in the fold: it would not hide a single one."""
    spec = FitSpec(formula="cost ~ age + crp", operator="linear", graph="ring")

    def attempt(own, net):
        with pytest.raises(dsba.InputError, match="in a fold the model has 3 coefficients for 1 pooled rows"):
            path_of(own, spec, net, *PathOptions(folds=60))

    on_sites(hospitals(), attempt)
    assert max(one.size for one in told if isinstance(one, np.ndarray)) <= 60


def test_only_the_first_function_is_named():
    """The list of all functions that a row dominates would tell where thresholds lie."""
    frames = with_victim(40.0)
    (sentence, *_) = fit_between(frames, "cost ~ " + " + ".join(f"center({SMOOTH}*(crp+{c}))" for c in (1, 2, 3)))
    assert sentence.count("exp(") == 1


def test_an_evaluation_has_the_strictest_dominance_of_all_sites():
    frames = hospitals()
    model = dsba.fit(pd.concat(frames.values()), "cost ~ age + crp", "linear")
    frames["site1"].loc[0, "crp"] = 1e7
    guards = [Guards.off(), Guards.off(), Guards()]

    def attempt(own, net):
        with pytest.raises(dsba.InputError, match="site1"):
            evaluate(model, own, net, guards[net.rank])

    on_sites(frames, attempt)


@pytest.mark.parametrize("operator", ["logistic", "poisson"])
def test_predictions_are_not_those_of_one_row(operator, told):
    """A model that somebody wrote: all but the patient of 32 years have predictions of 0 or 1, or none to speak of."""
    frames = with_victim(6.5)
    left, slope = {"logistic": ("outcome", 1e4), "poisson": ("visits", -60.0)}[operator]
    fit = dsba.fit(pd.concat(frames.values()), f"{left} ~ age + crp", operator)
    frames["site1"].loc[0, "age"] = 19.5
    written = replace(fit.model, weights=np.array([[slope, 1.0]]), intercepts=np.array([-19.5 * slope - 7.0]))
    told.clear()

    def attempt(own, net):
        with pytest.raises(
            dsba.InputError, match=r"rows of site., or very few of them, make up most of its predictions"
        ):
            evaluate(replace(fit, model=written), own, net)

    if operator == "logistic":  # people of all ages, and one at the threshold
        for frame in frames.values():
            frame["age"] = np.where(frame["age"] == 19.5, 19.5, frame["age"] - 40.0)
    on_sites(frames, attempt)
    assert not any(np.isclose(one % 1, expit(-0.5), rtol=1e-9, atol=0).any() for one in told if np.ndim(one) == 1)


@pytest.mark.parametrize(("gaps", "refused"), [((1, 0, 0), True), ((3, 3, 3), False), ((0, 0, 0), False)])
def test_curves_have_no_few_rows_that_the_model_has_not(gaps, refused):
    """The events of the curves less those of the model are the event of a patient without a value of crp."""
    frames = hospitals()
    for frame, count in zip(frames.values(), gaps, strict=True):
        frame["died"] = (frame["outcome"] == "yes").astype(float)
        frame.loc[frame.index[:count], "crp"] = np.nan
    spec = FitSpec(formula="Surv(days, died) ~ age + crp", operator="cox", strata="site", missing="drop", graph="ring")
    study = SimpleNamespace(terms=ModelTerms.of(spec), curves=SimpleNamespace(by=None), levels={})

    def attempt(own, net):
        try:
            require_like_rows(study, own[0], spec, net)
        except dsba.InputError as error:
            return str(error)
        return ""

    assert ["or the curves and not in the model" in found for found in on_sites(frames, attempt)] == [refused] * 3


def test_ordinary_tables_have_hardly_a_sign_of_trouble():
    """Also small ones, with rare levels and sites that differ a little. docs/privacy.md says how often."""
    rng, found = np.random.default_rng(4), 0
    for _ in range(60):
        n, sites = int(rng.integers(30, 300)), int(rng.integers(3, 7))
        site = rng.integers(0, sites, n)
        frame = pd.DataFrame({"crp": rng.exponential(5, n), "age": rng.normal(60 + rng.normal(0, 3, sites)[site], 12)})
        frame["rare"] = (rng.permutation(n) < 10).astype(float)
        frame["ward"] = rng.choice(list("abcdefgh"), n, p=[0.4, 0.3, 0.1, 0.1, 0.04, 0.03, 0.02, 0.01])
        held = [SiteTable(str(k), frame[site == k]) for k in range(sites) if (site == k).any()]
        numbers = {column: [one.frame[column].to_numpy() for one in held] for column in ("crp", "age", "rare")}
        found += bool(signs_of(held, numbers, {"ward": sorted(frame["ward"].unique())}, Alone(), 3))
    assert found <= 2


def test_signs_are_looked_for_in_the_rows_of_the_model(told):
    """The logarithms of all rows less those of the model would be the value of a patient without an outcome."""
    frames = hospitals()
    frames["site1"].loc[0, "cost"] = np.nan
    fit_between(frames, "cost ~ age + log(crp)", missing="drop")
    every, victim = np.log(pd.concat(frames.values())["crp"]).sum(), np.log(frames["site1"]["crp"][0])
    sums = [one for one in told if isinstance(one, np.ndarray)]
    assert any(np.isclose(one, every - victim, rtol=1e-12, atol=0).any() for one in sums)
    assert not any(np.isclose(one, every, rtol=1e-12, atol=0).any() for one in sums)


def test_no_sign_is_a_sum_of_one_row(told):
    """A column that the model has only in a function is in no other check."""
    frames = hospitals()
    for frame in frames.values():
        frame["dose"] = 0.0
    frames["site1"].loc[0, "dose"] = 37.25
    assert not isinstance(fit_between(frames, "cost ~ age + I(dose + crp)")[0], str)
    values = (37.25, np.arcsinh(37.25), np.log(37.25))
    assert not any(
        np.isclose(one, x, rtol=1e-12, atol=0).any() for one in told if isinstance(one, np.ndarray) for x in values
    )


def test_no_logarithm_of_a_few_positive_numbers_is_summed(told):
    frames = hospitals()
    for frame in frames.values():
        frame["change"] = -frame["crp"]
    frames["site1"].loc[0, "change"] = 7.5
    fit_between(frames, "cost ~ age + change")
    assert not any(
        np.isclose(one, np.log(7.5), rtol=1e-12, atol=0).any() for one in told if isinstance(one, np.ndarray)
    )


def test_a_level_of_many_rows_at_one_site_is_still_named():
    frames = hospitals()
    frames["site1"]["sex"] = frames["site1"]["sex"].map({"F": "female", "M": "male"})
    values = {"sex": ["F", "M", "female", "male"]}
    signs = signs_of(sites_of(frames), {}, values, Alone(), 3)
    assert signs == ["the column 'sex' has 2 levels at site1 that no other site has."]


def test_no_member_passes_over_the_function_of_another_site():
    class Lying(Alone):
        def largest(self, values):
            return np.maximum(values, 1.0)  # "minus one comes next"

    assert _first_of([False, True], 0, Alone()) == 1
    with pytest.raises(dsba.NetworkError, match="another process sent a wrong place"):
        _first_of([False, True], 0, Lying())
