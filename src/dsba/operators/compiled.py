"""How an operator object enters a compiled kernel.

An operator is a frozen dataclass of floats whose methods are plain scalar functions. For Numba it
is a small struct of its fields, and its methods are compiled on demand. The type's identity is a
string: the class's name and a fingerprint of its fields and the code it depends on. So compiled kernels are
cached on disk per operator, found again by the next process, and an edited operator never meets a
kernel compiled for its older self. (A function passed as an argument or a closure would be
compiled anew in every process.)
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

from numba.core import cgutils, types
from numba.core import utils as numba_utils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    overload_method,
    register_model,
    typeof_impl,
    unbox,
)

from dsba.kernels.cache import sources_digest
from dsba.operators.base import Operator
from dsba.storage.fingerprint import code_facts

_classes: dict[str, type[Operator]] = {}

# What kernels may call of an operator, with the number of arguments.
METHODS = {"value": 2, "map": 2, "slope": 2, "resolvent": 3, "loss": 2, "forward": 3, "jacobian": 3, "backward": 5}

# Numba keeps code of modules that cannot be imported by name (runpy, exec) in a module of its own;
# a second process must find it under the same name to read the cached kernels.
sys.modules.setdefault(numba_utils._dynamic_modname, numba_utils._dynamic_module)


class OperatorType(types.Type):
    """The Numba type of an operator; equal names, equal types, in any process."""

    def __init__(self, name: str, members: tuple[str, ...]) -> None:
        self.members = members
        super().__init__(name=name)


def _class_facts(cls: type) -> list[Any]:
    seen: set[int] = set()
    methods = sorted((n, f) for n, f in vars(cls).items() if n in METHODS and inspect.isfunction(f))
    return [cls.__qualname__, [[n, code_facts(f, seen)] for n, f in methods]]


@cache
def operator_type(cls: type[Operator]) -> OperatorType:
    """The Numba type of an operator class."""
    members = tuple(f.name for f in fields(cls))
    digest = hashlib.sha256(sources_digest() + repr(members).encode())
    for base in cls.__mro__[:-1]:
        digest.update(repr(_class_facts(base)).encode())
    name = f"{cls.__module__}.{cls.__qualname__}<{digest.hexdigest()[:16]}>"
    _classes[name] = cls
    return OperatorType(name, members)


@typeof_impl.register(Operator)
def _typeof(value: Operator, context: Any) -> OperatorType:
    return operator_type(type(value))  # type: ignore[arg-type]


@register_model(OperatorType)
class _Model(models.StructModel):
    def __init__(self, dmm: Any, fe_type: OperatorType) -> None:
        super().__init__(dmm, fe_type, [(name, types.float64) for name in fe_type.members])


@unbox(OperatorType)
def _unbox(typ: OperatorType, obj: Any, c: Any) -> NativeValue:
    struct = cgutils.create_struct_proxy(typ)(c.context, c.builder)
    for name in typ.members:
        value = c.pyapi.object_getattr_string(obj, name)
        setattr(struct, name, c.pyapi.float_as_double(value))
        c.pyapi.decref(value)
    failed = cgutils.is_not_null(c.builder, c.pyapi.err_occurred())
    return NativeValue(struct._getvalue(), is_error=failed)


@infer_getattr
class _Fields(AttributeTemplate):
    key = OperatorType

    def generic_resolve(self, typ: OperatorType, attr: str) -> Any:
        return types.float64 if attr in typ.members else None


@lower_getattr_generic(OperatorType)
def _get_field(context: Any, builder: Any, typ: OperatorType, value: Any, attr: str) -> Any:
    return getattr(cgutils.create_struct_proxy(typ)(context, builder, value=value), attr)


def _compiled_method(name: str, arity: int) -> None:
    """Let kernels call ``op.<name>(...)``: the class's own Python function, compiled."""

    def choose(self: OperatorType, *args: Any) -> Callable[..., Any]:
        return getattr(_classes[self.name], name)

    arguments = ", ".join(f"a{i}" for i in range(arity))
    scope: dict[str, Any] = {"choose": choose}
    exec(f"def overload(self, {arguments}): return choose(self, {arguments})", scope)
    overload_method(OperatorType, name, strict=False)(scope["overload"])


for _name, _arity in METHODS.items():
    _compiled_method(_name, _arity)
