"""Jobs as array tasks of Slurm, in one results folder that all machines see.

Jobs that wait for no other are one array. The next array follows when all of its tasks have ended. Slurm signals a task
a minute before its time limit. The task then writes its checkpoint and has itself requeued. Options of sbatch are given
by its own environment variables, such as SBATCH_PARTITION and SBATCH_TIMELIMIT.

A command that was killed leaves its array behind. The next command on the same folder cancels it, and goes on with what
is not finished.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from dsba.errors import InputError
from dsba.lab.display import PlanDisplay
from dsba.lab.executors import ONE_THREAD, ready
from dsba.lab.folder import Folder
from dsba.lab.jobs import Interrupted, Job
from dsba.lab.plan import make
from dsba.lab.reading import read

SQUEUE_SECONDS = 1.0  # between two looks at the queue
NOTICE_SECONDS = 60  # before its time limit a task is signalled
LARGEST_ARRAY = 1000  # Slurm's own default for MaxArraySize


def perform(waiting: list[Job], done: set[str], folder: Folder, workers: int | None, display: PlanDisplay) -> None:
    """All jobs, array after array; ``workers`` is the largest number of tasks at a time."""
    if shutil.which("sbatch") is None:
        raise InputError("there is no Slurm here: the command sbatch was not found.")
    name = f"dsba-{hashlib.blake2b(str(folder.root.resolve()).encode(), digest_size=8).hexdigest()}"
    _cancel(name)  # what a killed command left
    try:
        while waiting:
            array = ready(waiting, done)[:LARGEST_ARRAY]
            _run_array(name, array, folder, workers, display)
            done |= {job.id for job in array}
            waiting = [job for job in waiting if job.id not in done]
    finally:
        _cancel(name)


def _run_array(name: str, array: list[Job], folder: Folder, workers: int | None, display: PlanDisplay) -> None:
    """Submit the jobs and wait for all of them. What Slurm wrote is kept only if a job failed."""
    listing, logs = folder.checkpoint("slurm").with_suffix(".txt"), folder.checkpoint("slurm").parent
    folder.write(listing, "\n".join(job.id for job in array).encode())
    command = [sys.executable, "-m", __name__, str(folder.root.resolve()), str(listing.resolve())]
    options = [
        "--parsable", f"--job-name={name}", f"--array=0-{len(array) - 1}" + (f"%{workers}" if workers else ""),
        "--ntasks=1", "--requeue", "--open-mode=append", f"--signal=B:USR1@{NOTICE_SECONDS}",
        f"--output={logs.resolve()}/slurm-%a.log",
    ]  # fmt: skip
    _slurm("sbatch", *options, script=f"#!/bin/sh\nexec {shlex.join(command)}\n")
    for job in array:
        display.started(job)
    unseen = list(array)
    while unseen:
        queued = _slurm("squeue", "--noheader", "--name", name)
        for job in [job for job in unseen if job.is_done(folder)]:
            unseen.remove(job)
            display.finished(job)
        if unseen and not queued:
            log = logs / f"slurm-{array.index(unseen[0])}.log"
            raise InputError(f"{unseen[0].title} did not finish on Slurm: its output is in {log}.")
        time.sleep(SQUEUE_SECONDS if unseen else 0)
    folder.remove([listing, *logs.glob("slurm-*.log")])  # also those of an array that was cancelled


def _cancel(name: str) -> None:
    """End the array, and wait until its tasks have ended: nothing else may write into the folder then."""
    if _slurm("squeue", "--noheader", "--name", name):
        _slurm("scancel", "--name", name)
    while _slurm("squeue", "--noheader", "--name", name):
        time.sleep(SQUEUE_SECONDS)


def _slurm(*command: str, script: str | None = None) -> str:
    """What a command of Slurm prints; a task has one thread, as workers have."""
    environment = os.environ | dict.fromkeys(ONE_THREAD, "1")
    done = subprocess.run(command, input=script, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InputError(f"{command[0]} ended with an error: {' '.join(done.stderr.split())}")
    return done.stdout.strip()


# A task --------------------------------------------------------------------------------------------


def task(root: str, listing: str) -> None:
    """The job of this array task. Signalled before its time limit, it stops at a checkpoint and is requeued."""
    from threadpoolctl import threadpool_limits

    received: list[int] = []
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda got, _: received.append(got))
    folder, place = Folder(root), os.environ["SLURM_ARRAY_TASK_ID"]
    id = Path(listing).read_text(encoding="utf-8").split()[int(place)]
    job = next((job for job in make(read(folder.config)).jobs if job.id == id), None)
    if job is None:
        raise InputError(f"{folder.config} does not plan the job {id}: its data or its code has changed.")
    try:
        with threadpool_limits(1):
            if not job.is_done(folder):
                job.perform(folder, lambda record: bool(received))
    except Interrupted:
        if signal.SIGUSR1 not in received:
            raise
        _slurm("scontrol", "requeue", f"{os.environ['SLURM_ARRAY_JOB_ID']}_{place}")


if __name__ == "__main__":
    task(*sys.argv[1:])
