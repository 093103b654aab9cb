"""A run stopped at any moment and resumed is the uninterrupted run, bit by bit (invariant 7); a write that fails."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, also_in_full, main_thread_only, make_problem
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dsba
from dsba.engine import checkpoint as store

RING = dsba.Topology.ring(4)
PASSES = 12


def solve(problem, checkpoint=None, max_passes=PASSES, algorithm="dsba", topology=RING, **options):
    options = {"reference": problem.component.has_loss, **options}
    return dsba.solve(problem, topology, algorithm, max_passes=max_passes, checkpoint=checkpoint, **options)


def same_run(a, b):
    """Bitwise: iterates, status and every column but the clock's."""
    assert (a.Z == b.Z).all()
    assert (a.status, a.message, a.passes) == (b.status, b.message, b.passes)
    assert a.history.columns == b.history.columns
    for name in set(a.history) - {"seconds", "cpu_seconds"}:
        assert np.array_equal(a.history[name], b.history[name]), name
    assert (np.diff(a.history["seconds"]) >= 0).all()


def refused(message, path, *reasons):
    assert message.endswith(".")
    assert "\n" not in message
    assert str(path) in message
    rest = message.replace(str(path), "")  # a folder may be named after the test
    for reason in reasons:
        assert reason in rest


# Stopped and resumed -------------------------------------------------------------------------------


@pytest.mark.parametrize("table", ["zero", "full"])
@pytest.mark.parametrize("form", ["step", "dense", "lazy"])
@pytest.mark.parametrize("algorithm", ["dsba", "dsa"])
@pytest.mark.parametrize("operator", ["ridge", "auc"])
def test_stopped_many_times(tmp_path, operator, algorithm, form, table):
    """At record points and between them, by budget and by callback, at the very start and twice at one place."""
    problem = make_problem(operator, split=np.repeat([0, 1, 2, 3], [2, 5, 10, 43]))
    options = {"algorithm": algorithm, "form": form, "table": table, "record_every": 1.3}
    options["z0"] = np.linspace(-0.3, 0.4, problem.dim)
    whole = solve(problem, **options)
    path = tmp_path / "run.dsba"
    for k in (0, 1, 1.3, 1.37, 4, 4, 7.8):
        part = solve(problem, path, max_passes=k, **options)
        assert part.status == "budget"
        assert path.exists()
    part = solve(problem, path, callbacks=[lambda record: record["passes"] > 8], **options)
    assert part.status == "interrupted"
    same_run(solve(problem, path, **options), whole)
    assert list(tmp_path.iterdir()) == [path]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cuts=st.lists(st.floats(0, PASSES), min_size=1, max_size=4),
    record_every=st.sampled_from([1, 0.3, 2.71, 100]),
    form=st.sampled_from(["step", "dense", "lazy"]),
    algorithm=st.sampled_from(["dsba", "dsa"]),
)
def test_stopped_anywhere(ridge, tmp_path, cuts, record_every, form, algorithm):
    options = {"form": form, "algorithm": algorithm, "record_every": record_every}
    path = tmp_path / "run.dsba"
    path.unlink(missing_ok=True)
    for k in sorted(cuts):
        solve(ridge, path, max_passes=k, **options)
    same_run(solve(ridge, path, **options), solve(ridge, **options))


@pytest.mark.parametrize("budget", [{"max_doubles": 800}, {"tol": 0.2}, {"gap_tol": 0.05}])
def test_stopped_by_another_limit(ridge, tmp_path, budget):
    path = tmp_path / "run.dsba"
    assert solve(ridge, path, **budget).passes < PASSES
    same_run(solve(ridge, path), solve(ridge))


@pytest.mark.parametrize("form", ["step", "dense", "lazy"])
def test_stopped_by_the_clock(ridge, tmp_path, form):
    path = tmp_path / "run.dsba"
    first = solve(ridge, path, max_passes=1e9, max_seconds=0.02, record_every=500, form=form)
    assert first.passes > 0
    enough = first.passes + 10
    resumed = solve(ridge, path, max_passes=enough, record_every=500, form=form)
    same_run(resumed, solve(ridge, max_passes=enough, record_every=500, form=form))
    assert resumed.seconds > first.seconds


@main_thread_only
@pytest.mark.parametrize("form", ["step", "dense", "lazy"])
@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_stopped_by_ctrl_c(ridge, tmp_path, form, delay):
    """Pressed from another thread: it lands in the middle of things."""
    path = tmp_path / "run.dsba"
    running = threading.Event()

    def press():
        running.wait()
        time.sleep(delay)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    options = {"form": form, "record_every": 700.5}
    with pytest.raises(KeyboardInterrupt):
        solve(ridge, path, max_passes=1e9, callbacks=[lambda record: running.set()], **options)
    thread.join()
    enough = solve(ridge, path, max_passes=0, **options).passes + 5
    same_run(solve(ridge, path, max_passes=enough, **options), solve(ridge, max_passes=enough, **options))


