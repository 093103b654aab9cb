"""Attacks that get one patient's row from a published model, and the checks that refuse them between processes."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT
from hospital_tables import hospitals, pooled
from test_rare_values import fit_between

import dsba
from dsba.fitting.disclosure import Guards
from dsba.tables.disclosure import lever
from dsba.tables.formula import inner_parts, is_derived, parse
from dsba.tables.models.base import RowLeverage


def smooth(frames):
    """A column that a formula makes of the age: nearly zero for all but one person, and equal for no two others."""
    for frame in frames.values():
        frame["age"] = np.round(frame["age"]) + np.linspace(0.1, 0.4, len(frame))
    frames["site1"].loc[0, "age"] = 15.2
    return "cost ~ crp + exp(-0.1*((age-15.2)*(age-15.2)))"


def difference(frames):
    """Two columns with ordinary spreads that differ in one row."""
    for frame in frames.values():
        frame["twin"] = frame["crp"]
    frames["site1"].loc[0, "twin"] += 1.0
    return "cost ~ age + crp + twin"


def two_at_two_sites(frames):
    """The hard case: a smooth function that singles out two persons, each at another site."""
    formula = smooth(frames)
    frames["site2"].loc[0, "age"] = 15.25
    return formula


def one_cost(frames):
    frames["site1"].loc[0, "crp"] = 1e7
    return "cost ~ age + crp"


def numeric_cell(frames):
    """An interaction of numbers that is one in a single row of one site, and in many of another."""
    for name, frame in frames.items():
        frame["ill"] = ((np.arange(len(frame)) % 4 == 0) & (name == "site0")).astype(float)
    frames["site1"].loc[0, "ill"] = 1.0
    return "cost ~ age + ill"


ATTACKS = {
    smooth: "one row of site1 makes up most of the spread of the column exp(",
    one_cost: "one row of site1 makes up most of the spread of the column crp",
    difference: "the columns crp and twin together single out a row of site1",
    two_at_two_sites: "of the column exp(",
    numeric_cell: "site0 could single out fewer than 3 rows of the other sites by the column ill",
}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_between_processes_it_is_refused_before_any_sum_with_an_outcome(attack, monkeypatch):
    monkeypatch.setattr("dsba.tables.fit.fit_rows", lambda *_, **__: pytest.fail("a step was summed"))
    frames = hospitals()
    formula = attack(frames)
    for sentence in fit_between(frames, formula):
        assert ATTACKS[attack] in sentence
        assert "1e7" not in sentence


def test_the_difference_shows_the_row_where_it_is_only_warned_of():
    """(X'X) times the direction of the difference is the patient's row."""
    frames = hospitals()
    formula = difference(frames)
    with pytest.warns(UserWarning, match="would be refused: the columns crp and twin together single out a row"):
        fit = dsba.fit(pooled(frames), formula, "linear", sites="site")
    information = np.linalg.inv(fit.cov_params() / fit.scale)
    row = information @ np.array([0.0, 0.0, -1.0, 1.0])
    patient = frames["site1"].iloc[0]
    np.testing.assert_allclose(row, [1.0, patient["age"], patient["crp"], patient["twin"]], rtol=1e-6)


def test_leverage_is_that_of_the_hat_matrix():
    """Against the projection, with all rows in one matrix."""
    rng = np.random.default_rng(2)
    X, w = np.column_stack([np.ones(30), rng.normal(size=(30, 2))]), rng.uniform(0.5, 2.0, 30)
    root = np.sqrt(w)[:, None] * X
    hat = np.diag(root @ np.linalg.pinv(root))
    inverse = np.linalg.inv(X.T @ (X * w[:, None]))
    names = ["Intercept", "a", "b"]
    rows = RowLeverage.of(X, w, inverse)
    np.testing.assert_allclose(rows.parts.sum(axis=1), hat, rtol=1e-10)
    assert lever(names, "here", rows, Guards(leverage=hat.max() - 1e-6)) is not None
    assert lever(names, "here", rows, Guards(leverage=hat.max() + 1e-6)) is None


ELSEWHERE = "site0 could single out fewer than 3 rows of the other sites by the column"


@pytest.mark.parametrize(("own", "others", "refused"), [(5, 2, True), (5, 3, False), (3, 0, False)])
@pytest.mark.parametrize("values", [(0.0, 1.0), (2.0, 1.0), (5.0, 9.5)])
def test_few_rows_of_the_others(own, others, refused, values):
    """A column of two numbers, whatever they are: 1 and 2 are as usual as 0 and 1."""
    frames = hospitals()
    for name, frame in frames.items():
        frame["two"] = np.where(np.arange(len(frame)) < {"site0": own, "site1": others}.get(name, 0), *values[::-1])
    found = [str(one) if isinstance(one, str) else "" for one in fit_between(frames, "cost ~ age + two")]
    assert [ELSEWHERE in one for one in found] == [refused] * 3


@pytest.mark.parametrize("place", ["reference", "class", "count", "weight", "interaction"])
def test_no_level_shows_few_rows_of_the_others(place):
    """Also where a level has no column of its own: the sums of the others are all sums minus one's own."""
    frames = hospitals()
    for name, frame in frames.items():
        at = (np.arange(len(frame)) % 3 == 0) & (name == "site0")
        at[0] |= name == "site1"
        rest = np.where(np.arange(len(frame)) % 2 == 0, "q", "r")
        frame["kind"], frame["rare"] = np.where(at, "p", rest), 1.0 + at
    right, wish = "age + crp", {"reference": {}, "class": {"operator": "multinomial"}, "count": {"operator": "poisson"}}
    left = {"class": "kind", "count": "rare"}.get(place, "cost")
    if place == "weight":
        wish["weight"] = {"weights": "rare"}
    right = {"reference": "age + kind", "interaction": "age + kind:age"}.get(place, right)
    for found in fit_between(frames, f"{left} ~ {right}", **wish.get(place, {})):
        assert isinstance(found, str)
        assert ELSEWHERE in found


def test_a_site_without_guards_does_not_hide_that_it_could():
    """The strictest number of all sites holds for what each may see of the others."""
    frames = hospitals()
    for name, frame in frames.items():
        at = (np.arange(len(frame)) % 3 == 0) & (name == "site0")
        at[0] |= name == "site1"
        frame["kind"] = np.where(at, "p", np.where(np.arange(len(frame)) % 2 == 0, "q", "r"))
    guards = [Guards.off(), Guards(), Guards()]
    for found in fit_between(frames, "cost ~ age + kind", guards=lambda rank: guards[rank]):
        assert ELSEWHERE in str(found)


def test_the_strictest_guards_hold():
    loose, strict = Guards(rows_per_level=5, leverage=0.6), Guards(dominance=0.3)
    assert Guards.strictest([loose, strict]) == Guards(rows_per_level=5, dominance=0.3)


def test_which_columns_are_functions_of_several_values():
    plain = ("1", "age", "C(sex)", "`my smoker`", "log(crp)", "log1p(crp)", "cap(crp)", "scale(crp)", "`exp(a:b)`")
    derived = ("age:sex", "exp(crp)", "I(age - crp)", "I(crp)", "log(crp + 1)", "cap(exp(crp))", "C(sex):C(ward)",
               "pmax(age, 3)", "poly(age, 2)", "bs(age, df=4)", "log(exp(crp))")  # fmt: skip
    for right, expected in [*((one, False) for one in plain), *((one, True) for one in derived)]:
        assert is_derived(parse(f"y ~ 0 + {right}").terms[-1] if right != "1" else ()) is expected, right


@pytest.mark.parametrize(
    ("function", "parts"),
    [
        ("log(cost/days)", []), ("log(2*crp + 1)", []), ("I((age - 32)/10)", []), ("exp(crp)", []), ("I(1 - crp)", []),
        ("I(age*crp)", []), ("I(crp**2 + 1)", ["crp ** 2"]), ("I(1/crp + age)", ["1 / crp"]),
        ("sqrt(age*crp + exp(age))", ["age * crp", "exp(age)"]), ("log(crp + (age == 32))", ["(age == 32)"]),
    ],
)  # fmt: skip
def test_which_parts_of_functions_are_watched(function, parts):
    assert [one.text for one in inner_parts(parse(f"y ~ {function}").terms[-1][0].number)] == parts


@pytest.mark.parametrize("operator", ["linear", "cox", "ordinal"])
def test_the_terms_are_those_of_the_columns(operator):
    """A model without an intercept has no place for it."""
    left = {"cox": "Surv(time, died)", "ordinal": "kind"}.get(operator, "cost")
    rng, n = np.random.default_rng(0), 120
    frame = pd.DataFrame({"age": rng.normal(size=n), "sex": rng.choice(["F", "M", "X"], n), "cost": rng.normal(size=n)})
    frame = frame.assign(time=rng.integers(1, 90, n), died=rng.integers(0, 2, n), kind=rng.integers(0, 3, n))
    fit = dsba.fit(frame, f"{left} ~ sex + age", operator, **({"strata": "none"} if operator == "cox" else {}))
    assert fit.wald_test_terms().loc["age", "pvalue"] == pytest.approx(fit.pvalues["age"])


def test_a_sentence_names_all_columns_that_a_row_dominates():
    frames = hospitals()
    for frame in frames.values():
        frame["other"] = np.arange(len(frame)) / 10.0
    frames["site1"].loc[0, "crp"] = frames["site1"].loc[4, "other"] = 1e6
    with pytest.warns(UserWarning, match="one row of site1 .* of each of the columns crp and other, and"):
        dsba.fit(pooled(frames), "cost ~ age + crp + other", "linear", sites="site")


def cap_ends(x):
    """A plain twin of cap(): four deviations about the mean of what the last ends left, until they hardly move."""
    held, reach = x, np.inf
    for _ in range(8):
        last, reach = reach, 4.0 * held.std(ddof=0)
        low, high = held.mean() - reach, held.mean() + reach
        held = x.clip(low, high)
        if reach >= 0.95 * last:
            break
    return low, high


@pytest.mark.parametrize("value", [90.0, 1e4])
def test_cap_is_a_clip_at_the_pooled_mean_and_four_deviations(value, tmp_path):
    """Against numpy on the pooled rows; new rows are clipped at the same ends."""
    frames = hospitals()
    frames["site2"].loc[3, "crp"] = value
    table = pooled(frames)
    low, high = cap_ends(table["crp"])
    assert high < 60.0  # one huge value does not set its own end
    fit = dsba.fit(table, "cost ~ age + cap(crp)", "linear", sites="site")
    by_hand = dsba.fit(table.assign(crp=table["crp"].clip(low, high)), "cost ~ age + crp", "linear", sites="site")
    np.testing.assert_allclose(fit.params, by_hand.params, rtol=1e-10)
    fit.save(tmp_path)
    new = pd.DataFrame({"age": [50.0, 50.0], "crp": [high, 1e6]})
    first, second = dsba.load(tmp_path).predict(new)
    assert first == second


def test_cap_is_a_term_of_the_right_side():
    with pytest.raises(dsba.InputError, match=r"character 5: cap\(\) stands by itself"):
        dsba.fit(pooled(hospitals()), "log(cap(cost)) ~ age", "linear", sites="site")


def test_the_pages_show_the_rates_of_the_simulation():
    found = json.loads((ROOT / "benchmarks" / "disclosure.json").read_text())
    page, guide = ((ROOT / "docs" / name).read_text() for name in ("privacy.md", "howto/hospitals.md"))
    for cure in ("raw", "log", "cap"):
        rates = [one[cure] for one in found["ordinary"].values()]
        assert "| " + " | ".join(f"{100 * rate:.1f} %" for rate in rates) + " |" in page
        assert cure == "raw" or max(rates) <= 0.03
    for attack, rate in found["caught"].items():
        assert f"| {attack} | {100 * rate:.0f} % |" in page
    rates = [f"{100 * rate:.1f} %" for rate in found["signs"].values()]
    text = " ".join(page.split())
    assert f"{rates[0]} have one if sites do not differ, {rates[1]} if their means lie 0.3" in text
    assert f"and {rates[2]} with 0.6" in text
    least = [f"{100 * min(one.values()):.1f} %" for one in found["coverage"].values()]
    assert f"covered at least {least[0]}, {least[1]} and {least[2]} at 3, 5 and 10 sites" in guide
