"""Results folders: what is shown belongs to the present content, and says what it is."""

from __future__ import annotations

import csv
import shutil
import subprocess

import numpy as np
import pytest
from conftest import make_data, make_problem
from small_experiments import AUTO, SMALL, TINY, command, forge_history, shown
from test_specifications import write_libsvm
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.errors import InputError
from dsba.lab import ExperimentResults, jobs, run, runner
from dsba.lab.curves import TOLERANCES, Entrant, verdict
from dsba.lab.figures import KNOWN_METHODS, LOOKS, Panel, draw_panels, looks, rendered
from dsba.lab.finished import require_sound
from dsba.lab.page import as_json, contents
from dsba.lab.reading import read

# Content -----------------------------------------------------------------------------------------

LOSS = """
import math
from dataclasses import dataclass
from typing import ClassVar
import dsba
from scale import SCALE

@dataclass(frozen=True)
class Mine(dsba.ScalarOperator):
    lipschitz: ClassVar[float] = 4.0
    def value(self, u: float, y: float) -> float:
        return 0.5 * SCALE * (u - y) ** 2
    def map(self, u: float, y: float) -> float:
        return SCALE * (u - y)
    def slope(self, u: float, y: float) -> float:
        return SCALE
"""
PLUGIN = """
[stop]
max_passes = 3
[[data]]
name = "breast-cancer"
[[problem]]
operator = "mine.py:Mine"
lam = 0.01
[[network]]
graph = "ring"
n_nodes = 3
[[method]]
algorithm = "extra"
step_size = "auto"
"""


@pytest.mark.full
@pytest.mark.parametrize("edited", ["mine.py", "scale.py"])
def test_an_edited_plugin_is_run_again(edited, tmp_path):
    """Also when only a module that it imports beside it has changed."""
    (tmp_path / "mine.py").write_text(LOSS)
    (tmp_path / "scale.py").write_text("SCALE = 1.0\n")
    (tmp_path / "mine.toml").write_text(PLUGIN)
    arguments = ("compare", "mine.toml", "--out", "out", "--workers", 1, "--plugin", "mine.py")
    first = command(*arguments, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    before = ExperimentResults.load(tmp_path / "out")
    again = command(*arguments, cwd=tmp_path)
    assert ": done" not in again.stdout
    change = {"mine.py": LOSS.replace("SCALE * (u - y)\n", "SCALE * (u - y) * 1.0\n"), "scale.py": "SCALE = 2.0\n"}
    (tmp_path / edited).write_text(change[edited])
    third = command(*arguments, cwd=tmp_path)
    assert third.stdout.count(": done") == 2, third.stdout + third.stderr
    after = ExperimentResults.load(tmp_path / "out")
    assert not {r.id for r in before.index.runs} & {r.id for r in after.runs}
    assert len(after.runs) == 1


def test_changed_data_gives_new_runs_and_no_old_one_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("DSBA_CACHE", str(tmp_path / "cache"))
    file, out = tmp_path / "set", tmp_path / "out"
    X, y = make_data("logistic")
    write_libsvm(file, X, y)
    old = run(TINY | {"data": [{"name": str(file)}]}, out, workers=1)
    write_libsvm(file, 2 * X[:40] + 1, -y[:40])
    new = run(TINY | {"data": [{"name": str(file)}]}, out, workers=1)
    assert not {r.id for r in old.runs} & {r.id for r in new.runs}
    assert {r.id for r in ExperimentResults.load(out).runs} == {r.id for r in new.runs}
    assert new.reference(new.cases[0]).rows == 40
    assert new.index.data != old.index.data
    assert all((h["gap"] >= -1e-9).all() for h in new.histories.values())


def test_data_that_changes_while_it_is_compared_is_found_out(tmp_path, monkeypatch):
    monkeypatch.setenv("DSBA_CACHE", str(tmp_path / "cache"))
    X, y = make_data("logistic")
    write_libsvm(tmp_path / "set", X, y)
    plan = runner.check(TINY | {"data": [{"name": str(tmp_path / "set")}]})
    write_libsvm(tmp_path / "set", X[:40], y[:40])
    with pytest.raises(InputError, match="has changed since the comparison began"):
        run(plan, tmp_path / "out", workers=1)


def test_a_gap_below_zero_is_an_error():
    require_sound(dsba.History({"gap": [1.0, -1e-12, float("nan")]}), "EXTRA")
    with pytest.raises(InputError, match=r"EXTRA has a gap of -0\.55, below zero"):
        require_sound(dsba.History({"gap": [1.0, -0.55, float("nan")]}), "EXTRA")


def test_a_gap_below_zero_is_neither_kept_nor_shown(finished, tmp_path, monkeypatch):
    def wrong(*args, **options):
        result = solve(*args, **options)
        rows = result.history.to_dict()
        rows["gap"][-1] = -0.55
        return dsba.Result(**{**vars(result), "history": dsba.History(rows)})

    solve = jobs.solve
    monkeypatch.setattr(jobs, "solve", wrong)
    with pytest.raises(InputError, match=r"EXTRA: .* has a gap of -0\.55"):
        run(TINY, tmp_path / "new", workers=1)
    assert not list((tmp_path / "new" / "runs").iterdir())

    out = tmp_path / "out"
    shutil.copytree(finished, out)
    forge_history(out, lambda columns: columns["gap"].__setitem__(-1, -0.55))
    with pytest.raises(InputError, match=r"EXTRA on breast cancer .* has a gap of -0\.55"):
        shown(out)


def test_identifiers_do_not_contain_the_version(monkeypatch):
    before = {r.id for r in runner.check(TINY).runs}
    monkeypatch.setattr("dsba._version.__version__", "9.9")
    monkeypatch.setattr("dsba.lab.environment.__version__", "9.9")
    assert {r.id for r in runner.check(TINY).runs} == before


def test_the_commit_of_the_experiment_is_recorded(tmp_path):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    if shutil.which("git") is None:
        pytest.skip("there is no git on this machine")
    (tmp_path / "mine.toml").write_text(read(TINY).to_toml())
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "mine.toml"], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    results = run(tmp_path / "mine.toml", tmp_path / "out", workers=1)
    assert results.environment.commit == head
    assert head in as_json(contents(results))


