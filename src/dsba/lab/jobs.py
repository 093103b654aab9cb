"""The jobs of an experiment: reference solutions and runs. Step-size searches are in ``tuning.py``.

An identifier is made of the content that a job computes from, and of nothing else: the bytes of the data, the sources
of plugins, the settings. So a finished job is known again after methods, data or seeds were added around it, and is not
mistaken for one with other data, other code or other settings.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
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
from dsba.errors import CheckpointError, DsbaError, InputError
from dsba.kernels.samples import normalize_rows
from dsba.lab import environment, measures
from dsba.lab.finished import require_sound
from dsba.lab.folder import Folder
from dsba.lab.index import Outcome, ShownCase, ShownReference, class_name
from dsba.lab.objects import Assigned, GivenArrays
from dsba.lab.sections import Budgets, Data, Method, NetworkSpec, Problems, Stop
from dsba.lab.sources import data_digest, require_digest
from dsba.lab.spec import metric_name
from dsba.problem.problem import Problem
from dsba.solvers.reference import CERTIFIED, optimum
from dsba.storage import plugins
from dsba.types import Array

KEPT_ENTRIES = 20_000_000  # nonzeros of the problems that a process keeps; the last two are always kept

_kept: dict[tuple[str, int, str | Assigned, int], tuple[int, Problem]] = {}

Watch = Callable[[dict[str, float]], object]  # sees every record; a true answer stops the run


class Interrupted(DsbaError):
    """A job was stopped on request; its checkpoint is on disk."""


@dataclass(frozen=True, eq=False)
class Planned(ABC):
    """Something with an identifier, which is made once, when the plan is made. Equal identifiers are the same thing."""

    id: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", identifier(*self.content()))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @abstractmethod
    def content(self) -> tuple[list[str], Any]:
        """Readable words, and all that the result depends on."""


@dataclass(frozen=True, eq=False)
class Job(Planned):
    """Something to do, in any process. Its result is one file."""

    @property
    @abstractmethod
    def title(self) -> str: ...

    @property
    def needs(self) -> tuple[Job, ...]:
        """The jobs that come before this one."""
        return ()

    @abstractmethod
    def perform(self, folder: Folder, watch: Watch) -> None:
        """Do the job and write its result."""

    @abstractmethod
    def files(self, folder: Folder) -> list[Path]:
        """The result, and what the job keeps while it is unfinished."""

    def is_done(self, folder: Folder) -> bool:
        return self.files(folder)[0].exists()


def identifier(words: list[str], content: Any) -> str:
    """Readable words, and a fingerprint of the words and of the content, which makes it unique."""
    readable = "-".join(re.sub(r"-[0-9a-f]{16}$", "", word) for word in words)  # fingerprints in words: once is enough
    text = json.dumps([words, content], sort_keys=True)
    fingerprint = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{re.sub(r'[^a-z0-9.]+', '-', readable.lower())[:120]}-{fingerprint}"


@dataclass(frozen=True, eq=False)
class PooledProblem(Job):
    """A problem on all of a data set: what a reference belongs to, whatever network it is solved over."""

    data: Data
    problem: Problems
    digest: str = ""  # of the data
    code: str = ""  # of the operator's sources
    test: str | None = None  # the name of the test set, where something is measured on it
    test_digest: str = ""
    metrics: tuple[Any, ...] = ()  # what is measured besides what every run has
    metric_code: tuple[str, ...] = ()  # of the metrics' sources

    def content(self) -> tuple[list[str], Any]:
        operator = self.problem.operator
        named = self.problem.name if isinstance(operator, str) else repr(operator)
        problem = self.problem.content() | {"operator": [named, self.code]}
        problem.pop("label", None)
        content: list[Any] = [self.digest, self.data.binarisation, self.test_digest, problem]
        content += [] if self.data.normalize is None else [{"normalize": self.data.normalize}]
        measured = [[metric_name(m), code] for m, code in zip(self.metrics, self.metric_code, strict=True)]
        return [Path(self.data.name).name, self.problem.name], content + ([measured] if measured else [])

    @property
    def data_title(self) -> str:
        """The data set's name, and that it was made one of two classes."""
        changed = not self.data.label and self.data.binarisation and self.problem.build().labels != "multiclass"
        return self.data.title + (" (binarised)" if changed else "")

    @property
    def title(self) -> str:
        return f"{self.problem.title}, {self.data_title}"

    def files(self, folder: Folder) -> list[Path]:
        return [folder.optimum(self.id)]

    def perform(self, folder: Folder, watch: Watch) -> None:
        """z*, and what a report shows of the data."""
        problem = self.split(1, "random", 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the residual is kept, and shown
            z, residual = optimum(problem)
        X, y = self.rows
        measured = {name: float(metric(z)) for name, metric in self.measured_by(problem).items()}
        reached = {name: value if math.isfinite(value) else None for name, value in measured.items()}
        auc = area_under_curve(problem.y, problem.pooled.scores(z)) if problem.component.ranks else None
        reference = ShownReference(
            id=self.id, rows=problem.n_samples, columns=problem.n_features, nonzeros=int(X.nnz), lam=problem.lam,
            residual=residual, certified=residual <= CERTIFIED, metric="gap" if problem.has_objective else "distance",
            binarisation=self._binarisation(y), test_set=self.test, auc=auc, test_auc=reached.pop("test_auc", None),
            metrics=reached, kappa=problem.constants.L_plan / problem.constants.mu,
        )  # fmt: skip
        folder.write_sealed(folder.optimum(self.id), reference, {"z": z})

    def split(self, n_nodes: int, split: str | Assigned, seed: int) -> Problem:
        """The problem with its data split over so many nodes; a process builds it once and keeps it for other jobs."""
        key = self.id, n_nodes, split, seed
        _kept[key] = _kept.pop(key) if key in _kept else (self.rows.X.nnz, self._built(n_nodes, split, seed))
        while len(_kept) > 2 and sum(entries for entries, _ in _kept.values()) > KEPT_ENTRIES:
            del _kept[next(iter(_kept))]  # the one that was not needed for the longest time
        return _kept[key][1]

    def _built(self, n_nodes: int, split: str | Assigned, seed: int) -> Problem:
        X, y = self.rows
        problem = self.problem
        return Problem.from_arrays(
            X, self.labels(y), problem.build(), n_nodes, problem.lam, split if isinstance(split, str) else split.nodes,
            self.data.normalize is not False, seed, regularize=problem.regularize, intercept=problem.intercept or False,
            penalty=problem.penalty,
        )  # fmt: skip

    @property
    def rows(self) -> Dataset:
        """The training rows as they were read."""
        return _load(self.data.name, self.digest, self.data.rows)

    def labels(self, y: Array, classes: npt.NDArray[Any] | None = None) -> Array:
        """-1, +1 where there are two classes or a binarisation; the labels themselves elsewhere.

        ``classes`` are those of the training data: the labels of a test set must be among them.
        """
        data, operator = self.data, self.problem.build()
        classes = np.unique(y) if classes is None else classes
        if operator.labels == "multiclass":
            return _known(y, classes, data)
        if operator.labels == "count":
            return y
        if data.binarisation is None and classes.size != 2:
            if operator.labels != "binary":
                return y
            advice = 'give positive = [the classes of +1], or positive = "half".'
            raise InputError(f"{data.name} has {classes.size} classes and {self.problem.name} needs two: {advice}")
        chosen = classes[1:]
        if data.binarisation is not None:
            chosen = classes[datasets.binarise(classes, data.binarisation) > 0]
        return np.where(np.isin(_known(y, classes, data), chosen), 1.0, -1.0)

    def measured_by(self, problem: Problem) -> dict[str, Metric]:
        """The metrics beyond those of every run; for operators that rank, AUC on the test set is among them."""
        found = {metric_name(wanted): self._metric(wanted, problem) for wanted in self.metrics}
        if self.test is not None and problem.component.ranks:
            found["test_auc"] = measures.auc(problem, _measured_rows(self, True))
        return found

    def _metric(self, wanted: Any, problem: Problem) -> Metric:
        """A metric by name, or a function of z and the rows of the test set (of all data where there is none)."""
        if isinstance(wanted, str) and not plugins.is_plugin(wanted):
            rows = _measured_rows(self, wanted.startswith("test_"))
            return measures.NAMED[wanted.removeprefix("test_")](problem, rows)
        function = plugins.load_function(wanted, "metric") if isinstance(wanted, str) else wanted
        X, y = _measured_rows(self, self.test is not None)
        return lambda z: float(function(z, X, y))

    def _binarisation(self, y: Array) -> str | None:
        """Which classes were made +1, in words."""
        if self.data.binarisation is None or self.problem.build().labels == "multiclass":
            return None
        chosen = datasets.binarise(y, self.data.binarisation) > 0
        positive, negative = (", ".join(f"{c:g}" for c in np.unique(y[rows])) for rows in (chosen, ~chosen))
        return f"classes {positive} are +1, classes {negative} are -1"


@dataclass
class Race:
    """Stops a run that has spent more than the best one needed."""

    cost: Callable[[dict[str, float]], float]
    least: float
    lost: bool = False

    def __call__(self, record: dict[str, float]) -> bool:
        self.lost = self.cost(record) > self.least
        return self.lost


@dataclass(frozen=True, eq=False)
class Case(Planned):
    """A problem over a network, split in one way: one set of axes, one table, a curve per method."""

    pooled: PooledProblem
    network: NetworkSpec
    split: str | Assigned

    def content(self) -> tuple[list[str], Any]:
        topology = self.network.topology
        file = Path(self.network.edges).stem if self.network.edges else None
        content = self.network.content() | {"edges": file, "topology": topology.digest()}
        content.pop("label", None)
        if links := self.network.links(topology):
            content["links"] = repr(links)
        if not isinstance(self.split, str):
            content["nodes"] = self.split.digest
        return [self.pooled.id, topology.name, str(self.split)], [content]

    def build(self, seed: int) -> Problem:
        """The problem of the case, its data split with this seed."""
        return self.pooled.split(self.network.topology.n_nodes, self.split, seed)

    def solve(
        self, algorithm: Algorithm, seed: int, folder: Folder, file: Path, race: Race | None = None, **arguments: Any
    ) -> Result:
        """``solve`` with a checkpoint in ``file``; one that cannot be used is dropped, and the run starts anew."""
        if race:
            arguments["callbacks"] = [*arguments["callbacks"], race]
        problem, topology = self.build(seed), self.network.drawn(seed)
        reference = folder.read_reference(self.pooled.id)[1]
        arguments |= {"network": self.network.links(topology), "seed": seed, "reference": reference, "checkpoint": file}
        if not problem.has_objective:
            arguments["gap_tol"] = None
        try:
            result = solve(problem, topology, algorithm, **arguments)
        except CheckpointError:
            file.unlink()
            result = solve(problem, topology, algorithm, **arguments)
        if result.status == Status.INTERRUPTED and not (race and race.lost):
            raise Interrupted
        return result

    def shown(self) -> ShownCase:
        problem, network = self.pooled.problem, self.network
        nodes = network.topology.n_nodes
        besides = {
            "N": f"{problem.title}, {network.family}",
            **dict.fromkeys(("lam", "kappa"), f"{problem.family}, {network.title}"),
            "gamma": ", ".join([problem.title, f"N = {nodes}", *network.flaws]),
        }
        return ShownCase(
            id=self.id, data=self.pooled.data_title, problem=problem.title, operator=problem.name,
            network=network.title, nodes=nodes, split=str(self.split), reference=self.pooled.id, besides=besides,
        )  # fmt: skip


@lru_cache(maxsize=2)
def _load(name: str, digest: str, rows: GivenArrays | None = None) -> Dataset:
    """A data set, if it is still the one that the plan was made for."""
    if rows is not None:
        return Dataset(rows.X, rows.y)
    loaded = datasets.load(name)
    if digest:
        require_digest(name, digest, data_digest(name))
    return loaded


@lru_cache(maxsize=2)
def _measured_rows(pooled: PooledProblem, test: bool) -> Dataset:
    """The training rows or the test rows as the problem has them: its columns, its scale, its labels."""
    X, y = pooled.rows
    n_features, classes = X.shape[1], np.unique(y)
    if test:
        assert pooled.test is not None
        X, y = _load(pooled.test, pooled.test_digest, pooled.data.test_rows)
    X = X[:, :n_features]  # a column never trained on has no weight
    X = csr(X.data.copy(), X.indices, X.indptr, n_features)
    if pooled.data.normalize is not False:
        normalize_rows(X.indptr, X.data)
    return Dataset(X, pooled.labels(y, classes))


def forget() -> None:
    """Let go of data and problems, in a process that has no more use for them."""
    _kept.clear()
    _load.cache_clear()
    _measured_rows.cache_clear()


def _known(y: Array, classes: npt.NDArray[Any], data: Data) -> Array:
    """The labels, if they are among the classes; a text is never a number."""
    alike = (y.dtype.kind == "U") == (classes.dtype.kind == "U")
    if not alike or not np.isin(y, classes).all():
        known = f"the {classes.size} classes of the training data"
        raise InputError(f"the test set of {data.name!r} has labels that are not among {known}.")
    return y


@dataclass(frozen=True, eq=False)
class RunJob(Job):
    """One method on one case with one seed."""

    case: Case
    method: Method
    seed: int
    stop: Stop
    search: Job | None  # of the step size
    code: str = ""  # of the algorithm's sources

    def content(self) -> tuple[list[str], Any]:
        step = self.search.id if self.search else self.method.step_size
        words = [self.case.pooled.id, self.method.title, f"s{self.seed}"]
        return words, [self.case.id, method_content(self.method, self.code), step, self.stop.content()]

    @property
    def title(self) -> str:
        return f"{self.method.title}: {self.case.pooled.title}"

    @property
    def needs(self) -> tuple[Job, ...]:
        return (self.case.pooled, self.search) if self.search else (self.case.pooled,)

    def files(self, folder: Folder) -> list[Path]:
        return [folder.run(self.id), folder.checkpoint(self.id)]

    def perform(self, folder: Folder, watch: Watch) -> None:
        problem = self.case.build(self.seed)
        found = folder.read_search(self.search.id).parameters if self.search else {"step_size": self.method.step_size}
        file, metrics = folder.checkpoint(self.id), self.case.pooled.measured_by(problem)
        limits = self.stop.content() | {"callbacks": [watch], "metrics": metrics}
        result = self.case.solve(self.method.build(**found), self.seed, folder, file, **limits)
        require_sound(result.history, self.title)
        positives = [int((problem.y[a:b] > 0).sum()) for a, b in pairwise(problem.start)]
        outcome = Outcome(
            id=self.id, status=str(result.status), message=result.message, step_size=result.step_size,
            chosen=chosen_values(result.algorithm), algorithm=repr(result.algorithm), problem=problem.digest(),
            node_rows=problem.sizes.tolist(), node_positives=positives, versions=environment.versions(),
        )  # fmt: skip
        folder.write_sealed(folder.run(self.id), outcome, result.history.to_dict())
        file.unlink(missing_ok=True)


def chosen_values(algorithm: Algorithm) -> dict[str, Any]:
    """The step size and the other open constants of an algorithm that has run."""
    return {name: getattr(algorithm, name) for name in dict.fromkeys(["step_size", *(c.name for c in algorithm.opens)])}


def method_content(method: Method, code: str) -> dict[str, Any]:
    """The method's settings without its label, the path of its file, and its budgets, which are the run's."""
    content = {key: value for key, value in method.content().items() if key not in Budgets.model_fields}
    named = class_name(method.name) if isinstance(method.algorithm, str) else repr(method.algorithm)
    return content | {"label": "", "algorithm": [named, code]}
