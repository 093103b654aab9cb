"""Table 1 against R's values, the same bits at all sites, hidden counts, and signs of trouble."""

from __future__ import annotations

import itertools
import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hospital_tables import on_sites
from mpi import TRAIN, mpiexec, needs_mpi
from reference_values import table, values
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.fitting.spec import FitSpec
from dsba.tables.describe import describe_sites
from dsba.tables.description import NumberSummary
from dsba.tables.fit import fit_sites
from dsba.tables.page import description_page
from dsba.tables.terms import SiteTable

WANTED = values("description")


def sites():
    return {str(name): frame.drop(columns="site") for name, frame in table("gaps").groupby("site")}


@pytest.fixture(scope="module")
def found():
    return dsba.describe(sites(), by="treated")


def test_sums_and_counts_are_those_of_r(found):
    strata = {"all": WANTED["all"], **{f"treated = {level}": one for level, one in WANTED["by_treated"].items()}}
    seen = 0
    for stratum, wanted in strata.items():
        assert found.rows[stratum] == wanted["rows"]
        for column, strata_found in found.columns.items():
            one, about = strata_found[stratum], wanted.get(column, {})
            if "counts" in about and not isinstance(one, NumberSummary):
                assert (one.n, one.missing, one.counts) == (about["n"], about["missing"], about["counts"])
            elif "sum" in about:
                assert (one.n, one.missing, one.sum) == (
                    about["n"],
                    about["missing"],
                    pytest.approx(about["sum"], 1e-15),
                )
                assert (one.mean, one.sd) == pytest.approx((about["mean"], about["sd"]), rel=1e-13)
            seen += bool(about)
    assert seen > 30


def test_quartiles_are_within_the_stated_rank(found):
    for column, strata in found.columns.items():
        one, x = strata["all"], table("gaps")[column].dropna()
        if isinstance(one, NumberSummary):
            assert one.within < 0.03
            for p, value in zip((0.25, 0.5, 0.75), one.quartiles, strict=True):
                rank, reach = np.ceil(p * len(x)), one.within * len(x)
                assert (x < value).sum() - reach <= rank <= (x <= value).sum() + reach


RNG = np.random.default_rng(1)
ODD = {
    "skewed": RNG.pareto(0.5, 900), "lognormal": RNG.lognormal(0, 3, 900), "one value": np.full(900, 7.25),
    "ties": RNG.choice([1.0, 2.0, 3.0], 900), "most are zero": np.where(RNG.random(900) < 0.9, 0, RNG.normal(size=900)),
    "whole numbers": RNG.integers(0, 100, 900), "counts": RNG.poisson(3.0, 40_000),
    "years": RNG.integers(1950, 2020, 900),
    "identifiers": 10**15 + RNG.integers(0, 1000, 900), "rounded": RNG.normal(60, 12, 40_000).round(1),
    "small units": 1e-300 * RNG.normal(size=900), "smallest": 5e-324 * RNG.integers(-5, 5, 900),
    "large units": 1e300 * RNG.normal(size=900), "largest": RNG.choice([-1.7e308, 1.7e308, 0.0], 900),
    "both signs": np.sinh(20 * RNG.normal(size=900)), "zeros of both signs": RNG.choice([0.0, -0.0, 1.0, -1.0], 900),
    "twelve rows": RNG.normal(size=12), "one far away": np.append(RNG.normal(size=899), 1e18),
}  # fmt: skip
FEW_VALUES = (
    "one value", "ties", "most are zero", "whole numbers", "counts", "years", "rounded", "zeros of both signs",
    "smallest", "largest", "identifiers",
)  # fmt: skip


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ODD)
def test_quartiles_of_odd_columns_are_within_the_stated_rank(name):
    x = ODD[name].astype(float)
    frames = {f"h{n}": pd.DataFrame({"x": part}) for n, part in enumerate(np.array_split(x, 3))}
    table = dsba.describe(frames)
    one = table.columns["x"]["all"]
    assert one.n == len(x)
    assert one.sum is None or one.sum == pytest.approx(np.sum(x), rel=1e-12, abs=1e-12 * np.abs(x).sum())
    for p, value in zip((0.25, 0.5, 0.75), one.quartiles, strict=True):
        rank, reach, same = np.ceil(p * len(x)), one.within * len(x), 1e-9 * abs(value) + 1e-310  # nine digits
        assert (x < value - same).sum() - reach <= rank <= (x <= value + same).sum() + reach
    if name in FEW_VALUES:
        assert one.within == 0.0
        exact = np.quantile(x, [0.25, 0.5, 0.75], method="inverted_cdf")
        assert one.quartiles == pytest.approx(exact, rel=0 if np.abs(x).max() < 1e6 and name != "smallest" else 1e-9)
        assert "rank error" not in str(table)
    else:
        assert one.within <= (0.5 if len(x) == 12 else 0.01)  # a handful of rows
        assert f"quartiles: rank error at most {100 * one.within:.2g} %" in table.to_latex().replace("\\%", "%")


