"""Tables whose index has repeated labels, as ``pandas.concat`` makes them: a prediction belongs to its own row."""

from __future__ import annotations

import numpy as np
import pandas as pd
from test_inference import patients

import dsba

AGES = [50.0, np.nan, 60.0, np.nan, 70.0]
INDEXES = [0, 0, 1, 1, 2], [7] * 5, [0, 1, 2, 1, 4], [4, 3, 2, 1, 0]


def test_every_row_has_its_own_prediction():
    fit = dsba.fit(patients(), "cost ~ age", "linear", sites="hospital")
    expected = fit.params["Intercept"] + fit.params["age"] * np.array(AGES)
    for index in INDEXES:
        found = fit.predict(pd.DataFrame({"age": AGES}, index))
        assert found.index.tolist() == index
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_labels_are_those_of_their_rows():
    fit = dsba.fit(patients(), "readmitted ~ age", sites="hospital")
    new = pd.DataFrame({"age": [-1e3, np.nan, 1e3]}, [0, 0, 1])
    found = fit.predict(new, labels=True)
    assert found.isna().tolist() == [False, True, False]
    assert found.dropna().tolist() == ["no", "yes"]


def test_labels_that_are_numbers_stay_what_they_are():
    """Beside a gap 1 is not 1.0."""
    table = patients().assign(event=lambda f: (f["readmitted"] == "yes").astype(int))
    fit = dsba.fit(table, "event ~ age", sites="hospital")
    found = fit.predict(pd.DataFrame({"age": [-1e3, np.nan, 1e3]}), labels=True)
    assert list(map(str, found)) == ["0", "None", "1"]


def test_an_evaluation_does_not_look_at_the_index():
    fit = dsba.fit(patients(), "cost ~ age", "linear", sites="hospital")
    new = patients(seed=3)
    new.loc[new.index[::7], "age"] = np.nan
    repeated = new.set_axis([0] * len(new))
    assert fit.evaluate(repeated, sites="hospital").plain() == fit.evaluate(new, sites="hospital").plain()
