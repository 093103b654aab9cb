"""Compiled functions whose copies on disk follow the sources of all kernels.

Numba compares a cached function with the file that defines it. A kernel also contains the functions that it calls
from other files, so an edited ``mix_row`` would go on running in its old form inside other kernels. Here the
stamp of a cached function covers every kernel source of the package.

Processes that start together, as MPI's ranks do, would all compile the same kernels, and would overwrite each other's
index of them. They take turns instead: the first compiles, the others load what it has kept.

Compiling takes seconds, so a process that compiles logs it once, by the logger "dsba".
"""

import hashlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba

from dsba.kernels.internals import COUNTS_REFERENCES, PartCompiler, event, explain_failures, stamp_cache

try:
    import fcntl
except ImportError:  # Windows has no flock, and each process compiles for itself
    fcntl = None  # type: ignore[assignment]

COMPILE_PATIENCE = 120.0  # seconds to wait for another process that compiles the same kernel
PACKAGE = Path(__file__).parent.parent
FOLDERS = {"kernels", "operators"}  # all that is compiled, and the constants in it; elsewhere a file says "njit"


class _Notice(event.Listener):
    """Logs once that kernels are being compiled, at the first one of this process."""

    said = False

    def on_start(self, event: Any) -> None:
        if not self.said and event.data["dispatcher"].py_func.__module__.startswith("dsba."):
            self.said = True
            logging.getLogger("dsba").warning(
                "dsba is compiling kernels for their first use. This takes some seconds; later runs find them compiled."
            )

    def on_end(self, event: Any) -> None:
        """Logs nothing."""


event.register("numba:compile", _Notice())


@cache
def sources_digest() -> bytes:
    """A digest of all sources that the package compiles."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_bytes()
        if path.parent.name in FOLDERS or b"njit" in text:
            digest.update(hashlib.sha256(path.relative_to(PACKAGE).as_posix().encode()).digest())
            digest.update(hashlib.sha256(text).digest())
    return digest.digest()


def njit(allocates: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit`` for the functions of this package: cached copies are valid for the same kernel sources only.

    A function that makes no arrays counts no references to them. Numba would count those of all arguments of each call
    and of each slice, one atomic operation after the other: for a short row of data ten times the work on its numbers.
    """
    options[COUNTS_REFERENCES] = allocates

    def decorate(function: Callable[..., Any]) -> Any:
        compiled = numba.njit(no_cfunc_wrapper=True, **options)(function)  # noqa: TID251
        index = stamp_cache(compiled, sources_digest())
        if index:
            compiled.compile = _in_turn(compiled.compile, index)
        explain_failures(compiled)
        return compiled

    return decorate


def part(allocates: bool = False, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit`` for functions that only kernels call: Python cannot, and they have no file of their own.

    The code by which Python enters a function with tuples of arrays is longer than most of these functions."""
    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": PartCompiler}
    options[COUNTS_REFERENCES] = allocates
    return numba.njit(**options)  # noqa: TID251


def _in_turn(compile: Callable[[Any], Any], index: Path) -> Callable[[Any], Any]:
    """``compile``, which first looks into the cache, by one process at a time."""

    def compile_or_load(signature: Any) -> Any:
        with _turn(index.with_suffix(".lock")):
            return compile(signature)

    return compile_or_load


@contextmanager
def _turn(lock: Path) -> Iterator[None]:
    """Alone; or beside others, which is only slower: after ``COMPILE_PATIENCE``, or where there can be no lock."""
    file = -1
    with suppress(OSError):
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
    if file < 0 or fcntl is None:
        yield
        return
    try:
        end = time.monotonic() + COMPILE_PATIENCE
        while time.monotonic() < end:
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.02)
        yield
    finally:
        os.close(file)
