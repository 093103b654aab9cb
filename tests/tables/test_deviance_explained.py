"""The share of deviance that a model explains: the model that it is compared with has the offset, too."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from conftest import also_in_full
from test_inference import patients
from test_table_commands import ask

import dsba


def visits(seed, days=1.0):
    """Counts that grow with the days, and a column ``noise`` that explains nothing."""
    rng = np.random.default_rng(seed)
    table = patients(seed=seed)
    table["days"] = table["days"] * days
    table["visits"] = rng.poisson(table["days"] / days * np.exp(0.01 * (table["age"] - 50)))
    return table.assign(o=np.log(table["days"]), noise=rng.normal(size=len(table)))


def explained(fit, table):
    """By statsmodels: the model with only an intercept and the offset, on the same rows."""
    null = sm.GLM(table["visits"], np.ones(len(table)), sm.families.Poisson(), offset=table["o"]).fit(tol=1e-12)
    return 1.0 - sm.families.Poisson().deviance(table["visits"], fit.predict(table)) / null.deviance


@pytest.mark.parametrize("formula", ["visits ~ noise", "visits ~ age"])
@pytest.mark.parametrize("days", also_in_full([86400.0], [1.0, 86400.0]))
def test_an_offset_is_no_merit_of_the_columns(formula, days):
    fit = dsba.fit(visits(1, days), formula, "poisson", sites="hospital", offset="o")
    new = visits(2, days)
    found = fit.evaluate(new, sites="hospital")
    assert found.pooled.d2 == pytest.approx(explained(fit, new), rel=1e-9, abs=1e-12)
    for name, part in new.groupby("hospital"):
        assert found.sites[name].d2 == pytest.approx(explained(fit, part), rel=1e-9, abs=1e-12)
    same = fit.evaluate(visits(1, days), sites="hospital").pooled.d2
    assert same == pytest.approx(1.0 - fit.deviance / fit.null_deviance, rel=1e-9, abs=1e-12)


def test_an_exposure_is_an_offset(tmp_path):
    files = []
    for name, part in visits(1).groupby("hospital"):
        files.append(tmp_path / f"{name}.csv")
        part.to_csv(files[-1], index=False)
    words = ("--formula", "visits ~ age", "--operator", "poisson", "--exposure", "days", "--out", tmp_path / "run")
    ask("train", *files, *words)
    fit = dsba.load(tmp_path / "run")
    assert fit.evaluate(visits(2)).pooled.d2 == pytest.approx(explained(fit, visits(2)), rel=1e-9)


def test_an_offset_whose_exponential_is_infinite_is_refused():
    """It would spoil the sums of all sites."""
    fit = dsba.fit(visits(1), "visits ~ age", "poisson", sites="hospital", offset="o")
    new = visits(2).assign(o=800.0, age=-1e6)
    assert np.isfinite(fit.predict(new)).all()
    with pytest.raises(dsba.InputError, match="the exposure is not a finite number in some rows of all"):
        fit.evaluate(new)
