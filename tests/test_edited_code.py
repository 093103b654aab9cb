"""Code of one's own that was edited: compiled anew, labelled anew, and never mixed with what the old code computed."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys

import pytest

from dsba.fingerprint import digest_of
from dsba.operators.compiled import operator_type


def python(folder, *arguments):
    """A fresh Python in ``folder`` with a kernel cache there; its last line, parsed."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "kernels"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Writes some files and imports the module ``main`` of them, as a new process would."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)

    def forget():
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
                del sys.modules[name]

    def load(files):
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        forget()
        return importlib.import_module("main")

    yield load
    forget()


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
    print(json.dumps(list(dsba.Problem([(np.eye(1), [1.0])], Scaled(), lam=0.0).pooled(np.zeros(1)))))
"""


@pytest.mark.full  # two processes compile
def test_a_loss_meets_no_kernel_of_an_older_module_that_it_imports(tmp_path):
    (tmp_path / "loss.py").write_text(LOSS)
    for scale in (1.0, 4.0):
        (tmp_path / "constants.py").write_text(f"C = {scale}")
        assert python(tmp_path, "loss.py") == [-scale]


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
