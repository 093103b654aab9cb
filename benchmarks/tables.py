"""Four hospitals, each a process under mpiexec that opens only its own table: rounds, seconds, CPU seconds."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import dsba
from benchmarks.measure import Row

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
