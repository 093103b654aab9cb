"""A user's own loss, in a file outside the package: exact, compiled, cached, never stale."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from conftest import ROOT
from test_consistent_operators import Quartic

import dsba
from dsba.kernels.dense import advance_dense
from dsba.kernels.modes import advance_modes

EXAMPLE = ROOT / "examples" / "own_loss.py"

LOSS = """
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import dsba

SHARP = 1.0


@dataclass(frozen=True)
class Smooth(dsba.ScalarOperator):
    '''weight (sqrt(SHARP^2 + r^2) - SHARP): no resolvent of its own.'''

    weight: float = 1.0
    lipschitz: ClassVar[float] = 3.0

    def value(self, u: float, y: float) -> float:
        return self.weight * (math.hypot(SHARP, u - y) - SHARP)

    def map(self, u: float, y: float) -> float:
        return self.weight * (u - y) / math.hypot(SHARP, u - y)

    def slope(self, u: float, y: float) -> float:
        return self.weight * SHARP**2 / math.hypot(SHARP, u - y) ** 3
"""

SCRIPT = """
import json

import numpy as np

import dsba
from dsba.kernels.modes import advance_modes
from users_loss import Smooth

rng = np.random.default_rng(0)
X, y = rng.normal(size=(30, 4)), 3 * rng.normal(size=30)
problem = dsba.Problem.from_arrays(X, y, Smooth(1.5), n_nodes=3, lam=0.1)
result = dsba.solve(problem, dsba.Topology.ring(3), max_passes=150, form="lazy")
stats = advance_modes.stats
report = {"z": list(result.z), "z_star": list(dsba.optimum(problem).z)}
report |= {"hits": sum(stats.cache_hits.values()), "misses": sum(stats.cache_misses.values())}
print(json.dumps(report))
"""


def residual(z, sharp):
    """SCRIPT's pooled operator at z, in NumPy."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), 3 * rng.normal(size=30)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    r = X @ z - y
    return X.T @ (1.5 * r / np.hypot(sharp, r)) / 30 + 0.1 * np.asarray(z)


def run(folder, *arguments):
    """A fresh Python in ``folder`` with a kernel cache there; its last line, parsed."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "kernels"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "users_loss.py").write_text(LOSS)
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


def load(path, monkeypatch):
    """The file as a module, under its own name, for one test."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def users_loss(folder, monkeypatch):
    return load(folder / "users_loss.py", monkeypatch)


def make_problem(operator):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 6)) * (rng.random((40, 6)) < 0.7)
    y = X @ rng.normal(size=6) + rng.standard_t(2, size=40)
    return dsba.Problem.from_arrays(X, y, operator, lam=0.1, split=np.repeat([0, 1, 2, 3], [4, 6, 10, 20]))


@dataclass(frozen=True)
class PlainSquares(dsba.Operator):
    """The loss of ridge regression with ``forward`` alone, no ``map``."""

    def forward(self, u, y, out):
        out[0] = u[0] - y


def test_an_operator_on_r1_needs_no_map():
    """Sweeps over dense data hand numbers to ``map``, which by itself goes through ``forward``."""
    rng = np.random.default_rng(0)
    X, y, Z = rng.normal(size=(13, 5)), rng.normal(size=13), rng.normal(size=(2, 5))
    plain, ridge = (dsba.Problem.from_arrays(X, y, op, n_nodes=2, lam=0.1) for op in (PlainSquares(), "ridge"))
    assert (plain.local_operator(Z) == ridge.local_operator(Z)).all()


def test_every_form_reaches_the_certified_optimum(users_loss):
    """And both fused kernels ran in nopython mode, compiled for the user's type."""
    problem = make_problem(users_loss.Smooth(weight=1.5))
    z_star, certificate = dsba.optimum(problem)
    assert certificate < 1e-12
    for form in ("step", "dense", "lazy"):
        result = dsba.solve(problem, dsba.Topology.ring(4), max_passes=150, form=form, reference=z_star)
        assert result.history["distance"][-1] < 1e-8, form
        assert result.history["gap"][-1] < 1e-12, form
    for kernel in (advance_modes, advance_dense):
        assert any("users_loss.Smooth<" in str(signature.args[0]) for signature in kernel.nopython_signatures)


def test_a_field_is_data_not_code(users_loss):
    """Two objects of one class share a kernel, and each keeps its own field."""
    z = np.linspace(-1, 1, 6)
    for weight in (1.0, 0.25, 3):
        problem = make_problem(users_loss.Smooth(weight=weight))
        one = make_problem(users_loss.Smooth(weight=1.0))
        change = problem.pooled.operator(z) - problem.lam * z
        assert np.allclose(change, weight * (one.pooled.operator(z) - one.lam * z), rtol=1e-14)
    with pytest.raises(dsba.InputError, match=r"fields of an operator must be numbers, Smooth.weight is of type str"):
        make_problem(users_loss.Smooth(weight="much"))


@pytest.mark.full  # test_cache.py has the same for kernels of the package
def test_kernels_are_cached_between_processes_and_never_stale(folder):
    first = run(folder, "script.py")
    assert first["misses"] > 0
    assert np.abs(residual(first["z"], 1.0)).max() < 1e-10

    second = run(folder, "script.py")
    assert second["misses"] == 0
    assert second["hits"] > 0
    assert second["z"] == first["z"]

    (folder / "users_loss.py").write_text(LOSS.replace("SHARP = 1.0", "SHARP = 0.5"))
    third = run(folder, "script.py")
    assert third["misses"] > 0
    assert np.abs(np.subtract(third["z"], first["z"])).max() > 1e-2
    assert np.allclose(third["z"], third["z_star"], rtol=0, atol=1e-9)
    assert np.abs(residual(third["z"], 0.5)).max() < 1e-10

    (folder / "users_loss.py").write_text(LOSS)  # and back: the first kernels are still there
    fourth = run(folder, "script.py")
    assert fourth["misses"] == 0
    assert fourth["z"] == first["z"]


