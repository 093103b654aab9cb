"""A random intercept of each site against R's lme4."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import dsba
from dsba.network import Alone
from dsba.tables.design import Design
from dsba.tables.mixed import fit_mixed

sys.path.append(str(Path(__file__).parents[1] / "yardsticks"))
from reference_values import table, values

CASES, FORMULA = values("mixed")["cases"], "sbp ~ age + sex + bmi + treated"


def test_values_of_r():
    wanted = CASES[f"{FORMULA}/REML"]
    found = dsba.fit(table(), FORMULA, "linear", sites="site", random="site")
    np.testing.assert_allclose(found.params, list(wanted["params"].values()), rtol=1e-9)
    np.testing.assert_allclose(found.bse, wanted["bse"], rtol=1e-9)
    for name in ("llf", "aic", "bic"):
        assert getattr(found, name) == pytest.approx(wanted[name], rel=1e-9)
    for name in ("site_variance", "residual_variance"):
        assert found.metadata.figures[name] == pytest.approx(wanted[name], rel=1e-8)
    assert "Site variance 4.223" in str(found.summary())


@pytest.mark.parametrize("formula", [FORMULA, "sbp ~ 1"])
@pytest.mark.parametrize("kind", ["REML", "ML"])
def test_both_likelihoods_of_r(formula, kind):
    frame, wanted = table(), CASES[f"{formula}/{kind}"]
    columns = [np.ones(len(frame))]
    if formula == FORMULA:
        columns += [frame["age"], frame["sex"] == "M", frame["bmi"], frame["treated"]]
    X, y = np.column_stack(columns).astype(float), frame["sbp"].to_numpy(float)
    at = [np.flatnonzero(frame["site"] == site) for site in sorted(set(frame["site"]))]
    designs = [Design((), X[i], y[i], np.ones(len(i)), np.zeros(len(i))) for i in at]
    found = fit_mixed(designs, Alone(), restricted=kind == "REML")
    np.testing.assert_allclose(found.b, list(wanted["params"].values()), rtol=1e-8)
    np.testing.assert_allclose(np.sqrt(np.diag(found.covariance)), wanted["bse"], rtol=1e-8)
    assert found.site_variance == pytest.approx(wanted["site_variance"], rel=1e-8)
    assert found.llf == pytest.approx(wanted["llf"], rel=1e-10)


def test_sites_that_do_not_differ_have_no_variance():
    frame = table()
    frame["sbp"] = frame["sbp"] - frame.groupby("site")["sbp"].transform("mean")
    found = dsba.fit(frame, "sbp ~ age", "linear", sites="site", random="site")
    plain = dsba.fit(frame, "sbp ~ age", "linear", sites="site")
    assert found.metadata.figures["site_variance"] == 0.0
    np.testing.assert_allclose(found.bse, plain.bse, rtol=1e-10)


@pytest.mark.parametrize("options", [{"cov": "HC1"}, {"lam": 0.1}, {"operator": "poisson"}, {"weights": "trials"}])
def test_what_it_cannot_do_is_refused(options):
    given = {"operator": "linear", **options}
    with pytest.raises(dsba.InputError, match="random intercept"):
        dsba.fit(table(), "los ~ age", sites="site", random="site", **given)
