"""Compiled functions whose copies on disk follow the sources of all kernels.

Numba compares a cached function with the file that defines it. A kernel also contains the functions that it calls
from other files, so an edited ``mix_row`` would go on running in its old form inside other kernels. Here the
stamp of a cached function covers every kernel source of the package.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba

PACKAGE = Path(__file__).parent.parent
FOLDERS = {"kernels", "operators"}  # all that is compiled, and the constants in it; elsewhere a file says "njit"


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


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit`` for the functions of this package: cached copies are valid for the same kernel sources only."""

    def decorate(function: Callable[..., Any]) -> Any:
        compiled = numba.njit(**options)(function)  # noqa: TID251
        file: Any = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
        if hasattr(file, "_source_stamp"):  # not where compilation or the cache is switched off
            file._source_stamp = (file._source_stamp, sources_digest())
        return compiled

    return decorate
