"""Meta-analysis against R's metafor."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import dsba

sys.path.append(str(Path(__file__).parents[1] / "yardsticks"))
from reference_values import table, values

META = values("meta")


@pytest.mark.parametrize("case", META["cases"])
@pytest.mark.parametrize("method", ["fixed", "DL", "REML", "ML"])
def test_values_of_r(case, method):
    known = META["cases"][case]
    given = {site: (e, known["variances"][site] ** 0.5) for site, e in known["estimates"].items()}
    found, wanted = dsba.meta(given, method), known[method]
    for name in ("estimate", "se", "z", "p", "Q", "Q_p", "tau2", "I2", "H2"):
        assert getattr(found, name) == pytest.approx(wanted[name], rel=1e-8, abs=1e-12), name
    assert found.conf_int() == pytest.approx((wanted["lower"], wanted["upper"]), rel=1e-8)
    assert found.weights == pytest.approx(wanted["weights"], rel=1e-8)
    assert found.prediction() == pytest.approx(wanted["prediction_t"], rel=1e-8)
    assert found.to_frame().loc["all", "upper"] == pytest.approx(wanted["upper"], rel=1e-8)


def test_each_site_alone_is_what_r_fits_there():
    frame = table()
    fit = dsba.fit(frame, "readmitted ~ age + treated", "logistic", sites="site")
    own = fit.by_site(frame, sites="site")
    known = META["cases"]["treated/logistic"]
    found = own.pairs("treated")
    np.testing.assert_allclose([e for e, _ in found.values()], list(known["estimates"].values()), rtol=1e-8)
    assert own.meta("treated").estimate == pytest.approx(known["REML"]["estimate"], rel=1e-8)
    assert own.bse.loc["north", "treated"] == pytest.approx(known["variances"]["north"] ** 0.5, rel=1e-8)
    np.testing.assert_allclose([s**2 for _, s in found.values()], list(known["variances"].values()), rtol=1e-8)


def test_a_site_that_cannot_be_fitted_alone_is_named():
    frame = table()
    frame.loc[frame["site"] == "north", "treated"] = 0
    fit = dsba.fit(frame, "readmitted ~ age + treated", "logistic", sites="site")
    own = fit.by_site(frame, sites="site")
    assert list(own.params.index) == ["coast", "east", "south", "west"]
    assert "treated" in own.failed["north"]


@pytest.mark.parametrize("given", [{"a": (1.0, 0.1)}, {"a": (1.0, 0.1), "b": (2.0, 0.0)}, [(1.0, 0.1), (np.nan, 1.0)]])
def test_too_little_is_refused(given):
    with pytest.raises(dsba.InputError):
        dsba.meta(given)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("odd", [(1.0, 1e100), (1.0, 1e-100), (1e200, 1.0)])
@pytest.mark.parametrize("method", ["fixed", "DL", "REML", "ML"])
def test_numbers_whose_powers_are_none_are_refused(odd, method):
    with pytest.raises(dsba.InputError, match="1e50"):
        dsba.meta([odd, odd], method)
