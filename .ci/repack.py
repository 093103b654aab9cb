"""Write a source archive anew, so that the same commit gives the same bytes: sorted names, one time, no owner."""

from __future__ import annotations

import gzip
import io
import os
import sys
import tarfile
from pathlib import Path


def repacked(content: bytes, time: int) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(content)) as old, tarfile.open(fileobj=plain, mode="w") as new:
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname, member.pax_headers = (
                time,
                0,
                0,
                "",
                "",
                {},
            )
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    return gzip.compress(plain.getvalue(), mtime=time)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        Path(name).write_bytes(repacked(Path(name).read_bytes(), int(os.environ["SOURCE_DATE_EPOCH"])))
