"""Which node holds which row: the named ways to split data.

random         equal parts, drawn at random
label          sorted by label, then cut: every node sees another part of the world
dirichlet:0.3  each class is shared out by proportions drawn from a Dirichlet distribution with this alpha
column:4       rows with the same value in this column (counted from 0) are at one node
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dsba.errors import InputError, unknown_name
from dsba.types import Integers

SPLITS = ("random", "label", "dirichlet:0.3", "column:4")
MOST_CLASSES = 1000


def parsed(split: str) -> tuple[str, float]:
    """The kind of a split and its number (0 where it has none), or an error."""
    kind, colon, text = split.partition(":")
    wanted = {"random": False, "label": False, "dirichlet": True, "column": True}
    if kind not in wanted or bool(colon) != wanted[kind]:
        raise unknown_name("split", split, SPLITS)
    try:
        number = float(text or 0)
    except ValueError:
        raise InputError(f"split {split!r}: a number must follow the colon, got {text!r}.") from None
    if kind == "dirichlet" and not 0 < number < np.inf:
        raise InputError(f"split {split!r}: alpha must be a positive number, got {text!r}.")
    if kind == "column" and not (number >= 0 and number.is_integer()):
        raise InputError(f"split {split!r}: the column must be a whole number >= 0, got {text!r}.")
    return kind, number


def by_column(X: Any, column: int) -> Integers:
    """The node of each row: one node for each value of the column, in increasing order."""
    if column >= X.shape[1]:
        raise InputError(f"the split names column {column}, and the data has {X.shape[1]}, counted from 0.")
    values = np.asarray(X[:, [column]].toarray())[:, 0]
    found, nodes = np.unique(values, return_inverse=True)
    if found.size > MOST_CLASSES:
        raise InputError(f"column {column} has {found.size} values, and one node each is more than {MOST_CLASSES}.")
    return nodes.astype(np.int64).ravel()


def dirichlet(y: Any, n_nodes: int, alpha: float, seed: int) -> Integers:
    """The node of each row; each class is dealt out by its own proportions, and no node stays empty.

    Small alpha: a node has few classes. Large alpha: all nodes have the classes of the whole.
    """
    classes, numbers = np.unique(y, return_inverse=True)
    if classes.size > MOST_CLASSES:
        raise InputError(f"a Dirichlet split deals out classes, and the labels have {classes.size} values.")
    rng, nodes = np.random.default_rng(seed), np.empty(numbers.size, np.int64)
    for c in range(classes.size):
        rows = rng.permutation(np.flatnonzero(numbers == c))
        shares = np.cumsum(rng.dirichlet(np.full(n_nodes, alpha)))
        nodes[rows] = np.searchsorted(np.round(shares * rows.size)[:-1], np.arange(rows.size), side="right")
    for empty in np.flatnonzero(np.bincount(nodes, minlength=n_nodes) == 0):
        largest = np.argmax(np.bincount(nodes, minlength=n_nodes))
        nodes[rng.choice(np.flatnonzero(nodes == largest))] = empty
    return nodes
