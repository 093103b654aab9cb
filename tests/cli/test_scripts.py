"""What scripts and shells get of the command line: JSON, completed values, help without values beside flags."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from test_table_commands import tables
from typer.testing import CliRunner

from dsba import algorithms, operators
from dsba.cli import app
from dsba.cli.options import echo_json
from dsba.data import EMBEDDED
from dsba.errors import InputError
from dsba.fitting import codec
from dsba.graph.topology import GRAPH_FAMILIES
from dsba.lab import ExperimentResults
from dsba.operators import Operator
from dsba.storage.plugins import load_class, load_function

EXPERIMENT = """
stop = { max_passes = 2 }
data = [{ name = "breast-cancer" }]
problem = [{ operator = "ridge" }]
network = [{ graph = "ring", n_nodes = 3 }]
method = [{ algorithm = "dsba", step_size = "auto" }, { algorithm = "extra", step_size = "auto" }]
"""


def told(*words, code=0):
    """What a command prints to standard output, which must be one JSON value."""
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def test_train_prints_the_model_as_json(tmp_path):
    files = tables(tmp_path)
    found = told("train", *files, "--formula", "readmitted ~ age", "--out", tmp_path / "run", "--json")
    model = codec.load(tmp_path / "run")
    assert found["status"] == str(model.run.status)
    assert (found["method"], found["nodes"]) == (model.run.method, len(files))
    assert found["residual"] == model.run.residual
    assert found["page"].endswith("report.html")
    short = ["--max-passes", 1, "--tol", 1e-30, "--algorithm", "dsba", "--formula", "readmitted ~ age"]
    unfinished = told("train", *files, *short, "--out", tmp_path / "short", "--json", code=3)
    assert unfinished["status"] == "budget"


def test_compare_prints_the_winners_as_json(tmp_path):
    (tmp_path / "mine.toml").write_text(EXPERIMENT)
    found = told("compare", tmp_path / "mine.toml", "--out", tmp_path / "out", "--workers", 1, "--json")
    results = ExperimentResults.load(tmp_path / "out")
    assert found["winners"] == results.winners()
    assert found["warnings"] == results.warnings()
    assert found["summary"] == str(results.folder.summary.resolve())


def test_data_commands_print_json(tmp_path):
    (tmp_path / "tiny").write_text("1 1:2 3:1\n-1 2:0.5\n1\n")
    found = told("data", "info", tmp_path / "tiny", "--json")
    shape = {key: found[key] for key in ("rows", "columns", "nonzeros", "empty_rows", "labels", "indices")}
    assert shape == {
        "rows": 3, "columns": 3, "nonzeros": 3, "empty_rows": 1, "labels": {"-1": 1, "1": 2}, "indices": [1, 3],
    }  # fmt: skip
    assert found["registered"] is None
    listed = told("data", "list", "--json")
    assert listed["embedded"] == list(EMBEDDED)
    assert "news20.binary" in {one["name"] for one in listed["registered"]}


def test_numbers_that_are_not_finite_are_null(capsys):
    echo_json({"a": [math.inf, {"b": math.nan}], "c": 1.5})
    assert json.loads(capsys.readouterr().out) == {"a": [None, {"b": None}], "c": 1.5}


def completed(*words):
    """What a shell is given for the last of the words, through the program's own completion."""
    line = " ".join(["dsba", *words])
    asked = {"_DSBA_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    return CliRunner().invoke(app, [], prog_name="dsba", env=asked).stdout.split()


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (("train", "--graph", "r"), GRAPH_FAMILIES),
        (("evaluate", "--graph", "p"), GRAPH_FAMILIES),
        (("train", "--algorithm", "ds"), algorithms.names()),
        (("study", "try", "--operator", "l"), operators.names()),
        (("reproduce", "--data", "b"), EMBEDDED),
    ],
)
def test_values_are_completed(words, known):
    own = [name for name in known if name.startswith(words[-1])]
    assert own
    assert set(own) <= set(completed(*words))
    assert all(name.startswith(words[-1]) for name in completed(*words))


def test_flags_have_no_value_in_the_help():
    for words in (["train"], ["compare"], ["study", "try"], ["study"], []):
        shown = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "150"}).stdout
        assert "<bool>" not in shown, words
        assert re.search(r"--help\s+Show", shown)


def test_a_wrong_name_lists_what_the_file_has(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from dsba.operators import Ridge\nclass Mine(Ridge): pass\ndef score(z, X, y): return 0.0\n")
    for name in ("Mien", "score"):
        with pytest.raises(InputError, match="the file has Ridge, Mine") as error:
            load_class(f"{file}:{name}", Operator, "operator")
        assert name in str(error.value)
    with pytest.raises(InputError, match="there is no scare; the file has score"):
        load_function(f"{file}:scare", "metric")
    assert np.isfinite(load_function(f"{file}:score", "metric")(0, 0, 0))


def test_study_check_prints_its_findings(tmp_path):
    """The example names keys that nobody has, so some findings are wrong. The sentences are those of the text."""
    pytest.importorskip("websockets")
    file = tmp_path / "study.toml"
    file.write_text(CliRunner().invoke(app, ["study", "example"]).stdout)
    text = CliRunner().invoke(app, ["study", "check", str(file)])
    found = told("study", "check", file, "--json", code=text.exit_code)
    assert found["fine"] is (text.exit_code == 0)
    assert [one["sentence"] for one in found["findings"]] == [line[6:] for line in text.stdout.splitlines()]
