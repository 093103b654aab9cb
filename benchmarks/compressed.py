"""Compressed iterates beside exact ones: rounds, bytes and passes to a gap of 1e-6; AUC: the distance at equal passes.

`python -m benchmarks.compressed` measures all cases, `python -m benchmarks.compressed reuters-moneyfx.trn ring` those
with these words, and writes results/bench/compressed.json after every run. What is in the file is not measured again.
All cases together keep the tables of docs/rounds.md in docs/results. `python -m benchmarks.compressed steps` measures
seven step sizes beside the automatic one, `python -m benchmarks.compressed one` one batch a node (P-EXTRA) with
planned steps and with the first one, and `python -m benchmarks.compressed passes` the time of a pass of the simulator.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from docs.tables import record

import dsba
from benchmarks.depends import starts
from benchmarks.rounds import GAP, OUT, TITLES, two_classes

SETS = ("reuters-moneyfx.trn", "rcv1-vw-small", "farm-ads", "news20")
OPERATORS = ("logistic", "ridge", "auc")
STARTS = starts("benchmarks.compressed", methods=["dsba"], losses=OPERATORS)
TOPOLOGIES: dict[str, Callable[[], dsba.Topology]] = {
    "random": lambda: dsba.Topology.random(10, 0.4, seed=0),
    "ring": lambda: dsba.Topology.ring(10),
    "path": lambda: dsba.Topology.path(10),
    "star": lambda: dsba.Topology.star(10),
}
SIZES = (64, 128, 256)
FACTORS = (0.1, 0.3, 1.0, 2.0, 3.0, 5.0, 10.0)
MOST_PASSES, AUC_PASSES = 200.0, 20.0
FILE = OUT / "compressed.json"


class Case(NamedTuple):
    """One run; ``factor`` times the first automatic step, and 0 is the automatic rule."""

    data: str
    operator: str
    graph: str = "random"
    split: str = "random"
    how: str = "compressed"
    b: int = 128
    factor: float = 0.0

    def __str__(self) -> str:
        return " ".join(map(str, self))


def pairs() -> Iterator[Case]:
    """The compressed cases that stand beside exact ones, the usual graph first."""
    for graph in TOPOLOGIES:
        for split in ("random", "label"):
            for data in SETS:
                for operator in OPERATORS:
                    yield Case(data, operator, graph, split, b=32 if operator == "auc" else 128)


def usual() -> Iterator[Case]:
    """Batch sizes with everything automatic."""
    for data, b in (("reuters-moneyfx.trn", 256), ("reuters-moneyfx.trn", 128), ("farm-ads", 128), ("news20", 256)):
        yield Case(data, "logistic", b=b)


def steps() -> Iterator[Case]:
    """The automatic rule and seven multiples of the first step, on sets with different numbers of batches a node."""
    for data in ("rcv1-vw-small", "reuters-moneyfx.trn", "a9a"):
        for operator in ("ridge", "logistic"):
            for b in SIZES:
                yield from (Case(data, operator, b=b, factor=factor) for factor in (0.0, *FACTORS))


def one() -> Iterator[Case]:
    """All samples of a node at once, with steps that are planned again and with the first one."""
    for data in ("rcv1-vw-small", "farm-ads"):
        yield from (Case(data, "logistic", b=512, factor=factor) for factor in (0.0, 1.0))


class Measured:
    """What runs need; kept in a file after every run."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = json.loads(FILE.read_text()) if FILE.exists() else {}
        self._made: tuple[Any, Any, Any] = None, None, None

    def of(self, case: Case) -> dict[str, float]:
        if (key := str(case)) not in self.found:
            self.found[key] = self._run(case)
            FILE.parent.mkdir(parents=True, exist_ok=True)
            FILE.write_text(json.dumps(self.found, indent=1))
            print(key, self.found[key], flush=True)
        return self.found[key]

    def _problem(self, case: Case) -> tuple[dsba.Problem, Any]:
        """With its solution."""
        key = case.data, case.operator, case.split
        if self._made[0] != key:
            data = dsba.load_libsvm(case.data)
            y = two_classes(data.y)
            problem = dsba.Problem.from_arrays(data.X, y, case.operator, n_nodes=10, split=case.split)
            self._made = key, problem, dsba.optimum(problem).z
        return self._made[1:]

    def _run(self, case: Case) -> dict[str, float]:
        """One run: exact rows in the dual form, so that only the messages differ."""
        (problem, reference), topology = self._problem(case), TOPOLOGIES[case.graph]()
        method = dsba.DSBA(batch_size=case.b, communication=case.how, form="dual")
        if case.factor:
            first = replace(method, replan=False).resolved(problem, topology).alpha
            method = replace(method, step_size=case.factor * first)
        stop: dict[str, Any] = {"max_passes": AUC_PASSES, "record_every": AUC_PASSES}
        if problem.has_objective:
            stop = {"gap_tol": GAP, "max_passes": MOST_PASSES, "record_every": 0.25}
        result = dsba.solve(problem, topology, method, reference=reference, **stop)
        last = result.history.last()
        names = ("passes", "rounds", "bytes_max", "residual", "distance", "gap")
        return {"seconds": result.seconds, "p": problem.dim} | {name: last[name] for name in names if name in last}