CHILD = """
import sys, time
import dsba
from conftest import make_problem
dsba.solve(make_problem("ridge"), dsba.Topology.ring(4), max_passes=400, record_every=0.5, reference=True,
           form=sys.argv[2], checkpoint=sys.argv[1], callbacks=[lambda record: time.sleep(0.002)])
"""


@pytest.mark.parametrize("form", also_in_full(["lazy"], ["dense", "lazy"]))
def test_killed_three_times(ridge, tmp_path, form):
    """kill -9 at a random moment after the first checkpoint; what is on disk is whole, and the run goes on."""
    path = tmp_path / "run.dsba"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])}
    moments = random.Random(form)
    seen = b""
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", CHILD, str(path), form], env=environment) as child:
            limit = time.monotonic() + 60
            while not (path.exists() and path.read_bytes() != seen) and time.monotonic() < limit:
                assert child.poll() is None
                time.sleep(0.005)
            time.sleep(moments.uniform(0, 0.3))
            child.kill()
        seen = path.read_bytes()
    options = {"max_passes": 400, "record_every": 0.5, "form": form}
    same_run(solve(ridge, path, **options), solve(ridge, **options))


def test_a_finished_run_returns_at_once(ridge, tmp_path, monkeypatch):
    path = tmp_path / "run.dsba"
    first = solve(ridge, path)
    real = dsba.DSBA.advance

    def idle(self, s, problem, net, samples):
        assert len(samples) == 0
        return real(self, s, problem, net, samples)

    monkeypatch.setattr(dsba.DSBA, "advance", idle)
    again = solve(ridge, path)
    same_run(again, first)
    assert (again.history["seconds"] == first.history["seconds"]).all()
    assert again.seconds == first.seconds


def test_a_finished_run_that_ended_between_record_points(ridge, tmp_path):
    path = tmp_path / "run.dsba"
    first = solve(ridge, path, max_passes=2.5)
    same_run(solve(ridge, path, max_passes=2.5), first)


def test_a_smaller_budget_than_is_spent(ridge, tmp_path):
    path = tmp_path / "run.dsba"
    first = solve(ridge, path, max_passes=6)
    again = solve(ridge, path, max_passes=3)
    assert again.status == "budget"
    assert again.passes == 6
    assert (again.Z == first.Z).all()


def test_a_larger_budget_goes_on(ridge, tmp_path):
    path = tmp_path / "run.dsba"
    solve(ridge, path, max_passes=5)
    longer = solve(ridge, path, max_passes=30)
    same_run(longer, solve(ridge, max_passes=30))
    assert longer.passes == 30


def test_a_checkpoint_changes_nothing(ridge, tmp_path):
    same_run(solve(ridge, tmp_path / "run.dsba"), solve(ridge))


