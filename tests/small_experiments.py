"""Small experiments, and a finished results folder that many tests read. A plugin of pytest, loaded by conftest.py."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dsba.lab import ExperimentResults, run
from dsba.lab.reading import read

SMALL = {
    "title": "small",
    "stop": {"max_passes": 12},
    "tune": {"passes": 6},
    "data": [{"name": "breast-cancer"}],
    "problem": [{"operator": "ridge", "lam": 0.01}],
    "network": [{"graph": "ring", "n_nodes": 4}],
    "method": [{"algorithm": "dsba"}, {"algorithm": "extra", "step_size": "auto"}],
}


def spec(**changes):
    return read(SMALL | changes)


AUTO = [{"algorithm": "extra", "step_size": "auto"}, {"algorithm": "dgd", "step_size": "auto"}]
TINY = SMALL | {"stop": {"max_passes": 3}, "method": AUTO}


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A finished folder with every kind of file."""
    root = tmp_path_factory.mktemp("finished") / "out"
    methods = [{"algorithm": "extra"}, {"algorithm": "dsba", "step_size": "auto"}]
    run(TINY | {"method": methods, "seeds": [0, 1]}, root, workers=1)
    return root


def command(*args, cwd, **options):
    line = [sys.executable, "-m", "dsba", *map(str, args)]
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True, timeout=300, check=False, **options)


def forge_history(out, change):
    """The first run's history with other numbers, under a right digest."""
    results = ExperimentResults.load(out)
    outcome = results.outcomes[results.runs[0].id]
    columns = results.histories[outcome.id].to_dict()
    change(columns)
    results.folder.write_sealed(results.folder.run(outcome.id), outcome, columns)


def shown(root):
    """Every number and title that a report shows."""
    results = ExperimentResults.load(root)
    cases = {case.id: results.reference(case).model_dump() for case in results.cases}
    curves = {id: h.to_dict() for id, h in results.histories.items()}
    curves = {id: {k: [repr(x) for x in v.tolist()] for k, v in h.items()} for id, h in curves.items()}
    tables = repr((results.summary(), results.winners(), results.tuning(), results.warnings()))
    outcomes = {id: outcome.model_dump() for id, outcome in results.outcomes.items()}
    return results.index.model_dump(), results.environment.model_dump(), cases, curves, outcomes, tables
