"""Compiled kernels kept on disk: found again by the next process, never older than any of the kernel sources."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

import dsba

PACKAGE = Path(dsba.__file__).parent

# The dense form reaches ``mix_row`` through kernels in dense.py, the step form through one in mix_row's own file.
SCRIPT = """
import json
import numpy as np
import dsba

rng = np.random.default_rng(0)
problem = dsba.Problem.from_arrays(rng.normal(size=(12, 3)), rng.normal(size=12), "ridge", n_nodes=3, lam=0.1)
forms = {form: dsba.solve(problem, dsba.Topology.path(3), max_passes=3, form=form) for form in ("dense", "step")}
print(json.dumps({form: result.Z.tolist() for form, result in forms.items()}))
"""


def run(folder):
    """The iterates of both forms by the copy of the package in ``folder``, compiled into its own cache."""
    own = {"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, cwd=folder, env=os.environ | own, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    np.testing.assert_allclose(found["dense"], found["step"], rtol=1e-11)
    return np.array(found["dense"])


def kept(folder):
    return {str(path): path.stat().st_mtime_ns for path in (folder / "cache").rglob("*.nb?")}


def test_an_edited_kernel_never_runs_in_its_old_form(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "dsba", ignore=shutil.ignore_patterns("__pycache__"))
    source = tmp_path / "dsba" / "kernels" / "mixing.py"
    mixed = run(tmp_path)
    edited = source.read_text().replace("out[j] += w * (Z[m, j]", "out[j] += 0.0 * w * (Z[m, j]")
    assert edited != source.read_text()
    source.write_text(edited)
    apart = run(tmp_path)
    assert np.abs(mixed - apart).max() > 1e-3
    compiled = kept(tmp_path)
    assert (run(tmp_path) == apart).all()
    assert kept(tmp_path) == compiled  # nothing was compiled anew
