"""The clock of a run counts iterations: kernels are compiled, or loaded, before it starts."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import ROOT, also_in_full

import dsba

FORMS = ("step", "dense", "lazy")
CASES = [
    *((name, "{}") for name in dsba.algorithms.names()),
    *(("dsba", f"dict(form={form!r}, communication={how!r})") for form in FORMS for how in ("sparse", "cached")),
    *((name, "dict(batch_size=4, communication='sparse')") for name in ("dsba", "dsa")),
]

# In a process of its own, in which no other test has loaded anything.
SCRIPT = """
import sys
from numba.core.dispatcher import Dispatcher

running, late, compile = [], [], Dispatcher.compile

def recorded(self, signature):
    late.extend([self.py_func.__name__] * len(running))
    return compile(self, signature)

Dispatcher.compile = recorded
import dsba
from conftest import make_problem
from dsba.engine.run import Run
from dsba.errors import InputError

advance = Run._advance

def on_the_clock(self, *limits):
    running.append(True)
    advance(self, *limits)
    running.clear()

Run._advance = on_the_clock
for operator, nodes in (("ridge", 4), ("auc", 4), ("ridge", 1), ("auc", 1)):
    topology = dsba.Topology.ring(4) if nodes == 4 else dsba.Topology.complete(1)
    try:
        dsba.solve(make_problem(operator, nodes), topology, {name!r}, max_passes=2, **{options})
        print(late)
        break
    except InputError:  # some methods are for AUC only, some for one node
        pass
"""


GATE = [("dsba", "dict(form='lazy', communication='sparse')"), CASES[-1]]


@pytest.mark.parametrize("case", also_in_full(GATE, CASES), ids=str)
def test_nothing_is_compiled_while_the_clock_runs(case):
    name, options = case
    script = SCRIPT.replace("{name!r}", repr(name)).replace("{options}", options)
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT / "tests")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == "[]"
