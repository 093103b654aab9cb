"""Automatic step sizes beside the best of a grid of ratio 3, on 24 named cases.

`python -m benchmarks.steps` writes results/bench/steps.json and docs/results; names of cases choose some. The figure of
a case is passes to a gap of 1e-6 (AUC: to a relative residual of 1e-5) with "auto" over those of the best of seven
step sizes, 0.03 to 30 times the automatic one.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from docs.tables import record

import dsba
from benchmarks.measure import DEFINING, machine
from benchmarks.rounds import SETS, problem_of
from dsba.algorithms import Algorithm

FACTORS = (1.0, 0.3, 3.0, 0.1, 10.0, 0.03, 30.0)
MOST_PASSES = 300.0
OUT = Path("results") / "bench"
LAMBDAS = (1e-8, 1e-6, 1e-4, 1e-2, 1e-1)
Case = Callable[[], tuple[dsba.Problem, dsba.Topology]]


def made(operator: str = "ridge", n_nodes: int = 10, rows: int = 1000, lam: float | None = None, split="random"):
    """Dense rows of 30 correlated columns of very different sizes, scaled to norm 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 30)) * np.linspace(1, 0.1, 30) + 0.3 * rng.normal(size=(rows, 1))
    score = X @ rng.normal(size=30) + 0.5 * rng.normal(size=rows)
    labels = {"logistic": np.where(score > 0, 1, -1), "auc": np.where(score > 1, 1, -1)}
    y = labels.get(operator, np.digitize(score, [-1, 1]) if operator == "softmax" else score)
    return dsba.Problem.from_arrays(X, y, operator, n_nodes=n_nodes, lam=lam, split=split)


def cases() -> Iterator[tuple[str, Case]]:
    """One factor varied at a time around dense ridge regression on a random graph of ten, then the real sets."""
    usual = dsba.Topology.random(10, 0.4, seed=0)
    for lam in LAMBDAS:
        yield f"lambda {lam:g}", lambda lam=lam: (made(lam=lam), usual)
    for family in ("path", "star", "ring"):
        yield f"{family} of 50", lambda f=family: (made(n_nodes=50, rows=2000), dsba.Topology.family(f, 50))
    sizes = np.repeat([0, 1, 2, 3], [1, 1, 1, 4000])
    yield "sizes 1, 1, 1, 4000", lambda: (made(rows=4003, split=sizes), dsba.Topology.ring(4))
    yield "label split", lambda: (made("logistic", split="label"), usual)
    yield "softmax", lambda: (made("softmax"), usual)
    yield "auc", lambda: (made("auc"), usual)
    for name in SETS:
        for operator in ("ridge", "logistic"):
            yield f"{name}, {operator}", lambda n=name, o=operator: (problem_of(n, o), usual)


def passes(problem: dsba.Problem, topology: dsba.Topology, method: Algorithm, star, most: float = MOST_PASSES) -> float:
    """To the goal; infinite where it is not reached."""
    goal = {"gap_tol": 1e-6} if problem.has_objective else {"tol": 1e-5}
    result = dsba.solve(problem, topology, method, max_passes=most, reference=star, **goal)
    return result.passes if result.status == "converged" else math.inf


def measured(method: type, problem: dsba.Problem, topology: dsba.Topology) -> dict[str, float]:
    """Passes for every factor of the automatic step size; nobody goes on beyond three times the best."""
    star, auto = dsba.optimum(problem).z, method().resolved(problem, topology).alpha
    found: dict[str, float] = {}
    for factor in FACTORS:
        most = min(MOST_PASSES, 3 * min(found.values(), default=math.inf))
        found[f"{factor:g}"] = passes(problem, topology, method(factor * auto), star, most)
    return found


def ratio(found: dict[str, float]) -> float:
    """Of the automatic step size to the best."""
    return found["1"] / min(found.values())


def main(chosen: list[str]) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    methods = {"DSBA": dsba.DSBA, "DSA": dsba.DSA}
    table = [["case", *(head for m in methods for head in (f"{m}: auto", "best", "ratio"))]]
    kept = {}
    for name, case in cases():
        if chosen and name not in chosen:
            continue
        problem, topology = case()
        kept[name] = {label: measured(method, problem, topology) for label, method in methods.items()}
        found = [(f["1"], min(f.values()), ratio(f)) for f in kept[name].values()]
        table.append([name, *(cell for a, b, r in found for cell in (f"{a:.0f}", f"{b:.0f}", f"{r:.2f}"))])
        print(table[-1], kept[name], flush=True)
        (OUT / "steps.json").write_text(json.dumps({"machine": machine(), "passes": kept}, indent=1))
    if not chosen:
        record("rounds-steps", "python -m benchmarks.steps", table, (*DEFINING, "benchmarks/steps.py"))


if __name__ == "__main__":
    main(sys.argv[1:])
