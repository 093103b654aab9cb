"""The search for a method's step size, and for the other numbers that its grid varies.

The search has three stages. First, successive halving over the grid. Second, every tuned number is refined around the
best until its neighbours are within a factor of 1.5; if the best is the smallest or the largest value tried, values
beyond it are tried. Third, the best is verified at the budget of the run. Candidates go on from their checkpoints.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dsba.algorithms import Algorithm
from dsba.engine.run import Status
from dsba.errors import DsbaError
from dsba.lab import index
from dsba.lab.cases import Case
from dsba.lab.curves import CURVE_ROUNDING
from dsba.lab.folder import Folder
from dsba.lab.jobs import RunSetting, method_content
from dsba.lab.planned import Job, Watch
from dsba.lab.sections import Method, Stop, Tune

RATIO = 1.5  # between the best value and its neighbours, at the end
BEYOND = 5  # values tried outside of the grid, for each tuned number and each side
REFINED = 24  # candidates tried after the grid, at most
FIRST_ROUND = 0.25  # the least share of the passes a candidate gets
WORSE = 3.0  # a candidate that ends this many times above its best has become unstable


@dataclass(frozen=True, eq=False)
class Tuning(Job):
    """The search for a method's step size on a case."""

    case: Case
    method: Method
    tune: Tune
    stop: Stop
    seeds: tuple[int, ...]
    code: str = ""  # of the algorithm's sources

    def content(self) -> tuple[list[str], Any]:
        stop = self.stop.content() | {"max_seconds": None}
        words = [self.case.pooled.id, "tune", index.class_name(self.method.name)]
        return words, [self.case.id, method_content(self.method, self.code), self.passes, self.seeds, stop]

    @property
    def title(self) -> str:
        return f"step size of {self.method.title}: {self.case.pooled.title}"

    @property
    def passes(self) -> float:
        """The budget of the last round."""
        return min(self.tune.passes or self.stop.max_passes, self.stop.max_passes)

    @property
    def needs(self) -> tuple[Job, ...]:
        return (self.case.pooled,)

    def files(self, folder: Folder) -> list[Path]:
        return [folder.tuning(self.id), folder.checkpoint(self.id), *folder.trials(self.id)]

    def perform(self, folder: Folder, watch: Watch) -> None:
        """Find the best candidate and write the table of all."""
        found = SearchRun(self, folder, watch)
        found.halve()
        found.refine()
        found.verify()
        result, *kept = self.files(folder)
        folder.write_sealed(result, found.table())
        folder.remove(kept)


@dataclass
class Contender:
    """A variant of the algorithm, and how far it came with every seed; not its iterates, which may be large."""

    algorithm: Algorithm
    parameters: dict[str, Any]
    budget: float = 0.0
    status: str = ""
    passes: float = 0.0
    value: float = math.inf
    ends: dict[int, float] = field(default_factory=dict)  # the last value of every seed
    best_seen: dict[int, float] = field(default_factory=dict)  # of every seed, the least value so far

    def score(self) -> tuple[float, ...]:
        """Smaller is better. Candidates that reached the tolerance come first, by passes; then others, by metric."""
        if self.status == Status.CONVERGED:
            return (0.0, self.passes)
        if self.status == Status.DIVERGED:
            return (2.0, self.algorithm.alpha)
        return (1.0, self.value)

    @property
    def holds(self) -> bool:
        """Whether it ends near the best it had reached: with most seeds, each compared with itself."""
        if self.status in (Status.CONVERGED, Status.DIVERGED):
            return self.status == Status.CONVERGED
        return statistics.median(self.ends[s] / max(self.best_seen[s], CURVE_ROUNDING) for s in self.ends) <= WORSE

    def __str__(self) -> str:
        return ", ".join(f"{name} = {index.written(value, 4)}" for name, value in self.parameters.items())


def budgets(candidates: int, passes: float) -> list[float]:
    """The passes of each round: twice as many as in the round before, ``passes`` in the last."""
    rounds = max(1, math.ceil(math.log2(candidates)))
    return [max(FIRST_ROUND, 0.5 ** (rounds - 1 - r)) * passes for r in range(rounds)]


