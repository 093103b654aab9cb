"""Rows of a comparison are run again: a published row can be checked by whoever has the folder and the data."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dsba.engine.history import History
from dsba.errors import InputError
from dsba.lab.folder import Folder
from dsba.lab.results import ExperimentResults
from dsba.lab.runner import check, run
from dsba.lab.spec import Experiment
from dsba.types import Finding

UNREPEATED = ("seconds", "cpu_seconds", "time")  # columns of a history that no second run repeats


def verify_results(folder: Folder, experiment: Experiment, row: str | None = None) -> Iterator[Finding]:
    """Every run of the folder, or the one that is named, is made again elsewhere and must have the same bits.

    What a run depends on, its reference and its search, is made again as well. ``experiment`` is that of the
    folder, and the code that it names is run.
    """
    known = ExperimentResults.load(folder.root)
    wanted = [one for one in known.runs if row in (None, one.id)]
    if not wanted:
        raise InputError(f"{folder.root} has no run {row}.")
    todo = check(experiment)
    todo = replace(todo, runs=[one for one in todo.runs if one.id in {run.id for run in wanted}])
    with tempfile.TemporaryDirectory() as elsewhere:
        again = run(todo, elsewhere, workers=1, report=False) if todo.runs else None
        for one in wanted:
            title = f"{one.id} ({one.method}, seed {one.seed})"
            if again is None or one.id not in again.histories:
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
