"""How an operator object enters a compiled kernel.

An operator is a frozen dataclass of floats whose methods are plain scalar functions. For Numba it
is a small struct of its fields, and its methods are compiled on demand. The type's identity is a
string: the class's name and a fingerprint of its fields and the code it depends on. So compiled kernels are
cached on disk per operator, found again by the next process, and an edited operator never meets a
kernel compiled for its older self. (A function passed as an argument or a closure would be
compiled anew in every process.)
"""

import hashlib
import inspect
import linecache
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from numba import extending, types

from dsba.errors import InputError
from dsba.kernels.cache import part, sources_digest
from dsba.kernels.internals import AttributeTemplate, cgutils, keep_dynamic_code
from dsba.operators.base import Operator
from dsba.storage.fingerprint import code_identity

_classes: dict[str, type[Operator]] = {}

# What kernels may call of an operator, with the types of the arguments.
_X, _V, _M = types.float64, types.float64[::1], types.float64[:, ::1]
COMPILED_METHODS: dict[str, tuple[types.Type, ...]] = {
    "value": (_X, _X),
    "map": (_X, _X),
    "slope": (_X, _X),
    "resolvent": (_X, _X, _X),
    "loss": (_V, _X),
    "forward": (_V, _X, _V),
    "jacobian": (_V, _X, _M),
    "backward": (_V, _X, _V, _X, _V),
}
# What sweeps over all samples call with arrays. In the package these make none; other methods, and a user's, may.
SWEPT = ("loss", "forward")

keep_dynamic_code()


class OperatorType(types.Type):
    """The Numba type of an operator; equal names, equal types, in any process."""

    def __init__(self, name: str, members: tuple[str, ...]) -> None:
        self.members = members
        super().__init__(name=name)

    def refusal(self) -> InputError | None:
        """A sentence about the first user-defined method that cannot be compiled; None if all of them can."""
        cls = _classes[self.name]
        for method, arguments in COMPILED_METHODS.items():
            function = getattr(cls, method, None)
            if not inspect.isfunction(function) or function.__module__.startswith("dsba."):
                continue
            line = _obstacle(function, (self, *arguments))
            if line:
                where = source_line(function.__code__.co_filename, line)
                return InputError(
                    f"{cls.__name__}.{method} cannot be compiled, see {where}: a method may use numbers, fields of its "
                    "class, its other methods, functions of math, arrays of NumPy, if, for and while, and it returns "
                    "a number or fills the array out."
                )
        return None


def _obstacle(function: Any, arguments: tuple[types.Type, ...]) -> int:
    """The line because of which a method cannot be compiled, as far as Numba knows it; 0 if it can."""
    first = function.__code__.co_firstlineno
    compiled = part(allocates=True)(function)
    try:
        compiled.compile(arguments)
    except Exception as error:
        return getattr(getattr(error, "loc", None), "line", first)
    fills, returned = isinstance(arguments[-1], types.Array), compiled.nopython_signatures[0].return_type
    return 0 if fills or isinstance(returned, (types.Number, types.Boolean)) else first


def source_line(file: str, line: int | None) -> str:
    """A line of a user's code, for a message."""
    text = linecache.getline(file, line or 0).strip()
    return f"line {line} of {Path(file).name}" + (f" ({text})" if text else "")


def _class_identity(cls: type) -> list[Any]:
    seen: set[int] = set()
    methods = sorted((n, f) for n, f in vars(cls).items() if n in COMPILED_METHODS and inspect.isfunction(f))
    return [cls.__qualname__, [[n, code_identity(f, seen)] for n, f in methods]]


@cache
def operator_type(cls: type[Operator]) -> OperatorType:
    """The Numba type of an operator class."""
    members = tuple(f.name for f in fields(cls))
    digest = hashlib.sha256(sources_digest() + repr(members).encode())
    for base in cls.__mro__[:-1]:
        digest.update(repr(_class_identity(base)).encode())
    name = f"{cls.__module__}.{cls.__qualname__}<{digest.hexdigest()[:16]}>"
    _classes[name] = cls
    return OperatorType(name, members)


@extending.typeof_impl.register(Operator)
def _typeof(value: Operator, context: Any) -> OperatorType:
    return operator_type(type(value))  # type: ignore[arg-type]


@extending.register_model(OperatorType)
class _Model(extending.models.StructModel):
    def __init__(self, dmm: Any, fe_type: OperatorType) -> None:
        super().__init__(dmm, fe_type, [(name, types.float64) for name in fe_type.members])


@extending.unbox(OperatorType)
def _unbox(typ: OperatorType, obj: Any, c: Any) -> extending.NativeValue:
    struct = cgutils.create_struct_proxy(typ)(c.context, c.builder)
    for name in typ.members:
        value = c.pyapi.object_getattr_string(obj, name)
        setattr(struct, name, c.pyapi.float_as_double(value))
        c.pyapi.decref(value)
    failed = cgutils.is_not_null(c.builder, c.pyapi.err_occurred())
    return extending.NativeValue(struct._getvalue(), is_error=failed)


@extending.infer_getattr
class _Fields(AttributeTemplate):
    key = OperatorType

    def generic_resolve(self, typ: OperatorType, attr: str) -> Any:
        return types.float64 if attr in typ.members else None


@extending.lower_getattr_generic(OperatorType)
def _get_field(context: Any, builder: Any, typ: OperatorType, value: Any, attr: str) -> Any:
    return getattr(cgutils.create_struct_proxy(typ)(context, builder, value=value), attr)


def _compiled_method(name: str, arity: int) -> None:
    """Let kernels call ``op.<name>(...)``: the class's own Python function, compiled."""
    arguments = ", ".join(f"a{i}" for i in range(arity))

    def choose(self: OperatorType, *args: Any) -> Callable[..., Any]:
        function = getattr(_classes[self.name], name)
        if name in SWEPT and function.__module__.startswith("dsba."):
            return function
        scope: dict[str, Any] = {"function": part(allocates=True)(function)}
        exec(f"def call(self, {arguments}): return function(self, {arguments})", scope)
        return scope["call"]

    scope: dict[str, Any] = {"choose": choose}
    exec(f"def overload(self, {arguments}): return choose(self, {arguments})", scope)
    extending.overload_method(OperatorType, name, strict=False)(scope["overload"])


for _name, _arguments in COMPILED_METHODS.items():
    _compiled_method(_name, len(_arguments))
