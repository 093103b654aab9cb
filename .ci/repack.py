"""Write archives anew, so that the same commit gives the same bytes: one time, no owner, and one of two modes.

A source archive also has its names sorted. The modes of a checkout depend on the umask of the person who made it.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import tarfile
import zipfile
from pathlib import Path


def plain_mode(mode: int) -> int:
    """What a file has whose owner alone decided: whether it is run."""
    return 0o755 if mode & 0o100 else 0o644


def repacked(content: bytes, time: int) -> bytes:
    """A source archive."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(content)) as old, tarfile.open(fileobj=plain, mode="w") as new:
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mode, member.mtime, member.pax_headers = plain_mode(member.mode), time, {}
            member.uid, member.gid, member.uname, member.gname = 0, 0, "", ""
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return gzip.compress(plain.getvalue(), mtime=time)


def rezipped(content: bytes) -> bytes:
    """A wheel, whose times the build has set already."""
    plain = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(plain, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            kind, mode = divmod(member.external_attr >> 16, 0o1000)
            member.external_attr = (kind * 0o1000 + plain_mode(mode)) << 16
            new.writestr(member, old.read(member))
    return plain.getvalue()


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        content = path.read_bytes()
        wheel = path.suffix == ".whl"
        path.write_bytes(rezipped(content) if wheel else repacked(content, int(os.environ["SOURCE_DATE_EPOCH"])))
