"""Sites that are killed (SIGKILL) one at a time and started again, while the others go on by themselves."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd

from dsba.fitting import codec
from dsba.fitting.spec import FitSpec
from dsba.study.policy import POLICY_FILE
from dsba.study.trial import SAVED_CODES, Trial, arrange
from dsba.tables.fit import train

KILLS = 30  # in a full soak
PAUSE = 6.0  # seconds, at most, between two kills: starting takes about half of it
DEADLINE = 600.0
SPEC = FitSpec(formula="y ~ a + b", algorithm="extra", lam=0.1, tol=0.0, max_passes=1500.0, graph="ring")


def make_tables(folder: Path) -> list[Path]:
    rng, files = np.random.default_rng(1), []
    for name in ("aarhus", "bergen", "cork"):
        table = pd.DataFrame(rng.normal(size=(50, 2)), columns=["a", "b"])
        table["y"] = np.where(table["a"] + rng.normal(size=50) > 0, "yes", "no")
        files.append(folder / f"{name}.csv")
        table.to_csv(files[-1], index=False)
    return files


def undisturbed(files: list[Path]) -> np.ndarray:
    """The iterates of one process that does the same."""
    return train(files, SPEC).model.Z


def round_of_kills(kills: int, rng: random.Random) -> dict[str, int]:
    """One study whose sites are killed ``kills`` times: how many kills there were, and whether the bits differ."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        files = make_tables(folder)
        wanted = undisturbed(files)
        study = arrange(files, SPEC, folder / "study")
        (folder / "study" / POLICY_FILE).write_text(f"starts = {kills + 2}\n")  # a person who looks on
        trial, said = Trial(study, files, folder / "study", ("--patience", str(DEADLINE))), []
        try:
            for rank in range(3):
                _start(trial, rank, said)
            done = _killed(trial, kills, rng, said)
            ended = _ended(trial)
        finally:
            trial.stop()
        same = ended and all((wanted == codec.load(trial.out(rank)).Z).all() for rank in range(3))
        if not same:
            print("\n".join(said[-60:]))
        return {"kills": done, "different": 0 if same else max(done, 1)}


def _start(trial: Trial, rank: int, said: list[str]) -> None:
    stream = trial.start(rank).stdout
    threading.Thread(target=lambda: said.extend(f"{rank}: {line.decode().rstrip()}" for line in stream)).start()


def _killed(trial: Trial, kills: int, rng: random.Random, said: list[str]) -> int:
    done = 0
    while done < kills and any(process.poll() is None for process in trial.processes.values()):
        time.sleep(rng.uniform(0.0, PAUSE))
        rank = rng.randrange(3)
        process = trial.processes[rank]
        if process.poll() is None:
            process.kill()
            process.wait()
            said.append(f"{rank}: killed")
            done += 1
        _start(trial, rank, said)
    return done


def _ended(trial: Trial) -> bool:
    deadline = time.monotonic() + DEADLINE
    while any(process.poll() is None for process in trial.processes.values()):
        if time.monotonic() > deadline or any(process.poll() for process in trial.processes.values()):
            return False
        time.sleep(0.05)
    return all(process.returncode in SAVED_CODES for process in trial.processes.values())
