"""Who leads, recomputed from summary.csv alone, for random results; and the figures that show it."""

from __future__ import annotations

import csv
import io
import math
import re
from contextlib import redirect_stdout
from statistics import median
from types import SimpleNamespace

import numpy as np
import pytest
from test_told_apart import results_of

import dsba
from dsba.cli.lab import print_winners
from dsba.lab import ExperimentResults
from dsba.lab.curves import BANDWIDTHS, DECIDING, LATENCIES, SHORT, TOLERANCES, decided_tolerance, fastest
from dsba.lab.figures import KNOWN_METHODS, LOG_AXIS, LOOKS, Panel, draw_panels, in_rows, looks
from dsba.lab.page import contents

METHODS = [{"algorithm": name, "step_size": "auto"} for name in ("dsba", "extra", "dgd", "nids")]


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """Four methods and three seeds on one case."""
    return results_of(tmp_path_factory.mktemp("planned"), lambda case, method: 1.0, method=METHODS, seeds=[0, 1, 2])


def random_results(planned, rng):
    """Histories that fall at random speeds, stop at random budgets, and now and then diverge."""
    histories = {}
    for run in planned.runs:
        length, scale = int(rng.integers(2, 9)), 10.0 ** rng.integers(0, 3)  # few values, so that there are ties
        steps, traffic = scale * np.arange(length), ("rounds", "doubles_max", "bytes_max", "work", "cpu_seconds")
        costs = {name: steps * rng.integers(1, 4) for name in traffic}
        gap = 10.0 ** -np.cumsum(rng.uniform(0, rng.choice([0.05, 0.5, 3.0]), length))
        histories[run.id] = dsba.History({"passes": 1.0 * np.arange(length), "seconds": steps, **costs, "gap": gap})
    results = ExperimentResults(planned.folder, planned.index, histories)
    results.__dict__["_references"] = planned.__dict__["_references"]
    results.__dict__["outcomes"] = {
        id: outcome.model_copy(update={"status": "diverged" if rng.random() < 0.1 else "budget"})
        for id, outcome in results.outcomes.items()
    }
    return results


def from_summary(path):
    """Winner or "undecided" for each cost, the tolerance, and the sentences, from the rows of summary.csv alone."""
    rows = list(csv.DictReader(path.open()))
    methods = list(dict.fromkeys(row["method"] for row in rows))

    def paid(method, cost, tol):
        own = [row[f"{cost}_to_{tol:g}"] for row in rows if row["method"] == method]
        return median(float(value) if value else math.inf for value in own)

    def judged(cost, tol):
        costs = {method: paid(method, cost, tol) for method in methods}
        least = min(costs.values())
        alive = [row for row in rows if row["status"] != "diverged"]
        stopped = [
            method for method in methods if costs[method] == math.inf
            and any(row["method"] == method and float(row[f"{cost}_spent"]) < least for row in alive)
        ]  # fmt: skip
        return [method for method in methods if costs[method] == least], stopped if least < math.inf else []

    reached = {tol: [m for m in methods if paid(m, "passes", tol) < math.inf] for tol in TOLERANCES}
    shared = [tol for tol in TOLERANCES if len(reached[tol]) >= 2]
    open_cells = {tol: sum(bool(judged(cost, tol)[1]) for cost in DECIDING) for tol in shared}
    tol = next((t for t in sorted(shared) if open_cells[t] == min(open_cells.values())), TOLERANCES[0])
    if not reached[tol]:
        return None, {}, []
    cells, sentences = {}, []
    for cost in DECIDING:
        first, stopped = judged(cost, tol)
        cells[cost] = "undecided" if stopped else " = ".join(first)
        if stopped:
            alone = f"only {reached[tol][0]} reached" if len(reached[tol]) == 1 else f"{' = '.join(first)} leads to"
            sentences.append(f"{SHORT[cost]}: {alone} gap {tol:.0e}, {', '.join(stopped)} ran out of budget")
    return tol, cells, sentences


def test_who_leads_is_what_summary_csv_says(planned):
    rng, decided, undecided = np.random.default_rng(0), 0, 0
    for _ in range(200):
        results = random_results(planned, rng)
        results.write_table(results.folder.summary, results.summary())
        tol, cells, sentences = from_summary(results.folder.summary)
        (row,) = results.winners()
        assert row["tolerance"] == tol
        assert {cost: row[cost] for cost in cells} == cells
        said = io.StringIO()
        with redirect_stdout(said):
            print_winners(results)
        told = re.findall(r"Undecided in (.*?) \(", said.getvalue())
        assert told == sentences
        decided += sum(cell != "undecided" for cell in cells.values())
        undecided += len(sentences)
    assert min(decided, undecided) > 20  # both kinds were seen