def test_histograms_have_the_rows_and_no_small_bin(found):
    """The bins of whole ages are those of R, moved by half a year; small ones have joined their neighbours."""
    for column, strata in found.columns.items():
        one, x = strata["all"], table("gaps")[column].dropna()
        if not isinstance(one, NumberSummary) or one.histogram is None:
            continue
        assert sum(rows for *_, rows in one.histogram) == one.n
        for low, high, rows in one.histogram:
            inside = (x >= (-np.inf if low is None else low)) & (x < (np.inf if high is None else high))
            assert inside.sum() == rows >= 3
        assert 2 <= len(one.histogram) <= 22
        assert all(other["histogram"] is None for other in found.plain()["columns"][column].values()
                   if other["n"] < one.n)  # fmt: skip
    reference = WANTED["histograms"]["age"]
    counts = dict(zip(np.array(reference["breaks"][:-1]) + 0.5, reference["counts"], strict=True))
    same = {low: rows for low, high, rows in found.columns["age"]["all"].histogram if low and high == low + 5}
    assert len(same) > 8
    assert same == {low: counts[low] for low in same}


def test_pictures_of_histograms(found):
    page = found.to_html()
    assert page.count("<svg") == sum(one["all"].histogram is not None for one in found.columns.values()
                                     if isinstance(one["all"], NumberSummary))  # fmt: skip
    assert 'aria-label="Histogram of age"' in page
    odd = dsba.describe(pd.DataFrame({"<b>": np.arange(40.0)})).to_html()
    assert "Histogram of &lt;b&gt;" in odd
    assert "<b>" not in odd


def test_the_page_names_trouble_above_the_table(found):
    page = description_page("A <study>", replace(found, signs=("the column 'a<b' looks wrong at north.",)))
    assert page.index("a&lt;b&#x27; looks wrong") < page.index("<table>")
    assert page.count("A &lt;study&gt;") == 2  # title and heading
    assert "<study>" not in page
    assert 'class="warnings"' not in description_page("A study", replace(found, signs=()))


def test_by_site():
    """Each site's own figures are R's, in one process and between processes."""
    frame = table("gaps")
    pooled = dsba.describe(frame, by="site", sites="site")
    assert str(pooled) == str(dsba.describe(sites(), by="site"))
    for name, wanted in WANTED["by_site"].items():
        assert pooled.rows[f"site = {name}"] == wanted["rows"]
        assert pooled.columns["age"][f"site = {name}"].mean == pytest.approx(wanted["age"]["mean"], rel=1e-13)
    assert between(sites(), "site").plain() == pooled.plain()


def hidden_at(*names):
    """Five hospitals by site; the named ones do not show figures of their own rows."""
    frames = {f"h{n}": frame for n, frame in enumerate([*three().values(), *three(seed=2).values()][:5])}

    def work(own, net):
        return describe_sites(own, net, by="site", shows=own[0].name not in names)

    first, *others = on_sites(frames, work)
    assert all(one.plain() == first.plain() for one in others)
    return frames, first


def test_sites_that_do_not_show_their_own_figures_are_together():
    frames, found = hidden_at("h1", "h2", "h4")
    assert list(found.rows) == ["all", "site = h0", "site = h3", "other sites"]
    others = pd.concat([frames[name] for name in ("h1", "h2", "h4")])
    one = found.columns["crp"]["other sites"]
    assert (one.n, one.mean) == (120, pytest.approx(others["crp"].mean(), rel=1e-13))
    assert found.columns["sex"]["other sites"].counts == others["sex"].value_counts().to_dict()
    assert found.columns["crp"]["site = h3"].mean == pytest.approx(frames["h3"]["crp"].mean(), rel=1e-13)
    assert found.signs == ()


@pytest.mark.parametrize("hiding", [("h1",), ("h1", "h3"), ("h0", "h1", "h2", "h3", "h4")])
def test_totals_minus_the_sites_that_are_shown_are_not_those_of_one_or_two(hiding):
    _, found = hidden_at(*hiding)
    assert list(found.rows) == ["all"]
    assert list(found.columns["crp"]) == ["all"]
    said = [sign for sign in found.signs if "shows no figures of its own rows" in sign]
    assert [sign[:2] for sign in said] == ([] if len(hiding) == 5 else list(hiding))


