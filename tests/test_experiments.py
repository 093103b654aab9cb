"""The workbench: specifications, plans, tuning, resuming, reports, and errors in one sentence."""

from __future__ import annotations

import csv
import errno
import json
import math
import os
import signal
import subprocess
import sys
import time
import tomllib

import numpy as np
import pytest
from conftest import make_data
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.errors import InputError
from dsba.experiments import Experiment, Results, jobs, paper, plan, run, runner, tuning
from dsba.experiments.example import EXAMPLE
from dsba.experiments.reading import read
from dsba.experiments.sources import Sources
from dsba.report.curves import costs, median_curve
from dsba.report.folder import Folder

SMALL = {
    "title": "small",
    "stop": {"max_passes": 12},
    "tune": {"passes": 6},
    "data": [{"name": "breast-cancer"}],
    "problem": [{"operator": "ridge", "lam": 0.01}],
    "network": [{"graph": "ring", "n_nodes": 4}],
    "method": [{"algorithm": "dsba"}, {"algorithm": "extra", "step_size": "auto"}],
}


def spec(**changes):
    return read(SMALL | changes)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return run(spec(), tmp_path_factory.mktemp("small"), workers=1)


# Specifications ----------------------------------------------------------------------------------


def test_an_experiment_survives_the_way_through_toml():
    experiment = spec(seeds=[3, 1], splits=["label"], metrics=["consensus"])
    assert read(tomllib.loads(experiment.to_toml())) == experiment


def test_the_example_is_valid_and_every_key_in_it_is_known():
    experiment = read(tomllib.loads(EXAMPLE))
    assert len(plan.make(experiment).runs) == 2 * 3 * 3
    uncommented = EXAMPLE.replace("# metrics", "metrics").replace("# tol = ", "tol = ").replace("# label", "label")
    assert read(tomllib.loads(uncommented)).metrics == ("gap", "consensus")


GOOD = """seeds = [0]
[[data]]
name = 'breast-cancer'
[[problem]]
operator = 'ridge'
[[method]]
algorithm = 'dsba'
"""
BAD = {
    "seeds = [0\n": "not TOML",
    f"seeds = [{'9' * 5_000}]\n": "not TOML",
    "[[method]]\nalgorithm = 'dsb'\n": r"line 9: method\.1\.algorithm: unknown algorithm 'dsb'; did you mean 'dsba'",
    "[[method]]\nalgorithm = 'dsa'\n\ntabel = 'full'\n": r"line 11: method\.1\.tabel: unknown option of dsa",
    "[stop]\nmax_pases = 3\n": r"line 9: stop\.max_pases: unknown key; known here: max_passes",
    "[stop]\nmax_passes = 'many'\n": r"line 9: stop\.max_passes: .* got 'many'",
    "[[problem]]\noperator = 'rigde'\n": r"line 9: problem\.1\.operator: unknown operator 'rigde'",
    "[[network]]\ngraph = 'rng'\n": r"line 9: network\.0\.graph: unknown graph",
    "[[network]]\nn_nodes = 30\np = 0.001\n": r"line 8: network\.0: none of 1000 random graphs",
    "[[method]]\nalgorithm = 'dsba'\n": "two methods are called 'DSBA'",
    "[[method]]\nalgorithm = 'extra'\nstep_size = 'fast'\n": "unknown step size of EXTRA 'fast'",
    "[[data]]\nname = 'no-such-file'\n": "no file 'no-such-file'",
    "[[problem]]\noperator = {a = 1}\n": r"line 9: problem\.1\.operator.*: unknown operator {'a': 1}",
    "[[problem]]\noperator = '..:X'\n": r"line 9: problem\.1\.operator: .* a module's name begins with no dot",
    "[[problem]]\noperator = 'huber'\ndelta = 'x'\n": r"line 10: problem\.1\.delta: 'delta' must be a number, got 'x'",
    "[[problem]]\noperator = 'ridge'\nlam = 5e-324\n": "lam must be 0 or at least 1e-300, got 5e-324",
    "[[method]]\nalgorithm = {a = 1}\n": r"line 9: method\.1\.algorithm.*: unknown algorithm {'a': 1}",
    "[[method]]\nalgorithm = 'dsa'\ngrid = {step_size = []}\n": r"line 10: method\.1\.grid\.step_size: .* at least 1",
    "[[network]]\ngraphs = 3\n": r"line 9: network\.0\.graphs: 'graphs' must be a list, got 3",
    "[[network]]\nn_nodes = 100000\n": r"line 8: network\.0: a graph may have at most 10000 nodes",
}


