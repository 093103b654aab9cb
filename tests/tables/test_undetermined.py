"""What has no standard errors is refused in a sentence, whatever method found the coefficients."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from conftest import also_in_full
from test_inference import patients

import dsba
from dsba.errors import FitError


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("algorithm", also_in_full(["dsba"], ["newton", "dsba", "extra"]))
def test_columns_that_depend_on_each_other_are_named(algorithm):
    table = patients().assign(twice=lambda f: 2 * f["age"] + 1)
    with pytest.raises(FitError, match=r"does not determine the coefficients of age and twice: one of these columns"):
        dsba.fit(table, "cost ~ age + C(sex) + twice", "linear", sites="hospital", algorithm=algorithm)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("algorithm", ["newton", "extra"])
def test_without_an_intercept_the_names_stay_in_their_places(algorithm):
    table = patients().assign(twice=lambda f: 2 * f["crp"])
    with pytest.raises(FitError, match=r"does not determine the coefficients of crp and twice: one of these columns"):
        dsba.fit(table, "cost ~ 0 + age + crp + twice", "linear", sites="hospital", algorithm=algorithm)


@pytest.mark.parametrize("options", [{}, {"lam": 0.1}, {"offset": "o"}])
def test_counts_without_an_event(options):
    table = patients().assign(visits=0, o=1.0)
    with pytest.raises(dsba.InputError, match="all counts of 'visits' are 0: a Poisson model needs at least one event"):
        dsba.fit(table, "visits ~ age", "poisson", sites="hospital", **options)


@pytest.mark.parametrize("value", also_in_full([0.1], [0.0, 0.1, -3e15]))
@pytest.mark.parametrize("offset", [None, "o"])
def test_a_constant_outcome(value, offset):
    table = patients().assign(o=lambda f: f["days"])
    table["cost"] = value + (table["o"] if offset else 0.0)
    with pytest.raises(dsba.InputError, match=r"the outcome .*is constant over all sites"):
        dsba.fit(table, "cost ~ age", "linear", sites="hospital", offset=offset)


def test_an_outcome_without_a_rest():
    """The columns give the outcome exactly, so that no variance can be estimated."""
    table = patients().assign(cost=lambda f: np.where(f["sex"] == "M", 1.0, 0.0))
    fit = dsba.fit(table, "cost ~ 0 + C(sex)", "linear", sites="hospital")
    assert fit.params.tolist() == [0.0, 1.0]
    with pytest.raises(dsba.InputError, match="The columns give the outcome exactly"):
        _ = fit.bse


@pytest.mark.parametrize("seed", also_in_full([0, 1, 2, 21], range(40)))
def test_an_exact_fit_is_finished(seed):
    """What rounding leaves of the outcome is not taken for an unfinished fit, whether columns are collinear or not."""
    rng = np.random.default_rng(seed)
    rows, p = int(rng.choice([30, 200, 3000])), int(rng.integers(2, 8))
    X = rng.normal(size=(rows, p))
    if seed % 2:
        X[:, 1] = X[:, 0] + 1e-3 * X[:, 1]
    X = X * 10.0 ** rng.uniform(-2, 2, p) + rng.normal()
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)]).assign(site=np.arange(rows) % 3)
    coefficients = rng.normal(size=p)
    table["y"] = 3.0 + X @ coefficients
    fit = dsba.fit(table, "y ~ " + " + ".join(f"x{j}" for j in range(p)), "linear", sites="site")
    assert fit.plain()["status"] == "converged"
    assert "The columns give the outcome exactly" in fit.headline()
    assert "ended before" not in fit.headline()
    np.testing.assert_allclose(fit.predict(table), table["y"], rtol=1e-12, atol=1e-12 * table["y"].std())


@pytest.mark.parametrize("value", [0.0, 5e11])
def test_an_outcome_that_varies_a_little_is_not_constant(value):
    table = patients()
    small = table["cost"] - table["cost"].mean()
    plain = dsba.fit(table.assign(cost=small), "cost ~ age", "linear", sites="hospital")
    shifted = dsba.fit(table.assign(cost=value + small), "cost ~ age", "linear", sites="hospital")
    np.testing.assert_allclose(shifted.bse, plain.bse, rtol=1e-4)
