"""The attacks on single rows over every model: each ends between processes before a sum would show the row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hospital_tables import on_sites

import dsba
from dsba.fitting import FitSpec
from dsba.fitting.disclosure import Guards, is_steered
from dsba.network import Alone
from dsba.study.ledger import Allowed, Ledger, used_rows
from dsba.tables import inference
from dsba.tables.blurred import Turned, _apart
from dsba.tables.design import Design
from dsba.tables.elastic_net import path_of
from dsba.tables.fit import fit_sites
from dsba.tables.models import MODELS, Binomial, Cox, Multinomial, Ordinal, Probit
from dsba.tables.models.negative_binomial import NegativeBinomial
from dsba.tables.survival import curves_of
from dsba.tables.terms import ModelTerms

OUTCOMES = {
    "linear": "cost", "logistic": "died", "poisson": "visits", "probit": "died", "cloglog": "died", "gamma": "cost",
    "inverse-gaussian": "cost", "quasi-poisson": "visits", "quasi-binomial": "died", "negative-binomial": "visits",
    "multinomial": "kind", "ordinal": "kind", "cox": "Surv(time, died)", "random": "cost", "elastic": "cost",
}  # fmt: skip
OPTIONS = {
    "ordinal": {"levels": {"kind": ["p", "q", "r"]}}, "cox": {"strata": "none"}, "random": {"random": "site"},
}  # fmt: skip
OPERATORS = {"random": "linear", "elastic": "linear"}
every = pytest.mark.parametrize("model", OUTCOMES)


def test_every_model_is_here():
    assert {*MODELS} <= {*OUTCOMES}


def cohort(rows=(70, 60, 50), seed=3):
    rng, frames = np.random.default_rng(seed), {}
    for n, count in enumerate(rows):
        frame = pd.DataFrame({"age": rng.uniform(20, 90, count), "crp": rng.exponential(5.0, count) + 0.1})
        frame["died"], frame["visits"] = rng.integers(0, 2, count), rng.negative_binomial(2, 0.3, count)
        frame["cost"], frame["time"] = rng.gamma(3.0, 100.0, count), rng.integers(1, 400, count).astype(float)
        frame["kind"] = rng.choice(["p", "q", "r"], count)
        frames[f"site{n}"] = frame
    return frames


def spec_of(model, formula):
    return FitSpec(formula=formula, operator=OPERATORS.get(model, model), graph="ring", **OPTIONS.get(model, {}))


def between(frames, model, right):
    """What every site ends with, and all totals that it saw."""
    spec = spec_of(model, f"{OUTCOMES[model]} ~ {right}")

    def attempt(own, net):
        seen, add = [], net.sum
        net.sum = lambda rows: seen.append(add(rows)) or seen[-1]
        try:
            fit = path_of(own, spec, net, 1.0, [0.1], None) if model == "elastic" else fit_sites(own, spec, net)
        except dsba.InputError as error:
            return str(error), seen
        return fit, seen

    return on_sites(frames, attempt)


def numeric_cell(frames):
    for name, frame in frames.items():
        frame["flag"] = ((np.arange(len(frame)) == 0) & (name == "site1")).astype(float)
    return "age + flag"


def interaction_cell(frames):
    for name, frame in frames.items():
        frame["old"] = (np.arange(len(frame)) % 2).astype(float)
        frame["ill"] = np.where((np.arange(len(frame)) == 0) & (name == "site1"), 1.0, frame["old"])
        frame["ill"] = frame["ill"] - frame["old"] + (np.arange(len(frame)) % 3 == 1) * frame["old"]
        frame["well"] = 1.0 - frame["old"]
    return "age + ill:well"


def peak(frames):
    frames["site1"].loc[0, "age"] = 32.0
    return "crp + exp(-100000000*((age-32)*(age-32)))"


def difference(frames):
    for frame in frames.values():
        frame["twin"] = frame["crp"]
    frames["site1"].loc[0, "twin"] += 1.0
    return "age + crp + twin"


def lone_event(frames):
    """One row has another outcome than all others."""
    usual = {"died": 0, "visits": 0, "cost": 100.0, "kind": "q"}
    other = {"died": 1, "visits": 4, "cost": 900.0, "kind": "p"}
    for frame in frames.values():
        for column, value in usual.items():
            frame[column] = value
    for column, value in other.items():
        frames["site1"].loc[0, column] = value
    return "age + crp"


def outcome_difference(frames):
    """A column is the outcome but for one row: X'y minus a column of X'X is the row."""
    for frame in frames.values():
        frame["copy"] = frame["cost"]
    frames["site1"].loc[0, "copy"] += 50.0
    return "age + copy"


def event_difference(frames):
    for frame in frames.values():
        frame["copy"] = frame["died"].astype(float)
    frames["site1"].loc[0, "copy"] = 1.0 - frames["site1"].loc[0, "copy"]
    return "age + copy"


def count_difference(frames):
    for frame in frames.values():
        frame["copy"] = frame["visits"].astype(float)
    frames["site1"].loc[0, "copy"] += 1.0
    return "age + copy"


def class_difference(frames):
    for frame in frames.values():
        frame["copy"] = (frame["kind"] == "q").astype(float)
    frames["site1"].loc[0, "copy"] = 1.0 - frames["site1"].loc[0, "copy"]
    return "age + copy"


def extreme_outcome(frames):
    """X'y is nearly this row times its outcome."""
    frames["site1"].loc[0, ["cost", "visits"]] = [1e8, 10_000_000]
    return "age + crp"