def test_few_rows_of_a_site_are_not_shown_and_not_told_by_the_others():
    """A level with two rows at one site: the pooled count minus the others' would be these rows."""
    frames = three()
    frames["h1"]["sex"] = ["F"] * 38 + ["M"] * 2
    found = between(frames, "site")
    sex = found.columns["sex"]
    assert sex["all"].counts["M"] > 2
    assert [count for name, one in sex.items() if name != "all" for count in one.counts.values()] == [None] * 6
    assert found.columns["crp"]["site = h1"].mean is not None
    frames["h1"]["crp"] = [4.0, 5.0] + [np.nan] * 38
    crp = between(frames, "site").columns["crp"]
    assert [one.mean is None for one in crp.values()] == [False, True, True, True]


def test_a_mean_that_one_row_of_a_site_makes_up_is_shown_of_no_site():
    """The row is no matter in the pooled mean; the mean of the site would be the pooled one minus the others."""
    frames = three()
    frames["h2"]["crp"] = 5.0 + 1e-3 * np.arange(40)
    frames["h2"].loc[0, "crp"] = 9.0
    found = between(frames, "site")
    assert {name: one.mean is None for name, one in found.columns["crp"].items()} == {
        "all": False, "site = h0": True, "site = h1": True, "site = h2": True,
    }  # fmt: skip
    assert "one row of h2 makes up most of the spread of 'crp'" in str(found)


def test_a_missing_value_is_no_level_of_this_name():
    """A frame may have None beside the text "None": such a row is in no stratum."""
    arms = pd.Series(["None"] * 10 + [None] * 15 + ["some"] * 15, dtype=object)
    frames = {name: frame.assign(arm=arms) for name, frame in three().items()}
    assert dsba.describe(frames, by="arm").rows == {"all": 120, "arm = None": 30, "arm = some": 45}


@pytest.mark.parametrize(
    "describe", [lambda frames: dsba.describe(frames, by="arm"), lambda frames: between(frames, "arm")]
)
@pytest.mark.parametrize("gaps", [1, 2])
def test_few_rows_without_a_stratum_are_not_told_by_the_strata(describe, gaps):
    """The figures of all rows minus those of the strata are those of the rows whose arm is missing."""
    frames = three()
    frames["h1"].loc[: gaps - 1, "arm"] = None
    found = describe(frames)
    assert found.rows.keys() <= {"all": 120, "arm = a": None, "arm = b": None}.keys()
    assert [count for name, count in found.rows.items() if name != "all" and count is not None] == []
    for strata in found.columns.values():
        assert not any(one.n or getattr(one, "sum", None) for name, one in strata.items() if name != "all")
    assert found.columns["crp"]["all"].mean is not None


def test_a_value_among_the_rows_without_a_stratum_is_not_told_by_the_strata():
    """Enough rows have no arm, and one of them has a number: the column is shown for all rows only."""
    frames = three()
    for frame in frames.values():
        frame.loc[:4, "arm"] = None
        frame.loc[:4, "crp"] = np.nan
    frames["h1"].loc[0, "crp"] = 6.5
    for found in (dsba.describe(frames, by="arm"), between(frames, "arm")):
        assert list(found.rows) == ["all", "arm = a", "arm = b"]
        assert [one.mean is None for one in found.columns["crp"].values()] == [False, True, True]
        assert None not in [one.n for one in found.columns["sex"].values()]


def test_two_strata_of_a_table_with_dates_and_an_empty_column():
    frames = {name: frame.assign(day=pd.Timestamp("2020-01-01"), empty=np.nan) for name, frame in three().items()}
    found = dsba.describe(frames, by="arm")
    assert list(found.columns) == ["crp", "sex"]
    assert found.differences == dsba.describe(three(), by="arm").differences
    assert found.left_out == ("day",)


def test_a_stratum_of_two_sites_shows_each_the_other():
    frames = {name: frame.assign(ward="icu" if name in ("h1", "h2") else "other") for name, frame in three().items()}
    frames["h1"].loc[:9, "ward"] = frames["h2"].loc[:9, "ward"] = "other"
    found = between(frames, "ward")
    assert list(found.rows) == ["all"]
    assert [sign[:2] for sign in found.signs] == ["h1", "h2"]
    assert all("is one of fewer than 3 sites that have rows in a stratum of 'ward'" in sign for sign in found.signs)


def test_standardised_differences(found):
    for column, wanted in WANTED["smd_by_treated"].items():
        if "sum" in WANTED["all"].get(column, {}) or column in ("sex", "stage", "smoker"):
            assert found.differences[column] == pytest.approx(wanted, rel=1e-8)
    assert {"age", "sex", "stage"} <= found.differences.keys()


def test_sites_of_their_own_find_the_same_bits(found):
    apart = on_sites(sites(), lambda held, net: describe_sites(held, net, by="treated"))
    assert all(one == apart[0] for one in apart)
    assert apart[0].columns == found.columns
    assert sorted(apart[0].signs) == sorted(found.signs)


