"""Start-up: the import, a second process's first solve with cached kernels, and first fits with nothing compiled."""

from __future__ import annotations

import os
import tempfile

import numpy as np

from benchmarks.measure import Row, in_new_process

TIMED = """
import time
begun = time.perf_counter()
{}
print(time.perf_counter() - begun, time.process_time())
"""
IMPORT = "import dsba"
EVERYTHING = "from dsba import DSBA, Problem, Topology, load_libsvm, optimum, solve"
LIBRARIES = "import numba, scipy.sparse"
FIRST_SOLVE = """
import dsba
problem = dsba.Problem.from_arrays(*dsba.data.make_text_like(n_rows=200, n_columns=500, row_length=10))
dsba.solve(problem, dsba.Topology.ring(10), max_passes=5)
"""
TABLE = """
import dsba, numpy as np, pandas as pd
rng = np.random.default_rng(0)
table = pd.DataFrame({"age": rng.normal(size=300), "sex": rng.choice(["a", "b"], 300), "y": rng.integers(0, 2, 300)})
table["site"] = np.arange(300) % 3
"""
FIRST_FITS = {
    'dsba.fit, algorithm="auto"': TABLE + 'dsba.fit(table, "y ~ age + C(sex)", operator="logistic", sites="site")',
    'dsba.fit, algorithm="dsba"': TABLE
    + 'dsba.fit(table, "y ~ age + C(sex)", operator="logistic", sites="site", algorithm="dsba")',
    "DecentralizedLogisticRegression, sparse text": """
import dsba
dsba.DecentralizedLogisticRegression().fit(*dsba.data.make_text_like(n_rows=300, n_columns=5000, row_length=30))
""",
}


def startup() -> list[Row]:
    """Wall seconds; an installed package has byte code, so it is kept here too."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"PYTHONPYCACHEPREFIX": f"{folder}/code", "PYTHONDONTWRITEBYTECODE": ""}
        return [*_imports(own), *_first_fits(own)]


def _imports(own: dict[str, str]) -> list[Row]:
    _seconds(FIRST_SOLVE, own)  # compiles and caches
    tasks = {"ours": IMPORT, "everything": EVERYTHING, "libraries": LIBRARIES, "solve": FIRST_SOLVE}
    turns = [{name: _seconds(code, own)[0] for name, code in tasks.items()} for _ in range(9)]
    median = {name: float(np.median([turn[name] for turn in turns])) for name in tasks}
    least = {name: min(turn[name] for turn in turns) for name in tasks}
    note = f"least {least['everything']:.2f} s; Numba and SciPy's sparse matrices alone {median['libraries']:.2f} s"
    over = median["everything"] / median["libraries"]
    return [
        Row("import dsba", median["ours"], 0.5, unit="s"),
        Row("from dsba import solve and all that it needs", median["everything"], 0.7, unit="s", note=note),
        Row("the same over importing Numba and SciPy's sparse matrices", over, 1.5),
        Row("second process, import and first solve", median["solve"], 2.5, unit="s"),
    ]


def _first_fits(own: dict[str, str]) -> list[Row]:
    """Each in a process of its own with an empty folder for compiled kernels."""
    rows = []
    for name, code in FIRST_FITS.items():
        _seconds(code, own)  # makes the byte code
        with tempfile.TemporaryDirectory() as kernels:
            seconds, cpu = _seconds(code, own | {"NUMBA_CACHE_DIR": kernels})
        note = f"{cpu:.1f} s of CPU time"
        rows.append(Row(f"first fit with nothing compiled, {name}", seconds, 10.0, unit="s", note=note))
    return rows


def _seconds(code: str, own: dict[str, str]) -> list[float]:
    """Wall and CPU seconds."""
    return in_new_process(TIMED.format(code), os.environ | own, figures=2)
