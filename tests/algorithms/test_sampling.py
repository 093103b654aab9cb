"""Which sample is drawn depends on the seed, the node, its size and the iteration, and on nothing else."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dsba.algorithms import sampling

SIZES = np.array([1, 2, 7, 40])
LONG = 4 * sampling.BLOCK + 17


@pytest.fixture(scope="module")
def long():
    return sampling.draw(3, SIZES, 0, LONG)


@settings(max_examples=100, deadline=None)
@given(first=st.integers(0, LONG), count=st.integers(0, LONG))
def test_a_part_is_a_slice_of_the_whole(long, first, count):
    count = min(count, LONG - first)
    part = sampling.draw(3, SIZES, first, count)
    assert part.shape == (count, SIZES.size)
    assert (part == long[first : first + count]).all()


@settings(max_examples=50, deadline=None)
@given(cuts=st.lists(st.integers(0, LONG), max_size=8))
def test_any_chunking_gives_the_same_samples(long, cuts):
    edges = [0, *sorted(cuts), LONG]
    parts = [sampling.draw(3, SIZES, a, b - a) for a, b in itertools.pairwise(edges)]
    assert (np.concatenate(parts) == long).all()


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**40),
    sizes=st.lists(st.integers(1, 1000), min_size=1, max_size=6),
    others=st.lists(st.integers(1, 1000), min_size=1, max_size=6),
)
def test_a_column_knows_nothing_of_the_other_nodes(seed, sizes, others):
    whole = sampling.draw(seed, sizes, 5, 30)
    changed = sampling.draw(seed, [*sizes, *others], 5, 30)
    assert (changed[:, : len(sizes)] == whole).all()
    for n, size in enumerate(sizes):  # an owner of node n alone, and one of a block of nodes
        assert (sampling.draw(seed, [size], 5, 30, first_node=n)[:, 0] == whole[:, n]).all()
        block = sampling.draw(seed, sizes[n:], 5, 30, first_node=n)
        assert (block == whole[:, n:]).all()
        alone = [1] * n + [size]
        assert (sampling.draw(seed, alone, 5, 30)[:, n] == whole[:, n]).all()


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**40), sizes=st.lists(st.integers(1, 10**6), min_size=1, max_size=5))
def test_samples_are_in_range(seed, sizes):
    drawn = sampling.draw(seed, sizes, 1000, 50)
    assert drawn.dtype == np.int64
    assert drawn.flags.c_contiguous
    assert (drawn >= 0).all()
    assert (drawn < np.array(sizes)).all()


def test_samples_are_uniform_at_every_node():
    drawn = sampling.draw(11, [5, 16, 60], 0, 60_000)
    for column, size in zip(drawn.T, (5, 16, 60), strict=True):
        counts = np.bincount(column, minlength=size)
        assert stats.chisquare(counts).pvalue > 1e-3


def test_nodes_and_successive_samples_are_independent():
    drawn = sampling.draw(11, [8, 8], 0, 64_000)
    beside = np.bincount(drawn[:, 0] * 8 + drawn[:, 1], minlength=64)
    after = np.bincount(drawn[:-1, 0] * 8 + drawn[1:, 0], minlength=64)
    assert stats.chisquare(beside).pvalue > 1e-3
    assert stats.chisquare(after).pvalue > 1e-3


def test_blocks_nodes_and_seeds_differ():
    one = sampling.draw(0, [1000, 1000], 0, 2 * sampling.BLOCK)
    assert (one[: sampling.BLOCK] != one[sampling.BLOCK :]).any()
    assert (one[:, 0] != one[:, 1]).any()
    assert (one != sampling.draw(1, [1000, 1000], 0, 2 * sampling.BLOCK)).any()


def test_the_result_belongs_to_the_caller():
    """Writing into drawn samples does not change what is drawn next."""
    first = sampling.draw(2, SIZES, 0, 20)
    kept = first.copy()
    first[:] = -1
    assert (sampling.draw(2, SIZES, 0, 20) == kept).all()


# Shuffled ---------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(cuts=st.lists(st.integers(0, LONG), max_size=5), sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=4))
def test_every_pass_is_a_permutation_wherever_one_stops(cuts, sizes):
    edges = [0, *sorted(cuts), LONG]
    parts = [sampling.draw(3, sizes, a, b - a, order="shuffled") for a, b in itertools.pairwise(edges)]
    drawn = np.concatenate(parts)
    for n, size in enumerate(sizes):
        whole = drawn[: LONG // size * size, n].reshape(-1, size)
        assert (np.sort(whole, axis=1) == np.arange(size)).all()
        alone = sampling.draw(3, [size], 0, LONG, first_node=n, order="shuffled")
        assert (alone[:, 0] == drawn[:, n]).all()


def test_passes_nodes_and_seeds_have_permutations_of_their_own():
    one = sampling.draw(0, [500, 500], 0, 1000, order="shuffled")
    assert (one[:500] != one[500:]).any()
    assert (one[:, 0] != one[:, 1]).any()
    assert (one != sampling.draw(1, [500, 500], 0, 1000, order="shuffled")).any()
    every = sampling.draw(4, [4], 0, 4 * 24_000, order="shuffled").reshape(-1, 4)
    orders = np.bincount(every @ [64, 16, 4, 1])
    assert stats.chisquare(orders[orders > 0]).pvalue > 1e-3
    assert (orders > 0).sum() == 24
