"""Whether the tuner finds the best: ten random settings inside the declared bounds beside its choice, for every method.

`python -m benchmarks.tuned reuters-moneyfx.trn a9a --method apapc` measures these sets of DSBA_DATA and these methods.
Without `--method` it takes all methods with an open constant. It writes results/bench/tuned.json and tuned.md. The same
command goes on where it was stopped: searches have checkpoints, and finished methods are not repeated.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

import dsba
from benchmarks.measure import machine
from dsba.algorithms.open_constants import SearchRange
from dsba.lab import plan, run
from dsba.lab.reading import read

GAP = 1e-6
MOST_PASSES = 1500.0
SETS = ("reuters-moneyfx.trn", "a9a")
LEFT_OUT = ("newton", "point-saga", "saga", "solam", "gossip-pairwise")  # nothing to tune, one node, or AUC only
SETTINGS, LESS = 10, 0.9  # random settings a method, and the share of the tuner's cost that none of them may need
OUT = Path("results") / "bench"


def experiment(data: str, method: str) -> dict[str, Any]:
    """Logistic regression with the paper's settings, tuned by passes."""
    return {
        "stop": {"max_passes": MOST_PASSES, "gap_tol": GAP},
        "data": [{"name": data}],
        "problem": [{"operator": "logistic"}],
        "network": [{"graph": "random", "n_nodes": 10}],
        "method": [{"algorithm": method}],
    }


def drawn(ranges: list[SearchRange], random: np.random.Generator) -> dict[str, Any]:
    """A random setting inside the bounds, every number uniform on a logarithmic scale."""
    found: dict[str, Any] = {}
    for one in ranges:
        if one.kind == "choice":
            found[one.name] = one.start[random.integers(len(one.start))]
            continue
        value = math.exp(random.uniform(math.log(one.low), math.log(one.high)))
        found[one.name] = round(value) if one.kind == "integer" else value
    return found


def compared(spec: dict[str, Any], folder: Path, settings: int = SETTINGS) -> dict[str, Any]:
    """The tuner's choice and its passes, and the random settings that needed less than nine tenths of them."""
    results = run(spec, folder, workers=1, report=False)
    (search,) = plan.make(read(spec)).tunings
    table, row = results.folder.read_search(search.id), results.summary()[0]
    passes = row[f"passes_to_{GAP:g}"]
    problem, topology = search.case.build(0), search.case.network.topology
    reference, random = results.folder.read_reference(search.case.pooled.id)[1], np.random.default_rng(0)
    better = []
    for _ in range(settings):
        chosen = drawn(search.method.search_ranges(problem, topology), random)
        stop = {"gap_tol": GAP, "max_passes": LESS * (passes or MOST_PASSES)}
        if (
            dsba.solve(problem, topology, search.method.build(**chosen), reference=reference, **stop).status
            == "converged"
        ):
            better.append(chosen)
    candidates = len(table.candidates)
    costs = {name: row[f"{name}_to_{GAP:g}"] for name in ("passes", "work", "rounds", "bytes_max", "cpu_seconds")}
    return {"chosen": table.parameters, "at_edge": table.at_edge, "candidates": candidates, **costs, "better": better}


def markdown(found: dict[str, dict[str, Any]]) -> str:
    lines = ["| set | method | chosen | passes | work | random settings better by 10 % |", "| --- " * 6 + "|"]
    for key, one in found.items():
        chosen = ", ".join(f"{name} = {value:.4g}" for name, value in one["chosen"].items())
        passes, work = (f"{one[cost]:,.0f}" if one[cost] else "not reached" for cost in ("passes", "work"))
        lines.append(
            f"| {' | '.join(key.split())} | {chosen} | {passes} | {work} | {len(one['better'])} of {SETTINGS} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuned", description=__doc__)
    parser.add_argument("data", nargs="*", default=list(SETS))
    parser.add_argument("--method", action="append")
    given = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    kept = OUT / "tuned.json"
    found = json.loads(kept.read_text())["methods"] if kept.exists() else {}
    for data in given.data:
        for method in given.method or [name for name in dsba.algorithms.names() if name not in LEFT_OUT]:
            if (key := f"{data} {method}") in found:
                continue
            found[key] = compared(experiment(data, method), OUT / "tuned" / data / method)
            print(key, found[key], flush=True)
            kept.write_text(json.dumps({"machine": machine(), "methods": found}, indent=1))
    (OUT / "tuned.md").write_text(markdown(found))


if __name__ == "__main__":
    main()
