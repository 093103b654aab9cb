"""``dsba tune`` in a folder with results leaves what describes them alone."""

from __future__ import annotations

import shutil

from small_experiments import TINY
from typer.testing import CliRunner

from dsba.cli import app
from dsba.lab import ExperimentResults
from dsba.lab.reading import read

METHODS = [{"algorithm": "extra"}, {"algorithm": "dsba", "step_size": "auto"}]


def test_tuning_one_method_keeps_the_description_of_a_finished_comparison(finished, tmp_path):
    out, file = tmp_path / "out", tmp_path / "mine.toml"
    shutil.copytree(finished, out)
    file.write_text(read(TINY | {"method": METHODS, "seeds": [0, 1]}).to_toml())
    described = {name: (out / name).read_bytes() for name in ("results.dsba", "experiment.toml")}
    said = CliRunner().invoke(app, ["tune", str(file), "--method", "extra", "--out", str(out), "--workers", "1"])
    assert said.exit_code == 0, said.output
    assert {name: (out / name).read_bytes() for name in described} == described
    assert {run.method for run in ExperimentResults.load(out).runs} == {"EXTRA", "DSBA"}


def test_options_of_the_papers_experiment_do_not_belong_to_a_file(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(read(TINY).to_toml())
    for option in (["--max-passes", "3"], ["--tune-passes", "2"], ["--data", "a9a"], ["--problem", "auc"]):
        said = CliRunner().invoke(app, ["tune", str(file), *option, "--out", str(tmp_path / "out")])
        assert str(said.exception) == f"{option[0]} is for the paper's experiment, and {file} has its own."


def test_tuning_says_what_is_left_out(tmp_path):
    file = tmp_path / "mine.toml"
    methods = [{"algorithm": "extra", "step_size": "auto"}, {"algorithm": "saga", "step_size": "auto"}]
    file.write_text(read(TINY | {"method": methods}).to_toml())
    said = CliRunner().invoke(app, ["tune", str(file), "--out", str(tmp_path / "out"), "--workers", "1"])
    assert said.output.startswith("SAGA is left out for ridge on breast cancer (real): ")


def test_tuning_one_method_searches_for_no_other(tmp_path):
    out, file = tmp_path / "out", tmp_path / "mine.toml"
    methods = [{"algorithm": name, "grid": {"step_size": [0.5]}} for name in ("extra", "dgd")]
    file.write_text(read(TINY | {"method": methods}).to_toml())
    said = CliRunner().invoke(app, ["tune", str(file), "--method", "dgd", "--out", str(out), "--workers", "1"])
    assert said.exit_code == 0, said.output
    assert {row["method"] for row in ExperimentResults.load(out).tuning()} == {"DGD"}
