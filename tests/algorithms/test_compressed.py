"""The dual form of DSBA and DSA, and compressed rows: against the other forms, a plain twin, and on every transport."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import queues
from conftest import also_in_full, make_data, make_problem
from local_sites import Sites

import dsba
from dsba.algorithms import sampling
from dsba.algorithms.dsba import dual
from dsba.algorithms.rivals import p_extra
from dsba.network import Lossy, MessageSimulator, Simulator
from dsba.network.messages.levels import Compression
from dsba.problem.components import counts

TOPOLOGY = dsba.Topology.random(4, 0.6, seed=2)
METHODS = {"dsba": (dsba.DSBA, 0.7), "dsa": (dsba.DSA, 0.3)}
COUNTERS = ("rounds", "doubles", "index_bytes", "bytes")


@pytest.fixture
def identity(monkeypatch):
    """Every row goes as it is."""
    monkeypatch.setattr(dual, "FEW_LEVELS", Compression(half=128))


def run(problem, method, net, count, b=4, table="zero", **options):
    """The iterates after ``count`` iterations."""
    kind, alpha = METHODS[method]
    algorithm = kind(alpha, batch_size=b, table=table, **options)
    samples = sampling.draw(7, counts(problem.sizes, b), 0, count)
    state = algorithm.init(problem, net, np.linspace(-0.2, 0.3, problem.dim))
    return algorithm.advance(state, problem, net, samples).rows()


@pytest.mark.parametrize("table", ["zero", "full"])
@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize("operator", also_in_full(["logistic", "auc"], ["ridge", "logistic", "softmax", "auc"]))
def test_the_dual_form_is_the_difference_form(operator, method, table, unequal):
    """Nodes of 2, 5, 10 and 43 samples; intercepts, and coordinates of AUC, have no lambda."""
    problem = make_problem(operator, split=unequal, intercept=operator != "auc")
    for b in (1, 4):
        wanted = run(problem, method, Simulator(TOPOLOGY), 1000, b, table, form="dense")
        found = run(problem, method, Simulator(TOPOLOGY), 1000, b, table, form="dual")
        assert np.abs(found - wanted).max() < 1e-11 * np.abs(wanted).max()


@pytest.mark.parametrize("operator", also_in_full(["ridge"], ["ridge", "logistic", "poisson"]))
def test_large_batches_are_solved_like_small_ones(operator):
    """Conjugate gradients in the kernels, elimination in the definition; steps of 0.01 to 10,000."""
    X, y = make_data(operator, rows=300, columns=20)
    problem = dsba.Problem.from_arrays(X, y, operator, n_nodes=2, lam=0.05)
    topology = dsba.Topology.path(2)
    samples = sampling.draw(7, counts(problem.sizes, 75), 0, 12)
    for alpha in (0.01, 1.0, 100.0, 10_000.0):
        rows = []
        for form in ("step", "dense", "dual"):
            algorithm, net = dsba.DSBA(alpha, batch_size=75, form=form), Simulator(topology)
            state = algorithm.advance(algorithm.init(problem, net, np.zeros(problem.dim)), problem, net, samples)
            rows.append(state.rows())
        assert np.abs(rows[1] - rows[0]).max() < 1e-11 * np.abs(rows[0]).max()
        assert np.abs(rows[2] - rows[0]).max() < 1e-11 * np.abs(rows[0]).max()


def test_the_identity_as_compressor_is_the_dual_form(identity, unequal):
    """Bit by bit; here in one process, and with messages that are made and moved."""
    problem = make_problem("logistic", split=unequal)
    wanted = run(problem, "dsba", Simulator(TOPOLOGY), 50, form="dual")
    for net in (Simulator(TOPOLOGY), MessageSimulator(TOPOLOGY)):
        assert (run(problem, "dsba", net, 50, communication="compressed") == wanted).all()
        assert net.doubles.tolist() == (50 * problem.dim * TOPOLOGY.degrees).tolist()


@pytest.mark.parametrize("communication", ["compressed", "dense"])
def test_every_transport_has_the_simulators_bits(communication, unequal, tmp_path, monkeypatch):
    """Sites over TLS and two processes of two nodes each; with the identity as compressor on the sites."""
    if communication == "dense":
        monkeypatch.setattr(dual, "FEW_LEVELS", Compression(half=128))
    whole = make_problem("logistic", split=unequal)
    ends, rows = whole.start, whole.A.toarray()
    options = {"batch_size": 4, "max_passes": 8}
    net = Simulator(TOPOLOGY)
    form = {"form": "dual"} if communication == "dense" else {"communication": "compressed"}
    wanted = dsba.solve(whole, TOPOLOGY, "dsba", network=net, **options, **form)

    def work(net):
        shards = [(rows[ends[n] : ends[n + 1]], whole.y[ends[n] : ends[n + 1]]) for n in net.nodes]
        problem = dsba.Problem(shards, "logistic", lam=0.05, group=net)
        found = dsba.solve(problem, TOPOLOGY, "dsba", communication="compressed", **options)
        return found.Z, net.counts

    for found in (queues.together(TOPOLOGY, 2, work), Sites(tmp_path, 4).together(TOPOLOGY, work)):
        assert (np.concatenate([Z for Z, _ in found]) == wanted.Z).all()
        if communication == "compressed":
            for counter in COUNTERS[1:]:
                counted = np.concatenate([getattr(counts, counter) for _, counts in found])
                assert (counted == getattr(net, counter)).all(), counter


# A plain twin of the compressed iteration -----------------------------------------------------------------


def deflated(packed):
    """The shorter one of two codes: without repeats, and with repeats of one byte."""
    coders = [zlib.compressobj(wbits=-15, strategy=s) for s in (zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE)]
    return min(len(coder.compress(packed) + coder.flush()) for coder in coders)


def plain_levels(difference, kappa):
    """5, 9, ... 129 levels to the nearest one, or the difference itself; and the bytes of the frame."""
    half = 2
    while half <= 64:
        scale = np.float32(np.abs(difference).max() / half)
        scale = float(scale if scale >= np.abs(difference).max() / half else np.nextafter(scale, np.float32(np.inf)))
        levels = np.floor(difference / scale + 0.5)
        if np.sum((scale * levels - difference) ** 2) * kappa <= 0.75 * np.sum(difference**2):
            digits = {2: 3, 4: 2}.get(half, 1)
            places = np.zeros(-(-levels.size // digits) * digits, np.int64)
            places[: levels.size] = levels + half
            packed = (places.reshape(-1, digits) @ (2 * half + 1) ** np.arange(digits)).astype("u1").tobytes()
            return scale * levels, 24 + 6 + deflated(packed)
        half *= 2
    return difference, 24 + 2 + 8 * difference.size


def plain_compressed(problem, alpha, samples, b):
    """DSBA in dual form with whole vectors, H moved by hand, and the local resolvents of ``components``."""
    W, N = TOPOLOGY.W, problem.n_nodes
    parts = problem.batches(b)
    kappas = (1.5 - np.diag(W)) ** 2 + (W**2).sum(axis=1) - np.diag(W) ** 2
    Z, Y, mean = np.zeros((3, N, problem.dim))
    H, phi, received = Z.copy(), np.zeros((problem.y.size, problem.k)), np.zeros(N)
    for row in samples:
        coded = [plain_levels(Z[n] - H[n], kappas[n]) if (Z[n] != H[n]).any() else (0 * Z[n], 24 + 6) for n in range(N)]
        Q = np.array([q for q, _ in coded])
        seen = H + Q
        d = np.array([sum(W[n, m] * (seen[n] - seen[m]) for m in TOPOLOGY.neighbors[n]) for n in range(N)])
        received += [sum(coded[m][1] for m in TOPOLOGY.neighbors[n]) for n in range(N)]
        ids = parts.ids(row)
        D = -d - alpha * (Y + mean - parts.spread(row, phi[ids]) + problem.lam_diag * Z)
        Z, g = parts.backward(row, Z, D, alpha)
        mean = mean + parts.spread(row, g - phi[ids]) / parts.sizes[:, None]
        phi[ids] = g
        Y, H = Y + d / (2 * alpha), H + Q / 2
    return Z, received


def test_compressed_rows_are_the_plain_twins(unequal):
    """The same levels as long as rounding decides nothing, and the same bytes after the first round of zeros."""
    problem = make_problem("logistic", split=unequal)
    samples = sampling.draw(7, counts(problem.sizes, 4), 0, 30)
    net = Simulator(TOPOLOGY)
    algorithm = dsba.DSBA(0.7, batch_size=4, communication="compressed")
    state = algorithm.advance(algorithm.init(problem, net, np.zeros(problem.dim)), problem, net, samples)
    wanted, received = plain_compressed(problem, 0.7, samples, 4)
    assert np.abs(state.Z - wanted).max() < 1e-12 * np.abs(wanted).max()
    zeros = deflated(b"\x3e" * 4)  # the levels of the first round: 12 zeros
    np.testing.assert_array_equal(net.bytes, received + zeros * TOPOLOGY.degrees)


# Convergence --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", [TOPOLOGY, dsba.Topology.ring(4), TOPOLOGY.chebyshev(2)])
@pytest.mark.parametrize("method", ["dsba", "dsa", "p-extra"])
def test_compression_has_no_floor(method, topology, unequal):
    problem = make_problem("logistic", split=unequal)
    options = {} if method == "p-extra" else {"batch_size": 4}
    result = dsba.solve(problem, topology, method, communication="compressed", tol=1e-12, max_passes=3000, **options)
    exact = dsba.solve(problem, topology, method, tol=1e-12, max_passes=3000, **options)
    assert result.status == exact.status == "converged"
    assert result.history["rounds"][-1] <= 1.1 * exact.history["rounds"][-1] + 2 * topology.mixing.rounds


@pytest.mark.parametrize("split", ["random", "label"])
@pytest.mark.parametrize("graph", ["random", "ring", "path", "star"])
@pytest.mark.parametrize("operator", also_in_full(["logistic"], ["logistic", "ridge"]))
def test_wide_rows_take_a_twentieth_of_the_bytes_in_as_many_rounds(operator, graph, split):
    """As exact rows with the same steps; a record every iteration. benchmarks/compressed.py has the real sets."""
    X, y = dsba.data.make_text_like(n_rows=400, n_columns=5000, row_length=30)
    problem = dsba.Problem.from_arrays(X, y, operator, n_nodes=5, lam=1e-3, split=split)
    topology = dsba.Topology.random(5, 0.4, seed=0) if graph == "random" else dsba.Topology.family(graph, 5)
    z_star = dsba.optimum(problem).z
    method, stop = dsba.DSBA(batch_size=32, form="dual"), {"gap_tol": 1e-6, "max_passes": 200, "record_every": 0.3}
    packed, exact = (
        dsba.solve(problem, topology, method, communication=how, reference=z_star, **stop).history.last()
        for how in ("compressed", "dense")
    )
    assert max(packed["gap"], exact["gap"]) <= 1e-6
    assert packed["rounds"] <= 1.1 * exact["rounds"]
    assert packed["bytes_max"] / packed["rounds"] <= exact["bytes_max"] / exact["rounds"] / 20


def test_p_extra_with_exact_rows_is_p_extra(monkeypatch, unequal):
    problem = make_problem("logistic", split=unequal)
    monkeypatch.setattr(p_extra, "Compression", lambda: Compression(half=128))
    dense, same = (
        dsba.solve(problem, TOPOLOGY, "p-extra", communication=how, max_rounds=40, max_passes=None)
        for how in ("dense", "compressed")
    )
    assert np.abs(dense.Z - same.Z).max() < 1e-12 * np.abs(dense.Z).max()


# Runs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["dsba", "p-extra"])
def test_a_stopped_run_goes_on_bit_by_bit(method, tmp_path):
    problem = make_problem("logistic")
    options = {"communication": "compressed", "record_every": 0.5} | ({"batch_size": 4} if method == "dsba" else {})
    whole = dsba.solve(problem, TOPOLOGY, method, max_passes=12, **options)
    dsba.solve(problem, TOPOLOGY, method, max_passes=5, checkpoint=tmp_path / "run", **options)
    resumed = dsba.solve(problem, TOPOLOGY, method, max_passes=12, checkpoint=tmp_path / "run", **options)
    assert (resumed.Z == whole.Z).all()
    assert resumed.history["bytes_max"][-1] == whole.history["bytes_max"][-1]


def test_what_compression_needs():
    problem = make_problem("logistic")
    with pytest.raises(dsba.InputError, match="needs form 'auto' or 'dual', got 'lazy'"):
        dsba.solve(problem, TOPOLOGY, "dsba", communication="compressed", form="lazy")
    with pytest.raises(dsba.InputError, match="needs form 'auto' or 'step' or 'dense' or 'lazy', got 'dual'"):
        dsba.solve(problem, TOPOLOGY, "dsba", communication="sparse", form="dual")
    lossy = Lossy(Simulator(TOPOLOGY), drop=0.1)
    for method in ("dsba", "p-extra"):
        with pytest.raises(dsba.InputError, match="rebuild"):
            dsba.solve(problem, TOPOLOGY, method, communication="compressed", network=lossy)
    with pytest.raises(dsba.InputError, match="communication 'sparse'"):
        dsba.algorithms.get("p-extra", communication="sparse")


# Step sizes that are planned again --------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
def test_gram_matrices_for_another_step_size(intercept, unequal):
    """Without a pass over the data, as if they had been made for it; an intercept has no lambda."""
    problem = make_problem("logistic", split=unequal, intercept=intercept)
    parts = problem.batches(4)
    rules = [dsba.DSBA(alpha, batch_size=4).recursion(problem) for alpha in (0.3, 20.0)]
    wanted, found = parts.kernel(rules[1]), parts.rescaled(parts.kernel(rules[0]), rules[1])
    np.testing.assert_allclose(found.batches.gram, wanted.batches.gram, rtol=1e-13, atol=1e-15)
    assert found.rule.alpha == 20.0


def test_curvatures_are_those_of_the_batches(unequal):
    """Four power iterations with the Jacobians of whole batches, which stay below their eigenvalues."""
    problem = make_problem("logistic", split=unequal)
    parts, slopes = problem.batches(4), np.random.default_rng(0).uniform(0.01, 0.25, problem.y.size)
    made = parts.kernel(dsba.DSBA(1e-9, batch_size=4).recursion(problem))
    A, wanted, bounds = problem.A.toarray(), [], []
    for S in range(parts.first[-1]):
        own = slice(parts.cuts[S], parts.cuts[S + 1])
        root = np.sqrt(parts.weight[own] * slopes[own])
        J, x = root[:, None] * (A[own] @ A[own].T) * root, root
        for _ in range(4):
            x = J @ (x / np.linalg.norm(x))
        wanted.append(x @ x)
        bounds.append(np.linalg.eigvalsh(J)[-1] ** 2)
    found = parts.curvatures(made, slopes)
    for squares, judge in ((wanted, np.isclose), (bounds, np.less_equal)):
        means = np.add.reduceat(squares, parts.first[:-1]) / parts.sizes
        assert judge(found, means * (1 + 1e-12)).all()


def test_steps_are_planned_again_for_batches_alone():
    """After 1, 4 and 16 passes, longer ones than at the bounds; only for an automatic step size of batches."""
    assert [t for t in range(90) if dual._is_due(t, 5)] == [5, 20, 80]
    problem, path = make_problem("logistic", lam=1e-3), dsba.Topology.path(4)
    method = dsba.DSBA(batch_size=8)
    assert method.resolved(problem, path).replan
    for other in (
        dsba.DSBA(),
        dsba.DSBA(2.0, batch_size=4),
        dsba.DSA(batch_size=4),
        dsba.DSBA(batch_size=4, form="step"),
    ):
        assert not other.resolved(problem, TOPOLOGY).replan
    assert not method.resolved(make_problem("ridge"), TOPOLOGY).replan
    net, method = Simulator(path), method.resolved(problem, path)
    state, samples = method.init(problem, net, np.zeros(problem.dim)), sampling.draw(0, method.choices(problem), 0, 9)
    kept = method.advance(state, problem, net, samples[:2])
    assert kept.alpha == method.alpha
    later = method.advance(kept, problem, net, samples[2:])
    assert later.alpha > method.alpha
    assert later.components.rule.alpha == later.alpha
    assert net.rounds == 9 + 2 * 2 * path.graph.tree.depth  # two questions for the largest curvature


def test_one_batch_a_node_is_p_extra_whose_steps_are_planned_again():
    """As many rounds as P-EXTRA with the first step, and fewer with later ones, their questions included."""
    X, y = dsba.data.make_text_like(n_rows=200, n_columns=400, row_length=20)
    problem, path = dsba.Problem.from_arrays(X, y, "logistic", n_nodes=4), dsba.Topology.path(4)
    stop = {"gap_tol": 1e-6, "max_passes": 300, "reference": dsba.optimum(problem).z}
    again, first, p_extra_itself = (
        dsba.solve(problem, path, method, communication="compressed", **stop).history
        for method in (dsba.DSBA(batch_size=50), dsba.DSBA(batch_size=50, replan=False), "p-extra")
    )
    assert first["iteration"][-1] == first["rounds"][-1] == pytest.approx(p_extra_itself["rounds"][-1], abs=2)
    assert again["rounds"][-1] < first["rounds"][-1]
    assert again["rounds"][-1] - again["iteration"][-1] == 4 * 2 * path.graph.tree.depth  # after 1, 4, 16 and 64 passes
