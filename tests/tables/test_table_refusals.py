"""What tables at several sites are refused for: with the site, at every site, before anything is learned."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hospital_tables import SECRET, hospitals, on_sites, pooled, sites_of, terms

import dsba
from dsba.fitting.disclosure import Guards
from dsba.tables.design import design_tables
from dsba.tables.schema import kind_of


def _renamed(frames):
    frames["site1"] = frames["site1"].rename(columns={"age": "agee"})


def _capitals(frames):
    frames["site1"] = frames["site1"].rename(columns={"age": "AGE"})


def _text(frames):
    frames["site2"] = frames["site2"].assign(age=[SECRET, *["40"] * 24])


def _other_labels(frames):
    frames["site2"] = frames["site2"].assign(outcome=np.where(frames["site2"]["outcome"] == "yes", 1, -1))


def _spelled_otherwise(frames):
    frames["site0"] = frames["site0"].assign(outcome=frames["site0"]["outcome"].str.upper())


def _identifier(frames):
    frames["site0"] = frames["site0"].assign(ward=[f"{SECRET}-{i}" for i in range(60)])


def _infinite(frames):
    frames["site1"] = frames["site1"].assign(crp=np.inf)


def _negative(frames):
    frames["site1"] = frames["site1"].assign(crp=-1.0)


def _constant(frames):
    for name in frames:
        frames[name] = frames[name].assign(age=47.11)


def _equal(frames):
    for name in frames:
        frames[name] = frames[name].assign(age=frames[name]["crp"])


def _date(frames):
    for name in frames:
        frames[name] = frames[name].assign(age=pd.Timestamp("2020-01-01"))


def _empty(frames):
    for name in frames:
        frames[name] = frames[name].assign(age=np.nan)


def _numbers_and_text(frames):
    frames["site1"] = frames["site1"].assign(ward=frames["site1"]["ward"].map({"A&E": 1, "cardio": 2}))


def _rare(frames):
    frames["site1"].loc[frames["site1"].index[:2], "ward"] = SECRET


def _missing(frames):
    frames["site1"] = frames["site1"].assign(age=frames["site1"]["age"].where(frames["site1"].index > 0))


def _few(frames):
    frames["site2"] = frames["site2"].head(9)


def _too_many_coefficients(frames):
    for name in frames:
        frames[name] = frames[name].head(12)


def _one_label(frames):
    for name in frames:
        frames[name] = frames[name].assign(outcome="no")


REFUSALS = [
    (_renamed, "site1 has no column 'age'; did you mean 'agee'?"),
    (_capitals, "site1 has no column 'age'; did you mean 'AGE'?"),
    (_text, "the column 'age' is text at site2 and a number elsewhere"),
    (_other_labels, "the column 'outcome' is a number at site2 and text elsewhere"),
    (
        _spelled_otherwise,
        "must have two values, the same at all sites, and has NO, YES, no, yes.",
    ),
    (_identifier, "the column 'ward' has more than 50 levels at site0: it looks like an identifier"),
    (_infinite, "the column 'crp' at site1 must have finite numbers, and some are not"),
    (_negative, "log(crp) is not a finite number in some rows of site1: are there numbers that are not positive"),
    (_constant, "the column age is constant over all sites"),
    (_equal, "the columns age and crp are equal at all sites"),
    (_date, "the column 'age' is a date"),
    (_empty, "the column 'age' is empty at every site"),
    (_numbers_and_text, "the column 'ward' is a number at site1 and text elsewhere"),
    (_rare, "1 level(s) of 'ward' have fewer than 3 pooled rows"),
    (_few, "site2 has fewer usable rows than the 10 that are wanted at a site"),
    (_too_many_coefficients, "coefficients for 36 pooled rows, and at least 10 rows are wanted for each"),
    (_missing, "the column 'age' has 1 missing values over all sites: say what to do"),
    (_one_label, "must have two values"),
]


@pytest.mark.parametrize(("spoil", "sentence"), REFUSALS, ids=[spoil.__name__[1:] for spoil, _ in REFUSALS])
def test_refusals_are_the_same_sentence_at_every_site(spoil, sentence):
    frames = hospitals()
    spoil(frames)
    right = "age + crp + C(ward)" if spoil is _equal else "age + log(crp) + C(ward)"
    asked = terms(f"outcome ~ {right}", "binary")

    def attempt(own, net):
        with pytest.raises(dsba.InputError) as error:
            design_tables(own, asked, net)
        return str(error.value)

    for found in on_sites(frames, attempt):
        assert sentence in found
        assert SECRET not in found
        assert "47.11" not in found


@pytest.mark.parametrize(
    ("level", "wish"), [("(missing)", {"missing": "indicator"}), ("(other)", {"rare_levels": "merge"})]
)
def test_a_level_that_is_called_as_ours_is_refused(level, wish):
    frames = hospitals()
    for name, frame in frames.items():
        frames[name] = frame.assign(ward=np.resize([level, "A&E"], len(frame)).astype(object))
    frames["site0"].loc[:3, "ward"] = [None] * 4 if "missing" in wish else ["eye", "ear", "eye", "ear"]
    with pytest.raises(dsba.InputError, match=f"the column 'ward' has a level '{re.escape(level)}' of its own: rename"):
        design_tables(sites_of(frames), terms("outcome ~ age + C(ward)", "binary", **wish))


def test_labels_of_another_coding_are_named():
    frames = hospitals()
    for name, coding in {"site0": (0, 1), "site1": (0, 1), "site2": (-1, 1)}.items():
        frames[name] = frames[name].assign(outcome=np.where(frames[name]["outcome"] == "yes", coding[1], coding[0]))
    with pytest.raises(dsba.InputError, match=r"has -1, 0, 1\.\nHere: 0, 1 at site0; 0, 1 at site1; -1, 1 at site2"):
        design_tables(sites_of(frames), terms("outcome ~ age", "binary"))


@pytest.mark.parametrize("levels", [("cardio", "A&E", "surgery", "nowhere"), None])
def test_declared_levels_are_those_that_may_occur(levels):
    """What occurs is found by sums; a site that has not all of them does not show it."""
    frames = hospitals()
    frames["site1"] = frames["site1"].assign(ward=["A&E", "cardio"] * 20)
    frames = {name: frame.assign(year=frame["year"].astype(float)) for name, frame in frames.items()}
    asked = terms("outcome ~ age + C(ward) + C(year)", "binary")
    declared = levels and {"ward": levels, "year": [str(int(year)) for year in sorted(pooled(frames)["year"].unique())]}
    wanted = design_tables(sites_of(frames), asked).schema
    listed = terms("outcome ~ age + C(ward) + C(year)", "binary", levels=declared or {})
    order = {"ward": ("cardio", "A&E", "surgery")} if levels else {}
    for found in on_sites(frames, lambda own, net: design_tables(own, listed, net)):
        assert found.schema == replace(wanted, levels=wanted.levels | order)
        assert {type(level) for level in found.schema.levels["year"]} == {int}


def test_a_column_of_one_value_at_each_site_varies_if_the_values_differ():
    """Whatever the other columns' magnitudes are; and 0.0 is -0.0."""
    frames = hospitals()
    for column, values in {"beds": (1e-30, 1e-30, 2e-30), "big": (1e30, 2e30, 1e30)}.items():
        for name, value in zip(frames, values, strict=True):
            frames[name] = frames[name].assign(**{column: value}, zero=0.0 if name == "site1" else -0.0, same=1e-30)
    asked = terms("cost ~ age + beds + big")
    assert [found.rows for found in on_sites(frames, lambda own, net: design_tables(own, asked, net))] == [125] * 3
    for constant in ("zero", "same"):
        with pytest.raises(dsba.InputError, match=f"the column {constant} is constant over all sites"):
            design_tables(sites_of(frames), terms(f"cost ~ age + beds + big + {constant}"))