def test_a_sound_cohort_has_no_sign_of_trouble(found):
    assert found.signs == ()


def test_planted_trouble_is_named_by_column_and_site():
    frames = sites()
    frames["east"] = frames["east"].assign(crp=frames["east"]["crp"] * 10)
    frames["north"] = frames["north"].assign(sbp=frames["north"]["sbp"].where(frames["north"]["age"] > 50, -999.0))
    frames["coast"] = frames["coast"].assign(sex=frames["coast"]["sex"].map({"F": "female", "M": "male"}))
    signs = "\n".join(dsba.describe(frames).signs)
    assert "the middle half of 'crp' at east lies outside that of all other sites: another unit?" in signs
    assert "an extreme value of 'sbp' is repeated at north" in signs
    assert "the column 'sex' has 2 levels at coast that no other site has" in signs
    assert "999" not in signs
    frames["coast"] = frames["coast"].assign(sex=(frames["coast"]["sex"] == "male").astype(int))
    assert "'sex' is a number at coast and text elsewhere" in "\n".join(dsba.describe(frames).signs)


def test_levels_that_are_spelt_in_another_way_are_seen():
    """Before, "M" and "M " stood in two lines that look the same, and no sentence said in what levels differ."""
    frames = three()
    frames["h1"]["sex"] = frames["h1"]["sex"] + " "
    frames["h2"]["sex"] = frames["h2"]["sex"].replace("M", "m")
    found = described(frames)
    assert [line for line in found.to_frame().index if line.startswith("sex")] == [
        "sex = F", "sex = 'F '", "sex = M", "sex = 'M '", "sex = m",
    ]  # fmt: skip
    end = "that no other site has; {} from levels of other sites by case or spaces only."
    assert found.signs == (
        f"the column 'sex' has 1 level at h0 {end.format('it differs')}",
        f"the column 'sex' has 1 level at h2 {end.format('it differs')}",
        f"the column 'sex' has 2 levels at h1 {end.format('some differ')}",
    )


@pytest.mark.parametrize(
    ("usual", "codes", "named"),
    [
        (np.arange(30, 70), [-999, -998, -998, -998], True),  # before, two codes hid each other
        (np.arange(30, 70), [999, 998, 997] * 3, True),
        ([0, 1], [9] * 5, True),  # before, a column of two values had no code
        ([1, 2, 3], [-99] * 5, True),
        ([0, 1, 2], [7] * 5, False),
        ([0, 1], [9], False),
        (np.arange(30, 70), [200, 300, 400], False),  # large, and each in one row only
        (np.arange(30, 70), [72, 73, 74] * 5, False),
    ],
)
def test_codes_for_missing(usual, codes, named):
    frames = {f"h{n}": pd.DataFrame({"x": np.resize(usual, 200).astype(float)}) for n in range(4)}
    frames["h2"].loc[10 : 9 + len(codes), "x"] = codes
    wanted = ("an extreme value of 'x' is repeated at h2, far from all others: a code for missing?",)
    assert dsba.describe(frames).signs == (wanted if named else ())


def test_large_numbers_are_written_with_all_digits_before_the_point():
    """Before, the table for a paper had 1.235e+04 and 1.9e+03."""
    rng = np.random.default_rng(0)
    frames = {f"h{n}": pd.DataFrame({"cost": rng.normal(12345.0, 1900.0, 400)}) for n in range(3)}
    found = dsba.describe(frames)
    assert re.fullmatch(r"12,\d{3} \(1,\d{3}\)", found.to_frame().loc["cost, mean (sd)", "all"])
    assert "e+" not in str(found) + found.to_html() + found.to_latex()
    assert re.search("cost: below [0-9,]+ to [0-9,]+ and above<", found.to_html())


def test_columns_without_a_summary_are_named():
    """Before, a column that one site spells in another way, or of dates, was left out without a word."""
    frames = {name: frame.assign(born=pd.Timestamp("2001-01-01")) for name, frame in three().items()}
    for name, frame in frames.items():
        frame["person"] = [f"{name} {n}" for n in range(len(frame))]
    frames["h2"] = frames["h2"].rename(columns={"crp": "CRP"})
    found = described(frames)
    assert list(found.columns) == ["arm", "sex"]
    assert str(found).startswith("Description of the rows. Not described: born, person\n")
    assert found.plain()["left_out"] == ["born", "person"]
    assert found.signs == (
        "h2 has 'CRP', which most sites lack: not described.",
        "h2 has no column 'crp', which other sites have: not described.",
    )
    with pytest.raises(dsba.InputError, match="'person' is not a column with a few levels"):
        dsba.describe(frames, by="person")


