"""How time and memory grow: News20-binary at more and more nodes, and more and more rows at 20 nodes.

`DSBA_DATA=folder python -m benchmarks.growth` measures CPU seconds a pass and the peak memory, each in a process of
its own, and keeps a table in docs/results. The rows are synthetic text of 30 nonzeros among 20,000 columns.
"""

from __future__ import annotations

import sys

import numpy as np
from docs.tables import record

import dsba
from benchmarks.depends import starts
from benchmarks.measure import in_new_process, peak_memory_gb

CASES = [("news20.binary", nodes) for nodes in (10, 20, 50, 100)] + [(str(q), 20) for q in (10_000, 100_000, 1_000_000)]
METHODS = ("dsba", "extra")
STARTS = starts("benchmarks.growth", methods=METHODS)
PASSES = 3
MEASURE = "from benchmarks.growth import measured; print(*measured({!r}, {}, {!r}))"


def measured(data: str, nodes: int, method: str) -> tuple[float, float, float]:
    """CPU seconds a pass, the peak memory in GB, and the memory of data and problem before the run."""
    rows = (
        dsba.data.make_text_like(n_rows=int(data), n_columns=20_000, row_length=30)
        if data.isdigit()
        else dsba.load_libsvm(data)
    )
    problem = dsba.Problem.from_arrays(*rows, "logistic", n_nodes=nodes)
    topology = dsba.Topology.random(nodes, 0.4, seed=0)
    dsba.solve(problem, topology, method, max_passes=1)  # compiles
    before = peak_memory_gb()
    history = dsba.solve(problem, topology, method, max_passes=PASSES, record_every=1.0).history
    return float(np.median(np.diff(history["cpu_seconds"]))), peak_memory_gb(), before


def row(data: str, nodes: int) -> list[str]:
    name = f"synthetic text, {int(data):,} rows" if data.isdigit() else data
    found = [in_new_process(MEASURE.format(data, nodes, method), None, 3) for method in METHODS]
    return [name, str(nodes), *(f"{seconds:.3g}; {memory:.2f}" for seconds, memory, _ in found)]


if __name__ == "__main__":
    cells = []
    for data, nodes in CASES:
        cells.append(row(data, nodes))
        print(cells[-1], file=sys.stderr, flush=True)
    head = ["data", "N", *(f"{method.upper()}: CPU s a pass; peak GB" for method in METHODS)]
    record("bench-growth", "python -m benchmarks.growth", [head, *cells], STARTS)
