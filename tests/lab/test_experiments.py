"""The workbench: tuning, results, resuming, and errors in one sentence."""

from __future__ import annotations

import csv
import errno
import math
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from small_experiments import SMALL, spec
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.errors import InputError
from dsba.lab import Experiment, ExperimentResults, jobs, plan, run, runner, tuning
from dsba.lab.curves import costs, median_curve
from dsba.lab.example import EXAMPLE
from dsba.lab.folder import Folder
from dsba.lab.jobs import PooledProblem
from dsba.lab.reading import read
from dsba.storage import sealed


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return run(spec(), tmp_path_factory.mktemp("small"), workers=1)


# Tuning ------------------------------------------------------------------------------------------


def test_budgets_double_and_end_with_the_whole():
    assert tuning.budgets(4, 4, 16) == [8, 16]
    assert tuning.budgets(12, 4, 16) == [4, 4, 8, 16]
    assert tuning.budgets(12, 1, 16) == [2, 4, 8, 16]
    assert tuning.budgets(1, 4, 16) == [16]


def the_search(results):
    return results.folder.read_search(results.index.searches[0].id)


def test_the_search_finds_the_best(small):
    """Every candidate run to the end by hand, those beyond the grid too: none beats the chosen one."""
    table = the_search(small)
    case = plan.make(spec()).cases[0]
    problem, topology = case.build(0), case.network.topology
    z_star = dsba.optimum(problem).z
    finals = {}
    tried = [candidate.parameters["step_size"] for candidate in table.candidates]
    assert {candidate.alpha for candidate in dsba.DSBA().grid(problem, topology)} <= set(tried)
    for alpha in tried:
        result = dsba.solve(problem, topology, "dsba", alpha, max_passes=12, reference=z_star)
        finals[alpha] = math.inf if result.status == "diverged" else result.history["gap"][-1]
    assert table.parameters["step_size"] == min(finals, key=finals.get)
    assert [c.chosen for c in table.candidates].count(True) == 1
    assert table.at_edge == []


def test_the_best_has_neighbours_within_a_factor(small):
    table = the_search(small)
    best = table.parameters["step_size"]
    tried = sorted(candidate.parameters["step_size"] for candidate in table.candidates)
    k = tried.index(best)
    assert tried[k + 1] / best <= 1.2
    assert best / tried[k - 1] <= 1.2


def test_the_search_goes_on_beyond_the_grid(tmp_path, monkeypatch):
    """It begins with steps far too small, and goes on until the best lies inside of what was tried."""
    monkeypatch.setattr(dsba.DSBA, "factors", (0.02, 0.04))
    results = run(spec(), tmp_path, workers=1, tune_only=True)
    table = the_search(results)
    factors = [candidate.factor for candidate in table.candidates]
    assert np.allclose(factors[:6], [0.02 * 2**k for k in range(6)])
    assert table.factor < max(factors)
    assert table.at_edge == []


@pytest.mark.parametrize(
    ("asked", "tried"),
    [({"grid": {"step_size": [0.01, 0.02]}}, {0.01, 0.02}), ({"bounds": {"step_size": [0.01, 0.03]}}, (0.01, 0.03))],
    ids=["a grid", "bounds"],
)
def test_a_search_never_leaves_what_it_was_given(asked, tried, tmp_path):
    """The best step size is far above. A grid is closed, bounds are open inside, and both edges are told."""
    results = run(spec(method=[{"algorithm": "dsba", **asked}]), tmp_path, workers=1, tune_only=True)
    table = the_search(results)
    values = {candidate.parameters["step_size"] for candidate in table.candidates}
    assert values == tried if isinstance(tried, set) else tried[0] <= min(values) <= max(values) == tried[1]
    assert table.parameters["step_size"] == max(values)
    assert table.at_edge == ["step_size"]
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
    problem, topology = of_extra.case.build(0), of_extra.case.network.topology
    z_star = small.folder.read_reference(of_extra.case.pooled.id)[1]
    straight = dsba.solve(problem, topology, "extra", max_passes=12, reference=z_star).history
    kept = small.histories[of_extra.id]
    for column in straight:
        if "seconds" not in column:
            assert np.array_equal(straight[column], kept[column]), column  # JSON keeps every bit