def test_the_map_is_at_the_tolerance_that_decides_most(planned):
    rng = np.random.default_rng(1)
    for _ in range(5):
        results = random_results(planned, rng)
        (case,) = results.cases
        entrants = results.entrants(case)
        white = {tol: int((fastest(entrants, "gap", tol, case.nodes) < 0).sum()) for tol in TOLERANCES}
        best = decided_tolerance(entrants, "gap", case.nodes)
        assert white[best] == min(white.values())
        some = white[best] < LATENCIES.size * BANDWIDTHS.size
        assert best == (min(tol for tol in TOLERANCES if white[tol] == white[best]) if some else TOLERANCES[0])


# Figures -----------------------------------------------------------------------------------------


def test_no_two_methods_share_colour_and_dash():
    """Of the known methods none do; among twelve methods of a figure none do, whatever they are called."""
    known = looks(KNOWN_METHODS)
    assert len({look.pair for look in known.values()}) == len(KNOWN_METHODS) <= LOOKS
    rng = np.random.default_rng(0)
    for _ in range(50):
        labels = [*rng.choice(KNOWN_METHODS, 6, replace=False), *(f"mine {n}" for n in rng.integers(0, 10**6, 6))]
        assert len({look.pair for look in looks(labels).values()}) == len(labels)


def curve_to(end):
    from dsba.lab.curves import Curve

    return Curve(dsba.History({"rounds": np.array([0.0, end / 2, end]), "gap": np.array([1.0, 0.1, 0.01])}))


def test_panels_against_one_axis_have_one_kind_of_axis():
    narrow = Panel("narrow", "rounds", "gap", {"DSBA": curve_to(10.0), "EXTRA": curve_to(20.0)})
    wide = Panel("wide", "rounds", "gap", {"DSBA": curve_to(10.0), "EXTRA": curve_to(5000.0)})
    both = draw_panels([[narrow, wide]], ["DSBA", "EXTRA"])
    assert {axes.get_xscale() for axes in both.axes} == {"log"}
    assert all(axes.get_xlabel().endswith(LOG_AXIS) for axes in both.axes)
    (alone,) = draw_panels([[narrow]], ["DSBA", "EXTRA"]).axes
    assert alone.get_xscale() == "linear"
    assert not alone.get_xlabel().endswith(LOG_AXIS)


def test_panels_and_columns_are_chosen(tmp_path):
    changes = {"network": [{"graph": graph, "n_nodes": 4} for graph in ("ring", "path", "star")], "method": METHODS}
    results = results_of(tmp_path, lambda case, method: 5.0, **changes)
    figure = results.plot(panels=[results.cases[2], results.cases[0].network], ncols=1)
    assert [axes.get_title().splitlines()[1] for axes in figure.axes] == [results.cases[n].network for n in (2, 0)]
    assert figure.axes[0].get_position().x0 == figure.axes[1].get_position().x0
    with pytest.raises(dsba.InputError, match="unknown panel 'rong'"):
        results.plot(panels=["rong"])
    with pytest.raises(dsba.InputError, match="ncols must be at least 1, got 0"):
        in_rows([1], 0)


def test_a_sweep_over_kappa_by_name(tmp_path):
    lams = (0.1, 0.01, 0.001)
    changes = {"problem": [{"operator": "ridge", "lam": lam} for lam in lams], "method": METHODS[1:2]}
    results = results_of(tmp_path, lambda case, method: 1 / case.pooled.problem.lam, **changes)
    known = results.__dict__["_references"]
    results.__dict__["_references"] = {id: one.model_copy(update={"kappa": 2 / one.lam}) for id, one in known.items()}
    (line,) = results.sweep("kappa", "passes", tol=0.01).axes[0].lines
    assert line.get_xdata() == pytest.approx([2 / lam for lam in lams])
    assert line.get_ydata() == pytest.approx([1 / lam for lam in lams])


