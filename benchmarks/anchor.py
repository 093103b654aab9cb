"""The pooled fit that decentralised runs stand beside: the best solver that may see all rows.

`DSBA_DATA=folder python -m benchmarks.anchor` fits logistic regression to pooled rows with LIBLINEAR's dual, with SAGA
and, for narrow tables, with newton-cholesky, and DSBA at N = 10 beside them. It measures CPU seconds until the relative
gap to the certified optimum is 1e-8, and keeps a table in docs/results. All have the same objective: no intercept,
lambda = 1/(10 Q).
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator

import numpy as np
from docs.tables import record
from sklearn.linear_model import LogisticRegression

import dsba
from benchmarks.depends import starts
from dsba.problem.problem import Problem

GAP = 1e-8
SETS = ("farm-ads", "reuters-moneyfx.trn", "a9a")
NARROW = 1000  # columns: up to here newton-cholesky makes its matrix
REPEATS = 3
STARTS = starts("benchmarks.anchor", methods=["dsba"])


def solvers(columns: int) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {"liblinear": {"dual": True}, "saga": {}}
    return found | ({"newton-cholesky": {}} if columns <= NARROW else {})


def iterations() -> Iterator[int]:
    """How often a pooled solver may go through the data: 1, 2, 3, ... and in steps of a tenth from 10 on."""
    count = 1
    while count < 5000:
        yield count
        count = max(count + 1, count * 11 // 10)


def pooled(problem: Problem, solver: str, options: dict[str, object], best: float) -> tuple[float, int, float]:
    """CPU seconds, iterations and gap of the shortest fit that reaches the gap; the least time of some repetitions."""
    X, y, start = problem.A, problem.y, problem.objective(np.zeros(problem.dim))
    for count in iterations():
        C = 1 / (problem.lam * problem.n_samples)
        model = LogisticRegression(
            C=C, solver=solver, fit_intercept=False, tol=1e-16, max_iter=count, random_state=0, **options
        )
        spent, gap = [], np.inf
        for _ in range(REPEATS):
            begun = time.process_time()
            model.fit(X, y)
            spent.append(time.process_time() - begun)
            gap = (problem.objective(model.coef_.ravel()) - best) / (start - best)
            if gap > GAP:
                break
        if gap <= GAP:
            return min(spent), count, gap
    return np.nan, 0, gap


def decentralised(problem: Problem, best: dsba.Optimum) -> tuple[float, float]:
    """CPU seconds and passes of DSBA at N = 10, with its automatic step size, on a random graph."""
    topology = dsba.Topology.random(problem.n_nodes, 0.4, seed=0)
    runs = [
        dsba.solve(problem, topology, "dsba", reference=best.z, gap_tol=GAP, max_passes=500.0, record_every=1.0)
        for _ in range(REPEATS)
    ]
    return min(float(run.history["cpu_seconds"][-1]) for run in runs), runs[0].passes


def rows(name: str) -> list[list[str]]:
    X, y = dsba.load_libsvm(name)
    problem = dsba.Problem.from_arrays(X, y, "logistic", n_nodes=10)
    best = dsba.optimum(problem)
    value, found = problem.objective(best.z), []
    for solver, options in solvers(problem.dim).items():
        seconds, count, _ = pooled(problem, solver, options, value)
        found.append((f"{solver}, pooled", seconds, f"{count}" if count else "not reached"))
    seconds, passes = decentralised(problem, best)
    found.append(("DSBA, N = 10", seconds, f"{passes:.0f}"))
    least = np.nanmin([seconds for _, seconds, _ in found[:-1]])
    return [[name, who, f"{1000 * s:.3g}", passes, f"{s / least:.3g}"] for who, s, passes in found]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    head = ["data", "solver", "CPU ms to a gap of 1e-8", "passes or iterations", "over the best pooled one"]
    names = sys.argv[1:] or list(SETS)
    cells = [row for name in names for row in rows(name)]
    record("bench-anchor", f"python -m benchmarks.anchor {' '.join(names)}", [head, *cells], STARTS)
