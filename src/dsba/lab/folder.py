"""The results folder: where everything of an experiment is kept, and nothing half-written.

.dsba-results         marks the folder as dsba's own; the lock of the command that works in it
results.json          the index: titles, networks, identifiers; the report needs no other description
experiment.toml       the whole configuration, defaults included; `dsba compare` reads it
environment.json      the command, the versions and the machine
plugins/              the sources of one's own code, as they were run
optima/ID.npz, .json  reference solutions with their certificates, and facts about the data
tuning/ID.json        step-size searches, every candidate
runs/ID.jsonl         histories: one JSON object per record point, numbers exact, null for NaN and infinity
runs/ID.json          how each run ended, its step size, the data at each node, the SHA-256 of its history
tuning.csv, summary.csv, figures/, report.html
checkpoints/ID.dsba   of unfinished runs (sealed files); gone when all are finished

Every JSON file carries a SHA-256 of its content. Only files that an experiment plans are ever removed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from dsba.engine.history import History
from dsba.errors import InputError, cannot
from dsba.lab import digests
from dsba.lab.index import Environment, Index, Outcome, ShownReference, ShownSearch
from dsba.storage import folders
from dsba.storage.atomic import PART, replacing

PARTS = ("optima", "tuning", "runs", "checkpoints", "figures")
RESULTS_MARKER = ".dsba-results"
REQUIRED_COLUMNS = ("passes", "rounds", "doubles_max", "bytes_max", "seconds", "distance")  # of every history
TORN = re.compile(re.escape(PART) + r"(.+)-[^-]+")  # the name of a file that a killed process left


class Folder:
    """Paths and files of one results folder."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)

    # Paths -----------------------------------------------------------------------------------------

    @property
    def index(self) -> Path:
        return self.root / "results.json"

    @property
    def environment(self) -> Path:
        return self.root / "environment.json"

    @property
    def config(self) -> Path:
        return self.root / "experiment.toml"

    @property
    def page(self) -> Path:
        return self.root / "report.html"

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
        return self.inside(self.root / "checkpoints" / f"{id}.dsba")

    def trials(self, id: str) -> Iterator[Path]:
        """The checkpoints of a step-size search's runs."""
        return (self.root / "checkpoints").glob(f"{id}-*.dsba")

    def inside(self, path: Path) -> Path:
        """The path, if it is in this folder and not a symbolic link that leads out of it."""
        with _sentences(path, "read"):
            within = path.resolve().is_relative_to(self.root.resolve())
        if not within:
            raise InputError(f"{path} leads out of {self.root}: it is a symbolic link, and dsba does not follow it.")
        return path

    # One command at a time -------------------------------------------------------------------------

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Mark the folder as dsba's and lock it, before anything in it is touched.

        A folder with files of somebody else is refused. The lock ends with the process that holds it.
        """
        with folders.owned(self.root, RESULTS_MARKER):
            yield

    def prepare(self) -> None:
        """Make the parts of the folder, and find out now whether files can be written."""
        with _sentences(self.root, "write"):
            for part in PARTS:
                self.inside(self.root / part).mkdir(exist_ok=True)
        self.write(self.root / (PART + "try"), b"")
        (self.root / (PART + "try")).unlink()

    def clear_torn(self, planned: Iterable[Path]) -> None:
        """Remove what a killed process left of the planned files."""
        known = set(planned)
        with _sentences(self.root, "write"):
            for part in ("", *PARTS):
                for found in self.inside(self.root / part).glob(PART + "*"):
                    torn = TORN.fullmatch(found.name)
                    if torn and found.parent / torn[1] in known:
                        found.unlink(missing_ok=True)

    def remove(self, planned: Iterable[Path]) -> None:
        """Remove these files of the folder, where they are."""
        for path in planned:
            with _sentences(path, "write"):
                self.inside(path).unlink(missing_ok=True)

    def drop_checkpoints(self) -> None:
        """Remove the folder of checkpoints, if nothing is left in it."""
        with suppress(OSError):
            (self.root / "checkpoints").rmdir()

    # Writing ---------------------------------------------------------------------------------------

    @contextmanager
    def writing(self, path: Path) -> Iterator[IO[bytes]]:
        """A file that appears whole or not at all; errors in one sentence."""
        with _sentences(self.inside(path), "write"), replacing(path) as stream:
            yield stream

    def write(self, path: Path, content: bytes) -> None:
        with self.writing(path) as stream:
            stream.write(content)

    def write_sealed(self, path: Path, content: BaseModel) -> None:
        self.write(path, digests.dumped(content))

    def write_history(self, id: str, history: History) -> str:
        """The digest of what was written."""
        columns = {name: values.tolist() for name, values in history.to_dict().items()}
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        text = "".join(json.dumps(digests.strict(row), allow_nan=False) + "\n" for row in rows).encode()
        self.write(self.history(id), text)
        return digests.sha256(text)

    def write_optimum(self, id: str, z: npt.NDArray[np.float64]) -> str:
        """The digest of what was written."""
        with self.writing(self.optimum(id)) as stream:
            np.savez(stream, z=z)
        return digests.sha256(self.read(self.optimum(id)))

    # Reading ---------------------------------------------------------------------------------------

    def read(self, path: Path) -> bytes:
        with _sentences(self.inside(path), "read"):
            return path.read_bytes()

    def read_sealed(self, path: Path, schema: type[digests.SomeSchema]) -> digests.SomeSchema:
        return digests.loaded(self.read(path), schema, str(path))

    def read_index(self) -> Index:
        return self.read_sealed(self.index, Index)

    def read_environment(self) -> Environment:
        return self.read_sealed(self.environment, Environment)

    def read_facts(self, id: str) -> ShownReference:
        return self._of(id, self.read_sealed(self.facts(id), ShownReference), self.facts(id))

    def read_search(self, id: str) -> ShownSearch:
        return self._of(id, self.read_sealed(self.tuning(id), ShownSearch), self.tuning(id))

    def read_outcome(self, id: str) -> Outcome:
        return self._of(id, self.read_sealed(self.outcome(id), Outcome), self.outcome(id))

    def _of(self, id: str, content: Any, path: Path) -> Any:
        if content.id != id:
            raise digests.damaged(str(path), f"it belongs to {content.id}")
        return content

    def read_history(self, outcome: Outcome) -> History:
        """The history of a run, if it is the one that the run wrote."""
        path = self.history(outcome.id)
        raw = self.read(path)
        if digests.sha256(raw) != outcome.history:
            raise digests.damaged(str(path), "its content does not match its SHA-256")
        try:
            rows = [digests.parsed(line) for line in raw.splitlines()]
            if any(set(row) != set(rows[0]) for row in rows):
                raise ValueError("its records have different columns")
            if not rows or not set(rows[0]).issuperset(REQUIRED_COLUMNS):
                raise ValueError(f"it lacks one of the columns {', '.join(REQUIRED_COLUMNS)}")
            return History({name: [_number(row[name]) for row in rows] for name in rows[0]})
        except digests.DAMAGE as error:
            raise digests.damaged(str(path), error) from None

    def read_optimum(self, id: str) -> npt.NDArray[np.float64]:
        """The reference solution, if it is the one that its facts were found with."""
        path = self.optimum(id)
        if digests.sha256(self.read(path)) != self.read_facts(id).array:
            raise digests.damaged(str(path), "its content does not match its SHA-256")
        with np.load(path, allow_pickle=False) as file:
            return file["z"]


@contextmanager
def _sentences(path: Path, verb: str) -> Iterator[None]:
    """What the system refuses, in one sentence. Nothing but files may be touched inside."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # RuntimeError: symbolic links in a circle
        raise cannot(f"{verb} {path}", error) from error


def _number(value: Any) -> float:
    if value is None:
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return float(value)
