"""Which node holds which row: the named ways to split data.

random         equal parts, drawn at random
stratified     equal parts with the same classes: every class is dealt out evenly
power:1.5      parts drawn at random whose sizes fall like rank^-1.5
label          sorted by label, then cut: every node sees another part of the world
shards:2       sorted by label and cut into 2 N shards; every node gets 2 of them, drawn at random
classes:2      every node holds 2 classes; the rows of a class are dealt out among its nodes
dirichlet:0.3  each class is shared out by proportions drawn from a Dirichlet distribution with this alpha
column:4       rows with the same value in this column (counted from 0) are at one node

``SPLITS`` lists them. A split gets the data, the labels, the number of nodes, its own number and a generator, and gives
the order of the rows and the size of each node's part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dsba.errors import InputError, unknown_name
from dsba.types import Integers

MOST_CLASSES = 1000

Parts = tuple[Integers, Integers]  # the rows in node order, and how many each node gets


class Split(NamedTuple):
    """A way to split: how to deal, an example of its number as text ("" where it has none), what the number must be."""

    deal: Callable[[Any, Any, int, float, np.random.Generator], Parts]
    example: str = ""
    wanted: str = ""
    fits: Callable[[float], bool] = lambda number: True


def _random(X: Any, y: Any, n_nodes: int, number: float, rng: np.random.Generator) -> Parts:
    return _cut(rng.permutation(y.size), n_nodes)


def _label(X: Any, y: Any, n_nodes: int, number: float, rng: np.random.Generator) -> Parts:
    return _cut(_by_label(y, rng), n_nodes)


def _stratified(X: Any, y: Any, n_nodes: int, number: float, rng: np.random.Generator) -> Parts:
    """The rows sorted by label are dealt like cards."""
    nodes = np.empty(y.size, np.int64)
    nodes[_by_label(y, rng)] = np.arange(y.size) % n_nodes
    return _in_node_order(nodes, n_nodes)


def _power(X: Any, y: Any, n_nodes: int, number: float, rng: np.random.Generator) -> Parts:
    """Every node has at least one row."""
    shares = np.arange(1, n_nodes + 1) ** -number
    ends = np.round(np.cumsum(shares / shares.sum()) * (y.size - n_nodes)).astype(np.int64)
    return rng.permutation(y.size), np.diff(ends, prepend=0) + 1


def _shards(X: Any, y: Any, n_nodes: int, number: float, rng: np.random.Generator) -> Parts:
    each = int(number)
    if each * n_nodes > y.size:
        raise InputError(f"a split into {each * n_nodes} shards needs as many rows, and the data has {y.size}.")
    cuts = np.array_split(_by_label(y, rng), each * n_nodes)
    hands = [[cuts[shard] for shard in hand] for hand in rng.permutation(each * n_nodes).reshape(n_nodes, each)]
    return np.concatenate([rows for hand in hands for rows in hand]), np.array([sum(map(len, h)) for h in hands])


def _classes(X: Any, y: Any, n_nodes: int, number: float, rng: np.random.Generator) -> Parts:
    """The classes go round, so that every class has a node if there are enough places."""
    classes, numbers = _numbered(y)
    each = min(int(number), classes)
    if each * n_nodes < classes:
        raise InputError(f"{n_nodes} nodes with {each} classes each have no place for {classes} classes.")
    holders = [[n for n in range(n_nodes) if (c - n * each) % classes < each] for c in rng.permutation(classes)]
    nodes = np.empty(y.size, np.int64)
    for c, held_by in enumerate(holders):
        rows = rng.permutation(np.flatnonzero(numbers == c))
        nodes[rows] = np.asarray(held_by)[np.arange(rows.size) % len(held_by)]
    return _in_node_order(nodes, n_nodes)


def _dirichlet(X: Any, y: Any, n_nodes: int, number: float, rng: np.random.Generator) -> Parts:
    """Small alpha: a node has few classes. Large alpha: all nodes have the classes of the whole. No node is empty."""
    classes, numbers = _numbered(y)
    nodes = np.empty(numbers.size, np.int64)
    for c in range(classes):
        rows = rng.permutation(np.flatnonzero(numbers == c))
        shares = np.cumsum(rng.dirichlet(np.full(n_nodes, number)))
        nodes[rows] = np.searchsorted(np.round(shares * rows.size)[:-1], np.arange(rows.size), side="right")
    for empty in np.flatnonzero(np.bincount(nodes, minlength=n_nodes) == 0):
        largest = np.argmax(np.bincount(nodes, minlength=n_nodes))
        nodes[rng.choice(np.flatnonzero(nodes == largest))] = empty
    return _in_node_order(nodes, n_nodes)


def _column(X: Any, y: Any, n_nodes: int, number: float, rng: np.random.Generator) -> Parts:
    """One node for each value of the column, in increasing order."""
    column = int(number)
    if column >= X.shape[1]:
        raise InputError(f"the split names column {column}, and the data has {X.shape[1]}, counted from 0.")
    found, nodes = np.unique(np.asarray(X[:, [column]].toarray())[:, 0], return_inverse=True)
    if found.size > MOST_CLASSES:
        raise InputError(f"column {column} has {found.size} values, and one node each is more than {MOST_CLASSES}.")
    return _in_node_order(nodes.ravel(), found.size)


def _positive(number: float) -> bool:
    return 0 < number < np.inf


def _whole(number: float) -> bool:
    return number >= 1 and number.is_integer()


SPLITS = {
    "random": Split(_random),
    "stratified": Split(_stratified),
    "power": Split(_power, "1.5", "the exponent must be a positive number", _positive),
    "label": Split(_label),
    "shards": Split(_shards, "2", "the number of shards must be a whole number >= 1", _whole),
    "classes": Split(_classes, "2", "the number of classes must be a whole number >= 1", _whole),
    "dirichlet": Split(_dirichlet, "0.3", "alpha must be a positive number", _positive),
    "column": Split(_column, "4", "the column must be a whole number >= 0", lambda number: _whole(number + 1)),
}
EXAMPLES = tuple(f"{kind}:{split.example}" if split.example else kind for kind, split in SPLITS.items())


def parsed(split: str) -> tuple[str, float]:
    """The kind of a split and its number (0 where it has none), or an error."""
    kind, colon, text = split.partition(":")
    if kind not in SPLITS or bool(colon) != bool(SPLITS[kind].example):
        raise unknown_name("split", split, EXAMPLES)
    try:
        number = float(text or 0)
    except ValueError:
        raise InputError(f"split {split!r}: a number must follow the colon, got {text!r}.") from None
    if not SPLITS[kind].fits(number):
        raise InputError(f"split {split!r}: {SPLITS[kind].wanted}, got {text!r}.")
    return kind, number


def dealt(split: str, X: Any, y: Any, n_nodes: int, seed: int) -> Parts:
    """The rows in node order, and how many each node gets."""
    kind, number = parsed(split)
    return SPLITS[kind].deal(X, y, n_nodes, number, np.random.default_rng(seed))


def sortable(y: Any) -> Any:
    """The labels, or an error if some of them cannot be compared."""
    try:
        np.sort(y)
    except TypeError:
        raise InputError("labels must be of one kind, got a mixture that cannot be sorted.") from None
    return y


def _cut(order: Integers, n_nodes: int) -> Parts:
    return order, np.array([part.size for part in np.array_split(order, n_nodes)])


def _by_label(y: Any, rng: np.random.Generator) -> Integers:
    """The rows sorted by label, in random order within each."""
    order = rng.permutation(y.size)
    return order[np.argsort(sortable(y)[order], kind="stable")]


def _in_node_order(nodes: Integers, n_nodes: int) -> Parts:
    return np.argsort(nodes, kind="stable"), np.bincount(nodes, minlength=n_nodes)


def _numbered(y: Any) -> tuple[int, Integers]:
    """How many classes there are, and the number of each row's."""
    classes, numbers = np.unique(sortable(y), return_inverse=True)
    if classes.size > MOST_CLASSES:
        raise InputError(f"this split deals out classes, and the labels have {classes.size} values.")
    return classes.size, numbers
