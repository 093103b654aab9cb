"""Which tests run when. A plugin of pytest, loaded by conftest.py.

- `make test`, the gate, leaves out what is marked `full`. Of a test with three or more parameters it runs a selection
  in which every pair of values occurs; the other combinations are marked `full` here. Hypothesis draws the same
  examples in every gate, so that its verdict depends on the code alone; `make full` draws new ones.
- `make quick` (`pytest --quick`) runs what is cheap, as found while it runs. A test is skipped at the moment when it
  starts to compile a kernel, starts another process or thread, or takes longer than `TEST_SECONDS`; and so is
  everything after `ALL_SECONDS`. Kernels that were compiled before cost nothing, so that more tests run then.
"""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from multiprocessing.process import BaseProcess
from typing import Any

import pytest
from hypothesis import settings
from numba.core import event

TEST_SECONDS = 2.0
ALL_SECONDS = 40.0  # of one worker; collecting takes a few seconds more


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only tests that neither compile nor start processes")


def pytest_configure(config: pytest.Config) -> None:
    settings.register_profile("gate", derandomize=True)
    settings.load_profile("gate" if config.getoption("markexpr") else "default")
    if config.getoption("--quick"):
        config.pluginmanager.register(Quick(), "quick")


# The gate: pairs of values instead of all combinations ------------------------------------------


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seen: dict[str, set[Any]] = defaultdict(set)
    for item in items:
        values = list(enumerate(item.callspec._idlist)) if hasattr(item, "callspec") else []
        if len(values) < 3:
            continue
        pairs, known = set(combinations(values, 2)), seen[item.nodeid.partition("[")[0]]
        if pairs <= known:
            item.add_marker(pytest.mark.full)
        known |= pairs


# `make quick`: what turns out to cost something is left out -----------------------------------


class Quick(event.Listener):
    """Skips the running test as soon as it does something that costs more than quick allows."""

    def __init__(self) -> None:
        self.end, self.reason = time.monotonic() + ALL_SECONDS, ""

    def leave_out(self, reason: str) -> None:
        self.reason = f"{reason}: left out of `make quick`"
        pytest.skip(self.reason)

    def on_start(self, event: event.Event) -> None:
        self.leave_out("compiles a kernel")

    def on_end(self, event: event.Event) -> None:
        pass

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        before = signal.signal(signal.SIGALRM, lambda *_: self.leave_out(f"takes longer than {TEST_SECONDS:g} seconds"))
        event.register("numba:compile", self)
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(subprocess.Popen, "__init__", lambda *_, **__: self.leave_out("starts a process"))
                patch.setattr(BaseProcess, "start", lambda *_: self.leave_out("starts a process"))
                patch.setattr(threading.Thread, "start", lambda *_: self.leave_out("starts a thread"))
                return (yield)
        finally:
            event.unregister("numba:compile", self)
            signal.signal(signal.SIGALRM, before)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        if time.monotonic() > self.end:
            pytest.skip(f"the {ALL_SECONDS:g} seconds of `make quick` are over")
        self.reason = ""
        signal.setitimer(signal.ITIMER_REAL, TEST_SECONDS)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            if self.reason:  # also where the test has caught the skip and made something else of it
                pytest.skip(self.reason)
