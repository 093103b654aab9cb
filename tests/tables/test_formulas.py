"""Formulas as people write them: R's design columns, pooled states, and what is refused."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hospital_tables import on_sites
from reference_values import table, values

import dsba
from dsba.fitting.spec import FitSpec
from dsba.network import Alone
from dsba.tables.design import design_tables
from dsba.tables.fit import fit_sites
from dsba.tables.formula import parse
from dsba.tables.page import model_page
from dsba.tables.quantiles import quantile_search
from dsba.tables.terms import ModelTerms, SiteTable, stated
from dsba.tables.together import answered

SPLINES = values("after_fit")["splines"]
CONTRASTS = values("after_fit")["contrasts"]
pytestmark = pytest.mark.filterwarnings("ignore:Between owners")


def columns(formula, frame):
    spec = stated(FitSpec(formula=formula, operator="linear"), {"all": list(frame)})
    return design_tables([SiteTable("all", frame)], ModelTerms.of(spec)).designs[0]


@pytest.mark.parametrize("case", values("formulas")["cases"], ids=lambda case: case["formula"])
def test_design_columns_are_those_of_r(case):
    """By their sums, their squares, and their products with the number of the row: R names them in its own way."""
    X = columns(case["formula"], table("small")).X
    rows = np.arange(1.0, len(X) + 1)
    for found, name in ((X, "sums"), (X**2, "squares"), (X * rows[:, None], "by_row")):
        np.testing.assert_allclose(np.sort(found.sum(axis=0)), np.sort(case[name]), rtol=1e-9, atol=1e-9)
    assert np.linalg.matrix_rank(X) == case["rank"]


@pytest.mark.parametrize("text", SPLINES)
def test_splines_and_polynomials(text):
    wanted = SPLINES[text]
    fit = dsba.fit(table(), f"sbp ~ {text} + sex", "linear")
    np.testing.assert_allclose(sorted(fit.bse), sorted(wanted["bse"]), rtol=1e-8)
    np.testing.assert_allclose(sorted(fit.params), sorted(wanted["params"]), rtol=1e-8)
    at = pd.DataFrame({"age": wanted["at"], "sex": "F"})
    spline = [name for name in fit.params.index if name.startswith(text.partition("(")[0])]
    means = fit.params["Intercept"] + np.array(wanted["columns"]) @ fit.params[spline].to_numpy()
    np.testing.assert_allclose(fit.predict(at), means, rtol=1e-8)
    assert fit.wald_test_terms().loc[fit.formula.terms[1][0].text, "df"] == len(spline)


def test_the_state_is_kept_in_the_model(tmp_path):
    fit = dsba.fit(table(), "sbp ~ ns(age, df=4) + scale(bmi) + poly(crp, 2) + C(stage, Treatment('III'))", "linear")
    fit.save(tmp_path)
    assert dsba.load(tmp_path).digest() == fit.digest()
    few = table().head(7)
    assert dsba.load(tmp_path).predict(few).to_numpy() == pytest.approx(
        fit.predict(table()).head(7).to_numpy(), rel=1e-13
    )
    assert fit.references == {"stage": "III"}


@pytest.mark.parametrize("kind", CONTRASTS)
def test_contrasts(kind):
    fit = dsba.fit(table(), f"sbp ~ age + C(stage, {kind})", "linear", sites="site")
    found = dict(zip(fit.params.index, zip(fit.params, fit.bse, strict=True), strict=True))
    wanted = list(zip(CONTRASTS[kind]["params"].values(), CONTRASTS[kind]["bse"], strict=True))
    order = ["Intercept", "age", *(name for name in found if "stage" in name)]
    np.testing.assert_allclose([found[name] for name in order], wanted, rtol=1e-8)


def test_the_intercept_alone_is_known_to_every_model():
    larger = dsba.fit(table(), f"sbp ~ {values('after_fit')['formula']}", "linear", sites="site")
    wanted = values("after_fit")["comparisons"]["linear"]["1"]
    assert 2 * (larger.llf - larger.llnull) == pytest.approx(wanted["lr"], rel=1e-8)
    smaller = dsba.fit(table(), "sbp ~ 1", "linear", sites="site")
    assert larger.compare_lr_test(smaller)[0] == pytest.approx(wanted["lr"], rel=1e-8)


# Between sites ---------------------------------------------------------------------------------------


def test_states_are_the_same_bits_at_all_sites():
    frames = {str(name): frame.reset_index(drop=True) for name, frame in table().groupby("site")}
    formula = "sbp ~ ns(age, df=3) + bs(bmi, df=4, boundary=(10, 60)) + scale(crp) + poly(years, 2)"
    open_ = {"dominance": 1.0, "leverage": 1.0}  # the last column of bs() has few rows that are not near 0
    spec = FitSpec(formula=str(parse(formula)), operator="linear", graph="ring", guards=open_)
    apart = on_sites(frames, lambda sites, net: fit_sites(sites, spec, net))
    whole = dsba.fit(frames, formula, "linear", graph="ring")
    assert len({one.digest() for one in apart}) == 1
    assert apart[0].params.tolist() == whole.params.tolist()
    states = whole.schema.states
    mean, sd = states["scale(crp)"]
    assert (mean, sd) == pytest.approx((table()["crp"].mean(), table()["crp"].std()), rel=1e-13)
    assert len(states["ns(age, df=3)"]) == 4


def test_a_b_spline_between_sites_needs_a_boundary():
    with pytest.raises(dsba.InputError, match=r"needs a boundary between sites, such as boundary=\(0, 100\)"):
        dsba.fit(table(), "sbp ~ bs(age, df=4)", "linear", sites="site")
    with pytest.raises(dsba.InputError, match=r"some rows of .*: are there values beyond its boundary"):
        dsba.fit(table(), "sbp ~ bs(age, df=4, boundary=(30, 80))", "linear", sites="site")


def quantiles_of(columns, probabilities, group, few):
    return answered([quantile_search(columns, probabilities, few)], group)[0]


@pytest.mark.parametrize("few", [1, 3, 10])
@pytest.mark.parametrize("scale", [1.0, -1e-9, 1e12])
def test_pooled_quantiles_are_within_the_stated_rank(few, scale):
    rng = np.random.default_rng(few)
    for values_ in (rng.lognormal(size=700), rng.integers(0, 9, 700).astype(float), np.full(700, 3.0)):
        x = values_ * scale
        probabilities = [0.01, 0.25, 0.5, 0.75, 0.99]
        found = quantiles_of(np.array_split(x, 7), probabilities, Alone(), few)
        for p, (value, within) in zip(probabilities, found, strict=True):
            rank, digits = np.ceil(p * 700), 1e-9 * abs(value)  # nine digits are told
            below, up_to = (x < value - digits).sum(), (x <= value + digits).sum()
            assert below - within * 700 <= rank <= up_to + within * 700
            assert within <= max(0.05, 4 * few / 700)


@pytest.mark.parametrize("far", [[0.0], [-999.0], [-999.0, -999.0], [1e-300, 1e300], [0.0, 1e9]])
def test_a_few_rows_far_away_do_not_move_a_quantile(far):
    """A code for missing in one or two rows; the search stopped there, and told a number of another magnitude."""
    x = np.r_[far, np.random.default_rng(0).normal(60, 10, 500)]
    for p, (value, within) in zip((0.25, 0.5, 0.75), quantiles_of([x], (0.25, 0.5, 0.75), Alone(), 3), strict=True):
        assert within < 0.02
        assert abs((x < value).mean() - p) <= within + 1 / 500
    (only,) = quantiles_of([np.r_[far, np.full(400, 5.0)]], [0.5], Alone(), 3)
    assert only == (5.0, len(far) / (400 + len(far)))


@pytest.mark.parametrize("unit", [1.0, 0.1, 1e-7, -12.5, 365.25, 1e15])
def test_a_quantile_is_the_number_that_was_recorded(unit):
    """Of the numbers with the same nine digits the shortest: 27.3, not a number near it."""
    x = np.round(np.random.default_rng(1).normal(60, 10, 4000)) * unit
    found = quantiles_of([x], (0.1, 0.5, 0.9), Alone(), 3)
    assert all(f"{value:.9g}" in {f"{one:.9g}" for one in x} for value, _ in found)
    assert max(len(repr(value)) for value, _ in found) <= 8
    assert quantiles_of([np.zeros(50)], [0.5], Alone(), 3)[0] == (0.0, 0.0)
    assert quantiles_of([np.full(50, -1e-310)], [0.5], Alone(), 3)[0].within == 0.0


def test_functions_in_units_far_apart_keep_their_digits():
    """All functions of a formula share their sums; numbers 1e18 times smaller beside larger ones would lose digits."""
    frame = table()
    plain = dsba.fit(frame, "sbp ~ ns(age, df=3) + scale(crp) + poly(years, 2)", "linear", sites="site").schema.states
    frame["crp"], frame["years"] = frame["crp"] * 2.0**-120, frame["years"] * 2.0**70
    far = dsba.fit(frame, "sbp ~ ns(age, df=3) + scale(crp) + poly(years, 2)", "linear", sites="site").schema.states
    assert far["ns(age, df=3)"] == plain["ns(age, df=3)"]
    assert np.array(far["scale(crp)"]) * 2.0**120 == pytest.approx(plain["scale(crp)"], rel=1e-14)
    factors = 2.0 ** np.array([70, 70, 0, 140, 280])
    assert np.array(far["poly(years, degree=2)"]) / factors == pytest.approx(plain["poly(years, degree=2)"], rel=1e-14)


def test_no_quantile_of_too_few_rows():
    assert quantiles_of([np.array([1.0, 2.0]), np.array([np.nan])], [0.5], Alone(), 3) is None


# Refused ---------------------------------------------------------------------------------------------

HOSTILE = [
    "y ~ __import__('os').system('true')",
    "y ~ eval('1')",
    "y ~ exec('x')",
    "y ~ open('/etc/passwd')",
    "y ~ I(__import__('os'))",
    "y ~ I(x.__class__)",
    "y ~ I(x[0])",
    "y ~ I(lambda: 0)",
    "y ~ I(x if x else z)",
    "y ~ I(x; z)",
    "y ~ I(f'{x}')",
    "y ~ {x}",
    "y ~ x\\y",
    "y ~ C(x, contr.sum)",
    "y ~ C(x, Treatment(open('a')))",
    "y ~ C(x, __import__('os'))",
    "y ~ bs(x, df=__import__('os'))",
    "y ~ bs(x, df=1e9)",
    "y ~ bs(x, knots=(3, 2))",
    "y ~ bs(x, df=4, boundary=(5,))",
    "y ~ bs(x)",
    "y ~ poly(x, 2.5)",
    "y ~ poly(x, raw=1)",
    "y ~ scale(x, 2)",
    "y ~ (x + z)**99",
    "y ~ (a + b + c + d + e + f + g + h + i + j + k + l + m)**9",
    "y ~ np.log(x)",
    "y ~ log(x, z)",
    "y ~ pmin(x)",
    "y ~ x | z",
    "y ~ %in%",
    "y ~ `a\nb`",
    "y ~ 'x'",
    "y ~ I(" + "-" * 200 + "x)",
    "y ~ @x",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_formulas_are_refused_by_the_parser(text):
    with pytest.raises(dsba.InputError) as caught:
        parse(text)
    assert len(str(caught.value)) < 400


PAYLOADS = [
    "__import__('os').system('true')", "eval('1')", "exec('x=1')", "compile('1','','eval')", "open('a').read()",
    "globals()", "getattr(x, 'a')", "x.__class__.__mro__", "().__class__", "[i for i in x]", "lambda x: 0", "x := 3",
    "f'{x}'", "{x: 1}", "x if x else z", "x;z", "x\\n", "$(true)", "`true; true`.y", "%(x)s", "<script>1</script>",
    "../../etc/passwd", "x' OR '1'='1", "x\x00", "\u202ex", "os.system", "@x", "#x", "!x", "~~x",
]  # fmt: skip
PLACES = [
    "y ~ {}", "{} ~ x", "y ~ x + {}", "y ~ I({})", "y ~ log({})", "y ~ C(x, {})", "y ~ C(x, Treatment({}))",
    "y ~ bs(x, df={})", "y ~ bs(x, knots=({}, 3))", "y ~ poly({}, 2)", "y ~ x:{}", "y ~ (x + {})**2", "y ~ x**{}",
    "Surv(t, {}) ~ x", "cbind({}, z) ~ x",
]  # fmt: skip


def refusal(text):
    try:
        parse(text)
    except dsba.InputError as error:
        return str(error)
    return "accepted"


def test_code_in_any_place_of_a_formula_is_refused():
    """450 formulas: nothing of them is run, and every refusal is one short sentence."""
    events, watching = [], [True]
    sys.addaudithook(lambda event, given: events.append(event) if watching else None)  # a hook stays for ever
    texts = [place.format(payload) for place, payload in product(PLACES, PAYLOADS)]
    found = [refusal(text) for text in texts]
    watching.clear()
    assert {"exec", "compile", "open", "import", "os.system", "subprocess.Popen"} & {*events} == set()
    assert [text for text, said in zip(texts, found, strict=True) if said == "accepted"] == []
    assert [said for said in found if len(said) > 400 or not said.isprintable()] == []


@pytest.mark.parametrize("seed", range(4))
def test_pieces_of_formulas_in_any_order_are_parsed_or_refused(seed):
    rng = np.random.default_rng(seed)
    pieces = [
        *"~+-*/^:.,()=<>01x",
        "**",
        "y ",
        "C(",
        "I(",
        "log(",
        "bs(",
        "df=",
        "'b'",
        "`a b`",
        "Treatment(",
        "Surv(",
        "%",
        "\0",
    ]
    for _ in range(1000):
        text = "".join(rng.choice(pieces, rng.integers(1, 25)))
        with suppress(dsba.InputError):
            found = parse(text)
            assert parse(f"{found.left} ~ {found.right}" if found.left else found.right).terms == found.terms


@pytest.mark.parametrize(
    ("text", "works"),
    [
        ("y ~ np.log(x)", "log(x) without a module"), ("y ~ as.factor(x)", "C(x)"), ("y ~ factor(x)", "C(x)"),
        ("y ~ x.1", "`x.1`"), ("y ~ Q('a b')", "`a name`"), ("y ~ (1|site)", "the option random"),
        ("y ~ offset(x)", "the option offset"), ("Surv(t, e) ~ strata(site)", "the option strata"),
        ("y ~ x == 1", "I(x > 3)"), ("y ~ 2*x", "I(2*x)"), ("y ~ ns(x, knots=c(1, 2))", "(20, 90)"),
        ("y ~ standardize(x)", "scale(x)"), ("y ~ df$x", "the name of the column alone"),
        ("y ~ C(x, contr.sum)", "Treatment, Sum, Poly, Helmert"), ("y ~ interaction(a, b)", "use a:b"),
        ("y ~ rcs(x, 4)", "use ns(x, df=4)"), ("y ~ C(g, levels=['a', 'b'])", "the option levels"),
        ("y ~ ns(x, knots=[20, 90])", "(20, 90) for knots"),
        ("y ~ body mass", "use `body mass` for a name with a space"), ("y ~ log(x, 2)", "log2() and log10()"),
        ("y ~ poly(x, 2, raw=TRUE)", "use x + I(x**2)"), ("y + z ~ x", "computed in I()"),
        ("y ~ bs(x, df=4, Boundary.knots=c(1, 9))", "use boundary=(20, 90)"),
        ("y ~ center(scale(x))", "stands by itself, and not inside another function; a function may call I, log"),
    ],
)  # fmt: skip
def test_refusals_say_what_would_work(text, works):
    with pytest.raises(dsba.InputError) as caught:
        parse(text)
    assert works in str(caught.value)


def test_the_reference_is_the_one_that_the_formula_names():
    """Before, the report and the page of this model called the first level the reference."""
    said = []
    spec = FitSpec(formula="sbp ~ C(stage, Treatment('III')) + C(smoker, Sum) + sex", operator="linear")
    fit = fit_sites([SiteTable("all", table())], spec, dsba.Simulator(spec.topology(1)), notify=said.append)
    lines = [
        line.split("  ")[-1].strip() for line in "\n".join(said).splitlines() if "factor" in line or "text" in line
    ]
    assert lines == ["I, II, III, IV (III is the reference)", "no, yes", "F, M (F is the reference)"]
    page = model_page(fit, "dsba train")
    assert "the first is the reference" not in page
    assert [one[one.index(")[") :] for one in re.findall("<[^<]*…([^<]*)<", page)] == [")[T.I]", ")[T.II]", ")[T.IV]"]
    assert fit.references == {"stage": "III", "sex": "F"}


def test_a_reference_that_is_no_level_is_refused():
    with pytest.raises(dsba.InputError, match="the reference 'V' is not a level of 'stage'; its levels are I, II"):
        dsba.fit(table(), "sbp ~ C(stage, Treatment('V'))", "linear")


@pytest.mark.parametrize("sign", ["*", ":"])
def test_products_have_no_more_terms_than_sums(sign):
    left, right = (" + ".join(f"{name}{n}" for n in range(50)) for name in "ab")
    with pytest.raises(dsba.InputError, match="more than 2000 terms"):
        parse(f"y ~ ({left}){sign}({right})")
