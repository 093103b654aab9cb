"""Compressed iterates: rounds, bytes and passes to a gap of 1e-6, beside exact rows and other step sizes.

`python -m benchmarks.compressed reuters-moneyfx.trn a9a` measures these sets of DSBA_DATA (all without names) and
writes results/bench/compressed.json after every run. What is in the file is not measured again.
`python -m benchmarks.compressed passes` measures the time of a pass of the simulator instead.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import dsba
from benchmarks.rounds import GAP, OUT, problem_of

SETS = ("reuters-moneyfx.trn", "farm-ads", "rcv1-vw-small", "a9a", "news20")
TOPOLOGIES: dict[str, Callable[[], dsba.Topology]] = {
    "random": lambda: dsba.Topology.random(10, 0.4, seed=0),
    "ring": lambda: dsba.Topology.ring(10),
    "path": lambda: dsba.Topology.path(10),
    "star": lambda: dsba.Topology.star(10),
}
SIZES = (64, 128, 256)
FACTORS = (0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 10.0)
MOST_PASSES = 200.0
FILE = OUT / "compressed.json"
Case = tuple[str, str, str, int, str, float]  # data, operator, graph, b, communication, factor (0: automatic)


def cases(data: str) -> Iterator[Case]:
    """Exact and compressed rows on all graphs with the automatic step, and seven other steps on one graph."""
    for operator in ("logistic", "ridge"):
        for b in SIZES:
            for graph in TOPOLOGIES if b == 128 else ("random",):
                for how in ("compressed", "dense"):
                    yield data, operator, graph, b, how, 0.0
        for factor in FACTORS:
            yield data, operator, "random", 128, "compressed", factor


def measured(problem: dsba.Problem, reference: Any, case: Case) -> dict[str, float]:
    """One run: exact rows in the dual form, so that only the messages differ."""
    _, _, graph, b, how, factor = case
    topology = TOPOLOGIES[graph]()
    method = dsba.DSBA(batch_size=b, communication=how, form="dual")
    if factor:
        first = replace(method, replan=False).resolved(problem, topology).alpha
        method = replace(method, step_size=factor * first)
    stop = {"gap_tol": GAP, "max_passes": MOST_PASSES, "record_every": 0.25}
    result = dsba.solve(problem, topology, method, reference=reference, **stop)
    last = result.history.last()
    return {"seconds": result.seconds} | {name: last[name] for name in ("passes", "rounds", "bytes_max", "gap")}


def measure(sets: tuple[str, ...]) -> None:
    """All cases that are not in the file."""
    found = json.loads(FILE.read_text()) if FILE.exists() else {}
    problems: dict[str, Any] = {}
    for case in (case for data in sets for case in cases(data)):
        key = " ".join(map(str, case))
        if key in found:
            continue
        of = " ".join(case[:2])
        if of not in problems:
            problem = problem_of(*case[:2])
            problems = {of: (problem, dsba.optimum(problem).z)}
        found[key] = measured(*problems[of], case)
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(json.dumps(found, indent=1))
        print(key, found[key], flush=True)


def time_passes() -> None:
    """Seconds of the processor for a pass: compressed with b = 128, and the lazy form with b = 1."""
    problem, topology = problem_of("reuters-moneyfx.trn", "logistic"), TOPOLOGIES["random"]()
    for method in (dsba.DSBA(batch_size=128, communication="compressed"), dsba.DSBA(form="lazy")):
        net, method = dsba.Simulator(topology), method.resolved(problem, topology)
        state, sizes = method.init(problem, net, np.zeros(problem.dim)), method.choices(problem)
        q = int(sizes.max())
        spent = []
        for k in range(12):
            samples = dsba.algorithms.sampling.draw(0, sizes, k * q, q, order="shuffled")
            begun = time.process_time()
            state = method.advance(state, problem, net, samples)
            spent.append(time.process_time() - begun)
        print(method.communication, method.batch_size, float(np.median(spent[2:])))


if __name__ == "__main__":
    names = tuple(sys.argv[1:])
    time_passes() if names == ("passes",) else measure(names or SETS)
