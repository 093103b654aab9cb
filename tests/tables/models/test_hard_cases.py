"""Every model on every hard table: an answer with finite standard errors, or a sentence that names column and cause."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from registered_models import REGISTERED, Registered, table

import dsba

MODELS = {
    **REGISTERED,
    "logistic": Registered("logistic", "readmitted", {}),
    "linear": Registered("linear", "sbp", {}),
    "poisson": Registered("poisson", "visits", {}),
}
CHANGED = {"Surv(time, died)": "died", "cbind(events, trials - events)": "events"}
"""The column of an outcome of two columns that a hard table changes."""
OF_CLASSES = {"probit", "cloglog", "quasi-binomial", "logistic", "multinomial", "ordinal"}
OF_COUNTS = {"poisson", "quasi-poisson", "negative-binomial"}


def column(name):
    return CHANGED.get(MODELS[name].left, MODELS[name].left)


def codes(frame, name):
    """The outcome as numbers."""
    return pd.Series(np.unique(frame[column(name)], return_inverse=True)[1], frame.index)


def fitted(name, frame, right="age + bmi"):
    case = MODELS[name]
    options = dict(case.options)
    if "levels" in options:
        options["levels"] = {
            c: [one for one in known if one in set(frame[c])] for c, known in options["levels"].items()
        }
    return dsba.fit(frame, f"{case.left} ~ {right}", case.operator, sites="site", **options)


def require_answer(name, frame, right="age + bmi"):
    found = fitted(name, frame, right)
    assert found.model.run.status == "converged"
    assert np.isfinite(found.params).all()
    assert ((found.bse > 0.0) & (found.bse < 1e3 * found.params.abs().max())).all()


def require_sentence(name, frame, right, *words):
    with pytest.raises(dsba.InputError) as error:
        fitted(name, frame, right)
    assert [word for word in words if word not in str(error.value)] == []


every = pytest.mark.parametrize("name", MODELS)
pytestmark = [pytest.mark.filterwarnings(f"ignore:{start}") for start in ("Between owners", "Look at this")]


@every
def test_separation_and_monotone_likelihood(name):
    """A factor that gives the outcome: classes are separated, a level has no event, or all counts of it are 0."""
    frame, outcome = table(), column(name)
    y = codes(frame, name)
    frame["flag"] = np.where(y > (0 if MODELS[name].operator in (*OF_CLASSES, "cox") else y.median()), "yes", "no")
    if MODELS[name].operator in OF_COUNTS:
        frame.loc[frame["flag"] == "no", outcome] = 0
    if name in ("logistic/counts", "quasi-binomial") and outcome == "events":
        frame["events"] = np.where(frame["flag"] == "yes", frame["trials"], 0)
    if MODELS[name].operator in ("linear", "gamma", "inverse-gaussian"):
        require_answer(name, frame, "flag + age")
    else:
        require_sentence(name, frame, "flag + age", "flag[T.yes]")


@every
def test_a_constant_outcome(name):
    frame, outcome = table(), column(name)
    frame[outcome] = 0 if MODELS[name].operator in (*OF_COUNTS, "cox") or outcome == "events" else frame[outcome].max()
    require_sentence(name, frame, "age + bmi", outcome)


@pytest.mark.parametrize("name", ["gamma", "inverse-gaussian", "quasi-poisson", "random intercept"])
def test_columns_that_give_the_outcome(name):
    frame = table()
    exact = np.where(frame["age"] > 60, 8.0, 2.0)
    require_sentence(name, frame.assign(**{column(name): exact}), "I(age > 60) + bmi", "I(age > 60)", "exactly")


@every
def test_a_level_at_one_site_only(name):
    frame = table()
    here = (frame["site"] == "north") & (frame["events"] % 2 == 1)
    require_answer(name, frame.assign(kind=np.where(here, "b", "a")), "kind + age")


@every
def test_a_factor_with_one_level(name):
    require_sentence(name, table().assign(kind="only"), "kind + age", "'kind'", "one level only")


@every
def test_a_site_with_one_row(name):
    frame = table()
    one = frame[frame["site"] == "north"].head(1)
    require_answer(name, pd.concat([frame[frame["site"] != "north"], one], ignore_index=True))


@every
def test_no_event_or_one_class_at_a_site(name):
    frame, outcome = table(), column(name)
    there = frame["site"] == "north"
    if frame[outcome].dtype.kind not in "if":  # the first class is missing there
        first, second = sorted(set(frame[outcome]))[:2]
        frame.loc[there & (frame[outcome] == first), outcome] = second
    else:
        frame.loc[there, outcome] = 1.0 if "gamma" in name or "inverse" in name else 0
    require_answer(name, frame)


@every
def test_more_columns_than_rows(name):
    frame = table().groupby("site").head(1).assign(a=range(5), b=[1, 5, 2, 4, 3], c=[2, 7, 1, 8, 2], d=[3, 1, 4, 1, 5])
    if column(name) in ("readmitted", "died"):
        frame[column(name)] = [0, 1, 0, 1, 1]
    if MODELS[name].operator in ("multinomial", "ordinal"):
        frame[column(name)] = sorted(set(table()[column(name)]))[:2] * 2 + sorted(set(table()[column(name)]))[2:]
    with pytest.raises(dsba.InputError, match=r"weighted sum of the others|have no standard errors|exactly|separated"):
        fitted(name, frame, "a + b + c + d + age")


@pytest.mark.parametrize("strata", ["strata", "grid"])
def test_ties_at_every_time(strata):
    frame = table()
    for time in (1 + np.arange(len(frame)) % 2, np.full(len(frame), 5)):
        require_answer(f"cox/{strata}", frame.assign(time=time))


def test_theta_without_end():
    frame = table().assign(los=np.where(np.arange(500) % 2, 3, 4))
    require_sentence("negative-binomial", frame, "age + bmi", "theta grows without end")


WITH_OFFSET = [name for name in MODELS if name not in ("multinomial", "random intercept")]


@pytest.mark.parametrize("name", WITH_OFFSET)
def test_an_offset_that_is_a_column_moves_its_coefficient(name):
    """By exactly as much: wherever the iteration begins, it ends at the same means. Cuts stand on the other side."""
    case, slope = MODELS[name], 5.0 if "cox" in name else 2.0
    frame = table().assign(z=lambda f: (f["age"] - 60.0) / 10.0, o=lambda f: slope * f["z"] + 3.0)
    plain, moved = (
        dsba.fit(frame, f"{case.left} ~ z + bmi", case.operator, sites="site", offset=offset, **case.options)
        for offset in (None, "o")
    )
    by = [{"z": -slope, "Intercept": -3.0}.get(term, 3.0 * ("|" in term)) for term in plain.params.index]
    np.testing.assert_allclose(moved.params - by, plain.params, rtol=0, atol=1e-8 * plain.params.abs().max())
    np.testing.assert_allclose(moved.bse, plain.bse, rtol=1e-7)


@pytest.mark.parametrize(
    "name", ["cloglog", "quasi-poisson", "negative-binomial", "gamma", "inverse-gaussian", "poisson"]
)
def test_an_exposure_has_no_unit(name):
    """Person-years or person-days: only the intercept and the number of the first step differ."""
    case, frame = MODELS[name], table()
    formula, options = f"{case.left} ~ age + bmi", {"sites": "site", "exposure": "time", "graph": "ring"}
    years, days = (
        dsba.fit(frame.assign(time=frame["years"] * unit), formula, case.operator, **options) for unit in (1.0, 1e5)
    )
    np.testing.assert_allclose(days.params["age":], years.params["age":], rtol=1e-8)
    assert days.rounds <= min(years.rounds + 16, 230)


@pytest.mark.parametrize("name", ["probit", "cloglog", "logistic/counts", "quasi-binomial"])
def test_one_row_that_the_model_is_sure_of_and_wrong_about(name):
    """1 - p of it is 0 in a float64, and its squared residual is a number all the same."""
    frame, case = table().assign(far=0.0), MODELS[name]
    left = frame["trials"] - frame["events"] if "trials" in case.left else 1 - frame["readmitted"]
    frame.loc[left.idxmax(), "far"] = {"cloglog": 6.0, "probit": 12.0}.get(name, 50.0)
    found = dsba.fit(frame, f"{case.left} ~ age", case.operator, sites="site", offset="far")
    assert found.converged
    assert 1e12 < found.metadata.inference.pearson_chi2 < np.inf


@pytest.mark.parametrize(
    ("name", "offset", "words"),
    [
        ("quasi-poisson", 365.0, "the column 'far' gives offsets beyond 300 at coast.* are an exposure"),
        ("probit", -700.0, "the column 'far' gives offsets beyond 300"),
        ("cox/grid", 60.0, "cannot be summed where all coefficients are 0: the offsets"),
    ],
)
def test_offsets_that_are_no_logarithms_are_named(name, offset, words):
    case = MODELS[name]
    with pytest.raises(dsba.InputError, match=words):
        dsba.fit(table().assign(far=offset), f"{case.left} ~ age", case.operator, sites="site", offset="far",
                 **case.options)  # fmt: skip


def test_a_column_that_tells_strata_apart_has_no_effect_in_them():
    frame = table().assign(beds=lambda f: f["site"].str.len() * 100.0)
    require_sentence("cox/strata", frame, "age + beds", "beds", "the same for all rows of the stratum that are at risk")
