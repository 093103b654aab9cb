"""What "auto" chooses on every data set, N = 10, and what estimators at default settings need with it and with DSBA."""

from __future__ import annotations

import os
import time
import warnings
from typing import Any

from sklearn.exceptions import ConvergenceWarning

import dsba
from benchmarks.estimators import SETS, TEN_CLASSES
from benchmarks.measure import Row
from dsba.algorithms.costs import Configuration
from dsba.algorithms.planner import plan

NODES = 10
MODELS = {"logistic": dsba.DecentralizedLogisticRegression, "ridge": dsba.DecentralizedRidge}


def choices() -> list[Row]:
    """The estimated time over the network and the CPU seconds in one process, each of the choice over DSBA's."""
    names = SETS if os.environ.get("DSBA_DATA") else ("breast-cancer", "synthetic-text")
    rows = []
    for name in names:
        X, y = dsba.load_libsvm(name) if names is SETS else dsba.data.load(name)
        if name == "news20":
            y = y > TEN_CLASSES
        for operator in MODELS:
            rows += _compared(f"{operator} on {name}", operator, X, y)
    return rows


def _compared(title: str, operator: str, X: Any, y: Any) -> list[Row]:
    labels = 1.0 * y if operator == "ridge" else y
    problem = dsba.Problem.from_arrays(X, labels, operator, NODES)
    made = plan(problem, dsba.Simulator(dsba.Topology.random(NODES)))
    expected = {estimate.configuration: estimate.seconds for estimate in made.estimates}
    found = []
    if expected:  # a table of few columns is for newton without any
        name = f"auto, {title}: estimated time over that of single samples"
        chosen = f"{made.chosen}, {problem.A.shape[1]:,} columns"
        single = expected[Configuration("dsba", 1, "dense")]
        found.append(Row(name, expected[made.chosen] / single, 1.0, note=chosen))
    if made.chosen.name == "newton":
        auto, named = (_seconds(operator, algorithm, X, labels) for algorithm in ("auto", "dsba"))
        note = f"{auto:.1f} s and {named:.1f} s"
        found.append(Row(f"auto, {title}: CPU seconds in one process over those of dsba", auto / named, 1.0, note=note))
    return found


def _seconds(operator: str, algorithm: str, X: Any, y: Any) -> float:
    """CPU seconds at default settings; kernels are compiled before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        few = slice(None, None, len(y) // 400)
        MODELS[operator](algorithm=algorithm, max_passes=2).fit(X[few], y[few])
        begun = time.process_time()
        MODELS[operator](algorithm=algorithm).fit(X, y)
        return time.process_time() - begun
