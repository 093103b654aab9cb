"""From an experiment to its jobs: references, step-size searches and runs, each with a stable identifier.

An identifier is made of the content that the job computes from, and of nothing else: the bytes of the data, the
sources of plugins, the settings. So a finished job is known again after methods, data or seeds were added around it,
and is not mistaken for one with other data, other code or other settings.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from dsba.errors import InputError
from dsba.lab import index, titles
from dsba.lab.objects import Assigned
from dsba.lab.sections import BUDGETS, Data, Method, NetworkSpec, Problems, Stop, Tune
from dsba.lab.sources import Sources, needs_test_set, test_set
from dsba.lab.spec import Experiment, metric_name


@dataclass(frozen=True)
class PooledProblem:
    """A problem on all of a data set: what a reference belongs to, whatever network it is solved over."""

    data: Data
    problem: Problems
    digest: str = ""  # of the data
    code: str = ""  # of the operator's sources
    test: str | None = None  # the name of the test set, where something is measured on it
    test_digest: str = ""
    metrics: tuple[Any, ...] = ()  # what is measured besides what every run has
    metric_code: tuple[str, ...] = ()  # of the metrics' sources

    @property
    def id(self) -> str:
        operator = self.problem.operator
        named = self.problem.name if isinstance(operator, str) else repr(operator)
        problem = self.problem.content() | {"operator": [named, self.code]}
        problem.pop("label", None)
        content: list[Any] = [self.digest, self.data.binarisation, self.test_digest, problem]
        if self.data.normalize is not None:
            content.append({"normalize": self.data.normalize})
        if self.metrics:
            content.append([[metric_name(m), code] for m, code in zip(self.metrics, self.metric_code, strict=True)])
        return _identifier([Path(self.data.name).name, self.problem.name], content)

    @property
    def data_title(self) -> str:
        """The data set's name, and that it was made one of two classes."""
        changed = self.data.binarisation and self.problem.build().labels != "multiclass"
        return titles.data_title(self.data.name, self.data.label, bool(changed))

    @property
    def title(self) -> str:
        return f"{self.problem.title}, {self.data_title}"

    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """A problem over a network, split in one way: one set of axes, one table, a curve per method."""

    pooled: PooledProblem
    network: NetworkSpec
    split: str | Assigned

    @property
    def id(self) -> str:
        topology = self.network.topology
        file = Path(self.network.edges).stem if self.network.edges else None
        content = self.network.content() | {"edges": file, "topology": topology.digest()}
        content.pop("label", None)
        if links := self.network.links(topology):
            content["links"] = links.describe()
        if not isinstance(self.split, str):
            content["nodes"] = self.split.digest
        return _identifier([self.pooled.id, topology.name, str(self.split)], [content])

    def shown(self) -> index.ShownCase:
        problem, network = self.pooled.problem, self.network
        named = (problem.title, problem.family), (network.title, network.family)
        return index.ShownCase(
            id=self.id,
            data=self.pooled.data_title,
            problem=problem.title,
            operator=problem.name,
            network=network.title,
            nodes=network.topology.n_nodes,
            split=str(self.split),
            reference=self.pooled.id,
            besides=titles.besides(*named, network.topology.n_nodes, network.flaws),
        )


@dataclass(frozen=True)
class Tuning:
    """The search for a method's step size on a case."""

    case: Case
    method: Method
    tune: Tune
    stop: Stop
    seeds: tuple[int, ...]
    code: str = ""  # of the algorithm's sources

    @property
    def id(self) -> str:
        stop = self.stop.content() | {"max_seconds": None}
        words = [self.case.pooled.id, "tune", titles.class_name(self.method.name)]
        return _identifier(words, [self.case.id, _method(self.method, self.code), self.passes, self.seeds, stop])

    @property
    def title(self) -> str:
        return f"step size of {self.method.title}: {self.case.pooled.title}"

    @property
    def passes(self) -> float:
        """The budget of the last round."""
        return min(self.tune.passes or self.stop.max_passes, self.stop.max_passes)

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.case.pooled.id,)


@dataclass(frozen=True)
class RunJob:
    """One method on one case with one seed."""

    case: Case
    method: Method
    seed: int
    stop: Stop
    tuning: Tuning | None
    code: str = ""  # of the algorithm's sources

    @property
    def id(self) -> str:
        step = self.tuning.id if self.tuning else self.method.step_size
        words = [self.case.pooled.id, self.method.title, f"s{self.seed}"]
        return _identifier(words, [self.case.id, _method(self.method, self.code), step, self.stop.content()])

    @property
    def title(self) -> str:
        return f"{self.method.title}: {self.case.pooled.title}"

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.tuning.id if self.tuning else self.case.pooled.id,)


