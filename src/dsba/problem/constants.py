"""What step-size rules are made of: bounds on the slopes of components and of local operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dsba.errors import InputError
from dsba.network.contract import TOTALS
from dsba.types import Array

if TYPE_CHECKING:
    from dsba.problem.problem import Problem

POWER_ITERATIONS = 40


@dataclass(frozen=True)
class Constants:
    """What step-size rules are made of, for the weighted components c_n B_i."""

    L: float  # the largest Lipschitz constant of a component; infinite where there is none
    L_plan: float  # the largest constant to plan with; always finite
    L_mean: float  # the mean of those
    mu: float  # strong monotonicity: lambda, or 1/(10 Q) to plan with where lambda is 0
    q: int  # samples at the largest node


def local_smoothness(problem: Problem) -> Array:
    """Of every node, a Lipschitz constant of the local operator without Lambda, to plan step sizes with.

    The largest eigenvalue of (c_n/q_n) sum_i h_i A_i' A_i, h_i the slope bounds, by power
    iteration; five percent more, as that approaches it from below. Where the operator is affine and its Jacobian
    not symmetric (AUC), the largest singular value of the Jacobian itself: bounds would forget that the parts of
    its samples cancel.
    """
    if problem.component.has_saddle:
        J = problem.component.jacobians(problem.y)
        factors = [J, J.swapaxes(1, 2)]
    else:
        slopes = problem.component.planning_slopes(problem.y)
        _require_planned(problem, float(slopes.max(initial=0.0)))
        factors = [slopes[:, None, None] * np.eye(problem.k)]
    Z = np.stack([np.random.default_rng([0, n]).normal(size=problem.dim) for n in problem.nodes])
    for t in range(POWER_ITERATIONS):
        norms = np.maximum(np.linalg.norm(Z, axis=1), 1e-300)
        products = np.einsum("icd,id->ic", factors[t % len(factors)], problem.local.images(Z / norms[:, None]))
        Z = problem.local.average(products)
    return problem.gathered(1.05 * np.linalg.norm(Z, axis=1), discloses=TOTALS)


def mean_curvature(problem: Problem) -> float:
    """The mean eigenvalue of the pooled Jacobian without Lambda, planned with the bounds on the slopes."""
    slopes = problem.sample_weight * problem.component.planning_slopes(problem.y)
    trace = problem.total(problem.sums(slopes * problem.squared_norms().sum(axis=1)))
    return float(trace) / problem.n_samples / problem.dim


def largest_plan(problem: Problem) -> float:
    """The largest constant of a component to plan with; infinite where nothing can be planned."""
    return _largest(problem, _plans(problem))


def _largest(problem: Problem, of_samples: Array) -> float:
    """The largest number of any sample of all processes."""
    largest = np.maximum.reduceat(of_samples, problem.start[:-1])
    return float(problem.gathered(largest, discloses=TOTALS).max())


def _plans(problem: Problem) -> Array:
    return problem.weight * problem.component.planning_constants(problem.squared_norms(), problem.y)


def constants(problem: Problem) -> Constants:
    """The numbers, the same at all processes."""
    s = problem.squared_norms()
    L = problem.weight * np.where(problem.weight > 0, problem.component.lipschitz_constants(s, problem.y), 0.0)
    largest, largest_plan, plan = _largest(problem, L), problem.largest_plan, _plans(problem)
    _require_planned(problem, largest_plan)
    if not largest_plan > 0:
        raise InputError("the data is all zero: there is nothing to learn from.")
    mean_plan = float(problem.total(problem.sums(plan))) / problem.n_samples
    mu = problem.lam if problem.lam > 0 else 1.0 / (10 * problem.n_samples)
    return Constants(largest, largest_plan, mean_plan, mu, int(problem.all_sizes.max()))


def _require_planned(problem: Problem, bound: float) -> None:
    """An error unless there is a bound of the slopes that step sizes can be planned with."""
    if not np.isfinite(bound):
        raise InputError(
            f"no step size can be planned for {type(problem.component).__name__}: give its class a finite "
            "'lipschitz' (sup of slope), or its own planning_constants."
        )
