"""Every method at its best, and whether the tuner found it: ten random settings inside the declared bounds beside it.

`python -m benchmarks.tuned reuters-moneyfx.trn a9a --method apapc` measures these sets of DSBA_DATA and these methods.
Without `--method` it takes all. It writes results/bench/tuned.json and a results folder for every method. The same
command goes on where it was stopped: searches have checkpoints, and a finished method is not repeated until an edit
changes what its numbers depend on.
`python -m benchmarks.methods` makes the tables of the documentation from them.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

import dsba
from benchmarks.depends import code_of, starts
from benchmarks.measure import machine
from dsba.algorithms.open_constants import SearchRange
from dsba.lab import plan, run
from dsba.lab.reading import read

GAP = 1e-6
MOST_PASSES = {"a9a": 500.0}  # a pass of its many rows is dear
USUAL_PASSES = 1500.0
SETS = ("reuters-moneyfx.trn", "a9a")
LEFT_OUT = ("point-saga", "saga", "solam", "gossip-pairwise")  # one node, or AUC only
UNTUNED = ("newton",)  # nothing to tune
SETTINGS, LESS = 10, 0.9  # random settings a method, and the share of the tuner's cost that none of them may need
OUT = Path("results") / "bench"
VARIANTS: dict[str, dict[str, Any]] = {
    "DSBA-s": {"communication": "sparse"},
    "DSBA-s, cached": {"communication": "cached"},
    "DSBA, b = 32": {"batch_size": 32},
    "DSBA-s, cached, b = 32": {"batch_size": 32, "communication": "cached"},
}


def entries() -> dict[str, dict[str, Any]]:
    """What is measured, by its name on the command line: every method, and DSBA with fewer bytes or rounds."""
    methods = {name: {"algorithm": name} for name in dsba.algorithms.names() if name not in LEFT_OUT}
    fixed = {name: {"algorithm": name, "step_size": "auto"} for name in UNTUNED}
    return methods | fixed | {n: {"algorithm": "dsba", "label": n, **options} for n, options in VARIANTS.items()}


def experiment(data: str, entry: dict[str, Any]) -> dict[str, Any]:
    """Logistic regression with the paper's settings, tuned by passes."""
    return {
        "stop": {"max_passes": MOST_PASSES.get(data, USUAL_PASSES), "gap_tol": GAP},
        "data": [{"name": data}],
        "problem": [{"operator": "logistic"}],
        "network": [{"graph": "random", "n_nodes": 10}],
        "method": [entry],
    }


def key_of(data: str, name: str) -> str:
    """The name of a method's results, which is another one after an edit of code that they depend on."""
    return f"tuned/{data}/{name}-{code_of(starts('benchmarks.tuned', methods=[entries()[name]['algorithm']]))}"


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
    tunings = plan.make(read(spec)).tunings
    passes = results.summary()[0][f"passes_to_{GAP:g}"]
    if not tunings:
        return {"chosen": {}, "at_edge": [], "passes": passes, "better": None}
    (search,) = tunings
    table = results.folder.read_search(search.id)
    problem, topology = search.case.build(0), search.case.network.topology
    reference, random = results.folder.read_reference(search.case.pooled.id)[1], np.random.default_rng(0)
    stop = {"gap_tol": GAP, "max_passes": LESS * (passes or spec["stop"]["max_passes"])}
    better = []
    for _ in range(settings):
        chosen = drawn(search.method.search_ranges(problem, topology), random)
        tried = dsba.solve(problem, topology, search.method.build(**chosen), reference=reference, **stop)
        better += [chosen] * (tried.status == "converged")
    return {"chosen": table.parameters, "at_edge": table.at_edge, "passes": passes, "better": better}


def known() -> dict[str, dict[str, Any]]:
    """What was measured so far, by set and method."""
    kept = OUT / "tuned.json"
    found: dict[str, dict[str, Any]] = json.loads(kept.read_text())["methods"] if kept.exists() else {}
    return found


def measure(data: str, names: list[str] | None = None) -> None:
    """Measure the methods that are not known yet."""
    OUT.mkdir(parents=True, exist_ok=True)
    for name in names or entries():
        found = known()
        if (key := key_of(data, name)) not in found:
            found[key] = compared(experiment(data, entries()[name]), OUT / key)
            print(key, found[key], flush=True)
            (OUT / "tuned.json").write_text(json.dumps({"machine": machine(), "methods": found}, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuned", description=__doc__)
    parser.add_argument("data", nargs="*", default=list(SETS))
    parser.add_argument("--method", action="append")
    given = parser.parse_args()
    for data in given.data:
        measure(data, given.method)
