"""Tables at several sites: formulas as data, agreement, and designs equal to those of the pooled rows."""

from __future__ import annotations

import json
import os
from pathlib import Path

import hypothesis
import numpy as np
import pandas as pd
import patsy
import pytest
from hospital_tables import SECRET, hospitals, on_sites, pooled, sites_of, terms
from hypothesis import strategies as st

import dsba
from dsba.data.table_files import TableFile
from dsba.fitting import codec
from dsba.fitting.disclosure import Guards
from dsba.network import Alone
from dsba.tables import schema_report
from dsba.tables.design import design_tables, designed, held_out
from dsba.tables.fit import evaluate_files
from dsba.tables.formula import from_columns, parse
from dsba.tables.inputs import as_sites
from dsba.tables.scaling import pooled_moments, scaling_by
from dsba.tables.terms import SiteTable, terms_of

# Formulas are data -----------------------------------------------------------------------------------


def test_a_formula_names_its_columns():
    found = parse("log(cost) ~ age + C(sex)*crp - 1 + I(age*age + 2) + `secret name`:(lab + C(ward))")
    assert found.response == ("cost",)
    assert found.columns == ("age", "sex", "crp", "secret name", "lab", "ward")
    assert found.factors == ("sex", "ward")
    assert found.numbers == ("age",)
    assert parse(str(found)) == found
    assert parse("~ x").left is None
    assert parse("x").columns == ("x",)
    assert str(from_columns("outcome", ["age", "secret name"])) == "outcome ~ age + `secret name`"
    assert str(from_columns("y", ["class"])) == "y ~ `class`"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y ~ __import__('os')", r"__import__\(\) is not known"),
        ("y ~ __import__(os)", r"__import__\(\) is not known"),
        ("y ~ np.log(x)", r"got '\.'"),
        ("y ~ x[0]", r"'\[' is not allowed"),
        ("y ~ x ** z", "wanted a whole number from 1 to 9"),
        ("y ~ {x}", "'{' is not allowed"),
        ("y ~ x; z", "';' is not allowed"),
        ("y ~ `a{b}`", "'`' is not allowed"),
        ("y ~ x +", "wanted the name of a column, got the end"),
        ("y ~ (x", r"wanted '\)', got the end"),
        ("y ~ x)", "got '\\)'"),
        ("y ~ 2", "a column, 0 or 1 for the intercept, or arithmetic in I"),
        ("y ~ C(log(x))", "wanted the name of a column"),
        ("y ~ C(x, Sums)", "wanted one of Treatment, Sum, Poly, Helmert"),
        ("y ~ x ~ z", "got '~'"),
        ("y ~ y", "'y' is on both sides"),
        ("C(y) ~ x", "the name of the outcome"),
        ("", "got the end"),
        ("y ~ " + "(" * 60 + "x" + ")" * 60, "at most 50 parentheses"),
        ("y ~ " + "x" * 20000, "at most 10000 characters"),
    ],
)
def test_what_is_no_formula_is_refused(text, message):
    with pytest.raises(dsba.InputError, match=message):
        parse(text)


@hypothesis.given(st.text(alphabet="xyC()~+-:*01 .log`I[]{}'\"=,;_", max_size=40))
@hypothesis.settings(max_examples=500, deadline=None)
def test_any_text_is_a_formula_or_refused(text):
    try:
        found = parse(text)
    except dsba.InputError:
        return
    assert parse(str(found)) == found
    assert {one.column for term in found.terms for one in term if one.column} <= set(found.columns)


# Designs ---------------------------------------------------------------------------------------------

FORMULAS = [
    "cost ~ age + C(sex) + log(crp)",
    "cost ~ age*C(ward) + lab + C(year)",
    "cost ~ sex + ward:age + sqrt(crp) + exp(I(0.01*age - 1))",
    "cost ~ 0 + C(ward) + I(age*age + 2*crp)",
    "cost ~ C(site) + age",
    "log(cost) ~ C(sex):C(year) + age - lab",
]


def independent(formula, frame):
    """patsy's design of the pooled rows: statsmodels' own."""
    log, sqrt, exp = np.log, np.sqrt, np.exp  # noqa: F841
    y, X = patsy.dmatrices(formula, frame, return_type="dataframe")
    return y.iloc[:, 0].to_numpy(), X


def spaceless(name):
    return ":".join(sorted(name.replace(" ", "").split(":")))


