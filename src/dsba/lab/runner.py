"""All jobs of a plan that are not done, and its results: resumable, interruptible, with progress."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from dsba._system.threads import own_cores
from dsba.errors import InputError, require_known, require_package, unknown_name
from dsba.lab import environment, plan, sources
from dsba.lab.display import PlanDisplay, Report
from dsba.lab.executors import EXECUTORS, processes, slurm
from dsba.lab.folder import Folder
from dsba.lab.index import Environment
from dsba.lab.jobs import Job, RunJob
from dsba.lab.plan import Plan
from dsba.lab.reading import read
from dsba.lab.results import ExperimentResults
from dsba.lab.spec import Experiment
from dsba.storage import plugins


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
    executor: str = "processes",
) -> ExperimentResults:
    """Run what is not yet done of an experiment, and return its results.

    Parameters
    ----------
    experiment : path-like or Mapping[str, object] or Experiment or Plan
        The path of a TOML file, a dictionary of the same form, or an ``Experiment``. Code that it
        names ("mine.py:Class") is run. A dictionary may hold objects instead of names: arrays, topologies, networkx
        graphs, mixing matrices, operators, algorithms, functions as metrics, and the node of every row as a split.
    out : path-like
        The results folder; finished runs found there are not repeated, unfinished ones go on. It must be
        new, empty, or a results folder.
    workers : int or None
        Processes, as many as there are cores by default; 1 stays in this process. With more, a
        script needs the usual ``if __name__ == "__main__":`` around its call. Operators, algorithms and metrics that
        are objects are known in this process only, so everything then stays here.
    force : bool or Sequence[str]
        Start anew; a list of methods' labels starts these anew.
    progress : bool
        Show progress.
    report : bool
        Write figures, summary and page at the end.
    tune_only : bool or Sequence[str]
        Search step sizes and stop there; a list of methods' labels searches for these alone.
    command : str
        The command line, for the page.
    on_record : Report or None
        Called with each record of a run.
    executor : str
        "processes" of this machine, or "slurm": job arrays, at most ``workers`` tasks at a time.

    Returns
    -------
    ExperimentResults
        The finished runs, with tables and figures.

    Raises
    ------
    InputError
        If the experiment is not valid, or ``out`` is not a results folder.

    Examples
    --------
    >>> import dsba
    >>> experiment = {
    ...     "stop": {"max_passes": 3},
    ...     "data": [{"name": "breast-cancer"}],
    ...     "problem": [{"operator": "ridge"}],
    ...     "method": [{"algorithm": "extra", "step_size": "auto"}],
    ... }
    >>> results = dsba.lab.run(experiment, "results", workers=1, report=False)
    >>> [row["method"] for row in results.summary()]
    ['EXTRA']
    """
    require_known("executor", executor, EXECUTORS)
    if isinstance(experiment, Plan):
        todo = experiment
        todo.sources.require_unchanged(todo.experiment)
    else:
        todo = check(experiment, () if isinstance(tune_only, bool) else tune_only)
    for package in ("matplotlib", "plotly", "networkx") if report and not tune_only else ():
        require_package("the report of a comparison", package, "lab")  # better now than after the runs
    folder = Folder(out)
    forced = todo.jobs if force is True else [job for run in _runs_of(todo, force) for job in (run, run.search) if job]
    needed = dict.fromkeys(job for run in _runs_of(todo, tune_only) for job in run.needs)
    wanted = list(needed) if tune_only else todo.jobs
    with folder.owned():
        _prepare(folder, todo, forced)
        index = todo.index(_environment_of(folder, todo, bool(tune_only), command))
        folder.write_sealed(folder.index, index)
        with PlanDisplay(progress, todo.experiment.title, len(wanted), on_record) as display:
            _perform_all(wanted, folder, todo, executor, workers, display)
        with suppress(OSError):  # there are checkpoints left
            (folder.root / "checkpoints").rmdir()
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
    _titles(spec, methods)  # a typing error is reported before data is looked for
    for data in spec.data:
        sources.locate(data)
    todo = plan.make(spec).applicable()
    if not todo.runs:
        raise InputError(f"nothing to run: {' '.join(todo.left_out)}")
    return replace(todo, place=Path(experiment).parent) if isinstance(experiment, str | Path) else todo


def _prepare(folder: Folder, todo: Plan, forced: Iterable[Job]) -> None:
    """Make the folder ready and describe the plan in it, with the sources of the user's code as they are run."""
    folder.prepare(path for job in todo.jobs for path in job.files(folder))
    for job in forced:
        folder.remove(job.files(folder))
    for name, kept in todo.kept_plugins.items():
        place = (folder.root / plugins.code_of(kept)).parent
        for path, text in plugins.sources(name).items() if plugins.code_of(kept).endswith(".py") else ():
            folder.inside(place / path).parent.mkdir(parents=True, exist_ok=True)
            folder.write(place / path, text)
    folder.write(folder.config, todo.experiment.to_toml(todo.kept_plugins).encode())


def _runs_of(todo: Plan, methods: bool | Sequence[str]) -> list[RunJob]:
    """The runs of all methods or of some, by their labels."""
    if isinstance(methods, bool):
        return todo.runs if methods else []
    chosen = _titles(todo.experiment, methods)
    return [run for run in todo.runs if run.method.title in chosen]


def _titles(experiment: Experiment, names: Sequence[str]) -> set[str]:
    """The titles of methods whose labels were typed in any case; an unknown one is an error."""
    labels = {method.title.lower(): method.title for method in experiment.method}
    for name in names:
        if name.lower() not in labels:
            raise unknown_name("method", name, labels.values())
    return {labels[name.lower()] for name in names}


def _environment_of(folder: Folder, todo: Plan, tune_only: bool, command: str) -> Environment:
    """Of this command; of the one that made the results, where there are some and step sizes are searched."""
    if tune_only and folder.index.exists() and any(run.is_done(folder) for run in todo.runs):
        return folder.read_index().environment
    return environment.describe(command, todo.place)


def _perform_all(
    wanted: list[Job], folder: Folder, todo: Plan, executor: str, workers: int | None, display: PlanDisplay
) -> None:
    """What is not yet done of the wanted jobs, wherever the executor does it."""
    done = {job.id for job in wanted if job.is_done(folder)}
    display.begin(len(done))
    left = [job for job in wanted if job.id not in done]
    if executor == "slurm":
        if todo.experiment.has_objects:
            raise InputError("Slurm runs jobs elsewhere, and this experiment has Python objects: give names of files.")
        slurm.perform(left, done, folder, workers, display)
    else:
        here = 1 if todo.experiment.has_code else workers or len(own_cores())
        processes.perform(left, done, folder, here, display)
