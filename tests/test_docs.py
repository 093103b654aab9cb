"""Every block of the README and the documentation runs as written, Python and shell."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, make_data
from mpi import DEADLINE, needs_mpi, run, started
from sklearn.datasets import dump_svmlight_file

import dsba

PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [(page, i, code) for page in PAGES for i, code in enumerate(BLOCK.findall((ROOT / page).read_text()))]


@pytest.mark.parametrize(("page", "number", "code"), BLOCKS, ids=[f"{page}-{i}" for page, i, _ in BLOCKS])
def test_block_runs(page, number, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # a block stands alone, as when pasted; dataclasses look their module up by name
    exec(compile(code, f"{page} block {number}", "exec"), {"__name__": "__main__"})


SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
SCRIPTS = {page: [code for code in SHELL.findall((ROOT / page).read_text()) if "make " not in code] for page in PAGES}
# What a clean checkout cannot have: a cluster's own commands, and pip, whose extras are looked up instead.
STAND_INS = {
    "module": "",
    "srun": 'exec mpiexec -n 3 "$@"',
    "pip": f'grep -q "^mpich = " {ROOT / "pyproject.toml"}',
}


@pytest.fixture
def reader(tmp_path):
    """A folder with the reader's own files, small, under the names the pages use, and an environment for it."""
    data, commands = tmp_path / "data", tmp_path / "bin"
    data.mkdir()
    commands.mkdir()
    names = [f"site{n}.svm" for n in range(3)] + ["new.svm"]
    names += [f"data/{name}" for name in ("a9a", "rcv1_train.binary", "news20.binary", "news20", "reuters-moneyfx.trn")]
    for seed, name in enumerate(names):
        dump_svmlight_file(*make_data("logistic", columns=40, seed=seed), str(tmp_path / name), zero_based=False)
    for name, body in STAND_INS.items():
        (commands / name).write_text(f"#!/bin/sh\n{body}\n")
        (commands / name).chmod(0o755)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").touch()
    path = os.pathsep.join([str(commands), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {"cwd": tmp_path, "env": {**os.environ, "PATH": path, "DSBA_DATA": str(data), "HOME": str(tmp_path)}}


@needs_mpi
@pytest.mark.parametrize("page", [page for page, scripts in SCRIPTS.items() if scripts])
def test_commands_run(page, reader):
    """In order, in one folder; a reproduction, which takes minutes, until the first pieces of its plan are done."""
    for script in SCRIPTS[page]:
        long = re.findall(r"^dsba reproduce(?:.*\\\n)*.*", script, re.MULTILINE)
        for command in long:
            _begun(command, reader)
            script = script.replace(command, "")
        code, text = run("bash", "-ec", script, **reader)
        assert code == 0, f"{script}\n{text}"


def _begun(command, reader):
    with started("bash", "-c", f"exec {command}", **reader) as process:
        seen = ""
        while ": done" not in seen and (line := process.stdout.readline()):
            seen += line
        assert ": done" in seen, f"{command}\n{seen}"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE)
        assert process.returncode == 130


def test_the_guide_has_a_line_for_every_method():
    table = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "guide.md").read_text(), re.MULTILINE)
    named = [name for cell in table for name in re.findall(r"`([^`]+)`", cell)]
    for method in dsba.algorithms.names():
        assert named.count(method) == 1, method


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="the site is built by `make docs`, which installs mkdocs")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    run = subprocess.run(
        build, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "WARNING" not in run.stderr
    assert "DecentralizedRidge" in (tmp_path / "api.html").read_text()
    pages = {page: page.read_text() for page in tmp_path.rglob("*.html")}
    assert "<math" in pages[tmp_path / "concepts.html"]
    for page, text in pages.items():
        assert "arithmatex" not in text, f"{page} has a formula that is not typeset"


def test_every_page_is_in_the_navigation():
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert pages == set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))


def test_every_make_target_named_is_there():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        text = (ROOT / page).read_text()
        named = re.findall(r"`make (\w+)`", text) + re.findall(r"^make (\w+)", text, re.MULTILINE)
        assert set(named) <= targets, page
