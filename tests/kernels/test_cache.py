"""Compiled kernels kept on disk: found again by the next process, never older than any of the kernel sources."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import dsba
from dsba.kernels.cache import njit, part

PACKAGE = Path(dsba.__file__).parent

# EXTRA's kernel in extra.py reaches samples.py through others.
SCRIPT = """
import json
import numpy as np
import dsba

rng = np.random.default_rng(0)
problem = dsba.Problem.from_arrays(rng.normal(size=(12, 3)), rng.normal(size=12), "ridge", n_nodes=3, lam=0.1)
print(json.dumps(dsba.solve(problem, dsba.Topology.path(3), "extra", max_passes=3).Z.tolist()))
"""


def run(folder):
    """The iterates by the copy of the package in ``folder``, compiled into its own cache; and how often the process
    said that it compiles."""
    own = {"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, cwd=folder, env=os.environ | own, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return np.array(json.loads(done.stdout)), done.stderr.count("compiling kernels")


def kept(folder):
    return {str(path): path.stat().st_mtime_ns for path in (folder / "cache").rglob("*.nb?")}


def test_an_edited_kernel_never_runs_in_its_old_form(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "dsba", ignore=shutil.ignore_patterns("__pycache__"))
    source = tmp_path / "dsba" / "kernels" / "samples.py"
    pulled, said = run(tmp_path)
    assert said == 1  # one line, however many kernels there are
    edited = source.read_text().replace("share = factor /", "share = 0.0 * factor /")
    assert edited != source.read_text()
    source.write_text(edited)
    idle, said = run(tmp_path)
    assert said == 1
    assert np.abs(pulled - idle).max() > 1e-3
    compiled = kept(tmp_path)
    again, said = run(tmp_path)
    assert said == 0
    assert (again == idle).all()
    assert kept(tmp_path) == compiled  # nothing was compiled anew


TOGETHER = """
import sys, time
from pathlib import Path
import numpy as np
from numba.core import event
from dsba.kernels.cache import njit

@njit(allocates=True, cache=True)
def middle(x):
    return np.sort(x)[len(x) // 2]

Path(sys.argv[1]).touch()
while not Path("go").exists():
    time.sleep(0.001)
with event.install_recorder("numba:compile") as compiled:
    assert middle(np.array([3.0, 1.0, 2.0])) == 2.0
print(sum(e.is_start and e.data["dispatcher"] is middle for _, e in compiled.buffer))
"""


def test_processes_that_start_together_compile_once(tmp_path):
    (tmp_path / "together.py").write_text(TOGETHER)
    names = [str(tmp_path / f"ready{n}") for n in range(3)]
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    start = {"cwd": tmp_path, "env": environment, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([sys.executable, "together.py", name], **start) for name in names]
    deadline = time.monotonic() + 120
    while not all(map(os.path.exists, names)) and time.monotonic() < deadline:
        time.sleep(0.01)
    (tmp_path / "go").touch()
    assert sorted(process.communicate(timeout=300)[0].strip() for process in processes) == ["0", "0", "1"]


def test_a_part_has_no_machine_code_of_its_own():
    """This rests on private classes of Numba. Where they change, machine code that nobody calls slows the first fit."""

    @part()
    def twice(x):
        return 2.0 * x

    @njit()
    def four_times(x):
        return twice(twice(x))

    assert four_times(1.5) == 6.0
    (compiled,) = twice.overloads.values()
    assert not compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)


@pytest.mark.parametrize("allocates", [False, True])
def test_only_kernels_that_make_arrays_count_references(allocates):
    """Numba counts the references to each argument and slice: for short rows that took ten times the work itself."""

    @part(allocates=allocates)
    def total(row):
        found = 0.0
        for j in range(row.size):
            found += row[j]
        return found

    @njit(allocates=allocates)
    def totals(rows, out):
        for i in range(out.size):
            out[i] = total(rows[i])

    rows, out = np.arange(6.0).reshape(2, 3), np.zeros(2)
    before = sys.getrefcount(rows)
    totals(rows, out)
    assert out.tolist() == [3.0, 12.0]
    assert sys.getrefcount(rows) == before
    (code,) = totals.inspect_llvm().values()
    assert ("NRT_incref" in code) == allocates


COMPILED = """
import numpy as np
from numba.core import event
import dsba

rng = np.random.default_rng(0)
problem = dsba.Problem.from_arrays(rng.normal(size=(160, 3)), np.sign(rng.normal(size=160)), n_nodes=2, lam=0.1)
with event.install_recorder("numba:compile") as compiled:
    dsba.solve(problem, dsba.Topology.path(2), "dsba", max_passes=2, batch_size={}, communication="compressed")
print(*sorted({{e.data["dispatcher"].py_func.__name__ for _, e in compiled.buffer}}))
"""


BRANCHES = {1: {"sample_delta"}, 8: {"_backward"}, 80: {"_backward", "_resolve_scores"}}


@pytest.mark.full
@pytest.mark.parametrize("batch_size", BRANCHES)
def test_a_first_run_compiles_no_branch_that_it_cannot_take(tmp_path, batch_size):
    command, own = [sys.executable, "-c", COMPILED.format(batch_size)], {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, env=os.environ | own, capture_output=True, text=True, timeout=300, check=True)
    assert set().union(*BRANCHES.values()) & set(done.stdout.split()) == BRANCHES[batch_size]
