"""What one job does, in whatever process: find a reference, search a step size, make a run."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dsba import data as datasets
from dsba import operators
from dsba.algorithms import Algorithm
from dsba.data import Dataset, registry
from dsba.data.dataset import csr
from dsba.data.libsvm import find_file
from dsba.engine import Result, Status, solve
from dsba.errors import CheckpointError, InputError
from dsba.experiments.folder import Folder
from dsba.experiments.plan import Case, Job, Pooled, Run, Tuning
from dsba.experiments.spec import Data, Problems, Stop
from dsba.kernels.samples import normalize_rows
from dsba.problem import Problem
from dsba.recorder import Metric, area_under_curve
from dsba.solvers.reference import CERTIFIED, optimum

Array = npt.NDArray[np.float64]
Watch = Callable[[dict[str, float]], object]  # sees every record; a true answer stops the run
TEST_ENDINGS = {".trn": ".tst", ".tr": ".t", "": ".t"}
BEYOND = 5  # step sizes tried outside of the grid
FIRST_ROUND = 0.25  # the least share of the passes a candidate gets


class Interrupted(Exception):
    """A job was stopped on request; its checkpoint is on disk."""


def perform(job: Job, folder: Folder, watch: Watch) -> None:
    """Do the job and write its files, the one that ``is_done`` looks at last."""
    if isinstance(job, Pooled):
        _find_reference(job, folder)
    elif isinstance(job, Tuning):
        _tune(job, folder, watch)
    else:
        _run(job, folder, watch)


def is_done(job: Job, folder: Folder) -> bool:
    return _last_file(job, folder).exists()


def _last_file(job: Job, folder: Folder) -> Path:
    if isinstance(job, Pooled):
        return folder.facts(job.id)
    return folder.tuning(job.id) if isinstance(job, Tuning) else folder.outcome(job.id)


# Data --------------------------------------------------------------------------------------------


def locate(data: Data) -> None:
    """An error if a data set is not here; it says where it was looked for, and how to get it."""
    for name in filter(None, (data.name, data.test)):
        if name in datasets.EMBEDDED:
            continue
        try:
            find_file(name, embedded=datasets.EMBEDDED)
        except InputError as error:
            if name not in registry.REGISTRY:
                raise
            raise InputError(f"{name} is not here: `dsba data fetch {name}` gets it ({error}).") from error


def test_set(data: Data) -> str | None:
    """The name of the test set: the one given, the registry's, or the file beside it; if it is there."""
    if data.test is not None or data.name in datasets.EMBEDDED:
        return data.test
    known = registry.REGISTRY.get(data.name)
    stem, _, end = data.name.rpartition(".")
    ending = TEST_ENDINGS.get("." + end)
    guesses = [known.test if known else None, stem + ending if stem and ending else data.name + TEST_ENDINGS[""]]
    for guess in filter(None, guesses):
        try:
            find_file(guess)
        except InputError:
            continue
        return guess
    return None


@lru_cache(maxsize=1)
def _load(data: Data) -> Dataset:
    return datasets.load(data.name)


@lru_cache(maxsize=1)
def _load_test(data: Data, n_features: int) -> Dataset | None:
    """The test set with the training set's columns, rows of norm 1, labels -1, +1."""
    name = test_set(data)
    if name is None:
        return None
    X, y = datasets.load(name)
    X = X[:, :n_features]  # a column never trained on has no weight
    X = csr(X.data.copy(), X.indices, X.indptr, n_features)
    normalize_rows(X.indptr, X.data)
    return Dataset(X, _labels(y, data, "auc"))


def _labels(y: Array, data: Data, operator: str) -> Array:
    """-1, +1 where there are two classes or a binarisation; the labels themselves elsewhere."""
    kind = operators.get(operator).labels
    if kind in ("count", "multiclass"):
        return y
    if data.binarisation is not None:
        return datasets.binarise(y, data.binarisation)
    classes = np.unique(y)
    if classes.size == 2:
        return np.where(y == classes[1], 1.0, -1.0)
    if kind == "binary":
        raise InputError(
            f"{data.name} has {classes.size} classes and {operator} needs two: "
            'give positive = [the classes of +1], or positive = "half".'
        )
    return y


@lru_cache(maxsize=2)
def _problem(data: Data, problem: Problems, n_nodes: int, split: str, seed: int) -> Problem:
    X, y = _load(data)
    labels = _labels(y, data, problem.operator)
    return Problem.from_arrays(
        X, labels, problem.operator, n_nodes, problem.lam, split, seed=seed, regularize=problem.regularize
    )