@pytest.mark.full
def test_force_repeats_one_method(tmp_path):
    (tmp_path / "mine.toml").write_text(read(TINY).to_toml())
    arguments = ("compare", "mine.toml", "--out", "out", "--workers", 1)
    assert command(*arguments, cwd=tmp_path).stdout.count(": done") == 3
    one = command(*arguments, "--force", "extra", cwd=tmp_path)
    assert one.stdout.count(": done") == 1, one.stdout + one.stderr
    assert "EXTRA" in one.stdout.partition(": done")[0]
    every = command("compare", "--force", "mine.toml", "--out", "out", "--workers", 1, cwd=tmp_path)
    assert every.stdout.count(": done") == 3, every.stdout + every.stderr


# Winners and budgets -----------------------------------------------------------------------------


def history(gaps, passes):
    names = ("passes", "work", "rounds", "doubles_max", "bytes_max", "seconds", "cpu_seconds")
    return dsba.History({"gap": gaps, **dict.fromkeys(names, passes)})


def test_a_method_that_was_stopped_early_is_undecided_and_not_beaten():
    far = Entrant([history([1.0, 1e-4], [0, 10])], ["budget"])
    early = Entrant([history([1.0, 1e-2], [0, 5])], ["budget"])
    late = Entrant([history([1.0, 1e-2], [0, 10])], ["budget"])
    wild = Entrant([history([1.0, 1e9], [0, 5])], ["diverged"])
    assert verdict({"far": far, "early": early}, "gap", 1e-3, "passes").winner == "undecided"
    assert verdict({"far": far, "early": early}, "gap", 1e-3, "passes").stopped == ["early"]
    assert verdict({"far": far, "late": late, "wild": wild}, "gap", 1e-3, "passes").winner == "far"
    assert verdict({"early": early, "late": late}, "gap", 1e-3, "passes").first == []


def test_the_cost_of_several_seeds_is_their_median():
    """Seeds that stop at the tolerance after different passes: the median curve ends with the first, the costs not."""
    seeds = [history([1.0, 1e-9], [0, 5]), history([1.0, 1e-2, 1e-9], [0, 5, 7]), history([1.0, 1e-2], [0, 5])]
    assert Entrant(seeds, ["converged", "converged", "budget"]).cost("gap", 1e-8, "passes") == 7
    assert Entrant(seeds, ["converged", "converged", "budget"]).status == "2 converged, 1 budget"


