"""Downloads: resumed when interrupted, fetched again when corrupted, tried elsewhere when refused.

A file appears under its name only after all of it was read and found whole.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from dsba.data import cache, registry
from dsba.data.libsvm import find_file, load_libsvm
from dsba.data.registry import LIBSVM, PublicSet
from dsba.errors import InputError, cannot, shortened
from dsba.storage.atomic import PART, USUAL, private_folder

FETCH_TIMEOUT = 30.0  # seconds without a byte
ATTEMPTS = 3  # at each address
PAUSE = 1.0  # seconds before another attempt, doubled each time
CHUNK = 1 << 16
LARGEST_DOWNLOAD = 1 << 30  # bytes of a download; the largest registered file has a quarter of that
LONGEST_ATTEMPT = 3600.0  # seconds for one attempt, however steadily the bytes drip

DownloadProgress = Callable[[int, int | None], object]  # (bytes here, bytes in all)


def fetch(
    name: str, mirrors: Sequence[str] = (), *, pause: float = PAUSE, progress: DownloadProgress | None = None
) -> Path:
    """The file of a registered data set: the one that is there, or a new download.

    Addresses are tried in order: ``mirrors``, those in ``$DSBA_MIRROR`` (separated by spaces), LIBSVM's.
    """
    entry = registry.get(name)
    with suppress(InputError):
        return find_file(name)
    target = cache.folder() / "data" / entry.file
    part = target.with_name(PART + entry.file)
    try:
        private_folder(target.parent)
    except OSError as error:
        raise cannot(f"write into {target.parent}", error) from error
    failures = []
    for base in [*mirrors, *os.environ.get("DSBA_MIRROR", "").split(), LIBSVM]:
        address = base.rstrip("/") + "/" + entry.path
        failure = _tried(address, part, entry, pause, progress)
        if failure is None:
            os.replace(part, target)
            return target
        failures.append(f"{shortened(address)}: {failure}")
    raise InputError(f"cannot fetch {name}: {'; '.join(failures)}.")


def _tried(address: str, part: Path, entry: PublicSet, pause: float, progress: DownloadProgress | None) -> str | None:
    """Why a few attempts did not get the file from ``address``; None if ``part`` is the whole file."""
    failure = None
    for attempt in range(ATTEMPTS):
        time.sleep(pause * (2**attempt - 1))
        try:
            _require_safe(address, entry)
            _download(address, part, entry, progress)
            _require_whole(part, entry)
            return None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            failure = shortened(reason, 100) or type(reason).__name__
            if isinstance(error, _UselessError) or getattr(error, "code", None) in (403, 404, 410):
                break  # another attempt would end the same
    return failure


class _UselessError(InputError):
    """An address that will not do, however often it is tried."""


def _require_safe(address: str, entry: PublicSet) -> None:
    """An error unless it is a web address; without a known checksum it must be https, which nobody can tamper with."""
    try:
        parts = urllib.parse.urlsplit(address)
    except ValueError:
        parts = urllib.parse.urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _UselessError("a mirror must be an http or https address")
    if parts.scheme == "http" and entry.checksum is None:
        raise _UselessError("no checksum of this file is known, so it is fetched over https only")


def _download(address: str, part: Path, entry: PublicSet, progress: DownloadProgress | None) -> None:
    """Add to ``part`` what is missing of the file at ``address``."""
    if part.is_symlink() or not part.is_file():
        part.unlink(missing_ok=True)  # a link that somebody laid here must not lead the bytes elsewhere
    here = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(address, headers={"Range": f"bytes={here}-"} if here else {})
    try:
        answer = urllib.request.urlopen(request, timeout=FETCH_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing is missing, or the part is of another file: the check will tell
            return
        raise
    with answer:
        _require_safe(answer.url, entry)  # where redirections led
        if here and not (answer.headers.get("Content-Range") or "").startswith(f"bytes {here}-"):
            here = 0  # the server sends all of it again
        _receive(answer, part, here, _total(answer, here), progress)


def _total(answer: Any, here: int) -> int | None:
    """How long the file will be, if the server says so; too long a one is refused before a byte is kept."""
    length = answer.headers.get("Content-Length")
    if length is None:
        return None
    if not re.fullmatch("[0-9]{1,18}", length.strip()):
        raise InputError("the server's Content-Length is no number")
    _require_bearable(total := here + int(length))
    return total


def _require_bearable(size: int) -> None:
    if size > LARGEST_DOWNLOAD:
        raise _UselessError(f"the file is larger than {LARGEST_DOWNLOAD} bytes, and every registered file is smaller")


def _receive(answer: Any, part: Path, here: int, total: int | None, progress: DownloadProgress | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | (os.O_APPEND if here else os.O_TRUNC)
    deadline = time.monotonic() + LONGEST_ATTEMPT
    try:
        with os.fdopen(os.open(part, flags, USUAL), "ab" if here else "wb") as stream:
            while chunk := answer.read(CHUNK):
                here += len(chunk)
                _require_bearable(here)
                stream.write(chunk)
                if progress:
                    progress(here, total)
                if time.monotonic() > deadline:
                    raise InputError(f"the file was not here after {LONGEST_ATTEMPT:g} seconds")
    except _UselessError:
        part.unlink(missing_ok=True)
        raise
    if total is not None and here < total:
        raise InputError(f"the connection ended after {here} of {total} bytes")


def _require_whole(part: Path, entry: PublicSet) -> None:
    """An error if the part is not the registered file; it is removed then."""
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
    """The checksum of a file, by the algorithm of another checksum: ``"sha256:9f86d0..."``."""
    algorithm = like.partition(":")[0]
    with path.open("rb") as stream:
        # against accidents, so that MD5 will do, also where it is barred from anything to do with security
        digest = hashlib.file_digest(stream, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return f"{algorithm}:{digest.hexdigest()}"
