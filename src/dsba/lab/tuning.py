"""The search for a method's open constants: its step size, and the others that it declares or a user names.

The search has three stages. First, successive halving over the values that the ranges begin with; the last round is as
long as a run. Second, a walk from the best to better neighbours, inside the bounds, until those within a factor of 1.1
are no better. Third, a candidate that ends above its own best is not taken. A candidate is stopped as soon as reaching
the tolerance has cost it more than the best one, and candidates go on from their checkpoints.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np

from dsba.algorithms import Algorithm
from dsba.engine.run import Status
from dsba.errors import DsbaError
from dsba.graph.link import Link
from dsba.lab import index
from dsba.lab.curves import CURVE_ROUNDING, modelled_seconds
from dsba.lab.folder import Folder
from dsba.lab.jobs import Case, Job, Race, Watch, method_content
from dsba.lab.sections import Method, Stop, Tune

SPREADS = (2.0, 2.0**0.5, 2.0**0.25, 2.0**0.125)  # between the best and its neighbours, one after the other
WALKED = 80  # candidates tried after the first ones, at most
FIRST_ROUND = 0.25  # the least share of a run's passes that a candidate gets
WORSE = 3.0  # a candidate that ends this many times above its best has become unstable
COST_COLUMNS = {"passes": "passes", "rounds": "rounds", "bytes": "bytes_max", "work": "work"}  # of the history, by cost


@dataclass(frozen=True, eq=False)
class Tuning(Job):
    """The search for a method's open constants on a case."""

    case: Case
    method: Method
    tune: Tune
    stop: Stop
    seeds: tuple[int, ...]
    link: Link  # of the time that candidates may be judged by
    code: str = ""  # of the algorithm's sources

    def content(self) -> tuple[list[str], Any]:
        stop = self.stop.content() | {"max_seconds": None}
        words = [self.case.pooled.id, "tune", index.class_name(self.method.name)]
        by = [self.tune.by, self.link.latency, self.link.bandwidth] if self.tune.by == "time" else [self.tune.by]
        return words, [self.case.id, method_content(self.method, self.code), self.first, self.seeds, stop, by]

    @property
    def title(self) -> str:
        return f"step size of {self.method.title}: {self.case.pooled.title}"

    @property
    def first(self) -> float:
        """The least passes of a candidate."""
        return min(self.tune.passes or FIRST_ROUND * self.stop.max_passes, self.stop.max_passes)

    @property
    def needs(self) -> tuple[Job, ...]:
        return (self.case.pooled,)

    def files(self, folder: Folder) -> list[Path]:
        trials = (folder.root / "checkpoints").glob(f"{self.id}-*.dsba")
        return [folder.tuning(self.id), folder.checkpoint(self.id), *trials]

    def perform(self, folder: Folder, watch: Watch) -> None:
        """Find the best candidate and write the table of all."""
        found = SearchRun(self, folder, watch)
        found.halve()
        found.walk()
        found.settle()
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
    cost: float = 0.0
    value: float = math.inf
    ends: dict[int, float] = field(default_factory=dict)  # the last value of every seed
    best_seen: dict[int, float] = field(default_factory=dict)  # of every seed, the least value so far

    def score(self) -> tuple[float, ...]:
        """Smaller is better. Candidates that reached the tolerance come first, by cost; then others, by metric."""
        if self.status == Status.CONVERGED:
            return (0.0, self.cost, self.value)
        if self.status == Status.DIVERGED:
            return (2.0, self.algorithm.alpha)
        return (1.0, self.value)

    @property
    def holds(self) -> bool:
        """Whether it ends near the best it had reached: with most seeds, each compared with itself."""
        if self.status in (Status.CONVERGED, Status.DIVERGED):
            return self.status == Status.CONVERGED
        return statistics.median(self.ends[s] / max(self.best_seen[s], CURVE_ROUNDING) for s in self.ends) <= WORSE