def test_one_latex_table_of_several_cases(tmp_path):
    changes = {"network": [{"graph": graph, "n_nodes": 4} for graph in ("ring", "path")], "seeds": [0, 1, 2]}
    results = results_of(tmp_path, lambda case, method: 5.0, method=METHODS, **changes)
    first = results.runs_of(results.cases[0])["EXTRA"]
    for run, passes in zip(first, (2.0, 3.0, 7.0), strict=True):
        columns = {name: [0.0, passes] for name in ("passes", "rounds", "doubles_max", "bytes_max", "seconds")}
        results.partial[run.id] = dsba.History({**columns, "gap": [1.0, 0.01]})
    lines = results.to_latex(["passes", "rounds"], tol=0.01, together=True).splitlines()
    assert sum(line.startswith(r"\begin{tabular}{lrrrr}") for line in lines) == 1
    heads = next(line for line in lines if "multicolumn" in line)
    assert re.findall(r"\\multicolumn\{2\}\{c\}\{(\w+),", heads) == ["ring", "path"]
    row = next(line for line in lines if line.startswith("EXTRA"))
    assert (
        row == r"EXTRA & \textbf{\boldmath 3 (2--7)} & \textbf{\boldmath 3 (2--7)} & "
        r"\textbf{\boldmath 5} & \textbf{\boldmath 5} \\"
    )


def with_constants(results, of):
    """The same results, whose runs used the constants ``of(case, method)``."""
    results.__dict__["outcomes"] = {
        run.id: results.outcomes[run.id].model_copy(update={"chosen": of(results.case(run), run.method)})
        for run in results.runs
    }
    return results


def test_chosen_constants_are_in_legend_table_and_page(tmp_path):
    """All of them: one value where all cases have it, the least and the largest where they differ."""
    changes = {"network": [{"graph": graph, "n_nodes": 4} for graph in ("ring", "path")], "method": METHODS}
    results = results_of(tmp_path, lambda case, method: 5.0, **changes)
    steps = dict(zip((case.id for case in results.cases), (0.25, 1.5), strict=True))
    results = with_constants(results, lambda case, method: {"step_size": steps[case.id], "L_f": 2.0, "rule": "a&b"})
    names = [text.get_text() for text in results.plot().legends[0].get_texts()]
    assert "EXTRA (step 0.25 to 1.5, L_f 2, rule a&b)" in names
    (alone,) = (n.get_text() for n in results.plot(panels=[results.cases[0]]).legends[0].get_texts()[:1])
    assert alone.endswith("(step 0.25, L_f 2, rule a&b)")
    one, other = results.to_latex(["passes"], tol=0.01).split("\n\n")
    assert r"EXTRA & step 0.25, L\_f 2, rule a\&b & " in one
    assert r"EXTRA & step 1.5, L\_f 2, rule a\&b & " in other
    assert r"\begin{tabular}{llr}" in one
    assert r"\begin{tabular}{llrlr}" in results.to_latex(["passes"], tol=0.01, together=True)
    shown = [[curve["constants"] for curve in case["curves"]] for case in contents(results)["cases"]]
    assert [set(case) for case in shown] == [{"step 0.25, L_f 2, rule a&b"}, {"step 1.5, L_f 2, rule a&b"}]


def test_a_legend_with_long_constants_stays_inside_the_figure(tmp_path):
    """Both ends of it were cut off in the demo's figure of logistic regression."""
    changes = {"network": [{"graph": graph, "n_nodes": 4} for graph in ("ring", "path")], "method": METHODS}
    results = results_of(tmp_path, lambda case, method: 5.0, **changes)
    steps = dict(zip((case.id for case in results.cases), (5.95e-05, 0.000249), strict=True))
    results = with_constants(results, lambda case, method: {"step_size": steps[case.id], "L": 77 * steps[case.id]})
    figure = results.plot(ncols=2)
    figure.canvas.draw()
    inside = figure.legends[0].get_window_extent()
    assert figure.bbox.x0 <= inside.x0 < inside.x1 <= figure.bbox.x1


def test_a_value_at_an_edge_is_warned_of_beside_the_latex_table(tmp_path, monkeypatch):
    changes = {"network": [{"graph": graph, "n_nodes": 4} for graph in ("ring", "path")], "method": METHODS}
    results = results_of(tmp_path, lambda case, method: 5.0, **changes)
    edge = SimpleNamespace(warnings=["EXTRA: the best L is at the edge of what may be tried."])
    monkeypatch.setattr(results, "searches", lambda case: [edge] if case == results.cases[1] else [])
    one, other = results.to_latex(["passes"], tol=0.01).split("\n\n")
    assert "% EXTRA: the best L is at the edge" in other
    assert "the edge" not in one
