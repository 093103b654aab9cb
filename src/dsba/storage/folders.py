"""Folders that belong to a command: marked when they are made, and locked while it works in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
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
        handle = os.open(folder / marker, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        raise cannot(f"write into {folder}", error) from error
    try:
        if lock:
            _lock(handle, f"another dsba is at work in {folder}: wait for it, or give another folder.")
        if os.fstat(handle).st_size == 0:
            os.write(handle, MARK_TEXT.encode())
        yield
    finally:
        os.close(handle)


@contextmanager
def locked(path: Path, busy: str | None = None) -> Iterator[None]:
    """Hold a file that is there for this alone.

    ``busy`` is the error where another process holds it; None waits for that process. The lock ends with its process.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), PRIVATE)
    except OSError as error:
        raise cannot(f"write {path}", error) from error
    try:
        _lock(handle, busy)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, busy: str | None) -> None:
    try:
        import fcntl
    except ImportError:  # this system has no such locks
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
    except OSError:
        raise InputError(busy or "the file cannot be locked.") from None
