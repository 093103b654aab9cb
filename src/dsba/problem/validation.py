"""What people give is made CSR of float64 and checked here, before anything is computed."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dsba import operators
from dsba.data import splits
from dsba.errors import InputError, as_array, as_integer, as_number, require_known
from dsba.network import Group
from dsba.network.contract import TOTALS
from dsba.operators import Operator
from dsba.operators.penalties import Penalty
from dsba.types import Array

LEAST_LAMBDA = 1e-300  # other than 0; step sizes of smaller ones overflow or vanish


class GivenSamples(NamedTuple):
    """The samples held here, node after node."""

    X: sp.csr_array
    y: Any
    weights: Array
    sizes: npt.NDArray[np.int64]


class Terms(NamedTuple):
    """What is to be made of the samples; all processes must have been given the same."""

    component: Operator
    lam: float | None
    regularize: str
    intercept: float
    penalty: Penalty | None
    classes: tuple[Any, ...] | None = None
    """The labels of all processes, sorted; None if they must be asked for."""


def of_shards(shards: Any) -> GivenSamples:
    """The samples of a list of (X, y) or (X, y, weights), one for each node."""
    tuples = isinstance(shards, (list, tuple)) and all(isinstance(s, (list, tuple)) for s in shards)
    if not tuples or any(len(s) not in (2, 3) for s in shards):
        raise InputError(f"shards must be a list of pairs (X, y), got {_kinds(shards)}.")
    if len(shards) == 0:
        raise InputError("a problem needs at least one shard (X, y), got none.")
    blocks = [as_csr(X, f"shard {n}") for n, (X, *_) in enumerate(shards)]
    sizes, widths = np.array([X.shape for X in blocks]).T
    if len(set(widths)) > 1:
        raise InputError(f"shards must have the same number of columns, got {widths.tolist()}.")
    given = [(f"shard {n}", size, *s[1:], None) for n, (size, s) in enumerate(zip(sizes, shards, strict=True))]
    labels = [as_labels(y, size, where) for where, size, y, *_ in given]
    weights = [as_weights(weight, size, where) for where, size, _, weight, *_ in given]
    kinds = {"a string" if y.dtype.kind in "US" else "a number" for y in labels if y.dtype.kind != "O"}
    if len(kinds) > 1:
        raise InputError("the labels of all shards must be of one kind, got strings in one and numbers in another.")
    X = blocks[0] if len(blocks) == 1 else sp.csr_array(sp.vstack(blocks, format="csr"))
    return GivenSamples(X, np.concatenate(labels), np.concatenate(weights), sizes)


def checked_terms(
    operator: str | Operator,
    lam: float | None,
    regularize: str,
    intercept: bool | float,
    penalty: Penalty | None,
    classes: Iterable[Any] | None = None,
) -> Terms:
    """The terms as they were given, each checked."""
    require_known("regularize", regularize, ("weights", "all"))
    constant = float(intercept) if isinstance(intercept, bool) else as_number("intercept", intercept, above=0)
    component, lam = operators.get(operator), None if lam is None else _as_lambda(lam)
    if penalty is not None and not isinstance(penalty, Penalty):
        raise InputError(f"penalty must be a dsba.penalties.Penalty or None, got {type(penalty).__name__}.")
    if penalty is not None and not component.has_loss:
        raise InputError(f"a penalty needs an objective, and {type(component).__name__} has none.")
    return Terms(component, lam, regularize, constant, penalty, None if classes is None else tuple(classes))


def _as_lambda(given: Any) -> float:
    lam = as_number("lam", given, at_least=0.0)
    if not np.isfinite(lam):
        raise InputError(f"lam must be finite, got {lam!r}.")
    if 0.0 < lam < LEAST_LAMBDA:
        raise InputError(f"lam must be 0 or at least {LEAST_LAMBDA:g}, got {lam!r}.")
    return lam


def _kinds(shards: Any) -> str:
    """What was given in place of shards, without a number of it."""
    if not isinstance(shards, (list, tuple)):
        return type(shards).__name__
    return f"a {type(shards).__name__} of " + ", ".join(sorted({type(s).__name__ for s in shards}))


def as_csr(X: Any, where: str) -> sp.csr_array:
    """CSR float64 with sorted indices; the caller's matrix is never changed."""
    X = X if sp.issparse(X) else as_array(where, X)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise InputError(f"{where} must be a matrix of numbers, got shape {X.shape}, dtype {X.dtype}.")
    csr = sp.csr_array(X, dtype=np.float64)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    bad = np.flatnonzero(~np.isfinite(csr.data))
    if bad.size:
        row = int(np.searchsorted(csr.indptr, bad[0], side="right")) - 1
        raise InputError(f"{where} must be finite, the number in row {row}, column {csr.indices[bad[0]]} is not.")
    return csr