DIFFERENCES = {"cost": outcome_difference, "died": event_difference, "visits": count_difference,
               "kind": class_difference, "Surv(time, died)": event_difference}  # fmt: skip
ATTACKS = [numeric_cell, interaction_cell, peak, difference, lone_event]


@every
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_row_is_refused_before_any_sum_shows_it(model, attack, monkeypatch):
    monkeypatch.setattr("dsba.tables.fit.fit_rows", lambda *_, **__: pytest.fail("a step was summed"))
    monkeypatch.setattr("dsba.tables.likelihood.maximised", lambda *_, **__: pytest.fail("a step was summed"))
    monkeypatch.setattr("dsba.tables.likelihood.fit_mixed", lambda *_, **__: pytest.fail("a step was summed"))
    frames = cohort()
    for sentence, seen in between(frames, model, attack(frames)):
        assert isinstance(sentence, str)
        if attack is not lone_event:
            assert "row" in sentence
            assert not any(shows(total, frames) for total in seen)


@every
def test_an_outcome_that_a_column_gives_but_for_one_row_is_refused_before_a_step(model, monkeypatch):
    for step in ("fit.fit_rows", "likelihood.maximised", "likelihood.fit_mixed", "elastic_net._problems"):
        monkeypatch.setattr(f"dsba.tables.{step}", lambda *_, **__: pytest.fail("a step was summed"))
    frames = cohort()
    for sentence, _ in between(frames, model, DIFFERENCES[OUTCOMES[model]](frames)):
        assert isinstance(sentence, str)
        assert "together single out a row of site1" in sentence


@pytest.mark.parametrize("model", [name for name, outcome in OUTCOMES.items() if outcome in ("cost", "visits")])
def test_an_extreme_outcome_is_refused_before_a_step(model, monkeypatch):
    for step in ("fit.fit_rows", "likelihood.maximised", "likelihood.fit_mixed", "elastic_net._problems"):
        monkeypatch.setattr(f"dsba.tables.{step}", lambda *_, **__: pytest.fail("a step was summed"))
    frames = cohort()
    for sentence, _ in between(frames, model, extreme_outcome(frames)):
        assert f"one row of site1 makes up most of the spread of the column {OUTCOMES[model]}," in sentence


