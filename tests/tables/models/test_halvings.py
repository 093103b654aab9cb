"""A step that is too long tells its matrix once; of shorter ones only the likelihood is summed until one is taken."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dsba
from dsba.fitting.disclosure import Guards
from dsba.fitting.spec import FitSpec
from dsba.network import Simulator
from dsba.tables.design import Design
from dsba.tables.fit import fit_sites
from dsba.tables.inputs import as_sites
from dsba.tables.models.base import TableModel
from dsba.tables.models.cox import Cox


def far(name, seed=0):
    """Outcomes for which the first Newton steps are too long."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"site": np.repeat(["a", "b", "c"], 60), "x": rng.normal(size=180)})
    u = 3.0 * frame["x"]
    frame["y"] = {
        "inverse-gaussian": np.exp(u) * rng.wald(1.0, 5.0, 180),
        "gamma": np.exp(2.0 * u) * rng.gamma(2.0, 0.5, 180),
    }[name]
    return frame


@pytest.mark.parametrize("name", ["inverse-gaussian", "gamma"])
def test_a_halving_sums_the_likelihood_alone(name, monkeypatch):
    spec = FitSpec(formula="y ~ x", operator=name, graph="ring", guards=Guards.off())
    said = []

    class Watched(Simulator):
        def sum(self, rows):
            said.append(rows.shape[1])
            return super().sum(rows)

    real = TableModel.log_likelihood_at

    def counted(self, samples, z, group):
        before = len(said)
        llf = real(self, samples, z, group)
        halvings.append(said[before:])
        np.testing.assert_equal(llf, self.terms(samples, z, group).llf)
        return llf

    halvings = []
    monkeypatch.setattr(TableModel, "log_likelihood_at", counted)
    fit = fit_sites(as_sites(far(name), "site"), spec, Watched(dsba.Topology.ring(3)))
    assert fit.converged
    assert halvings
    assert all(widths == [1] for widths in halvings)


@pytest.mark.parametrize("strata", ["site", "none"])
def test_of_cox_the_risk_sets_and_the_likelihood(strata):
    rng, said = np.random.default_rng(0), []
    y = [np.column_stack([rng.integers(1, 9, 30), rng.integers(0, 2, 30)]).astype(float) for _ in range(3)]
    rows = [Design((), rng.normal(size=(30, 2)), one, np.ones(30), np.zeros(30)) for one in y]

    class Watched(Simulator):
        def sum(self, rows):
            said.append(rows.shape[1])
            return super().sum(rows)

    group = Watched(dsba.Topology.ring(3))
    cox, z = Cox(strata=strata).prepared(rows, None, 3, group), np.array([0.3, -0.2])
    whole = cox.terms(rows, z, group).llf
    said.clear()
    assert cox.log_likelihood_at(rows, z, group) == whole
    assert said[-1] == 1
    assert len(said) == {"site": 1, "none": 2}[strata]