def test_marks_among_many_numbers_are_named():
    """Before, numbers with more than 50 values and a mark among them were left out without a word."""
    frames = {name: frame.assign(age=np.arange(70.0)) for name, frame in three(rows=70).items()}
    frames["h1"]["age"] = [*map(str, range(69)), "unknown"]
    found = described(frames)
    assert found.left_out == ("age",)
    assert [sign[:41] for sign in found.signs] == [
        "the column 'age' is text at h1 and a numb", "the column 'age' of h1 is text, and all b",
    ]  # fmt: skip


def test_numbers_of_patients_and_years_are_no_other_unit():
    """Large numbers that hardly differ: the spread of their logarithms is rounding."""
    frames = {f"h{n}": pd.DataFrame({"id": 10**17 + 1000 * n + np.arange(50), "year": 2000 + n}) for n in range(4)}
    assert dsba.describe(frames).signs == ()


def test_small_counts_are_hidden():
    frame = pd.DataFrame({"rare": ["a"] * 2 + ["b"] * 4 + ["c"] * 30, "x": np.arange(36.0), "g": ["u", "v"] * 18})
    found = dsba.describe(frame, by="g")
    assert repr(found) == str(found)
    assert found._repr_html_().startswith(found.to_html())
    assert found.columns["rare"]["all"].counts == {"a": None, "b": None, "c": 30}
    assert "hidden" in found.to_frame().loc["rare = a", "all"]
    few = dsba.describe(frame.assign(x=frame["x"].where(frame.index < 2)))
    assert few.columns["x"]["all"].mean is None
    with pytest.raises(dsba.InputError, match="'h' is not a column"):
        dsba.describe(frame, by="h")


def three(rows=40, seed=1):
    """Three sites with an arm, a number and a factor."""
    rng = np.random.default_rng(seed)
    return {
        f"h{n}": pd.DataFrame({"arm": rng.choice(["a", "b"], rows), "crp": rng.normal(5, 1, rows),
                               "sex": rng.choice(["F", "M"], rows)}) for n in range(3)
    }  # fmt: skip


def described(frames, by=None):
    """The description between processes; that of one process is the same."""
    alone = dsba.describe(frames, by=by)
    for one in on_sites(frames, lambda own, net: describe_sites(own, net, by=by)):
        assert str(one) == str(alone)
        assert one.plain() == alone.plain()
    return alone


def test_a_mean_that_one_row_makes_up_is_not_shown():
    """n times the mean is the value of this row."""
    frames = three()
    frames["h1"].loc[0, "crp"] = 1e7
    found = described(frames)
    one = found.columns["crp"]["all"]
    assert (one.sum, one.mean, one.sd) == (None, None, None)
    assert max(one.quartiles) < 10
    assert "one row of h1 makes up most of the spread of 'crp': its mean" in str(found)
    assert "e+0" not in str(found)


def test_a_stratum_of_one_row_is_not_the_difference_of_two_others():
    """Before, the sums of all rows and of the other stratum were shown: their difference was the row."""
    frames = three()
    for frame in frames.values():
        frame["arm"] = "a"
    frames["h1"].loc[0, "arm"] = "b"
    found = described(frames, "arm")
    assert found.rows == {"all": 120, "arm = a": None, "arm = b": None}
    for column in ("crp", "sex"):
        assert found.columns[column]["all"].n == 120
        for arm in ("a", "b"):
            shown = found.columns[column][f"arm = {arm}"]
            assert shown.n is None
            assert (getattr(shown, "mean", None), getattr(shown, "quartiles", None)) == (None, None)
            assert not any(getattr(shown, "counts", {}).values())
    assert not found.differences


def test_a_column_with_one_value_in_a_stratum_is_shown_for_all_rows_only():
    frames = three()
    for frame in frames.values():
        frame.loc[frame["arm"] == "b", "crp"] = np.nan
    at = frames["h2"].index[frames["h2"]["arm"] == "b"][0]
    frames["h2"].loc[at, "crp"] = 6.25
    found = described(frames, "arm")
    assert {name: one.mean is None for name, one in found.columns["crp"].items()} == {
        "all": False, "arm = a": True, "arm = b": True,
    }  # fmt: skip
    assert found.columns["sex"]["arm = a"].n is not None


def test_few_rows_of_the_others_are_not_shown_to_a_site():
    """Of a stratum with 12 rows at h0 and one elsewhere, h0 would learn the one."""
    frames = three()
    for name, frame in frames.items():
        frame["arm"] = np.where((np.arange(len(frame)) < 12) & (name == "h0"), "b", "a")
    frames["h1"].loc[0, "arm"] = "b"
    found = described(frames, "arm")
    assert found.rows["arm = b"] is None
    assert found.columns["crp"]["arm = b"].mean is None
    assert found.columns["crp"]["arm = a"].mean is None


