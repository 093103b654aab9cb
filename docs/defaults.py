"""Defaults of parameters in the API reference as values: a reader cannot look up ``DEFAULTS.tol``."""

from __future__ import annotations

import importlib
from functools import reduce
from typing import Any

import griffe

PLAIN = (str, int, float, tuple, type(None))


class RealDefaults(griffe.Extension):
    """Replaces the name of a constant by what it is."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        attr.value = _real(attr.module.path, attr.value)

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        for parameter in func.parameters:
            parameter.default = _real(func.module.path, parameter.default)


def _real(module: str, value: Any) -> Any:
    if not isinstance(value, griffe.ExprAttribute):
        return value
    try:
        found = reduce(getattr, str(value).split("."), importlib.import_module(module))
    except (ImportError, AttributeError):  # a name of another place stays a name
        return value
    return repr(found) if isinstance(found, PLAIN) else value