@pytest.mark.parametrize(
    ("offset", "operator"), [("offset", "linear"), ("exposure", "poisson"), ("offset", "logistic")]
)
def test_an_offset_that_gives_the_outcome_but_for_one_row_is_refused(offset, operator):
    """The first gradient X'(y - mean(offset)) would be this row."""
    frames = cohort()
    for frame in frames.values():
        died = np.where(frame["died"] > 0, 30.0, -30.0)
        frame["known"] = {"linear": frame["cost"], "poisson": frame["visits"] + 1e-3, "logistic": died}[operator]
    frames["site1"].loc[0, "known"] = {"linear": 900.0, "poisson": 20.0, "logistic": 0.0}[operator]
    spec = replace(spec_of(operator, f"{OUTCOMES[operator]} ~ age + crp"), **{offset: "known"})

    def attempt(own, net):
        with pytest.raises(dsba.InputError, match=r"row of site1|of the column"):
            fit_sites(own, spec, net)

    on_sites(frames, attempt)


PEAK = "exp(-500*((age-32)*(age-32)))*crp"
TENT = "pmax(age-31.9, 0) - 2*pmax(age-32, 0) + pmax(age-32.1, 0)"


@pytest.mark.parametrize("formula", [
    f"cost ~ age + I({PEAK})", f"cost ~ age + center({PEAK})", f"cost ~ age + scale({PEAK})",
    f"I({PEAK}) ~ visits + time", f"cost ~ poly({PEAK}, 2)", "cost ~ age + age:tall", f"cost ~ age + cap({PEAK})",
    f"cost ~ age + crp + sqrt(age*crp + 0.001*{PEAK})", f"cost ~ I(crp + 0.001*{PEAK})",
    f"I(cost + 0.001*{PEAK}) ~ visits", "cost ~ age + sqrt(crp + 0.01*(age > 31.5)*(age < 32.5))",
    f"log(cost + 0.1*({TENT})) ~ crp",
])  # fmt: skip
def test_no_mean_of_a_function_that_singles_out_a_row_is_summed(formula):
    """The sum of exp(-500 (age - 32)^2) crp is crp of the person aged 32: not even a mean may be summed.

    Nor may a column that hides it: the squares of sqrt(age crp + peak), less the products of age and crp, are the peak.
    """
    frames = cohort()
    for name, frame in frames.items():
        frame.loc[(frame["age"] > 31) & (frame["age"] < 33), "age"] = 40.0
        frame["tall"] = 1e-6 * np.sin(np.arange(len(frame)))
        if name == "site1":
            frame.loc[0, ["age", "crp", "tall"]] = [32.0, 7.5, 1.0]
    spec = FitSpec(formula=formula, operator="linear", graph="ring")
    secret = 32.0 if "tall" in formula else 7.5

    def attempt(own, net):
        seen, add = [], net.sum
        net.sum = lambda rows: seen.append(add(rows)) or seen[-1]
        with pytest.raises(dsba.InputError, match=r"row of site1 makes up most of|in all but fewer than 3 pooled"):
            fit_sites(own, spec, net)
        return np.concatenate(seen)

    for seen in on_sites(frames, attempt):
        assert not (np.abs(seen / secret - 1.0) < 0.02).any()


def test_a_nearly_constant_column_is_a_cell():
    """Values that differ by less than 1e-3 of the range are the same: two rows have the spread to themselves."""
    frames = cohort()
    rng = np.random.default_rng(0)
    for name, frame in frames.items():
        frame["flag"] = 1e-5 * rng.normal(size=len(frame)) + ((np.arange(len(frame)) == 0) & (name != "site0"))
        frame["cost"] = frame["flag"]
    for right, outcome in (("age + flag", "visits"), ("age + crp", "cost")):
        spec = FitSpec(formula=f"{outcome} ~ {right}", operator="linear", graph="ring")

        def attempt(own, net, spec=spec):
            with pytest.raises(dsba.InputError, match="fewer than 3 pooled rows have nearly all of the spread"):
                fit_sites(own, spec, net)

        on_sites(frames, attempt)


