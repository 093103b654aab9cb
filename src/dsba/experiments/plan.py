"""From an experiment to its jobs: references, step-size searches and runs, each with a stable identifier.

An identifier is made of what the job computes and of nothing else. So a finished job is known again after
methods, data or seeds were added around it, and is not mistaken for one with other settings.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from dsba import operators
from dsba._version import __version__
from dsba.experiments.spec import Data, Experiment, Method, Network, Problems, Stop, Tune, refusal


@dataclass(frozen=True)
class Pooled:
    """A problem on all of a data set: what a reference belongs to, whatever network it is solved over."""

    data: Data
    problem: Problems

    @property
    def id(self) -> str:
        content = [self.data.content() | {"label": ""}, self.problem.content()]
        return _identifier([Path(self.data.name).name, self.problem.operator], content)

    @property
    def data_title(self) -> str:
        """The data set's name, and that it was made one of two classes."""
        changed = self.data.binarisation and operators.get(self.problem.operator).labels != "multiclass"
        return self.data.title + (" (binarised)" if changed and not self.data.label else "")

    @property
    def title(self) -> str:
        return f"{self.problem.title}, {self.data_title}"

    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """A problem over a network, split in one way: one set of axes, one table, a curve per method."""

    pooled: Pooled
    network: Network
    split: str

    @property
    def id(self) -> str:
        network = self.network.content() | {"topology": self.network.topology.digest()}
        words = [self.pooled.id, self.network.topology.name, self.split]
        return _identifier(words, [network])

    @property
    def title(self) -> str:
        return f"{self.pooled.title}; {self.network.title}; split {self.split}"


@dataclass(frozen=True)
class Tuning:
    """The search for a method's step size on a case, with the experiment's first seed."""

    case: Case
    method: Method
    tune: Tune
    stop: Stop
    seed: int

    @property
    def id(self) -> str:
        settings = [self.passes, self.seed, self.stop.gap_tol, self.stop.tol, self.stop.record_every]
        words = [self.case.pooled.id, "tune", self.method.algorithm]
        return _identifier(words, [self.case.id, _method(self.method.same_iterates()), settings])

    @property
    def title(self) -> str:
        return f"step size of {self.method.same_iterates().title}: {self.case.pooled.title}"

    @property
    def passes(self) -> float:
        """The budget of the last round."""
        return self.tune.passes or self.stop.max_passes

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.case.pooled.id,)


@dataclass(frozen=True)
class Run:
    """One method on one case with one seed."""

    case: Case
    method: Method
    seed: int
    stop: Stop
    tuning: Tuning | None

    @property
    def id(self) -> str:
        step = self.tuning.id if self.tuning else self.method.step_size
        words = [self.case.pooled.id, self.method.title, f"s{self.seed}"]
        return _identifier(words, [self.case.id, _method(self.method), step, self.stop.content()])

    @property
    def title(self) -> str:
        return f"{self.method.title}: {self.case.pooled.title}"

    @property
    def needs(self) -> tuple[str, ...]:
        return (self.tuning.id if self.tuning else self.case.pooled.id,)


Job = Pooled | Tuning | Run


@dataclass(frozen=True)
class Plan:
    """All jobs in the order to start them: neighbours share data, and what is needed comes first."""

    experiment: Experiment
    cases: list[Case]
    runs: list[Run]
    left_out: list[str]  # why a method does not appear on a problem, a sentence each

    @property
    def jobs(self) -> list[Job]:
        return list({job.id: job for run in self.runs for job in _with_needs(run)}.values())

    @property
    def tunings(self) -> list[Tuning]:
        return [job for job in self.jobs if isinstance(job, Tuning)]

    def of(self, case: Case) -> list[Run]:
        return [run for run in self.runs if run.case is case]


def make(experiment: Experiment) -> Plan:
    """Every combination; methods that do not apply to a problem are left out, with the reason."""
    e = experiment
    cases = [Case(Pooled(d, p), n, s) for d, p, n, s in product(e.data, e.problem, e.network, e.splits)]
    runs, left_out = [], []
    for case, method in product(cases, e.method):
        if reason := refusal(method, case.pooled.problem, case.network.topology.n_nodes):
            left_out.append(f"{method.title} is left out for {case.pooled.problem.operator}: {reason}")
            continue
        tuning = Tuning(case, method, e.tune, e.stop, e.seeds[0]) if method.tuned else None
        runs += [Run(case, method, seed, e.stop, tuning) for seed in e.seeds]
    return Plan(e, cases, runs, list(dict.fromkeys(left_out)))


def _with_needs(run: Run) -> Iterator[Job]:
    yield run.case.pooled
    if run.tuning:
        yield run.tuning
    yield run


def _method(method: Method) -> dict[str, Any]:
    return method.content() | {"label": ""}


def _identifier(words: list[str], content: Any) -> str:
    """Readable words, and a fingerprint of them, the content and the version that makes it unique."""
    readable = "-".join(re.sub(r"-[0-9a-f]{8}$", "", word) for word in words)  # fingerprints in words: once is enough
    text = json.dumps([__version__, words, content], sort_keys=True)
    fingerprint = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    return f"{re.sub(r'[^a-z0-9.]+', '-', readable.lower())}-{fingerprint}"
