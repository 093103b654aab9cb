"""The way from a command to the engine is short: frames of the package, one above the other."""

from __future__ import annotations

import os
import sys

from test_inference import FORMULAS
from test_table_commands import tables
from typer.testing import CliRunner

import dsba
from dsba.cli import app

HOME = os.path.dirname(dsba.__file__)
MOST = 20


def test_the_walk_of_train_is_short(tmp_path):
    files = [str(file) for file in tables(tmp_path)]
    longest = []

    def look(frame, event, argument):
        nonlocal longest
        if event != "call" or not frame.f_code.co_filename.startswith(HOME):
            return
        walk = []
        while frame is not None:
            if frame.f_code.co_filename.startswith(HOME):
                walk.append(f"{os.path.relpath(frame.f_code.co_filename, HOME)}: {frame.f_code.co_name}")
            frame = frame.f_back
        if len(walk) > len(longest):
            longest = walk

    for out in ("compiled", "watched"):  # what is compiled for the first time is not part of the walk
        sys.setprofile(look if out == "watched" else None)
        try:
            words = ["train", *files, "--formula", FORMULAS["logistic"], "--out", str(tmp_path / out)]
            done = CliRunner().invoke(app, words)
        finally:
            sys.setprofile(None)
        assert done.exit_code == 0, done.output
    assert 10 < len(longest) <= MOST, "\n".join(reversed(longest))
