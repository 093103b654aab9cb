"""Automatic step sizes beside the best of a grid of ratio 3, on 24 named cases.

`python -m benchmarks.steps` adds runs to results/bench/steps.json and writes docs/results; names of cases choose some.
A run that is there is not made again. The figure of a case is passes to a gap of 1e-6 (AUC: to a relative residual of
1e-5) with "auto" over those of the best of seven step sizes, 0.03 to 30 times the automatic one.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from docs.tables import record

import dsba
from benchmarks.depends import starts
from benchmarks.measure import machine
from benchmarks.rounds import OUT, SETS, problem_of

FACTORS = (1.0, 0.3, 3.0, 0.1, 10.0, 0.03, 30.0)
MOST_PASSES = 300.0
RECORD_EVERY = 0.25
FILE = OUT / "steps.json"
METHODS: dict[str, Any] = {"DSBA": dsba.DSBA, "DSA": dsba.DSA}
STARTS = starts("benchmarks.steps", methods=("dsba", "dsa"), losses=("ridge", "logistic", "softmax", "auc"))
LAMBDAS = (1e-8, 1e-6, 1e-4, 1e-2, 1e-1)


class Case:
    """A named problem on its graph, made when it is first asked for."""

    def __init__(self, name: str, make: Callable[[], tuple[dsba.Problem, dsba.Topology]]) -> None:
        self.name, self._make = name, make

    @cached_property
    def made(self) -> tuple[dsba.Problem, dsba.Topology]:
        return self._make()

    @cached_property
    def star(self) -> Any:
        return dsba.optimum(self.made[0]).z


def made(operator: str = "ridge", n_nodes: int = 10, rows: int = 1000, lam: float | None = None, split="random"):
    """Dense rows of 30 correlated columns of very different sizes, scaled to norm 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 30)) * np.linspace(1, 0.1, 30) + 0.3 * rng.normal(size=(rows, 1))
    score = X @ rng.normal(size=30) + 0.5 * rng.normal(size=rows)
    labels = {"logistic": np.where(score > 0, 1, -1), "auc": np.where(score > 1, 1, -1)}
    y = labels.get(operator, np.digitize(score, [-1, 1]) if operator == "softmax" else score)
    return dsba.Problem.from_arrays(X, y, operator, n_nodes=n_nodes, lam=lam, split=split)


def cases() -> Iterator[Case]:
    """One factor varied at a time around dense ridge regression on a random graph of ten, then the real sets."""
    usual = dsba.Topology.random(10, 0.4, seed=0)
    for lam in LAMBDAS:
        yield Case(f"lambda {lam:g}", lambda lam=lam: (made(lam=lam), usual))
    for family in ("path", "star", "ring"):
        graph = dsba.Topology.family(family, 50)
        yield Case(f"{family} of 50", lambda graph=graph: (made(n_nodes=50, rows=2000), graph))
    sizes = np.repeat([0, 1, 2, 3], [1, 1, 1, 4000])
    yield Case("sizes 1, 1, 1, 4000", lambda: (made(rows=4003, split=sizes), dsba.Topology.ring(4)))
    yield Case("label split", lambda: (made("logistic", split="label"), usual))
    yield Case("softmax", lambda: (made("softmax"), usual))
    yield Case("auc", lambda: (made("auc"), usual))
    for name in SETS:
        for operator in ("ridge", "logistic"):
            yield Case(f"{name}, {operator}", lambda n=name, o=operator: (problem_of(n, o), usual))


class Runs:
    """Passes by step size, of all cases and methods; kept in a file after every run."""

    def __init__(self) -> None:
        self.passes: dict[str, float] = json.loads(FILE.read_text())["passes"] if FILE.exists() else {}

    def run(self, case: Case, label: str, alpha: float, most: float) -> float:
        """Passes to the goal with this step size; infinite where it is not reached before ``most``."""
        key = f"{case.name} | {label} | {alpha:.6g} | {most:g}"
        if key not in self.passes:
            problem, topology = case.made
            goal = {"gap_tol": 1e-6} if problem.has_objective else {"tol": 1e-5}
            stop = {"max_passes": most, "record_every": RECORD_EVERY, "reference": case.star, **goal}
            result = dsba.solve(problem, topology, METHODS[label](alpha), **stop)
            self.passes[key] = result.passes if result.status == "converged" else math.inf
            FILE.parent.mkdir(parents=True, exist_ok=True)
            FILE.write_text(json.dumps({"machine": machine(), "passes": self.passes}, indent=1))
            print(key, self.passes[key], flush=True)
        return self.passes[key]

    def of(self, case: Case, label: str) -> dict[str, float]:
        """Passes for every factor of the automatic step size; no run goes on beyond the best one."""
        auto, found = METHODS[label]().resolved(*case.made).alpha, {}
        for factor in FACTORS:
            found[f"{factor:g}"] = self.run(case, label, factor * auto, min(found.values(), default=MOST_PASSES))
        return found


def ratio(found: dict[str, float]) -> float:
    """Of the automatic step size to the best."""
    return found["1"] / min(found.values())


def main(chosen: list[str]) -> None:
    runs = Runs()
    table = [["case", *(head for label in METHODS for head in (f"{label}: auto", "best", "ratio"))]]
    for case in cases():
        if chosen and case.name not in chosen:
            continue
        found = [(f["1"], min(f.values()), ratio(f)) for f in (runs.of(case, label) for label in METHODS)]
        table.append([case.name, *(cell for a, b, r in found for cell in (f"{a:.1f}", f"{b:.1f}", f"{r:.2f}"))])
        print(table[-1], flush=True)
    if not chosen:
        record("rounds-steps", "python -m benchmarks.steps", table, STARTS)


if __name__ == "__main__":
    main(sys.argv[1:])