def budgets(candidates: int, first: float, full: float) -> list[float]:
    """The passes of each round: twice as many as in the round before but at least ``first``, ``full`` in the last."""
    rounds = max(1, math.ceil(math.log2(candidates)))
    return [max(first, 0.5 ** (rounds - 1 - r) * full) for r in range(rounds)]


class SearchRun:
    """A search under way: its candidates, and the best so far."""

    def __init__(self, job: Tuning, folder: Folder, watch: Watch) -> None:
        self.job, self.folder, self.watch = job, folder, watch
        problem, topology = job.case.build(job.seeds[0]), job.case.network.drawn(job.seeds[0])
        self.metric = "gap" if problem.has_objective else "distance"
        self.on = problem, topology
        self.automatic = job.method.build("auto").resolved(problem, topology).alpha
        self.ranges = {one.name: one for one in job.method.search_ranges(problem, topology)}
        self.trials, self.warnings = list[Contender](), list[str]()
        self.best: Contender | None = None
        self.notes, self.journal = folder.checkpoint(job.id), dict[str, index.Attempt]()
        with suppress(DsbaError):  # notes of an interrupted search that cannot be read count as no notes
            self.journal = folder.read_sealed(self.notes, index.Attempts)[0].attempts
        for chosen in product(*(one.start for one in self.ranges.values())):
            self.enter(dict(zip(self.ranges, chosen, strict=True)))

    def enter(self, parameters: dict[str, Any]) -> Contender:
        variant = self.job.method.build(**parameters).resolved(*self.on)
        self.trials.append(Contender(variant, parameters))
        return self.trials[-1]

    def cost(self, record: dict[str, float]) -> float:
        """What a record cost, in the unit that the search is to save."""
        by, (problem, topology) = self.job.tune.by, self.on
        if by == "time":
            return modelled_seconds(record, problem.sweep, topology.n_nodes, self.job.link)
        return record[COST_COLUMNS[by]]

    def attempt(self, trial: Contender, passes: float) -> Contender:
        """Run the candidate for so many passes with every seed, or read what an interrupted search has found."""
        found = []
        for seed in self.job.seeds:
            key = f"{self.trials.index(trial)}-s{seed}-{passes:g}"
            if key not in self.journal:
                self.journal[key] = self._measured(trial, passes, seed)
                self.folder.write_sealed(self.notes, index.Attempts(attempts=self.journal))
            found.append(one := self.journal[key])
            before = trial.best_seen.get(seed, math.inf), trial.ends.get(seed, math.inf)
            trial.best_seen[seed] = min(*before, math.inf if one.least is None else one.least)
            trial.ends[seed] = math.inf if one.value is None else one.value
        ranked = (str(Status.DIVERGED), str(Status.BUDGET), str(Status.CONVERGED))
        trial.status = next(status for status in ranked if status in {one.status for one in found})
        trial.budget, trial.value = passes, statistics.median(trial.ends.values())
        trial.passes = statistics.mean(one.passes for one in found)
        trial.cost = statistics.mean(one.cost for one in found)
        self.best = trial if self.best is None else min(self.best, trial, key=Contender.score)
        return trial

    def _measured(self, trial: Contender, passes: float, seed: int) -> index.Attempt:
        stop = self.job.stop.model_copy(update={"max_passes": passes, "max_seconds": None})
        file = self.folder.checkpoint(f"{self.job.id}-{self.trials.index(trial)}-s{seed}")
        race = Race(self.cost, self._least_cost() * len(self.job.seeds))
        limits = stop.content() | {"callbacks": [self.watch]}
        result = self.job.case.solve(trial.algorithm, seed, self.folder, file, race, **limits)
        values = result.history[self.metric]
        return index.Attempt(
            status=str(Status.BUDGET if race.lost else result.status), passes=result.passes,
            cost=self.cost(result.history.last()), value=_finite(values[-1]),
            least=_finite(np.nanmin(values, initial=math.inf)),
        )  # fmt: skip

    def _least_cost(self) -> float:
        """What the tolerance cost the best one; a mean over the seeds, so one seed alone may cost a multiple."""
        return self.best.cost if self.best is not None and self.best.status == Status.CONVERGED else math.inf

    # Stages --------------------------------------------------------------------------------------

    @property
    def full(self) -> float:
        """The passes of a run."""
        return self.job.stop.max_passes

    def halve(self) -> None:
        left = list(self.trials)
        for passes in budgets(len(left), self.job.first, self.full):
            for trial in left:
                self.attempt(trial, passes)
            left = sorted(left, key=Contender.score)[: math.ceil(len(left) / 2)]
        self.best = left[0]

    def walk(self) -> None:
        """To better neighbours, as far as they lead; at a smaller distance once none at this one is better."""
        last = len(self.trials) + WALKED
        for spread in SPREADS:
            before = None
            while before is not self.best:
                before = self.best
                for direction in self._directions():
                    self._go(direction, spread, last)
        if len(self.trials) >= last:
            self.warnings.append(f"{self.job.method.title}: the search ended after {last} candidates.")

    def _directions(self) -> Iterator[dict[str, int]]:
        """Up and down along each number, then along two at once: constants of a method often make up for each other."""
        for count in (1, 2):
            for names in combinations(self.ranges, count):
                for signs in product((1, -1), repeat=count):
                    yield dict(zip(names, signs, strict=True))

    def _go(self, direction: dict[str, int], spread: float, last: int) -> None:
        while len(self.trials) < last and (trial := self._neighbour(direction, spread)):
            if self.attempt(trial, self.full) is not self.best:
                return

    def _neighbour(self, direction: dict[str, int], spread: float) -> Contender | None:
        """The candidate beside the best one; None at a bound, and if it has run already."""
        assert self.best is not None
        parameters = dict(self.best.parameters)
        for name, sign in direction.items():
            parameters[name] = self.ranges[name].moved(parameters[name], spread**sign)
        if None in parameters.values():
            return None
        known = next((trial for trial in self.trials if _same(trial.parameters, parameters)), None)
        if known is None:
            return self.enter(parameters)
        return known if known.budget < self.full else None

    def settle(self) -> None:
        """The best of those that ran as long as a run and end near their own best; if none does, the others run too."""
        ran = [trial for trial in self.trials if trial.budget == self.full]
        waiting = sorted((trial for trial in self.trials if trial.budget < self.full), key=Contender.score)
        while waiting and not any(trial.holds for trial in ran):
            ran.append(self.attempt(waiting.pop(0), self.full))
        steady = [trial for trial in ran if trial.holds]
        if not steady:
            self.warnings.append(f"{self.job.method.title}: every candidate ends above the best it had reached.")
        self.best = min(steady or ran, key=Contender.score)

    # The table -----------------------------------------------------------------------------------

    def table(self) -> index.ShownSearch:
        best, title = self.best, self.job.method.title
        assert best is not None
        edge = [name for name, one in self.ranges.items() if one.is_edge(best.parameters[name])]
        self.warnings += [f"{title}: the best {name} is at the edge of what may be tried." for name in edge]
        return index.ShownSearch(
            id=self.job.id, method=title, metric=self.metric, by=self.job.tune.by, parameters=best.parameters,
            factor=best.algorithm.alpha / self.automatic, at_edge=edge, warnings=self.warnings,
            candidates=[self._row(trial) for trial in self.trials],
        )  # fmt: skip

    def _row(self, trial: Contender) -> index.Candidate:
        return index.Candidate(
            parameters=trial.parameters, factor=trial.algorithm.alpha / self.automatic, passes=trial.passes,
            cost=trial.cost, value=_finite(trial.value), status=trial.status, chosen=trial is self.best,
        )  # fmt: skip


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two candidates are the same but for rounding."""
    pairs = [(one[name], other[name]) for name in one]
    return all(math.isclose(a, b, rel_tol=1e-9) if isinstance(a, float) else a == b for a, b in pairs)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
