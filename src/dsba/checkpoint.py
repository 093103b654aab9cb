"""Checkpoints: plain .npz files (no pickle), written atomically, read with suspicion."""

from __future__ import annotations

import glob
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dsba.errors import CheckpointError, InputError, shortened
from dsba.files import replacing

FORMAT = "dsba-checkpoint-1"
HEADER = "header"

Arrays = dict[str, npt.NDArray[Any]]


def save(path: Path, run: Mapping[str, Any], arrays: Arrays) -> None:
    """Write under a temporary name, then rename: the file at ``path`` is always a whole one."""
    header = json.dumps({"format": FORMAT, "run": run}).encode()
    try:
        with replacing(path) as file:
            np.savez(file, **{HEADER: np.frombuffer(header, np.uint8)}, **arrays)  # type: ignore[arg-type]
    except OSError as error:
        raise InputError(f"cannot write the checkpoint {path}: {error.strerror or error}.") from error


def require_file(path: Path) -> None:
    """An error now rather than after the first pass, if ``path`` cannot be written."""
    if path.is_dir():
        raise InputError(f"the checkpoint must be a file, {path} is a folder.")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise InputError(f"cannot write the checkpoint {path}: its folder is missing or not writable.")


def require_same_kind(path: Path, processes: int) -> None:
    """A run of one process does not go on as one of several, nor the other way round: say so rather than begin anew."""
    of_ranks = sorted(path.parent.glob(f"{glob.escape(path.name)}.rank*.[01]"))
    other = of_ranks[0] if processes == 1 and of_ranks else path if processes > 1 and path.exists() else None
    if other is not None:
        wrote, here = ("several processes", "one") if processes == 1 else ("one process", f"{processes}")
        raise CheckpointError(
            f"{other} was written by {wrote}, and this run has {here}: start it as before, or move the file away."
        )


def load(path: Path, run: Mapping[str, Any]) -> Arrays:
    """The arrays of a checkpoint that belongs to ``run``; refused with the reason otherwise."""
    try:
        found, arrays = _read(path)
    except Exception as error:  # a damaged file may fail anywhere in three libraries
        reason = "no checkpoint at all" if isinstance(error, KeyError) else str(error) or type(error).__name__
        raise CheckpointError(
            f"{path} is not a whole dsba checkpoint ({shortened(reason)}); move it away to start anew."
        ) from error
    for name, wanted in run.items():
        if found.get(name) != wanted:
            here, there = shortened(wanted), shortened(found.get(name))
            raise CheckpointError(f"{path} belongs to another run: its {name} is {there}, this run's {here}.")
    return arrays


def _read(path: Path) -> tuple[dict[str, Any], Arrays]:
    if not zipfile.is_zipfile(path):
        raise ValueError("it is no archive, or cut off")
    with zipfile.ZipFile(path) as archive:
        if damaged := archive.testzip():  # NumPy reads no further than an array's own header says
            raise ValueError(f"its part {damaged} is damaged")
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays.pop(HEADER).tobytes())
    if header["format"] != FORMAT:
        raise ValueError(f"its format is {header['format']!r}, this version reads {FORMAT!r}")
    if not isinstance(header["run"], dict):
        raise ValueError("its header is damaged")
    return header["run"], arrays


def state_arrays(state: Any) -> Arrays:
    """What of a state must be kept: what its ``to_arrays`` says, or every field not marked static."""
    if hasattr(state, "to_arrays"):
        return {f"state.{name}": array for name, array in state.to_arrays().items()}
    return {f"state.{f.name}": np.asarray(getattr(state, f.name)) for f in _kept(state)}


def restored(state: Any, arrays: Arrays) -> Any:
    """The freshly initialised ``state`` with the kept fields put in."""
    if hasattr(state, "from_arrays"):
        parts = {name.removeprefix("state."): a for name, a in arrays.items() if name.startswith("state.")}
        return state.from_arrays(parts)
    values: dict[str, Any] = {}
    for f in _kept(state):
        now, kept = getattr(state, f.name), arrays.get(f"state.{f.name}")
        if kept is None or kept.shape != np.shape(now) or kept.dtype != np.asarray(now).dtype:
            raise CheckpointError(f"the checkpoint's state does not fit this run: field {f.name!r} differs.")
        values[f.name] = kept if isinstance(now, np.ndarray) else type(now)(kept)
    return replace(state, **values)


def _kept(state: Any) -> list[Any]:
    return [f for f in fields(state) if not f.metadata.get("static")]
