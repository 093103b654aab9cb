"""A model's measures and figures are objects with fields, and its file gives the same objects back."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dsba
from dsba.fitting import codec
from dsba.fitting.measures import (
    ClassMeasures,
    CountMeasures,
    GridFigures,
    NoFigures,
    NumberMeasures,
    RankMeasures,
    ThetaFigures,
    VarianceFigures,
)


def table():
    rng = np.random.default_rng(0)
    age, rows = rng.normal(50.0, 10.0, 400), np.arange(400)
    odds = rng.logistic(size=400) < (age - 50.0) / 10.0
    return pd.DataFrame({"age": age, "sick": np.where(odds, "yes", "no"), "cost": age + rng.normal(size=400),
                         "visits": rng.negative_binomial(2, 0.3, 400), "time": rng.exponential(10.0, 400),
                         "died": rows % 3 == 0, "site": rows % 4})  # fmt: skip


@pytest.mark.parametrize(
    ("formula", "operator", "options", "test", "figures"),
    [
        ("sick ~ age", "logistic", {"test_share": 0.2}, ClassMeasures, NoFigures),
        ("sick ~ age", "squared-hinge", {"test_share": 0.2, "lam": 0.1}, RankMeasures, NoFigures),
        ("visits ~ age", "poisson", {"test_share": 0.2}, CountMeasures, NoFigures),
        ("cost ~ age", "linear", {"test_share": 0.2}, NumberMeasures, NoFigures),
        ("cost ~ age", "linear", {"random": "site"}, type(None), VarianceFigures),
        ("visits ~ age", "negative-binomial", {}, type(None), ThetaFigures),
        ("Surv(time, died) ~ age", "cox", {"strata": "none", "grid": tuple(range(1, 80, 3))}, type(None), GridFigures),
    ],
    ids=lambda part: str(part) if isinstance(part, str) else "",
)
def test_records_come_back_from_a_file_as_they_were(formula, operator, options, test, figures, tmp_path):
    fit = dsba.fit(table(), formula, operator, sites="site", event="yes" if "sick" in formula else None, **options)
    assert isinstance(fit.test, test)
    assert isinstance(fit.metadata.figures, figures)
    fit.save(tmp_path)
    again = dsba.load(tmp_path)
    assert (again.model.run, again.metadata) == (fit.model.run, fit.metadata)
    assert codec.content_of(again.model) == codec.content_of(fit.model)
