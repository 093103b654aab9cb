"""Starting mpiexec in tests: always with a deadline, and nothing is left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

MPIEXEC = Path(sys.executable).parent / "mpiexec"
SCRIPT = Path(__file__).parent / "mpi_script.py"
TRAIN = (sys.executable, "-m", "dsba", "train")
DEADLINE = 240.0

needs_mpi = pytest.mark.skipif(not MPIEXEC.exists(), reason=f"there is no {MPIEXEC}: install dsba[mpich]")


@contextmanager
def started(*command, **options):
    """A process in a group of its own, which is ended whatever happens."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL, "text": True}
    process = subprocess.Popen(list(map(str, command)), start_new_session=True, **pipes, **options)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def run(*command, **options):
    """The exit code and what was printed."""
    with started(*command, **options) as process:
        text, _ = process.communicate(timeout=DEADLINE)
        return process.returncode, text


def mpiexec(ranks, *command, **options):
    return run(MPIEXEC, "-n", ranks, *command, **options)
