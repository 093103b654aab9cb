"""A trained model, and the file that keeps it: facts, arrays and a digest of everything; nothing in it runs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pydantic import BaseModel, ConfigDict, ValidationError

from dsba import operators
from dsba.errors import InputError, cannot
from dsba.kernels.samples import normalize_rows
from dsba.storage import sealed
from dsba.storage.atomic import clear_torn, replacing
from dsba.types import Array, Arrays

MODEL_FILE, MODEL_COPY = "model.dsba", "model.json"
MODEL_FORMAT = "dsba-model-2"


class ModelFacts(BaseModel):
    """The facts that predictions depend on; a model has many more for its readers."""

    model_config = ConfigDict(strict=True, extra="allow")

    format: Literal["dsba-model-2"]
    operator: str
    decision: Literal["number", "sign", "largest", "rank"]
    link: Literal["identity", "log", "logit", "softmax"] | None
    normalize: bool
    status: Literal["converged", "budget", "diverged", "interrupted"] = "converged"
    tol: float = 0.0


@dataclass(frozen=True)
class Model:
    """Scores are X weights' + intercepts; ``Z`` are the nodes' own iterates and ``facts`` how it came about."""

    weights: Array  # one row, or one per class
    intercepts: Array
    Z: Array
    classes: npt.NDArray[Any] | None
    facts: dict[str, Any]

    @property
    def n_features(self) -> int:
        return int(self.weights.shape[1])

    def scores(self, X: Any) -> Array:
        """x'w + intercept, one column per row of ``weights``."""
        if X.shape[1] != self.n_features:
            raise InputError(f"the model has {self.n_features} features, the data {X.shape[1]}.")
        X = sp.csr_array(X, dtype=np.float64, copy=True)
        if self.facts["normalize"]:
            normalize_rows(X.indptr, X.data)
        return X @ self.weights.T + self.intercepts

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """What the operator decides: labels for classes, expected counts, numbers, or scores to rank by."""
        return operators.decide(self.facts["decision"], self.facts["link"], self.scores(X), self.classes)

    def save(self, folder: Path) -> None:
        """``model.dsba``, and ``model.json`` as a copy of its facts for people; the copy is never read."""
        facts = _strict({"format": MODEL_FORMAT, **self.facts})
        arrays: dict[str, Any] = {"weights": self.weights, "intercepts": self.intercepts, "Z": self.Z}
        if self.classes is not None:
            arrays["classes"] = self.classes
        for name in (MODEL_FILE, MODEL_COPY):
            clear_torn(folder / name)
        with replacing(folder / MODEL_FILE) as stream:
            sealed.write(stream, facts, arrays)
        with replacing(folder / MODEL_COPY) as stream:
            stream.write((json.dumps(facts, indent=2, allow_nan=False) + "\n").encode())

    @classmethod
    def load(cls, folder: Path) -> Model:
        """Read what ``save`` wrote; anything else is refused."""
        facts, arrays = _read(folder)
        if damage := _misfit(facts, arrays):
            raise InputError(f"the model in {folder} is damaged: {damage}.")
        classes = arrays.get("classes")
        return cls(arrays["weights"], arrays["intercepts"], arrays["Z"], classes, facts)


def _read(folder: Path) -> tuple[dict[str, Any], Arrays]:
    try:
        facts, arrays = sealed.read(folder / MODEL_FILE)
        ModelFacts.model_validate(facts)
    except FileNotFoundError:
        raise InputError(f"there is no model in {folder}: {MODEL_FILE} is missing.") from None
    except OSError as error:
        raise cannot(f"read the model in {folder}", error) from None
    except sealed.DamagedError as error:
        raise InputError(f"the model in {folder} is damaged: {error}.") from None
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise InputError(f"{folder / MODEL_FILE} is no {MODEL_FORMAT} file: its {where} is not usable.") from None
    del facts["format"]
    return facts, arrays


def _misfit(facts: Mapping[str, Any], arrays: Arrays) -> str | None:
    """What of the arrays does not fit together, or None."""
    if not {"weights", "intercepts", "Z"} <= arrays.keys() <= {"weights", "intercepts", "Z", "classes"}:
        return "an array is missing or not known"
    weights, intercepts, Z = (arrays[name] for name in ("weights", "intercepts", "Z"))
    if any(array.dtype != np.float64 or not np.isfinite(array).all() for array in (weights, intercepts, Z)):
        return "its coefficients are not finite numbers"
    if not (weights.ndim == Z.ndim == 2 and weights.size and intercepts.shape == weights.shape[:1]):
        return "its arrays do not fit together"
    wanted = {"sign": 2, "largest": len(weights)}.get(facts["decision"])
    classes = arrays.get("classes")
    if wanted is not None and (classes is None or classes.shape != (wanted,)):
        return "its classes do not fit its coefficients"
    return None


def _strict(value: Any) -> Any:
    """JSON knows neither NaN nor infinity: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _strict(item) for key, item in value.items()}
    return [_strict(item) for item in value] if isinstance(value, list | tuple) else value
