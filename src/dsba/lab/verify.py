"""Rows of a comparison are run again: a published row can be checked by whoever has the folder and the data."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dsba.engine.history import History
from dsba.lab.folder import Folder
from dsba.lab.results import ExperimentResults
from dsba.lab.runner import run
from dsba.types import Finding

UNREPEATED = ("seconds", "cpu_seconds", "time")  # columns of a history that no second run repeats


def verify_results(path: Path, approved: str | None) -> Iterator[Finding]:
    """Every search and run of the folder is made again elsewhere; the rows of both must have the same bits."""
    known = ExperimentResults.load(path)
    with tempfile.TemporaryDirectory() as elsewhere:
        again = run(Folder(path).config, elsewhere, workers=1, report=False)
        for one in known.runs:
            title = f"{one.id} ({one.method}, seed {one.seed})"
            if one.id not in again.histories:
                yield Finding(False, f"{title}: its data or its code has changed, so that it cannot be run again.")
            elif differing := _differing(known.histories[one.id], again.histories[one.id]):
                yield Finding(False, f"{title}: a second run has other numbers in {', '.join(differing)}.")
            else:
                yield Finding(True, f"{title}: a second run gave the same bits.")


def _differing(one: History, other: History) -> list[str]:
    """Names of the columns that differ in a bit, clocks aside."""
    columns, others = one.to_dict(), other.to_dict()
    names = [name for name in {**columns, **others} if name not in UNREPEATED]
    missing = [name for name in names if name not in columns or name not in others]
    return missing or [n for n in names if np.asarray(columns[n]).tobytes() != np.asarray(others[n]).tobytes()]
