"""All jobs of a plan, several processes at a time: resumable, interruptible, with progress.

A worker has one thread. It ignores Ctrl-C, which is the parent's business: that sets an event, and each
running job writes its checkpoint and ends. A worker whose parent is gone ends itself.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from dsba._system.threads import own_cores
from dsba.errors import InputError, StorageError, unknown_name
from dsba.lab import cases, environment, plan, sources
from dsba.lab.display import PlanDisplay
from dsba.lab.folder import Folder
from dsba.lab.index import Environment
from dsba.lab.jobs import RunJob
from dsba.lab.plan import Plan
from dsba.lab.planned import Interrupted, Job
from dsba.lab.reading import read
from dsba.lab.results import ExperimentResults
from dsba.lab.spec import Experiment
from dsba.storage import plugins

Report = Callable[[str, dict[str, float]], None]  # (job id, record), for every record of every job

POLL_SECONDS = 0.2
GRACE_SECONDS = 20.0  # for jobs under way when all shall stop; then their processes are ended
ONE_THREAD = ("DSBA_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def run(
    experiment: str | Path | Mapping[str, Any] | Experiment | Plan,
    out: str | PathLike[str] = "results",
    *,
    workers: int | None = None,
    force: bool | Sequence[str] = False,
    progress: bool = False,
    report: bool = True,
    tune_only: bool | Sequence[str] = False,
    command: str = "",
    on_record: Report | None = None,
) -> ExperimentResults:
    """Do what is not yet done of an experiment, in ``out``, and give its results.

    Parameters
    ----------
    experiment
        The path of a TOML file, a dictionary of the same form, or an ``Experiment``. Code that it
        names ("mine.py:Class") is run. A dictionary may hold objects instead of names: arrays, topologies, networkx
        graphs, mixing matrices, operators, algorithms, functions as metrics, and the node of every row as a split.
    out
        The results folder; finished runs found there are not repeated, unfinished ones go on. It must be
        new, empty, or a results folder.
    workers
        Processes, as many as there are cores by default; 1 stays in this process. With more, a
        script needs the usual ``if __name__ == "__main__":`` around its call. Operators, algorithms and metrics that
        are objects are known in this process only, so everything then stays here.
    force
        Start anew; a list of methods' labels starts these anew.
    report
        Write figures, summary and page at the end.
    tune_only
        Search step sizes and stop there; a list of methods' labels searches for these alone.
    """
    if isinstance(experiment, Plan):
        todo = experiment
        sources.require_unchanged(todo.experiment, todo.sources)
    else:
        todo = check(experiment, () if isinstance(tune_only, bool) else tune_only)
    forced, folder = _forced(todo, force), Folder(out)
    wanted = _searches(todo, tune_only) if tune_only else todo.jobs
    with folder.owned():
        _prepare(folder, todo, forced)
        index = todo.index(_environment_of(folder, todo, bool(tune_only), command))
        folder.write_sealed(folder.index, index)
        with PlanDisplay(progress, todo.experiment, len(wanted)) as display:
            processes = 1 if todo.experiment.has_code else workers or len(own_cores())
            _perform_all(wanted, folder, processes, display, on_record)
        folder.drop_checkpoints()
        results = ExperimentResults(folder, index)
        if tune_only:
            results.write_tuning()
        elif report:
            results.report()
    return results


def check(experiment: str | Path | Mapping[str, Any] | Experiment, methods: Sequence[str] = ()) -> Plan:
    """The plan of an experiment whose data is there and whose methods are known, or an error.

    Methods that do not apply to the data are left out, with the reason. ``methods`` are labels that it must have.
    """
    spec = read(experiment)
    _titles(spec, methods)  # a typing error is told before data is looked for
    for data in spec.data:
        sources.locate(data)
    todo = plan.make(spec).applicable()
    if not todo.runs:
        raise InputError(f"nothing to run: {' '.join(todo.left_out)}")
    return replace(todo, place=Path(experiment).parent) if isinstance(experiment, str | Path) else todo


def _prepare(folder: Folder, todo: Plan, forced: Sequence[Job]) -> None:
    """Make the folder ready and describe the plan in it."""
    folder.prepare(path for job in todo.jobs for path in job.files(folder))
    for job in forced:
        folder.remove(job.files(folder))
    _keep_plugins(folder, todo)
    folder.write(folder.config, todo.experiment.to_toml(todo.kept_plugins).encode())


def _forced(todo: Plan, force: bool | Sequence[str]) -> list[Job]:
    """The jobs to repeat: all, or the runs and searches of some methods."""
    if isinstance(force, bool):
        return todo.jobs if force else []
    runs = _runs_of(todo, force)
    return [*runs, *{run.search.id: run.search for run in runs if run.search}.values()]


def _runs_of(todo: Plan, names: Sequence[str]) -> list[RunJob]:
    """The runs of some methods, by their labels."""
    chosen = _titles(todo.experiment, names)
    return [run for run in todo.runs if run.method.title in chosen]


def _titles(experiment: Experiment, names: Sequence[str]) -> set[str]:
    """The titles of methods whose labels were typed in any case; an unknown one is an error."""
    labels = {method.title.lower(): method.title for method in experiment.method}
    for name in names:
        if name.lower() not in labels:
            raise unknown_name("method", name, labels.values())
    return {labels[name.lower()] for name in names}


def _searches(todo: Plan, only: bool | Sequence[str]) -> list[Job]:
    """The searches of all methods or of some, and the references that they need."""
    runs = todo.runs if isinstance(only, bool) else _runs_of(todo, only)
    return list({job.id: job for run in runs for job in run.needs}.values())


def _environment_of(folder: Folder, todo: Plan, tune_only: bool, command: str) -> Environment:
    """Of this command; of the one that made the results, where there are some and step sizes are searched."""
    if tune_only and folder.index.exists() and any(run.is_done(folder) for run in todo.runs):
        return folder.read_index().environment
    return environment.describe(command, todo.place)


def _keep_plugins(folder: Folder, todo: Plan) -> None:
    """The sources of one's own code, as they are run."""
    for name, kept in todo.kept_plugins.items():
        if not plugins.code_of(kept).endswith(".py"):
            continue
        place = (folder.root / plugins.code_of(kept)).parent
        for path, text in plugins.sources(name).items():
            folder.inside(place / path).parent.mkdir(parents=True, exist_ok=True)
            folder.write(place / path, text)


