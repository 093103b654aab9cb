"""A model as a file and back: JSON, arrays and a digest of everything; nothing in it runs.

Only this module knows the file's keys. Options for tables are with the schema, all others at the top.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from dsba.engine.run import Status
from dsba.errors import InputError, cannot
from dsba.fitting.model import FitRun, FittedModel, Schema, TableMetadata
from dsba.fitting.spec import FOR_TABLES, OPTIONS, FitSpec, plain_of
from dsba.storage import sealed
from dsba.storage.atomic import clear_torn, replacing
from dsba.types import Arrays

MODEL_FILE, MODEL_COPY = "model.dsba", "model.json"
MODEL_FORMAT = "dsba-model-4"
OF_TABLES, OF_ALL = (
    [name for name, one in OPTIONS.items() if (one.data == FOR_TABLES) == tables and name != "guards"]
    for tables in (True, False)
)
"""The names of options: those for tables, and all others. A site's guards are in its part of the schema."""
Typed = TypeVar("Typed")
_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)  # to make one takes longer than to read a model


def save(model: FittedModel, folder: Path) -> None:
    """``model.dsba``, and ``model.json`` as a copy of its JSON for people; the copy is never read."""
    content = content_of(model)
    arrays: dict[str, Any] = {"weights": model.weights, "intercepts": model.intercepts, "Z": model.Z}
    if model.classes is not None:
        arrays["classes"] = model.classes
    for name in (MODEL_FILE, MODEL_COPY):
        clear_torn(folder / name)
    with replacing(folder / MODEL_FILE) as stream:
        sealed.write(stream, content, arrays)
    with replacing(folder / MODEL_COPY) as stream:
        stream.write(copy_of(model))


def copy_of(model: FittedModel) -> bytes:
    """``model.json``."""
    return (json.dumps(content_of(model), indent=2, allow_nan=False) + "\n").encode()


def load(folder: Path) -> FittedModel:
    """Read what ``save`` wrote; anything else is refused."""
    content, arrays = _read(folder)
    try:
        model = model_of(content, arrays)
    except InputError as error:
        raise InputError(f"{folder / MODEL_FILE} is not a usable {MODEL_FORMAT} file: {error}") from None
    if damage := _misfit(model, arrays):
        raise InputError(f"the model in {folder} is damaged: {damage}.")
    return model


# To the file -------------------------------------------------------------------------------------


def content_of(model: FittedModel) -> dict[str, Any]:
    """The JSON of a model's file."""
    content = {"format": MODEL_FORMAT, **_options(model.spec, OF_ALL), **vars(model.run)}
    content["figures"] = model.run.figures.plain()
    content["converged"] = model.run.status is Status.CONVERGED
    if model.zero_based is not None:
        content["zero_based"] = model.zero_based
    if model.table is not None:
        content["table"] = table_content(model.table)
    return strict(content)


def table_content(table: TableMetadata) -> dict[str, Any]:
    known = _adapter(TableMetadata).dump_python(table, mode="json", exclude={"schema"})
    return {**known, "schema": schema_content(table.schema)}


def schema_content(schema: Schema) -> dict[str, Any]:
    known = _adapter(Schema).dump_python(schema, mode="json", exclude={"spec"})
    return {"options": _options(schema.spec, OF_TABLES), **known}


def _options(spec: FitSpec, names: list[str]) -> dict[str, Any]:
    return {name: plain_of(getattr(spec, name)) for name in names}


def strict(value: Any) -> Any:
    """Content for JSON, which knows neither NaN nor infinity: they become null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: strict(item) for key, item in value.items()}
    return [strict(item) for item in value] if isinstance(value, list | tuple) else value


# From the file -----------------------------------------------------------------------------------


def model_of(content: dict[str, Any], arrays: Arrays) -> FittedModel:
    """The model of a file's JSON and arrays."""
    try:
        options = {name: content[name] for name in OF_ALL}
        table = content.get("table")
        if table is not None:
            table = _typed(TableMetadata, table, schema=schema_of(table["schema"], **options))
    except (KeyError, TypeError):
        raise InputError("a part of it is missing or of another type.") from None
    spec = FitSpec(**options) if table is None else table.schema.spec
    weights, intercepts, Z = (arrays.get(name, np.zeros(0)) for name in ("weights", "intercepts", "Z"))
    run, zero_based = _typed(FitRun, content), content.get("zero_based")
    return FittedModel(weights, intercepts, Z, arrays.get("classes"), spec, run, zero_based, table)


def schema_of(content: dict[str, Any], **others: Any) -> Schema:
    """The schema of its JSON; ``others`` are the options of the fit that stand elsewhere in the file."""
    return _typed(Schema, content, spec=FitSpec(**{name: content["options"][name] for name in OF_TABLES}, **others))


def _typed(kind: type[Typed], content: dict[str, Any], **known: Any) -> Typed:
    """What the JSON says of one class; ``known`` fields are there already."""
    try:
        return _adapter(kind).validate_python({**content, **known})
    except ValidationError as error:
        where = ".".join(map(str, error.errors(include_input=False)[0]["loc"]))
        raise InputError(f"its {where} is not usable.") from None


def _read(folder: Path) -> tuple[dict[str, Any], Arrays]:
    try:
        content, arrays = sealed.read(folder / MODEL_FILE)
    except FileNotFoundError:
        raise InputError(f"there is no model in {folder}: {MODEL_FILE} is missing.") from None
    except OSError as error:
        raise cannot(f"read the model in {folder}", error) from None
    except sealed.DamagedError as error:
        raise InputError(f"the model in {folder} is damaged: {error}.") from None
    if content.get("format") != MODEL_FORMAT:
        found = f"a {content['format']}" if str(content.get("format")).startswith("dsba-model-") else "another"
        raise InputError(f"{folder / MODEL_FILE} is {found} file, and this version reads {MODEL_FORMAT} files.")
    return content, arrays


def _misfit(model: FittedModel, arrays: Arrays) -> str | None:
    """What of the arrays does not fit together, or None."""
    if not {"weights", "intercepts", "Z"} <= arrays.keys() <= {"weights", "intercepts", "Z", "classes"}:
        return "an array is missing or not known"
    weights, intercepts, Z = model.weights, model.intercepts, model.Z
    if any(array.dtype != np.float64 or not np.isfinite(array).all() for array in (weights, intercepts, Z)):
        return "its coefficients are not finite numbers"
    held = weights if model.table is None else intercepts  # a table's model may be an intercept alone
    if not (weights.ndim == Z.ndim == 2 and held.size and intercepts.shape == weights.shape[:1]):
        return "its arrays do not fit together"
    wanted = {"sign": 2, "largest": len(weights)}.get(model.run.decision)
    if model.table is not None and model.run.decision == "largest":  # one row of weights holds all classes'
        wanted = None if model.classes is None else len(model.classes)
    if wanted is not None and (model.classes is None or model.classes.shape != (wanted,)):
        return "its classes do not fit its coefficients"
    return None