def build(case: Case, seed: int) -> Problem:
    """The problem of a case, its data split with this seed."""
    n_nodes = case.network.topology.n_nodes
    return _problem(case.pooled.data, case.pooled.problem, n_nodes, case.split, seed)


def _metrics(pooled: Pooled, problem: Problem) -> dict[str, Metric]:
    """AUC on the test set, for AUC problems with one."""
    test = _load_test(pooled.data, problem.n_features) if pooled.problem.operator == "auc" else None
    if test is None:
        return {}
    X, y = test
    return {"test_auc": lambda z: area_under_curve(y, X @ z[: problem.n_features])}


# References --------------------------------------------------------------------------------------


def _find_reference(pooled: Pooled, folder: Folder) -> None:
    """z*, and the facts of the data that a report needs."""
    problem = _problem(pooled.data, pooled.problem, 1, "random", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the residual is kept, and shown
        z, residual = optimum(problem)
    X, y = _load(pooled.data)
    facts: dict[str, Any] = {
        "id": pooled.id,
        "rows": problem.n_samples,
        "columns": problem.n_features,
        "nonzeros": int(X.nnz),
        "lam": problem.lam,
        "residual": residual,
        "certified": residual <= CERTIFIED,
        "metric": "gap" if problem.has_objective else "distance",
        "binarisation": _binarisation(y, pooled.data, pooled.problem.operator),
        "test_set": test_set(pooled.data) if pooled.problem.operator == "auc" else None,
    }
    if pooled.problem.operator == "auc":
        facts["auc"] = area_under_curve(problem.y, problem.scores(z))
    facts |= {name: metric(z) for name, metric in _metrics(pooled, problem).items()}
    folder.write_array(folder.optimum(pooled.id), z=z)
    folder.write_json(folder.facts(pooled.id), facts)


def _binarisation(y: Array, data: Data, operator: str) -> str | None:
    """Which classes were made +1, in words."""
    if data.binarisation is None or operators.get(operator).labels == "multiclass":
        return None
    chosen = datasets.binarise(y, data.binarisation) > 0
    positive, negative = (", ".join(f"{c:g}" for c in np.unique(y[rows])) for rows in (chosen, ~chosen))
    return f"classes {positive} are +1, classes {negative} are -1"


# Step sizes --------------------------------------------------------------------------------------


@dataclass
class Candidate:
    """A variant of the algorithm, and how far it came; not its iterates, which may be large."""

    algorithm: Algorithm
    parameters: dict[str, float]
    file: Path
    status: str = ""
    passes: float = 0.0
    value: float = math.inf

    def score(self) -> tuple[float, ...]:
        """Smaller is better: the passes of those which reached the tolerance, then the metric of the others."""
        if self.status == Status.CONVERGED:
            return (0.0, self.passes)
        if self.status == Status.DIVERGED:
            return (2.0, self.algorithm.alpha)
        return (1.0, self.value if math.isfinite(self.value) else math.inf)


def _tune(job: Tuning, folder: Folder, watch: Watch) -> None:
    """Successive halving over the grid, and beyond it while the best step size is at its edge.

    A candidate that goes on does so from its checkpoint.
    """
    problem, z_star = build(job.case, job.seed), folder.read_array(folder.optimum(job.case.pooled.id), "z")
    metric = "gap" if problem.has_objective else "distance"
    base, topology = job.method.same_iterates().build("auto"), job.case.network.topology
    candidates: list[Candidate] = []

    def enter(variant: Algorithm) -> Candidate:
        file = folder.checkpoint(f"{job.id}-{len(candidates)}")
        candidates.append(Candidate(variant, _differences(variant, base), file))
        return candidates[-1]

    def attempt(c: Candidate, passes: float) -> None:
        stop = job.stop.model_copy(update={"max_passes": passes, "max_seconds": None, "max_doubles": None})
        result = _solve(problem, job.case, c.algorithm, stop, job.seed, z_star, c.file, watch)
        c.status, c.passes, c.value = str(result.status), result.passes, float(result.history[metric][-1])

    left = [enter(variant) for variant in base.grid(problem, topology)]
    for passes in budgets(len(left), job.passes):
        for c in left:
            attempt(c, passes)
        left = sorted(left, key=Candidate.score)[: math.ceil(len(left) / 2)]
    best = left[0]
    for _ in range(BEYOND):
        if (step := _beyond(best, candidates)) is None:
            break
        further = enter(replace(best.algorithm, step_size=step))
        attempt(further, job.passes)
        best = min(best, further, key=Candidate.score)
    automatic = base.resolved(problem, topology).alpha
    folder.write_json(folder.tuning(job.id), _table(job, candidates, best, automatic, metric))
    for c in candidates:
        c.file.unlink(missing_ok=True)


def _beyond(best: Candidate, candidates: list[Candidate]) -> float | None:
    """The next step size outside of those tried, if the best one is at their edge."""
    steps = sorted({c.algorithm.alpha for c in candidates})
    if len(steps) > 1 and best.algorithm.alpha == steps[-1]:
        return steps[-1] ** 2 / steps[-2]
    if len(steps) > 1 and best.algorithm.alpha == steps[0]:
        return steps[0] ** 2 / steps[1]
    return None


def budgets(candidates: int, passes: float) -> list[float]:
    """The passes of each round: twice as many as in the round before, ``passes`` in the last."""
    rounds = max(1, math.ceil(math.log2(candidates)))
    return [max(FIRST_ROUND, 0.5 ** (rounds - 1 - r)) * passes for r in range(rounds)]


def _differences(variant: Algorithm, base: Algorithm) -> dict[str, float]:
    """What a variant of the grid sets: its step size, and other numbers that the method tunes with it."""
    before = asdict(base)
    return {key: value for key, value in asdict(variant).items() if value != before[key]}


def _table(job: Tuning, candidates: list[Candidate], best: Candidate, automatic: float, metric: str) -> dict[str, Any]:
    return {
        "id": job.id,
        "method": job.method.same_iterates().title,
        "case": job.case.id,
        "parameters": best.parameters,
        "step_size": best.algorithm.alpha,
        "factor": best.algorithm.alpha / automatic,
        "at_edge": _beyond(best, candidates) is not None,
        "metric": metric,
        "candidates": [
            {
                "parameters": c.parameters,
                "factor": c.algorithm.alpha / automatic,
                "passes": c.passes,
                metric: c.value,
                "status": c.status,
                "chosen": c is best,
            }
            for c in candidates
        ],
    }


# Runs --------------------------------------------------------------------------------------------


def _run(run: Run, folder: Folder, watch: Watch) -> None:
    problem, pooled = build(run.case, run.seed), run.case.pooled
    z_star = folder.read_array(folder.optimum(pooled.id), "z")
    if run.tuning is not None:
        algorithm = run.method.build(**folder.read_json(folder.tuning(run.tuning.id))["parameters"])
    else:
        algorithm = run.method.build(run.method.step_size)
    file, metrics = folder.checkpoint(run.id), _metrics(pooled, problem)
    result = _solve(problem, run.case, algorithm, run.stop, run.seed, z_star, file, watch, metrics)
    outcome = {
        "id": run.id,
        "status": str(result.status),
        "message": result.message,
        "step_size": result.step_size,
        "algorithm": repr(result.algorithm),
        "problem": problem.digest(),
        "node_rows": problem.sizes.tolist(),
        "node_positives": [int((problem.y[a:b] > 0).sum()) for a, b in pairwise(problem.start)],
    }
    folder.write_history(folder.history(run.id), result.history)
    folder.write_json(folder.outcome(run.id), outcome)
    file.unlink(missing_ok=True)


def _solve(
    problem: Problem,
    case: Case,
    algorithm: Algorithm,
    stop: Stop,
    seed: int,
    z_star: Array,
    file: Path,
    watch: Watch,
    metrics: Mapping[str, Metric] | None = None,
) -> Result:
    """``solve`` with a checkpoint; one that cannot be used is dropped, and the run starts anew."""
    limits = stop.content() | ({} if problem.has_objective else {"gap_tol": None})
    arguments: dict[str, Any] = limits | {
        "seed": seed, "reference": z_star, "checkpoint": file, "callbacks": [watch], "metrics": metrics,
    }  # fmt: skip
    try:
        result = solve(problem, case.network.topology, algorithm, **arguments)
    except CheckpointError:
        file.unlink()
        result = solve(problem, case.network.topology, algorithm, **arguments)
    if result.status == Status.INTERRUPTED:
        raise Interrupted
    return result