def test_sites_with_other_wishes_are_named():
    frames = hospitals()

    def attempt(own, net):
        formula = "outcome ~ age" if own[0].name == "site1" else "outcome ~ crp"
        with pytest.raises(dsba.InputError, match="rank 1 differs from rank 0 in formula"):
            design_tables(own, terms(formula, "binary"), net)

    on_sites(frames, attempt)


def test_guards_only_speak_in_one_process():
    frames = hospitals((60, 8))
    found = design_tables(sites_of(frames), terms("cost ~ age + C(year) + C(sex) + lab + crp"))
    assert len(found.notices) == 4
    assert "2 sites take part" in found.notices[0]
    assert "site1 has fewer usable rows" in found.notices[1]
    assert "site0 could single out fewer than 3 rows of the other sites" in found.notices[2]  # of eight rows
    assert "7 coefficients for 68 pooled rows" in found.notices[3]


@pytest.mark.parametrize("allowed", [False, True])
def test_two_sites_need_the_consent_of_both(allowed):
    frames = hospitals((60, 50))

    def attempt(own, net):
        guards = Guards(sites=2) if allowed or net.rank == 1 else Guards()
        if allowed:
            return design_tables(own, terms("cost ~ age"), net, guards)
        with pytest.raises(dsba.InputError, match="2 sites take part, and at least 3 are wanted"):
            design_tables(own, terms("cost ~ age"), net, guards)

    on_sites(frames, attempt)


def test_rare_levels_are_merged_on_demand():
    frames = hospitals()
    frames["site1"].loc[frames["site1"].index[:1], "ward"] = "rare1"
    frames["site2"].loc[frames["site2"].index[:2], "ward"] = "rare2"
    asked = terms("cost ~ C(ward)", rare_levels="merge")
    found = design_tables(sites_of(frames), asked)
    assert found.names == ("Intercept", "C(ward)[T.cardio]", "C(ward)[T.surgery]", "C(ward)[T.(other)]")
    assert sum(design.X[:, 3].sum() for design in found.designs) == 3
    assert found.schema.merged == {"ward": ("rare1", "rare2")}
    frames["site2"] = hospitals()["site2"]  # now one row only: it is joined by the next rarest level
    found = design_tables(sites_of(frames), asked)
    assert found.names[-1] == "C(ward)[T.(other)]"
    assert len(found.names) == 3


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2.5], "number"),
        ([True, False], "truth"),
        ([True, None], "truth"),
        (["a", None], "text"),
        (["a", 1], "mixed"),
        ([None, None], "empty"),
        (pd.Categorical(["a", "b"]), "text"),
        (pd.Categorical([1, 2]), "number"),
        (pd.to_datetime(["2020-01-01"]), "date"),
        (pd.array([1, None], dtype="Int64"), "number"),
    ],
)
def test_kinds_of_columns(values, kind):
    assert kind_of(pd.Series(values)) == kind
