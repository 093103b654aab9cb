"""Elastic nets against R's glmnet, at equal objectives."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dsba

sys.path.append(str(Path(__file__).parents[1] / "yardsticks"))
from reference_values import table, values

NETS = values("elastic_net")
PATHS = [
    name if name.startswith("gaussian/0.5") or "/1/" in name else pytest.param(name, marks=pytest.mark.full)
    for name in NETS["cases"]
    if name.endswith("standardized")
]
OPERATORS = {"gaussian": "linear", "binomial": "logistic", "poisson": "poisson"}


def in_our_objective(case):
    """glmnet divides the quadratic term of a linear model by the outcome's standard deviation."""
    lambdas, alpha = np.array(case["lambda"]), case["alpha"]
    if case["family"] == "gaussian":
        total = alpha + (1.0 - alpha) / table()["sbp"].std(ddof=0)
        return lambdas * total, alpha / total
    return lambdas, alpha


@pytest.mark.parametrize("name", PATHS)
def test_paths_and_losses_of_r(name):
    case = NETS["cases"][name]
    lambdas, ratio = in_our_objective(case)
    found = dsba.elastic_net(
        table(), case["formula"], OPERATORS[case["family"]], sites="site", l1_ratio=ratio, lambdas=lambdas, folds=5
    )
    wanted = np.column_stack([case["intercept"], case["coefficients"]])
    scale = np.abs(wanted).max(axis=0)
    assert (np.abs(found.coefficients.to_numpy() - wanted) / scale).max() < 1e-9
    assert ((found.coefficients.to_numpy() != 0) == (wanted != 0)).all()
    if case["family"] == "gaussian" and ratio < 1.0:
        return  # without a fold the outcome has another standard deviation, and glmnet another objective
    np.testing.assert_allclose(found.cv["mean"], case["cv"]["cvm"], rtol=1e-6)
    np.testing.assert_allclose(found.cv["se"], case["cv"]["cvsd"], rtol=1e-5)
    assert found.lambda_min == pytest.approx(case["cv"]["lambda_min"])
    assert found.lambda_1se == pytest.approx(case["cv"]["lambda_1se"])
    assert found.params().equals(found.coefficients.loc[found.lambda_min])


def test_the_path_begins_where_no_coefficient_is_left():
    path = dsba.elastic_net(table(), "sbp ~ age + bmi + treated", sites="site")
    assert (path.coefficients.iloc[0, 1:] == 0).all()
    assert (path.coefficients.iloc[1, 1:] != 0).any()
    plain = dsba.fit(table(), "sbp ~ age + bmi + treated", "linear", sites="site")
    nothing = dsba.elastic_net(table(), "sbp ~ age + bmi + treated", sites="site", lambdas=[0.0])
    np.testing.assert_allclose(nothing.params(0.0), plain.params, rtol=1e-9)


@pytest.mark.parametrize(
    "options",
    [{"operator": "huber"}, {"l1_ratio": 1.5}, {"folds": 1}, {"lambdas": [-1.0]}, {"formula": "sbp ~ 0 + age"}],
)
def test_what_does_not_fit_is_refused(options):
    with pytest.raises(dsba.InputError):
        dsba.elastic_net(table(), **{"formula": "sbp ~ age", **options})


def test_without_folds_there_is_no_best_lambda():
    with pytest.raises(dsba.InputError, match="folds"):
        _ = dsba.elastic_net(table(), "sbp ~ age", lambdas=[1.0]).lambda_min


@pytest.mark.parametrize("unit", [1e-12, 1e9])
def test_the_unit_of_the_outcome(unit):
    known, ours = (
        dsba.elastic_net(table().assign(sbp=lambda f, u=u: u * (f["sbp"] - 130)), "sbp ~ age + bmi", sites="site")
        for u in (1.0, unit)
    )
    np.testing.assert_allclose(ours.coefficients / unit, known.coefficients, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lambdas": []}, "lambdas must have at least one number"),
        ({"folds": 400}, "some of the 400 folds have no row"),
        ({"formula": "none ~ age", "operator": "poisson"}, "all the same in all rows"),
        ({"formula": "once ~ age", "operator": "poisson", "folds": 3}, "all the same in all rows outside of a fold"),
        ({"formula": "once ~ age", "operator": "logistic", "folds": 3}, "all the same in all rows outside of a fold"),
    ],
)
def test_what_has_no_path_is_named(options, sentence):
    frame = table().assign(none=0, once=lambda f: (f.index == 7).astype(int))
    with pytest.raises(dsba.InputError, match=sentence):
        dsba.elastic_net(frame, **{"formula": "sbp ~ age", "sites": "site", **options})


def test_a_path_without_a_largest_lambda_is_named():
    frame = pd.DataFrame({"x": [-1.0, 1.0] * 20, "y": [1.0, 1.0, 2.0, 2.0] * 10})
    for formula in ("y ~ x", "y ~ 1"):
        with pytest.raises(dsba.InputError, match="no column explains anything of the outcome"):
            dsba.elastic_net(frame, formula)
        np.testing.assert_allclose(dsba.elastic_net(frame, formula, lambdas=0.1).params(0.1).iloc[0], 1.5)


def test_a_lambda_that_is_not_on_the_path_is_named():
    path = dsba.elastic_net(table(), "sbp ~ age", lambdas=[1.0, 0.5])
    with pytest.raises(dsba.InputError, match=r"lambda = 0.7 is not on the path, which has 1, 0.5\."):
        path.params(0.7)


def test_a_dot_is_all_other_columns():
    """It was no column at all: the path had an intercept alone."""
    frame = table()[["site", "sbp", "age", "bmi"]]
    path = dsba.elastic_net(frame, "sbp ~ .", sites="site", lambdas=[0.1])
    named = dsba.elastic_net(frame, "sbp ~ age + bmi", sites="site", lambdas=[0.1])
    assert path.coefficients.equals(named.coefficients)
