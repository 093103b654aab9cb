"""What results depend on besides their content: versions, the machine, the commit of the experiment's folder."""

from __future__ import annotations

import os
import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

from dsba._version import __version__
from dsba.lab.index import Environment

GIT_SECONDS = 10.0


@cache
def versions() -> dict[str, str]:
    libraries = {name: metadata.version(name) for name in ("numpy", "scipy", "numba")}
    return {"dsba": __version__, "python": platform.python_version(), **libraries}


def describe(command: str, folder: Path) -> Environment:
    """The environment of a command that works on an experiment in ``folder``."""
    machine = {"system": platform.system(), "machine": platform.machine(), "CPU": _processor()}
    here = machine | {"cores": os.cpu_count() or 1}
    return Environment(command=command, versions=versions(), machine=here, commit=_commit(folder))


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _commit(folder: Path) -> str | None:
    """The commit that is checked out where the experiment is, if git knows one."""
    command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_SECONDS, check=True)
        return done.stdout.strip() or None
    return None
