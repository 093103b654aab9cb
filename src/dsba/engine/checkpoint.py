"""Checkpoints: sealed files, written whole, readable by their owner alone, read with suspicion.

The seal finds every change that happened by accident. Against a file that somebody forged, a state may give
``require_sound()``: ``restored`` calls it, and it raises ``CheckpointError`` where a number in the state
would send a kernel out of its arrays or keep it busy for ever.
"""

import glob
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dsba.algorithms.base import kept_fields
from dsba.errors import CheckpointError, InputError, StorageError, shortened
from dsba.storage import sealed
from dsba.storage.atomic import PRIVATE, replacing
from dsba.types import Arrays

FORMAT = "dsba-checkpoint-3"


def save(path: Path, run: Mapping[str, Any], arrays: Arrays, plan: Mapping[str, Any] | None = None) -> None:
    """Write under a temporary name, then rename: the file at ``path`` is always a whole one.

    ``plan`` is what "auto" took, and why.
    """
    with replacing(path, PRIVATE) as file:
        sealed.write(file, {"format": FORMAT, "run": run, "plan": plan}, arrays)


def require_file(path: Path) -> None:
    """An error if ``path`` cannot be written; it comes now and not after the first pass."""
    if path.is_dir():
        raise InputError(f"the checkpoint must be a file, {path} is a folder.")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise StorageError(f"cannot write the checkpoint {path}: its folder is missing or not writable.")


def require_same_kind(path: Path, processes: int) -> None:
    """An error if the checkpoint is that of one process and this run has several, or the other way round."""
    of_ranks = sorted(path.parent.glob(f"{glob.escape(path.name)}.rank*.[01]"))
    other = of_ranks[0] if processes == 1 and of_ranks else path if processes > 1 and path.exists() else None
    if other is not None:
        wrote, here = ("several processes", "one") if processes == 1 else ("one process", f"{processes}")
        raise CheckpointError(
            f"{other} was written by {wrote}, and this run has {here}: start it as before, or move the file away."
        )


def slots(path: Path, rank: int) -> list[Path]:
    """The two files of one of several processes."""
    return [path.with_name(f"{path.name}.rank{rank}.{slot}") for slot in range(2)]


def load(path: Path, run: Mapping[str, Any]) -> Arrays:
    """The arrays of a checkpoint that belongs to ``run``; refused with the reason otherwise."""
    metadata, arrays = _whole(path)
    found = metadata["run"]
    for name, wanted in run.items():
        if found.get(name) != wanted:
            here, there = shortened(wanted), shortened(found.get(name))
            raise CheckpointError(
                f"{path} belongs to another run: its {name} is {there}, this run's {here}. Give another place, or move "
                "the file away."
            )
    return arrays


def kept_plan(path: Path) -> Any:
    """The plan of "auto" for the run; None if there is no checkpoint, or nothing was planned."""
    return _whole(path)[0].get("plan") if path.exists() else None


def _whole(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Metadata and arrays, or an error that says what is wrong with the file."""
    try:
        return _read(path)
    except (sealed.DamagedError, OSError, MemoryError) as error:
        reason = shortened(error) or type(error).__name__
        raise CheckpointError(
            f"{path} is not a whole dsba checkpoint ({reason}); move it away to start anew."
        ) from error


def _read(path: Path) -> tuple[dict[str, Any], Arrays]:
    metadata, arrays = sealed.read(path)
    if metadata.get("format") != FORMAT or not isinstance(metadata.get("run"), dict):
        raise sealed.DamagedError(f"it is another file than a {FORMAT}")
    _require_order(arrays)
    return metadata, arrays


def _require_order(arrays: Arrays) -> None:
    """Recorded iterations increase from 0, and none lies beyond the state's own iteration ``t``."""
    t, recorded = arrays.get("state.t"), arrays.get("history.iteration")
    if t is not None and (t.shape != () or t.dtype.kind != "i" or t < 0):
        raise sealed.DamagedError("its iteration is no whole number")
    if recorded is None or recorded.ndim != 1 or not recorded.size:
        return  # the run says what is missing
    if recorded[0] != 0 or not (np.diff(recorded) > 0).all() or (t is not None and recorded[-1] > t):
        raise sealed.DamagedError("its history does not lead to its iteration")


def state_arrays(state: Any) -> Arrays:
    """The arrays that a checkpoint keeps: those of the state's ``to_arrays``, or every field not marked static."""
    if hasattr(state, "to_arrays"):
        return {f"state.{name}": array for name, array in state.to_arrays().items()}
    return {f"state.{name}": np.asarray(getattr(state, name)) for name in kept_fields(state)}


def restored(state: Any, arrays: Arrays) -> Any:
    """The freshly initialised ``state`` with the kept fields put in, after its own check where it has one."""
    parts = {name.removeprefix("state."): a for name, a in arrays.items() if name.startswith("state.")}
    state = state.from_arrays(parts) if hasattr(state, "from_arrays") else replace(state, **_values(state, parts))
    if hasattr(state, "require_sound"):
        state.require_sound()
    return state


def _values(state: Any, parts: Arrays) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in kept_fields(state):
        now, kept = getattr(state, name), parts.get(name)
        if kept is None or kept.shape != np.shape(now) or kept.dtype != np.asarray(now).dtype:
            raise CheckpointError(f"the checkpoint's state does not fit this run: field {name!r} differs.")
        values[name] = kept if isinstance(now, np.ndarray) else type(now)(kept)
    return values
