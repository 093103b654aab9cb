"""Random small tables against an independent Newton: nothing called converged is off, no maximum is missed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from likelihood_twins import CLASSES, KINDS, exists, llf, newton, slope, small_table

import dsba
from dsba.fitting.spec import FitSpec
from dsba.network import Alone
from dsba.tables.design import Design
from dsba.tables.models import MODELS, Binomial
from dsba.tables.models.base import Outcomes
from dsba.tables.models.scoring import maximised


def model_of(name):
    strata = {"strata": "site"} if name == "cox" else {}
    made = MODELS.get(name, lambda spec, classes: Binomial())
    return made(FitSpec(formula="y ~ x", operator=name, **strata), CLASSES)


def prepared(table):
    """The model, its designs (those of Cox's model by stratum) and its start; None where outcomes are all the same."""
    model, (_, X, y, w, o, strata) = model_of(table.name), table
    at = [np.flatnonzero(strata == s) for s in (0, 1)] if table.name == "cox" else [np.arange(len(X))]
    designs = [Design((), X[i], y[i], w[i], o[i]) for i in at]
    totals = sum(model.outcome_sums(design) for design in designs)
    if totals.min() <= 0 or (KINDS[table.name] == "binary" and totals[0] == totals[1]):
        return None
    known = Outcomes(len(X), float(w.sum()), totals)
    return model, designs, model.start(known, X.shape[1], 0 if model.intercept else None)


def check(name, seed):
    """What became of a random table; an error if what is called a solution is off, or if one was refused."""
    table = small_table(name, seed)
    if (ready := prepared(table)) is None:
        return "outcomes are all the same"
    model, designs, start = ready
    there_is = exists(table)
    try:
        found = maximised(model, designs, start, Alone())
    except dsba.InputError:
        assert there_is is not True or no_visible_maximum(table), (name, seed)
        return "refused"
    if not found.converged:
        assert there_is is not True, (name, seed)
        return "not converged"
    assert there_is is not False, (name, seed)
    z, H = newton(table)
    off = z - found.params
    assert np.sqrt(max(off @ H @ off, 0.0)) < 1e-5, (name, seed)
    assert abs(llf(table, z) - llf(table, found.params)) < 1e-9 * max(1.0, abs(llf(table, z))), (name, seed)
    return "solved"


def no_visible_maximum(table):
    """Theta goes on to Poisson's model, or the maximum lies behind a plain on which the likelihood does not change."""
    z, H = newton(table)
    return (table.name == "negative-binomial" and z[-1] > 10.0) or np.linalg.eigvalsh(H)[0] < 1e-5


def tried(count):
    """So many tables, the registered models in turn."""
    names = list(KINDS)
    return Counter(check(names[seed % len(names)], seed) for seed in range(count))


def test_nothing_called_converged_is_off():
    assert tried(22)["solved"] > 10


@pytest.mark.full
def test_nothing_called_converged_is_off_on_2000_tables():
    assert tried(2000)["solved"] > 1200


def test_every_registered_model_has_a_twin():
    assert {*MODELS, "logistic"} == {*KINDS}


@pytest.mark.parametrize("name", KINDS)
def testslope_and_curvature_are_those_of_the_likelihood(name):
    """At a random point: the score is the twin's slope, and the observed information is how the score changes."""
    seed = next(seed for seed in range(1, 20) if prepared(small_table(name, seed)) is not None)
    table = small_table(name, seed)
    model, designs, start = prepared(table)
    z, h = start + 0.1 * np.cos(np.arange(start.size)), 1e-5
    terms = model.terms(designs, z, Alone())
    np.testing.assert_allclose(terms.score, slope(table, z, 1e-3), atol=1e-7 * np.abs(terms.score).max())
    for j, unit in enumerate(np.eye(z.size)):
        ends = [model.terms(designs, z + side * h * unit, Alone()).score for side in (1, -1)]
        bent = -(ends[0] - ends[1]) / (2 * h)
        np.testing.assert_allclose(terms.observed[j], bent, atol=1e-7 * np.abs(terms.observed).max())
    assert np.linalg.eigvalsh(terms.expected)[0] > 0.0