@pytest.mark.parametrize(("text", "message"), BAD.items(), ids=range(len(BAD)))
def test_bad_files_are_refused_with_the_line(text, message, tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text(GOOD + text)
    with pytest.raises(InputError, match=message):
        runner.check(file)


def test_a_method_that_does_not_apply_is_left_out_with_the_reason():
    made = plan.make(spec(problem=[{"operator": "auc"}], method=[{"algorithm": "dsba"}, {"algorithm": "ssda"}]))
    assert [r.method.title for r in made.runs] == ["DSBA"]
    assert "SSDA is left out for auc" in made.left_out[0]


def test_identifiers_depend_on_what_is_computed_only():
    one, more = plan.make(spec()), plan.make(spec(method=[{"algorithm": "dsa"}, *SMALL["method"]], title="other"))
    assert {r.id for r in one.runs} < {r.id for r in more.runs}
    longer = plan.make(spec(stop={"max_passes": 13}))
    assert not {r.id for r in one.runs} & {r.id for r in longer.runs}
    assert not {t.id for t in one.tunings} & {t.id for t in longer.tunings}  # a search is verified at the run's budget


DATA = {"breast-cancer": "rows", "other": "test rows"}
CODE = {"auc": "operator", "extra": "algorithm", "dsba": "tuned algorithm", "mine.py:metric": "metric"}


def content_ids(data=DATA, code=CODE, **changes):
    """Of runs and searches of an experiment whose data and code have these digests."""
    methods = [{"algorithm": "extra", "step_size": 0.1}, {"algorithm": "dsba", "batch_size": 2}]
    base = {"data": [{"name": "breast-cancer", "test": "other"}], "problem": [{"operator": "auc", "lam": 0.01}]}
    base |= {"metrics": ["mine.py:metric"], "method": methods}
    return {job.id for job in plan.make(spec(**base | changes), Sources(data, code)).jobs if job.needs}


@pytest.mark.parametrize("changed", [*DATA, *CODE])
def test_identifiers_follow_the_content_of_data_and_code(changed):
    changes = {"data": DATA | {changed: "new"}} if changed in DATA else {"code": CODE | {changed: "new"}}
    before, after = content_ids(), content_ids(**changes)
    kept = {"extra": {"dsba", "tune"}, "dsba": {"extra"}}.get(changed, set())  # what the code is not of
    assert before & after == {id for id in before if any(f"-{word}-" in id for word in kept)}


@pytest.mark.parametrize(
    "method", [{"step_size": 0.2}, {"max_passes": 3}, {"max_seconds": 3.0}, {"max_rounds": 3}, {"max_doubles": 3}]
)
def test_identifiers_follow_the_settings_of_a_method(method):
    given = {"algorithm": "dsba", "label": "same", "step_size": 0.1, "batch_size": 2}
    assert not content_ids(method=[given]) & content_ids(method=[given | method])
    tuned = {"algorithm": "dsba", "label": "same", "batch_size": 2}
    assert not content_ids(method=[tuned]) & content_ids(method=[tuned | {"batch_size": 3}])


def test_every_combination_has_its_own_identifier():
    changes = {
        "seeds": [0, 1],
        "splits": ["random", "label"],
        "data": [{"name": "breast-cancer"}, {"name": "synthetic-text"}],
        "problem": [{"operator": "ridge", "lam": 0.01}, {"operator": "ridge", "lam": 0.1}, {"operator": "ridge"}],
        "network": [{"graph": "ring", "n_nodes": 4}, {"graph": "ring", "n_nodes": 5}, {"seed": 0}, {"seed": 1}],
        "method": [{"algorithm": "dsba"}, {"algorithm": "dsba", "table": "full", "label": "full"}],
    }
    made = plan.make(spec(**changes))
    cases = 2 * 2 * 3 * 4
    assert len({run.id for run in made.runs}) == len(made.runs) == cases * 2 * 2
    assert len({case.id for case in made.cases}) == cases
    assert len(made.tunings) == cases * 2
    assert len(made.jobs) == 2 * 3 + cases * 2 + cases * 2 * 2


def test_communication_shares_one_search():
    methods = [{"algorithm": "dsba"}, {"algorithm": "dsba", "communication": "sparse"}]
    made = plan.make(spec(method=methods))
    assert [r.method.title for r in made.runs] == ["DSBA", "DSBA-s"]
    assert len(made.tunings) == 1


def test_the_paper_is_the_paper():
    experiment = paper(["a9a"], seeds=[1])
    network = experiment.network[0]
    assert (network.n_nodes, network.p, network.mixing) == (10, 0.4, "laplacian")
    assert [p.operator for p in experiment.problem] == ["ridge", "logistic", "auc", "auc-paper"]
    assert all(p.lam is None for p in experiment.problem)  # 1/(10 Q)
    assert all(m.tuned for m in experiment.method)
    made = plan.make(experiment, Sources())  # the data is not here
    on_auc = {r.method.algorithm for r in made.runs if r.case.pooled.problem.operator == "auc"}
    assert on_auc == {"dsba", "dsa", "extra"}


# Data --------------------------------------------------------------------------------------------


def write_libsvm(path, X, y):
    entries = [" ".join(f"{j + 1}:{float(v)!r}" for j, v in enumerate(row) if v) for row in X]
    rows = [f"{label:g} {entry}" for label, entry in zip(y, entries, strict=True)]
    path.write_text("\n".join(rows) + "\n")


def test_more_than_two_classes_need_a_binarisation(tmp_path, monkeypatch):
    monkeypatch.setenv("DSBA_CACHE", str(tmp_path / "cache"))
    X, _ = make_data("logistic")
    y = np.arange(len(X)) % 5 + 1.0
    write_libsvm(tmp_path / "five", X, y)
    name = str(tmp_path / "five")
    with pytest.raises(InputError, match="has 5 classes and logistic needs two"):
        run(spec(data=[{"name": name}], problem=[{"operator": "logistic"}]), tmp_path / "a", workers=1)
    case = plan.make(spec(data=[{"name": name, "positive": "half"}])).cases[0]
    assert (jobs.build(case, 0).y > 0).sum() == (y <= 2).sum()
    case = plan.make(spec(data=[{"name": name, "positive": [5, 1]}])).cases[0]
    assert (jobs.build(case, 0).y > 0).sum() == np.isin(y, [1, 5]).sum()
    with pytest.raises(InputError, match="positive names the class 9"):
        jobs.build(plan.make(spec(data=[{"name": name, "positive": [9]}])).cases[0], 0)


def test_the_test_set_beside_the_data_is_used(tmp_path, monkeypatch):
    from sklearn.metrics import roc_auc_score

    monkeypatch.setenv("DSBA_DATA", str(tmp_path))
    monkeypatch.setenv("DSBA_CACHE", str(tmp_path / "cache"))
    X, y = make_data("auc", rows=80)
    wider = np.hstack([X, np.ones((80, 2))])  # columns the training set has not
    write_libsvm(tmp_path / "set", X[:50], y[:50])
    write_libsvm(tmp_path / "set.t", wider[50:], y[50:])
    changes = {"data": [{"name": "set"}], "problem": [{"operator": "auc", "lam": 0.01}]}
    changes["method"] = [{"algorithm": "dsba", "step_size": "auto"}]
    results = run(spec(**changes), tmp_path / "out", workers=1)
    case = results.cases[0]
    assert results.facts(case).test_set == "set.t"
    z = results.folder.read_optimum(case.reference)
    scores = (X[50:] / np.linalg.norm(X[50:], axis=1, keepdims=True)) @ z[:12]
    assert results.facts(case).test_auc == pytest.approx(roc_auc_score(y[50:], scores), abs=1e-12)
    assert "test_auc" in results.histories[results.runs[0].id]


# Tuning ------------------------------------------------------------------------------------------


def test_budgets_double_and_end_with_the_whole():
    assert tuning.budgets(4, 16) == [8, 16]
    assert tuning.budgets(12, 16) == [4, 4, 8, 16]
    assert tuning.budgets(1, 16) == [16]


def the_search(results):
    return results.folder.read_search(results.index.searches[0].id)


def test_the_search_finds_the_best(small):
    """Every candidate run to the end by hand, those beyond the grid too: none beats the chosen one."""
    table = the_search(small)
    case = plan.make(spec()).cases[0]
    problem, topology = jobs.build(case, 0), case.network.topology
    z_star = dsba.optimum(problem).z
    finals = {}
    tried = [candidate.parameters["step_size"] for candidate in table.candidates]
    assert {candidate.alpha for candidate in dsba.DSBA().grid(problem, topology)} <= set(tried)
    for alpha in tried:
        result = dsba.solve(problem, topology, "dsba", alpha, max_passes=12, reference=z_star)
        finals[alpha] = math.inf if result.status == "diverged" else result.history["gap"][-1]
    assert table.parameters["step_size"] == min(finals, key=finals.get)
    assert [c.chosen for c in table.candidates].count(True) == 1
    assert table.at_edge == (["step_size"] if table.parameters["step_size"] in (min(tried), max(tried)) else [])


def test_the_best_has_neighbours_within_a_factor(small):
    table = the_search(small)
    best = table.parameters["step_size"]
    tried = sorted(candidate.parameters["step_size"] for candidate in table.candidates)
    k = tried.index(best)
    assert tried[k + 1] / best <= 1.501
    assert best / tried[k - 1] <= 1.501


def test_the_search_goes_on_beyond_the_grid(tmp_path, monkeypatch):
    """A grid far too small in its step sizes: the search leaves it, and says where it had to stop."""
    monkeypatch.setattr(dsba.DSBA, "factors", (1e-3, 2e-3))
    results = run(spec(), tmp_path, workers=1, tune_only=True)
    table = the_search(results)
    factors = [candidate.factor for candidate in table.candidates]
    assert np.allclose(factors[: 2 + tuning.BEYOND], [1e-3 * 2**k for k in range(2 + tuning.BEYOND)])
    assert table.at_edge == ["step_size"]
    assert table.factor == max(factors)
    assert any("step_size is at the edge" in sentence for sentence in results.warnings())
    chosen = next(row for row in csv.DictReader((tmp_path / "tuning.csv").open()) if row["chosen"] == "True")
    assert "step_size is at the edge" in chosen["warning"]


def test_what_was_chosen_is_what_runs(tmp_path):
    """DLM tunes two numbers, and its automatic c follows the step size: both must reach the run."""
    results = run(spec(method=[{"algorithm": "dlm"}]), tmp_path, workers=1)
    table = the_search(results)
    assert all(set(c.parameters) == {"step_size", "c"} for c in table.candidates)
    ran = results.outcomes[results.runs[0].id].algorithm
    assert all(f"{name}={value!r}" in ran for name, value in table.parameters.items())


def test_tune_only_writes_the_table_and_makes_no_run(tmp_path):
    results = run(spec(), tmp_path, workers=1, tune_only=True)
    assert results.runs == []
    rows = list(csv.DictReader((tmp_path / "tuning.csv").open()))
    assert len(rows) == len(the_search(results).candidates)
    assert {row["method"] for row in rows} == {"DSBA"}


# Results -----------------------------------------------------------------------------------------


def test_a_run_is_what_solve_gives(small):
    of_extra = next(r for r in plan.make(spec()).runs if r.method.algorithm == "extra")
    problem, topology = jobs.build(of_extra.case, 0), of_extra.case.network.topology
    z_star = small.folder.read_optimum(of_extra.case.pooled.id)
    straight = dsba.solve(problem, topology, "extra", max_passes=12, reference=z_star).history
    kept = small.histories[of_extra.id]
    for column in straight:
        if column != "seconds":
            assert np.array_equal(straight[column], kept[column]), column  # JSON keeps every bit


def test_summary_counts_the_first_record_at_the_tolerance(small):
    rows = list(csv.DictReader((small.folder.root / "summary.csv").open()))
    assert [row["method"] for row in rows] == ["DSBA", "EXTRA"]
    history = small.histories[small.runs[0].id]
    k = int(np.argmax(history["gap"] <= 1e-3))
    assert history["gap"][k] <= 1e-3
    for cost in ("passes", "rounds", "doubles_max", "bytes_max", "seconds"):
        assert float(rows[0][f"{cost}_to_0.001"]) == history[cost][k]
    assert costs(history, "gap", 0.0)["passes"] is None


def test_frame_and_plot(small):
    frame = small.to_frame()
    assert len(frame) == sum(len(h) for h in small.histories.values())
    assert set(frame["method"]) == {"DSBA", "EXTRA"}
    assert len(small.plot(x="doubles_max").axes) == 1


def test_the_folder_is_complete_and_reports_are_rebuilt_from_it(small):
    root = small.folder.root
    kept = ["experiment.toml", "environment.json", "results.json"]
    wanted = [*kept, "summary.csv", "tuning.csv", "report.html", "figures/ridge.png", "figures/ridge.pdf"]
    before = {}
    for name in wanted:
        before[name] = (root / name).read_bytes()
        if name not in kept:
            (root / name).unlink()
    assert not (root / "checkpoints").exists()
    Results.load(root).report()
    assert {name: (root / name).read_bytes() for name in wanted} == before
    assert json.loads(before["environment.json"])["versions"]["dsba"] == dsba.__version__
    machine = json.loads(before["environment.json"])["machine"]
    assert machine["CPU"]
    assert machine["cores"] == os.cpu_count()
    with pytest.raises(InputError, match="no results folder"):
        Results.load(root / "runs")


def test_problems_of_one_kind_have_figures_of_their_own(tmp_path):
    problems = [{"operator": "ridge", "lam": 0.01}, {"operator": "ridge", "lam": 0.1}]
    changes = {"problem": problems, "stop": {"max_passes": 2}, "method": SMALL["method"][1:]}
    results = run(spec(**changes), tmp_path, workers=1)
    assert len({name for name, _ in results.figures()}) == 2


def test_several_seeds_give_a_median_and_a_band(tmp_path):
    method = {"algorithm": "dsba", "step_size": "auto"}
    results = run(spec(seeds=[0, 1, 2], stop={"max_passes": 8}, method=[method]), tmp_path, workers=1)
    curve = results.curves(results.cases[0])["DSBA"]
    gaps = np.stack([results.histories[r.id]["gap"] for r in results.runs])
    assert np.array_equal(curve.mid["gap"], np.median(gaps, axis=0))
    assert np.array_equal(curve.high["gap"], gaps.max(axis=0))
    assert len(np.unique(gaps[:, -1])) == 3


def test_a_curve_ends_where_the_first_seed_stops():
    """A seed that has stopped must not go on as a flat line in the median."""
    short = dsba.History({"passes": [0, 1], "gap": [1.0, 1e-9]})
    long = dsba.History({"passes": [0, 1, 2], "gap": [1.0, 1e-3, 1e-5]})
    curve = median_curve([short, long, long])
    assert curve.mid["gap"].tolist() == [1.0, 1e-3]
    assert curve.low["gap"].tolist() == [1.0, 1e-9]
    assert curve.mid["passes"].tolist() == [0, 1]


# Again, interrupted, killed ----------------------------------------------------------------------


def without_seconds(root):
    """Every file of a results folder, as far as it must not depend on the clock."""
    found = {}
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        name, text = str(path.relative_to(root)), path.read_bytes()
        if path.suffix == ".jsonl":
            found[name] = [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in text.splitlines()]
        elif path.suffix == ".json":
            found[name] = {k: v for k, v in json.loads(text).items() if k not in ("history", "sha256")}
        elif name == "summary.csv":
            found[name] = [
                {k: v for k, v in row.items() if "seconds" not in k and "time" not in k}
                for row in csv.DictReader(path.open())
            ]
        else:
            found[name] = None if path.suffix == ".html" else text
    return found


def test_the_same_seed_gives_the_same_bits_whatever_the_workers(small, tmp_path):
    again = run(spec(), tmp_path, workers=2)
    assert without_seconds(again.folder.root) == without_seconds(small.folder.root)


def test_finished_jobs_are_not_repeated(small, monkeypatch):
    monkeypatch.setattr(jobs, "solve", lambda *a, **k: pytest.fail("a finished run was repeated"))
    again = run(spec(), small.folder.root, workers=1)
    assert len(again.runs) == 2
    with pytest.raises(pytest.fail.Exception):
        run(spec(), small.folder.root, workers=1, force=True)
    monkeypatch.undo()
    run(spec(), small.folder.root, workers=1)


def test_stopped_at_any_record_and_resumed_is_the_same(small, tmp_path, monkeypatch):
    """Ctrl-C after 1, 2, 3, ... records, again and again, until all is done."""
    solve = jobs.solve
    seen = []

    def impatient(*args, callbacks, **options):
        def stop(record):
            seen.append(record)
            return len(seen) % 5 == 0

        return solve(*args, callbacks=[*callbacks, stop], **options)

    monkeypatch.setattr(jobs, "solve", impatient)
    stops = 0
    while True:
        try:
            again = run(spec(), tmp_path, workers=1)
            break
        except KeyboardInterrupt:
            stops += 1
            assert stops < 100
    assert stops > 4
    assert without_seconds(again.folder.root) == without_seconds(small.folder.root)


LONG = """
title = "long"
[stop]
max_passes = 40
[tune]
passes = 20
[[data]]
name = "synthetic-text"
[[problem]]
operator = "logistic"
[[network]]
graph = "ring"
n_nodes = 5
[[method]]
algorithm = "dsba"
[[method]]
algorithm = "dsa"
step_size = "auto"
[[method]]
algorithm = "extra"
step_size = "auto"
"""


def command(*args, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "dsba", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, **options,
    )  # fmt: skip


def wait_for(condition, process, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition() and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.full  # the gate kills one `compare` in test_soak.py
def test_killed_and_interrupted_commands_go_on(tmp_path):
    file, out = tmp_path / "long.toml", tmp_path / "out"
    file.write_text(LONG)
    arguments = ("compare", file, "--out", out, "--workers", 2)

    killed = command(*arguments)  # as by the machine's end: no chance to say goodbye, workers included
    wait_for(lambda: any(out.glob("checkpoints/*.npz")), killed)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=180)

    stopped = command(*arguments)
    wait_for(lambda: any(out.glob("runs/*.json")) or any(out.glob("tuning/*.json")), stopped)
    os.kill(stopped.pid, signal.SIGINT)
    _, errors = stopped.communicate(timeout=180)
    assert stopped.returncode in (130, 0), errors
    if stopped.returncode == 130:
        assert errors.strip().splitlines()[-1] == "Stopped. Finished runs are kept; the same command goes on from here."

    run(file, out, workers=1)
    straight = run(file, tmp_path / "straight", workers=1)
    assert without_seconds(out) == without_seconds(straight.folder.root)


def test_sigterm_and_sighup_end_a_comparison_like_ctrl_c(tmp_path, monkeypatch):
    """Within a run, which leaves its checkpoint, and elsewhere."""
    solve, find, seen = jobs.solve, jobs._find_reference, []

    def stopped_within(*args, callbacks=(), **options):
        def stop(record):
            seen.append(record)
            if len(seen) == 3:
                signal.raise_signal(signal.SIGTERM)

        return solve(*args, callbacks=[*callbacks, stop], **options)

    def stopped_before(*args):
        find(*args)
        signal.raise_signal(signal.SIGHUP)

    monkeypatch.setattr(jobs, "solve", stopped_within)
    monkeypatch.setattr(jobs, "_find_reference", stopped_before)
    wanted = spec(method=SMALL["method"][1:], stop={"max_passes": 6})
    (tmp_path / "small.toml").write_text(wanted.to_toml())
    arguments = ["compare", str(tmp_path / "small.toml"), "--out", str(tmp_path / "out"), "--workers", "1"]
    before = {s: signal.signal(s, signal.SIG_DFL) for s in (signal.SIGTERM, signal.SIGHUP)}  # may be ignored here
    try:
        ended = [CliRunner().invoke(app, arguments) for _ in range(2)]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert [one.exit_code for one in ended] == [130, 130]
    assert all("the same command goes on from here" in one.output for one in ended)
    assert len(list(tmp_path.glob("out/checkpoints/*.npz"))) == 1
    monkeypatch.undo()
    resumed, straight = (run(wanted, tmp_path / name, workers=1, report=False) for name in ("out", "straight"))
    assert without_seconds(resumed.folder.root / "runs") == without_seconds(straight.folder.root / "runs")


def test_two_commands_do_not_share_a_folder(tmp_path):
    with Folder(tmp_path).owned(), pytest.raises(InputError, match="another dsba is at work"):
        run(spec(), tmp_path, workers=1)


# Errors ------------------------------------------------------------------------------------------


def leftovers(root):
    return list(root.rglob(".part-*"))


def test_a_full_disk_is_one_sentence_and_leaves_nothing_half_written(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    made = runner.check(spec())
    run(spec(), tmp_path, workers=1, tune_only=True)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot write .*No space left on device"):
        run(spec(), tmp_path, workers=1)
    monkeypatch.undo()
    assert leftovers(tmp_path) == []
    assert not any(jobs.is_done(r, Folder(tmp_path)) for r in made.runs)
    assert len(run(spec(), tmp_path, workers=1).runs) == 2


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 64 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], capture_output=True, text=True)
    if mount.returncode:
        pytest.skip(f"mounting a small disk needs root: {mount.stderr.strip()}")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_the_command_on_a_full_disk(small_disk):
    command = [sys.executable, "-m", "dsba", "compare", "mine.toml", "--out", str(small_disk / "out")]
    text = """
        data = [{name = "breast-cancer"}]
        problem = [{operator = "ridge"}]
        method = [{algorithm = "dsba", step_size = "auto"}]
        stop = {max_passes = 2}
    """
    (small_disk.parent / "mine.toml").write_text(text)
    done = subprocess.run(command, cwd=small_disk.parent, capture_output=True, text=True, timeout=240)
    assert done.returncode == 2, done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert leftovers(small_disk) == []


