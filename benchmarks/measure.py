"""Measuring: rows of results, interleaved timings, the machine's facts."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

import dsba


@dataclass(frozen=True)
class Row:
    """One figure of merit: at most (or at least) the target."""

    name: str
    value: float
    target: float
    unit: str = "x"
    at_least: bool = False
    note: str = ""

    @property
    def met(self) -> bool:
        return self.value >= self.target if self.at_least else self.value <= self.target

    @property
    def bound(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {self.target:g}"


def rows_as_cells(rows: Sequence[Row]) -> list[list[str]]:
    """A table of the documentation, its head first."""
    lines = [[row.name, f"{row.value:.3g} {row.unit}".rstrip(), row.bound, row.note] for row in rows]
    return [["figure", "measured", "target", "note"], *lines]


def interleaved(
    tasks: Mapping[str, Callable[[], None]], repeats: int = 5, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """The median seconds of each task; tasks take turns, so that a noisy moment hits all of them."""
    spent: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(repeats):
        for name, task in tasks.items():
            begun = clock()
            task()
            spent[name].append(clock() - begun)
    return {name: float(np.median(values)) for name, values in spent.items()}


def peak_memory_gb() -> float:
    """The most memory this process ever had; getrusage would count what its parent had when it forked."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) / 2**20  # type: ignore[union-attr]


def in_new_process(code: str, environment: Mapping[str, str] | None = None, figures: int = 1) -> list[float]:
    """Run code in a fresh interpreter; what it prints last are the figures."""
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return [float(figure) for figure in done.stdout.split()[-figures:]]


def dataset(name: str, **synthetic: int) -> tuple[str, dsba.data.Dataset]:
    """The named data set from DSBA_DATA or, where it is not there, synthetic text; with the name to show."""
    if os.environ.get("DSBA_DATA"):
        return name, dsba.load_libsvm(name)
    return f"synthetic text for {name}", dsba.data.make_text_like(**synthetic)


def machine() -> dict[str, object]:
    """What the figures depend on."""
    packages = ("numpy", "scipy", "numba", "scikit-learn")
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "dsba": dsba.__version__,
        **{name: version(name) for name in packages},
        "time": time.strftime("%Y-%m-%d %H:%M"),
    }


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.processor())
