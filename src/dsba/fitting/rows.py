"""Rows on their way into a problem: who holds them, how long they are, and how long rows become several."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dsba.errors import InputError, NetworkError, as_array
from dsba.kernels.samples import normalize_rows
from dsba.network import Group
from dsba.problem.validation import require_weight
from dsba.types import Array, Integers

EVEN = 2.0  # a row this many times the mean squared norm is held as several rows that share its weight
CONSTANT = 0.5  # the constant column that carries the intercept, relative to the rows' norms


class Rows(NamedTuple):
    """The samples of this process. ``nodes`` is None where the problem shall split them over nodes."""

    X: sp.csr_array
    y: npt.NDArray[Any]
    weight: Array
    nodes: Integers | None

    @property
    def by_node(self) -> list[Integers]:
        """The places of each node's rows; of one node, if the problem shall split them."""
        nodes = np.zeros(len(self.y), np.int64) if self.nodes is None else self.nodes
        return [np.flatnonzero(nodes == n) for n in np.unique(nodes)]


def as_rows(X: Any, y: npt.NDArray[Any], weight: Array | None = None, nodes: Integers | None = None) -> Rows:
    """Rows in CSR, each column of a row once; the weight of each is 1 unless given."""
    X = sp.csr_array(X, dtype=np.float64)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return Rows(X, y, np.ones(len(y)) if weight is None else weight, nodes)


def numbered(nodes: Any, n_rows: int) -> Integers:
    """The node of each row as a number; names are numbered in sorted order."""
    nodes = as_array("nodes", nodes)
    if nodes.shape != (n_rows,):
        raise InputError(f"nodes must name the node of each row, got shape {nodes.shape} for {n_rows} rows.")
    if nodes.dtype.kind in "iu":
        return nodes.astype(np.int64)
    if missing := sum(name is None or name != name for name in nodes.tolist()):
        raise InputError(f"nodes must name the node of each row, and {missing} rows have none.")
    try:
        return np.unique(nodes, return_inverse=True)[1].astype(np.int64)
    except TypeError:
        raise InputError("nodes must be all numbers or all names, got a mixture.") from None


def normalized(rows: Rows) -> Rows:
    """Every row scaled to norm 1; empty ones stay empty."""
    X = rows.X.copy()
    normalize_rows(X.indptr, X.data)
    return rows._replace(X=X)


def sums(rows: Rows, group: Group, *columns: npt.NDArray[Any]) -> list[float]:
    """The sum of each column over the rows of all processes; NaN if anything in it is not finite.

    It is made node by node, so that it does not depend on which process holds a node. Every column is summed by
    itself, as one of much larger numbers would cost the others digits.
    """
    return [float(group.sum(np.array([[_sum(column[at])] for at in rows.by_node]))[0]) for column in columns]


def _sum(values: npt.NDArray[Any]) -> float:
    """The correctly rounded sum; the order of the numbers does not matter."""
    try:
        return math.fsum(values.tolist())
    except OverflowError:
        return math.inf


class RowTotals(NamedTuple):
    """Integers about the rows of all processes together."""

    rows: int
    weight: float
    squared_norms: float  # times the weights
    mean: float | None = None  # of the labels, times the weights, where it is known already
    classes: tuple[int, ...] | None = None  # the labels that occur, where they are known already

    @property
    def constant(self) -> float:
        """The value of the constant column: large enough to be found quickly, small beside the rows."""
        return CONSTANT * math.sqrt(self.squared_norms / self.weight) or 1.0


def measured(rows: Rows, group: Group) -> RowTotals:
    """The number of rows, the sum of their weights, and the sum of their weighted squared norms."""
    count, weight = sums(rows, group, np.ones(len(rows.y)), rows.weight)
    require_weight(weight)
    return RowTotals(int(count), weight, weighted_squares(rows, group))


def weighted_squares(rows: Rows, group: Group) -> float:
    """The sum of the weighted squared norms of the rows of all processes."""
    with np.errstate(over="ignore"):
        (squares,) = sums(rows, group, rows.weight * squared_norms(rows.X))
    if not math.isfinite(squares):
        raise InputError("the rows are so long that their squared norms overflow: scale the columns.")
    return squares


def squared_norms(X: sp.csr_array) -> Array:
    return np.asarray(X.multiply(X).sum(axis=1)).ravel()


def split_long_rows(rows: Rows, size: RowTotals) -> Rows:
    """Rows much longer than the mean of all, each as several copies that share its weight.

    The problem stays the same. But a step size is planned for the hardest sample, and one is drawn as often
    as another: a few long rows would hold all back.
    """
    times = copies(rows, size)
    if times.max(initial=1) == 1:
        return rows
    at = np.repeat(np.arange(times.size), times)
    nodes = None if rows.nodes is None else rows.nodes[at]
    return Rows(rows.X[at], rows.y[at], (rows.weight / times)[at], nodes)


def copies(rows: Rows, size: RowTotals) -> Integers:
    """As how many rows each is held: at most 1/EVEN of all are added, as the squared norms of ``size`` are theirs."""
    hardness = rows.weight * squared_norms(rows.X)
    allowed = max(EVEN * size.squared_norms / size.rows, 1e-300)
    return np.maximum(1, np.ceil(hardness / allowed)).astype(np.int64)


def finite_largest(group: Group, values: Array) -> Array:
    """The largest of all processes' numbers; an error if another one sent something that is no finite number."""
    found = group.largest(values)
    if not np.isfinite(found).all():
        raise NetworkError("the largest of all processes' numbers is not finite: another process sent a wrong one.")
    return found