Job = PooledProblem | Tuning | RunJob


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
        return list({job.id: job for run in self.runs for job in _with_needs(run)}.values())

    @property
    def tunings(self) -> list[Tuning]:
        return [job for job in self.jobs if isinstance(job, Tuning)]

    def without(self, refused: Mapping[tuple[str, str], str]) -> Plan:
        """The plan without methods on the cases that they do not apply to, by case and method."""
        left = [run for run in self.runs if (run.case.id, run.method.title) not in refused]
        sentences = [
            f"{method} is left out for {case.pooled.problem.name} on {case.pooled.data_title}"
            f"{f', {case.network.title}' if len(self.experiment.network) > 1 else ''}: {reason}"
            for case in self.cases
            for (id, method), reason in refused.items()
            if id == case.id
        ]
        return replace(self, runs=left, left_out=list(dict.fromkeys(sentences)))

    def index(self, environment: index.Environment | None = None) -> index.Index:
        """What the report must know of the plan."""
        e = self.experiment
        graphs = {case.network.title: case.network.graph_of_all(e.seeds) for case in self.cases}
        named = {title: index.ShownNetwork.of(graph) if graph else None for title, graph in graphs.items()}
        return index.Index(
            title=e.title, config=e.to_toml(self.kept_plugins), seeds=list(e.seeds), axes=list(e.axes),
            metrics=[metric_name(m) for m in e.metrics], band=e.band or "range",
            link=e.link,
            max_passes=max(run.stop.max_passes for run in self.runs), left_out=self.left_out,
            data=dict(self.sources.data), plugins=self._code(),
            networks=dict(named), cases=[case.shown() for case in self.cases],
            methods=[_shown_method(m) for m in e.method],
            runs=[index.ShownRun(id=r.id, case=r.case.id, method=r.method.title, seed=r.seed) for r in self.runs],
            searches=[index.PlannedSearch(id=t.id, case=t.case.id, method=t.method.title) for t in self.tunings],
            environment=environment or index.Environment(),
        )  # fmt: skip

    def _code(self) -> dict[str, str]:
        """The digests of plugins by where they are kept, and of objects by their names."""
        e = self.experiment
        named = {self.kept_plugins[name]: digest for name, digest in self.sources.code.items()}
        own: list[tuple[str, Any]] = [(p.name, p.operator) for p in e.problem] + [
            (m.title, m.algorithm) for m in e.method
        ]
        own += [(metric_name(m), m) for m in e.metrics]
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
    runs = []
    for case, method in product(cases, e.method):
        stop, code = e.stop.model_copy(update=method.budgets), known.code_of(method.algorithm)
        tuning = None
        if method.tuned:
            searched = method if stop.max_doubles else method.same_iterates()  # a budget of DOUBLEs is of what is sent
            tuning = Tuning(case, searched, e.tune, stop, e.tune.seeds or e.seeds[:1], code)
        runs += [RunJob(case, method, seed, stop, tuning, code) for seed in e.seeds]
    return Plan(e, known, cases, runs, [])


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


def _shown_method(method: Method) -> index.ShownMethod:
    return index.ShownMethod(
        title=method.title, iterates=_iterates(method), algorithm=titles.class_name(method.name),
        settings=method.settings,
    )  # fmt: skip


def _with_needs(run: RunJob) -> Iterator[Job]:
    yield run.case.pooled
    if run.tuning:
        yield run.tuning
    yield run


def _method(method: Method, code: str) -> dict[str, Any]:
    """The method's settings without its label, the path of its file, and its budgets, which are the run's."""
    content = {key: value for key, value in method.content().items() if key not in BUDGETS}
    named = titles.class_name(method.name) if isinstance(method.algorithm, str) else repr(method.algorithm)
    return content | {"label": "", "algorithm": [named, code]}


def _iterates(method: Method) -> str:
    return json.dumps(method.same_iterates().content(), sort_keys=True)


def _identifier(words: list[str], content: Any) -> str:
    """An identifier: readable words, and a fingerprint of the words and of the content, which makes it unique."""
    readable = "-".join(re.sub(r"-[0-9a-f]{16}$", "", word) for word in words)  # fingerprints in words: once is enough
    text = json.dumps([words, content], sort_keys=True)
    fingerprint = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{re.sub(r'[^a-z0-9.]+', '-', readable.lower())[:120]}-{fingerprint}"
