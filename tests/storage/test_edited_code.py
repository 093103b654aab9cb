"""Code of one's own that was edited: compiled anew, labelled anew, and never mixed with what the old code computed."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import ROOT

import dsba
from dsba.errors import InputError
from dsba.operators.compiled import operator_type
from dsba.storage import plugins
from dsba.storage.fingerprint import digest_of


def python(folder, *arguments, **environment):
    """A fresh Python in ``folder``; its last line, parsed."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes files; at the end the modules that were loaded are forgotten."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)

    def forget():
        for name in set(sys.modules) - before:
            if str(tmp_path) in str(sys.modules[name]):
                del sys.modules[name]

    def write(files, new_process=False):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        importlib.invalidate_caches()
        if new_process:
            forget()

    yield write
    forget()


@pytest.fixture
def imported(write):
    """Writes some files and imports the module ``main`` of them, as a new process would."""

    def load(files):
        write(files, new_process=True)
        return importlib.import_module("main")

    return load


# Modules that code refers to ----------------------------------------------------------------------

LOSS = """
from dataclasses import dataclass
import json
import numpy as np
import dsba
import constants

@dataclass(frozen=True)
class Scaled(dsba.ScalarOperator):
    def map(self, u, y):
        return constants.C * (u - y)
    def slope(self, u, y):
        return constants.C

if __name__ == "__main__":
    print(json.dumps(list(dsba.Problem([(np.eye(1), [1.0])], Scaled(), lam=0.0).pooled.operator(np.zeros(1)))))
"""


@pytest.mark.full  # two processes compile
def test_a_loss_meets_no_kernel_of_an_older_module_that_it_imports(tmp_path):
    (tmp_path / "loss.py").write_text(LOSS)
    for scale in (1.0, 4.0):
        (tmp_path / "constants.py").write_text(f"C = {scale}")
        assert python(tmp_path, "loss.py", NUMBA_CACHE_DIR=str(tmp_path / "kernels")) == [-scale]


def test_the_name_of_a_type_depends_on_modules_that_the_loss_imports(imported):
    """It is the key of cached kernels."""
    first, again, edited = (
        operator_type(imported({"main.py": LOSS, "constants.py": f"C = {scale}"}).Scaled).name
        for scale in (1.0, 1.0, 4.0)
    )
    assert again == first
    assert edited != first


MAIN = """
import math
import helpers
import package.part
def own(u):
    return helpers.main.helpers.moved(u) + package.part.LIMIT + math.pi
"""
HELPERS = """
import main
import settings
UNUSED = 1
def moved(u):
    return u * settings.FACTOR * main.math.e
"""
FILES = {
    "main.py": MAIN,
    "helpers.py": HELPERS,
    "settings.py": "FACTOR = 1.0\n",
    "package/__init__.py": "",
    "package/part.py": "LIMIT = 3\n",
}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("helpers.py", "u *", "u +"),
        ("settings.py", "1.0", "2.0"),
        ("package/part.py", "3", "4"),
        ("settings.py", "FACTOR = 1.0", "def __getattr__(name):\n    return 1.0"),
    ],
)
def test_what_a_function_names_in_a_module_counts(imported, name, old, new):
    first = digest_of(imported(FILES).own)
    assert digest_of(imported(FILES).own) == first
    assert digest_of(imported(FILES | {name: FILES[name].replace(old, new)}).own) != first


def test_what_a_function_does_not_name_in_a_module_does_not_count(imported):
    first = digest_of(imported(FILES).own)
    assert digest_of(imported(FILES | {"helpers.py": HELPERS.replace("= 1", "= 2")}).own) == first


def test_compiled_helpers_count_by_their_python_functions(imported):
    compiled = FILES | {"helpers.py": "from numba import njit\n" + HELPERS.replace("def moved", "@njit\ndef moved")}
    first = digest_of(imported(compiled).own)
    assert digest_of(imported(compiled).own) == first
    assert digest_of(imported(compiled | {"settings.py": "FACTOR = 2.0"}).own) != first


def test_an_object_among_the_globals_counts_with_what_its_class_does(imported):
    text = """
from dataclasses import dataclass
@dataclass(frozen=True)
class Scale:
    by: float
    def __call__(self, u):
        return u * self.by
TWICE = Scale(2.0)
def own(u):
    return TWICE(u)
"""
    first = digest_of(imported({"main.py": text}).own)
    assert digest_of(imported({"main.py": text}).own) == first
    assert digest_of(imported({"main.py": text.replace("u * self", "u + self")}).own) != first


