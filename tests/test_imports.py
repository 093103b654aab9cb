"""What is loaded when: a study needs no laboratory, and results are shown without anything that could run."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
import tomllib

import pytest
from conftest import ROOT

SOURCES = ROOT / "src" / "dsba"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
SHOWN = next(c["source_modules"] for c in CONTRACTS if c["name"].startswith("results are shown"))
OF_THE_LAB = ("matplotlib", "networkx", "plotly")


def loaded(code, *modules):
    """Which of the modules a fresh process has loaded after the code."""
    script = f"import sys; {code}; print(*sorted(set({modules!r}) & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return ended.stdout.split()


def test_joining_a_study_loads_nothing_of_the_laboratory():
    modules = [f"dsba.study.{path.stem}" for path in sorted((SOURCES / "study").glob("[a-z]*.py"))]
    modules += [f"dsba.tables.{path.stem}" for path in sorted((SOURCES / "tables").glob("[a-z]*.py"))]
    assert (
        loaded(f"import {', '.join(['dsba.cli', *modules])}", *OF_THE_LAB, "pyarrow", "sklearn", "dsba.lab.spec") == []
    )


def test_a_study_runs_where_the_laboratory_has_no_libraries(tmp_path):
    """With csv files it does not need pyarrow either, which pandas loads if it finds it."""
    for name in (*OF_THE_LAB, "pyarrow", "sklearn"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('a study does not need this')")
    files = [tmp_path / f"{name}.csv" for name in ("aarhus", "bergen", "cork")]
    for site, file in enumerate(files):
        rows = [f"{(7 * row + site) % 50},{(3 * row + site * row) % 11}" for row in range(60)]
        file.write_text("\n".join(["age,stay", *rows]) + "\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-m", "dsba", "study", "try", *map(str, files)]
    command += ["--formula", "stay ~ age", "--operator", "linear", "--out", str(tmp_path / "out")]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("module", SHOWN)
def test_results_are_shown_without_compiled_code(module):
    assert loaded(f"import {module}", "numba", "dsba.kernels", "dsba.operators", "dsba.algorithms") == []


def test_pyarrow_is_for_parquet_only():
    found = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", None)]
            found |= {path.name for name in names if (name or "").partition(".")[0] == "pyarrow"}
    assert found == {"parquet.py"}


def test_the_laboratory_serves_declared_names_only():
    import dsba.lab

    for name in dsba.lab.__all__:
        assert callable(getattr(dsba.lab, name))
    with pytest.raises(AttributeError, match="no attribute 'runs'"):
        dsba.lab.runs  # noqa: B018


def test_the_name_of_a_module_gives_the_module():
    """No function or class of a package hides a module of the same name."""
    import dsba

    for found in pkgutil.walk_packages(dsba.__path__, "dsba."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
            parent, _, name = found.name.rpartition(".")
            assert inspect.ismodule(getattr(sys.modules[parent], name)), found.name
