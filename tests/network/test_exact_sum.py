"""Sums over nodes: exact to one rounding, and the same bits in every order (invariant 12)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsba.network import exact_sum

FINITE = st.floats(allow_nan=False, allow_infinity=False)


def nearest(column, exponent):
    """The definition, in rational numbers: multiples of 2^exponent, added, rounded once."""
    unit = Fraction(2) ** exponent
    return float(sum(round(Fraction(x) / unit) for x in column) * unit)  # round() takes ties to even


@settings(deadline=None)  # the first call compiles
@given(st.lists(st.lists(FINITE, min_size=3, max_size=3), min_size=1, max_size=8))
def test_the_definition_in_rational_numbers(rows):
    rows = np.array(rows) / 16  # a sum of eight stays finite
    top = exact_sum.largest(rows)
    if top == 0.0:
        assert (exact_sum.total(rows) == 0.0).all()
        return
    scale = exact_sum.exponent(top, len(rows))
    assert exact_sum.total(rows).tolist() == [nearest(column, scale) for column in rows.T.tolist()]


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_as_good_as_fsum_where_numbers_are_near(values):
    """Within 1e21 of the largest nothing is lost: the sum is the one of infinite precision, rounded."""
    kept = [x for x in values if x == 0.0 or abs(x) >= 1e-14]
    rows = np.array(kept or [0.0])[:, None]
    assert exact_sum.total(rows)[0] == math.fsum(kept)


def test_the_same_bits_in_every_order_and_along_every_tree():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(9, 50)) * 10.0 ** rng.integers(-12, 12, size=(9, 50))
    scale = exact_sum.exponent(exact_sum.largest(rows), len(rows))
    wanted = exact_sum.total(rows)
    for _ in range(20):
        parts = np.split(rng.permutation(rows), np.sort(rng.choice(np.arange(1, 9), 3, replace=False)))
        while len(parts) > 1:  # a random tree
            a, b = (parts.pop(rng.integers(len(parts))) for _ in range(2))
            sums = [p if isinstance(p, exact_sum.WideIntegers) else exact_sum.integers(p, scale) for p in (a, b)]
            parts.append(exact_sum.WideIntegers.from_bytes(sums[0].plus(sums[1]).to_bytes()))
        assert (exact_sum.numbers(parts[0], scale) == wanted).all()
    assert not (rows.sum(axis=0) == rng.permutation(rows).sum(axis=0)).all()  # plain sums are not


def test_masks_cancel():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(3, 20))
    scale = exact_sum.exponent(exact_sum.largest(rows), 3)
    masks = [exact_sum.WideIntegers(*rng.integers(0, 2**64, size=(2, 20), dtype=np.uint64)) for _ in range(2)]
    negative = [
        exact_sum.WideIntegers(~m.high, ~m.low).plus(exact_sum.integers(np.full((1, 20), 2.0**scale), scale))
        for m in masks
    ]
    hidden = exact_sum.integers(rows[:1], scale).plus(masks[0]).plus(masks[1])
    others = (
        exact_sum.integers(rows[1:2], scale)
        .plus(negative[0])
        .plus(exact_sum.integers(rows[2:], scale))
        .plus(negative[1])
    )
    assert (exact_sum.numbers(hidden.plus(others), scale) == exact_sum.total(rows)).all()
    assert not (hidden.low == exact_sum.integers(rows[:1], scale).low).any()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_not_added(bad):
    rows = np.ones((3, 2))
    rows[1, 0] = bad
    assert np.isnan(exact_sum.total(rows)).all()


def test_a_column_of_small_numbers_beside_a_large_one_keeps_its_bits():
    rows = np.array([[1e12, 1e-9 / 3], [1e12 / 7, 1e-9 / 11]])
    assert exact_sum.total(rows)[1] == math.fsum([1e-9 / 3, 1e-9 / 11])


def test_ends_of_the_range():
    least, top = 5e-324, 1.7e308
    assert exact_sum.total(np.array([[least], [least]]))[0] == 2 * least
    assert exact_sum.total(np.array([[top], [-top], [least]]))[0] == 0.0  # 1e-21 below the largest: gone
    assert exact_sum.total(np.array([[top], [top]]))[0] == math.inf


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
def test_rows_given_by_their_entries_have_the_same_sum(scale):
    rng = np.random.default_rng(0)
    rows = np.where(rng.random((7, 40)) < 0.3, rng.normal(size=(7, 40)) * 10.0 ** rng.integers(-30, 3, (7, 40)), 0.0)
    rows *= scale / 1e3
    entries = exact_sum.SparseRows(rows[rows != 0.0], np.nonzero(rows)[1], rows.shape)
    assert exact_sum.largest(entries) == exact_sum.largest(rows)
    assert (exact_sum.total(entries) == exact_sum.total(rows)).all()
