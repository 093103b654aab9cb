"""Downloads: resumed when interrupted, fetched again when corrupted, tried elsewhere when refused.

A file appears under its name only after all of it was read and found whole.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from dsba.data import cache, registry
from dsba.data.libsvm import find_file, load_libsvm
from dsba.data.registry import LIBSVM, Entry
from dsba.errors import InputError, shortened
from dsba.files import PART

TIMEOUT = 30.0  # seconds without a byte
ATTEMPTS = 3  # at each address
PAUSE = 1.0  # seconds before another attempt, doubled each time
CHUNK = 1 << 16

Progress = Callable[[int, int | None], object]  # (bytes here, bytes in all)


def fetch(name: str, mirrors: Sequence[str] = (), *, pause: float = PAUSE, progress: Progress | None = None) -> Path:
    """The file of a registered data set: the one that is there, or a new download.

    Addresses are tried in order: ``mirrors``, those in ``$DSBA_MIRROR`` (separated by spaces), LIBSVM's.
    """
    entry = registry.get(name)
    try:
        return find_file(name)
    except InputError:
        pass
    folder = cache.folder() / "data"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write into {folder}: {error.strerror or error}.") from error
    target, part = folder / entry.file, folder / (PART + entry.file)
    failures = []
    for base in [*mirrors, *os.environ.get("DSBA_MIRROR", "").split(), LIBSVM]:
        address = base.rstrip("/") + "/" + entry.path
        for attempt in range(ATTEMPTS):
            time.sleep(pause * (2**attempt - 1))
            try:
                _download(address, part, progress)
                _require_whole(part, entry)
                os.replace(part, target)
                return target
            except (OSError, http.client.HTTPException, InputError) as error:
                reason = error.reason if isinstance(error, urllib.error.URLError) else error
                failure = f"{address}: {shortened(reason, 100)}"
                if isinstance(error, urllib.error.HTTPError) and error.code in (403, 404, 410):
                    break  # it will not be there in a second, either
        failures.append(failure)
    raise InputError(f"cannot fetch {name}: {'; '.join(failures)}.")


def _download(address: str, part: Path, progress: Progress | None) -> None:
    """Add to ``part`` what is missing of the file at ``address``."""
    here = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(address, headers={"Range": f"bytes={here}-"} if here else {})
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing is missing, or the part is of another file: the check will tell
            return
        raise
    with answer:
        if here and answer.status != 206:  # the server sends all of it again
            here = 0
        length = answer.headers.get("Content-Length")
        total = here + int(length) if length else None
        with part.open("ab" if here else "wb") as stream:
            while chunk := answer.read(CHUNK):
                stream.write(chunk)
                here += len(chunk)
                if progress:
                    progress(here, total)
    if total is not None and here < total:
        raise InputError(f"the connection ended after {here} of {total} bytes")


def _require_whole(part: Path, entry: Entry) -> None:
    """A part that is not the registered file is removed, and an error."""
    try:
        if entry.checksum is not None and (got := checksum(part, like=entry.checksum)) != entry.checksum:
            raise InputError(f"its checksum begins {got[:20]}, wanted {entry.checksum[:20]}")
        rows, columns = load_libsvm(part, cache=False).X.shape
        if (rows, columns) != (entry.rows, entry.columns):
            raise InputError(f"the file has {rows} x {columns} entries, wanted {entry.rows} x {entry.columns}")
    except InputError:
        part.unlink(missing_ok=True)
        raise


def checksum(path: Path, like: str = "sha256:") -> str:
    """Of a file, by the algorithm of another checksum: ``"sha256:9f86d0..."``."""
    algorithm = like.partition(":")[0]
    with path.open("rb") as stream:
        # against accidents, so that MD5 will do, also where it is barred from anything to do with security
        digest = hashlib.file_digest(stream, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return f"{algorithm}:{digest.hexdigest()}"
