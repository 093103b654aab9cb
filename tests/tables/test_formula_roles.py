"""What a formula makes of names: the outcome, factors and numbers are what the text says, or the formula is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import queues
from hospital_tables import SECRET, hospitals, sites_of, terms
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.tables.design import design_tables
from dsba.tables.formula import from_columns, parse
from dsba.tables.terms import SiteTable

# The outcome -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", ["binary", "multiclass"])
@pytest.mark.parametrize("left", ["I(1 - died)", "I(a + b)", "log(died)", "I(died)"])
def test_the_outcome_of_classes_is_one_plain_column(left, labels):
    formula = parse(f"{left} ~ age")
    with pytest.raises(
        dsba.InputError, match=r"the outcome must be the name of one column, got .*: a model of classes"
    ):
        terms(formula, labels)
    assert terms(formula, "real").formula == formula
    assert terms("`the outcome` ~ age", labels).formula.response == ("the outcome",)


def test_a_transformed_class_is_refused_on_every_road(tmp_path):
    formula, wanted = "I(1 - died) ~ age", r"the outcome must be the name of one column, got 'I\(1 - died\)'"
    files = []
    for name in ("a", "b", "c"):
        files.append(tmp_path / f"{name}.csv")
        files[-1].write_text("age,died\n" + "40,0\n50,1\n" * 10)
    given = [*map(str, files), "--formula", formula, "--operator", "logistic", "--out", str(tmp_path / "out")]
    for command in (["train"], ["study", "try"]):
        with pytest.raises(dsba.InputError, match=wanted):
            CliRunner().invoke(app, [*command, *given], catch_exceptions=False)
    with pytest.raises(dsba.InputError, match=wanted):
        dsba.fit([pd.read_csv(file) for file in files], formula, "squared-hinge")


def test_the_outcome_names_a_column():
    with pytest.raises(dsba.InputError, match="the outcome names no column"):
        parse("I(1) ~ age")


def test_a_formula_without_an_outcome_is_refused_before_tables_are_read():
    with pytest.raises(dsba.InputError, match="the formula has no outcome"):
        terms("~ age")


@pytest.mark.parametrize("formula", ["site ~ age", "cost ~ log(site)", "cost ~ age"])
@pytest.mark.parametrize("labels", ["real", "binary"])
def test_the_names_of_the_sites_are_a_factor_and_no_number(formula, labels):
    weights = "site" if formula == "cost ~ age" else None
    with pytest.raises(dsba.InputError, match="site0 has no column 'site'"):
        design_tables(sites_of(hospitals()), terms(formula, labels, weights=weights))


# Factors, numbers and names --------------------------------------------------------------------------


def design(formula, frames):
    """The columns of the model over all sites, by name."""
    found = design_tables(sites_of(frames), terms(formula))
    return dict(zip(found.names, np.vstack([one.X for one in found.designs]).T, strict=True))


@pytest.mark.parametrize("right", ["C(year) + year:age", "C(year)*log(year)", "year + C(year)", "I(year - 1):C(year)"])
def test_a_column_is_a_factor_everywhere_or_nowhere(right):
    with pytest.raises(dsba.InputError, match=r"the column 'year' is in C\(\) and outside of it"):
        parse(f"cost ~ {right}")
    assert parse("cost ~ C(year) + C(year):age").factors == ("year",)


@pytest.mark.parametrize("name", ["1", " 1 ", "Intercept", "."])
def test_names_that_mean_something_else_are_refused(name):
    for attempt in (lambda: parse(f"cost ~ 0 + `{name}` + age"), lambda: from_columns("cost", [name, "age"])):
        with pytest.raises(dsba.InputError, match="cannot stand in a formula: there it means"):
            attempt()


@pytest.mark.parametrize(
    ("text", "value"),
    [("0e5", 0.0), ("0.", 0.0), ("007", 7.0), ("00.50", 0.5), ("000", 0.0), ("00e1", 0.0), (".5", 0.5), ("1e-2", 0.01)],
)
def test_numbers_mean_what_they_say(text, value):
    frames = hospitals()
    formula = parse(f"cost ~ I(age + {text})")
    assert formula.columns == ("age",)
    _, column = design(str(formula), frames).values()
    assert (column == pd.concat(frames.values())["age"] + value).all()


NAMES = ["CO₂", "crp_µg", "lambda", "0", "a:b", "log(crp)", "a.b", "ﬁ", "column_0_", "C", "my name", "[T.x]", "None"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_column_is_that_column(name):
    """Names that Python normalises, its keywords, and those that look like parts of a formula."""
    frames = hospitals()
    renamed = {site: frame.rename(columns={"crp": name, "ward": f"{name}s"}) for site, frame in frames.items()}
    wanted = design("cost ~ crp + log(crp) + C(ward):age + I(2*crp - age)", frames)
    found = design(f"cost ~ `{name}` + log(`{name}`) + C(`{name}s`):age + I(2*`{name}` - age)", renamed)
    assert [*map(np.ndarray.tolist, found.values())] == [*map(np.ndarray.tolist, wanted.values())]
    assert name in found
    assert len(found) == len(wanted)


def test_columns_have_their_usual_names():
    frames = hospitals()
    levels = {"A&E": "column_0_", "cardio": "column__1_:x", "surgery": "age"}
    frames = {site: frame.assign(ward=frame["ward"].map(levels)) for site, frame in frames.items()}
    found = design("cost ~ age + C(ward):`secret name` + C(ward) + log(crp) + I(`secret name`*age)", frames)
    assert list(found) == [
        "Intercept",
        "age",
        "C(ward)[T.column_0_]",
        "C(ward)[T.column__1_:x]",
        "log(crp)",
        "I(`secret name` * age)",
        "C(ward)[age]:secret name",
        "C(ward)[column_0_]:secret name",
        "C(ward)[column__1_:x]:secret name",
    ]


# What an outcome of another kind says of the data: nothing -------------------------------------------


def refused_at_every_site(frames, asked, monkeypatch):
    """The one sentence that all sites end with, each a process of its own, and all that they sent before."""
    names, sent, send = list(frames), [], queues.QueueNetwork.send

    def heard(net, peer, message, purpose):
        sent.append(repr(message))
        send(net, peer, message, purpose)

    def attempt(net):
        with pytest.raises(dsba.InputError) as error:
            design_tables([SiteTable(names[net.rank], frames[names[net.rank]])], asked, net)
        return "".join([str(error.value), *getattr(error.value, "__notes__", [])])

    monkeypatch.setattr(queues.QueueNetwork, "send", heard)
    (sentence,) = set(queues.together(dsba.Topology.ring(len(names)), len(names), attempt))
    return sentence, "".join(sent)


@pytest.mark.parametrize("labels", ["real", "count"])
@pytest.mark.parametrize("left", ["surname", "log(surname)"])
def test_an_outcome_that_is_no_class_is_a_number(left, labels, monkeypatch):
    frames = {name: frame.assign(surname=SECRET) for name, frame in hospitals().items()}
    sentence, sent = refused_at_every_site(frames, terms(f"{left} ~ age", labels), monkeypatch)
    assert sentence == "the column 'surname' is text, and the model needs it as a number."
    assert SECRET not in sent


def test_an_outcome_of_true_and_false_is_a_number():
    frames = {name: frame.assign(late=frame["days"] > 10) for name, frame in hospitals().items()}
    found = design_tables(sites_of(frames), terms("late ~ age"))
    assert (np.concatenate([one.y for one in found.designs]) == pd.concat(frames.values())["late"]).all()


def test_a_site_with_more_than_two_values_of_two_classes_says_so_itself(monkeypatch):
    frames = {name: frame.assign(stay=4711.25 + (frame["visits"] > 1)) for name, frame in hospitals().items()}
    frames["site1"] = frames["site1"].assign(stay=4711.25 + np.arange(40.0))
    sentence, sent = refused_at_every_site(frames, terms("stay ~ age", "binary"), monkeypatch)
    assert sentence == "the outcome 'stay' has more than 2 values at site1: wanted at most 2 classes."
    assert "4711" not in sent


# Few columns and many --------------------------------------------------------------------------------


@pytest.mark.parametrize("right", ["0", "age - age - 1"])
def test_a_model_has_a_column(right):
    with pytest.raises(dsba.InputError, match=f"the right side '{right}' gives the model no column"):
        design(f"cost ~ {right}", hospitals())


def test_many_columns_come_without_a_warning():
    frames = {name: pd.concat([frame, more(len(frame), 120)], axis=1) for name, frame in hospitals().items()}
    formula = "cost ~ " + " + ".join(f"x{n}" for n in range(120))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = design(formula, frames)
    for n in (0, 119):
        assert (found[f"x{n}"] == pd.concat(frames.values())[f"x{n}"]).all()


def more(rows, count):
    numbers = np.random.default_rng(rows).normal(size=(rows, count))
    return pd.DataFrame(numbers, columns=[f"x{n}" for n in range(count)])