def test_paths_of_any_kind(ridge, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("run", "run.dsba", tmp_path / "a b é.ckpt", Path("relative.npz")):
        solve(ridge, path, max_passes=2)
        assert Path(path).exists()
        same_run(solve(ridge, path, max_passes=4), solve(ridge, max_passes=4))


@pytest.mark.parametrize("form", ["step", "dense", "lazy"])
def test_divergence_leaves_the_last_good_checkpoint(ridge, tmp_path, form):
    path = tmp_path / "run.dsba"
    options = {"algorithm": "dsa", "step_size": 3.0, "record_every": 0.1, "form": form}
    whole = solve(ridge, max_passes=500, **options)
    assert whole.status == "diverged"
    good = whole.history["passes"][-2]
    solve(ridge, path, max_passes=good / 2, **options)
    assert solve(ridge, path, max_passes=500, **options).status == "diverged"
    kept = solve(ridge, path, max_passes=0, **options)
    assert kept.status == "budget"
    assert kept.history["residual"][-1] <= 1e6
    same_run(solve(ridge, path, max_passes=500, **options), whole)


@pytest.mark.parametrize(
    "record_every",
    [
        1,
        np.float64(1.0),
        np.int64(1),
        np.float32(1.0),
    ],
)
def test_numbers_of_any_type(ridge, tmp_path, record_every):
    path = tmp_path / "run.dsba"
    solve(ridge, path, max_passes=2, record_every=record_every, seed=np.int64(0))
    same_run(solve(ridge, path, max_passes=4, record_every=record_every), solve(ridge, max_passes=4))


# Writing fails -------------------------------------------------------------------------------------


def full_disk(*args, **options):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("broken", ["dsba.storage.sealed.write", "os.replace", "os.fsync"])
@pytest.mark.parametrize("first", [True, False])
def test_a_failing_write_keeps_the_previous_file(ridge, tmp_path, monkeypatch, broken, first):
    path = tmp_path / "run.dsba"
    if not first:
        solve(ridge, path, max_passes=3)
    before = path.read_bytes() if path.exists() else None
    monkeypatch.setattr(broken, full_disk)
    with pytest.raises(dsba.StorageError) as caught:
        solve(ridge, path)
    refused(str(caught.value), path, os.strerror(errno.ENOSPC))
    assert list(tmp_path.iterdir()) == ([] if first else [path])
    if not first:
        assert path.read_bytes() == before
        monkeypatch.undo()
        same_run(solve(ridge, path), solve(ridge))


def test_a_write_that_stops_half_way(ridge, tmp_path, monkeypatch):
    path = tmp_path / "run.dsba"
    solve(ridge, path, max_passes=3)
    before = path.read_bytes()

    def half(file, facts, arrays):
        file.write(before[: len(before) // 2])
        full_disk()

    monkeypatch.setattr("dsba.storage.sealed.write", half)
    with pytest.raises(dsba.StorageError):
        solve(ridge, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("broken", ["dsba.storage.sealed.write", "os.replace"])
def test_any_other_error_in_a_write_leaves_nothing_behind(ridge, tmp_path, monkeypatch, broken):
    def stop(*args, **options):
        raise KeyboardInterrupt

    path = tmp_path / "run.dsba"
    solve(ridge, path, max_passes=3)
    before = path.read_bytes()
    monkeypatch.setattr(broken, stop)
    with pytest.raises(KeyboardInterrupt):
        solve(ridge, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def cannot_be_written(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    yield tmp_path
    yield tmp_path / "missing" / "run.dsba"
    yield file / "run.dsba"


def test_a_path_that_cannot_be_written(ridge, tmp_path):
    """Said before the first iteration, and nothing is created."""
    worked = []
    for path in cannot_be_written(tmp_path):
        with pytest.raises(dsba.DsbaError) as caught:
            solve(ridge, path, callbacks=[worked.append])
        refused(str(caught.value), path)
    assert not worked
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(ridge, tmp_path):
    tmp_path.chmod(0o500)
    worked = []
    try:
        with pytest.raises(dsba.StorageError) as caught:
            solve(ridge, tmp_path / "run.dsba", callbacks=[worked.append])
    finally:
        tmp_path.chmod(0o700)
    refused(str(caught.value), tmp_path / "run.dsba")
    assert not worked


def test_a_folder_without_permission_for_anybody(ridge, tmp_path, monkeypatch):
    """The same where the system's answer is feigned, for root."""
    monkeypatch.setattr("os.access", lambda *args, **options: False)
    worked = []
    with pytest.raises(dsba.StorageError) as caught:
        solve(ridge, tmp_path / "run.dsba", callbacks=[worked.append])
    refused(str(caught.value), tmp_path / "run.dsba")
    assert not worked


@pytest.mark.parametrize("path", [3, b"x"])
def test_a_path_that_is_none(ridge, path):
    with pytest.raises(dsba.InputError):
        solve(ridge, path)


def test_ranks_and_one_process_do_not_begin_anew_beside_each_other(tmp_path, ridge):
    path = tmp_path / "run.ckpt"
    of_rank = tmp_path / "run.ckpt.rank0.1"
    of_rank.write_bytes(b"")
    with pytest.raises(dsba.CheckpointError) as error:
        solve(ridge, path)
    refused(str(error.value), of_rank, "written by several processes", "this run has one")
    of_rank.unlink()
    solve(ridge, path, max_passes=1)
    with pytest.raises(dsba.CheckpointError) as error:
        store.require_same_kind(path, 3)
    refused(str(error.value), path, "written by one process", "this run has 3")


@pytest.mark.parametrize("method", ["vi-papc-vr", "acc-vr-extra"])
def test_a_budget_of_passes_ends_at_the_same_iteration_wherever_a_run_was_stopped(method, tmp_path):
    """A coin decides what an iteration costs; between two records the end of the budget cannot be foreseen."""
    X, y = dsba.data.load_breast_cancer()
    problem, path = dsba.Problem.from_arrays(X[:120], y[:120], "ridge", n_nodes=4, lam=0.01), dsba.Topology.path(4)
    options = {"record_every": 3, "seed": 4}
    whole = dsba.solve(problem, path, method, max_passes=15, **options)
    for first in (3, 4.5, 7, 8, 10.2, 13):
        file = tmp_path / f"{first}"
        dsba.solve(problem, path, method, max_passes=first, checkpoint=file, **options)
        resumed = dsba.solve(problem, path, method, max_passes=15, checkpoint=file, **options)
        assert resumed.history["iteration"].tolist() == whole.history["iteration"].tolist()
        assert (resumed.Z == whole.Z).all()
