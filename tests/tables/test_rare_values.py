"""One patient's row in a published model: columns and classes that single out fewer than three pooled rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hospital_tables import hospitals, on_sites, pooled, sites_of, terms
from queues import together
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.fitting import FitSpec
from dsba.fitting.disclosure import Guards
from dsba.tables.design import Design, _compared, _differing, _watched, design_tables
from dsba.tables.fit import fit_sites

FORMULA = "cost ~ age + C(sex) + crp + transplant"
SENTENCE = "has the same value in all but fewer than 3 pooled rows"


def with_rare(rows):
    """The hospitals with a column of zeros that is 1 in the first ``rows`` rows of one of them."""
    frames = hospitals()
    for name, frame in frames.items():
        ones = (np.arange(len(frame)) < rows) & (name == "site1")
        frames[name] = frame.assign(transplant=ones.astype(float))
    return frames


def fit_between(frames, formula, operator="linear", guards=None, **wish):
    """What a fit between processes ends with at each of them: a sentence, or results."""
    spec = FitSpec(formula=formula, operator=operator, graph="ring", **wish)

    def attempt(own, net):
        try:
            return fit_sites(own, replace(spec, guards=guards(net.rank)) if guards else spec, net)
        except dsba.InputError as error:
            return str(error)

    return on_sites(frames, attempt)


def patient(frames):
    """The row of the design that the attack is after."""
    row = frames["site1"].iloc[0]
    return np.array([1.0, row["age"], row["sex"] == "M", row["crp"], 1.0])


def attack(fit):
    """What anybody can compute from a published model."""
    return np.linalg.inv(fit.cov_params() / fit.scale)[-1]


def test_the_attack_works_where_it_is_only_warned_of():
    frames = with_rare(1)
    with pytest.warns(UserWarning, match=f"would be refused: the column transplant {SENTENCE}"):
        fit = dsba.fit(pooled(frames), FORMULA, "linear", sites="site")
    np.testing.assert_allclose(attack(fit), patient(frames), rtol=1e-6)


@pytest.mark.parametrize("rows", [1, 2])
def test_between_processes_it_is_refused_before_any_sum_of_the_columns(rows, monkeypatch):
    monkeypatch.setattr("dsba.tables.fit.scaled", lambda *_: pytest.fail("the columns were summed"))
    for found in fit_between(with_rare(rows), FORMULA):
        assert found == f"the column transplant {SENTENCE}, and a model would show these rows."


def test_three_rows_are_enough_and_nothing_is_said(recwarn):
    results = fit_between(with_rare(3), FORMULA)
    assert [result.metadata.notices for result in results] == [()] * 3
    dsba.fit(pooled(with_rare(3)), FORMULA, "linear", sites="site")
    assert not [warning for warning in recwarn if SENTENCE in str(warning.message)]


def test_rows_at_different_sites_are_counted_together():
    frames = with_rare(3)
    frames["site0"].loc[[0, 1, 2], "transplant"] = 1.0
    assert not any(isinstance(found, str) for found in fit_between(frames, FORMULA))
    frames = with_rare(1)
    frames["site0"].loc[0, "transplant"] = 1.0
    assert all(SENTENCE in found for found in fit_between(frames, FORMULA))


def _interaction(frames):
    for frame in frames.values():
        frame["old"], frame["ill"] = (np.arange(len(frame)) % 2 == part for part in (0, 1))
        frame[["old", "ill"]] = frame[["old", "ill"]].astype(float)
    frames["site2"].loc[0, "ill"] = 1.0


def _one_event(frames):
    for frame in frames.values():
        frame["outcome"] = "no"
    frames["site2"].loc[3, "outcome"] = "yes"


def _one_count(frames):
    for frame in frames.values():
        frame["visits"] = 0
    frames["site2"].loc[3, "visits"] = 4


def _one_weight(frames):
    for frame in frames.values():
        frame["days"] = 1.0
    frames["site2"].loc[3, "days"] = 2.0


def _one_gap(frames):
    frames["site2"].loc[3, "lab"] = np.nan


@pytest.mark.parametrize(
    ("spoil", "formula", "operator", "wish", "what"),
    [
        (_interaction, "cost ~ age + old:ill", "linear", {}, "the column old:ill"),
        (_one_event, "outcome ~ age", "logistic", {}, "the outcome"),
        (_one_count, "visits ~ age", "poisson", {}, "the outcome"),
        (_one_weight, "cost ~ age", "linear", {"weights": "days"}, "the column of weights"),
        (_one_weight, "cost ~ age", "linear", {"offset": "days"}, "the offset"),
        (_one_gap, "cost ~ age + lab", "linear", {"missing": "indicator"}, "the column lab[missing]"),
    ],
)
def test_whatever_singles_rows_out_is_refused(spoil, formula, operator, wish, what):
    frames = hospitals()
    spoil(frames)
    assert {f"{what} {SENTENCE}, and a model would show these rows."} == set(
        fit_between(frames, formula, operator, **wish)
    )


def test_only_all_sites_together_can_switch_it_off():
    off = Guards.off()
    results = fit_between(with_rare(1), FORMULA, guards=lambda rank: off)
    assert [result.metadata.notices for result in results] == [()] * 3
    found = fit_between(with_rare(1), FORMULA, guards=lambda rank: Guards() if rank else off)
    assert all(SENTENCE in end for end in found)


def test_a_site_may_ask_for_more_rows():
    guards = [Guards(), Guards(rows_per_level=6), Guards()]
    found = fit_between(with_rare(5), FORMULA, guards=guards.__getitem__)
    assert all("in all but fewer than 6 pooled rows" in end for end in found)


def test_an_ordinary_table_takes_no_further_question():
    """One sum for rows and types, and one to compare the columns, as before there was this guard."""

    class Counting(dsba.Simulator):
        sums = 0

        def sum(self, rows):
            self.sums += 1
            return super().sum(rows)

    net = Counting(dsba.Topology.ring(3))
    design_tables(sites_of(with_rare(3)), terms("cost ~ age + crp + transplant"), net)
    assert net.sums == 2


def random_columns(rng):
    """Blocks of rows at 1 to 4 processes, at least one of them with 6 rows; near-constant in several ways."""
    sizes = [int(n) for n in rng.choice([0, 1, 2, 3, 5, 6, 7, 20], rng.integers(1, 5))] + [int(rng.integers(6, 12))]
    blocks = [np.full((n, 6), 2.5) for n in sizes]
    for j in range(1, 6):
        for _ in range(rng.integers(0, 5)):
            block = blocks[rng.integers(len(blocks))]
            if len(block):
                block[rng.integers(len(block)), j] = rng.choice([0.0, -0.0, 1.0, 7e300, 5e-324])
        if rng.random() < 0.3:
            blocks[rng.integers(len(blocks))][:, j] = rng.choice([2.5, -1.0])
    return blocks


def test_the_number_of_rows_is_that_of_all_rows_together_wherever_they_are():
    """Against a count of the pooled rows; also where sites have other usual values."""
    rng, seen = np.random.default_rng(0), Counter()
    for _ in range(150):
        blocks = random_columns(rng)
        names = tuple("abcdef")
        designs = [
            Design(names, X, np.arange(len(X)) + 100.0 * n, np.ones(len(X)), np.zeros(len(X)))
            for n, X in enumerate(blocks)
        ]
        X = np.concatenate(blocks)
        fewest = [len(X) - max(Counter(column).values()) for column in X.T.tolist()]

        def ask(net, designs=designs):
            own = [designs[net.rank]] if net.size > 1 else designs
            watched = _watched(own, terms("y ~ x"))
            return _differing(watched, _compared(own, watched, 3, net), 3, net)

        answers = together(dsba.Topology.complete(len(blocks)), len(blocks), ask)
        for found in [*answers, ask(dsba.Simulator(dsba.Topology.complete(len(blocks))))]:
            for name, rows in zip(names, fewest, strict=True):
                said = found.get(f"the column {name}", 3)
                assert min(said, 3) == min(rows, 3)
                seen[min(rows, 3)] += 1
    assert min(seen[rows] for rows in range(4)) > 50


def test_the_command_prints_it(tmp_path):
    files = []
    for name, frame in with_rare(1).items():
        files.append(tmp_path / f"{name}.csv")
        frame.to_csv(files[-1], index=False)
    options = ["--formula", FORMULA, "--operator", "linear", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(app, ["train", *map(str, files), *options])
    assert done.exit_code == 0
    assert f"Between owners this would be refused: the column transplant {SENTENCE}" in done.output
