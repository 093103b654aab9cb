"""Files that are whole or absent: written under a temporary name, then renamed."""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

PART = ".part-"  # how the temporary names begin


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A stream whose bytes become the file ``path`` when the block ends well, and vanish otherwise."""
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f"{PART}{path.name}-")
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(part, 0o666 & ~_umask())  # mkstemp's own mode is for secrets
        os.replace(part, path)
    finally:
        Path(part).unlink(missing_ok=True)


def clear_torn(path: Path) -> None:
    """Remove what a killed process left of files that should have become ``path``."""
    for torn in path.parent.glob(f"{PART}{glob.escape(path.name)}-*"):
        torn.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
