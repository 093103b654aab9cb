"""Passes and rounds to a gap of 1e-6: blocks of samples, Chebyshev mixing, and the methods that go round by round.

`python -m benchmarks.rounds farm-ads reuters-moneyfx.trn` measures these sets of DSBA_DATA and writes
results/bench/rounds.json. Without names it measures all six, and keeps the tables of docs/rounds.md in docs/results.
A set and an operator that are in the file are not measured again, unless code that their numbers depend on was edited.
All step sizes are the automatic ones, all counts are exact.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from docs.tables import record

import dsba
from benchmarks.depends import code_of, starts
from benchmarks.measure import machine

GAP = 1e-6
SETS = ("farm-ads", "reuters-moneyfx.trn", "rcv1-vw-small", "news20", "a9a", "ijcnn1.tr")
OPERATORS = ("ridge", "logistic")
TITLES = {
    "farm-ads": "Farm Ads", "reuters-moneyfx.trn": "Reuters", "rcv1-vw-small": "RCV1 documents", "news20": "News20",
    "ijcnn1.tr": "ijcnn1",
}  # fmt: skip
SIZES = (1, 25, 32, 50, 100)
RIVALS = ("p-extra", "ssda", "msda", "opapc", "nids", "extra", "dlm", "acc-vr-extra", "dvr")
MOST_PASSES = 150.0
OUT = Path("results") / "bench"


@dataclass(frozen=True)
class Line:
    """What one run needed, or how far it came."""

    data: str
    operator: str
    method: str
    step_size: float
    passes: float
    rounds: float
    gap: float

    @property
    def reached(self) -> bool:
        return self.gap <= GAP


def two_classes(labels: Any) -> Any:
    """Numbers 1 and -1: the larger half of several classes is one of them."""
    y = np.asarray(labels, dtype=np.float64)
    return np.where(y > np.median(np.unique(y)), 1.0, -1.0)


def problem_of(name: str, operator: str) -> dsba.Problem:
    """The set with the paper's settings: unit rows, lambda = 1/(10 Q), ten nodes."""
    data = dsba.load_libsvm(name)
    return dsba.Problem.from_arrays(data.X, two_classes(data.y), operator, n_nodes=10)


def runs(name: str, operator: str) -> list[Line]:
    """DSBA with several batch sizes, with Chebyshev mixing, and the rivals."""
    problem, topology = problem_of(name, operator), dsba.Topology.random(10, 0.4, seed=0)
    reference, lines = dsba.optimum(problem).z, []

    def run(label: str, algorithm: dsba.algorithms.Algorithm, graph: dsba.Topology = topology) -> None:
        stop = {"gap_tol": GAP, "max_passes": MOST_PASSES, "record_every": 0.5}
        result = dsba.solve(problem, graph, algorithm, reference=reference, **stop)
        last = result.history.last()
        lines.append(Line(name, operator, label, result.step_size, last["passes"], last["rounds"], last["gap"]))
        print(lines[-1], flush=True)

    for b in SIZES:
        run(f"DSBA, b = {b}", dsba.DSBA(batch_size=b))
    run("DSBA, b = 50, K = 2", dsba.DSBA(batch_size=50), topology.chebyshev(2))
    for rival in RIVALS:
        run(rival, dsba.algorithms.get(rival))
    return lines


def promise(lines: list[Line]) -> dict[str, bool]:
    """For every set and operator: whether some batch size has 1/20 of the rounds at 1.5 times the passes of b = 1."""
    kept = {}
    for key in dict.fromkeys((line.data, line.operator) for line in lines):
        own = [line for line in lines if (line.data, line.operator) == key and line.reached]
        single = next(line for line in own if line.method == "DSBA, b = 1")
        kept[", ".join(key)] = any(
            line.rounds <= single.rounds / 20 and line.passes <= 1.5 * single.passes
            for line in own
            if line.method.startswith("DSBA, b") and "K" not in line.method
        )
    return kept


def cells(lines: list[Line], operator: str) -> list[list[str]]:
    """A table of passes / rounds, its head first; the gap where it was not reached."""
    own = [line for line in lines if line.operator == operator]
    sets = [name for name in SETS if any(line.data == name for line in own)]
    rows = [[operator, *(TITLES.get(name, name) for name in sets)]]
    for method in dict.fromkeys(line.method for line in own):
        found = [next(x for x in own if x.data == name and x.method == method) for name in sets]
        shown = [f"{x.passes:.0f} / {x.rounds:,.0f}" if x.reached else f"gap {x.gap:.0e}" for x in found]
        rows.append([method, *shown])
    return rows


def inputs(*operators: str) -> list[str]:
    return starts("benchmarks.rounds", methods=("dsba", *RIVALS), losses=operators)


def main(names: list[str]) -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    file, code = OUT / "rounds.json", code_of(inputs(*OPERATORS))
    kept = json.loads(file.read_text()) if file.exists() else {}
    lines = [Line(**line) for line in kept["lines"]] if kept.get("code") == code else []
    for name in names or SETS:
        for operator in OPERATORS:
            if any((line.data, line.operator) == (name, operator) for line in lines):
                continue
            lines += runs(name, operator)
            found = {"machine": machine(), "code": code, "lines": [asdict(x) for x in lines], "promise": promise(lines)}
            file.write_text(json.dumps(found, indent=1))
    for operator in OPERATORS if not names else ():
        record(f"rounds-{operator}", "python -m benchmarks.rounds", cells(lines, operator), inputs(operator))
    print(promise(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