class Comparison(NamedTuple):
    """Compressed over exact rows: rounds to the gap, or distances to the solution where it was not asked for or not
    reached. Residuals would not do: within a run of AUC they go up and down by a factor of two."""

    ratio: float
    reached: bool
    fewer_bytes: float

    def __str__(self) -> str:
        return f"{self.ratio:.2f}{'' if self.reached else '*'}"


def compared(measured: Measured, case: Case) -> Comparison:
    packed, exact = measured.of(case), measured.of(case._replace(how="dense"))
    reached = "gap" in packed and max(packed["gap"], exact["gap"]) <= GAP
    what = "rounds" if reached else "distance"
    fewer = (exact["bytes_max"] / exact["rounds"]) / (packed["bytes_max"] / packed["rounds"])
    return Comparison(packed[what] / exact[what], reached, fewer)


def table_of_pairs(measured: Measured, cases: Sequence[Case]) -> list[list[str]]:
    """A line for a set and an operator; in a cell the random split and the one by labels."""
    found: dict[tuple[str, str], list[Comparison]] = {}
    for case in cases:
        found.setdefault((case.data, case.operator), []).append(compared(measured, case))
    table = [["set", "operator", *TOPOLOGIES, "bytes: times fewer"]]
    for (data, operator), line in found.items():
        cells = [f"{random}, {label}" for random, label in zip(line[::2], line[1::2], strict=True)]
        fewest = min(each.fewer_bytes for each in line)
        table.append([TITLES.get(data, data), operator, *cells, f"{fewest:.0f}"])
    return table


def measure(words: set[str]) -> None:
    """All cases with these words; tables of the documentation from all of them."""
    measured = Measured()
    for case in pairs():
        if words <= set(map(str, case)):
            compared(measured, case)
    if words:
        return
    table = table_of_pairs(measured, [*pairs()])
    record("rounds-pairs", "python -m benchmarks.compressed", table, STARTS)
    lines = [["set", "b", "passes", "rounds", "MB"]]
    for case in usual():
        run = measured.of(case)
        cells = f"{run['passes']:.1f}", f"{run['rounds']:.0f}", f"{run['bytes_max'] / 1e6:.2f}"
        lines.append([TITLES[case.data], str(case.b), *cells])
    record("rounds-compressed", "python -m benchmarks.compressed", lines, STARTS)


def time_passes() -> None:
    """Seconds of the processor for a pass: compressed with b = 128, and the lazy form with b = 1."""
    problem, _ = Measured()._problem(Case("reuters-moneyfx.trn", "logistic"))
    topology = TOPOLOGIES["random"]()
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


def main(words: list[str]) -> None:
    if words == ["passes"]:
        time_passes()
    elif words in (["steps"], ["one"]):
        measured = Measured()
        for case in steps() if words == ["steps"] else one():
            measured.of(case)
    else:
        measure(set(words))


if __name__ == "__main__":
    main(sys.argv[1:])
