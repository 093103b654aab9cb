"""Ctrl-C and other requests to stop, and runs in threads: a run ends well, and nobody else notices."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import main_thread_only
from test_engine import RING, is_a_sentence, same_run

import dsba
from dsba.recorder import Recorder, StackedRows


@main_thread_only
@pytest.mark.parametrize("form", ["step", "dense", "lazy"])
def test_ctrl_c_returns_what_there_is(ridge, form):
    before = signal.getsignal(signal.SIGINT)

    def press(record):
        if record["passes"] == 3:
            os.kill(os.getpid(), signal.SIGINT)

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
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    result = dsba.solve(ridge, RING, max_passes=1e9, record_every=1e9)
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
        with pytest.raises(KeyboardInterrupt):
            dsba.solve(ridge, RING, max_passes=1000, callbacks=[press_twice])
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@main_thread_only
def test_a_handler_of_the_callers_is_restored(ridge):
    caught = []

    def mine(signum, frame):
        caught.append(signum)

    before = signal.signal(signal.SIGINT, mine)
    try:
        first = dsba.solve(ridge, RING, max_passes=9, callbacks=[lambda r: os.kill(os.getpid(), signal.SIGINT)])
        assert first.status == "interrupted"
        assert signal.getsignal(signal.SIGINT) is mine
        assert caught == []
        dsba.solve(ridge, RING, max_passes=2)
        assert signal.getsignal(signal.SIGINT) is mine
        os.kill(os.getpid(), signal.SIGINT)
        assert caught == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


CHILD = """
import sys
import dsba
from conftest import make_problem

def say(record):
    if record["passes"] == 0:
        print("running", flush=True)

result = dsba.solve(make_problem("ridge"), dsba.Topology.ring(4), max_passes=1e9, record_every=100, callbacks=[say])
print(result.status, len(result.history), result.Z.shape, flush=True)
"""


def test_ctrl_c_in_a_process_of_its_own():
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, text=True, env=environment) as child:
        try:
            assert child.stdout.readline() == "running\n"
            time.sleep(0.3)
            child.send_signal(signal.SIGINT)
            out, _ = child.communicate(timeout=60)
        finally:
            child.kill()
    assert child.returncode == 0
    status, records, shape = out.split(maxsplit=2)
    assert status == "interrupted"
    assert int(records) >= 2
    assert shape.strip() == "(4, 12)"


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


@pytest.mark.parametrize("request_to_stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_stop_ends_with_a_checkpoint(ridge, tmp_path, request_to_stop):
    """Also where the system ends a process; resuming gives the run left alone, bit by bit."""
    usual = signal.default_int_handler if request_to_stop == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(request_to_stop, usual)  # the tests may have been started with it ignored

    def at_pass_three(record):
        if record["passes"] == 3:
            signal.raise_signal(request_to_stop)

    file = tmp_path / "run"
    stopped = dsba.solve(ridge, RING, max_passes=8, checkpoint=file, callbacks=[at_pass_three])
    assert (stopped.status, stopped.passes) == ("interrupted", 3)
    assert signal.signal(request_to_stop, before) is usual
    resumed = dsba.solve(ridge, RING, max_passes=8, checkpoint=file)
    assert (resumed.Z == dsba.solve(ridge, RING, max_passes=8).Z).all()


def test_a_signal_that_is_ignored_stays_ignored(ridge):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        result = dsba.solve(ridge, RING, max_passes=2, callbacks=[lambda record: signal.raise_signal(signal.SIGHUP)])
    finally:
        signal.signal(signal.SIGHUP, before)
    assert result.status == "budget"