def as_labels(y: Any, n_rows: int, where: str) -> npt.NDArray[Any]:
    y = as_array(f"the labels of {where}", y)
    if y.shape != (n_rows,):
        raise InputError(f"{where} needs one label per row, got labels of shape {y.shape} for {n_rows} rows.")
    return y


def as_weights(weights: Any, n_rows: int, where: str) -> Array:
    """One weight >= 0 per row; None is 1 for each."""
    if weights is None:
        return np.ones(n_rows)
    weights = as_array(f"the sample weights of {where}", weights)
    if weights.shape != (n_rows,) or weights.dtype.kind not in "biuf":
        got = f"shape {weights.shape}, dtype {weights.dtype}"
        raise InputError(f"{where} needs one sample weight per row, got {got} for {n_rows} rows.")
    weights = weights.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if bad.size:
        raise InputError(f"the sample weights of {where} must be finite and >= 0, that of row {bad[0]} is not.")
    return weights


def require_weight(total: float) -> None:
    """An error if no sample of any process has a weight."""
    if not total > 0.0:
        raise InputError("all sample weights are zero: there is nothing to learn from.")


def map_labels(y: npt.NDArray[Any], terms: Terms, group: Group) -> tuple[Array, npt.NDArray[Any] | None]:
    """Labels as float64: two-valued ones as -1, +1, classes as 0, 1, 2, ..., with the values remembered."""
    component, name = terms.component, type(terms.component).__name__
    if component.labels in ("binary", "multiclass"):
        if y.dtype.kind == "f":
            _require_finite(y, name)
        classes = _all_classes(np.unique(splits.sortable(y)), terms.classes, group)
        numbers = np.searchsorted(classes, y)
        if component.labels == "multiclass" and classes.size >= 2:
            return numbers.astype(np.float64), classes
        if classes.size != 2:
            wanted = "exactly two values" if component.labels == "binary" else "at least two values"
            raise InputError(f"{name} needs labels of {wanted}, got {classes.size}.")
        return np.where(numbers == 1, 1.0, -1.0), classes
    try:
        if y.dtype.kind not in "biufO":
            raise TypeError
        labels = y.astype(np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} needs numbers as labels, got dtype {y.dtype}.") from None
    _require_finite(labels, name)
    if component.labels == "count" and labels.min(initial=0.0) < 0:
        raise InputError(f"{name} needs labels >= 0, {int((labels < 0).sum())} of {labels.size} are below.")
    return labels, None


def _require_finite(labels: npt.NDArray[Any], name: str) -> None:
    bad = int((~np.isfinite(labels)).sum())
    if bad:
        raise InputError(f"{name} needs finite labels, {bad} of {labels.size} are not finite or are missing.")


def _all_classes(own: npt.NDArray[Any], known: tuple[Any, ...] | None, group: Group) -> npt.NDArray[Any]:
    """The classes of all processes' samples, sorted; those that are known need not be asked for."""
    if known is not None:
        if not np.isin(own, known).all():
            raise InputError(f"some labels are not among the {len(known)} classes that were given.")
        return np.array(known)
    if group.size == 1:
        return own
    everyone = group.share(own.tolist(), discloses=TOTALS)
    kinds = {isinstance(value, str) for values in everyone for value in values}
    if len(kinds) > 1:
        raise InputError("the labels of all ranks must be of one kind, got strings at one and numbers at another.")
    return np.unique(np.array([value for values in everyone for value in values]))


def split_rows(X: Any, y: Any, n_nodes: int, split: str | npt.ArrayLike, seed: int) -> tuple[Any, Any]:
    """The rows in node order, and how many each node gets."""
    if isinstance(split, str):
        splits.parsed(split)
        n_nodes, seed = as_integer("n_nodes", n_nodes, at_least=1), as_integer("seed", seed, at_least=0)
        if n_nodes > y.size:
            raise InputError(f"n_nodes must be between 1 and the number of rows, {y.size}, got {n_nodes}.")
        return splits.dealt(split, X, y, n_nodes, seed)
    nodes = as_array("split", split)
    if nodes.shape != y.shape or nodes.dtype.kind not in "iu" or nodes.min(initial=0) < 0:
        raise InputError(
            f"split must be a name or one node number >= 0 per row, got an array of shape {nodes.shape}, "
            f"dtype {nodes.dtype} for {y.size} rows."
        )
    if nodes.max(initial=0) >= y.size:
        raise InputError(f"split names node {nodes.max()}, but {y.size} rows can fill at most {y.size} nodes.")
    return np.argsort(nodes, kind="stable"), np.bincount(nodes)
