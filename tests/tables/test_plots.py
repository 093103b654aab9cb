"""Plots show the numbers of what they plot: matplotlib writes every text of an SVG file as a comment."""

from __future__ import annotations

import re

import numpy as np
import pytest
from reference_values import table

import dsba

pytestmark = [pytest.mark.filterwarnings("error"), pytest.mark.filterwarnings("ignore:Between owners")]


@pytest.fixture
def drawn(tmp_path):
    """The texts of a plot, which is drawn twice to the same bytes."""

    def draw(plot):
        files = [tmp_path / name for name in ("a.svg", "b.svg")]
        for file in files:
            plot(file)
        assert files[0].read_bytes() == files[1].read_bytes()
        return re.findall(r"<!-- (.*?) -->", files[0].read_text(), re.DOTALL)

    return draw


@pytest.fixture(scope="module")
def own():
    frame = table()
    return dsba.fit(frame, "readmitted ~ age + treated", "logistic", sites="site").by_site(frame, sites="site")


def test_a_forest_plot_has_all_sites_and_the_common_effect(own, drawn):
    texts, found = drawn(lambda file: own.forest("treated", file)), own.meta("treated")
    for site, share in zip(found.sites, found.weights, strict=True):
        assert f"{site} ({share:.0f} %)" in texts
    assert "All sites (REML)" in texts
    for row in np.exp(found.to_frame()[["estimate", "lower", "upper"]].to_numpy()):
        assert "{:.2f} ({:.2f} to {:.2f})".format(*row) in texts
    assert any(text.startswith("odds ratio of treated") for text in texts), texts


def test_a_forest_plot_shows_where_another_site_is_expected(drawn):
    given = {"a": (0.1, 0.1), "b": (0.9, 0.1), "c": (-0.4, 0.2), "d": (0.5, 0.1)}
    between = drawn(lambda file: dsba.meta(given).forest(file, "difference"))
    assert any("prediction interval" in text for text in between)
    (said,) = (text for text in between if "prediction interval" in text)
    assert said.endswith("{:.2f} to {:.2f}".format(*dsba.meta(given).prediction()))
    fixed = drawn(lambda file: dsba.meta(given, "fixed").forest(file, "difference"))
    assert not any("prediction interval" in text for text in fixed)


def test_curves_have_the_numbers_at_risk_below(drawn):
    curves, times = dsba.survival_curve(table(), "Surv(time, died) ~ stage", sites="site"), [0, 300, 900]
    texts = drawn(lambda file: curves.plot(file, times))
    below = texts[texts.index("at risk") :]
    for group, row in curves.at_risk(times).iterrows():
        at = below.index(group)
        assert below[at + 1 : at + 4] == [str(number) for number in row]
    assert "stage" in texts
    assert "log-rank p &lt; 0.001" in texts or "log-rank p < 0.001" in texts


def test_a_path_is_shown_with_its_cross_validation(drawn):
    formula = "sbp ~ age + bmi + treated"
    path = dsba.elastic_net(table(), formula, sites="site", lambdas=[3.0, 1.0, 0.4, 0.3], folds=3)
    assert path.lambda_min > 0.0
    texts = drawn(path.plot)
    assert {"age", "bmi", "treated", "lambda.min", "lambda.1se", "cross-validated loss"} <= {*texts}
    counts = [str(count) for count in (path.coefficients.iloc[:, 1:] != 0.0).sum(axis=1)]
    assert [text for text in texts[: texts.index("coefficients")] if text.isdigit()][-4:] == counts
    for folds in (None, 3):  # 0 has no place on a logarithmic axis
        texts = drawn(dsba.elastic_net(table(), formula, sites="site", lambdas=[1.0, 0.4, 0.0], folds=folds).plot)
        assert "age" in texts
        assert "lambda.min" not in texts


def test_what_cannot_be_drawn_is_refused(own, tmp_path):
    path = dsba.elastic_net(table(), "sbp ~ age + bmi", sites="site", lambdas=[0.0])
    with pytest.raises(dsba.InputError, match="two lambdas above 0"):
        path.plot(tmp_path / "a.svg")
    with pytest.raises(dsba.InputError, match=r"a \.pdf, \.svg or \.png file"):
        own.forest("treated", tmp_path / "a.txt")
    assert not list(tmp_path.iterdir())
