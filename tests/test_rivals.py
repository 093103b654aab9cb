"""What the rivals send, count, visit and refuse."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_problem

import dsba
from dsba.algorithms.lead import Levels

RING = dsba.Topology.ring(4)

# LEAD's messages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", range(1, 8))
def test_levels_survive_their_bytes(bits):
    """Every number comes back as one of the two multiples around it, and right in the mean."""
    rng, codec = np.random.default_rng(0), Levels(bits)
    v = rng.normal(size=101)
    unit = np.abs(v).max() / 2 ** (bits - 1)
    found = np.array([codec.decoded(codec.encoded(v, rng.random(v.size)), v.size) for _ in range(400)])
    assert np.abs(found / unit - np.round(found / unit)).max() < 1e-12
    assert np.abs(found - v).max() < unit
    assert np.abs(found.mean(axis=0) - v).max() < 5 * unit / 20
    assert not codec.decoded(codec.encoded(np.zeros(7), rng.random(7)), 7).any()


def test_lead_counts_the_bits_it_sends():
    """A float and a level for each of 12 numbers, three levels in a byte, from two neighbours in each round."""
    result = dsba.solve(make_problem("ridge"), RING, "lead", max_passes=10)
    last = result.history.last()
    assert last["rounds"] == 10
    assert last["bytes_max"] == 10 * 2 * (8 + 4)
    assert last["doubles_max"] == 10 * 2
    assert last["index_bytes_max"] == 10 * 2 * 4
    nids = dsba.solve(make_problem("ridge"), RING, "nids", max_passes=10).history.last()
    assert nids["bytes_max"] == 8 * last["bytes_max"]


def test_lead_needs_plain_rounds():
    with pytest.raises(dsba.InputError, match="neighbours only, and this mixing takes 3 rounds"):
        dsba.solve(make_problem("ridge", 8), dsba.Topology.ring(8).chebyshev(3), "lead")
    with pytest.raises(dsba.InputError, match="bits must be between 1 and 7, got 8"):
        dsba.algorithms.get("lead", bits=8)


# Work and rounds --------------------------------------------------------------------------------------


def test_batches_and_renewed_anchors_are_counted():
    """15 samples a node, batches of 4: a step visits 16 samples, and all 60 when the anchor is renewed."""
    history = dsba.solve(make_problem("ridge"), RING, "acc-vr-extra", max_passes=200, record_every=200).history
    steps, passes = history["iteration"][-1], history["passes"][-1]
    renewals = passes - 1 - steps * 16 / 60
    assert renewals == pytest.approx(round(renewals), abs=1e-9)
    assert renewals == pytest.approx(steps * 4 / 15, rel=0.3)


def test_dvr_communicates_in_some_steps_only():
    history = dsba.solve(make_problem("ridge"), RING, "dvr", max_passes=100).history
    steps, rounds = history["iteration"][-1], history["rounds"][-1]
    assert 0 < rounds < steps
    assert history["passes"][-1] == pytest.approx(1 + (steps - rounds) * 4 / 60)


def test_gt_saga_sends_two_rows_in_one_round():
    last = dsba.solve(make_problem("ridge"), RING, "gt-saga", max_passes=10).history.last()
    assert last["rounds"] == last["iteration"]
    assert last["doubles_max"] == 2 * 2 * 12 * last["rounds"]


@pytest.mark.full
@pytest.mark.parametrize("method", ["acc-vr-extra", "vi-papc-vr"])
def test_batch_sizes(method):
    problem = make_problem("ridge", lam=0.1)
    for batch_size in (2, 7):
        result = dsba.solve(problem, RING, method, batch_size=batch_size, max_passes=3000, tol=1e-7)
        assert result.status == "converged", batch_size
    with pytest.raises(dsba.InputError, match="batch_size"):
        dsba.solve(problem, RING, method, batch_size=0)


@pytest.mark.full
def test_catalyst_helps_where_samples_are_hard():
    problem, rounds = make_problem("ridge", 4, lam=0.001), {}
    for catalyst in (False, True):
        result = dsba.solve(problem, RING, "dvr", catalyst=catalyst, max_passes=3000, tol=1e-6)
        assert result.status == "converged"
        rounds[catalyst] = result.history["rounds"][-1]
    assert rounds[True] < 0.7 * rounds[False]


@pytest.mark.parametrize("method", ["apapc", "opapc", "acc-vr-extra", "dvr"])
def test_methods_that_need_lambda_say_so(method):
    with pytest.raises(dsba.InputError, match=f"{method} does not apply .* strongly convex, and lam is 0"):
        dsba.solve(make_problem("ridge", lam=0.0), RING, method)
