"""How large a file's content may become, so that a small file cannot fill the memory.

A packed file may unpack to ``PACKED`` times its own size, or to ``UNPACKED_AT_LEAST`` bytes if that is more, and never
to more than the memory. ``$DSBA_MAX_BYTES`` sets another bound.
"""

from __future__ import annotations

import bz2
import gzip
import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dsba._system import memory
from dsba.data.hashed_file import HashedFile
from dsba.errors import InputError

PACKED, UNPACKED_AT_LEAST = 100, 1 << 28
OPENERS: dict[bytes, Callable[[Any], Any]] = {
    b"BZh": bz2.BZ2File,
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
}


def bound(name: str, usual: int) -> int:
    """A bound in bytes, which an environment variable may set."""
    given = os.environ.get(name)
    if given is None:
        return usual
    if not re.fullmatch("[0-9]{1,18}", given):
        raise InputError(f"the environment variable {name} must be a number of bytes, got {given!r}.")
    return int(given)


def most_bytes(size: int) -> int:
    """What a file of this size may unpack to."""
    usual = min(max(PACKED * size, UNPACKED_AT_LEAST), memory.available())
    return bound("DSBA_MAX_BYTES", usual)


def require_within(path: str | Path, size: int, most: int) -> None:
    """An error if the ``size`` bytes that the file unpacks to are too many."""
    if size > most:
        raise InputError(
            f"{path} has more than {most} bytes when it is unpacked, which is more than its size or the memory here "
            "allows; DSBA_MAX_BYTES sets another bound."
        )


def unpacked(file: HashedFile) -> Any:
    """The content of a file, plain, gzip or bzip2, from its first byte. The first bytes say which, not the name."""
    file.seek(0)
    begin = file.read(3)
    file.seek(0)
    return next((opener(file) for magic, opener in OPENERS.items() if begin.startswith(magic)), file)


class Bounded(io.RawIOBase):
    """What a packed file holds, within the bound."""

    def __init__(self, file: HashedFile, packed: Any) -> None:
        self.packed, self.path, self.total, self.most = packed, file.name, 0, most_bytes(file.size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self.packed.readinto(buffer)
        self.total += count
        require_within(self.path, self.total, self.most)
        return count

    def close(self) -> None:
        self.packed.close()
        super().close()
