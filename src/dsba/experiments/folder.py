"""The results folder: where everything of an experiment is kept, and nothing half-written.

experiment.toml       the whole configuration, defaults included; `dsba compare` reads it
environment.json      the command and the versions it ran with
optima/ID.npz, .json  reference solutions with their certificates, and facts about the data
tuning/ID.json        step-size searches, every candidate
runs/ID.jsonl         histories: one JSON object per record point, numbers exact, null for NaN and infinity
runs/ID.json          how each run ended, its step size, the data at each node
tuning.csv, summary.csv, figures/, report.html
checkpoints/          of unfinished runs; gone when all are finished
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dsba.errors import InputError
from dsba.files import PART, replacing
from dsba.recorder import History

PARTS = ("optima", "tuning", "runs", "checkpoints", "figures")


class Folder:
    """Paths and files of one results folder."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)

    def prepare(self, force: bool = False) -> None:
        """Make the folder writable and clean of torn files; ``force`` forgets earlier results."""
        with self._sentences(self.root):
            for part in PARTS:
                if force:
                    shutil.rmtree(self.root / part, ignore_errors=True)
                (self.root / part).mkdir(parents=True, exist_ok=True)
            for torn in self.root.rglob(PART + "*"):
                torn.unlink(missing_ok=True)
            with replacing(self.root / PART):  # an error now rather than after the first run
                pass
            (self.root / PART).unlink()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One command at a time; the lock ends with the process that holds it."""
        try:
            import fcntl
        except ImportError:  # no such locks on this system: nothing is lost but the warning
            yield
            return
        with self._sentences(self.root), _opened(self.root) as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError(
                    f"another dsba is at work in {self.root}: wait for it, or give another --out."
                ) from None
            yield

    def optimum(self, id: str) -> Path:
        return self.root / "optima" / f"{id}.npz"

    def facts(self, id: str) -> Path:
        return self.root / "optima" / f"{id}.json"

    def tuning(self, id: str) -> Path:
        return self.root / "tuning" / f"{id}.json"

    def history(self, id: str) -> Path:
        return self.root / "runs" / f"{id}.jsonl"

    def outcome(self, id: str) -> Path:
        return self.root / "runs" / f"{id}.json"

    def checkpoint(self, id: str) -> Path:
        return self.root / "checkpoints" / f"{id}.npz"

    @contextmanager
    def writing(self, path: Path) -> Iterator[IO[bytes]]:
        """A file that appears whole or not at all; errors in one sentence."""
        with self._sentences(path), replacing(path) as stream:
            yield stream

    def write_text(self, path: Path, text: str) -> None:
        with self.writing(path) as stream:
            stream.write(text.encode())

    def write_json(self, path: Path, content: Any) -> None:
        self.write_text(path, json.dumps(_strict(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n")

    def write_history(self, path: Path, history: History) -> None:
        columns = {name: values.tolist() for name, values in history.to_dict().items()}
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        self.write_text(path, "".join(json.dumps(_strict(row), allow_nan=False) + "\n" for row in rows))

    def write_array(self, path: Path, **arrays: npt.NDArray[Any]) -> None:
        with self.writing(path) as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]

    def read_json(self, path: Path) -> Any:
        with self._sentences(path, "read"):
            return json.loads(path.read_text(encoding="utf-8"))

    def read_history(self, path: Path) -> History:
        with self._sentences(path, "read"):
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            return History({name: [_number(row[name]) for row in rows] for name in rows[0]})

    def read_array(self, path: Path, name: str) -> npt.NDArray[np.float64]:
        with self._sentences(path, "read"), np.load(path, allow_pickle=False) as file:
            return file[name]

    def drop_checkpoints(self) -> None:
        shutil.rmtree(self.root / "checkpoints", ignore_errors=True)

    @contextmanager
    def _sentences(self, path: Path, verb: str = "write") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(f"cannot {verb} {path}: {error.strerror or error}.") from error
        except (ValueError, KeyError, IndexError, EOFError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path} is damaged ({error}): remove it and start again.") from error


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield handle
    finally:
        with suppress(OSError):
            os.close(handle)


def _strict(value: Any) -> Any:
    """JSON knows no NaN and no infinity: null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _strict(item) for key, item in value.items()}
    return [_strict(item) for item in value] if isinstance(value, list | tuple) else value


def _number(value: float | None) -> float:
    return math.nan if value is None else value