def shows(total, frames):
    """Whether a matrix in a total, times the difference of its last columns, is the first row of site1 to 10 %."""
    p = int((np.sqrt(8 * total.size + 1) - 1) / 2)
    if p < 3 or p * (p + 1) // 2 != total.size or not np.isfinite(total).all() or "twin" not in frames["site1"]:
        return False
    M = np.zeros((p, p))
    M[np.triu_indices(p)] = total
    M = M + np.triu(M, 1).T
    pooled = pd.concat(frames.values())
    sd, mean = pooled.std(ddof=0, numeric_only=True), pooled.mean(numeric_only=True)
    direction = np.zeros(p)
    direction[-2:] = -sd["crp"], sd["twin"]
    row = (M @ direction)[-3:] / (1.0 - (mean["twin"] - mean["crp"]))
    patient = ((frames["site1"].iloc[0] - mean) / sd)[["age", "crp", "twin"]].to_numpy(np.float64)
    return bool(np.abs(row - patient).max() < 0.1)


def test_the_matrix_without_noise_would_show_it():
    """The test above can fail: X'X of the scaled columns, times the difference, is the row."""
    frames = cohort()
    difference(frames)
    pooled = pd.concat(frames.values())[["age", "crp", "twin"]]
    X = np.column_stack([np.ones(len(pooled)), (pooled - pooled.mean()) / pooled.std(ddof=0)])
    assert shows((X.T @ X)[np.triu_indices(4)], frames)
    weights = np.random.default_rng(0).normal(0.0, 0.05 * len(X) / 2 / np.sqrt(3), 10)
    assert not shows((X.T @ X)[np.triu_indices(4)] + weights, frames)


@every
def test_an_ordinary_table_passes(model):
    frames = cohort()
    for found, _ in between(frames, model, "age + log(crp)"):
        assert not isinstance(found, str), found


@every
def test_two_runs_that_differ_in_one_row(model, tmp_path):
    terms = ModelTerms.of(spec_of(model, f"{OUTCOMES[model]} ~ age + crp"))
    frame, ledger = cohort()["site1"], Ledger(tmp_path / "ledger.json")
    ledger.add("s", used_rows(frame, terms.columns, b"k"), Allowed(runs=5))
    with pytest.raises(dsba.InputError, match="all but a few rows of an earlier run"):
        ledger.add("s", used_rows(frame.iloc[1:], terms.columns, b"k"), Allowed(runs=5))


def test_a_curve_of_one_person_is_refused():
    frames = cohort()
    for name, frame in frames.items():
        frame["arm"] = np.where((np.arange(len(frame)) == 0) & (name == "site1"), "b", "a")

    def attempt(own, net):
        with pytest.raises(dsba.InputError, match=r"1 level\(s\) of 'arm' have fewer than 3 pooled rows"):
            curves_of(own, FitSpec(formula="Surv(time, died) ~ arm", operator="cox"), net)

    on_sites(frames, attempt)


def in_folds(frames):
    """A column that is 1 in five rows, one in each of five folds."""
    for at, (name, row) in enumerate([("site0", 0), ("site0", 1), ("site1", 2), ("site1", 3), ("site2", 4)]):
        for frame in frames.values() if at == 0 else ():
            frame["flag"] = 0.0
        frames[name].loc[row, "flag"] = 1.0
    return "age + flag"


def apart_in_folds(frames):
    """Two columns with ordinary spreads that differ in one row of each fold."""
    for frame in frames.values():
        frame["twin"] = frame["crp"]
    for at in range(5):
        frames[f"site{at % 3}"].loc[at, "twin"] += 1.0
    return "crp + twin"


@pytest.mark.parametrize("attack", [in_folds, apart_in_folds], ids=lambda attack: attack.__name__)
def test_what_a_fold_adds_shows_no_row(attack, monkeypatch):
    """Sums over all rows less those without a fold are sums over the fold, where a row may be alone."""
    monkeypatch.setattr("dsba.tables.elastic_net._problems", lambda *_, **__: pytest.fail("folds were summed"))
    frames = cohort()
    right = attack(frames)

    def attempt(own, net):
        with pytest.raises(dsba.InputError, match=r"flag in a fold|the columns crp and twin together single out a row"):
            path_of(own, spec_of("elastic", f"cost ~ {right}"), net, 1.0, [0.1], 5)

    on_sites(frames, attempt)