# Plugins ------------------------------------------------------------------------------------------


@pytest.fixture
def plugin(write, tmp_path):
    """Writes the files of a plugin, and calls its function ``own``."""

    def call(files, name="metric.py"):
        write(files)
        return plugins.load_function(f"{tmp_path / name if name.endswith('.py') else name}:own", "metric")()

    return call


OWN = "import beside\ndef own():\n    return beside.VALUE\n"


def test_a_plugin_that_did_not_change_is_loaded_once(plugin):
    files = {"metric.py": "MET = []\ndef own():\n    MET.append(1)\n    return len(MET)\n"}
    assert [plugin(files), plugin(files)] == [1, 2]


@pytest.mark.parametrize("name", ["metric.py", "metric"])
@pytest.mark.parametrize("edit", [{"metric.py": OWN.replace("VALUE", "VALUE + 1")}, {"beside.py": "VALUE = 2"}])
def test_a_plugin_that_changed_after_it_was_loaded_is_refused(plugin, name, edit):
    """The process has the old code, and its results would carry the digest of the new one."""
    assert plugin({"metric.py": OWN, "beside.py": "VALUE = 1"}, name) == 1
    with pytest.raises(InputError, match=r"\.py has changed since this process loaded it: restart Python"):
        plugin(edit, name)


def test_a_module_that_changed_after_another_plugin_loaded_it_is_refused(plugin):
    assert plugin({"metric.py": OWN, "beside.py": "VALUE = 1"}) == 1
    with pytest.raises(InputError, match=r"beside\.py has changed since this process loaded it"):
        plugin({"second.py": OWN, "beside.py": "VALUE = 2"}, "second.py")


def test_a_module_that_is_gone_is_refused(plugin, tmp_path):
    """The process still has it."""
    text = "try:\n    from fast import own\nexcept ImportError:\n    def own():\n        return 1\n"
    assert plugin({"metric.py": text, "fast.py": "def own():\n    return 2\n"}) == 2
    (tmp_path / "fast.py").unlink()
    with pytest.raises(InputError, match=r"fast\.py has changed since this process loaded it"):
        plugin({})


def test_a_plugin_that_failed_is_loaded_anew(plugin):
    """Also the modules beside it, which were loaded before it failed."""
    with pytest.raises(InputError, match="cannot be loaded"):
        plugin({"metric.py": "import beside\nimport no_such_module", "beside.py": "VALUE = 1"})
    assert plugin({"metric.py": OWN, "beside.py": "VALUE = 2"}) == 2


def test_sources_in_folders_without_init_count(plugin, tmp_path):
    name = f"{tmp_path / 'metric.py'}:own"
    text = "from lib.factor import FACTOR\ndef own():\n    return FACTOR\n"
    assert plugin({"metric.py": text, "lib/factor.py": "FACTOR = 1"}) == 1
    assert set(plugins.sources(name)) == {"metric.py", "lib/factor.py"}
    first = plugins.digest(name)
    (tmp_path / "lib" / "factor.py").write_text("FACTOR = 2")
    assert plugins.digest(name) != first


def test_a_folder_of_that_name_does_not_hide_what_is_installed(plugin, tmp_path):
    text = "import numpy, json\ndef own():\n    return 1\n"
    assert plugin({"metric.py": text, "numpy/mine.py": "", "json/mine.py": ""}) == 1
    assert set(plugins.sources(f"{tmp_path / 'metric.py'}:own")) == {"metric.py"}


def test_modules_beside_the_plugin_that_its_packages_import_are_sources(plugin, tmp_path):
    package = {"package/__init__.py": "from package.part import own", "package/part.py": OWN}
    files = package | {"metric.py": "from package import own", "beside.py": "VALUE = 1"}
    assert plugin(files) == 1
    assert set(plugins.sources(f"{tmp_path / 'metric.py'}:own")) == set(files)


def test_installed_modules_beside_an_installed_plugin_are_no_sources(tmp_path):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "mine.py").write_text("import library")
    (folder / "library.py").write_text("")
    assert set(plugins.sources(f"{folder / 'mine.py'}:own")) == {"mine.py"}


