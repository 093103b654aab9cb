"""A trained model on disk: plain arrays and JSON, nothing that runs when it is read."""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dsba.errors import InputError
from dsba.files import replacing
from dsba.kernels.samples import normalize_rows

Array = npt.NDArray[np.float64]
FORMAT = "dsba-model-1"


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
        """Labels for classes, expected counts, numbers; scores to rank by for AUC."""
        scores, kind = self.scores(X), self.facts["labels"]
        if kind == "multiclass" and self.classes is not None:
            return self.classes[np.argmax(scores, axis=1)]
        if kind == "binary" and self.classes is not None and self.facts["operator"] != "auc":
            return self.classes[(scores[:, 0] > 0).astype(int)]
        return np.exp(scores[:, 0]) if kind == "count" else scores[:, 0]

    def save(self, folder: Path) -> None:
        """``model.npz`` and ``model.json``."""
        arrays: dict[str, Any] = {"weights": self.weights, "intercepts": self.intercepts, "Z": self.Z}
        if self.classes is not None:
            arrays["classes"] = self.classes
        with replacing(folder / "model.npz") as stream:
            np.savez(stream, **arrays)
        with replacing(folder / "model.json") as stream:
            stream.write((json.dumps({"format": FORMAT, **self.facts}, indent=2) + "\n").encode())

    @classmethod
    def load(cls, folder: Path) -> Model:
        """Read what ``save`` wrote; anything else is refused."""
        try:
            facts = json.loads((folder / "model.json").read_text())
            with np.load(folder / "model.npz", allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except FileNotFoundError as error:
            raise InputError(f"there is no model in {folder}: {Path(error.filename).name} is missing.") from None
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise InputError(f"the model in {folder} is damaged ({error}).") from None
        if not isinstance(facts, dict) or facts.pop("format", None) != FORMAT:
            raise InputError(f"{folder / 'model.json'} is no {FORMAT} file.")
        needed = {"weights", "intercepts", "Z", "operator", "labels", "normalize"}
        if not needed <= arrays.keys() | facts.keys():
            raise InputError(f"the model in {folder} is damaged (a part is missing).")
        weights, intercepts, Z = (arrays[name] for name in ("weights", "intercepts", "Z"))
        classes = arrays.get("classes")
        fits = weights.ndim == Z.ndim == 2 and intercepts.shape == weights.shape[:1]
        fits = fits and {weights.dtype, intercepts.dtype, Z.dtype} == {np.dtype(np.float64)}
        if not fits or (classes is not None and (classes.ndim != 1 or classes.size < max(2, len(weights)))):
            raise InputError(f"the model in {folder} is damaged (its parts do not fit together).")
        return cls(weights, intercepts, Z, classes, facts)
