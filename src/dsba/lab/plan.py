"""From an experiment to its jobs: references, step-size searches and runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from dsba.errors import InputError, unknown_name
from dsba.lab import index
from dsba.lab.jobs import Case, Job, PooledProblem, RunJob
from dsba.lab.sections import Budgets, Data, Method, Problems, Stop
from dsba.lab.sources import Sources, needs_test_set, test_set
from dsba.lab.spec import Experiment, metric_name
from dsba.lab.tuning import Tuning
from dsba.network import Simulator


@dataclass(frozen=True)
class Plan:
    """All jobs in the order to start them: neighbours share data, and what is needed comes first."""

    experiment: Experiment
    sources: Sources
    cases: list[Case]
    runs: list[RunJob]
    left_out: list[str]  # why a method does not appear on a problem, a sentence each
    place: Path = Path()  # the folder of the experiment's file

    @property
    def jobs(self) -> list[Job]:
        return list(dict.fromkeys(job for run in self.runs for job in (*run.needs, run)))

    @property
    def tunings(self) -> list[Tuning]:
        return [job for job in self.jobs if isinstance(job, Tuning)]

    def applicable(self) -> Plan:
        """The plan without methods on the cases that they do not apply to.

        A split or a metric that does not fit the data is an error. The first seed's split stands for all of them.
        """
        refused, sentences = set(), []
        for case, method in product(self.cases, self.experiment.method):
            if reason := _why_not(method, case, self.experiment.seeds[0]):
                refused.add((case.id, method.title))
                where = f", {case.network.title}" if len(self.experiment.network) > 1 else ""
                about = f"{case.pooled.problem.name} on {case.pooled.data_title}{where}"
                sentences.append(f"{method.title} is left out for {about}: {reason}")
        left = [run for run in self.runs if (run.case.id, run.method.title) not in refused]
        return replace(self, runs=left, left_out=list(dict.fromkeys(sentences)))

    def index(self, environment: index.Environment | None = None) -> index.Index:
        """What the report must know of the plan."""
        e = self.experiment
        return index.Index(
            title=e.title, config=e.to_toml(self.kept_plugins), seeds=list(e.seeds), axes=list(e.axes),
            metrics=[metric_name(m) for m in e.metrics], band=e.band or "range", link=e.link,
            max_passes=max(run.stop.max_passes for run in self.runs), left_out=self.left_out,
            data=dict(self.sources.data), plugins=self._code(), networks={n.title: n.shown(e.seeds) for n in e.network},
            cases=[case.shown() for case in self.cases], methods=[m.shown() for m in e.method],
            runs=[index.ShownRun(id=r.id, case=r.case.id, method=r.method.title, seed=r.seed) for r in self.runs],
            searches=[index.PlannedSearch(id=t.id, case=t.case.id, method=t.method.title) for t in self.tunings],
            environment=environment or index.Environment(),
        )  # fmt: skip

    def _code(self) -> dict[str, str]:
        """The digests of plugins by where they are kept, and of objects by their names."""
        e = self.experiment
        named = {self.kept_plugins[name]: digest for name, digest in self.sources.code.items()}
        own: list[tuple[str, Any]] = [(p.name, p.operator) for p in e.problem]
        own += [*((m.title, m.algorithm) for m in e.method), *((metric_name(m), m) for m in e.metrics)]
        return named | {name: self.sources.code_of(one) for name, one in own if not isinstance(one, str)}

    @property
    def kept_plugins(self) -> dict[str, str]:
        """Where the results folder keeps the sources of each plugin: names relative to the folder's TOML file."""
        kept = {}
        for name, digest in self.sources.code.items():
            where, _, cls = name.rpartition(":")
            kept[name] = f"plugins/{digest[:16]}/{Path(where).name}:{cls}" if where.endswith(".py") else name
        return kept


def make(experiment: Experiment, sources: Sources | None = None) -> Plan:
    """Every combination."""
    e, known = experiment, Sources.of(experiment) if sources is None else sources
    pooled = [_pooled(d, p, e, known) for d, p in product(e.data, e.problem)]
    cases = [Case(p, n, s) for p, n, s in product(pooled, e.network, e.splits)]
    runs, searches = list[RunJob](), dict[tuple[str, Method, Stop], Tuning]()
    for case, method in product(cases, e.method):
        own = method.model_dump(include=set(Budgets.model_fields), exclude_none=True)
        stop, code = e.stop.model_copy(update=own), known.code_of(method.algorithm)
        search = None
        if method.tuned:
            traffic = stop.max_doubles or e.tune.by in ("bytes", "time")  # they depend on what is sent
            searched = method if traffic else method.same_iterates()
            key = case.id, searched, stop
            if key not in searches:  # methods with the same iterates share one
                searches[key] = Tuning(case, searched, e.tune, stop, e.tune.seeds or e.seeds[:1], e.link, code)
            search = searches[key]
        runs += [RunJob(case, method, seed, stop, search, code) for seed in e.seeds]
    return Plan(e, known, cases, runs, [])


def _why_not(method: Method, case: Case, seed: int) -> str | None:
    """Why the method does not apply to the case; None if it does."""
    problem, topology = case.build(seed), case.network.topology
    case.pooled.measured_by(problem)
    if reason := method.why_not(problem, case.network.links(topology) or Simulator(topology)):
        return reason
    algorithm = method.variants()[0]
    if isinstance(algorithm.step_size, str) and algorithm.step_size not in algorithm.step_sizes(problem, topology):
        known = [*algorithm.step_sizes(problem, topology), "tune"]
        raise unknown_name(f"step size of {method.title}", algorithm.step_size, known)
    return None


def _pooled(data: Data, problem: Problems, experiment: Experiment, known: Sources) -> PooledProblem:
    measured = [m for m in experiment.metrics if callable(m) or ":" in m or m.removeprefix("test_") in index.ON_DATA]
    ranks = problem.build().ranks
    test = test_set(data) if ranks or (measured and needs_test_set(experiment)) else None
    for metric in measured:
        if test is None and isinstance(metric, str) and metric.startswith("test_"):
            raise InputError(f"the metric {metric!r} needs a test set, and {data.name!r} has none.")
    return PooledProblem(
        data, problem, known.data.get(data.name, ""), known.code_of(problem.operator),
        test, known.data.get(test, "") if test else "",
        tuple(measured), tuple(known.code_of(m) for m in measured),
    )  # fmt: skip
