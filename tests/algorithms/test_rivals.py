"""What the rivals send, count, visit and refuse."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import OPERATORS, make_problem

import dsba
from dsba.algorithms import sampling
from dsba.algorithms.rivals import dvr, gt_saga

RING = dsba.Topology.ring(4)
OBJECTIVES = ["ridge", *(name for name in OPERATORS if name not in ("ridge", "auc"))]

# LEAD's messages --------------------------------------------------------------------------------------


def test_lead_counts_the_bits_it_sends():
    """In each round two frames: a header, kind, levels and scale, and four bytes of levels after DEFLATE."""
    result = dsba.solve(make_problem("ridge"), RING, "lead", max_passes=10)
    last = result.history.last()
    assert last["rounds"] == 10
    deflated = last["index_bytes_max"] / 20 - 6
    assert 4 <= deflated <= 6  # at most the bytes themselves, and a block's two
    assert last["bytes_max"] == last["index_bytes_max"] + 20 * 24
    assert last["doubles_max"] == 0


def test_lead_needs_plain_rounds():
    with pytest.raises(dsba.InputError, match="neighbours only, and this mixing takes 3 rounds"):
        dsba.solve(make_problem("ridge", 8), dsba.Topology.ring(8).chebyshev(3), "lead")
    with pytest.raises(dsba.InputError, match="bits must be between 1 and 7, got 8"):
        dsba.algorithms.get("lead", bits=8)


# Methods that end in a neighbourhood of the solution ---------------------------------------------------


def penalised_solution(problem, topology, alpha):
    """The Z with (I - W) Z + alpha B(Z) = 0, by Newton's iteration on all nodes at once."""
    Z, p = np.zeros((problem.n_nodes, problem.dim)), problem.dim
    for _ in range(30):
        F = (Z - topology.W @ Z + alpha * problem.local_operator(Z)).ravel()
        J = np.kron(np.eye(len(Z)) - topology.W, np.eye(p))
        for n, H in enumerate(problem.local.hessians(Z)):
            J[n * p : (n + 1) * p, n * p : (n + 1) * p] += alpha * H
        Z = Z - np.linalg.solve(J, F).reshape(Z.shape)
    return Z


@pytest.mark.full
@pytest.mark.parametrize("method", ["network-newton", "d-bfgs"])
@pytest.mark.parametrize("operator", OBJECTIVES)
def test_neighbourhood_methods_solve_the_penalised_problem(method, operator, unequal):
    """To rounding; and its solution is as near to the problem's as alpha is small. Iterations grow as 1/alpha."""
    problem = make_problem(operator, 4, lam=0.1, split=unequal)
    if method == "d-bfgs" and operator == "poisson":
        with pytest.raises(dsba.InputError, match=r"d-bfgs does not apply: .* constant, and Poisson has none"):
            dsba.solve(problem, RING, method)
        return
    for topology in (dsba.Topology.star(4), dsba.Topology.complete(4)):
        auto = dsba.algorithms.get(method).resolved(problem, topology).alpha
        distances = []
        for alpha in (10 * auto, 3 * auto):
            result = dsba.solve(
                problem, topology, method, step_size=alpha, max_passes=2500, record_every=2500, reference=True
            )
            expected = penalised_solution(problem, topology, alpha)
            assert np.abs(result.Z - expected).max() < 1e-7 * np.abs(expected).max()
            distances.append(result.history["distance"][-1])
        assert 2 < distances[0] / distances[1] < 4


@pytest.mark.parametrize("method", ["network-newton", "d-bfgs"])
def test_neighbourhood_methods_end_at_the_penalised_solution(method):
    """The gate's short version: on a complete graph with a long penalty step."""
    problem, topology = make_problem("ridge", 4, lam=0.1), dsba.Topology.complete(4)
    alpha = 10 * dsba.algorithms.get(method).resolved(problem, topology).alpha
    result = dsba.solve(problem, topology, method, step_size=alpha, max_passes=300, record_every=300)
    expected = penalised_solution(problem, topology, alpha)
    assert np.abs(result.Z - expected).max() < 1e-9 * np.abs(expected).max()


@pytest.mark.parametrize("method", ["network-newton", "d-bfgs"])
def test_neighbourhood_methods_with_one_node_reach_the_solution(method):
    problem = make_problem("logistic", 1, lam=0.1)
    result = dsba.solve(problem, dsba.Topology.complete(1), method, max_passes=300, reference=True)
    assert result.history["distance"][-1] < 1e-9


def test_local_hessians_are_derivatives(unequal):
    for operator in ("logistic", "softmax"):
        problem = make_problem(operator, 4, split=unequal, intercept=True)
        rng = np.random.default_rng(0)
        Z, V = 0.3 * rng.normal(size=(2, 4, problem.dim))
        change = (problem.local_operator(Z + 1e-6 * V) - problem.local_operator(Z - 1e-6 * V)) / 2e-6
        assert np.abs(np.einsum("nij,nj->ni", problem.local.hessians(Z), V) - change).max() < 1e-8