def assert_same_columns(found, expected):
    """Column by column, by name; spaces within a term and the order of an interaction's parts aside."""
    by_name = {spaceless(name): column for name, column in zip(found[0], found[1].T, strict=True)}
    theirs = {spaceless(name): expected[name].to_numpy() for name in expected}
    assert by_name.keys() == theirs.keys()
    for name, column in theirs.items():
        assert (by_name[name] == column).all(), name


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_sites_design_is_that_of_the_pooled_rows(formula):
    frames = hospitals()
    found = design_tables(sites_of(frames), terms(formula))
    y, X = independent(formula, pooled(frames))
    assert_same_columns((found.names, np.vstack([design.X for design in found.designs])), X)
    assert (np.concatenate([design.y for design in found.designs]) == y).all()


@pytest.mark.parametrize("missing", ["drop", "mean", "indicator"])
def test_processes_build_what_one_process_builds(missing):
    frames = hospitals()
    for n, frame in enumerate(frames.values()):
        frame.loc[frame.index[n : n + 4], "crp"] = np.nan
        if missing != "mean":
            frame.loc[frame.index[7 : 9 + n], "ward"] = np.nan
    asked = terms("outcome ~ age + log(crp) + C(ward) + site", "binary", missing, exposure="days")
    one = design_tables(sites_of(frames), asked)
    for rank, found in enumerate(on_sites(frames, lambda own, net: design_tables(own, asked, net))):
        assert found.schema == one.schema
        for a, b in zip(found.designs[0], one.designs[rank], strict=True):
            assert np.array_equal(a, b)


def test_missing_values():
    frames = hospitals()
    crp = pooled(frames)["crp"].to_numpy().copy()
    frames["site1"].loc[frames["site1"].index[:5], "crp"] = np.nan
    crp[60:65] = np.nan
    formula = parse("cost ~ age + crp")
    with pytest.raises(dsba.InputError, match=r"'crp' has 5 missing values over all sites: .*\nHere: 5 at site1"):
        design_tables(sites_of(frames), terms(formula))
    dropped = design_tables(sites_of(frames), terms(formula, missing="drop"))
    assert [len(design.X) for design in dropped.designs] == [60, 35, 25]
    filled = design_tables(sites_of(frames), terms(formula, missing="mean"))
    X = np.vstack([design.X for design in filled.designs])
    assert np.allclose(X[:, 2], np.where(np.isnan(crp), np.nanmean(crp), crp), rtol=1e-15)
    marked = design_tables(sites_of(frames), terms(formula, missing="indicator"))
    assert marked.names == ("Intercept", "age", "crp", "crp[missing]")
    assert (np.vstack([design.X for design in marked.designs])[:, 3] == np.isnan(crp)).all()
    assert marked.schema.missing["crp"] == marked.held[1].missing["crp"] == 5
    assert marked.schema.rows == sum(site.rows for site in marked.held) == 125


def test_gaps_in_rows_without_an_outcome_get_no_indicator():
    """Such rows do not enter the model, and a column that is zero everywhere could not be fitted."""
    frames = hospitals()
    rows = frames["site1"].index[:4]
    frames["site1"].loc[rows, ["cost", "crp"]] = np.nan
    frames["site1"].loc[rows, "sex"] = None
    found = design_tables(sites_of(frames), terms("cost ~ crp + C(sex)", missing="indicator"))
    assert found.names == ("Intercept", "crp", "C(sex)[T.M]")
    assert found.schema.missing["crp"] == 4


def missing_together(frames, columns):
    """Hospitals where some rows have none of these columns, as where a whole panel was not measured."""
    for n, frame in enumerate(frames.values()):
        for column in columns:
            frame.loc[frame.index[n : n + 5], column] = None if column in ("sex", "ward") else np.nan
    return frames


