"""What is measured at a record point, and the one format it is kept in."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from dsba.algorithms.iterates import Iterates
from dsba.network.contract import ROWS_OF_DATA
from dsba.network.exact_sum import norm
from dsba.problem.problem import Problem
from dsba.types import Array

Metric = Callable[[Array], float]  # of the mean of the iterates
WORSE_OBJECTIVE = 1e-9  # of an objective: more than rounding
LARGEST_RESIDUAL = 1e6  # a residual this many times as large as those at the start and at 0 is called divergence


class Recorder:
    """Measures iterates: residual and consensus always, gap and distance where z* is known.

    objective  f(mean z), where the operator is the gradient of one
    gap        (f(mean z) - f*) / (f(0) - f*); not a number if f* is larger than f(0)
    distance   root mean square over nodes of ||z_n - z*||, over ||z*||
    residual   ||operator(mean z)|| / ||operator(0)||; with a penalty, of ``problem.residual`` (``residual_unit``)
    consensus  root mean square over nodes of ||z_n - mean z||, over ||mean z||
    auc        area under the ROC curve of the mean model on all data, for an operator that ranks

    and whatever ``metrics`` (name -> function of mean z) adds.
    """

    def __init__(
        self, problem: Problem, reference: Array | None = None, metrics: Mapping[str, Metric] | None = None
    ) -> None:
        self.problem = problem
        self.metrics = metrics or {}
        self.z_star = reference
        self.unit = problem.residual_unit
        if reference is not None and problem.has_objective:
            self.f_star = problem.objective(reference)
            self.f_range = problem.objective(np.zeros(problem.dim)) - self.f_star
            if self.f_range < -WORSE_OBJECTIVE * max(1.0, abs(self.f_star)):
                self.f_range = math.nan  # a point worse than 0 is no solution, and there is no gap to it

    def measure(self, iterates: Iterates) -> dict[str, float]:
        """All metrics. The caller lets BLAS use one thread: its bits depend on their number."""
        problem, mean = self.problem, iterates.mean
        images = np.empty((problem.y.size, problem.k))
        record = {"residual": norm(problem.pooled.residual(mean, images)) / self.unit}
        centers = {"consensus": mean} | ({} if self.z_star is None else {"distance": self.z_star})
        losses = problem.local.losses(images)[:, None] if problem.has_objective else np.empty((len(problem.nodes), 0))
        squares = iterates.totals([*centers.values()], losses)  # one question, since each takes time between sites
        if problem.has_objective:
            record["objective"] = problem.pooled.objective_of(mean, squares.pop())
        for name, center in centers.items():
            record[name] = _ratio(math.sqrt(squares.pop(0) / problem.n_nodes), norm(center))
        if self.z_star is not None and problem.has_objective:
            record["gap"] = _ratio(record["objective"] - self.f_star, self.f_range)
        if problem.component.ranks:
            labels, scores = (problem.group.gather(part, discloses=ROWS_OF_DATA) for part in (problem.y, images[:, 0]))
            record["auc"] = area_under_curve(labels, scores)
        return record | {name: float(metric(mean)) for name, metric in self.metrics.items()}

    def agree(self, consensus: float, mean: Array, tol: float) -> bool:
        """Whether the nodes are near their mean, given the recorded consensus.

        Their root mean square distance is at most ``tol`` times the larger of the mean's norm and ||operator(0)||/L.
        """
        size = norm(mean)
        spread = consensus * size if size > 0.0 else consensus
        return spread <= tol * size or spread * (self.problem.largest_plan + self.problem.lam) <= tol * self.unit


def _ratio(value: float, scale: float) -> float:
    return value if scale <= 0 else value / scale


def area_under_curve(y: Array, scores: Array) -> float:
    """The share of pairs that are ordered rightly; NaN if a score is not finite or there is one class only."""
    positive = y == y.max()
    n = int(positive.sum())
    pairs = n * (y.size - n)
    if pairs == 0 or not np.isfinite(scores).all():
        return float("nan")
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]  # equal scores share their mean rank
    return float((ranks[positive].sum() - n * (n + 1) / 2) / pairs)
