"""The runs of an experiment: one method on one case with one seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from dsba.algorithms import Algorithm
from dsba.engine.recorder import Metric
from dsba.engine.run import Result, Status
from dsba.engine.solve import solve
from dsba.errors import CheckpointError
from dsba.lab import environment, index
from dsba.lab.cases import Case
from dsba.lab.finished import require_sound
from dsba.lab.folder import Folder
from dsba.lab.planned import Interrupted, Job, Watch
from dsba.lab.sections import BUDGETS, Method, Stop


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
        problem = self.case.build(self.seed)
        limits = self.stop.content() | ({} if problem.has_objective else {"gap_tol": None})
        arguments: dict[str, Any] = limits | {
            "seed": self.seed, "reference": self.folder.read_reference(self.case.pooled.id)[1], "checkpoint": file,
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
        if self.search is not None:
            algorithm = self.method.build(**folder.read_search(self.search.id).parameters)
        else:
            algorithm = self.method.build(self.method.step_size)
        setting, file = RunSetting(self.case, self.stop, self.seed, folder, watch), folder.checkpoint(self.id)
        result = setting.solve(algorithm, file, self.case.pooled.measured_by(problem))
        require_sound(result.history, self.title)
        outcome = index.Outcome(
            id=self.id,
            status=str(result.status),
            message=result.message,
            step_size=result.step_size,
            algorithm=repr(result.algorithm),
            problem=problem.digest(),
            node_rows=problem.sizes.tolist(),
            node_positives=[int((problem.y[a:b] > 0).sum()) for a, b in pairwise(problem.start)],
            versions=environment.versions(),
        )
        folder.write_sealed(folder.run(self.id), outcome, result.history.to_dict())
        file.unlink(missing_ok=True)


def method_content(method: Method, code: str) -> dict[str, Any]:
    """The method's settings without its label, the path of its file, and its budgets, which are the run's."""
    content = {key: value for key, value in method.content().items() if key not in BUDGETS}
    named = index.class_name(method.name) if isinstance(method.algorithm, str) else repr(method.algorithm)
    return content | {"label": "", "algorithm": [named, code]}
