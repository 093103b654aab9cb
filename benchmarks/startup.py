"""Start-up: the import, and a second process's first solve with cached kernels."""

from __future__ import annotations

import numpy as np

from benchmarks.measure import Row, in_new_process

IMPORT = """
import time
begun = time.perf_counter()
import dsba
print(time.perf_counter() - begun)
"""
FIRST_SOLVE = """
import time
begun = time.perf_counter()
import dsba
problem = dsba.Problem.from_arrays(*dsba.data.make_text_like(n_rows=200, n_columns=500, row_length=10))
dsba.solve(problem, dsba.Topology.ring(10), max_passes=5)
print(time.perf_counter() - begun)
"""


def startup() -> list[Row]:
    in_new_process(FIRST_SOLVE)  # compiles and caches
    imports = [in_new_process(IMPORT) for _ in range(5)]
    solves = [in_new_process(FIRST_SOLVE) for _ in range(5)]
    return [
        Row("import dsba", float(np.median(imports)), 0.7, unit="s"),
        Row("second process, import and first solve", float(np.median(solves)), 2.5, unit="s"),
    ]
