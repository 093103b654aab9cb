"""What ``dsba.fit`` and the others take as tables: frames, files and databases give the same bits as the commands."""

from __future__ import annotations

import io
import sqlite3
import warnings

import numpy as np
import pandas as pd
import pytest
from hospital_tables import SECRET, hospitals, pooled
from reference_values import table
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.data.table_files import TableFile
from dsba.fitting.spec import FitSpec
from dsba.tables.fit import train

FORMULA = "cost ~ age + C(sex) + log(crp)"
WRITERS = {
    "csv": lambda frame, file: frame.to_csv(file, index=False),
    "csv.gz": lambda frame, file: frame.to_csv(file, index=False),
    "parquet": lambda frame, file: frame.to_parquet(file, index=False),
    "xlsx": lambda frame, file: frame.to_excel(file, index=False),
    "dta": lambda frame, file: frame.rename(columns={"secret name": "other"}).to_stata(file, write_index=False),
    "sqlite": lambda frame, file: by_key(frame, file),
}


def by_key(frame, file):
    """A database in which another order than that of the key is the order of insertion."""
    with sqlite3.connect(file) as database:
        kinds = {"id": "INTEGER PRIMARY KEY"}
        frame.reset_index(names="id")[::-1].to_sql("visits", database, index=False, dtype=kinds)


def written(folder, ending="csv", frames=None):
    files = []
    for site, frame in (frames or hospitals()).items():
        files.append(folder / f"{site}.{ending}")
        WRITERS[ending](frame, files[-1])
    return files


@pytest.mark.parametrize("ending", WRITERS)
def test_files_give_the_model_of_the_command(ending, tmp_path):
    files = written(tmp_path, ending)
    spec = FitSpec(formula=FORMULA, operator="linear")
    wanted = train(files, spec).digest()
    assert dsba.fit(files, FORMULA, "linear").digest() == wanted
    assert dsba.fit({file.name.partition(".")[0]: str(file) for file in files}, FORMULA, "linear").digest() == wanted
    if ending != "xlsx":  # whose writer keeps 16 digits
        assert dsba.fit(hospitals(), FORMULA, "linear").digest() == wanted


def test_a_url_of_a_database_is_a_table(tmp_path):
    files = written(tmp_path, "sqlite")
    urls = [f"sqlite:///{file}?table=visits" for file in files]
    found = dsba.fit(urls, FORMULA, "linear")
    assert found.digest() == dsba.fit(hospitals(), FORMULA, "linear").digest()
    assert found.evaluate(urls).pooled == found.evaluate(hospitals()).pooled
    assert (found.by_site(urls).params == found.by_site(hospitals()).params).all(axis=None)
    numbers = {site: frame.reset_index(names="id") for site, frame in hospitals().items()}
    wanted = dsba.describe(numbers).plain()
    assert dsba.describe(urls).plain()["columns"]["age"] == wanted["columns"]["age"]


def test_one_file_with_a_column_of_sites(tmp_path):
    pooled(hospitals()).to_csv(tmp_path / "all.csv", index=False)
    found = dsba.fit(tmp_path / "all.csv", FORMULA, "linear", sites="site")
    assert found.digest() == dsba.fit(pooled(hospitals()), FORMULA, "linear", sites="site").digest()
    assert [part.site for part in found.schema.parts] == ["site0", "site1", "site2"]


def test_only_the_columns_of_the_model_are_read(tmp_path, monkeypatch):
    asked = []
    read = TableFile.read

    def noted(self, columns=None, **more):
        asked.append(columns)
        return read(self, columns, **more)

    monkeypatch.setattr(TableFile, "read", noted)
    dsba.fit(written(tmp_path), FORMULA, "linear")
    assert asked == [["cost", "age", "sex", "crp"]] * 3


