"""Comparisons: data x problems x networks x methods, tuned, run side by side, and reported."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dsba.lab.paper_experiments import paper
    from dsba.lab.results import ExperimentResults
    from dsba.lab.runner import run
    from dsba.lab.spec import Experiment
    from dsba.lab.split_picture import holdings

__all__ = ["Experiment", "ExperimentResults", "holdings", "paper", "run"]

_HOME = {
    "Experiment": "spec",
    "ExperimentResults": "results",
    "holdings": "split_picture",
    "paper": "paper_experiments",
    "run": "runner",
}


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first asked for: results are shown without what runs methods."""
    if name not in _HOME:
        raise AttributeError(f"module 'dsba.lab' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"dsba.lab.{_HOME[name]}"), name)
    return value