def test_a_hidden_stratum_is_not_the_sum_of_its_levels_and_gaps():
    """Before, h0 saw that a row of the others is in its stratum: the levels and gaps of a factor are all rows of it."""
    frames = three()
    for name, frame in frames.items():
        frame["arm"] = np.where((np.arange(len(frame)) < 12) & (name == "h0"), "b", "a")
    frames["h1"].loc[0, "arm"] = "b"
    frames["h1"].loc[0, "sex"] = None
    frames["h0"].loc[:3, "sex"] = None
    found = described(frames, "arm")
    assert found.rows["arm = b"] is None
    assert (found.columns["sex"]["arm = b"].n, found.columns["sex"]["arm = b"].missing) == (None, None)


def test_a_missing_count_is_not_the_difference_of_two_others():
    frames = three()
    frames["h0"].loc[0, "crp"] = np.nan
    one = described(frames).columns["crp"]["all"]
    assert (one.n, one.missing, one.sum) == (None, None, None)
    assert one.mean is not None


@pytest.mark.parametrize("rare", [("x",), ("x", "y"), ("x", "y", "y", "z"), ("x", "z", "z", "z")])
def test_hidden_counts_of_levels_are_not_told_by_their_sum(rare):
    """Before, two hidden counts of levels that all others left with a sum of 2 were 1 and 1."""
    frames = three()
    for frame in frames.values():
        frame["ward"] = np.where(np.arange(40) % 2 == 0, "k", "m")
    for n, ward in enumerate(rare):
        frames[f"h{n % 3}"].loc[n, "ward"] = ward
    found = described(frames).columns["ward"]["all"]
    every = pd.concat(frames.values())["ward"].value_counts()
    hidden = [level for level, count in found.counts.items() if count is None]
    few, total = 3, sum(every[level] for level in hidden)
    ways = [ones for ones in itertools.product(range(1, total), repeat=len(hidden)) if sum(ones) == total]
    ways = [ones for ones in ways if any(one < few for one in ones)]
    for place, level in enumerate(hidden):
        assert len({ones[place] for ones in ways}) > 1, level
        assert len({tuple(sorted(ones)) for ones in ways}) > 1
    assert {level for level, count in every.items() if count < few} <= {*hidden}


