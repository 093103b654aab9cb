"""``dsba verify`` on a folder of results: its rows are run again and compared bit by bit."""

from __future__ import annotations

import csv
import re
import subprocess
import sys

import pytest
from small_experiments import SMALL
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.lab import run
from dsba.lab.folder import Folder
from dsba.lab.reading import read
from dsba.lab.verify import verify_results

TWO = SMALL | {"method": [{"algorithm": "dsba"}, {"algorithm": "extra", "step_size": "auto"}], "seeds": [0, 1]}


@pytest.fixture
def results(tmp_path):
    return run(TWO | {"stop": {"max_passes": 3}}, tmp_path / "out", workers=1)


def test_rows_that_were_computed_are_confirmed(results):
    found = list(verify_results(results.folder, read(results.folder.config)))
    assert len(found) == len(results.runs) == 4
    assert all(one.fine and "same bits" in one.sentence for one in found)


def test_one_row_is_verified_by_its_file(results):
    wanted = results.runs[2]
    done = CliRunner().invoke(app, ["verify", str(results.folder.run(wanted.id))])
    assert done.exit_code == 0, done.output
    assert done.output == f"ok    {wanted.id} ({wanted.method}, seed {wanted.seed}): a second run gave the same bits.\n"
    with pytest.raises(dsba.InputError, match="has no run 1f0c"):
        list(verify_results(results.folder, read(results.folder.config), "1f0c"))


def test_a_folder_of_results_may_lie_in_one_called_runs(tmp_path, monkeypatch):
    method = [{"algorithm": "extra", "step_size": "auto"}]
    results = run(SMALL | {"stop": {"max_passes": 2}, "method": method}, tmp_path / "runs" / "mine", workers=1)
    done = CliRunner().invoke(app, ["verify", str(results.folder.root)])
    assert done.exit_code == 0, (done.output, done.exception)
    monkeypatch.chdir(results.folder.root / "runs")
    assert CliRunner().invoke(app, ["verify", f"{results.runs[0].id}.dsba"]).output.startswith("ok ")


def test_a_published_row_says_how_to_check_it(results, tmp_path):
    """Identifier, seed, commit and command are in the CSV file, in the LaTeX table and on the page."""
    (tmp_path / "e.toml").write_text(results.folder.config.read_text())
    for words in (
        ["init", "-q"],
        ["add", "e.toml"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path, check=True, capture_output=True, text=True)
    command = [sys.executable, "-m", "dsba", "compare", "e.toml", "--out", "published", "--workers", "1"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    results = dsba.lab.ExperimentResults.load(tmp_path / "published")
    made = {"commit": commit.stdout.strip(), "command": results.environment.command}
    assert made["command"].startswith("dsba compare")
    rows = list(csv.DictReader(results.folder.summary.open()))
    assert [(row["run"], row["seed"]) for row in rows] == [(one.id, str(one.seed)) for one in results.runs]
    assert all({name: row[name] for name in made} == made for row in rows)
    table, page = results.to_latex(), results.page.read_text()
    for line in (f"% commit {made['commit']}", f"% made by {made['command']}"):
        assert line in table.splitlines()
    for one in results.runs:
        assert f"seed {one.seed}: {one.id}" in next(line for line in table.splitlines() if f"% {one.method}," in line)
        assert one.id in page
    assert made["commit"] in page
    published = re.search(r"seed 1: ([^,\n]+)", table)[1]
    done = CliRunner().invoke(app, ["verify", str(results.folder.run(published))])
    assert done.exit_code == 0, done.output


def test_a_row_that_was_improved_by_hand_is_named(results):
    """The attacker seals a better history under the identity of the run."""
    run_id = results.runs[-1].id
    folder = Folder(results.folder.root)
    outcome, history = folder.read_run(run_id)
    columns = {name: values.copy() for name, values in history.to_dict().items()}
    columns["gap"][-1] = columns["gap"][-1] * (1 - 1e-15)
    folder.write_sealed(folder.run(run_id), outcome, columns)
    wrong = [one for one in verify_results(results.folder, read(results.folder.config)) if not one.fine]
    assert [one.sentence for one in wrong] == [
        f"{run_id} ({results.runs[-1].method}, seed {results.runs[-1].seed}): a second run has other numbers in gap."
    ]