def test_summary_counts_the_first_record_at_the_tolerance(small):
    rows = list(csv.DictReader((small.folder.root / "summary.csv").open()))
    assert [row["method"] for row in rows] == ["DSBA", "EXTRA"]
    history = small.histories[small.runs[0].id]
    k = int(np.argmax(history["gap"] <= 1e-3))
    assert history["gap"][k] <= 1e-3
    for cost in ("passes", "work", "rounds", "doubles_max", "bytes_max", "seconds", "cpu_seconds"):
        assert float(rows[0][f"{cost}_to_0.001"]) == history[cost][k]
    assert costs(history, "gap", 0.0)["passes"] is None


def test_no_spreadsheet_runs_a_label_of_a_summary(tmp_path):
    labels = ['=HYPERLINK("http://example.org")', "+1+cmd", "-2", "@SUM(A1)", "\t=1", "a=b"]
    methods = [{"algorithm": "extra", "label": label, "step_size": "auto"} for label in labels]
    data = [{"name": "breast-cancer", "label": "\r=1"}]
    results = run(spec(data=data, method=methods, stop={"max_passes": 1}), tmp_path, workers=1, report=False)
    assert [row["method"] for row in results.summary()] == labels
    results.write_table(results.folder.summary, results.summary())
    rows = list(csv.DictReader((tmp_path / "summary.csv").open(newline="")))
    assert [row["method"] for row in rows] == [f"'{labels[0]}", "'+1+cmd", "-2", "'@SUM(A1)", "'\t=1", "a=b"]
    assert {row["data"] for row in rows} == {"'\n=1"}
    assert all(
        float(row["final"]) == results.histories[run.id]["gap"][-1] for row, run in zip(rows, results.runs, strict=True)
    )


def test_frame_and_plot(small):
    frame = small.to_frame()
    assert len(frame) == sum(len(h) for h in small.histories.values())
    assert set(frame["method"]) == {"DSBA", "EXTRA"}
    assert len(small.plot(x="doubles_max").axes) == 1


def test_the_folder_is_complete_and_reports_are_rebuilt_from_it(small):
    root = small.folder.root
    kept = ["experiment.toml", "results.dsba"]
    wanted = [*kept, "summary.csv", "tuning.csv", "report.html", "figures/ridge.png", "figures/ridge.pdf"]
    before = {}
    for name in wanted:
        before[name] = (root / name).read_bytes()
        if name not in kept:
            (root / name).unlink()
    assert not (root / "checkpoints").exists()
    ExperimentResults.load(root).report()
    assert {name: (root / name).read_bytes() for name in wanted} == before
    environment = sealed.read(root / "results.dsba")[0]["environment"]
    assert environment["versions"]["dsba"] == dsba.__version__
    machine = environment["machine"]
    assert machine["CPU"]
    assert machine["cores"] == os.cpu_count()
    with pytest.raises(InputError, match="no results folder"):
        ExperimentResults.load(root / "runs")


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
        if path.suffix == ".dsba":
            facts, arrays = sealed.read(path)
            found[name] = facts, {k: v.tobytes() for k, v in arrays.items() if "seconds" not in k}
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
    wait_for(lambda: any(out.glob("checkpoints/*.dsba")), killed)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=180)

    stopped = command(*arguments)
    wait_for(lambda: any(out.glob("runs/*.dsba")) or any(out.glob("tuning/*.dsba")), stopped)
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
    solve, find, seen = jobs.solve, PooledProblem.perform, []

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
    monkeypatch.setattr(PooledProblem, "perform", stopped_before)
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
    assert len(list(tmp_path.glob("out/checkpoints/*.dsba"))) == 1
    assert all(sealed.read(file) for file in tmp_path.glob("out/**/*.dsba"))
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
    with pytest.raises(dsba.StorageError, match=r"cannot write .*No space left on device"):
        run(spec(), tmp_path, workers=1)
    monkeypatch.undo()
    assert leftovers(tmp_path) == []
    assert not any(r.is_done(Folder(tmp_path)) for r in made.runs)
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
    path = results.folder.run(results.runs[0].id)
    path.write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        ExperimentResults.load(tmp_path).report()


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