def test_columns_that_are_missing_together_share_an_indicator():
    frames = missing_together(hospitals(), ["crp", "lab"])
    asked = terms("cost ~ age + crp + lab", missing="indicator")
    found = design_tables(sites_of(frames), asked)
    assert found.names == ("Intercept", "age", "crp", "lab", "crp[missing]")
    assert found.schema.together == {"lab": "crp"}
    assert codec.schema_of(codec.schema_content(found.schema), operator="linear") == found.schema
    assert all(one.schema == found.schema for one in on_sites(frames, lambda own, net: design_tables(own, asked, net)))
    assert any("lab is missing where crp is: one column" in line for line in schema_report.report(found))
    fit = dsba.fit(frames, "cost ~ age + crp + lab", operator="linear", missing="indicator")
    table = pooled(frames)
    filled = table[["age", "crp", "lab"]].fillna(table[["age", "crp", "lab"]].mean())
    X = np.column_stack([np.ones(len(table)), filled, table["crp"].isna()])
    assert np.allclose(fit.params, np.linalg.lstsq(X, table["cost"], rcond=None)[0], rtol=1e-8)
    rows = pd.DataFrame({"age": 50.0, "crp": [1.0, np.nan, 1.0], "lab": [1.0, np.nan, np.nan]})
    assert fit.predict(rows).notna().tolist() == [True, True, False]  # lab alone was never missing
    frames["site1"].loc[frames["site1"].index[20], "lab"] = np.nan
    apart = design_tables(sites_of(frames), asked)
    assert apart.names[-2:] == ("crp[missing]", "lab[missing]")
    assert not apart.schema.together


@pytest.mark.parametrize("gone", ["crp", "lab", "age"])
def test_a_table_without_a_column_is_refused_where_columns_are_missing_together(gone, tmp_path):
    frames = missing_together(hospitals(), ["crp", "lab"])
    fit = dsba.fit(frames, "cost ~ age + crp + lab", operator="linear", missing="indicator")
    files = [tmp_path / f"{name}.csv" for name in frames]
    for file, frame in zip(files, frames.values(), strict=True):
        frame.drop(columns=gone).to_csv(file, index=False)
    with pytest.raises(dsba.InputError, match=f"{files[0].stem} has no column '{gone}', which the model needs"):
        evaluate_files(fit, files, dsba.Simulator(dsba.Topology.ring(len(files))), Guards())


def test_a_number_that_is_missing_with_a_factor_needs_no_indicator():
    frames = missing_together(hospitals(), ["crp", "sex"])
    found = design_tables(sites_of(frames), terms("cost ~ crp + C(sex)", missing="indicator"))
    assert found.names == ("Intercept", "crp", "C(sex)[T.M]", "C(sex)[T.(missing)]")
    assert found.schema.together == {"crp": "sex"}


def test_factors_that_are_missing_together_share_a_level():
    frames = missing_together(hospitals(), ["sex", "ward", "crp"])
    asked = terms("cost ~ crp + C(sex) + C(ward)", missing="indicator")
    found = design_tables(sites_of(frames), asked)
    wards = ("C(ward)[T.cardio]", "C(ward)[T.surgery]")
    assert found.names == ("Intercept", "crp", "C(sex)[T.M]", "C(sex)[T.(missing)]", *wards)
    assert found.schema.together == {"ward": "sex", "crp": "sex"}
    assert all(one.schema == found.schema for one in on_sites(frames, lambda own, net: design_tables(own, asked, net)))
    fit, table = dsba.fit(frames, "cost ~ C(sex) + C(ward)", "linear", missing="indicator"), pooled(frames)
    known = [table["sex"] == "M", table["sex"].isna(), table["ward"] == "cardio", table["ward"] == "surgery"]
    X = np.column_stack([np.ones(len(table)), *known])
    assert np.allclose(fit.params, np.linalg.lstsq(X, table["cost"], rcond=None)[0], rtol=1e-8)
    rows = pd.DataFrame({"sex": ["M", None, "F"], "ward": ["A&E", None, None]})
    assert fit.predict(rows).notna().tolist() == [True, True, False]


def test_a_site_of_which_no_row_is_complete_is_named():
    frames = hospitals()
    frames["site1"]["crp"] = np.nan
    with pytest.raises(dsba.InputError, match="site1 has no row that enters the model"):
        design_tables(sites_of(frames), terms("cost ~ age + crp", missing="drop"))


def test_a_column_called_site_is_in_all_tables_or_in_none():
    frames = hospitals()
    frames["site1"]["site"] = "north"
    with pytest.raises(dsba.InputError, match="some tables have a column 'site' of their own and some have none"):
        design_tables(sites_of(frames), terms("cost ~ age + site"))


