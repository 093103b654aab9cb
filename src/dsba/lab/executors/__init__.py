"""Where the jobs of a plan are done: in processes of this machine, or in job arrays of Slurm."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsba.lab.jobs import Job

EXECUTORS = ("processes", "slurm")
ONE_THREAD = ("DSBA_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def ready(waiting: Iterable[Job], done: set[str]) -> list[Job]:
    """The jobs whose needs are done."""
    return [job for job in waiting if done.issuperset(need.id for need in job.needs)]
