"""Reading tables against pandas; and four hospitals, each a process under mpiexec that opens only its own table."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

import dsba
from benchmarks.measure import Row, interleaved
from dsba.data.table_files import TableFile

MODELS = {
    "logistic": "readmitted ~ age + C(sex) + log(crp) + creatinine + C(ward) + C(insurer)",
    "poisson": "n_visits ~ age + C(sex) + lab0 + lab1 + lab3 + C(health) + disea",
    "linear": "cost ~ age + C(sex) + sbp + C(ward) + lncoins + lab2 + lab5 + physlm",
}


def four_hospitals() -> list[Row]:
    """The whole command, from the start of the processes to the page; the second run, when kernels are compiled."""
    folder = Path(os.environ.get("DSBA_DATA", "nowhere")) / "sites"
    files = sorted(folder.glob("*.csv"))
    return [row for operator in MODELS for row in _trained(files, operator)] if files else []


def _trained(files: list[Path], operator: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("first", "second"):
            begun, used = time.perf_counter(), _cpu_seconds()
            _train(files, operator, Path(scratch) / name)
            seconds, cpu = time.perf_counter() - begun, _cpu_seconds() - used
        rounds = dsba.load(Path(scratch) / "second").rounds
    title = f"four hospitals on four ranks, {operator}"
    note = f"{cpu:.1f} CPU seconds"
    return [
        Row(f"{title}: rounds", rounds, 200, unit=""),
        Row(f"{title}: the whole command", seconds, 20, unit="s", note=note),
    ]


def _train(files: list[Path], operator: str, out: Path) -> None:
    program = [str(Path(sys.executable).parent / "mpiexec"), "-n", "4", sys.executable, "-m", "dsba", "train"]
    options = ["--formula", MODELS[operator], "--operator", operator, "--missing", "drop", "--graph", "ring"]
    subprocess.run([*program, *map(str, files), *options, "--out", str(out)], check=True, capture_output=True)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


ROWS, COLUMNS = 400_000, 12


def against_pandas() -> list[Row]:
    """A CSV file that is hashed and whose lines are checked, against pandas' C engine; and a file three times as wide.

    pandas takes several threads for a large file if it is given a path.
    """
    with tempfile.TemporaryDirectory() as scratch:
        seconds = {}
        for columns in (COLUMNS, 3 * COLUMNS):
            path = _written(Path(scratch) / f"{columns}.csv", columns)
            tasks = {"ours": partial(_ours, path), "pandas": partial(_pandas, path), "thread": partial(_thread, path)}
            seconds[columns] = interleaved(tasks, repeats=9)
    few, many = seconds.values()
    title = f"a CSV file of {ROWS:,} rows and {COLUMNS} columns"
    note = f"{few['ours']:.2f} s against {few['pandas']:.2f} s"
    return [
        Row(f"{title}, against pandas.read_csv", few["ours"] / few["pandas"], 1.5, note=note),
        Row(f"{title}, against its C engine in one thread", few["ours"] / few["thread"], 1.5),
        Row(f"{title}: time per column of three times as many", many["ours"] / few["ours"] / 3, 1.2),
    ]


def _written(path: Path, columns: int) -> Path:
    """Whole numbers, numbers with three decimals, and short texts."""
    rng = np.random.default_rng(0)
    kinds = [
        lambda k: rng.integers(0, 10 ** (1 + k % 4), ROWS),
        lambda k: rng.normal(50, 10 + k, ROWS).round(3),
        lambda k: rng.choice(["yes", "no", "cardiology", "surgery"], ROWS),
    ]
    pd.DataFrame({f"column{k}": kinds[k % 3](k) for k in range(columns)}).to_csv(path, index=False)
    return path


def _ours(path: Path) -> None:
    TableFile(path).read()


def _pandas(path: Path) -> None:
    pd.read_csv(path)


def _thread(path: Path) -> None:
    with path.open("rb") as file:
        pd.read_csv(file)
