"""Long rows are held as copies, and never more of them than half as many as there are rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import dsba
from dsba.fitting import rows as fitting_rows


def patients(count):
    """Years far from 0, weights that go with long rows, and exposures of very different size."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"year": rng.normal(2000.0, 5.0, count), "sex": rng.choice(["F", "M"], count)})
    frame["cost"] = 2.0 * frame["year"] + (frame["sex"] == "M") + rng.normal(size=count)
    frame["visits"] = rng.poisson(3.0, count)
    frame["died"] = np.where(rng.random(count) < 0.4, "yes", "no")
    frame["weight"] = np.where(frame["year"] > frame["year"].quantile(0.99), 1e4, 1.0)
    frame["days"] = frame["weight"]
    return frame.assign(site=rng.choice(["A", "B", "C"], count))


@pytest.mark.parametrize("count", [600, 6000])
@pytest.mark.parametrize(
    ("formula", "operator", "options"),
    [
        ("cost ~ year + C(sex) - 1", "linear", {}),
        ("died ~ year + C(sex) - 1", "logistic", {}),
        ("cost ~ year + C(sex)", "linear", {"weights": "weight"}),
        ("cost ~ year + C(sex) - 1", "linear", {"weights": "weight"}),
        ("visits ~ year + C(sex)", "poisson", {"offset": "days"}),
    ],
)
def test_at_most_half_as_many_rows_are_added(count, formula, operator, options, monkeypatch):
    """The number is checked before a copy is made: by a wrong mean of the norms it has no end."""
    frame, real, added = patients(count), fitting_rows.copies, []
    frame["days"] = np.log(frame["days"])

    def counted(rows, size):
        found = real(rows, size)
        added.append(int(found.sum()) - found.size)
        assert added[-1] <= count / 2
        return found

    monkeypatch.setattr(fitting_rows, "copies", counted)
    fit = dsba.fit(frame, formula, operator, sites="site", **options)
    assert len(added) == 1
    assert fit.model.run.status is dsba.Status.CONVERGED


def test_columns_that_are_not_centred_give_the_answer_of_statsmodels():
    smf = pytest.importorskip("statsmodels.formula.api")
    frame = patients(600)
    theirs = smf.ols("cost ~ year + C(sex) - 1", frame).fit()
    ours = dsba.fit(frame, "cost ~ year + C(sex) - 1", "linear", sites="site")
    renamed = ours.params.rename(lambda name: name.replace("[T.", "["))
    assert_allclose(renamed[theirs.params.index.str.replace("[T.", "[")], theirs.params, rtol=1e-7)
    assert_allclose(np.sort(ours.bse), np.sort(theirs.bse), rtol=1e-7)