# The parent --------------------------------------------------------------------------------------


def _perform_all(todo: list[Job], folder: Folder, workers: int, display: PlanDisplay, on_record: Report | None) -> None:
    done = {job.id for job in todo if job.is_done(folder)}
    display.begin(len(done))
    left = [job for job in todo if job.id not in done]
    if not left:
        return
    if workers == 1 or len(left) == 1:
        for job in left:
            display.started(job)
            _alone(job, folder, display, on_record)
            display.finished(job)
        return
    cases.forget()  # workers build their own
    with _Pool(min(workers, len(left)), folder) as pool:
        pool.perform(left, done, display, on_record)


def _alone(job: Job, folder: Folder, display: PlanDisplay, on_record: Report | None) -> None:
    """One job in this process; Ctrl-C ends it with its checkpoint written.

    Every worker has one BLAS thread, so this process uses one, too: several threads would round sums differently.
    """
    from threadpoolctl import threadpool_limits

    def watch(record: dict[str, float]) -> None:
        display.record(job.id, record)
        if on_record:
            on_record(job.id, record)

    try:
        with threadpool_limits(1):
            job.perform(folder, watch)
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

    def perform(self, left: list[Job], done: set[str], display: PlanDisplay, on_record: Report | None) -> None:
        waiting, running = list(left), dict[Future[None], Job]()
        while waiting or running:
            for job in _ready(waiting, done)[: self.workers - len(running)]:
                waiting.remove(job)
                running[self._submit(job)] = job
                display.started(job)
            finished, _ = wait(running, POLL_SECONDS, FIRST_COMPLETED)
            for id, record in self._arrived():
                display.record(id, record)
                if on_record:
                    on_record(id, record)
            for future in finished:
                job = running.pop(future)
                self._check(future, job)
                done.add(job.id)
                display.finished(job)

    def _submit(self, job: Job) -> Future[None]:
        with _environment(ONE_THREAD, "1"):  # a worker starts on a submit, and inherits
            return self.executor.submit(_work, job, self.folder.root)

    def _check(self, future: Future[None], job: Job) -> None:
        try:
            future.result()
        except BrokenProcessPool:
            raise InputError(
                f"a worker process died during {job.title} (out of memory?); what is finished is kept, "
                "and the same command goes on from there."
            ) from None
        except InputError as error:
            raise InputError(f"{job.title}: {error}") from error
        except StorageError as error:
            raise StorageError(f"{job.title}: {error}") from error

    def _arrived(self) -> Iterator[tuple[str, dict[str, float]]]:
        with suppress(queue.Empty):
            while True:
                yield self.records.get_nowait()


def _ready(waiting: Iterable[Job], done: set[str]) -> list[Job]:
    return [job for job in waiting if done.issuperset(need.id for need in job.needs)]


@contextmanager
def _environment(names: Iterable[str], value: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(before, value))
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = old


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
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(job: Job, root: Path) -> None:
    def watch(record: dict[str, float]) -> bool:
        _records.put((job.id, record))
        return bool(_stop.is_set())

    if not _stop.is_set():
        job.perform(Folder(root), watch)
