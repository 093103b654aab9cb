"""JSON files that carry a SHA-256 of their own content, so that changed or cut files are found."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel

from dsba.errors import InputError, shortened

KEY = "sha256"
DAMAGE = (ValueError, TypeError, KeyError, IndexError, ArithmeticError, RecursionError)  # of text that was damaged

SomeSchema = TypeVar("SomeSchema", bound=BaseModel)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def dumped(content: BaseModel) -> bytes:
    """The text of a sealed file; NaN and infinity, which JSON does not know, are null."""
    values = strict(content.model_dump(mode="python"))
    text = json.dumps(values | {KEY: _seal(values)}, indent=1, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def loaded(raw: bytes, schema: type[SomeSchema], name: str) -> SomeSchema:
    """The content of a sealed file, or an error in one sentence."""
    try:
        values = parsed(raw)
        if values.pop(KEY, None) != _seal(values):
            raise ValueError("its content does not match its SHA-256")
        return schema.model_validate(values)
    except DAMAGE as error:
        raise damaged(name, error) from None


def parsed(raw: bytes) -> dict[str, Any]:
    """A JSON object; constants that JSON does not know are errors."""
    values = json.loads(raw.decode(), parse_constant=_refuse)
    if not isinstance(values, dict):
        raise TypeError("it is not a JSON object")
    json.dumps(values, ensure_ascii=False).encode()  # half a surrogate pair is an error here, and not in a figure
    return values


def damaged(name: str, reason: object) -> InputError:
    return InputError(f"{name} is damaged ({shortened(reason)}): remove it and run the comparison again.")


def strict(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: strict(item) for key, item in value.items()}
    return [strict(item) for item in value] if isinstance(value, list | tuple) else value


def _seal(values: Mapping[str, Any]) -> str:
    return sha256(json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False).encode())


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