def test_survival_curves_and_elastic_nets_of_files(tmp_path):
    files = []
    for site, frame in table().groupby("site"):
        files.append(tmp_path / f"{site}.csv")
        frame.to_csv(files[-1], index=False)
    curve = dsba.survival_curve(files, "Surv(time, died) ~ treated").to_frame()
    pd.testing.assert_frame_equal(curve, dsba.survival_curve(table(), "Surv(time, died) ~ treated").to_frame())
    path, wanted = (dsba.elastic_net(one, "sbp ~ age + bmi", **more) for one, more in
                    ((files, {}), (table(), {"sites": "site"})))  # fmt: skip
    assert (np.asarray(path.coefficients) == np.asarray(wanted.coefficients)).all()
    cox = dsba.fit(files, "Surv(time, died) ~ age", "cox", strata="site")
    alone = cox.baseline_hazard(files)
    first, second = (alone.survival(one, [300.0], site=files[0].stem) for one in (files[0], pd.read_csv(files[0])))
    pd.testing.assert_frame_equal(first, second)
    times = cox.proportional_hazards_test(files)
    pd.testing.assert_frame_equal(times, cox.proportional_hazards_test(table(), sites="site"))


def test_how_a_file_is_read(tmp_path):
    frames = hospitals()
    frames["site1"].loc[:4, "age"] = -999
    files = written(tmp_path, frames=frames)
    text = frames["site0"].assign(sex=frames["site0"]["sex"].replace("M", "Mö"))
    text.to_csv(files[0], index=False, sep=";", decimal=",", encoding="latin-1")
    with pytest.raises(dsba.InputError, match="latin-1"):
        dsba.fit(files, FORMULA, "linear")
    said = dsba.table_source(files[0], encoding="latin-1", decimal=",")
    marked = [dsba.table_source(file, na_values=[-999]) for file in files[1:]]
    found = dsba.fit([said, *marked], FORMULA, "linear", missing="drop")
    assert found.nobs == 120
    assert found.schema.levels["sex"] == ("F", "M", "Mö")


