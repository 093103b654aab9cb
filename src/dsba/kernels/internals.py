"""The parts of Numba and llvmlite that are not their documented interface.

Another version may move or rename each of them, so only this module uses them. Each is tried by itself in
tests/kernels/test_internals.py, and a test that fails names what broke.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from llvmlite import binding, ir
from numba.core import cgutils, event, utils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.typing.templates import AttributeTemplate

__all__ = [
    "COUNTS_REFERENCES", "AttributeTemplate", "PartCompiler", "binding", "cgutils", "event", "explain_failures", "ir",
    "keep_dynamic_code", "stamp_cache",
]  # fmt: skip

COUNTS_REFERENCES = "_nrt"  # the option of njit for functions that may make arrays


def stamp_cache(compiled: Any, stamp: bytes) -> Path | None:
    """Makes cached copies of a function valid for this stamp only, and gives the file of their index.

    None where compilation or the cache is switched off.
    """
    file: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if not hasattr(file, "_source_stamp"):
        return None
    file._source_stamp = (file._source_stamp, stamp)
    return Path(file._index_path)


def explain_failures(compiled: Any) -> None:
    """If a function cannot be compiled, the type of an argument may give the reason: ``refusal()`` of it."""
    if not hasattr(compiled, "_compile_for_args"):  # compilation is switched off
        return
    compile_for_args: Callable[..., Any] = compiled._compile_for_args

    def compile_or_explain(*args: Any) -> Any:
        try:
            return compile_for_args(*args)
        except Exception as error:
            kinds = map(compiled.typeof_pyval, args)
            reasons = (kind.refusal() for kind in kinds if hasattr(kind, "refusal"))
            reason = next(filter(None, reasons), None)
            if reason is None:
                raise
            raise reason from error

    compiled._compile_for_args = compile_or_explain


def keep_dynamic_code() -> None:
    """Numba keeps code of modules that cannot be imported by name (runpy, exec) in a module of its own.

    A second process must find it under the same name to read the cached kernels.
    """
    sys.modules.setdefault(utils._dynamic_modname, utils._dynamic_module)


class _PartLibrary(JITCodeLibrary):
    """The code of a part as LLVM has it, for the kernels that take it in.

    Numba would also make machine code of it, in an eighth of the time of a first fit. No caller could use that code.
    """

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    @property
    def codegen(self) -> Self:
        return self

    def set_env(self, name: str, env: Any) -> None:
        """An environment belongs to machine code."""


class PartCompiler(Compiler):
    """Numba's compiler, with the library of a part in place of one that can be run."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *rest: Any) -> None:
        super().__init__(typingctx, targetctx, _PartLibrary(targetctx.codegen(), "part"), *rest)
