"""Starting mpiexec in tests: always with a deadline, and nothing is left running."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

MPIEXEC = Path(sys.executable).parent / "mpiexec"
SCRIPT = Path(__file__).parent / "mpi_script.py"
TRAIN = (sys.executable, "-m", "dsba", "train")
DEADLINE = 600.0

needs_mpi = pytest.mark.skipif(not MPIEXEC.exists(), reason=f"there is no {MPIEXEC}: install dsba[mpich]")


@contextmanager
def started(*command, **options):
    """A process that is ended whatever happens, with all below it (mpiexec gives each rank a session of its own)."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL, "text": True}
    process = subprocess.Popen(
        list(map(str, command)), start_new_session=True, preexec_fn=_hear_ctrl_c, **pipes, **options
    )
    try:
        yield process
    finally:
        with suppress(psutil.NoSuchProcess):
            for one in (*psutil.Process(process.pid).children(recursive=True), process):
                with suppress(psutil.NoSuchProcess):
                    one.kill()
        process.communicate()


def _hear_ctrl_c():
    """A shell starts background jobs (`make test &`) with SIGINT ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(*command, **options):
    """The exit code and what was printed."""
    with started(*command, **options) as process:
        text, _ = process.communicate(timeout=DEADLINE)
        return process.returncode, text


def mpiexec(ranks, *command, **options):
    return run(MPIEXEC, "-n", ranks, *command, **options)