def test_signs_of_trouble_are_warnings(tmp_path):
    frames = hospitals()
    frames["site1"].loc[:4, "age"] = -999
    files = written(tmp_path, frames=frames)
    with pytest.warns(UserWarning, match=r"Look at this: an extreme value of 'age' is repeated at site1.*missing\?"):
        dsba.fit(files, FORMULA, "linear")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dsba.fit(hospitals(), FORMULA, "linear")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([], "wanted a pandas frame, a file or the URL of a database, or a list or dict of them, one a site"),
        (3, "wanted a pandas frame, a file"),
        ([None], "wanted a pandas frame, a file"),
        ("gone.csv", "cannot read gone.csv: No such file or directory"),
        ({"a": "gone.parquet"}, "cannot read gone.parquet: No such file or directory"),
        (["a/x.csv", "b/x.csv"], "two files have the same name"),
        (f"postgresql://owner:{SECRET}@localhost/db?table=t", "the URL of a database has a password"),
    ],
)
def test_what_is_no_table_is_refused(given, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call in (lambda: dsba.fit(given, FORMULA, "linear"), lambda: dsba.describe(given)):
        with pytest.raises(dsba.InputError, match=sentence) as caught:
            call()
        assert SECRET not in str(caught.value)


def test_two_tables_of_one_name_are_refused():
    """The first one was left out."""
    one, two, three = hospitals().values()
    with pytest.raises(dsba.InputError, match="two tables have the same name"):
        dsba.fit({1: one, "1": two, "2": three}, "cost ~ age", "linear")


def test_tables_and_formula_in_the_wrong_order_and_two_ways_to_name_sites(tmp_path):
    with pytest.raises(dsba.InputError, match="takes the table first and the formula second"):
        dsba.fit(FORMULA, pooled(hospitals()))
    with pytest.raises(dsba.InputError, match="'site' names the sites of one table, and there are 3 tables"):
        dsba.fit(hospitals(), FORMULA, "linear", sites="site")


# Predictions -------------------------------------------------------------------------------------


@pytest.fixture
def model():
    return dsba.fit(hospitals(), FORMULA, "linear")


@pytest.mark.parametrize("ending", WRITERS)
def test_predictions_from_files(ending, model, tmp_path):
    file = written(tmp_path, ending)[0]
    rows = next(iter(hospitals().values()))
    wanted = model.predict(rows).to_numpy()
    near = pytest.approx(wanted, rel=1e-12 if ending == "xlsx" else 0)  # its writer keeps 16 digits
    assert model.predict(file).to_numpy() == near
    assert model.predict(f"{file}").to_numpy() == near
    assert model.scores(file)[0] == near
    assert model.get_prediction(file).summary_frame()["mean"].to_numpy() == near
    assert model.columns_of(file)[:, 1].tolist() == rows["age"].tolist()
    assert model.known_rows(file).all()
    model.save(tmp_path / "run")
    done = CliRunner().invoke(app, ["predict", str(tmp_path / "run"), str(file)], catch_exceptions=False)
    assert pd.read_csv(io.StringIO(done.stdout))["prediction"].to_numpy() == pytest.approx(wanted, rel=1e-12)


def test_predictions_open_a_file_once_and_read_the_columns_of_the_model(model, tmp_path, monkeypatch):
    file, opened, asked = written(tmp_path)[0], [], []
    opens, reads = TableFile.__init__, TableFile.read

    def read(self, columns=None, **more):
        asked.append(columns)
        return reads(self, columns, **more)

    monkeypatch.setattr(TableFile, "__init__", lambda self, *given: opened.append(1) or opens(self, *given))
    monkeypatch.setattr(TableFile, "read", read)
    model.predict(file)
    assert (len(opened), asked) == (1, [["age", "sex", "crp"]])
    model.get_prediction(dsba.table_source(file, na_values=[-999]))
    assert (len(opened), asked) == (2, [["age", "sex", "crp"]] * 2)
    intercept = dsba.fit(hospitals(), "cost ~ 1", "linear")
    assert len(intercept.predict(file)) == len(next(iter(hospitals().values())))


def test_predictions_stand_beside_the_rows_of_a_table_without_a_key(model, tmp_path):
    """Before, the columns to keep and those of the model were each read in an order of their own."""
    rows = next(iter(hospitals().values())).reset_index(names="person")
    rows["person"] = np.random.default_rng(0).permutation(len(rows))
    with sqlite3.connect(tmp_path / "north.db") as database:
        rows.to_sql("visits", database, index=False)
    model.save(tmp_path / "run")
    words = ["predict", str(tmp_path / "run"), f"sqlite:///{tmp_path}/north.db?table=visits", "--keep", "person"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    found = pd.read_csv(io.StringIO(done.stdout)).set_index("person")["prediction"]
    wanted = model.predict(rows).set_axis(rows["person"])
    assert found.loc[wanted.index].to_numpy() == pytest.approx(wanted.to_numpy(), rel=1e-12)


def test_what_is_no_table_to_predict(model, tmp_path):
    (tmp_path / "north.csv").write_text("age,sex\n50,F\n")
    with pytest.raises(dsba.InputError, match="north has no column 'crp', which the model needs"):
        model.predict(tmp_path / "north.csv")
    with pytest.raises(dsba.InputError, match="wanted a pandas frame, a file or the URL of a database"):
        model.predict([[50.0, "F", 1.0]])
    with pytest.raises(dsba.InputError, match="No such file"):
        model.get_prediction(tmp_path / "gone.csv")


@pytest.mark.parametrize("ask", ["predict", "get_prediction", "scores", "columns_of", "known_rows"])
def test_a_column_that_is_there_twice_is_named_in_predictions(ask):
    frame = pd.DataFrame({"x": np.arange(30.0), "y": np.arange(30.0) % 7})
    fit = dsba.fit(frame, "y ~ x", "linear")
    with pytest.raises(dsba.InputError, match="the table has several columns 'x'"):
        getattr(fit, ask)(pd.concat([frame, frame[["x"]]], axis=1))


def test_negative_counts_are_not_evaluated():
    """Their sums were said to overflow."""
    frame = pd.DataFrame({"x": np.arange(30.0), "y": np.arange(30.0) % 7})
    fit = dsba.fit(frame, "y ~ x", "poisson")
    with pytest.raises(dsba.InputError, match="a negative count in some rows"):
        fit.evaluate(frame.assign(y=frame["y"] - 1.0))
