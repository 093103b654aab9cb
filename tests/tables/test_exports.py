"""Tables and plots for papers say what the model says, and nothing in them runs."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from reference_values import table
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.tables.exports import TextTable, figures

pytestmark = pytest.mark.filterwarnings("ignore:Between owners")


@pytest.fixture(scope="module")
def models():
    frame = table().rename(columns={"treated": "=1+1"}).rename(columns={"bmi": "a_b & 50%"})
    return [
        dsba.fit(frame, formula, "logistic", sites="site")
        for formula in ("readmitted ~ age", "readmitted ~ age + `=1+1` + `a_b & 50%` + stage")
    ]


def test_tidy_and_glance_are_the_results(models):
    _, fit = models
    tidy = fit.tidy().set_index("term")
    assert tidy["estimate"].equals(fit.params)
    assert tidy[["conf.low", "conf.high"]].to_numpy().tolist() == fit.conf_int().to_numpy().tolist()
    assert (fit.tidy(exponentiate=True)["estimate"].to_numpy() == np.exp(fit.params.to_numpy())).all()
    glance = fit.glance().iloc[0]
    assert (glance["logLik"], glance["AIC"], glance["nobs"]) == (fit.llf, fit.aic, 500)


def test_csv_has_all_digits_and_no_cell_that_runs(models):
    _, fit = models
    text = fit.to_csv()
    found = pd.read_csv(io.StringIO(text))
    assert found["estimate"].tolist() == fit.params.tolist()
    assert "'=1+1" in found["term"].tolist()
    assert not any(cell.startswith(("=", "+", "@")) for line in text.splitlines() for cell in line.split(","))


def test_the_command_writes_the_tables_and_the_plot(models, tmp_path):
    _, fit = models
    fit.save(tmp_path)
    wanted = {"t.csv": fit.to_csv(True), "t.TEX": fit.to_latex(True), "t.html": fit.to_html(True)}
    words = [f"--out={tmp_path / name}" for name in (*wanted, "f.svg")]
    CliRunner().invoke(app, ["summary", str(tmp_path), "--ratios", *words], catch_exceptions=False)
    assert {name: (tmp_path / name).read_text() for name in wanted} == wanted
    fit.forest(tmp_path / "ours.svg", ratios=True)
    assert (tmp_path / "f.svg").read_bytes() == (tmp_path / "ours.svg").read_bytes()
    found = CliRunner().invoke(app, ["summary", str(tmp_path), "--out", str(tmp_path / "t.docx")])
    assert "a .pdf, .svg or .png file, got 't.docx'" in str(found.exception)


def test_no_cell_of_a_table_runs_in_a_spreadsheet():
    """Signs that begin a formula, also in their wide form, which some spreadsheets read as the plain one."""
    starts = ["=1+1", "+1", "-A1 (1)", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff201"]
    text = TextTable("t", ("", *starts), (("a\r=1", *starts),)).to_csv()
    header, row = csv.reader(io.StringIO(text, newline=""))
    assert header[1:] == row[1:] == [f"'{cell}".replace("\r", " ") for cell in starts]
    assert row[0] == "a =1"


def test_latex_and_html_take_names_literally(models):
    latex, page = models[1].to_latex(ratios=True), models[1].to_html()
    assert r"a\_b \& 50\%" in latex
    assert latex.count("{") == latex.count("}")
    assert "odds ratio" in latex
    assert "Intercept" not in latex
    rows = ET.fromstring(page).findall("tr")
    assert rows[4][0].text == "a_b & 50%"
    low, high = models[1].conf_int().loc["age"]
    assert f"{models[1].params['age']:.3g} ({low:.3g} to {high:.3g})" in page


def test_signs_of_numbers_in_tables():
    """Before, a spreadsheet showed '-3.5 with its quote, LaTeX a hyphen, and a large estimate had an exponent."""
    frame = table()
    frame["cost"] = 12000.0 - 3.5 * frame["age"] + frame["sbp"]
    fit = dsba.fit(frame, "cost ~ age + C(stage, Treatment('II'))", "linear", sites="site")
    found = dsba.side_by_side({"a-1": fit})
    (age,) = [cell for row in csv.reader(io.StringIO(found.to_csv())) if row[0] == "age" for cell in row[1:]]
    low, high = fit.conf_int().loc["age"]
    assert age == f"{fit.params['age']:.3g} ({low:.3g} to {high:.3g})"
    assert age.startswith("-3.")
    assert f"age & {age.replace('-', '$-$')}" in found.to_latex()
    assert "a-1: estimate" in found.to_latex()
    assert found.to_frame().iloc[0, 0].startswith(f"{fit.params['Intercept']:,.0f} (1")
    assert f" {fit.params['Intercept']:,.0f} " in str(fit.summary())
    assert figures(999.6, 3) == "1,000"
    assert figures(-0.000123456) == "-0.0001235"
    assert figures(1.5e15) == "1.5e+15"


def test_models_side_by_side(models):
    found = dsba.side_by_side({"crude": models[0], "adjusted": models[1]}).to_frame()
    crude, adjusted = found.columns
    assert crude.startswith("crude")
    assert found.loc["stage[T.II]", crude] == ""
    assert found.loc["stage[T.II]", adjusted].startswith(f"{models[1].params['stage[T.II]']:.3g} (")
    assert found.loc["AIC"].tolist() == [f"{one.aic:.1f}" for one in models]
    with pytest.raises(dsba.InputError, match="at least one model"):
        dsba.side_by_side({})


def test_models_with_other_columns_may_have_p_values(models):
    found = dsba.side_by_side({"crude": models[0], "adjusted": models[1]}, wide=True)
    stage = next(row for row in found.rows if row[0].startswith("stage"))
    assert (len(found.header), *stage[1:3]) == (5, "", "")
    assert all(stage[3:])


def test_a_penalised_model_has_no_intervals(models):
    fit = dsba.fit(table(), "sbp ~ age", "linear", sites="site", lam=0.1)
    assert np.isnan(fit.tidy()["std.error"]).all()
    assert fit.glance()["nobs"].item() == 500
    assert f"{fit.params['age']:.3g} &" in fit.to_latex()
    with pytest.raises(dsba.InputError, match="no logarithms of odds"):
        fit.tidy(exponentiate=True)


def test_forest_plots(models, tmp_path):
    for name in ("a.pdf", "a.svg", "b.svg"):
        models[1].forest(tmp_path / name)
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert "odds ratio" in (tmp_path / "a.svg").read_text()
    with pytest.raises(dsba.InputError, match=r"a .pdf, .svg or .png file, got 'a.jpg'"):
        models[1].forest(tmp_path / "a.jpg")
