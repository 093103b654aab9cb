"""The examples: short, quick, and each ends in a table or a picture."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import ROOT, also_in_full

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
IN_GATE = [file for file in EXAMPLES if file.stem not in ("bandwidth", "auc_unbalanced", "own_algorithm")]


def test_there_are_six():
    assert len(EXAMPLES) == 6


@pytest.mark.parametrize("file", also_in_full(IN_GATE, EXAMPLES), ids=lambda file: file.stem)
def test_example_runs(file, tmp_path):
    assert len(file.read_text().splitlines()) < 60
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    run = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(file)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) >= 3
    pictures = list(tmp_path.iterdir())
    assert all(picture.suffix == ".png" for picture in pictures)
    assert len(pictures) == file.read_text().count("savefig")
