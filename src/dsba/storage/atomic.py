"""Files that are whole or absent: written under a temporary name, then renamed."""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from dsba.errors import StorageError, cannot

PART = ".part-"  # how the temporary names begin
PRIVATE = 0o600  # the mode of a file that holds somebody's data


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


USUAL = 0o666 & ~_umask()  # read once: asking changes the mask for a moment, and so for other threads


@contextmanager
def replacing(path: Path, mode: int = USUAL) -> Iterator[IO[bytes]]:
    """A stream whose bytes become the file ``path`` when the block ends well, and vanish otherwise."""
    try:
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=f"{PART}{path.name}-")
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(part, mode)  # mkstemp's own is PRIVATE
            os.replace(part, path)
        finally:
            Path(part).unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}.") from error


def content_of(path: Path, what: str = "") -> bytes:
    """The bytes of a file, which is ``what`` in the sentence if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise cannot(f"read {what}{path}", error) from None


def write_whole(path: Path, content: bytes, mode: int = USUAL) -> None:
    """The content becomes the file ``path``, or nothing does."""
    with replacing(path, mode) as stream:
        stream.write(content)


def clear_torn(path: Path) -> None:
    """Remove what a killed process left of files that should have become ``path``."""
    for torn in path.parent.glob(f"{PART}{glob.escape(path.name)}-*"):
        torn.unlink(missing_ok=True)


def private_folder(path: Path) -> None:
    """Create a folder that only its owner may enter, with those above it; one that is there stays as it is."""
    if path.is_dir():
        return
    private_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)
