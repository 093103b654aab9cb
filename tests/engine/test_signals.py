"""Ctrl-C and other requests to stop, and runs in threads.

In a script a run saves its checkpoint, and the signal takes its usual course. Commands ask for an orderly end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import ROOT, main_thread_only
from test_engine import RING, is_a_sentence, same_run
from typer.testing import CliRunner

import dsba
from dsba._system.signals import orderly_end
from dsba.algorithms.iterates import StackedRows
from dsba.cli import app
from dsba.engine.recorder import Recorder

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]

# An orderly end, as commands want it -----------------------------------------------------------------


@main_thread_only
@pytest.mark.parametrize("form", ["step", "dense", "lazy"])
def test_ctrl_c_returns_what_there_is(ridge, form):
    before = signal.getsignal(signal.SIGINT)

    def press(record):
        if record["passes"] == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with orderly_end():
        result = dsba.solve(ridge, RING, max_passes=1000, callbacks=[press], form=form)
    assert result.status == "interrupted"
    is_a_sentence(result.message)
    assert 3 <= result.passes < 1000
    assert len(result.history) >= 4
    assert signal.getsignal(signal.SIGINT) is before
    assert (result.Z == dsba.solve(ridge, RING, max_passes=result.passes, form=form).Z).all()


@main_thread_only
def test_ctrl_c_between_record_points(ridge):
    """No record point for hours: the kernels are left at once and the last iterate is measured."""

    def press(record):
        if record["passes"] == 0:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()

    with orderly_end():
        result = dsba.solve(ridge, RING, max_passes=1e9, record_every=1e9, callbacks=[press])
    assert result.status == "interrupted"
    assert len(result.history) == 2
    assert result.history["passes"][-1] == result.passes > 0
    measured = Recorder(ridge).measure(StackedRows(ridge, result.Z))
    assert result.history["residual"][-1] == pytest.approx(measured["residual"], rel=1e-9)


@main_thread_only
def test_second_ctrl_c_is_the_usual_one(ridge):
    before = signal.getsignal(signal.SIGINT)

    def press_twice(record):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with orderly_end(), pytest.raises(KeyboardInterrupt):
            dsba.solve(ridge, RING, max_passes=1000, callbacks=[press_twice])
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@main_thread_only
@pytest.mark.parametrize("number", SIGNALS)
def test_train_saves_its_model_and_ends_with_code_130(tmp_path, monkeypatch, number):
    measure, seen = Recorder.measure, []

    def third(recorder, iterates):
        seen.append(iterates)
        if len(seen) == 3:
            signal.raise_signal(number)
        return measure(recorder, iterates)

    rows = np.random.default_rng(0).normal(size=(40, 3))
    for n, part in enumerate(np.split(rows, 4)):
        np.savetxt(tmp_path / f"{n}.csv", part, delimiter=",", header="x,y,z", comments="")
    monkeypatch.setattr(Recorder, "measure", third)
    files, out = [str(tmp_path / f"{n}.csv") for n in range(4)], tmp_path / "run"
    words = ["--formula", "y ~ x + z", "--operator", "linear", "--algorithm", "extra", "--graph", "ring"]

    def usual(signum, frame):
        raise AssertionError("the signal took its usual course")

    before = signal.signal(number, usual)
    try:
        ended = CliRunner().invoke(app, ["train", *files, *words, "--out", str(out)])
        assert signal.getsignal(number) is usual
    finally:
        signal.signal(number, before)
    assert ended.exit_code == 130, ended.output
    assert "interrupted: stopped on request" in ended.output
    assert dsba.load(out).model.run.status == "interrupted"


# In a script ------------------------------------------------------------------------------------------


@main_thread_only
@pytest.mark.parametrize("number", SIGNALS)
def test_a_handler_of_the_callers_is_called_once_the_checkpoint_is_there(ridge, tmp_path, number):
    """Where it returns, the run has ended as interrupted; resuming gives the run left alone, bit by bit."""
    file, caught = tmp_path / "run", []

    def mine(signum, frame):
        caught.append((signum, file.exists()))

    def at_pass_three(record):
        if record["passes"] == 3:
            signal.raise_signal(number)
            assert caught == []

    before = signal.signal(number, mine)
    try:
        stopped = dsba.solve(ridge, RING, max_passes=8, checkpoint=file, callbacks=[at_pass_three])
        assert caught == [(number, True)]
        assert signal.getsignal(number) is mine
    finally:
        signal.signal(number, before)
    assert (stopped.status, stopped.passes) == ("interrupted", 3)
    same_run(dsba.solve(ridge, RING, max_passes=8, checkpoint=file), dsba.solve(ridge, RING, max_passes=8))


@main_thread_only
def test_ctrl_c_is_raised_once_the_checkpoint_is_there(ridge, tmp_path):
    def at_pass_three(record):
        if record["passes"] == 3:
            os.kill(os.getpid(), signal.SIGINT)

    file = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        dsba.solve(ridge, RING, max_passes=8, checkpoint=file, callbacks=[at_pass_three])
    assert dsba.solve(ridge, RING, max_passes=0, checkpoint=file).passes == 3
    same_run(dsba.solve(ridge, RING, max_passes=8, checkpoint=file), dsba.solve(ridge, RING, max_passes=8))


@main_thread_only
def test_ctrl_c_is_not_lost_to_an_error(ridge):
    def press_and_fail(record):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        raise ValueError("of a callback")

    with pytest.raises(KeyboardInterrupt):
        dsba.solve(ridge, RING, max_passes=8, callbacks=[press_and_fail])


SCRIPT = """
import signal, sys
import dsba
from conftest import make_problem

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may have been started with it ignored
signal.signal(signal.SIGINT, signal.default_int_handler)

def running(record):
    if record["passes"] == 0:
        print("running", flush=True)

for k in range(3):
    dsba.solve(make_problem("ridge"), dsba.Topology.ring(4), max_passes=1e9, max_seconds=100, record_every=100,
               checkpoint=f"{sys.argv[1]}/{k}", callbacks=[running])
"""


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_a_script_in_the_first_of_its_runs(tmp_path, number):
    """`timeout` sends SIGTERM. A script that ends by KeyboardInterrupt ends by SIGINT in the end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), *sys.path])}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        try:
            assert child.stdout.readline() == "running\n"
            child.send_signal(number)
            out, _ = child.communicate(timeout=300)
        finally:
            child.kill()
    assert child.returncode == -number
    assert out == ""
    assert [file.name for file in tmp_path.iterdir()] == ["0"]


# Threads, and signals that are ignored ------------------------------------------------------------------


def test_a_run_in_a_thread(ridge):
    """No signal handler there, and the same bits."""
    found = []
    thread = threading.Thread(target=lambda: found.append(dsba.solve(ridge, RING, max_passes=5)))
    thread.start()
    thread.join()
    same_run(found[0], dsba.solve(ridge, RING, max_passes=5))


def test_runs_in_many_threads_do_not_meet(ridge):
    found = {}

    def go(seed):
        found[seed] = dsba.solve(ridge, RING, max_passes=5, seed=seed)

    threads = [threading.Thread(target=go, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, result in found.items():
        same_run(result, dsba.solve(ridge, RING, max_passes=5, seed=seed))


def test_a_signal_that_is_ignored_stays_ignored(ridge):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        result = dsba.solve(ridge, RING, max_passes=2, callbacks=[lambda record: signal.raise_signal(signal.SIGHUP)])
    finally:
        signal.signal(signal.SIGHUP, before)
    assert result.status == "budget"