def test_a_damaged_file_is_named(tmp_path):
    results = run(spec(), tmp_path, workers=1)
    path = results.folder.outcome(results.runs[0].id)
    path.write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        Results.load(tmp_path).report()


COMMANDS = {
    "bad TOML": (["compare", "bad.toml"], "is not TOML"),
    "missing file": (["compare", "none.toml"], "cannot read the experiment none.toml"),
    "no file": (["compare"], "--example"),
    "unknown method": (["tune", "--method", "dsbo"], "unknown method 'dsbo'"),
    "missing data": (["reproduce", "--data", "no-such-set"], "no file 'no-such-set'"),
    "data to fetch": (["reproduce", "--data", "sector.scale"], "`dsba data fetch sector.scale` gets it"),
    "unknown problem": (["reproduce", "--problem", "rigde"], "unknown operator 'rigde'; did you mean 'ridge'?"),
    "unwritable folder": (["reproduce", "--out", "bad.toml/results"], "cannot write into bad.toml/results"),
    "unknown method to force": (["reproduce", "--force", "DSBO"], "unknown method 'DSBO'"),
    "no results": (["report", "."], "is no results folder"),
}


@pytest.mark.parametrize(("arguments", "message"), COMMANDS.values(), ids=COMMANDS)
def test_commands_refuse_in_one_sentence(arguments, message, tmp_path):
    (tmp_path / "bad.toml").write_text("seeds = [")
    failed = command(*arguments, cwd=tmp_path)
    _, errors = failed.communicate(timeout=180)
    assert failed.returncode == 2
    assert message in errors
    assert errors.startswith("Error:")
    assert len(errors.strip().splitlines()) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["bad.toml"]


def test_the_example_is_printed():
    assert CliRunner().invoke(app, ["compare", "--example"]).output == EXAMPLE


def test_commands_end_with_the_winners_and_the_page(small):
    shown = CliRunner().invoke(app, ["report", str(small.folder.root)])
    assert shown.exit_code == 0, shown.output
    assert "Winners" in shown.output
    assert f"Page: {small.folder.root.resolve() / 'report.html'}" in shown.output.replace("\n", "")


def test_an_experiment_object_is_taken_as_it_is():
    experiment = Experiment.model_validate(SMALL)
    assert read(experiment) is experiment
