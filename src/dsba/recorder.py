"""What is measured at a record point, and the one format it is kept in."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dsba.errors import InputError
from dsba.exact import norm
from dsba.network.contract import ROWS_OF_DATA
from dsba.parallel import one_blas_thread
from dsba.problem import Problem
from dsba.types import Array

Metric = Callable[[Array], float]  # of the mean of the iterates
WORSE = 1e-9  # of an objective: more than rounding
LARGEST = 1e6  # a residual this many times as large as those at the start and at 0 is called divergence


class History:
    """Columns of numbers, one entry per record point. ``history["gap"]`` is an array."""

    def __init__(self, columns: Mapping[str, npt.ArrayLike] | None = None) -> None:
        self._columns: dict[str, list[float]] = {
            name: [float(v) for v in np.asarray(values).ravel()] for name, values in (columns or {}).items()
        }

    def append(self, record: Mapping[str, float]) -> None:
        """Add one record; every record of a history has the same columns."""
        if self._columns and set(record) != set(self._columns):
            raise ValueError(f"record has columns {sorted(record)}, the history {sorted(self._columns)}")
        for name, value in record.items():
            self._columns.setdefault(name, []).append(float(value))

    @property
    def columns(self) -> list[str]:
        return list(self._columns)

    def __getitem__(self, name: str) -> Array:
        if name not in self._columns:
            hint = " Pass reference=True for gap and distance." if name in ("gap", "distance") else ""
            raise KeyError(f"no column {name!r}; there are {', '.join(self._columns)}.{hint}")
        return np.array(self._columns[name])

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), []))

    def last(self) -> dict[str, float]:
        """The newest record."""
        return {name: values[-1] for name, values in self._columns.items()}

    def to_dict(self) -> dict[str, Array]:
        return {name: self[name] for name in self._columns}

    def to_frame(self) -> Any:
        """A pandas DataFrame (pandas is an optional dependency)."""
        try:
            import pandas as pd
        except ImportError:
            raise InputError("to_frame needs pandas: install dsba[frame].") from None
        return pd.DataFrame(self.to_dict())

    def __repr__(self) -> str:
        return f"History({len(self)} records: {', '.join(self._columns)})"


class Iterates(Protocol):
    """The iterates of all nodes, as far as measuring goes."""

    @property
    def mean(self) -> Array: ...

    @property
    def kept(self) -> Array | None:
        """One row for each node held here, or None where rows would have to be made."""
        ...

    def squares(self, center: Array) -> float:
        """The sum over all nodes of ||z_n - center||^2."""
        ...


class StackedRows:
    """Iterates that are held as rows."""

    def __init__(self, problem: Problem, Z: Array) -> None:
        self.problem, self.kept, self.mean = problem, Z, problem.mean(Z)

    def squares(self, center: Array) -> float:
        """One row at a time, to save memory."""
        return float(self.problem.total(np.array([np.sum((z - center) ** 2) for z in self.kept])))


class MeanAndScatter:
    """Iterates of which the mean and the sum of ||z_n - mean||^2 are known."""

    kept = None

    def __init__(self, n_nodes: int, mean: Array, scatter: float) -> None:
        self.n_nodes, self.mean, self.scatter = n_nodes, mean, scatter

    def squares(self, center: Array) -> float:
        if center is self.mean:
            return self.scatter
        return self.scatter + self.n_nodes * float(np.sum((self.mean - center) ** 2))


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
            if self.f_range < -WORSE * max(1.0, abs(self.f_star)):
                self.f_range = math.nan  # a point worse than 0 is no solution, and there is no gap to it

    def measure(self, iterates: Iterates) -> dict[str, float]:
        """All metrics. In one thread: BLAS waits for its threads longer than it adds, and its bits depend on them."""
        with one_blas_thread():
            return self._measured(iterates)

    def _measured(self, iterates: Iterates) -> dict[str, float]:
        problem, mean = self.problem, iterates.mean
        images = np.empty((problem.y.size, problem.k))
        record = {
            "residual": norm(problem.residual(mean, images)) / self.unit,
            "consensus": self._distance(iterates, mean),
        }
        if problem.has_objective:
            record["objective"] = problem.objective(mean, images)
        if self.z_star is not None:
            record["distance"] = self._distance(iterates, self.z_star)
            if problem.has_objective:
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

    def _distance(self, iterates: Iterates, center: Array) -> float:
        """Root mean square over all nodes of ||z_n - center||, over ||center||."""
        spread = math.sqrt(iterates.squares(center) / self.problem.n_nodes)
        return _ratio(spread, norm(center))


def _ratio(value: float, scale: float) -> float:
    return value if scale <= 0 else value / scale


def area_under_curve(y: Array, scores: Array) -> float:
    """The share of pairs that are ordered rightly; not a number while the scores are not finite."""
    from sklearn.metrics import roc_auc_score  # not for every import of dsba

    return float(roc_auc_score(y, scores)) if np.isfinite(scores).all() else float("nan")
