"""The command line: help with examples, what data commands tell; test_experiments.py has the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import dsba
from dsba import cli
from dsba.cli.lab import command_line


def run(*args, **options):
    command = [sys.executable, "-m", "dsba", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


def test_version_and_help():
    assert run("--version").stdout.strip() == f"dsba {dsba.__version__}"
    for command in ("reproduce", "compare", "tune", "report"):
        assert "Example" in CliRunner().invoke(cli.app, [command, "--help"]).stdout, command
    assert "fetch" in CliRunner().invoke(cli.app, ["data", "--help"]).stdout


def test_data_info_tells_the_file(tmp_path):
    (tmp_path / "tiny").write_text("1 1:2 3:1\n-1 2:0.5\n1\n")
    shown = run("data", "info", str(tmp_path / "tiny"))
    assert shown.returncode == 0, shown.stderr
    for words in ("3 x 3", "3 (1.0 a row)", "-1 (1), 1 (2)", "1 to 3; read as counted from 1", "sha256"):
        assert words in shown.stdout
    assert "news20.binary" in run("data", "list").stdout


@pytest.mark.parametrize("option", ["--key", "--data", "--policy"])
def test_a_study_is_not_checked_for_a_site_without_a_name(option, tmp_path):
    (tmp_path / "study.toml").write_text(CliRunner().invoke(cli.app, ["study", "example"]).stdout)
    said = CliRunner().invoke(cli.app, ["study", "check", str(tmp_path / "study.toml"), option, "mine"])
    assert "are of one site: give --site as well" in str(said.exception)


def test_no_flag_has_a_kind_of_value():
    assert "bool" not in CliRunner().invoke(cli.app, ["study", "policy", "--help"]).stdout


def test_labels_of_many_digits_are_counted_each(tmp_path):
    (tmp_path / "tiny").write_text("1000000 1:2\n1000001 1:1\n-0.5 1:3\n")
    found = json.loads(CliRunner().invoke(cli.app, ["data", "info", str(tmp_path / "tiny"), "--json"]).stdout)
    assert found["labels"] == {"-0.5": 1, "1000000": 1, "1000001": 1}


def test_an_embedded_set_need_not_be_fetched():
    assert "embedded" in CliRunner().invoke(cli.app, ["data", "fetch", "breast-cancer"]).stdout
    assert json.loads(CliRunner().invoke(cli.app, ["data", "fetch", "breast-cancer", "--json"]).stdout) == {
        "breast-cancer": None
    }


def test_the_user_of_a_database_is_in_no_command_line(monkeypatch):
    url = "postgresql://alice@host/db?table=visits&sslkey=mine"
    monkeypatch.setattr(sys, "argv", ["dsba", "train", url, f"--data={url}", "--formula=y ~ a == 1", "m\udce9.toml"])
    line = command_line()
    assert line.count("postgresql://host/db?table=visits") == 2
    assert "alice" not in line
    assert "sslkey" not in line
    assert "'--formula=y ~ a == 1'" in line
    assert line.encode()  # a name of a file that is not UTF-8


def test_data_info_compares_with_the_registered_file(tmp_path):
    """A file of the registered name with other bytes and another shape."""
    (tmp_path / "mushrooms").write_text("1 1:2\n")
    shown = run("data", "info", "mushrooms", env={**os.environ, "DSBA_DATA": str(tmp_path)})
    assert "8,124 x 112: THE SHAPE DIFFERS, THE CHECKSUM DIFFERS" in shown.stdout


def test_too_little_memory_is_a_sentence(monkeypatch, capsys):
    def too_large():
        raise MemoryError

    monkeypatch.setattr(cli, "app", too_large)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "Error: this takes more memory than there is here.\n"


def test_a_terminal_without_unicode(tmp_path):
    (tmp_path / "λ.svm").write_text("1 1:2 3:1\n-1 2:0.5\n")
    terminal = os.environ | {"PYTHONIOENCODING": "latin-1"}
    shown = run("data", "info", str(tmp_path / "λ.svm"), env=terminal)
    assert shown.returncode == 0, shown.stderr
    assert r"\u03bb.svm" in shown.stdout
    shown = run("data", "info", str(tmp_path / "missing-λ"), env=terminal)
    assert shown.returncode == 2
    assert r"missing-\u03bb" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_import_does_not_load_what_it_does_not_need():
    heavy = ("sklearn", "matplotlib", "rich", "pandas", "networkx", "pydantic", "plotly")
    code = f"import sys, dsba; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX closes the streams")
def test_a_program_that_starts_it_may_have_closed_all_streams(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.csv").write_text("x,y\n" + "".join(f"{k},{k % 7}\n" for k in range(40)))
    words = ["train", "a.csv", "b.csv", "c.csv", "--formula", "y ~ x", "--operator", "linear", "--out", "run"]
    closed = ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", sys.executable, "-m", "dsba", *words]
    assert subprocess.run(closed, cwd=tmp_path, timeout=300).returncode == 0
    assert (tmp_path / "run" / "model.dsba").exists()
