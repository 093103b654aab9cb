"""The results folder: where everything of an experiment is kept, and nothing half-written.

.dsba-results         marks the folder as dsba's own; the lock of the command that works in it
results.dsba          the index: titles, networks, identifiers, the environment; the report needs no other description
experiment.toml       the whole configuration, defaults included; `dsba compare` reads it
plugins/              the sources of user-defined code, as they were run
optima/ID.dsba        a reference solution with its certificate, and a description of the data
tuning/ID.dsba        a step-size search, every candidate
runs/ID.dsba          how a run ended, its step size, the data at each node, and its history, one array a column
tuning.csv, summary.csv, figures/, report.html
checkpoints/ID.dsba   of unfinished runs and searches; gone when all are finished

Files that end in .dsba are sealed (storage/sealed.py), and ``index.py`` has the schema of each kind. Only files that an
experiment plans are ever removed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
from pydantic import BaseModel

from dsba.engine.history import History
from dsba.errors import InputError, cannot, shortened
from dsba.lab.index import Identified, Index, Outcome, ShownReference, ShownSearch
from dsba.storage import folders, sealed
from dsba.storage.atomic import PART, replacing
from dsba.types import Array, Arrays

RUNS = "runs"
PARTS = ("optima", "tuning", RUNS, "checkpoints", "figures")
RESULTS_MARKER = ".dsba-results"
REQUIRED_COLUMNS = (
    "passes", "work", "rounds", "doubles_max", "bytes_max", "seconds", "cpu_seconds", "distance",
)  # of every history  # fmt: skip
TORN = re.compile(re.escape(PART) + r"(.+)-[^-]+")  # the name of a file that a killed process left
DAMAGE = (ValueError, TypeError, ArithmeticError, RecursionError)  # of content that was forged

SomeSchema = TypeVar("SomeSchema", bound=BaseModel)
SomeIdentified = TypeVar("SomeIdentified", bound=Identified)


class Folder:
    """Paths and files of one results folder."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self.index, self.config = self.root / "results.dsba", self.root / "experiment.toml"
        self.page = self.root / "report.html"
        self.summary, self.candidates = self.root / "summary.csv", self.root / "tuning.csv"

    def optimum(self, id: str) -> Path:
        return self.root / "optima" / f"{id}.dsba"

    def tuning(self, id: str) -> Path:
        return self.root / "tuning" / f"{id}.dsba"

    def run(self, id: str) -> Path:
        return self.root / RUNS / f"{id}.dsba"

    def checkpoint(self, id: str) -> Path:
        return self.inside(self.root / "checkpoints" / f"{id}.dsba")

    def inside(self, path: Path) -> Path:
        """The path, if it is in this folder and not a symbolic link that leads out of it."""
        with _sentences(path, "read"):
            within = path.resolve().is_relative_to(self.root.resolve())
        if not within:
            raise InputError(f"{path} leads out of {self.root}: it is a symbolic link, and dsba does not follow it.")
        return path

    # One command at a time -------------------------------------------------------------------------

    def owned(self) -> AbstractContextManager[None]:
        """Mark the folder as dsba's and lock it, before anything in it is touched."""
        return folders.owned(self.root, RESULTS_MARKER)

    def prepare(self, planned: Iterable[Path]) -> None:
        """Make the parts of the folder, remove what a killed process left of the planned files, and try to write."""
        known = {*planned, self.index, self.config, self.page, self.summary, self.candidates}
        with _sentences(self.root, "write"):
            for part in PARTS:
                self.inside(self.root / part).mkdir(exist_ok=True)
            for found in (path for part in ("", *PARTS) for path in (self.root / part).glob(PART + "*")):
                torn = TORN.fullmatch(found.name)
                if torn and found.parent / torn[1] in known:
                    found.unlink(missing_ok=True)
        self.write(self.root / (PART + "try"), b"")
        (self.root / (PART + "try")).unlink()

    def remove(self, planned: Iterable[Path]) -> None:
        """Remove these files of the folder, where they are."""
        for path in planned:
            with _sentences(path, "write"):
                self.inside(path).unlink(missing_ok=True)

    # Writing ---------------------------------------------------------------------------------------

    def write(self, path: Path, content: bytes) -> None:
        """A file appears whole or not at all."""
        with _sentences(self.inside(path), "write"), replacing(path) as stream:
            stream.write(content)

    def write_sealed(self, path: Path, content: BaseModel, arrays: Mapping[str, Array] | None = None) -> None:
        with _sentences(self.inside(path), "write"), replacing(path) as stream:
            sealed.write(stream, content.model_dump(mode="json"), arrays or {})

    # Reading ---------------------------------------------------------------------------------------

    def read_sealed(self, path: Path, schema: type[SomeSchema]) -> tuple[SomeSchema, Arrays]:
        with _sentences(self.inside(path), "read"), _undamaged(path):
            content, arrays = sealed.read(path)
            json.dumps([content, *arrays], ensure_ascii=False).encode()  # half a surrogate pair is an error here
            return schema.model_validate(content), arrays

    def read_index(self) -> Index:
        return self.read_sealed(self.index, Index)[0]

    def read_reference(self, id: str) -> tuple[ShownReference, Array]:
        """What is shown of a data set and its reference solution, and the solution."""
        shown, arrays = self._read_own(self.optimum(id), id, ShownReference, ("z",))
        return shown, arrays["z"]

    def read_search(self, id: str) -> ShownSearch:
        return self._read_own(self.tuning(id), id, ShownSearch)[0]

    def read_run(self, id: str) -> tuple[Outcome, History]:
        """How a run ended, and its history; infinite numbers are NaN, as everything that cannot be shown."""
        outcome, columns = self._read_own(self.run(id), id, Outcome, REQUIRED_COLUMNS)
        return outcome, History({name: np.where(np.isfinite(v), v, np.nan) for name, v in columns.items()})

    def _read_own(
        self, path: Path, id: str, schema: type[SomeIdentified], required: Sequence[str] = ()
    ) -> tuple[SomeIdentified, Arrays]:
        content, arrays = self.read_sealed(path, schema)
        with _undamaged(path):
            if content.id != id:
                raise ValueError(f"it belongs to {content.id}")
            _require_columns(arrays, required)
        return content, arrays


def _require_columns(arrays: Arrays, required: Sequence[str]) -> None:
    """An error unless the arrays are columns of numbers of one length, and the required ones are among them."""
    if not set(arrays).issuperset(required):
        raise ValueError(f"it lacks one of the columns {', '.join(required)}")
    shapes = {array.shape for array in arrays.values()}
    if len(shapes) > 1 or any(array.dtype != np.float64 or array.ndim != 1 for array in arrays.values()):
        raise ValueError("its arrays are not columns of numbers of one length")
    if shapes == {(0,)}:
        raise ValueError("its columns are empty")


@contextmanager
def _undamaged(path: Path) -> Iterator[None]:
    """What is wrong with a file's content, in one sentence."""
    try:
        yield
    except DAMAGE as error:
        raise InputError(f"{path} is damaged ({shortened(error)}): remove it and run the comparison again.") from None


@contextmanager
def _sentences(path: Path, verb: str) -> Iterator[None]:
    """What the system refuses, in one sentence. Nothing but files may be touched inside."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # RuntimeError: symbolic links in a circle
        raise cannot(f"{verb} {path}", error) from error