class SearchRun:
    """A search under way: its candidates, and the best so far."""

    def __init__(self, job: Tuning, folder: Folder, watch: Watch) -> None:
        self.job, self.folder, self.watch = job, folder, watch
        problem, topology = job.case.build(job.seeds[0]), job.case.network.drawn(job.seeds[0])
        self.metric = "gap" if problem.has_objective else "distance"
        self.base = job.method.build("auto")
        self.on = problem, topology
        self.automatic = self.base.resolved(problem, topology).alpha
        self.trials: list[Contender] = []
        self.extended: dict[tuple[str, int], int] = {}
        self.warnings: list[str] = []
        self.notes = folder.checkpoint(job.id)
        self.journal = self._noted()
        for variant in job.method.candidates(problem, topology):
            self.enter(variant)

    def enter(self, variant: Algorithm) -> Contender:
        grid = self.job.method.grid
        tuned = {name: getattr(variant, name) for name in grid} if grid else _differences(variant, self.base)
        self.trials.append(Contender(variant.resolved(*self.on), tuned))
        return self.trials[-1]

    def attempt(self, trial: Contender, passes: float) -> Contender:
        """Run the candidate for so many passes with every seed, or read what an interrupted search has found."""
        found = {}
        for seed in self.job.seeds:
            key = f"{self.trials.index(trial)}-s{seed}-{passes:g}"
            if key not in self.journal:
                self.journal[key] = self._measured(trial, passes, seed)
                self.folder.write_sealed(self.notes, index.Attempts(attempts=self.journal))
            found[seed] = self.journal[key]
        for seed, one in found.items():
            before = trial.best_seen.get(seed, math.inf), trial.ends.get(seed, math.inf)
            trial.best_seen[seed] = min(*before, math.inf if one.least is None else one.least)
            trial.ends[seed] = math.inf if one.value is None else one.value
        statuses = {one.status for one in found.values()}
        ranked = (str(Status.DIVERGED), str(Status.BUDGET), str(Status.CONVERGED))
        trial.status = next(status for status in ranked if status in statuses)
        trial.budget, trial.value = passes, statistics.median(trial.ends.values())
        trial.passes = statistics.mean(one.passes for one in found.values())
        return trial

    def _measured(self, trial: Contender, passes: float, seed: int) -> index.Attempt:
        stop = self.job.stop.model_copy(update={"max_passes": passes, "max_seconds": None})
        file = self.folder.checkpoint(f"{self.job.id}-{self.trials.index(trial)}-s{seed}")
        result = RunSetting(self.job.case, stop, seed, self.folder, self.watch).solve(trial.algorithm, file)
        values = result.history[self.metric]
        return index.Attempt(
            status=str(result.status),
            passes=result.passes,
            value=_finite(values[-1]),
            least=_finite(np.nanmin(values, initial=math.inf)),
        )

    def _noted(self) -> dict[str, index.Attempt]:
        """What an interrupted search has found. Notes that cannot be read count as no notes."""
        try:
            return dict(self.folder.read_sealed(self.notes, index.Attempts)[0].attempts)
        except DsbaError:
            return {}

    # Rounds --------------------------------------------------------------------------------------

    def halve(self) -> None:
        left = list(self.trials)
        for passes in budgets(len(left), self.job.passes):
            for trial in left:
                self.attempt(trial, passes)
            left = sorted(left, key=Contender.score)[: math.ceil(len(left) / 2)]
        self.best = left[0]

    def refine(self) -> None:
        for _ in range(REFINED):
            if (change := next(self._changes(), None)) is None:
                break
            trial = self.attempt(self.enter(self.job.method.build(**change)), self.job.passes)
            self.best = min(self.best, trial, key=Contender.score)

    def _changes(self) -> Iterator[dict[str, Any]]:
        """Values around the best that are still to be tried."""
        for name, value in self.best.parameters.items():
            for side in (1, -1):
                if (other := self._neighbour(name, value, side)) is not None:
                    yield {**self.best.parameters, name: other}

    def _neighbour(self, name: str, value: float, side: int) -> float | None:
        """A value to try on one side of the best; None where a neighbour is near enough."""
        if not isinstance(value, float) or value <= 0:
            return None
        others = {**self.best.parameters, name: None}
        line = [t.parameters[name] for t in self.trials if {**t.parameters, name: None} == others]
        beyond = [other for other in line if (other - value) * side > 0]
        if beyond:
            nearest = min(beyond, key=lambda other: abs(other - value))
            return math.sqrt(nearest * value) if max(nearest / value, value / nearest) > RATIO * 1.0001 else None
        if not self._is_edge(name, value, side):
            return value * RATIO**side
        if self.extended.get((name, side), 0) == BEYOND:
            return None
        self.extended[name, side] = self.extended.get((name, side), 0) + 1
        return value * self._spacing(name, side)

    def _is_edge(self, name: str, value: float, side: int) -> bool:
        return not any((trial.parameters[name] - value) * side > 0 for trial in self.trials)

    def _spacing(self, name: str, side: int) -> float:
        """The ratio between the last two values that were tried on this side."""
        values = sorted({trial.parameters[name] for trial in self.trials}, reverse=side > 0)
        return values[0] / values[1] if len(values) > 1 else 2.0**side

    def verify(self) -> None:
        """At the budget of the run, the best must not become worse, and the next one must not overtake it."""
        full, first = self.job.stop.max_passes, self.best
        checked = [trial for trial in self.trials if trial.budget == full]
        waiting = sorted((trial for trial in self.trials if trial.budget != full), key=Contender.score)
        needed = 2 if full != self.job.passes else 1
        while waiting and (len(checked) < needed or not self.best.holds or self.best.budget != full):
            checked.append(self.attempt(waiting.pop(0), full))
            self.best = min(checked, key=Contender.score)
        if self.best is not first:
            self.warnings.append(
                f"{self.job.method.title}: {first} was the best after {self.job.passes:g} passes and not after "
                f"{full:g}; {self.best} was taken."
            )
        if not self.best.holds:
            self.warnings.append(f"{self.job.method.title}: every candidate ends above the best it had reached.")

    # The table -----------------------------------------------------------------------------------

    def table(self) -> index.ShownSearch:
        best = self.best
        tuned = [name for name, value in best.parameters.items() if isinstance(value, float)]
        edge = [n for n in tuned if any(self._is_edge(n, best.parameters[n], side) for side in (1, -1))]
        for name in edge:
            self.warnings.append(f"{self.job.method.title}: the best {name} is at the edge of what was tried.")
        return index.ShownSearch(
            id=self.job.id,
            method=self.job.method.title,
            metric=self.metric,
            parameters=best.parameters,
            factor=best.algorithm.alpha / self.automatic,
            at_edge=edge,
            warnings=self.warnings,
            candidates=[self._row(trial) for trial in self.trials],
        )

    def _row(self, trial: Contender) -> index.Candidate:
        return index.Candidate(
            parameters=trial.parameters,
            factor=trial.algorithm.alpha / self.automatic,
            passes=trial.passes,
            value=_finite(trial.value),
            status=trial.status,
            chosen=trial is self.best,
        )


def _differences(variant: Algorithm, base: Algorithm) -> dict[str, Any]:
    """What a variant of the grid sets: its step size, and other numbers that the method tunes with it."""
    before = asdict(base)
    return {key: value for key, value in asdict(variant).items() if value != before[key]}


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
