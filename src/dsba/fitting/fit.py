"""From rows to the solution: agreement, evening out, intercept, start, solve."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dsba import algorithms, operators
from dsba._version import __version__
from dsba.algorithms import Algorithm
from dsba.algorithms.planner import MethodPlan
from dsba.engine.run import Callback, Result
from dsba.engine.solve import plan_of, solve
from dsba.errors import as_integer, as_number
from dsba.fitting.measures import LastRecord
from dsba.fitting.model import FitRun
from dsba.fitting.rows import Rows, RowTotals, measured, normalized, split_long_rows, sums
from dsba.fitting.spec import FitSpec
from dsba.graph.topology import Topology
from dsba.network import Alone, Group, require_agreement
from dsba.network.contract import ITERATES, TOTALS
from dsba.network.exact_sum import norm
from dsba.problem.pooled import LEAST_RESIDUAL
from dsba.problem.problem import PartWatch, Problem
from dsba.types import Array, Notify

Coefficients = tuple[Array, Array]  # weights (outputs x d) and intercepts (outputs)

FEWEST = 1e-10  # the least mean count to start from


@dataclass(frozen=True)
class Fit:
    """A solved problem."""

    problem: Problem
    result: Result
    n_rows: int
    """The rows of all processes, each counted once."""
    rounds_before: int = 0
    """The rounds before the method started. The network's counters no longer contain them."""

    @property
    def mean(self) -> Coefficients:
        """The mean model: weights (outputs x d) and intercepts (outputs)."""
        return self.problem.unpack(self.result.z)

    @property
    def nodes(self) -> Coefficients:
        """The models of this process's nodes, with a first axis for the node."""
        return self.problem.unpack(self.result.Z)

    @property
    def gathered(self) -> Array:
        """The iterates of all processes' nodes. Where a method discloses totals only, they follow from the totals."""
        discloses = TOTALS if self.result.algorithm.discloses == TOTALS else ITERATES
        return self.problem.gathered(self.result.Z, discloses=discloses)


def fit_rows(
    rows: Rows,
    spec: FitSpec,
    *,
    n_nodes: int = 10,
    size: RowTotals | None = None,
    network: Any = None,
    previous: Coefficients | None = None,
    extra: float = 0.0,
    checkpoint: Path | None = None,
    notify: Notify = lambda sentence: None,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
    watch: PartWatch | None = None,
) -> Fit:
    """Fit a model to rows.

    Parameters
    ----------
    n_nodes
        Nodes to split the rows over, if the rows do not name nodes.
    size
        Size of the rows of all processes, if it is known; with None the processes ask each other.
    network
        How several processes meet; then the rows are this process's, and the graph is the network's.
    previous
        The coefficients of an earlier fit, to start from.
    extra
        Where the operator's extra coordinates start.
    notify
        Called with the plan of "auto" before the method starts, line by line.
    watch
        Asked before this process sends its part of a Newton step.
    """
    group: Group = network or Alone()
    require_agreement(group, spec.alike())
    rows = normalized(rows) if spec.normalize else rows
    size = size or measured(rows, group)
    topology = network.topology if network else spec.topology(_wanted_nodes(rows, n_nodes))
    problem = _problem(split_long_rows(rows, size), spec, size, topology.n_nodes, network)
    problem.watch = watch
    start = cold = _cold_start(problem, rows, size, group, extra)
    tol = _tolerance(problem, cold, spec.tol)
    algorithm = _algorithm(spec, problem, topology, checkpoint, notify)
    if previous is not None:
        start, algorithm = packed(problem, cold, *previous), algorithm.warm_started()
    rounds = network.rounds if network else 0
    result = solve(
        problem, topology, algorithm, spec.step_size, spec.max_passes, tol, spec.seed, z0=start,
        communication=spec.communication, network=network, checkpoint=checkpoint, progress=progress,
        callbacks=list(callbacks),
    )  # fmt: skip
    return Fit(problem, result, size.rows, rounds)