POOLED = """
import json, sys
from pathlib import Path
import numpy as np
import dsba
from users_loss import Smooth
for change in sys.argv[1:]:  # edited after it was imported, before anything was compiled
    file = Path("users_loss.py")
    file.write_text(file.read_text().replace(*change.split("->")))
print(json.dumps(list(dsba.Problem([(np.eye(1), [1.0])], Smooth(), lam=0.0).pooled.operator(np.zeros(1)))))
"""


def test_an_edit_during_a_run_does_not_poison_the_cache(folder):
    (folder / "pooled.py").write_text(POOLED)
    assert run(folder, "pooled.py", "SHARP = 1.0->SHARP = 0.5") == pytest.approx([-1 / np.hypot(1, 1)])
    assert run(folder, "pooled.py") == pytest.approx([-1 / np.hypot(1, 0.5)])


def test_classes_made_by_one_function_are_different_types():
    def make(c):
        @dataclass(frozen=True)
        class Closure(dsba.ScalarOperator):
            lipschitz: ClassVar[float] = 9.0

            def map(self, u: float, y: float) -> float:
                return c * (u - y)

            def slope(self, u: float, y: float) -> float:
                return c

        return Closure()

    for c in (1.0, 3.0):
        problem = dsba.Problem([(np.eye(2), [1.0, 2.0])], make(c), lam=0.0)
        assert problem.pooled.operator(np.zeros(2)) == pytest.approx([-0.5 * c, -c])


AT_A_PROMPT = (
    LOSS.replace("from __future__ import annotations", "import json\n\nimport numpy as np")
    + """
print(json.dumps(list(dsba.Problem([(np.eye(1), [1.0])], Smooth(), lam=0.0).pooled.operator(np.zeros(1)))))
"""
)


def test_a_class_without_a_file(folder):
    """At a prompt or in a notebook: found again by the next process, and compiled anew when changed."""
    for sharp in (1.0, 1.0, 0.5):
        source = AT_A_PROMPT.replace("hypot(SHARP,", f"hypot({sharp},").replace("SHARP**2", f"{sharp}**2")
        assert run(folder, "-c", source) == pytest.approx([-1 / np.hypot(1, sharp)])


@pytest.mark.full
def test_a_class_without_a_file_and_a_global(folder):
    for sharp in (1.0, 0.5):
        source = AT_A_PROMPT.replace("SHARP = 1.0", f"SHARP = {sharp}")
        assert run(folder, "-c", source) == pytest.approx([-1 / np.hypot(1, sharp)])


UNIMPORTABLE = """
import runpy, json
import numpy as np
import dsba
Smooth = runpy.run_path("users_loss.py")["Smooth"]
print(json.dumps(list(dsba.Problem([(np.eye(1), [1.0])], Smooth(), lam=0.0).pooled.operator(np.zeros(1)))))
"""


@pytest.mark.full
def test_a_class_whose_module_cannot_be_imported(folder):
    """The first process compiles, the second one finds the kernel and must be able to use it."""
    (folder / "unimportable.py").write_text(UNIMPORTABLE)
    for _ in range(2):
        assert run(folder, "unimportable.py") == pytest.approx([-1 / np.hypot(1, 1)])


def test_the_example_runs():
    """As a program: its operator lives in __main__."""
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert re.fullmatch(r"\s*60(\s+\d\.\de-\d\d){2}", last)
    _, distance_dsba, distance_dsa = map(float, last.split())
    assert distance_dsba < 1e-10
    assert distance_dsa < 1e-8


def test_the_examples_class_can_be_imported(monkeypatch):
    op = load(EXAMPLE, monkeypatch).LogCosh(scale=0.5)
    for u in (-1e4, -2.0, 0.0, 0.3, 1e4):
        b = u + 7.0 * op.map(u, 0.1)
        assert op.resolvent(b, 7.0, 0.1) == pytest.approx(u, rel=1e-14, abs=1e-15)
        assert op.value(u, 0.1) >= 0
    problem = make_problem(op)
    assert dsba.optimum(problem).residual < 1e-12


def test_the_names_of_types_are_the_same_in_every_process():
    """They are the keys of cached kernels: a name of its own in every process would mean compiling in each."""
    code = (
        "import dsba; from dsba.operators.compiled import operator_type;"
        "print(*(operator_type(type(dsba.operators.get(name))).name for name in dsba.operators.names()))"
    )
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(2)]
    assert runs[0].stdout == runs[1].stdout
    assert "AUC" in runs[0].stdout


@pytest.mark.parametrize("method", ["extra", "nids", "dlm", "apapc", "dgd", "ssda", "msda"])
def test_a_loss_without_a_bound_of_its_slope_is_told_so(method):
    X = np.random.default_rng(0).normal(size=(40, 3))
    problem = dsba.Problem.from_arrays(X, X[:, 0], Quartic(), n_nodes=4, lam=0.1)
    with pytest.raises(dsba.InputError, match="no step size can be planned for Quartic: give its class a finite 'lip"):
        dsba.solve(problem, dsba.Topology.ring(4), method, max_passes=5)
