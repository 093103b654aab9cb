"""`make try-wheel`: the wheel in empty environments, as a new user has it, with the seconds and megabytes of each step.

Nothing of the checkout or of the tests' packages is there. Every environment begins without compiled kernels.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docs.tables import record

ROOT = Path(__file__).parent.parent
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
FIT = """
import numpy as np, pandas as pd, dsba
rng = np.random.default_rng(0)
rows = pd.DataFrame({"age": rng.integers(20, 90, 10_000), "bmi": rng.normal(26, 4, 10_000)})
rows["hospital"], rows["sex"] = rng.choice(list("ABCDE"), 10_000), rng.choice(["F", "M"], 10_000)
rows["readmitted"] = np.where(rng.random(10_000) < rows["age"] / 100, "yes", "no")
print(dsba.fit(rows, "readmitted ~ age + bmi + C(sex)", sites="hospital").summary())
"""
COMPARISON = """
stop = { max_passes = 20 }
data = [{ name = "breast-cancer" }]
problem = [{ operator = "logistic" }]
method = [{ algorithm = "dsba", step_size = "auto" }, { algorithm = "extra", step_size = "auto" }]
"""


@dataclass(frozen=True)
class Environment:
    """An environment with the wheel and one choice of extras, in a folder of its own."""

    folder: Path
    extras: str

    def run(self, *command: str | Path) -> tuple[float, float]:
        """Seconds on the wall and of processors; a command that fails ends the benchmark with its words."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        path = f"{self.folder / 'venv' / 'bin'}:/usr/bin:/bin"
        own = {"HOME": str(self.folder), "NUMBA_CACHE_DIR": str(self.folder / "kernels"), "PATH": path}
        begun, used = time.perf_counter(), _children()
        ended = subprocess.run(
            [*map(str, command)],
            cwd=self.folder,
            env=kept | own,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        if ended.returncode:
            sys.exit(f"{command} failed in the environment {self.extras}:\n{ended.stdout}{ended.stderr}")
        return time.perf_counter() - begun, _children() - used

    def step(self, what: str, *command: str | Path) -> tuple[str, ...]:
        wall, cpu = self.run(*command)
        return self.extras, what, f"{wall:.1f}", f"{cpu:.1f}", ""

    def install(self, wheel: Path) -> tuple[str, ...]:
        self.folder.mkdir()
        self.run(sys.executable, "-m", "venv", self.folder / "venv")
        pip = ("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        row = self.step("install", *pip, f"dsba[{self.extras}] @ {wheel.as_uri()}")
        size = sum(path.lstat().st_blocks * 512 for path in (self.folder / "venv").rglob("*"))
        return *row[:-1], f"{size / 2**20:.0f}"


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def steps(folder: Path, wheel: Path) -> Iterator[tuple[str, ...]]:
    tables = Environment(folder / "tables", "tables,estimators")
    yield tables.install(wheel)
    yield tables.step("`dsba.fit` of 10,000 rows, nothing compiled", "python", "-c", FIT)
    for number, block in enumerate(PYTHON_BLOCK.findall((ROOT / "README.md").read_text()), 1):
        pipeline = " (an estimator in a pipeline)" if "make_pipeline" in block else ""
        yield tables.step(f"block {number} of README{pipeline}", "python", "-c", block)
    sites = Environment(folder / "sites", "sites")
    yield sites.install(wheel)
    made, study = SHELL_BLOCK.findall((ROOT / "docs" / "howto" / "first-study.md").read_text())[:2]
    sites.run("bash", "-ec", made)
    yield sites.step("a study of three sites on this computer", "bash", "-ec", study)
    lab = Environment(folder / "lab", "lab")
    yield lab.install(wheel)
    (lab.folder / "small.toml").write_text(COMPARISON)
    yield lab.step(
        "a comparison of two methods, with figures and page", "dsba", "compare", "small.toml", "--out", "out"
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run([*build, "--wheel-dir", str(folder), "."], cwd=ROOT, check=True, timeout=600)
        (wheel,) = folder.glob("dsba-*.whl")
        rows = [("extras", "step", "seconds", "CPU seconds", "MB")]
        for row in steps(folder, wheel):
            rows.append(row)
            print(" | ".join(row), flush=True)
    record("bench-installed", "make try-wheel", rows, ["pyproject.toml", "benchmarks.installed"])


if __name__ == "__main__":
    main()
