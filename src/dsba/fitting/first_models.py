"""Models that dsba 0.1.0 wrote: arrays in ``model.npz``, facts in ``model.json``, without a digest."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dsba import operators
from dsba.errors import InputError
from dsba.operators.base import DECISION_OF_LABELS, LINK_OF_LABELS

FORMAT = "dsba-model-1"
ARRAYS, FACTS = "model.npz", "model.json"


def is_one(folder: Path) -> bool:
    """Whether the folder has the two files."""
    return (folder / ARRAYS).is_file() and (folder / FACTS).is_file()


def read(folder: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Facts and arrays, the facts as a model of today has them."""
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        if not isinstance(facts, dict) or facts.pop("format", None) != FORMAT:
            raise InputError(f"{folder / FACTS} is no {FORMAT} file.")
        with np.load(folder / ARRAYS, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return _as_today(facts), arrays
    except InputError:
        raise
    except (OSError, ValueError, TypeError, KeyError, EOFError, MemoryError, RecursionError, zipfile.BadZipFile):
        raise InputError(f"the model in {folder} is damaged: {ARRAYS} or {FACTS} cannot be read.") from None


def _as_today(facts: dict[str, Any]) -> dict[str, Any]:
    """With the decision and the link, which were guessed from the labels then; no code of the operator's is run."""
    labels, known = facts["labels"], operators.REGISTRY.get(facts["operator"])
    decision = DECISION_OF_LABELS[labels] if known is None else known().decision
    if not isinstance(facts["normalize"], bool):
        raise TypeError("normalize")
    return {**facts, "decision": decision, "link": LINK_OF_LABELS.get(labels) if known is None else known().link}
