"""Levels: truth values are factors, as in R and patsy; levels that look alike are named before the fit."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.formula.api as smf
from hospital_tables import hospitals, pooled, sites_of, terms

import dsba
from dsba.tables.design import design_tables
from dsba.tables.schema_report import report


@pytest.fixture
def frame():
    table = pooled(hospitals())
    return table.assign(smoker=np.random.default_rng(3).random(len(table)) < 0.4)


@pytest.mark.parametrize("right", ["smoker", "age:smoker", "age * smoker", "C(smoker) + age"])
def test_truth_values_are_factors_as_in_patsy(frame, right, tmp_path):
    fit = dsba.fit(frame, f"cost ~ {right}", "linear", sites="site")
    theirs = smf.ols(f"cost ~ {right}", frame).fit()
    assert set(fit.params.index) == set(theirs.params.index)
    np.testing.assert_allclose(fit.params[theirs.params.index], theirs.params, rtol=1e-8)
    fit.save(tmp_path)
    np.testing.assert_allclose(dsba.load(tmp_path).predict(frame), theirs.predict(frame), rtol=1e-10)


def test_truth_values_in_arithmetic_and_numbers_stay_numbers(frame):
    fit = dsba.fit(frame.assign(old=(frame["age"] > 50).astype(int)), "cost ~ old + I(smoker * age)", "linear")
    assert list(fit.params.index) == ["Intercept", "old", "I(smoker * age)"]


def test_levels_that_look_alike_or_are_of_one_site_are_named():
    frames = hospitals()
    frames["site0"]["sex"] = frames["site0"]["sex"].replace("M", "m ")
    lines = report(design_tables(sites_of(frames), terms("cost ~ age + sex + ward")))
    assert "The levels 'M' and 'm ' of sex differ by case or spaces only." in lines
    assert "The level 'm ' of sex occurs at one site only." in lines
    assert "The level 'surgery' of ward occurs at one site only." in lines
    assert not [line for line in lines if "'F'" in line]