def test_a_factor_has_no_mean_and_a_missing_level_of_its_own():
    frames = hospitals()
    frames["site2"].loc[frames["site2"].index[:4], "sex"] = None
    formula = parse("cost ~ C(sex)")
    with pytest.raises(dsba.InputError, match="a factor has no mean"):
        design_tables(sites_of(frames), terms(formula, missing="mean"))
    found = design_tables(sites_of(frames), terms(formula, missing="indicator"))
    assert found.names == ("Intercept", "C(sex)[T.M]", "C(sex)[T.(missing)]")
    assert found.designs[2].X[:, 2].sum() == 4


def test_offset_exposure_and_weights():
    frames = hospitals()
    asked = terms("visits ~ age", "count", weights="days", offset="lab", exposure="crp")
    found = design_tables(sites_of(frames), asked)
    for design, frame in zip(found.designs, frames.values(), strict=True):
        assert (design.weight == frame["days"]).all()
        assert (design.offset == frame["lab"] + np.log(frame["crp"])).all()


def test_pooled_scaling_keeps_its_digits():
    """A column of 100 +- 0.01, against sums in extended precision; and its way back."""
    frames = hospitals()
    found = design_tables(sites_of(frames), terms("cost ~ lab + age"))
    matrices = [design.X for design in found.designs]
    scaling = scaling_by(*pooled_moments(matrices, Alone(), [1, 2]), 0)
    wide = np.vstack(matrices).astype(np.longdouble)
    assert np.allclose(scaling.sd[1:], wide.std(axis=0)[1:].astype(float), rtol=1e-13)
    assert np.allclose(scaling.mean[1:], wide.mean(axis=0)[1:].astype(float), rtol=1e-15)
    beta = np.array([1.0, -2.0, 0.5])
    X = np.vstack(matrices)
    assert np.allclose(X @ scaling.unscaled(beta), scaling.scaled(X) @ beta, rtol=0, atol=1e-9)
    moments = pooled_moments(matrices, Alone(), [1, 2])
    for there in on_sites(frames, lambda own, net: pooled_moments([designed(own[0], found.schema).X], net, [1, 2])):
        assert all(np.array_equal(a, b) for a, b in zip(there, moments, strict=True))


def test_a_held_out_share_is_stratified_and_the_sites_own():
    labels = np.repeat([0, 1], [80, 20])
    out = held_out(labels, 0.25, seed=3, node=1)
    assert [int(out[labels == c].sum()) for c in (0, 1)] == [20, 5]
    assert (out == held_out(labels, 0.25, seed=3, node=1)).all()
    assert (out != held_out(labels, 0.25, seed=3, node=2)).any()
    assert held_out(np.linspace(0, 1, 40), 0.1, 0, 0).sum() == 4
    with pytest.raises(dsba.InputError, match="held-out share"):
        terms("y ~ x", test_share=1.0)


def test_new_tables_are_read_as_the_model_was():
    frames = hospitals()
    schema = design_tables(sites_of(frames), terms("outcome ~ age + C(ward)", "binary")).schema
    new = frames["site2"].drop(columns="outcome").head(3)
    assert designed(SiteTable("new", new), schema, outcome=False).names[-1] == "C(ward)[T.surgery]"
    new = new.assign(ward=SECRET)
    with pytest.raises(dsba.InputError, match="3 rows of new have a level of 'ward' that the model does not know") as e:
        designed(SiteTable("new", new), schema, outcome=False)
    assert SECRET not in str(e.value)


def test_a_schema_survives_a_file():
    frames = hospitals()
    frames["site0"].loc[frames["site0"].index[:4], "crp"] = np.nan
    frames["site1"].loc[frames["site1"].index[:2], "ward"] = "rare"
    formula = parse("outcome ~ log(crp) + C(year) + C(ward) + site")
    schema = design_tables(sites_of(frames), terms(formula, "binary", "indicator", "merge", exposure="days")).schema
    content = json.loads(json.dumps(codec.schema_content(schema)))
    assert codec.schema_of(content) == schema
    for spoil in (
        lambda f: f.pop("levels"),
        lambda f: f["options"].update(formula="y ~ open(x)"),
        lambda f: f["options"].update(missing="guess"),
        lambda f: f.update(means={"crp": "much"}),
        lambda f: f.update(options=None),
    ):
        spoiled = json.loads(json.dumps(content))
        spoil(spoiled)
        with pytest.raises((dsba.InputError, KeyError, TypeError)):  # a whole file is refused in a sentence
            terms_of(codec.schema_of(spoiled))


