"""Files of others are safe in a results folder, and nothing in a folder of somebody else runs."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys

import pytest
from small_experiments import TINY, command
from test_results_files import LOSS, PLUGIN

import dsba
from dsba.errors import InputError
from dsba.lab import ExperimentResults, jobs, run
from dsba.lab.folder import RESULTS_MARKER, Folder
from dsba.lab.reading import read
from dsba.storage import plugins


def tree(root):
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_of_somebody_else_is_refused_untouched(force, tmp_path):
    for name in ("checkpoints/mine.dsba", "runs/mine.dsba", "figures/a.png", ".part-x-1", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(InputError, match="has files that are not this command's"):
        run(TINY, tmp_path, workers=1, force=force)
    assert tree(tmp_path) == before


def test_only_planned_files_are_removed(tmp_path):
    results = run(TINY, tmp_path, workers=1)
    own = [f"runs/{results.runs[0].id}.dsba", "report.html"]
    torn = [f"runs/.part-{results.runs[0].id}.dsba-abc", ".part-report.html-x1"]
    foreign = [
        "checkpoints/mine.dsba",
        "runs/mine.dsba",
        "figures/a.png",
        "notes.txt",
        ".part-mine-1",
        "runs/.part-b-2",
    ]
    for name in (*torn, *foreign):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    run(TINY, tmp_path, workers=1, force=True)
    assert all((tmp_path / name).read_text() == "mine" for name in foreign)
    assert not any((tmp_path / name).exists() for name in torn)
    assert all((tmp_path / name).exists() for name in own)


def test_the_lock_comes_before_anything_is_touched(tmp_path):
    run(TINY, tmp_path, workers=1)
    before = tree(tmp_path)
    with Folder(tmp_path).owned(), pytest.raises(InputError, match="another dsba is at work"):
        run(TINY | {"title": "other"}, tmp_path, workers=1, force=True)
    assert tree(tmp_path) == before
    assert (tmp_path / RESULTS_MARKER).is_file()


@pytest.mark.parametrize("name", ["figures", "report.html", "runs", "summary.csv"])
def test_links_out_of_the_folder_are_refused(name, finished, tmp_path):
    out, outside = tmp_path / "out", tmp_path / "outside"
    shutil.copytree(finished, out)
    shutil.move(out / name, outside)
    (out / name).symlink_to(outside)
    before = tree(outside) if outside.is_dir() else outside.read_bytes()
    with pytest.raises(InputError, match="leads out of"):
        ExperimentResults.load(out).report()
    assert (tree(outside) if outside.is_dir() else outside.read_bytes()) == before


EVIL = """
from pathlib import Path
Path("ran").touch()
"""


def test_a_folder_of_somebody_else_runs_nothing(finished, tmp_path):
    """Neither code that its TOML names, nor a file of edges, is opened by a report."""
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    (tmp_path / "evil.py").write_text(EVIL)
    (out / "evil.py").write_text(EVIL)
    text = (out / "experiment.toml").read_text()
    text = text.replace('operator = "ridge"', 'operator = "evil.py:X"').replace(
        'graph = "ring"', 'edges = "/etc/passwd"'
    )
    (out / "experiment.toml").write_text(text)
    done = command("report", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()
    assert b"root" not in (out / "results.dsba").read_bytes()
    shutil.copy(out / "experiment.toml", tmp_path / "theirs.toml")
    refused = command("compare", "theirs.toml", "--out", "new", cwd=tmp_path)
    assert refused.returncode == 2
    assert "say --plugin evil.py if you trust it" in refused.stderr
    assert not (tmp_path / "ran").exists()
    for what in (out, *out.glob("runs/*.dsba")):
        refused = command("verify", what, cwd=tmp_path)
        assert refused.returncode == 2
        assert "names code that dsba would run" in refused.stderr
        assert not (tmp_path / "ran").exists()


def test_code_may_be_confirmed_at_a_terminal(tmp_path):
    (tmp_path / "evil.py").write_text(EVIL)
    (tmp_path / "mine.toml").write_text(PLUGIN.replace("mine.py:Mine", "evil.py:X"))
    ran = {}
    for answer in (b"n\n", b"y\n"):
        parent, child = pty.openpty()
        os.write(parent, answer)
        line = [sys.executable, "-m", "dsba", "compare", "mine.toml"]
        subprocess.run(line, cwd=tmp_path, stdin=child, capture_output=True, timeout=300, check=False)
        os.close(parent)
        os.close(child)
        ran[answer] = (tmp_path / "ran").exists()
    assert ran == {b"n\n": False, b"y\n": True}


def test_an_error_inside_a_run_is_not_called_damage(tmp_path, monkeypatch):
    def failing(*args, **options):
        raise ValueError("a mistake of the method's own")

    monkeypatch.setattr(jobs, "solve", failing)
    with pytest.raises(ValueError, match="own") as caught:
        run(TINY, tmp_path, workers=1)
    assert not isinstance(caught.value, InputError)


def test_any_terminal_works(finished, tmp_path):
    environment = {**os.environ, "LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = command("report", finished, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Winners" in done.stdout


def test_markup_in_labels_is_text(tmp_path):
    methods = [{"algorithm": "extra", "step_size": "auto", "label": "[bold]mine[/nope]"}]
    (tmp_path / "mine.toml").write_text(read(TINY | {"method": methods, "title": "[red]title[/x]"}).to_toml())
    done = command("compare", "mine.toml", "--workers", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "[bold]mine[/nope]: ridge" in done.stdout
    assert done.stdout.count("[bold]mine") >= 2  # as a job, and in the table of winners


def test_a_plugin_takes_no_other_module_s_place(tmp_path):
    (tmp_path / "json.py").write_text(LOSS.replace("from scale import SCALE", "SCALE = 1.0"))
    assert type(dsba.operators.get(f"{tmp_path / 'json.py'}:Mine")).__name__ == "Mine"
    assert sys.modules["json"] is json
    assert sys.path[0] != str(tmp_path)


def test_the_sources_of_a_plugin_are_what_it_imports_beside_it(tmp_path):
    (tmp_path / "mine.py").write_text("import json\nimport beside\nfrom package import part\n")
    (tmp_path / "beside.py").write_text("import deeper")
    (tmp_path / "package").mkdir()
    for name in ("deeper.py", "json.py", "other.py", "package/__init__.py", "package/part.py"):
        (tmp_path / name).write_text("")
    found = plugins.sources(f"{tmp_path / 'mine.py'}:X")
    assert set(found) == {"mine.py", "beside.py", "deeper.py", "package/__init__.py", "package/part.py"}
