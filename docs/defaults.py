"""Defaults of parameters in the API reference as values: a reader cannot look up ``DEFAULTS.tol``.

Signatures and docstrings that are completed on import (``dsba.fit``, estimators, algorithms) are shown complete.
"""

from __future__ import annotations

import importlib
import inspect
from functools import reduce
from typing import Any

import griffe

PLAIN = (str, int, float, tuple, type(None))


class RealDefaults(griffe.Extension):
    """Replaces the name of a constant by what it is."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        attr.value = _real(attr.module.path, attr.value)

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        found = getattr(importlib.import_module(cls.module.path), cls.name, None)
        if cls.docstring and (made := inspect.getdoc(found)):  # parameters of base classes are added on import
            cls.docstring = _like(cls.docstring, made)

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        _take_made(func)
        for parameter in func.parameters:
            parameter.default = _real(func.module.path, parameter.default)


def _take_made(func: griffe.Function) -> None:
    found = getattr(importlib.import_module(func.module.path), func.name, None)
    made = getattr(found, "__signature__", None)
    if made is None:
        return
    func.parameters = griffe.Parameters(
        *(
            griffe.Parameter(
                one.name,
                annotation=str(one.annotation),
                kind=griffe.ParameterKind(one.kind.description),
                default=None if one.default is one.empty else repr(one.default),
            )
            for one in made.parameters.values()
        )
    )
    if func.docstring:
        func.docstring = _like(func.docstring, inspect.getdoc(found) or "")


def _like(written: griffe.Docstring, made: str) -> griffe.Docstring:
    """The completed docstring in the place of the written one, read by the same parser."""
    return griffe.Docstring(made, parent=written.parent, parser=written.parser, parser_options=written.parser_options)


def _real(module: str, value: Any) -> Any:
    if not isinstance(value, griffe.ExprAttribute):
        return value
    try:
        found = reduce(getattr, str(value).split("."), importlib.import_module(module))
    except (ImportError, AttributeError):  # a name of another place stays a name
        return value
    return repr(found) if isinstance(found, PLAIN) else value