def test_tables_of_one_process():
    frames = hospitals()
    by_name = as_sites(pooled(frames), "site")
    assert [site.name for site in by_name] == list(frames)
    assert [site.name for site in as_sites(list(frames.values()))] == ["site0", "site1", "site2"]
    assert as_sites(frames)[1].frame.equals(frames["site1"].reset_index(drop=True))
    for bad in ([], None, [1, 2]):
        with pytest.raises(dsba.InputError, match="wanted a pandas frame"):
            as_sites(bad)


# Four hospitals --------------------------------------------------------------------------------------

FOUR = Path(os.environ.get("DSBA_DATA", "")) / "sites"
four_hospitals = pytest.mark.skipif(not FOUR.is_dir(), reason="DSBA_DATA has no folder sites")


@four_hospitals
@pytest.mark.parametrize(
    ("formula", "labels"),
    [
        ("readmitted ~ age + C(sex) + log(crp) + creatinine + C(ward) + C(insurer) + C(site)", "binary"),
        ("n_visits ~ age*C(sex) + lab0 + lab1 + lab3 + C(health) + disea", "count"),
        ("cost ~ age + I(age*age) + sbp + C(ward) + lncoins + lab2 + lab5 + physlm", "real"),
    ],
)
def test_four_hospitals_build_what_statsmodels_builds_of_the_pooled_rows(formula, labels):
    files = sorted(FOUR.glob("*.csv"))
    asked = terms(formula, labels, missing="drop")
    columns = [name for name in asked.columns if name != "site"]
    frames = {file.stem: TableFile(file).read(columns) for file in files}
    everyone = on_sites(frames, lambda own, net: design_tables(own, asked, net))
    found = np.vstack([there.designs[0].X for there in everyone])
    exact = {"float_precision": "round_trip"} if pd.__version__ < "3" else {}  # what pandas 3 does anyway
    theirs = {file.stem: pd.read_csv(file, **exact) for file in files}
    whole = pooled(theirs)[[*columns, "site"]].dropna().reset_index(drop=True)
    if labels == "binary":
        whole = whole.assign(readmitted=(whole["readmitted"] == "yes").astype(int))
    y, X = independent(formula, whole)
    assert_same_columns((everyone[0].names, found), X)
    assert (np.concatenate([there.designs[0].y for there in everyone]) == y).all()
    assert everyone[0].notices == ()


def test_names_of_columns_are_text_and_differ():
    frame = hospitals()["site0"]
    twice = pd.concat([frame, frame[["age"]]], axis=1)
    with pytest.raises(dsba.InputError, match="the table of all has several columns 'age'"):
        dsba.fit(twice, "cost ~ age", "linear")
    numbered = frame.rename(columns={"age": 3})
    wanted = dsba.fit(frame, "cost ~ age", "linear").params.to_numpy()
    assert (dsba.fit(numbered, "cost ~ `3`", "linear").params.to_numpy() == wanted).all()
    with pytest.raises(dsba.InputError, match="wanted a pandas frame, a file or the URL of a database"):
        dsba.fit({"a": [1, 2]}, "cost ~ age", "linear")


def test_columns_of_very_different_units():
    """Platelets per litre and a hormone in mol per litre: their squares are 45 orders of magnitude apart."""
    rng = np.random.default_rng(0)
    si = pd.DataFrame({"platelets": rng.normal(2.5e11, 6e10, 300), "ft4": rng.normal(1.5e-11, 3e-12, 300)})
    si["ill"] = (rng.random(300) < 0.5 + 0.2 * np.sign(si["ft4"] - 1.5e-11)).astype(int)
    si["site"] = np.repeat(["a", "b", "c"], 100)
    usual = si.assign(platelets=si["platelets"] * 1e-9, ft4=si["ft4"] * 1e12)
    for options in ({}, {"lam": 0.1}):
        here, there = (dsba.fit(table, "ill ~ platelets + ft4", sites="site", **options) for table in (si, usual))
        np.testing.assert_allclose(here.params * [1, 1e9, 1e-12], there.params, rtol=1e-9)
        if not options:
            np.testing.assert_allclose(here.bse * [1, 1e9, 1e-12], there.bse, rtol=1e-9)
    slopes = [dsba.fit(table, "platelets ~ ft4", "linear", sites="site").params["ft4"] for table in (si, usual)]
    assert slopes[0] == pytest.approx(slopes[1] * 1e21, rel=1e-9)