def test_matrices_have_limits():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 101)), rng.normal(size=30)
    problem = dsba.Problem.from_arrays(X, y, "ridge", 4)
    with pytest.raises(dsba.InputError, match=r"d-bfgs does not apply: .* 101 coefficients are more than 100"):
        dsba.solve(problem, RING, "d-bfgs")
    problem = dsba.Problem.from_arrays(np.tile(X[:, :80], (2, 1)), np.tile(y, 2), "ridge", 40)
    with pytest.raises(dsba.InputError, match=r"d-bfgs does not apply: .* 3,200 rows at a node, and 3,000 are"):
        dsba.solve(problem, dsba.Topology.complete(40), "d-bfgs")


# Work and rounds --------------------------------------------------------------------------------------


def test_batches_and_renewed_anchors_are_counted():
    """15 samples a node, batches of 4: a step visits 16 samples, and all 60 when the anchor is renewed."""
    history = dsba.solve(make_problem("ridge"), RING, "acc-vr-extra", max_passes=200, record_every=200).history
    steps, passes = history["iteration"][-1], history["passes"][-1]
    renewals = passes - 1 - steps * 16 / 60
    assert renewals == pytest.approx(round(renewals), abs=1e-9)
    assert renewals == pytest.approx(steps * 4 / 15, rel=0.3)


@pytest.mark.parametrize("method", ["acc-vr-extra", "vi-papc-vr"])
def test_records_of_methods_with_anchors_come_when_they_were_asked_for(method):
    """Every 10 passes in the mean, renewed anchors included; it was every 20 and every 37."""
    passes = dsba.solve(make_problem("ridge"), RING, method, max_passes=300, record_every=10).history["passes"]
    assert np.diff(passes).mean() == pytest.approx(10, rel=0.15)


def test_dvr_communicates_in_some_steps_only():
    history = dsba.solve(make_problem("ridge"), RING, "dvr", max_passes=100).history
    steps, rounds = history["iteration"][-1], history["rounds"][-1]
    assert 0 < rounds < steps
    assert history["passes"][-1] == pytest.approx(1 + (steps - rounds) * 4 / 60)


@pytest.mark.parametrize(("method", "rounds", "rows"), [("network-newton", 2, 2), ("d-bfgs", 3, 3)])
def test_rounds_of_second_order_methods(method, rounds, rows):
    starts = int(method == "d-bfgs")  # passes before the first iteration
    last = dsba.solve(make_problem("ridge"), RING, method, max_passes=10 + starts).history.last()
    first = (2, 2) if starts else (0, 0)  # points and gradients before the first iteration
    assert last["rounds"] == rounds * 10 + first[0]
    assert last["doubles_max"] == 2 * 12 * (rows * 10 + first[1])
    assert last["bytes_max"] == 8 * last["doubles_max"]


def test_one_edge_speaks_in_a_round():
    """Every node of a ring of four is at two of four edges: half of the rounds bring it a row."""
    result = dsba.solve(make_problem("ridge", lam=0.1), RING, "dual-rbcd", max_passes=None, max_rounds=400)
    last = result.history.last()
    assert last["rounds"] == last["iteration"] == 400
    assert 12 * 170 < last["doubles_max"] < 12 * 230
    assert last["bytes_max"] == 8 * last["doubles_max"]
    assert last["nominal_passes"] == 200


def test_gossip_pairwise_moves_samples():
    """The slots hold all samples at all times, and after a while samples of other nodes."""
    problem = make_problem("auc")
    method = dsba.algorithms.get("gossip-pairwise").resolved(problem, RING)
    net = dsba.Simulator(RING)
    state = method.init(problem, net, np.zeros(problem.dim))
    first = state.slots
    state = method.advance(state, problem, net, sampling.draw(0, problem.sizes, 0, 300), sampling.coins(0, 4, 0, 300))
    assert (np.sort(first, axis=0) == np.sort(state.slots, axis=0)).all()
    assert (first[:15] != state.slots[:15]).any()
    assert net.rounds == 300
    assert (net.bytes == 8 * net.doubles + net.index_bytes).all()


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
@pytest.mark.parametrize("operator", ["poisson", "auc"])
def test_vi_papc_vr_takes_unequal_nodes_in_its_stride(operator):
    """Planned with the largest constant of a sample alone it took 17,600 and 6,700 passes here."""
    split = np.repeat(np.arange(10), [1, 1, 1, 1, 2, 2, 4, 8, 15, 25])
    problem, path = make_problem(operator, 10, lam=0.1, split=split), dsba.Topology.path(10)
    result = dsba.solve(problem, path, "vi-papc-vr", max_passes=5000, record_every=50, reference=True)
    assert result.history["distance"][-1] < 1e-8


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
    with pytest.raises(dsba.InputError, match=f"{method} does not apply: .* strongly convex, and lam is 0"):
        dsba.solve(make_problem("ridge", lam=0.0), RING, method)


