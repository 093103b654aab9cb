"""Folders that belong to a command: marked when they are made, and locked while it works in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from dsba.errors import InputError, cannot
from dsba.storage.atomic import PRIVATE

MARK_TEXT = "This folder belongs to dsba, which writes its results here.\n"


@contextmanager
def owned(folder: Path, marker: str, *, lock: bool = True) -> Iterator[None]:
    """Mark the folder as one of this command's and lock it, before anything in it is touched.

    A folder with files of somebody else is refused. The lock ends with the process that holds it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / marker).is_file() and any(folder.iterdir()):
            raise InputError(f"{folder} has files that are not this command's: give another folder.")
        file = _opened(folder / marker, 0o666)
    except OSError as error:
        raise cannot(f"write into {folder}", error) from error
    with file:
        if lock:
            _lock(file, f"another dsba is at work in {folder}: wait for it, or give another folder.")
        if os.fstat(file.fileno()).st_size == 0:
            file.write(MARK_TEXT.encode())
        yield


@contextmanager
def locked(path: Path, busy: str | None = None) -> Iterator[None]:
    """Hold a file that is there for this alone.

    ``busy`` is the error where another process holds it; None waits for that process. The lock ends with its process.
    """
    try:
        file = _opened(path, PRIVATE)
    except OSError as error:
        raise cannot(f"write {path}", error) from error
    with file:
        _lock(file, busy)
        yield


def _opened(path: Path, mode: int) -> FileIO:
    """A file that is there or is made with this mode; a symbolic link is not followed."""
    return FileIO(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), mode), "r+")


def _lock(file: FileIO, busy: str | None) -> None:
    try:
        import fcntl
    except ImportError:  # this system has no such locks
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
    except OSError:
        raise InputError(busy or "the file cannot be locked.") from None
