"""The command line: help with examples, the demo, one clear sentence for bad input."""

from __future__ import annotations

import subprocess
import sys

import pytest

import dsba


def run(*args):
    return subprocess.run([sys.executable, "-m", "dsba", *args], capture_output=True, text=True, timeout=300)


def test_version_and_help():
    assert run("--version").stdout.strip() == f"dsba {dsba.__version__}"
    shown = run("demo", "--help").stdout
    assert "Example" in shown
    assert "--out" in shown


@pytest.mark.slow
def test_demo_writes_both_figures(tmp_path):
    out = tmp_path / "figures"
    done = run("demo", "--out", str(out), "--max-passes", "3")
    assert done.returncode == 0, done.stderr
    for name in ("gap-against-passes.png", "gap-against-doubles.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
        assert name in done.stdout
    assert "synthetic" in done.stdout


def test_unwritable_folder_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    done = run("demo", "--out", str(tmp_path / "file" / "figures"), "--max-passes", "1")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("Error:")


def test_import_does_not_load_what_it_does_not_need():
    heavy = ("sklearn", "matplotlib", "rich", "pandas", "networkx")
    code = f"import sys, dsba; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
