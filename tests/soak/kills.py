"""Runs that are killed (SIGKILL) at random moments and resumed: they end with the bits of the run left alone."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
from conftest import ROOT
from mpi import DEADLINE, MPIEXEC, run, started

from dsba.fitting.not_converged import EXIT_CODE

if TYPE_CHECKING:
    from tests.soak.inputs import Ledger

KILLS = 100  # of each subject in a full soak
SERIES = 5  # kills of one run, before it may end
PAUSE = 0.5  # seconds, at most, between a sign of progress and the kill
SLOW_TRAIN = (sys.executable, ROOT / "tests" / "slow_train.py", "train")
OPTIONS = ("--graph", "ring", "--algorithm", "dsba", "--lam", "1e-6", "--tol", "0", "--max-passes", "60")
Round = Callable[[int, random.Random], dict[str, int]]
EXPERIMENT = """stop = { max_passes = 12 }
tune = { passes = 6 }
data = [{ name = "breast-cancer" }]
problem = [{ operator = "ridge", lam = 0.01 }]
network = [{ graph = "ring", n_nodes = 4 }]
method = [{ algorithm = "dsba" }, { algorithm = "extra", step_size = "auto" }]
"""


@dataclass(frozen=True)
class Subject:
    """``prepare`` fills a folder and gives the command without its ``--out``; ``bits`` is what must be the same."""

    name: str
    prepare: Callable[[Path], tuple[Any, ...]]
    bits: Callable[[Path], Any]


def _sites(folder: Path) -> tuple[Any, ...]:
    from test_mpi import make_sites

    return (*SLOW_TRAIN, *make_sites(folder), *OPTIONS)


def _ranks(folder: Path) -> tuple[Any, ...]:
    return (MPIEXEC, "-n", 3, *_sites(folder), "--communication", "cached")


def _hospitals(folder: Path) -> tuple[Any, ...]:
    """Newton's few steps on tables, with a pause at each: somewhere among them is the kill."""
    from test_inference import FORMULAS
    from test_table_commands import tables

    slowly = (SLOW_TRAIN[0], SLOW_TRAIN[1], "0.4", *SLOW_TRAIN[2:])
    return (*slowly, *tables(folder), "--formula", FORMULAS["logistic"], "--graph", "ring", "--test-share", "0.2")


def _hospitals_of_ranks(folder: Path) -> tuple[Any, ...]:
    return (MPIEXEC, "-n", 4, *_hospitals(folder))


def _table_model(out: Path) -> Any:
    """Everything of the model: coefficients, standard errors, rounds, the plan, the measures of held-out rows."""
    from dsba.fitting import codec

    model = codec.load(out)
    return _model(out), model.table, model.run.plan, model.run.status


def _model(out: Path) -> Any:
    from dsba.fitting import codec

    model = codec.load(out)
    return [part.tobytes() for part in (model.weights, model.intercepts, model.Z)]


def _experiment(folder: Path) -> tuple[Any, ...]:
    (folder / "experiment.toml").write_text(EXPERIMENT)
    return (sys.executable, "-m", "dsba", "compare", folder / "experiment.toml", "--workers", 2)


def _results(out: Path) -> Any:
    from test_experiments import without_seconds

    facts, arrays = (found := without_seconds(out))["results.dsba"]
    return found | {"results.dsba": ({key: facts[key] for key in facts if key != "environment"}, arrays)}


SUBJECTS = {
    subject.name: subject
    for subject in [
        Subject("kill-train", _sites, _model),
        Subject("kill-mpi", _ranks, _model),
        Subject("kill-tables", _hospitals, _table_model),
        Subject("kill-tables-mpi", _hospitals_of_ranks, _table_model),
        Subject("kill-compare", _experiment, _results),
    ]
}


def _files(out: Path) -> dict[Path, int]:
    found = {}
    for path in out.rglob("*"):
        try:
            found[path] = path.stat().st_mtime_ns
        except FileNotFoundError:  # replaced while we looked
            continue
    return found


def killed(command: tuple[Any, ...], out: Path, rng: random.Random) -> bool:
    """Start the command, kill it and all below it a moment after its first sign of progress; False if it had ended."""
    before = _files(out)
    with started(*command, "--out", out) as process:
        deadline = time.monotonic() + DEADLINE
        while process.poll() is None and _files(out) == before and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, PAUSE))
        if process.poll() is not None:
            return False
        segments = _shared_memory(process.pid)
    for segment in segments:
        segment.unlink(missing_ok=True)
    return True


def _shared_memory(pid: int) -> set[Path]:
    """The segments that a killed MPI leaves behind."""
    found = set()
    for process in psutil.Process(pid).children(recursive=True):
        try:
            found |= {Path(m.path) for m in process.memory_maps() if m.path.startswith("/dev/shm/mpich")}
        except psutil.Error:
            continue
    return found


def round_of_kills(subject: Subject, kills: int, rng: random.Random) -> dict[str, int]:
    """A run left alone and one killed up to ``kills`` times: how many kills there were, and whether the bits differ."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        command = subject.prepare(folder)
        whole, text = run(*command, "--out", folder / "whole")
        if whole not in (0, EXIT_CODE):
            raise RuntimeError(f"{subject.name} does not even run undisturbed: {text}")
        done = 0
        while done < kills and killed(command, folder / "killed", rng):
            done += 1
        code, text = run(*command, "--out", folder / "killed")
        same = code == whole and subject.bits(folder / "killed") == subject.bits(folder / "whole")
        return {"kills": done, "different": 0 if same else max(done, 1)}


class Rounds(NamedTuple):
    """So many kills (or other disturbances) in all, and at most so many of them in one round."""

    kills: int
    series: int
    one: Round


def soak_kills(ledger: Ledger, name: str, rounds: Rounds, share: float) -> None:
    """Rounds until there were as many kills as wanted; rounds that are in the ledger count."""
    number, kills = 0, max(1, round(share * rounds.kills))
    while ledger.total(name)["kills"] < kills:
        key = f"{name} {number}"
        if not ledger.has(key):
            missing = kills - ledger.total(name)["kills"]
            ledger.add(key, rounds.one(min(rounds.series, missing), random.Random(key)))
            print(f"{name}: {ledger.total(name)['kills']} of {kills} disturbances", file=sys.stderr)
        number += 1