def test_methods_have_budgets_of_their_own(tmp_path):
    methods = [
        {"algorithm": "extra", "step_size": "auto", "max_passes": 6},
        {"algorithm": "extra", "step_size": "auto", "label": "rounds", "max_rounds": 2},
        {"algorithm": "extra", "step_size": "auto", "label": "doubles", "max_doubles": 100},
        {"algorithm": "dgd", "step_size": "auto"},
    ]
    results = run(TINY | {"method": methods}, tmp_path, workers=1)
    ends = {r.method: results.histories[r.id].last() for r in results.runs}
    assert ends["EXTRA"]["passes"] == 6
    assert ends["rounds"]["rounds"] == 2
    assert 100 <= ends["doubles"]["doubles_max"] < 160  # a round is 60
    assert ends["DGD"]["passes"] == 3
    assert "2 rounds" in results.outcomes[results.runs[1].id].message
    timed = runner.check(TINY | {"method": [{"algorithm": "extra", "step_size": "auto", "max_seconds": 7.0}]})
    assert timed.runs[0].stop.max_seconds == 7.0
    assert timed.runs[0].id != runner.check(TINY | {"method": AUTO[:1]}).runs[0].id


def test_records_come_early_and_rounds_end_a_run():
    """The engine's two new keywords, with the counts worked out by hand: 60 rows at 4 nodes, 15 steps a pass."""
    problem, topology = make_problem(), dsba.Topology.ring(4)
    result = dsba.solve(problem, topology, "dsba", max_passes=2, record_first=0.25)
    assert result.history["iteration"].tolist() == [0, 4, 8, 15, 30]  # a quarter, half, one, two passes; rounded up
    tiny = dsba.solve(problem, topology, "dsba", max_passes=1, record_first=5e-324)  # the ratio is no float
    assert tiny.history["iteration"].tolist() == list(range(16))
    whole = dsba.solve(problem, topology, "dsba", max_passes=2)
    assert np.array_equal(whole.Z, result.Z)
    counted = dsba.solve(problem, topology, "dsba", max_passes=None, max_rounds=7)
    assert counted.history["rounds"][-1] == 7
    assert counted.status == "budget"


def test_the_command_says_undecided(tmp_path):
    """EXTRA reaches the tolerance; DGD is stopped after a pass."""
    methods = [{"algorithm": "extra", "step_size": 0.2}, {"algorithm": "dgd", "step_size": 1e-6, "max_passes": 1}]
    results = run(SMALL | {"stop": {"max_passes": 60}, "method": methods}, tmp_path, workers=1)
    row = results.winners()[0]
    assert row["tolerance"] is not None
    assert row["passes"] == "undecided"
    assert row["leading"]["passes"] == "EXTRA"
    shown = CliRunner().invoke(app, ["report", str(tmp_path)])
    only = f"only EXTRA reached gap {row['tolerance']:.0e}"
    assert f"Undecided in passes: {only}, DGD ran out of budget (breast cancer" in shown.output
    verdicts = contents(results)["cases"][0]["verdicts"][TOLERANCES.index(row["tolerance"])]
    assert verdicts["passes"] == {"first": ["EXTRA"], "stopped": ["DGD"]}


# Step sizes --------------------------------------------------------------------------------------


def test_a_step_size_that_ends_worse_than_it_was_is_caught(tmp_path, monkeypatch):
    """The best step of the first round becomes worse later. The last round is as long as a run, and it is not taken."""
    monkeypatch.setattr(dsba.algorithms.EXTRA, "factors", (0.5, 1.0))
    real = jobs.solve

    def falling(problem, topology, algorithm, **options):
        result = real(problem, topology, algorithm, **options)
        auto = dsba.algorithms.EXTRA().resolved(problem, topology).alpha
        if algorithm.alpha >= 0.99 * auto and options["max_passes"] > 6:
            rows = result.history.to_dict()
            rows["gap"][-1] = 0.083
            result = dsba.Result(**{**vars(result), "history": dsba.History(rows)})
        return result

    monkeypatch.setattr(jobs, "solve", falling)
    changes = {"stop": {"max_passes": 12}, "tune": {"passes": 6}, "method": [{"algorithm": "extra"}]}
    results = run(SMALL | changes, tmp_path, workers=1, tune_only=True)
    table = results.folder.read_search(results.index.searches[0].id)
    assert table.factor < 0.99
    chosen = next(c for c in table.candidates if c.chosen)
    assert chosen.passes == 12


def test_every_tuned_number_has_bounds_and_its_edge_is_told(tmp_path):
    """DLM's c in bounds far too large: the least is the best, and a command says that it is at the edge."""
    changes = {"method": [{"algorithm": "dlm", "bounds": {"c": [10.0, 40.0]}}]}
    results = run(SMALL | changes, tmp_path, workers=1, tune_only=True)
    table = results.folder.read_search(results.index.searches[0].id)
    assert {10.0} < {c.parameters["c"] for c in table.candidates}
    assert table.parameters["c"] == 10.0
    assert "c" in table.at_edge
    (warning,) = [w for w in results.warnings() if "the best c is at the edge" in w]
    rows = list(csv.DictReader((tmp_path / "tuning.csv").open()))
    assert "at the edge" in next(row["warning"] for row in rows if row["chosen"] == "True")
    (tmp_path / "mine.toml").write_text(read(SMALL | changes).to_toml())
    said = CliRunner().invoke(app, ["tune", str(tmp_path / "mine.toml"), "--out", str(tmp_path)])
    assert f"Warning: {warning}" in said.output