def wide_problem():
    """Few of many columns in a sample, so that DVR goes through touched columns only."""
    rng = np.random.default_rng(5)
    X = sp.random_array((40, 600), density=0.005, random_state=5, format="csr")
    return dsba.Problem.from_arrays(X, np.sign(rng.normal(size=40)), "logistic", 4, lam=0.05)


def test_dvr_on_modes_is_dvr(monkeypatch):
    """Iterates, counters and passes are those of the steps, also where columns wait longer than the tabled rounds."""
    problem, runs = wide_problem(), []
    for columns, tabled in ((4.0, 4096), (4.0, 3), (np.inf, 4096)):
        monkeypatch.setattr(dvr, "LAZY_FROM", columns)
        monkeypatch.setattr(dvr, "TABLED_ROUNDS", tabled)
        runs.append(dsba.solve(problem, RING, "dvr", p_comp=0.2, max_passes=6, z0=np.full(600, 0.1)))
    *lazy, steps = runs
    for one in lazy:
        assert np.allclose(one.Z, steps.Z, rtol=1e-10, atol=1e-14)
        for column in ("passes", "rounds", "doubles_max", "bytes_max"):
            assert (one.history[column] == steps.history[column]).all()
        assert one.history["work"][-1] < steps.history["work"][-1]


def test_dvr_on_modes_stopped_and_resumed_is_the_same(tmp_path):
    problem = wide_problem()
    whole = dsba.solve(problem, RING, "dvr", max_passes=6)
    for passes in (2, 6):
        parts = dsba.solve(problem, RING, "dvr", max_passes=passes, checkpoint=tmp_path / "run.dsba")
    assert (whole.Z == parts.Z).all()


@pytest.mark.parametrize("method", ["gt-saga", "pmgt-saga"])
def test_gradient_tracking_on_modes_is_its_steps(method, monkeypatch):
    """Iterates and counters are those of the steps, also where columns wait longer than the tabled powers reach."""
    problem, runs = wide_problem(), []
    for columns, tabled in ((4.0, 256), (4.0, 3), (np.inf, 256)):
        monkeypatch.setattr(dvr, "LAZY_FROM", columns)
        monkeypatch.setattr(gt_saga, "TABLED_POWERS", tabled)
        runs.append(dsba.solve(problem, RING, method, max_passes=6, z0=np.full(600, 0.1)))
    *lazy, steps = runs
    assert np.ptp(steps.Z, axis=0).max() > 1e-6  # the nodes differ
    for one in lazy:
        assert np.abs(one.Z - steps.Z).max() < 1e-12 * np.abs(steps.Z).max()
        for column in ("passes", "rounds", "doubles_max", "bytes_max"):
            assert (one.history[column] == steps.history[column]).all()
        assert one.history["work"][-1] < steps.history["work"][-1]


@pytest.mark.parametrize("method", ["gt-saga", "pmgt-saga"])
def test_gradient_tracking_on_modes_with_an_intercept(method, monkeypatch):
    """The intercept's column has no regulariser, so it has matrices of its own."""
    X, y = wide_problem().A, wide_problem().y
    problem = dsba.Problem.from_arrays(X, y, "logistic", 4, lam=0.05, intercept=True)
    lazy = dsba.solve(problem, RING, method, max_passes=10)
    monkeypatch.setattr(dvr, "LAZY_FROM", np.inf)
    steps = dsba.solve(problem, RING, method, max_passes=10)
    assert np.abs(lazy.Z - steps.Z).max() < 1e-12 * np.abs(steps.Z).max()


@pytest.mark.parametrize("method", ["gt-saga", "pmgt-saga"])
def test_gradient_tracking_on_modes_stopped_and_resumed_is_the_same(method, tmp_path):
    problem = wide_problem()
    whole = dsba.solve(problem, RING, method, max_passes=6)
    for passes in (2, 6):
        parts = dsba.solve(problem, RING, method, max_passes=passes, checkpoint=tmp_path / "run.dsba")
    assert (whole.Z == parts.Z).all()


def test_a_pass_of_gradient_tracking_touches_the_samples_columns_only():
    """What an iteration changes are the columns of its samples, whatever the number of columns."""
    for d in (2_000, 50_000):
        data = dsba.data.make_text_like(n_rows=100, n_columns=d, row_length=8, seed=1)
        problem, topology = dsba.Problem.from_arrays(*data, n_nodes=5), dsba.Topology.ring(5)
        method, net = dsba.algorithms.get("gt-saga").resolved(problem, topology), dsba.network.Simulator(topology)
        state = method.init(problem, net, np.zeros(problem.dim))
        for t, samples in enumerate(sampling.draw(0, problem.sizes, 0, 10)):
            before = state.modes.copy()
            state = method.advance(state, problem, net, samples[None, :])
            touched = set(problem.A[problem.start[:-1] + samples].indices)
            assert set(np.flatnonzero(state.stamp == t + 1)) == touched
            assert set(np.flatnonzero((state.modes != before).any(axis=(1, 2)))) <= touched