def test_folds_of_few_rows_are_refused():
    """The sums without a fold, taken from those of all rows, are the sums of the fold."""

    def attempt(own, net):
        with pytest.raises(dsba.InputError, match="in a fold"):
            path_of(own, spec_of("elastic", "cost ~ age + crp"), net, 1.0, [0.1], 60)

    on_sites(cohort(), attempt)


def test_noise_that_leaves_less_than_nothing_of_a_column_keeps_sums_finite():
    """A site whose rows have nearly all weights of 0 refuses in a sentence about its row, however the noise falls."""
    apart = _apart(np.diag([1.0, 0.5, -1e-3]))
    assert np.isfinite(apart**2).all()
    rows = np.random.default_rng(0).normal(size=(50, 3))
    assert np.isfinite(Turned([rows], [np.ones(50)], apart).squares()).all()


# Leverage and steering ---------------------------------------------------------------------------


def rows_of(model, n=80, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    y = {"binary": rng.integers(0, 2, n), "multiclass": rng.integers(0, 3, n), "count": rng.poisson(2.0, n)}
    if model.labels == "survival":
        return Design((), X[:, 1:], np.column_stack([rng.integers(1, 20, n), rng.integers(0, 2, n)]).astype(float),
                      np.ones(n), np.zeros(n))  # fmt: skip
    X = X if model.intercept else X[:, 1:]
    return Design((), X, y[model.labels].astype(float), rng.uniform(0.5, 2.0, n), np.zeros(n))


@pytest.mark.parametrize(
    ("model", "parameters", "total"),
    [
        (Probit(), 3, 3.0),
        (Binomial(), 3, 3.0),
        (NegativeBinomial(), 4, 3.0),
        (Ordinal(3), 4, 2.0),
        (Cox("efron", "site"), 2, 2.0),
        (Cox("breslow", "site"), 2, 2.0),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int | float) else "",
)
def test_leverages_of_all_rows_add_up_to_the_columns(model, parameters, total):
    """The trace of a projection, also where the weights at the point differ from those of the last total."""
    sample = rows_of(model)
    z = np.linspace(-0.2, 0.3, parameters)
    terms = model.terms([sample], z, Alone())
    if not isinstance(model, NegativeBinomial):
        (found,) = model.leverages([sample], z, z, terms)
        assert found.parts.sum() == pytest.approx(total, rel=1e-9)
    if not isinstance(model, Cox):
        last = 0.5 * z
        (found,) = model.leverages([sample], z, last, model.terms([sample], last, Alone()))
        assert found.parts.sum() == pytest.approx(total, rel=1e-9)


def test_the_leverage_of_classes_is_the_largest_of_any_class():
    model = Multinomial(3)
    sample = rows_of(model)
    z = np.linspace(-0.2, 0.3, 6)
    (found,) = model.leverages([sample], z, z, model.terms([sample], z, Alone()))
    U = np.column_stack([np.zeros(80), sample.X @ z.reshape(2, 3).T])
    P = np.exp(U) / np.exp(U).sum(axis=1, keepdims=True)
    hats = []
    for k in (1, 2):
        root = np.sqrt(sample.weight * P[:, k] * (1 - P[:, k]))[:, None] * sample.X
        hats.append(np.diag(root @ np.linalg.pinv(root)))
    np.testing.assert_allclose(found.parts.sum(axis=1), np.max(hats, axis=0), rtol=1e-9)


@pytest.mark.parametrize("model", ["poisson", "quasi-poisson"])
def test_a_row_that_only_the_solution_singles_out_is_refused_at_a_step(model, monkeypatch):
    monkeypatch.setattr("dsba.tables.disclosure.check_blurred", lambda *_: None)  # it would refuse the outcome
    frames = poisson_outlier(5.0, 4000)
    spec = FitSpec(formula="visits ~ x", operator=model, graph="ring", guards=Guards(rows_per_level=1, dominance=1.0))

    def attempt(own, net):
        with pytest.raises(dsba.InputError, match=r"rows of site1, or very few|single out a row of site1"):
            fit_sites(own, spec, net)

    on_sites(frames, attempt)


@pytest.mark.parametrize("cov", ["classical", "HC0"])
def test_a_method_of_iterates_sums_nothing_at_a_solution_that_singles_out_a_row(cov, monkeypatch):
    """A leverage of 0.09 at the start and of 0.99 at the solution: the sums there show the row."""
    frames = poisson_outlier(3.0, 300)
    asked = []
    add = inference._sums
    monkeypatch.setattr(inference, "_sums", lambda *args: asked.append(1) or add(*args))
    spec = FitSpec(formula="visits ~ x", operator="poisson", graph="ring", algorithm="extra", cov=cov, max_passes=300)

    def attempt(own, net):
        seen, add = [], net.sum
        net.sum = lambda rows: seen.append(add(rows)) or seen[-1]
        with pytest.raises(dsba.InputError, match="of site1"):
            fit_sites(own, spec, net)
        assert not np.isfinite(seen[-1]).any()

    monkeypatch.setattr("dsba.tables.disclosure.check_blurred", lambda *_: None)  # it would refuse the outcome
    spec = replace(spec, guards=Guards(rows_per_level=1, dominance=1.0))
    on_sites(frames, attempt)
    assert len(asked) == 3  # the sites came to the solution


def poisson_outlier(x0, visits):
    rng, frames = np.random.default_rng(1), {}
    for n in range(3):
        x = rng.normal(size=60)
        frames[f"site{n}"] = pd.DataFrame({"x": x, "visits": rng.poisson(np.exp(0.1 * x))})
    frames["site1"].loc[0, ["x", "visits"]] = [x0, visits]
    return frames


def test_effective_rows():
    assert not is_steered(np.ones(30), 3)
    assert is_steered(np.array([1.0, *np.full(99, 1e-6)]), 3)
    assert is_steered(np.array([1.0, 1.0, *np.full(98, 1e-6)]), 3)
    assert is_steered(np.array([*np.ones(4), *np.full(196, 1e-9)]), 3)  # 2 % of the rows
    assert is_steered(np.zeros(10), 3)  # as at a point far away, where a gradient is that of few rows
    assert is_steered(np.array([1.0, np.inf]), 3)
    assert not is_steered(np.zeros(0), 3)
    assert not is_steered(np.array([1.0, 0.0]), 0)


PARAMETERS = {"multinomial": 6, "ordinal": 4, "negative-binomial": 4, "cox": 2}
STEERABLE = [name for name in OUTCOMES if name not in ("linear", "random", "elastic")] + ["net/logistic", "net/poisson"]
"""Weights of the others do not depend on the point: all totals of a linear model are made of X'X, X'y and y'y."""


class Steering:
    """A member that adds K I and K t u to its first part of a step, and nothing to later ones: they are the others'."""

    def __init__(self, net, q, toward, size, first=1):
        self.net, self.q, self.toward, self.size = net, q, toward, size
        self.add, self.steps, self.first, self.later = net.sum, 0, first, []
        quiet = net.aside()  # the matrix with noise may be as long as a step
        quiet.sum, net.aside = net.sum, lambda: quiet
        self.announced, net.about = False, self.about

    def about(self, kind, point):
        self.announced = True

    def is_step(self, numbers):
        half = self.q * (self.q + 1) // 2
        return numbers in (1 + self.q + half, 1 + self.q + 2 * half)

    def __call__(self, rows):
        if self.steps >= self.first:
            self.later.append(self.add(rows if self.net.rank else np.zeros_like(rows)))
            return self.later[-1]
        # An elastic net announces nothing, and its other sums have other lengths.
        self.steps += self.is_step(rows.shape[1]) and (self.announced or self.first > 1)
        if self.net.rank == 0 and self.steps == self.first:
            rows, eye = rows.copy(), np.eye(self.q)[np.triu_indices(self.q)]
            rows[0, 1 : 1 + self.q] += self.size * self.toward
            rows[0, 1 + self.q :] += self.size * np.tile(eye, (rows.shape[1] - 1 - self.q) // len(eye))
        return self.add(rows)

    @property
    def shown(self):
        """Whether a later matrix is nearly that of one row."""
        steps = [total for total in self.later if self.is_step(total.size) and np.isfinite(total).all()]
        return any(is_one_row(total, self.q) for total in steps)


def steered(model, t):
    """What every site ends with, and the totals after the first step; steps lead to about t u."""
    name = model.removeprefix("net/")
    spec, q = spec_of(name, f"{OUTCOMES[name]} ~ age + log(crp)"), PARAMETERS.get(name, 3)
    toward = t * np.resize([1.0, -2.0, 0.5], q) * (-1.0 if model in ("logistic", "poisson") else 1.0)
    if name == "negative-binomial":
        toward[-1] = 0.0

    def attempt(own, net):
        net.sum = attack = Steering(net, q, toward, 1e6, 1 if model == name else 2)
        try:
            path_of(own, spec, net, 1.0, [1e-4], None) if model != name else fit_sites(own, spec, net)
        except dsba.DsbaError as error:
            return str(error), attack
        return "went on", attack

    return on_sites(cohort(), attempt)


def is_one_row(total, q):
    """Whether a matrix in a total is nearly that of one row: it has one direction only."""
    for upper in total[1 + q :].reshape(-1, q * (q + 1) // 2):
        M = np.zeros((q, q))
        M[np.triu_indices(q)] = upper
        eigenvalues = np.abs(np.linalg.eigvalsh(M + np.triu(M, 1).T))
        if eigenvalues.max() > 0.99 * eigenvalues.sum():
            return True
    return False


@pytest.mark.parametrize("t", [3e3, 30.0])
@pytest.mark.parametrize("model", STEERABLE)
def test_a_member_that_steers_is_answered_with_nothing(model, t):
    """K I and K t u lead to t u, where weights vanish off a plane: one row would be the whole next matrix."""
    for end, attack in steered(model, t):
        assert attack.later
        steps = [total for total in attack.later if attack.is_step(total.size)] or attack.later  # Cox: risk sets first
        assert not np.isfinite(steps[0]).any()
        assert not attack.shown
        if t > 1e3:
            assert "would make up its part" in end or "cannot be a sum" in end


@pytest.mark.parametrize("model", ["probit", "gamma", "negative-binomial", "net/poisson"])
def test_without_the_check_the_attack_shows_a_row(model, monkeypatch):
    """The test above can fail."""
    monkeypatch.setattr("dsba.tables.disclosure.is_steered", lambda *_: False)
    monkeypatch.setattr("dsba.tables.disclosure.lever", lambda *_: None)
    assert any(steered(model, t)[0][1].shown for t in (30.0, 100.0, 300.0))


def test_a_linear_model_cannot_be_steered():
    """A gradient alone leads far away, and every later matrix is the first one without the member's own rows."""
    frames, spec = cohort(), spec_of("linear", "cost ~ age + log(crp)")

    def attempt(own, net):
        net.sum = attack = Steering(net, 3, np.array([1e9, -2e9, 5e8]), 1e-6)
        fit_sites(own, spec, net)
        return [total for total in attack.later if attack.is_step(total.size)]

    for later in on_sites(frames, attempt):
        assert len(later) > 1
        np.testing.assert_allclose(np.diff([total[4:] for total in later], axis=0), 0.0, atol=1e-9)


def test_guards_that_are_off_hold_nothing():
    frames = cohort()
    right = difference(frames)
    spec = replace(spec_of("gamma", f"cost ~ {right}"), guards=Guards.off())
    assert all(not isinstance(found, str) for found in on_sites(frames, lambda own, net: fit_sites(own, spec, net)))
