"""The model on disk: one sealed file, predictions by what the operator declares, and a folder that is the command's."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
from conftest import ROOT, make_data
from mpi import TRAIN, run
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.cli.train import MARKER
from dsba.fitting import FitSpec, FittedModel, codec, fit_rows, train
from dsba.fitting.fit import carried_out
from dsba.fitting.not_converged import EXIT_CODE
from dsba.fitting.rows import as_rows
from dsba.storage import sealed
from dsba.storage.folders import owned


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DSBA_CACHE", str(tmp_path / "cache"))


def make_files(folder, seed=0):
    X, y = make_data("logistic", columns=4, density=0.9, seed=seed)
    files = []
    for n in range(2):
        lines = [f"{y[i]} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(X[i].tolist())) for i in range(n, 60, 2)]
        files.append(folder / f"seed{seed}-site{n}.svm")
        files[-1].write_text("\n".join(lines) + "\n")
    return files


def make_model(folder, seed=0):
    return train(make_files(folder, seed), FitSpec(graph="path", max_passes=2.0))[0]


@pytest.fixture
def saved(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    codec.save(make_model(tmp_path), folder)
    return folder


# One file --------------------------------------------------------------------------------------------


def test_every_single_bit_that_changes_is_found(saved):
    """One bit of every byte."""
    file = saved / codec.MODEL_FILE
    whole = file.read_bytes()
    codec.load(saved)
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << (at % 8)
        file.write_bytes(damaged)
        with pytest.raises(dsba.InputError, match=r"the model in .* is damaged: "):
            codec.load(saved)


@pytest.mark.parametrize("kept", [0, 5, 100, -1])
def test_a_cut_model_is_refused(kept, saved):
    file = saved / codec.MODEL_FILE
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(dsba.InputError, match=r"the model in .* is damaged: "):
        codec.load(saved)


def test_a_stop_between_two_files_leaves_one_model(saved, tmp_path, monkeypatch):
    new, replacing = make_model(tmp_path, seed=1), codec.replacing

    def stopping(path):
        if path.name == codec.MODEL_COPY:
            raise KeyboardInterrupt
        return replacing(path)

    monkeypatch.setattr(codec, "replacing", stopping)
    with pytest.raises(KeyboardInterrupt):
        codec.save(new, saved)
    found = codec.load(saved)
    assert (found.weights == new.weights).all()
    assert codec.content_of(found) == codec.content_of(new)


def test_the_copy_for_people_is_not_read(saved):
    before = codec.load(saved)
    copy = json.loads((saved / codec.MODEL_COPY).read_text())
    assert copy == codec.content_of(before)
    (saved / codec.MODEL_COPY).write_text("{")
    assert codec.content_of(codec.load(saved)) == copy


def resealed(folder, change):
    facts, arrays = sealed.read(folder / codec.MODEL_FILE)
    change(facts, arrays)
    with open(folder / codec.MODEL_FILE, "wb") as stream:
        sealed.write(stream, facts, arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f, a: f.update(format="something"), "is another file, and this version reads dsba-model-4 files"),
        (lambda f, a: f.update(format="dsba-model-3"), "is a dsba-model-3 file, and this version reads dsba-model-4"),
        (lambda f, a: f.update(decision="guess"), "its decision is not usable"),
        (lambda f, a: f.update(normalize=1), "normalize must be True or False"),
        (lambda f, a: f.pop("link"), "its link is not usable"),
        (lambda f, a: a.pop("Z"), "an array is missing or not known"),
        (lambda f, a: a.update(more=np.zeros(2)), "an array is missing or not known"),
        (lambda f, a: a.update(weights=np.zeros(3)), "its arrays do not fit together"),
        (lambda f, a: a.update(weights=np.zeros((1, 4), np.float32)), "its coefficients are not finite numbers"),
        (lambda f, a: a.update(intercepts=np.array([np.nan])), "its coefficients are not finite numbers"),
        (lambda f, a: a.update(classes=np.zeros(3)), "its classes do not fit its coefficients"),
        (lambda f, a: a.pop("classes"), "its classes do not fit its coefficients"),
    ],
)
def test_a_model_whose_parts_do_not_fit_is_refused(change, message, saved):
    resealed(saved, change)
    with pytest.raises(dsba.InputError, match=message):
        codec.load(saved)


def test_no_model(tmp_path):
    with pytest.raises(dsba.InputError, match=r"there is no model in .*: model\.dsba is missing"):
        codec.load(tmp_path)


# What the operator declares --------------------------------------------------------------------------


@pytest.mark.parametrize("operator", dsba.operators.names())
def test_predictions_are_those_that_the_operator_declares(operator, tmp_path):
    X, y = make_data(operator)
    done = fit_rows(as_rows(X, y), FitSpec(operator=operator, max_passes=5.0), n_nodes=3)
    component, (weights, intercepts) = done.problem.component, done.mean
    known = carried_out(done, FitSpec(operator=operator), done.problem.lam)
    codec.save(FittedModel(weights, intercepts, done.result.Z, done.problem.classes, *known), tmp_path)
    model = codec.load(tmp_path)
    expected = component.decide(X @ weights.T + intercepts, done.problem.classes)
    assert np.allclose(model.predict(X), expected, rtol=1e-12)
    assert component.ranks == (operator == "auc") == (not intercepts.any())


# The folder ------------------------------------------------------------------------------------------


def test_a_second_command_in_the_same_folder_is_refused(tmp_path):
    files = make_files(tmp_path)
    command = (*TRAIN, *files, "--graph", "path", "--max-passes", "1", "--out", tmp_path / "run")
    with owned(tmp_path / "run", MARKER):
        code, text = run(*command, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
    assert code == 2
    assert "another dsba is at work in" in text
    assert not (tmp_path / "run" / "model.dsba").exists()
    code, text = run(*command, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})
    assert code == EXIT_CODE, text


def test_a_folder_of_somebody_else_is_refused_and_left_alone(tmp_path):
    files = make_files(tmp_path)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name in ("checkpoint", ".part-model.dsba-1", "notes.txt"):
        (theirs / name).write_text("mine")
    words = [*map(str, files), "--graph", "path", "--max-passes", "1", "--out", str(theirs)]
    result = CliRunner().invoke(app, ["train", *words])
    assert isinstance(result.exception, dsba.InputError)
    assert "has files that are not this command's: give another folder" in str(result.exception)
    assert {path.name: path.read_text() for path in theirs.iterdir()} == {
        "checkpoint": "mine", ".part-model.dsba-1": "mine", "notes.txt": "mine"
    }  # fmt: skip


def test_a_marker_that_leads_elsewhere_is_not_followed(tmp_path):
    files = make_files(tmp_path)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / MARKER).symlink_to(tmp_path / "elsewhere")
    words = [*map(str, files), "--graph", "path", "--max-passes", "1", "--out", str(tmp_path / "run")]
    result = CliRunner().invoke(app, ["train", *words])
    assert isinstance(result.exception, dsba.InputError)
    assert not (tmp_path / "elsewhere").exists()
