"""The package as it is built and installed: no file is missing that a checkout has."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import pytest
from conftest import ROOT

PROGRAM = """
import numpy as np, dsba
X = np.random.default_rng(0).normal(size=(40, 3))
problem = dsba.Problem.from_arrays(X, X[:, 0], "ridge", n_nodes=4, lam=0.1)
print(dsba.__file__)
print(dsba.solve(problem, dsba.Topology.ring(4), tol=1e-6).status)
"""


@pytest.mark.full
def test_the_wheel_runs_without_the_checkout(tmp_path):
    pytest.importorskip("setuptools", minversion="77", reason="the wheel is built without a network, by what is here")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(tmp_path),
        ".",
    ]
    made = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stderr
    (wheel,) = tmp_path.glob("dsba-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    package = [path for path in (ROOT / "src" / "dsba").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert {str(path.relative_to(ROOT / "src")) for path in package} <= names
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    file, status = run.stdout.split()
    assert file.startswith(str(tmp_path)), run.stderr
    assert status == "converged"