def test_a_search_in_which_nothing_holds_tries_everything_and_says_so(tmp_path, monkeypatch):
    real = jobs.solve

    def falling(*args, **options):
        result = real(*args, **options)
        rows = result.history.to_dict()
        rows["gap"][-1] = 5 * min(rows["gap"])
        return dsba.Result(**{**vars(result), "history": dsba.History(rows)})

    monkeypatch.setattr(jobs, "solve", falling)
    results = run(SMALL | {"method": [{"algorithm": "extra"}]}, tmp_path, workers=1, tune_only=True)
    assert {c.passes for c in results.folder.read_search(results.index.searches[0].id).candidates} == {12}
    assert any("every candidate ends above the best it had reached" in one for one in results.warnings())


def test_a_search_may_have_several_seeds(tmp_path):
    tune = {"seeds": [0, 1, 2]}
    results = run(SMALL | {"tune": tune, "method": [{"algorithm": "dsba"}]}, tmp_path, workers=1, tune_only=True)
    table = results.folder.read_search(results.index.searches[0].id)
    chosen = next(c for c in table.candidates if c.chosen)
    case = runner.check(SMALL).cases[0]
    finals = []
    for seed in tune["seeds"]:
        problem = case.build(seed)
        z = dsba.optimum(problem).z
        step = chosen.parameters["step_size"]
        solved = dsba.solve(problem, case.network.topology, "dsba", step, max_passes=12, seed=seed, reference=z)
        finals.append(solved.history["gap"][-1])
    assert chosen.value == pytest.approx(np.median(finals), rel=1e-6)
    assert finals[0] != pytest.approx(np.median(finals), rel=1e-3, abs=0.0)  # one seed would not do


def test_a_run_that_falls_back_is_told(finished):
    results = ExperimentResults.load(finished)
    id = results.runs[0].id
    fallen = results.histories[id].to_dict()
    fallen["gap"][-1] = 0.9
    results.histories[id] = dsba.History(fallen)
    (warning,) = results.warnings()
    assert "ended far above the best gap it had reached" in warning
    assert contents(results)["warnings"] == [warning]


# Figures -----------------------------------------------------------------------------------------


def test_every_method_has_a_look_of_its_own():
    """A name without one takes what is free, which depends on the other methods of a figure."""
    assert {name.upper() for name in dsba.algorithms.names()} <= set(KNOWN_METHODS)
    assert len(KNOWN_METHODS) < LOOKS


def test_a_look_belongs_to_the_method_and_not_to_its_place():
    one, other = looks(["DSBA", "mine", "EXTRA"]), looks(["EXTRA", "DSBA", "mine"])
    assert one == other
    assert looks(["EXTRA"])["EXTRA"] == one["EXTRA"]
    many = ["DSBA", "DSA", "EXTRA", "a", "b", "c", "d"]
    assert len({look.color for look in looks(many).values()}) == len(many)
    assert looks(many) == looks(many[::-1])


def test_every_panel_says_data_and_network(finished):
    results = ExperimentResults.load(finished)
    for figure in (results.plot(), *(f for _, f in results.figures())):
        for axes in figure.axes:
            assert "breast cancer" in axes.get_title()
            assert "ring, N = 4" in axes.get_title()


def test_there_are_points_before_the_first_pass(finished):
    results = ExperimentResults.load(finished)
    passes = {run.method: results.histories[run.id]["passes"] for run in results.runs}
    assert ((passes["DSBA"] > 0) & (passes["DSBA"] < 1)).sum() == 4
    assert passes["EXTRA"].tolist() == [0, 1, 2, 3]


def test_labels_are_shown_as_they_are(finished):
    """Dollar signs are no formula, and a leading underscore hides nothing."""
    curve = next(iter(ExperimentResults.load(finished).curves(ExperimentResults.load(finished).cases[0]).values()))
    labels = ["$5 and $\\foo$", "_hidden"]
    figure = draw_panels([[Panel("50$ $x", "passes", "gap", dict.fromkeys(labels, curve))]], labels, "a $ b $")
    assert rendered(figure, "png")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [r"\$5 and \$\foo\$", "_hidden"]
