"""The named splits: every row at one node, no empty node, and what each name promises."""

from __future__ import annotations

import numpy as np
import pytest

from dsba.data.splits import EXAMPLES, SPLITS, dealt, parsed
from dsba.errors import InputError

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(600, 6)), RNG.integers(0, 5, 600)
N = 8


class Columns(np.ndarray):
    """A matrix with the one method of sparse ones that a split uses."""

    def toarray(self):
        return np.asarray(self)


def held(split, y=Y, n_nodes=N, seed=0):
    """The rows of every node."""
    table = np.round(X[: len(y)]).view(Columns)
    order, sizes = dealt(split, table, y, n_nodes, seed)
    assert sorted(order) == list(range(len(y)))
    assert sizes.sum() == len(y)
    assert sizes.min() >= 1
    return np.split(order, np.cumsum(sizes)[:-1])


@pytest.mark.parametrize("split", EXAMPLES)
def test_every_row_is_at_one_node_and_the_seed_decides(split):
    one, same, other = (held(split, seed=seed) for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(one, same, strict=True))
    if not split.startswith("column"):
        assert any(a.size != b.size or (a != b).any() for a, b in zip(one, other, strict=True))


def test_stratified_parts_have_the_same_classes():
    counts = np.array([np.bincount(Y[rows], minlength=5) for rows in held("stratified")])
    assert np.ptp(counts, axis=0).max() <= 1
    assert np.ptp(counts.sum(axis=1)) <= 1


@pytest.mark.parametrize("exponent", [0.5, 1.5, 3.0])
def test_sizes_fall_like_a_power_of_the_rank(exponent):
    sizes = np.array([len(rows) for rows in held(f"power:{exponent}")])
    shares = np.arange(1, N + 1) ** -exponent
    assert np.abs(sizes - 1 - (600 - N) * shares / shares.sum()).max() <= 1.0
    assert (np.diff(sizes) <= 1).all()


def test_a_node_gets_so_many_shards():
    """A shard of one label has one class, so that a node has no more classes than shards, but for those at a cut."""
    for rows in held("shards:1"):
        assert np.unique(Y[rows]).size <= 2
    assert max(np.unique(Y[rows]).size for rows in held("shards:2")) <= 4
    assert {len(rows) for rows in held("shards:3")} <= {74, 75, 76}
    with pytest.raises(InputError, match="a split into 1600 shards needs as many rows, and the data has 600"):
        held("shards:200")


@pytest.mark.parametrize("each", [1, 2, 4, 9])
def test_a_node_holds_so_many_classes(each):
    parts = held(f"classes:{each}")
    assert {np.unique(Y[rows]).size for rows in parts} == {min(each, 5)}
    with pytest.raises(InputError, match="3 nodes with 1 classes each have no place for 5 classes"):
        held("classes:1", n_nodes=3)


@pytest.mark.parametrize("kind", SPLITS)
def test_numbers_are_checked(kind):
    for text in ("x", "-1", "0", "nan", "inf", "1.5"):
        if SPLITS[kind].example and text != "x" and SPLITS[kind].fits(float(text)):
            assert parsed(f"{kind}:{text}") == (kind, float(text))
        else:
            with pytest.raises(InputError, match=f"{kind}:{text}"):
                parsed(f"{kind}:{text}")
    assert [parsed(example)[0] for example in EXAMPLES] == list(SPLITS)


def test_numbers_are_not_dealt_out_as_classes():
    with pytest.raises(InputError, match="the labels have 1200 values"):
        dealt("classes:2", X, np.arange(1200.0), N, 0)