# Checkpoints --------------------------------------------------------------------------------------

CODE = """
from dataclasses import dataclass, replace
from typing import ClassVar
import numpy as np
import dsba

@dataclass(frozen=True)
class Loss(dsba.ScalarOperator):
    lipschitz: ClassVar[float] = 4.0
    def value(self, u, y):
        return 0.5 * LOSS * (u - y) ** 2
    def map(self, u, y):
        return LOSS * (u - y)
    def slope(self, u, y):
        return LOSS

@dataclass(frozen=True)
class Lasso(dsba.penalties.L1):
    def prox(self, V, t):
        return PENALTY * super().prox(V, t)

@dataclass(frozen=True)
class Mine(dsba.algorithms.PGExtra):
    def step(self, s, problem, net, samples):
        kinds = METHOD in {"a", "b", "c", "d"}  # in an order of its own in every process
        return super().step(s, problem, net, samples)

class Printed:
    pass

THING = Printed()  # its repr shows where it is in memory

def metric(z):
    return THING and METRIC * float(np.abs(z).sum())
"""
NAMES = ("LOSS", "PENALTY", "METHOD", "METRIC")


def stopped(path, passes, operator="ridge", **edited):
    """A run with code of one's own that writes its checkpoint to a file, or goes on from it."""
    scope = {"__name__": "__main__"} | dict.fromkeys(NAMES, 1.0) | edited
    exec(CODE, scope)
    component = scope["Loss"]() if operator == "own" else operator
    penalty = scope["Lasso"](0.01) if operator != "own" else None
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.ones(20)
    problem = dsba.Problem.from_arrays(X, y, component, 4, 0.05, penalty=penalty)
    options = {"step_size": 0.1, "metrics": {"size": scope["metric"]}, "checkpoint": path}
    return dsba.solve(problem, dsba.Topology.ring(4), scope["Mine"](), max_passes=passes, **options)


@pytest.mark.parametrize(
    ("edited", "operator"),
    [*((name, "ridge") for name in NAMES[1:]), pytest.param("LOSS", "own", marks=pytest.mark.full)],
)
def test_a_checkpoint_of_code_before_an_edit_is_refused(tmp_path, edited, operator):
    path = tmp_path / "run"
    stopped(path, 2, operator)
    named = {"LOSS": "operator", "PENALTY": "penalty", "METHOD": "algorithm", "METRIC": "metric 'size'"}[edited]
    with pytest.raises(dsba.CheckpointError, match=rf"belongs to another run: its code of the {named} is .*\.$"):
        stopped(path, 4, operator, **{edited: 0.5})


def test_a_checkpoint_of_the_same_code_is_taken_up_in_another_process(tmp_path):
    stopped(tmp_path / "run", 2)
    script = "from test_edited_code import stopped; print(len(stopped('run', 4).history))"
    paths = [str(ROOT / "tests"), *sys.path]
    assert python(tmp_path, "-c", script, PYTHONPATH=os.pathsep.join(paths)) == 5


def test_the_order_of_a_set_does_not_count(imported):
    """It is another one in every process, if the set holds texts."""
    text = "VALUES = {0, 8}\ndef own(u):\n    return u in VALUES or u in {0, 8}\n"
    first = digest_of(imported({"main.py": text}).own)
    assert digest_of(imported({"main.py": text.replace("0, 8", "8, 0")}).own) == first
    assert digest_of(imported({"main.py": text.replace("0, 8", "0, 9")}).own) != first


def test_a_worker_takes_the_code_that_its_parent_planned_with(write, tmp_path, monkeypatch):
    """A process that starts after an edit knows by the parent's sources that they are others."""
    write({"mine.py": "def measure(z):\n    return 1.0\n"})
    plugins.load_function(f"{tmp_path / 'mine.py'}:measure", "metric")
    planned = plugins.loaded_sources()
    assert (tmp_path / "mine.py").resolve() in planned
    monkeypatch.setattr(plugins, "_loaded", {})  # as in a new process
    write({"mine.py": "def measure(z):\n    return 2.0\n"}, new_process=True)
    plugins.expect(planned)
    with pytest.raises(InputError, match=r"mine\.py has changed since"):
        plugins.load_function(f"{tmp_path / 'mine.py'}:measure", "metric")
