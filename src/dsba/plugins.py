"""Losses and algorithms of one's own, by name: "my_loss.py:Absolute" or "my_package.losses:Absolute"."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from dsba.errors import InputError


def load_class(text: str, base: type, kind: str) -> Any:
    """The class that a text "file.py:Name" or "module:Name" stands for, which must be a ``base``."""
    where, _, name = text.rpartition(":")
    try:
        module = _from_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
        found = getattr(module, name)
    except FileNotFoundError:
        raise InputError(f"{kind} {text!r}: there is no file {where}.") from None
    except (AttributeError, ImportError, SyntaxError, ValueError) as error:
        raise InputError(f"{kind} {text!r} cannot be loaded: {error}.") from error
    if not (isinstance(found, type) and issubclass(found, base)):
        raise InputError(f"{kind} {text!r} must be a subclass of dsba's {base.__name__}, got {found!r}.")
    return found


def _from_file(path: Path) -> ModuleType:
    """The file as a module, run once a process however often it is named."""
    path = path.resolve(strict=True)
    for known in list(sys.modules.values()):
        if getattr(known, "__file__", None) == str(path):
            return known
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # before it runs: dataclasses look their module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[path.stem]
        raise
    return module
