"""Jobs in processes of this machine: resumable, interruptible.

A worker has one thread. It ignores Ctrl-C, which is the parent's business: that sets an event, and each
running job writes its checkpoint and ends. A worker whose parent is gone ends itself.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from typing import Any

from dsba.errors import InputError, StorageError, as_integer
from dsba.lab import jobs
from dsba.lab.display import PlanDisplay
from dsba.lab.executors import ONE_THREAD, ready
from dsba.lab.folder import Folder
from dsba.lab.jobs import Interrupted, Job
from dsba.storage import plugins

POLL_SECONDS = 0.2
GRACE_SECONDS = 20.0  # for jobs under way when all shall stop; then their processes are ended


def perform(waiting: list[Job], done: set[str], folder: Folder, workers: int, display: PlanDisplay) -> None:
    """All jobs, in this process or in several."""
    if as_integer("workers", workers, at_least=1) == 1 or len(waiting) <= 1:
        for job in waiting:
            display.started(job)
            _alone(job, folder, display)
            display.finished(job)
        return
    jobs.forget()  # workers build their own
    with _Pool(min(workers, len(waiting)), folder) as pool:
        pool.perform(waiting, done, display)


def _alone(job: Job, folder: Folder, display: PlanDisplay) -> None:
    """One job in this process; Ctrl-C ends it with its checkpoint written.

    Every worker has one BLAS thread, and so has this process: several threads would round sums differently.
    """
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(1):
            job.perform(folder, lambda record: display.record(job.id, record))
    except Interrupted:
        raise KeyboardInterrupt from None


class _Pool:
    """Worker processes, and the loop that feeds them."""

    def __init__(self, workers: int, folder: Folder) -> None:
        context = multiprocessing.get_context("spawn")
        self.workers, self.folder = workers, folder
        self.others = set(multiprocessing.active_children())
        self.stop, self.records = context.Event(), context.Queue()
        initial = (self.stop, self.records, plugins.loaded_sources())
        self.executor = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=initial)

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *problem: object) -> None:
        """Running jobs are asked to stop, waited for, and ended if they do not listen."""
        self.stop.set()
        self.executor.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - self.others:
            process.join(GRACE_SECONDS)
            if process.is_alive():
                process.terminate()
        self.records.close()

    def perform(self, waiting: list[Job], done: set[str], display: PlanDisplay) -> None:
        running: dict[Future[None], Job] = {}
        while waiting or running:
            for job in ready(waiting, done)[: self.workers - len(running)]:
                waiting.remove(job)
                running[self._submit(job)] = job
                display.started(job)
            finished, _ = wait(running, POLL_SECONDS, FIRST_COMPLETED)
            with suppress(queue.Empty):
                while True:
                    display.record(*self.records.get_nowait())
            for future in finished:
                job = running.pop(future)
                self._check(future, job)
                done.add(job.id)
                display.finished(job)

    def _submit(self, job: Job) -> Future[None]:
        """A worker starts on a submit, and inherits the environment."""
        before = {name: os.environ[name] for name in ONE_THREAD if name in os.environ}
        os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
        try:
            return self.executor.submit(_work, job, self.folder.root)
        finally:
            for name in ONE_THREAD:
                del os.environ[name]
            os.environ.update(before)

    def _check(self, future: Future[None], job: Job) -> None:
        try:
            future.result()
        except BrokenProcessPool:
            raise InputError(
                f"a worker process died during {job.title} (out of memory?); what is finished is kept, "
                "and the same command goes on from there."
            ) from None
        except (InputError, StorageError) as error:
            kind = StorageError if isinstance(error, StorageError) else InputError
            raise kind(f"{job.title}: {error}") from error


# A worker ----------------------------------------------------------------------------------------

_stop: Any = None
_records: Any = None


def _begin(stop: Any, records: Any, loaded: dict[Path, dict[Path, bytes]]) -> None:
    global _stop, _records
    _stop, _records = stop, records
    plugins.expect(loaded)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def _work(job: Job, root: Path) -> None:
    def watch(record: dict[str, float]) -> bool:
        _records.put((job.id, record))
        return bool(_stop.is_set())

    if not _stop.is_set():
        job.perform(Folder(root), watch)