@pytest.mark.parametrize(("arms", "shown"), [("aaab", False), ("aaaabb", False), ("aabb" * 3, True)])
def test_few_rows_of_a_stratum_that_a_model_leaves_out(arms, shown):
    """Before, the mean of a stratum and the sums of a model told the one row of it that the model leaves out."""
    frames = three(rows=60)
    for frame in frames.values():
        frame["arm"] = np.where(np.arange(60) % 2 == 0, "a", "b")
    left = {name: np.zeros(60, bool) for name in frames}
    for n, arm in enumerate(arms):
        left[f"h{n % 2}"][20 + n // 2] = True
        frames[f"h{n % 2}"].loc[20 + n // 2, "arm"] = arm
    for found in on_sites(frames, lambda own, net: describe_sites(own, net, by="arm", outside=[left[own[0].name]])):
        assert list(found.rows) == ["all", *["arm = a", "arm = b"] * shown]
        assert ["are in no model: the strata" in one for one in found.signs] == [True] * (not shown)


def between(frames, by=None):
    """The descriptions of all processes, which are the same."""
    first, *others = on_sites(frames, lambda own, net: describe_sites(own, net, by=by))
    assert all(one.plain() == first.plain() for one in others)
    return first


def test_a_column_that_tells_sites_apart_makes_no_strata_between_processes():
    """They would be each site's own means; in one process they are what the user asked for."""
    frames = {name: frame.assign(region="west" if name == "h2" else "east") for name, frame in three().items()}
    found = between(frames, "region")
    assert list(found.rows) == ["all"]
    assert "region" not in found.columns
    assert any("h2 is one of fewer than 3 sites that have rows in a stratum" in sign for sign in found.signs)
    mean = frames["h2"]["crp"].mean()
    np.testing.assert_allclose(dsba.describe(frames, by="region").columns["crp"]["region = west"].mean, mean)


def test_numbers_of_one_site_alone_are_not_described_between_processes():
    frames = three()
    for name in ("h0", "h2"):
        frames[name]["crp"] = np.nan
    one = between(frames).columns["crp"]["all"]
    assert (one.n, one.sum, one.mean, one.quartiles, one.histogram) == (None,) * 5


def test_bins_of_a_histogram_have_enough_rows_without_those_of_any_site():
    """Before, a bin of three rows of h0 and one of h1 showed this one to h0."""
    frames = three(rows=60)
    tails = {"h0": [9.0, 9.1, 9.2, 1.0], "h1": [9.3, 1.1], "h2": [1.2, 1.3, 1.4]}
    for name, tail in tails.items():
        frames[name].loc[: len(tail) - 1, "crp"] = tail
    bins = described(frames).columns["crp"]["all"].histogram
    assert sum(one.rows for one in bins) == 180
    assert len(bins) > 3
    for one in bins:
        inside = {name: ((frame["crp"] >= (-np.inf if one.low is None else one.low))
                         & (frame["crp"] < (np.inf if one.high is None else one.high))).sum()
                  for name, frame in frames.items()}  # fmt: skip
        assert all(sum(inside.values()) - own not in (1, 2) for own in inside.values())


def test_a_histogram_does_not_tell_how_many_values_are_missing():
    frames = three()
    frames["h0"].loc[0, "crp"] = np.nan
    assert described(frames).columns["crp"]["all"].histogram is None


def test_names_of_persons_are_not_levels():
    frames = three(rows=12)
    for name, frame in frames.items():
        frame["person"] = [f"{name} {n}" for n in range(len(frame))]

    def attempt(own, net):
        seen, share = [], net.share
        net.share = lambda value, **how: seen.append(str(value)) or share(value, **how)
        return describe_sites(own, net), "".join(seen)

    for found, sent in on_sites(frames, attempt):
        assert "person" not in found.columns
        assert "h1 3" not in sent


def test_values_of_a_column_of_numbers_are_not_sent_as_strata():
    """Before, every site sent up to 51 different incomes before anybody said that they were too many for strata."""
    frames = three(rows=20)
    for frame in frames.values():
        frame["income"] = np.round(30_000 + 1e4 * frame["crp"], 2)
    frames["h1"].loc[0, "income"] = 98765.25

    def attempt(own, net):
        seen, share = [], net.share
        net.share = lambda value, **how: seen.append(str(value)) or share(value, **how)
        with pytest.raises(dsba.InputError, match="the column 'income' is not a column with a few levels"):
            describe_sites(own, net, by="income")
        return "".join(seen)

    assert not [sent for sent in on_sites(frames, attempt) if "98765.25" in sent]
    for frame in frames.values():
        frame["stage"] = np.arange(20) % 4
    assert list(described(frames, "stage").rows) == ["all", *(f"stage = {n}" for n in range(4))]


def test_the_command(tmp_path, found):
    files = []
    for name, frame in sites().items():
        files.append(tmp_path / f"{name}.csv")
        frame.to_csv(files[-1], index=False)
    words = ["describe", *map(str, files), "--by", "treated", "--html", str(tmp_path / "t.html")]
    shown = CliRunner().invoke(app, words, catch_exceptions=False)
    assert str(found) in shown.stdout
    page = (tmp_path / "t.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") > 2
    assert "<table>" in page
    parsed = json.loads(CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False).stdout)
    assert parsed["columns"]["age"]["all"]["sum"] == WANTED["all"]["age"]["sum"]
    two = CliRunner().invoke(app, ["describe", *map(str, files[:2])])
    assert two.exit_code == 0  # in one process a guard is only a notice


# Before a fit ------------------------------------------------------------------------------------


def planted():
    """Five hospitals: one has -999 for missing, one another unit of crp, one other words for the sexes."""
    rng = np.random.default_rng(3)
    frames = {}
    for n in range(5):
        frame = pd.DataFrame({"age": rng.normal(60, 12, 80).round(), "crp": rng.lognormal(2.0, 0.9, 80),
                              "sex": rng.choice(["F", "M"], 80), "cost": rng.normal(0, 1, 80)})  # fmt: skip
        frames[f"h{n}"] = frame
    frames["h1"].loc[:6, "age"] = -999
    frames["h3"]["crp"] /= 10.0
    frames["h4"]["sex"] = frames["h4"]["sex"].map({"F": "female", "M": "male"})
    return frames


def test_trouble_is_named_by_column_and_site_before_a_fit():
    """In one process all of it; between processes each site is told what is wrong in its own rows."""
    spec = FitSpec(formula="cost ~ age + crp + C(sex)", operator="linear", graph="ring")
    wanted = {
        "h1": "an extreme value of 'age' is repeated at h1, far from all others: a code for missing?",
        "h3": "the middle half of 'crp' at h3 lies outside that of all other sites: another unit?",
        "h4": "the column 'sex' has 2 levels at h4 that no other site has.",
    }

    def work(tables, net):
        said = []
        fit_sites(tables, spec, net, notify=said.append)
        return [line.removeprefix("Look at this: ") for line in said if line.startswith("Look at this")]

    whole = work([SiteTable(n, f) for n, f in planted().items()], dsba.Simulator(spec.topology(5)))
    assert whole == list(wanted.values())
    apart = on_sites(planted(), work)
    assert apart == [[wanted[f"h{n}"]] if f"h{n}" in wanted else [] for n in range(5)]


@needs_mpi
def test_trouble_at_any_rank_is_named_before_a_fit(tmp_path):
    """Before, what a rank other than the first found in its own rows was not shown."""
    files = []
    for name, frame in planted().items():
        files.append(tmp_path / f"{name}.csv")
        frame.to_csv(files[-1], index=False)
    words = [
        "--formula",
        "cost ~ age + crp + C(sex)",
        "--operator",
        "linear",
        "--graph",
        "ring",
        "--out",
        tmp_path / "run",
    ]
    code, text = mpiexec(5, *TRAIN, *files, *words)
    assert code == 0, text
    for sign in ("'age' is repeated at h1", "'crp' at h3 lies outside", "'sex' has 2 levels at h4"):
        assert text.count(sign) == 1
    assert text.count("Look at this") == 3
    assert "999" not in text


@pytest.mark.filterwarnings("ignore:Between owners", "ignore:Look at this. the column 'age' has 1 level")
def test_marks_among_numbers_are_named_before_a_fit():
    """Before, a site that wrote "unknown" in one row got a factor of all its ages, without a word."""
    frames = {
        f"h{n}": pd.DataFrame({"age": np.tile(np.arange(40, 60), 3).astype(str), "y": np.arange(60.0)})
        for n in range(3)
    }
    frames["h1"].loc[3, "age"] = "unknown"
    sign = (
        "the column 'age' of h1 is text, and all but a few of its values are numbers: are the others marks of missing"
    )
    assert [one[: len(sign)] for one in dsba.describe(frames).signs if "of h1" in one] == [sign]
    with pytest.warns(UserWarning, match=r"Look at this: the column 'age' of h1 is text.*--na-values"):
        dsba.fit(frames, "y ~ age", "linear")
    with warnings.catch_warnings(record=True) as caught:
        dsba.fit(frames, "y ~ C(age)", "linear")  # asked for as a factor
    assert not [one for one in caught if "na-values" in str(one.message)]
    frames["h0"]["age"] = frames["h2"]["age"] = np.tile(np.arange(40.0, 60), 3)
    with pytest.raises(
        dsba.InputError, match=r"'age' is text at h1 and a number elsewhere. Are there marks of missing"
    ):
        dsba.fit(frames, "y ~ age", "linear")
    many = pd.DataFrame({"age": [*np.arange(20, 80).astype(str), "."], "y": np.arange(61.0)})
    with pytest.raises(
        dsba.InputError, match="more than 50 levels at all: it looks like numbers with marks among them"
    ):
        dsba.fit(many, "y ~ age", "linear")


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
@pytest.mark.parametrize(("usual", "odd"), [((0, 1), (1, 2)), ((1, 2), (0, 1)), ((0, 1), (-1, 1))])
@pytest.mark.parametrize("count", [3, 5])
def test_only_the_site_with_another_coding_in_numbers_is_named(count, usual, odd, share):
    """Before, 1 and 2 for the sexes beside 0 and 1 were taken for numbers like any others."""
    rng = np.random.default_rng(count)
    frames = {f"h{n}": pd.DataFrame({"sex": rng.choice(usual, 60, p=[1 - share, share])}) for n in range(count)}
    assert not dsba.describe(frames).signs
    frames["h1"]["sex"] = np.where(frames["h1"]["sex"] == usual[0], *odd)
    sign = "the two values of 'sex' at h1 are not those of most other sites: another coding?"
    assert described(frames).signs == (sign,)
    frames["h1"]["sex"] = [odd[1]] * 58 + [odd[0]] * 2  # of too few rows to be told
    assert sign not in dsba.describe(frames).signs


def test_counts_that_are_zero_or_one_at_a_site_are_no_other_coding():
    rng = np.random.default_rng(0)
    frames = {f"h{n}": pd.DataFrame({"falls": rng.poisson(0.5, 80)}) for n in range(4)}
    frames["h2"]["falls"] = frames["h2"]["falls"].clip(upper=1)
    assert dsba.describe(frames).signs == ()


@pytest.mark.parametrize("factor", [10.0, 0.001])
@pytest.mark.parametrize("count", [3, 5])
def test_only_the_site_with_another_unit_is_named(count, factor):
    rng = np.random.default_rng(count)
    frames = {f"h{n}": pd.DataFrame({"x": rng.lognormal(0.0, 0.5, 60)}) for n in range(count)}
    assert not dsba.describe(frames).signs
    frames["h1"]["x"] *= factor
    (sign,) = dsba.describe(frames).signs
    assert "'x' at h1" in sign
    shifted = {name: frame - 5.0 for name, frame in frames.items()}  # numbers that are not positive
    assert not [one for one in dsba.describe(shifted).signs if "'x' at h1" not in one]
