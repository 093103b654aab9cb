"""Meta-analysis against R's metafor."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
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


def of_three_sites():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=600), "g": rng.choice(list("abc"), 600), "site": np.arange(600) % 3})
    frame["x"] += frame["site"]
    frame["sev"] = np.array(["mild", "worse", "severe"])[
        np.digitize(frame["x"] + rng.logistic(size=600), [0, 2])
    ]  # fmt: skip
    frame["ill"] = np.where(frame["sev"] == "mild", "no", "yes")
    return frame.assign(y=frame["x"] ** 2 + (frame["g"] == "b") + rng.normal(size=600))


@pytest.mark.parametrize(
    ("formula", "operator", "options"),
    [
        ("ill ~ x", "logistic", {"event": "no"}),
        ("ill ~ x + g", "probit", {"levels": {"g": ["c", "a", "b"], "ill": ["yes", "no"]}}),
        ("sev ~ x", "ordinal", {"levels": {"sev": ["mild", "worse", "severe"]}}),
        ("sev ~ x", "multinomial", {"levels": {"sev": ["worse", "severe", "mild"]}}),
    ],
)
def test_each_site_alone_has_the_events_and_levels_of_the_model(formula, operator, options):
    """Sorted labels and levels gave coefficients of the other sign, or compared with other levels."""
    frame = of_three_sites()
    own = dsba.fit(frame, formula, operator, sites="site", **options).by_site(frame, sites="site")
    for site, rows in frame.groupby("site"):
        alone = dsba.fit(rows, formula, operator, **options).params
        assert own.params.loc[str(site)].to_dict() == pytest.approx(alone.to_dict(), rel=1e-9)


@pytest.mark.parametrize("term", ["scale(x)", "center(x)", "poly(x, 2)", "ns(x, df=3)", "cap(x)"])
def test_each_site_alone_has_the_functions_of_the_model(term):
    """The columns of the model, by hand: functions of a site's own moments would give coefficients in other units."""
    frame = of_three_sites()
    fit = dsba.fit(frame, f"y ~ {term}", "linear", sites="site")
    own = fit.by_site(frame, sites="site").params
    for site, rows in frame.groupby("site"):
        wanted = np.linalg.lstsq(fit.columns_of(rows), rows["y"])[0]
        np.testing.assert_allclose(own.loc[str(site)], wanted, rtol=1e-6)


@pytest.mark.parametrize("term", ["g", "C(g, Sum)"])
def test_a_site_without_the_reference_level_is_named(term):
    """Its coefficients were those beside another level, under the same names."""
    frame = of_three_sites().query("site != 1 or g != 'a'").reset_index(drop=True)
    own = dsba.fit(frame, f"y ~ x + {term}", "linear", sites="site").by_site(frame, sites="site")
    assert list(own.estimates) == ["0", "2"]
    assert "g" in own.failed["1"]
    fewer = of_three_sites().query("site != 1 or g != 'c'").reset_index(drop=True)
    own = dsba.fit(fewer, "y ~ x + g", "linear", sites="site").by_site(fewer, sites="site")
    assert list(own.pairs("g[T.b]")) == ["0", "1", "2"]
    assert list(own.pairs("g[T.c]")) == ["0", "2"]
    rare = of_three_sites().query("site != 1 or sev != 'mild'").reset_index(drop=True)
    fit = dsba.fit(rare, "sev ~ x", "multinomial", sites="site")
    assert "sev = mild" in fit.by_site(rare, sites="site").failed["1"]


@pytest.mark.parametrize("options", [{"random": "site"}, {"graph": [(0, 1), (1, 2)]}])
def test_each_site_alone_needs_no_other_sites(options):
    """A graph of named pairs has no node alone, and one site has no random intercept."""
    frame = of_three_sites()
    own = dsba.fit(frame, "y ~ x", "linear", sites="site", **options).by_site(frame, sites="site")
    plain = dsba.fit(frame, "y ~ x", "linear", sites="site").by_site(frame, sites="site")
    assert own.estimates == plain.estimates


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


@pytest.mark.parametrize(
    "odd",
    [
        {"a": 1.0, "b": 2.0},
        [("x", 1.0), (1.0, 1.0)],
        [(1.0, 1.0, 7.0), (2.0, 1.0, 7.0)],
        pd.DataFrame({"e": [1.0], "s": [1.0]}),
    ],
)
def test_what_are_no_pairs_is_named(odd):
    with pytest.raises(dsba.InputError, match="an estimate and its standard error"):
        dsba.meta(odd)
    with pytest.raises(dsba.InputError, match="at least two sites"):
        dsba.meta(None)