def carried_out(done: Fit, spec: FitSpec, lam: float) -> tuple[FitSpec, FitRun]:
    """The specification with the lambda and the step size that were used, and how the fit went."""
    problem, result, group = done.problem, done.result, done.problem.group
    component: Any = problem.component
    run = FitRun(
        component.labels, component.decision, component.link, method=result.algorithm.name,
        plan=result.plan.reason if result.plan else None, status=result.status, message=result.message,
        nodes=problem.n_nodes, samples=done.n_rows, features=problem.n_features, processes=group.size,
        masked=group.masked, figures=LastRecord.of(result.history.last()),
        versions={"dsba": __version__, "python": platform.python_version(), "numpy": np.__version__},
    )  # fmt: skip
    return replace(spec, lam=lam, step_size=result.step_size), run


def _algorithm(
    spec: FitSpec, problem: Problem, topology: Topology, checkpoint: Path | None, notify: Notify
) -> Algorithm | MethodPlan:
    """The algorithm asked for, or the plan of "auto", which is told."""
    if spec.algorithm != "auto":
        return algorithms.get(spec.algorithm)
    given = spec.step_size != "auto" or spec.communication is not None
    wanted = {"accuracy": spec.tol, "max_passes": spec.max_passes}
    made = plan_of(problem, problem.group.network(topology), given, checkpoint, **wanted)
    for line in str(made).splitlines():
        notify(line[0].upper() + line[1:] if line == made.reason else line)
    return made


def _wanted_nodes(rows: Rows, n_nodes: int) -> int:
    if rows.nodes is not None:
        return int(rows.nodes.max(initial=0)) + 1
    return min(as_integer("n_nodes", n_nodes, at_least=1), len(rows.y))


def _problem(rows: Rows, spec: FitSpec, size: RowTotals, n_nodes: int, network: Any) -> Problem:
    """In one process all rows; on a network the shards of this process's nodes."""
    operator = operators.get(spec.operator)
    lam = 1.0 / (10 * size.rows) if spec.lam is None else spec.lam
    intercept = size.constant if spec.intercept and not operator.ranks else False  # ranks do not change with one
    if network is None:
        split = "random" if rows.nodes is None else rows.nodes
        return Problem.from_arrays(
            rows.X, rows.y, operator, n_nodes, lam, split, False, spec.seed,
            intercept=intercept, penalty=spec.penalty, sample_weight=rows.weight,
        )  # fmt: skip
    shards = [(rows.X[own], rows.y[own], rows.weight[own]) for own in rows.by_node]
    return Problem(
        shards, operator, lam, intercept=intercept, penalty=spec.penalty, group=network, classes=size.classes
    )


def _cold_start(problem: Problem, rows: Rows, size: RowTotals, group: Group, extra: float) -> Array:
    """The model with only an intercept."""
    z = np.zeros(problem.dim)
    z[problem.dim - problem.component.extra :] = extra
    if problem.classes is not None or not problem.intercept:
        return z
    mean = size.mean
    if mean is None:
        labels = np.asarray(rows.y, dtype=np.float64)
        total, weight = sums(rows, group, rows.weight * labels, rows.weight)
        mean = total / weight
    if problem.component.labels == "count":
        mean = max(mean, FEWEST)
    link = problem.component.link
    score = mean if link is None else operators.link_of(link).score(np.array(mean))
    return packed(problem, z, np.zeros((1, 1)), np.array([float(score)]))


def _tolerance(problem: Problem, cold: Array, tol: float) -> float:
    """``tol`` as ``solve`` takes it, relative to the residual at 0.

    A fit's is relative to the one at ``cold`` if that is smaller, so that it does not depend on where the labels lie.
    It does not fall below rounding.
    """
    tol = as_number("tol", tol, at_least=0.0)
    if not cold.any():
        return tol
    share = norm(problem.pooled.residual(cold)) / problem.residual_unit
    return max(tol * min(1.0, share), min(tol, LEAST_RESIDUAL))


def packed(problem: Problem, z: Array, weights: Array, intercepts: Array) -> Array:
    """z with the given weights (outputs x d) and intercepts: what ``problem.unpack`` takes apart."""
    z = z.copy()
    part = z[: problem.component.copies * problem.n_features].reshape(problem.n_features, problem.component.copies)
    part[:] = weights.T
    if problem.intercept:
        constant = slice(part.size, part.size + problem.component.copies)
        z[constant] = intercepts / problem.intercept
    return z
