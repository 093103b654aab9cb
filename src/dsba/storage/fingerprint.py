"""What code in memory does, as an identity to compare: byte code, constants, and the values it refers to.

Code is hashed as it was loaded, since its file may have been edited. For user modules, the attributes that a function
uses are hashed; for installed libraries, only the module's name. Equal identities mean equal
behaviour. Other identities may still mean the same, as of an object whose ``repr`` shows where it is in memory.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np


def code_identity(value: Any, seen: set[int]) -> list[Any]:
    """The identity of a function: what it depends on. That of another value: its content. ``seen``: what was found."""
    value = getattr(value, "py_func", value)  # a helper that is compiled already
    if inspect.isfunction(value):
        return [] if id(value) in seen else _function_identity(value, seen)
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))  # texts have another order in every process
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
    if isinstance(value, type) and not _is_library(value.__module__):
        return [] if id(value) in seen else class_identity(value, seen)
    if isinstance(value, ModuleType):
        return [value.__name__]  # what a function names in it is among the function's own identity
    own = not isinstance(value, type) and not _is_library(type(value).__module__)
    return [repr(value), *(code_identity(type(value), seen) if own else ())]


def _function_identity(function: Any, seen: set[int]) -> list[Any]:
    seen.add(id(function))
    codes, found = [function.__code__], []
    for code in codes:  # grows: nested code is among the constants
        codes += [c for c in code.co_consts if inspect.iscode(c)]
        constants = [c for c in code.co_consts if not inspect.iscode(c)]
        plain = [sorted(map(repr, c)) if isinstance(c, frozenset) else c for c in constants]
        found += [code.co_code, code.co_names, plain]
    names = {name for code in codes for name in code.co_names}
    values = {name: value for name, value in function.__globals__.items() if name in names}
    values |= inspect.getclosurevars(function).nonlocals
    found += [[n, code_identity(v, seen)] for n, v in sorted((function.__kwdefaults__ or {}).items())]
    found += [code_identity(v, seen) for v in function.__defaults__ or ()]
    return found + [[name, code_identity(value, seen)] for name, value in _reached(values, names)]


def _reached(values: dict[str, Any], names: Iterable[str]) -> list[tuple[str, Any]]:
    """The values in order, then what the names are in user modules among them ("constants.C"), and so on."""
    wanted, met = sorted({*names, "__getattr__"}), set[int]()
    found = sorted(values.items(), key=lambda item: item[0])
    for place, value in found:  # grows: a module may be reached through another one, also in a circle
        if isinstance(value, ModuleType) and id(value) not in met and not _is_library(value.__name__):
            met.add(id(value))
            found += [(f"{place}.{name}", vars(value)[name]) for name in wanted if name in vars(value)]
    return found


def class_identity(cls: type, seen: set[int]) -> list[Any]:
    """The functions and values of a class and of those of its bases that belong to no library."""
    seen.add(id(cls))
    found: list[Any] = []
    for base in cls.__mro__[:-1]:
        if not _is_library(base.__module__):
            hidden = ADDED | MADE if "__dataclass_params__" in vars(base) else ADDED
            members = {name: _unwrapped(member) for name, member in vars(base).items() if name not in hidden}
            found += [base.__qualname__, [[name, code_identity(members[name], seen)] for name in sorted(members)]]
    return found


def _unwrapped(member: Any) -> Any:
    """The function behind a static or class method, a property or a cached property; other values as they are."""
    found = [getattr(member, name) for name in ("__func__", "fget", "func") if hasattr(member, name)]
    return found[0] if found else member


# What Python adds to a class, and what a dataclass makes of its fields: no behaviour of their own.
ADDED = frozenset({
    "__module__", "__dict__", "__weakref__", "__doc__", "__firstlineno__", "__static_attributes__", "__annotate__",
    "__annotations_cache__", "__abstractmethods__", "_abc_impl",
})  # fmt: skip
MADE = frozenset({
    "__dataclass_fields__", "__dataclass_params__", "__init__", "__repr__", "__eq__", "__hash__", "__setattr__",
    "__delattr__", "__match_args__", "__replace__",
})  # fmt: skip


PYTHON = Path(sysconfig.get_path("stdlib")).resolve()
INSTALLED = {"site-packages", "dist-packages"}  # the names of folders of installed packages


def _is_library(module: str) -> bool:
    """Whether it is code of dsba, of Python or of an installed package: results carry the versions of libraries."""
    top = module.partition(".")[0]
    if top in ("dsba", "__main__"):  # what was typed into a notebook is in __main__, whatever file started that
        return top == "dsba"
    loaded = sys.modules.get(top)
    file = getattr(loaded, "__file__", None)
    places = [Path(place).resolve() for place in ([file] if file else getattr(loaded, "__path__", ()))]
    if not places:
        return top in sys.stdlib_module_names
    return any(place.is_relative_to(PYTHON) or not INSTALLED.isdisjoint(place.parts) for place in places)


def digest_of(value: Any) -> str:
    """SHA-256 of a user-defined object: what its class does, and its values as ``repr`` shows them."""
    return hashlib.sha256(_text_of(value).encode()).hexdigest()


def steady_digest_of(value: Any) -> str | None:
    """The digest that another process finds again, without places in memory; None for what is a library's."""
    value = _unwrapped(value) if _is_library(type(value).__module__) else value
    if _is_library(value.__module__ if inspect.isfunction(value) else type(value).__module__):
        return None
    return hashlib.sha256(PLACE.sub("", _text_of(value)).encode()).hexdigest()


PLACE = re.compile(" at 0x[0-9A-Fa-f]+")


def _text_of(value: Any) -> str:
    if inspect.isfunction(value):
        return repr([code_identity(value, set()), value.__qualname__])
    return repr([code_identity(type(value), set()), repr(value)])
