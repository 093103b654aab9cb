"""An open file that hashes what is read from it."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import Any

from dsba.data.sources import Reading
from dsba.errors import InputError

PASS_BYTES = 1 << 20


def same_file(before: os.stat_result, after: os.stat_result) -> bool:
    """Whether the file was neither written to nor replaced."""
    return all(getattr(before, name) == getattr(after, name) for name in ("st_ino", "st_size", "st_mtime_ns"))


class HashedFile(io.FileIO):
    """A file that is opened once. Every pass from the first byte to the last adds a digest of what was read."""

    def __init__(self, path: Path, reading: Reading | None = None) -> None:
        super().__init__(str(path))
        self.name, self.reading = str(path), reading or Reading()
        self.digests: set[str] = set()
        self._sha: Any = hashlib.sha256()  # None where a pass did not begin at the first byte
        self.stat = os.fstat(self.fileno())
        self.size = self.stat.st_size

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        at = super().seek(offset, whence)
        self._sha = None if at else hashlib.sha256()
        return at

    def read(self, size: int | None = -1) -> bytes:
        size = -1 if size is None else size
        content = super().read(size)
        if self._sha is not None:
            self._sha.update(content)
            if size < 0 or (size and not content):
                self.digests.add(self._sha.hexdigest())
        return content

    def readinto(self, buffer: Any) -> int:
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        return self.read()

    def digest(self) -> str:
        """The digest of what was read, hex sha256. A file that was read in another order is read once more for it."""
        if not self.digests:
            self.seek(0)
            while self.read(PASS_BYTES):
                pass
        if not self.unchanged:
            raise InputError(f"{self.name} was changed while it was read.")
        return next(iter(self.digests))

    @property
    def unchanged(self) -> bool:
        """Whether all passes read the same, and the file was not written to."""
        return len(self.digests) < 2 and same_file(self.stat, os.fstat(self.fileno()))
