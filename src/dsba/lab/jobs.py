"""What one job does, in whatever process: find a reference, search a step size, make a run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dsba import data as datasets
from dsba.algorithms import Algorithm
from dsba.data import Dataset
from dsba.data.dataset import csr
from dsba.engine.recorder import Metric, area_under_curve
from dsba.engine.run import Result, Status
from dsba.engine.solve import solve
from dsba.errors import CheckpointError, InputError, unknown_name
from dsba.graph.topology import Topology
from dsba.kernels.samples import normalize_rows
from dsba.lab import environment, measures
from dsba.lab.folder import Folder
from dsba.lab.index import Outcome, ShownReference
from dsba.lab.objects import Assigned, GivenArrays
from dsba.lab.plan import Case, Job, Plan, PooledProblem, RunJob, Tuning
from dsba.lab.results import require_sound
from dsba.lab.sections import Data, Method, Stop
from dsba.lab.sources import data_digest
from dsba.lab.spec import metric_name
from dsba.network import Simulator
from dsba.problem.problem import Problem
from dsba.solvers.reference import CERTIFIED, optimum
from dsba.storage import plugins
from dsba.types import Array

Watch = Callable[[dict[str, float]], object]  # sees every record; a true answer stops the run


class Interrupted(Exception):
    """A job was stopped on request; its checkpoint is on disk."""


def perform(job: Job, folder: Folder, watch: Watch) -> None:
    """Do the job and write its files. The file that ``is_done`` looks for is written last."""
    if isinstance(job, PooledProblem):
        _find_reference(job, folder)
    elif isinstance(job, Tuning):
        from dsba.lab.tuning import search

        search(job, folder, watch)
    else:
        _run(job, folder, watch)


def is_done(job: Job, folder: Folder) -> bool:
    return files(job, folder)[-1].exists()


def files(job: Job, folder: Folder) -> list[Path]:
    """What the job writes, in this order."""
    if isinstance(job, PooledProblem):
        return [folder.optimum(job.id), folder.facts(job.id)]
    return [folder.tuning(job.id)] if isinstance(job, Tuning) else [folder.history(job.id), folder.outcome(job.id)]


# Data --------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def _load(name: str, digest: str, rows: GivenArrays | None = None) -> Dataset:
    """A data set, if it is still the one that the plan was made for."""
    if rows is not None:
        return rows.data
    loaded = datasets.load(name)
    if digest and data_digest(name) != digest:
        raise InputError(f"{name} has changed since the comparison began: start it again.")
    return loaded


def _training(pooled: PooledProblem) -> Dataset:
    return _load(pooled.data.name, pooled.digest, pooled.data.rows)


@lru_cache(maxsize=2)
def _measured_rows(pooled: PooledProblem, test: bool) -> Dataset:
    """The training rows or the test rows as the problem has them: its columns, its scale, its labels."""
    X, y = _training(pooled)
    n_features, classes = X.shape[1], np.unique(y)
    if test:
        assert pooled.test is not None
        X, y = _load(pooled.test, pooled.test_digest, pooled.data.test_rows)
    X = X[:, :n_features]  # a column never trained on has no weight
    X = csr(X.data.copy(), X.indices, X.indptr, n_features)
    if pooled.data.normalize is not False:
        normalize_rows(X.indptr, X.data)
    return Dataset(X, _labels(y, pooled, classes))


def _labels(y: Array, pooled: PooledProblem, classes: npt.NDArray[Any] | None = None) -> Array:
    """-1, +1 where there are two classes or a binarisation; the labels themselves elsewhere.

    ``classes`` are those of the training data: the labels of a test set must be among them.
    """
    data, operator = pooled.data, pooled.problem.build()
    classes = np.unique(y) if classes is None else classes
    if operator.labels == "multiclass":
        return _known(y, classes, data)
    if operator.labels == "count":
        return y
    if data.binarisation is not None:
        chosen = classes[datasets.binarise(classes, data.binarisation) > 0]
        return np.where(np.isin(_known(y, classes, data), chosen), 1.0, -1.0)
    if classes.size == 2:
        return np.where(_known(y, classes, data) == classes[1], 1.0, -1.0)
    if operator.labels == "binary":
        raise InputError(
            f"{data.name} has {classes.size} classes and {pooled.problem.name} needs two: "
            'give positive = [the classes of +1], or positive = "half".'
        )
    return y


def _known(y: Array, classes: npt.NDArray[Any], data: Data) -> Array:
    """The labels, if they are among the classes; a text is never a number."""
    alike = (y.dtype.kind == "U") == (classes.dtype.kind == "U")
    if not alike or not np.isin(y, classes).all():
        known = f"the {classes.size} classes of the training data"
        raise InputError(f"the test set of {data.name!r} has labels that are not among {known}.")
    return y


@lru_cache(maxsize=2)
def _problem(pooled: PooledProblem, n_nodes: int, split: str | Assigned, seed: int) -> Problem:
    X, y = _training(pooled)
    problem = pooled.problem
    return Problem.from_arrays(
        X, _labels(y, pooled), problem.build(), n_nodes, problem.lam, split if isinstance(split, str) else split.nodes,
        pooled.data.normalize is not False, seed, regularize=problem.regularize, intercept=problem.intercept or False,
        penalty=problem.penalty,
    )  # fmt: skip


def build(case: Case, seed: int) -> Problem:
    """The problem of a case, its data split with this seed."""
    return _problem(case.pooled, case.network.topology.n_nodes, case.split, seed)


def refused(planned: Plan) -> dict[tuple[str, str], str]:
    """Why methods do not apply to the problem of a case on its network, by the case's id and the method's title.

    A split or a metric that does not fit the data is an error. The first seed's split stands for all of them.
    """
    found, first = {}, planned.experiment.seeds[0]
    for run in planned.runs:
        if run.seed != first:
            continue
        problem = build(run.case, first)
        _metrics(run.case.pooled, problem)
        topology = run.case.network.topology
        net = run.case.network.links(topology) or Simulator(topology)
        if reason := run.method.why_not(problem, net):
            found[run.case.id, run.method.title] = reason
        else:
            _require_step_rule(run.method, problem, topology)
    for kept in (_load, _measured_rows, _problem):  # jobs look for themselves whether the data is still the same
        kept.cache_clear()
    return found


def _require_step_rule(method: Method, problem: Problem, topology: Topology) -> None:
    """An error for a step size that is the name of no rule."""
    algorithm = method.variants()[0]
    if isinstance(algorithm.step_size, str):
        rules = algorithm.step_sizes(problem, topology)
        if algorithm.step_size not in rules:
            raise unknown_name(f"step size of {method.title}", algorithm.step_size, [*rules, "tune"])


def _metrics(pooled: PooledProblem, problem: Problem) -> dict[str, Metric]:
    """The metrics beyond those of every run; for operators that rank, AUC on the test set is among them."""
    found = {metric_name(wanted): _metric(wanted, pooled, problem) for wanted in pooled.metrics}
    if pooled.test is not None and problem.component.ranks:
        found["test_auc"] = measures.auc(problem, _measured_rows(pooled, True))
    return found


def _metric(wanted: Any, pooled: PooledProblem, problem: Problem) -> Metric:
    """A metric by name, or a function of z and the rows of the test set (of all data where there is none)."""
    if isinstance(wanted, str) and not plugins.is_plugin(wanted):
        rows = _measured_rows(pooled, wanted.startswith("test_"))
        return measures.NAMED[wanted.removeprefix("test_")](problem, rows)
    function = plugins.load_function(wanted, "metric") if isinstance(wanted, str) else wanted
    X, y = _measured_rows(pooled, pooled.test is not None)
    return lambda z: float(function(z, X, y))


# References --------------------------------------------------------------------------------------


def _find_reference(pooled: PooledProblem, folder: Folder) -> None:
    """z*, and the facts of the data that a report needs."""
    problem = _problem(pooled, 1, "random", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the residual is kept, and shown
        z, residual = optimum(problem)
    X, y = _training(pooled)
    ranks = problem.component.ranks
    reached = {name: metric(z) for name, metric in _metrics(pooled, problem).items()}
    facts = ShownReference(
        id=pooled.id,
        rows=problem.n_samples,
        columns=problem.n_features,
        nonzeros=int(X.nnz),
        lam=problem.lam,
        residual=residual,
        certified=residual <= CERTIFIED,
        metric="gap" if problem.has_objective else "distance",
        binarisation=_binarisation(y, pooled),
        test_set=pooled.test,
        auc=area_under_curve(problem.y, problem.pooled.scores(z)) if ranks else None,
        test_auc=reached.pop("test_auc", None),
        metrics=dict(reached),
        array=folder.write_optimum(pooled.id, z),
    )
    folder.write_sealed(folder.facts(pooled.id), facts)


def _binarisation(y: Array, pooled: PooledProblem) -> str | None:
    """Which classes were made +1, in words."""
    if pooled.data.binarisation is None or pooled.problem.build().labels == "multiclass":
        return None
    chosen = datasets.binarise(y, pooled.data.binarisation) > 0
    positive, negative = (", ".join(f"{c:g}" for c in np.unique(y[rows])) for rows in (chosen, ~chosen))
    return f"classes {positive} are +1, classes {negative} are -1"


# Runs --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunSetting:
    """What the runs of a method on a case share: the problem, the network, the reference, the budget."""

    case: Case
    stop: Stop
    seed: int
    folder: Folder
    watch: Watch

    def solve(self, algorithm: Algorithm, file: Path, metrics: Mapping[str, Metric] | None = None) -> Result:
        """``solve`` with a checkpoint; one that cannot be used is dropped, and the run starts anew."""
        problem = build(self.case, self.seed)
        limits = self.stop.content() | ({} if problem.has_objective else {"gap_tol": None})
        arguments: dict[str, Any] = limits | {
            "seed": self.seed, "reference": self.folder.read_optimum(self.case.pooled.id), "checkpoint": file,
            "callbacks": [self.watch], "metrics": metrics,
        }  # fmt: skip
        topology = self.case.network.drawn(self.seed)
        arguments["network"] = self.case.network.links(topology)
        try:
            result = solve(problem, topology, algorithm, **arguments)
        except CheckpointError:
            file.unlink()
            result = solve(problem, topology, algorithm, **arguments)
        if result.status == Status.INTERRUPTED:
            raise Interrupted
        return result


def _run(run: RunJob, folder: Folder, watch: Watch) -> None:
    problem = build(run.case, run.seed)
    if run.tuning is not None:
        algorithm = run.method.build(**folder.read_search(run.tuning.id).parameters)
    else:
        algorithm = run.method.build(run.method.step_size)
    setting, file = RunSetting(run.case, run.stop, run.seed, folder, watch), folder.checkpoint(run.id)
    result = setting.solve(algorithm, file, _metrics(run.case.pooled, problem))
    require_sound(result.history, run.title)
    outcome = Outcome(
        id=run.id,
        status=str(result.status),
        message=result.message,
        step_size=result.step_size,
        algorithm=repr(result.algorithm),
        problem=problem.digest(),
        node_rows=problem.sizes.tolist(),
        node_positives=[int((problem.y[a:b] > 0).sum()) for a, b in pairwise(problem.start)],
        history=folder.write_history(run.id, result.history),
        versions=environment.versions(),
    )
    folder.write_sealed(folder.outcome(run.id), outcome)
    file.unlink(missing_ok=True)
