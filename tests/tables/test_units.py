"""Standard errors do not depend on the unit of the outcome or of the weights."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
from conftest import also_in_full
from queues import together
from registered_models import FIVE, REGISTERED, fitted
from registered_models import table as cohort

import dsba
from dsba.fitting.disclosure import Guards
from dsba.fitting.spec import COVARIANCES, FitSpec
from dsba.network import Simulator
from dsba.tables import fit
from dsba.tables.inputs import as_sites


def table(unit=1.0):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=600), "site": rng.choice(["A", "B", "C"], 600)})
    frame["y"] = unit * (1.0 + frame["x"] + rng.normal(size=600))
    return frame.assign(w=rng.choice([1.0, 2.0], 600), ward=rng.integers(0, 12, 600))


@cache
def usual(cov, **options):
    return dsba.fit(table(), "y ~ x", "linear", sites="site", **errors(cov), **options)


def errors(cov):
    """The options of these standard errors."""
    return {"cov": cov, "clusters": "ward" if cov == "cluster" else None}


@pytest.mark.parametrize("unit", also_in_full([1e-22, 1e18], [1e-22, 1e-18, 1e17, 1e18]))
@pytest.mark.parametrize("cov", also_in_full(["classical", "HC1", "site"], COVARIANCES))
def test_the_unit_of_the_outcome(cov, unit):
    ours = dsba.fit(table(unit), "y ~ x", "linear", sites="site", **errors(cov))
    known = usual(cov)
    np.testing.assert_allclose(ours.bse / unit, known.bse, rtol=1e-11)
    np.testing.assert_allclose(ours.deviance / unit**2, known.deviance, rtol=1e-11)


@pytest.mark.parametrize("unit", also_in_full([1e-24, 1e20], [1e-24, 1e-20, 1e20]))
@pytest.mark.parametrize("cov", ["HC1", "site"])
def test_the_unit_of_the_weights(cov, unit):
    ours = dsba.fit(table().assign(w=lambda f: f["w"] * unit), "y ~ x", "linear", sites="site", weights="w", cov=cov)
    known = usual(cov, weights="w")
    np.testing.assert_allclose(ours.bse, known.bse, rtol=1e-11)


@pytest.mark.parametrize("unit", [1e-18, 1e17])
def test_the_unit_of_a_column_by_site(unit):
    ours = dsba.fit(table().assign(x=lambda f: f["x"] * unit), "y ~ x", "linear", sites="site", cov="site")
    known = usual("site")
    np.testing.assert_allclose(ours.bse * [1.0, unit], known.bse, rtol=1e-11)
    np.testing.assert_allclose(ours.metadata.inference.df, known.metadata.inference.df, rtol=1e-11)


def test_processes_ask_the_same_questions():
    """Each site a process of its own: the bits of one process."""
    frame = table(1e17)
    one = dsba.fit(frame, "y ~ x", "linear", sites="site", cov="HC1", graph="path")

    def work(net):
        spec = FitSpec(formula="y ~ x", operator="linear", cov="HC1", guards=Guards.off())
        return fit.fit_sites([sites[net.rank]], spec, net)

    sites = as_sites(frame, "site")
    for found in together(dsba.Topology.path(3), 3, work):
        assert (found.cov_params() == one.cov_params()).all(axis=None)


def by_fractions(columns, y):
    """Coefficients and standard errors of least squares in rational numbers."""
    X = [[Fraction(1), *map(Fraction, row)] for row in zip(*(c.tolist() for c in columns), strict=True)]
    y, p = [Fraction(value) for value in y.tolist()], len(columns) + 1
    M = [[sum(r[i] * r[j] for r in X) for j in range(p)] + [Fraction(i == j) for j in range(p)] for i in range(p)]
    M = [[*row, sum(r[i] * t for r, t in zip(X, y, strict=True))] for i, row in enumerate(M)]
    for c in range(p):
        M[c] = [value / M[c][c] for value in M[c]]
        for r in set(range(p)) - {c}:
            M[r] = [u - M[r][c] * v for u, v in zip(M[r], M[c], strict=True)]
    beta = [row[-1] for row in M]
    rss = sum((t - sum(a * b for a, b in zip(r, beta, strict=True))) ** 2 for r, t in zip(X, y, strict=True))
    return np.array(beta, float), np.array([rss / (len(y) - p) * M[i][p + i] for i in range(p)], float) ** 0.5


def test_standard_errors_where_the_mean_is_a_million_deviations():
    """x and its product with w are then parallel but for 1e-6."""
    rng = np.random.default_rng(0)
    x, w = 1e6 + rng.normal(size=60), rng.normal(size=60)
    frame = pd.DataFrame({"x": x, "w": w, "y": rng.normal(size=60) + 0.3 * (x - 1e6) + w, "site": np.arange(60) % 3})
    params, errors = by_fractions([x, w, x * w], frame["y"])
    fit = dsba.fit(frame, "y ~ x + w + x:w", "linear", sites="site")
    np.testing.assert_allclose(fit.bse, errors, rtol=1e-8)
    np.testing.assert_allclose(fit.params, params, rtol=1e-8)


@pytest.mark.parametrize("operator", ["gamma", "inverse-gaussian", "quasi-poisson"])
@pytest.mark.parametrize("unit", [1e-18, 1e-9, 1e9, 1e18])
def test_the_unit_of_a_cost(operator, unit):
    """In any unit a step is as many standard errors long: models end at one place, and none is called separated."""
    frame = table().assign(y=lambda f: np.exp(f["y"]))
    known = dsba.fit(frame, "y ~ x", operator, sites="site")
    ours = dsba.fit(frame.assign(y=frame["y"] * unit), "y ~ x", operator, sites="site")
    assert ours.converged
    np.testing.assert_allclose(ours.bse, known.bse, rtol=1e-9)
    assert ours.params["x"] == pytest.approx(known.params["x"], abs=1e-9 * known.bse["x"])


@pytest.mark.parametrize("unit", also_in_full([1e-9], [1e-9, 1e9]))
@pytest.mark.parametrize("name", [name for name, case in REGISTERED.items() if not case.options.get("random")])
def test_the_unit_of_the_weights_of_every_model(name, unit):
    """Sampling weights that add up to 1, for instance."""
    frame = cohort().assign(w=lambda f: 1.0 + f["trials"] % 2)
    known, ours = (
        fitted(name, Simulator(FIVE), frame.assign(w=frame["w"] * one), weights="w", cov="HC1") for one in (1.0, unit)
    )
    assert ours.converged
    np.testing.assert_allclose(ours.params, known.params, rtol=1e-9, atol=1e-9 * known.params.abs().max())
    np.testing.assert_allclose(ours.bse, known.bse, rtol=1e-9)
