"""Links that lose, delay or compress what they carry, and graphs that change: against plain twins and the optimum."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import replace
from functools import cache
from typing import ClassVar

import numpy as np
import pytest
import queues
from conftest import ROOT, make_problem

import dsba
from dsba.algorithms.rivals.diging import DIGing, DIGingState
from dsba.errors import InputError
from dsba.network import FLAWS, Activation, Bursty, Changing, Compressed, Delayed, Lossy, MessageSimulator, Simulator
from dsba.network.messages.compression import compressor

N = 8
TOPOLOGY = dsba.Topology.random(N, 0.5, seed=1)
RING, STAR = dsba.Topology.ring(N), dsba.Topology.star(N)
BOTH = dsba.Topology.from_edges([*RING.edges, *STAR.edges])
METHODS = dsba.algorithms.names()

NETWORKS = {
    "loss": lambda net: Lossy(net, 0.3, seed=1),
    "one-way loss": lambda net: Lossy(net, 0.3, symmetric=False, seed=1),
    "changing graph": lambda net: Changing(net, p=0.5, seed=1),
    "delay": lambda net: Delayed(net, 2),
    "varying delay": lambda net: Delayed(net, (0, 3), seed=1),
    "compressed changes": lambda net: Compressed(net, "4-bit"),
    "compressed rows": lambda net: Compressed(net, "8-bit", memory=False, seed=1),
    "bursty loss": lambda net: Bursty(net, 0.2, 0.4, seed=1),
    "resting nodes": lambda net: Activation(net, 0.7, seed=1),
}


def rows(seed=0, width=5):
    return np.random.default_rng(seed).normal(size=(N, width))


def solve(network, method="diging", operator="logistic", topology=TOPOLOGY, **options):
    problem = make_problem(operator, N, lam=0.1)
    return dsba.solve(problem, topology, method, network=network, **options)


# One round, by matrices -----------------------------------------------------------------------------


def test_every_flaw_has_a_network():
    assert set(NETWORKS) == set(FLAWS)
    for flaw, wrap in NETWORKS.items():
        net = wrap(Simulator(TOPOLOGY))
        assert net.flaws == {flaw}
        assert net.local_mixing() is None  # no fused path may go around it


@pytest.mark.parametrize(
    "wrap", [lambda net: Lossy(net, 0.0), lambda net: Delayed(net, 0), lambda net: Changing(net, [TOPOLOGY])]
)
def test_a_wrapper_that_does_nothing_changes_nothing(wrap):
    net, plain, Z = wrap(Simulator(TOPOLOGY)), Simulator(TOPOLOGY), rows()
    for name in ("mix", "differences", "laplacian"):
        np.testing.assert_allclose(getattr(net, name)(Z), getattr(plain, name)(Z), atol=1e-15)
    for counter in ("rounds", "doubles", "bytes"):
        assert np.array_equal(getattr(net, counter), getattr(plain, counter))


@pytest.mark.parametrize("symmetric", [True, False])
def test_lost_messages_by_matrices(symmetric):
    """The matrix of each round is read off the rows of the identity; lost links keep the row sums at one."""
    net, lost, total = Lossy(Simulator(TOPOLOGY), 0.3, symmetric=symmetric, seed=5), 0, 0
    heard = np.zeros(N)
    for _ in range(200):
        W = net.mix(np.eye(N))
        np.testing.assert_allclose(W.sum(axis=1), 1.0, atol=1e-15)
        assert (W == W.T).all() == symmetric
        off = ~np.eye(N, dtype=bool) & TOPOLOGY.graph.adjacency
        kept = off & (W != 0)
        np.testing.assert_allclose(W[kept], TOPOLOGY.W_tilde[kept], atol=1e-15)
        lost, total, heard = lost + (off & ~kept).sum(), total + off.sum(), heard + kept.sum(axis=1)
    assert abs(lost / total - 0.3) < 0.02
    assert np.array_equal(net.bytes, 8 * N * heard)  # what was lost was not received
    assert np.array_equal(net.doubles, N * heard)


def matrices(net, rounds):
    """The matrix of each round, read off the rows of the identity."""
    return [net.mix(np.eye(N)) for _ in range(rounds)]


def runs_of(flags):
    """The lengths of the stretches of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(int)))
    return edges[1::2] - edges[::2]


def test_bursts_are_gilberts_and_elliotts():
    """28 links for long: their shares and the mean length of their bursts are those of the chain."""
    bad, links = 0.1 / 0.35, np.triu_indices(N, 1)

    def lost(**drop):
        net = Bursty(Simulator(dsba.Topology.complete(N)), 0.1, 0.25, **drop, seed=4)
        W = np.array(matrices(net, 600))
        assert (W.transpose(0, 2, 1) == W).all()
        return W[:, *links] == 0

    assert lost(drop_good=0.05, drop_bad=0.9).mean() == pytest.approx(0.9 * bad + 0.05 * (1 - bad), abs=0.015)
    down = lost()
    assert down.mean() == pytest.approx(bad, abs=0.015)
    assert np.concatenate([runs_of(link) for link in down.T]).mean() == pytest.approx(1 / 0.25, rel=0.06)
    assert np.concatenate([runs_of(link) for link in ~down.T]).mean() == pytest.approx(1 / 0.1, rel=0.06)


@pytest.mark.parametrize(
    ("how", "share", "stretch"),
    [({"probability": 0.6}, 0.6, 1 / 0.4), ({"cycle": (3, 2)}, 0.6, 3), ({"chain": (0.1, 0.3)}, 0.75, 10)],
    ids=["uniform", "cyclic", "markov"],
)
def test_a_resting_node_sends_nothing_and_hears_nothing(how, share, stretch):
    """A node of a complete graph of 8 is active where it hears anybody: hardly ever are all others at rest."""
    net = Activation(Simulator(dsba.Topology.complete(N)), **how, seed=2)
    W = np.array(matrices(net, 1000))
    off = W * ~np.eye(N, dtype=bool)
    assert (W.transpose(0, 2, 1) == W).all()
    np.testing.assert_allclose(W.sum(axis=2), 1.0, atol=1e-15)
    active = (off != 0).any(axis=2)
    assert ((off != 0) == (active[:, :, None] & active[:, None, :] & ~np.eye(N, dtype=bool))).all()
    assert active.mean() == pytest.approx(share, abs=0.02)
    assert np.mean([runs_of(active[1:-1, n]).mean() for n in range(N)]) == pytest.approx(stretch, rel=0.1)
    assert np.array_equal(net.bytes, 8 * N * (off != 0).sum(axis=(0, 2)))


def test_delayed_rows_by_hand():
    net, plain, history = Delayed(Simulator(TOPOLOGY), 2), Simulator(TOPOLOGY), [rows(t) for t in range(6)]
    off = TOPOLOGY.W_tilde - np.diag(np.diag(TOPOLOGY.W_tilde))
    for t, Z in enumerate(history):
        wanted = Z + (off @ history[t - 2] - off.sum(axis=1)[:, None] * Z) if t >= 2 else Z
        np.testing.assert_allclose(net.mix(Z), wanted, atol=1e-14)
        if t >= 2:
            plain.mix(Z)
    assert np.array_equal(net.bytes, plain.bytes)  # what is under way has not been received


def test_varying_delays_give_the_newest_row_that_has_arrived():
    """Rows are their round's number, so what is heard tells when it was sent."""
    net, path, last = Delayed(Simulator(dsba.Topology.path(2)), (0, 3), seed=2), None, -1.0
    for t in range(40):
        Z = np.array([[0.0], [float(t)]])
        weight = float(net.topology.W_tilde[0, 1])
        heard = net.mix(Z)[0, 0] / weight
        assert t - 3 <= heard <= t
        assert heard >= last - 1e-12  # never an older one again
        path, last = t, heard
    assert path == 39
    assert 40 - 3 <= net.doubles[0] <= 40


def test_a_sequence_of_graphs_comes_round_again():
    net, Z = Changing(Simulator(BOTH), [RING, STAR]), rows()
    for graph in (RING, STAR, RING):
        np.testing.assert_allclose(net.mix(Z), graph.W_tilde @ Z, atol=1e-14)
    assert np.array_equal(net.doubles, 5 * (2 * RING.degrees + STAR.degrees))
    with pytest.raises(
        dsba.InputError, match=r"graph 0 of the sequence has the edge \(0, 2\), which the network does not have"
    ):
        Changing(Simulator(RING), [STAR])


def test_drawn_graphs_have_metropolis_weights():
    net, seen = Changing(Simulator(dsba.Topology.complete(N)), p=0.4, seed=3), set()
    for _ in range(50):
        W = 2 * net.mix(np.eye(N)) - np.eye(N)
        A = (np.abs(W) > 1e-12) & ~np.eye(N, dtype=bool)
        degrees = A.sum(axis=1)
        np.testing.assert_allclose(W[A], (1 / (1 + np.maximum.outer(degrees, degrees)))[A], atol=1e-14)
        assert (A == A.T).all()
        seen.add(int(A.sum() // 2))
    assert len(seen) > 5
    assert abs(np.mean(net.doubles) / 50 / N - 0.4 * (N - 1)) < 0.3


def test_the_rows_mean_is_kept_where_it_must_be():
    for flaw in ("loss", "changing graph", "compressed changes", "compressed rows", "bursty loss", "resting nodes"):
        net = NETWORKS[flaw](Simulator(TOPOLOGY))
        for t in range(5):
            np.testing.assert_allclose(net.mix(rows(t)).mean(axis=0), rows(t).mean(axis=0), atol=1e-15)


# Bits -----------------------------------------------------------------------------------------------


def packed(numbers, bits):
    text = "".join(format(int(n), f"0{bits}b") for n in numbers) if bits else ""
    return bytes(int(text[i : i + 8].ljust(8, "0"), 2) for i in range(0, len(text), 8))


def unpacked(raw, bits, count):
    text = "".join(format(byte, "08b") for byte in raw)
    return [int(text[i * bits : (i + 1) * bits] or "0", 2) for i in range(count)]


def through_bytes(kind, row, places):
    """A row coded into bytes and read again, by the words of the module's docstring."""
    p, number = len(row), int(re.search(r"\d+", kind)[0])
    if kind.endswith("bit"):
        scale, levels = np.abs(row).max(), 2 ** (number - 1) - 1
        codes = np.rint(row / scale * levels) if scale else np.zeros(p)
        raw = np.float64(scale).tobytes() + packed(codes + levels, number)
        read = np.array(unpacked(raw[8:], number, p)) - levels
        return raw, read * (np.frombuffer(raw[:8])[0] / levels)
    bits = math.ceil(math.log2(p)) if kind.startswith("top") else 0
    raw = row[places].tobytes() + packed(places, bits)
    k, out = min(number, p), np.zeros(p)
    out[unpacked(raw[8 * k :], bits, k) if bits else places] = np.frombuffer(raw[: 8 * k])
    return raw, out


@pytest.mark.parametrize("width", [1, 7, 100])
@pytest.mark.parametrize("kind", ["2-bit", "3-bit", "8-bit", "top-1", "top-5", "rand-3"])
def test_what_is_counted_is_what_the_bytes_take(kind, width):
    X, draws = rows(3, width), np.random.default_rng(0).random((N, width))
    X[2] = 0.0
    found = compressor(kind).apply(X, draws, unbiased=False)
    message = compressor(kind).message(width)
    for row, one, draw in zip(X, found, draws, strict=True):
        number = int(re.search(r"\d+", kind)[0])
        order = np.argsort(-np.abs(row), kind="stable") if kind.startswith("top") else np.argsort(draw)
        raw, read = through_bytes(kind, row, order[:number])
        assert message.bytes == len(raw)
        assert message.bytes == 8 * message.doubles + message.index_bytes
        np.testing.assert_array_equal(read, one)


def test_counted_per_link_and_round():
    net = Compressed(Simulator(TOPOLOGY), "3-bit")
    for _ in range(4):
        net.mix(rows())
    assert np.array_equal(net.bytes, 4 * TOPOLOGY.degrees * (8 + math.ceil(5 * 3 / 8)))
    assert np.array_equal(net.doubles, 4.0 * TOPOLOGY.degrees)
    run = solve(Compressed(Simulator(TOPOLOGY), "top-3"), "extra", max_passes=5)
    assert run.history["bytes_max"][-1] == 5 * TOPOLOGY.degrees.max() * (3 * 8 + math.ceil(3 * 4 / 8))


@pytest.mark.parametrize("kind", ["4-bit", "rand-2"])
def test_rows_without_memory_are_right_in_the_mean(kind):
    X, rng = rows(), np.random.default_rng(1)
    mean = np.mean([compressor(kind).apply(X, rng.random(X.shape), unbiased=True) for _ in range(4000)], axis=0)
    assert np.abs(mean - X).max() < 0.15


def test_known_rows_come_nearer_with_every_message():
    """With memory, equal rows are known better each time: what compression loses is sent later."""
    net, Z = Compressed(Simulator(TOPOLOGY), "2-bit"), rows()
    errors = []
    for _ in range(20):
        net.mix(Z)
        errors.append(np.abs(net.memory["compressed changes.0"] - Z).max())
    assert errors[-1] < 1e-8 * errors[0]


# Runs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [
    *(NETWORKS[flaw] for flaw in dsba.algorithms.REGISTRY["diging"].proven_on),
    lambda net: Changing(Simulator(BOTH), [RING, STAR]),
    lambda net: Compressed(net, "top-5", step=0.7),
])  # fmt: skip
def test_gradient_tracking_reaches_the_optimum(wrap):
    net = wrap(Simulator(TOPOLOGY))
    result = solve(net, tol=1e-9, max_passes=3000, topology=net.topology, reference=True, record_every=25)
    assert result.status == "converged"
    assert result.history["distance"][-1] < 1e-6
    assert "not known" not in result.message


DECLARED = [(m, flaw) for m in METHODS if (cls := dsba.algorithms.REGISTRY[m]).linear for flaw in cls.proven_on]


@pytest.mark.parametrize(("method", "flaw"), [pair for pair in DECLARED if pair[0] != "diging"])
def test_linear_methods_reach_the_optimum_where_they_say_so(method, flaw):
    result = solve(NETWORKS[flaw](Simulator(TOPOLOGY)), method, tol=1e-9, max_passes=3000, reference=True)
    assert result.status == "converged"
    assert result.history["distance"][-1] < 1e-6


@pytest.mark.parametrize("how", [{"cycle": (3, 2)}, {"chain": (0.2, 0.4)}], ids=["cyclic", "markov"])
def test_gradient_tracking_whoever_rests(how):
    """Nodes that are active with a probability are among the flaws above."""
    net = Activation(Simulator(TOPOLOGY), **how, seed=1)
    result = solve(net, tol=1e-9, max_passes=3000, reference=True, record_every=25)
    assert result.status == "converged"
    assert result.history["distance"][-1] < 1e-6


@pytest.mark.parametrize("graphs", [[BOTH], [RING, STAR]])
def test_gradient_tracking_against_a_plain_twin(graphs):
    """Nedic, Olshevsky and Shi's equation (2), with matrices and ridge's gradients by hand, and one W(t) for both."""
    problem, alpha = make_problem("ridge", N, lam=0.1), 0.2
    X, y, ends = problem.A.toarray(), problem.y, problem.start

    def gradients(Z):
        parts = [X[a:b].T @ (X[a:b] @ z - y[a:b]) for a, b, z in zip(ends[:-1], ends[1:], Z, strict=True)]
        return N / len(y) * np.array(parts) + 0.1 * Z

    matrices = [g.W_tilde for g in graphs] * 7
    Z = np.zeros((N, problem.dim))
    Y = gradients(Z)
    for t in range(7):
        after = matrices[t] @ Z - alpha * Y
        Y = matrices[t] @ Y + gradients(after) - gradients(Z)
        Z = after
    net = Changing(Simulator(BOTH), graphs)
    found = dsba.solve(problem, BOTH, "diging", alpha, max_passes=8, network=net)  # one for the first gradient
    np.testing.assert_allclose(found.Z, Z, atol=1e-13)
    assert found.history["rounds"][-1] == 7


SUBLINEAR = [(m, flaw) for m in ("dgd", "dual-averaging") for flaw in dsba.algorithms.REGISTRY[m].proven_on]


@pytest.mark.parametrize(("method", "flaw"), SUBLINEAR)
def test_sublinear_methods_keep_their_rate(method, flaw):
    """As in test_convergence: the slope of a log-log fit over the last decade, 1/sqrt(t) or better in the gap."""
    options = {"diminishing": True} if method == "dgd" else {}
    net = NETWORKS[flaw](Simulator(TOPOLOGY))
    history = solve(net, method, max_passes=1000, record_every=50, reference=True, **options).history
    t, gap = history["iteration"][2:], history["gap"][2:]
    assert np.polyfit(np.log(t), np.log(gap), 1)[0] < -0.45


def refuses_flaws(method):
    """Whether a problem to which the method applies is refused as soon as links lose messages."""
    plain, lossy = Simulator(TOPOLOGY), NETWORKS["loss"](Simulator(TOPOLOGY))
    algorithm, problems = dsba.algorithms.get(method), (make_problem(o, N, lam=0.1) for o in ("logistic", "auc"))
    return any(not algorithm.why_not(p, plain) and algorithm.why_not(p, lossy) for p in problems)


@cache
def undisturbed(method, passes):
    return solve(Simulator(TOPOLOGY), method, max_passes=passes)


@pytest.mark.parametrize("flaw", FLAWS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_says_whether_it_is_known_to_converge(method, flaw):
    """All run and hear through the links they were given, or refuse by name."""
    problem = make_problem("logistic", N, lam=0.1)
    if dsba.algorithms.get(method).why_not(problem, Simulator(TOPOLOGY)):
        pytest.skip("the method does not apply")
    net = NETWORKS[flaw](Simulator(TOPOLOGY))
    if refuses_flaws(method):
        with pytest.raises(dsba.InputError, match=f"{method} does not apply: it.*, and the links have {flaw}"):
            solve(net, method)
        return
    passes = 20 if method == "lt-admm" else 5  # which takes five for a round
    found = solve(net, method, max_passes=passes)
    assert ("not known to converge on links with " + flaw in found.message) == (
        flaw not in dsba.algorithms.REGISTRY[method].proven_on
    )
    plain = undisturbed(method, passes)
    assert "not known" not in plain.message
    assert np.abs(found.Z - plain.Z).max() > 0  # invariant 10


@pytest.mark.parametrize("communication", ["sparse", "cached"])
def test_methods_that_rebuild_states_refuse(communication):
    for method in ("dsba", "dsa"):
        with pytest.raises(dsba.InputError, match=f"{method} does not apply: .*rebuild the others'.*links have loss"):
            solve(NETWORKS["loss"](Simulator(TOPOLOGY)), method, communication=communication)


def test_several_flaws_at_once_are_not_known():
    net = Lossy(Changing(Simulator(TOPOLOGY), p=0.5), 0.1)
    found = solve(net, max_passes=3)
    assert "not known to converge on links with changing graph and loss" in found.message
    assert repr(net).startswith("Lossy(drop=0.1, symmetric=True, seed=0) over Changing(")


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(flaw, tmp_path):
    """With a method whose rows meet twice an iteration; the links' memory is in the checkpoint."""
    whole = solve(NETWORKS[flaw](Simulator(TOPOLOGY)), max_passes=12)
    file = tmp_path / "run"
    solve(NETWORKS[flaw](Simulator(TOPOLOGY)), max_passes=5, checkpoint=file)
    resumed = solve(NETWORKS[flaw](Simulator(TOPOLOGY)), max_passes=12, checkpoint=file)
    assert (resumed.Z == whole.Z).all()
    for column in ("residual", "bytes_max", "doubles_max", "rounds"):
        assert np.array_equal(resumed.history[column], whole.history[column]), column
    with pytest.raises(dsba.CheckpointError, match="its links is"):
        solve(Lossy(Simulator(TOPOLOGY), 0.2), max_passes=12, checkpoint=file)


def test_another_seed_is_another_run():
    first, second, again = (solve(Lossy(Simulator(TOPOLOGY), 0.3, seed=s), max_passes=5).Z for s in (1, 2, 1))
    assert (first == again).all()
    assert (first != second).any()


class InTurn(DIGing):
    """Z and Y in a message each, after every ``every`` iterations."""

    every: ClassVar[int] = 1

    def step(self, s, problem, net, samples):
        mix = net.mix if (s.t + 1) % self.every == 0 else np.copy
        Z = mix(s.Z) - self.alpha * s.Y
        B = problem.local_operator(Z)
        return DIGingState(Z, mix(s.Y) + (B - s.B), B, t=s.t + 1)


class EveryThird(InTurn):
    every = 3


class Rehearsed(EveryThird):
    """It says by its rehearsal how often rows meet in an iteration in which they do."""

    def warm_up(self, s, problem, net, samples):
        self.step(replace(s, t=2), problem, net, samples)


def test_rows_that_meet_twice_are_kept_apart():
    """A delayed Z must not arrive where a Y is due."""
    net = Delayed(Simulator(TOPOLOGY), 1)
    solve(net, InTurn(), max_passes=4)
    assert net.streams == 2
    assert set(net.memory) == {"delay.0", "delay.1", "delay.streams"}


def test_meetings_that_the_rehearsal_did_not_tell_are_refused():
    """The first iteration mixes nothing: rows of two kinds would be taken for one."""
    with pytest.raises(InputError, match="mixed rows 2 times in an iteration, and 1 was expected"):
        solve(Compressed(Simulator(TOPOLOGY), "4-bit"), EveryThird(), max_passes=9)
    assert solve(Lossy(Simulator(TOPOLOGY), 0.1), EveryThird(), max_passes=9).passes == 9


@pytest.mark.parametrize("stop", [5, 6, 7])
def test_meetings_after_a_stop_are_those_before(stop, tmp_path):
    def run(passes, **options):
        return solve(Compressed(Simulator(TOPOLOGY), "4-bit"), Rehearsed(), max_passes=passes, **options)

    run(stop, checkpoint=tmp_path / "c")
    assert (run(20, checkpoint=tmp_path / "c").Z == run(20).Z).all()


@pytest.mark.parametrize("flaw", FLAWS)
def test_between_processes_as_in_one(flaw):
    alone, wanted = NETWORKS[flaw](MessageSimulator(TOPOLOGY)), []
    wanted = [alone.mix(rows(t)) for t in range(4)]

    def work(net):
        wrapped, own = NETWORKS[flaw](net), slice(net.nodes.start, net.nodes.stop)
        return [wrapped.mix(np.ascontiguousarray(rows(t)[own])) for t in range(4)], wrapped.bytes

    everyone = queues.together(TOPOLOGY, 3, work)
    for t in range(4):
        assert (np.concatenate([mixed[t] for mixed, _ in everyone]) == wanted[t]).all()
    assert np.array_equal(np.concatenate([counted for _, counted in everyone]), alone.bytes)


@pytest.mark.parametrize(("make", "message"), [
    (lambda net: Lossy(net, 1.0), "drop must be a probability below 1"),
    (lambda net: Delayed(net, (3, 1)), "rounds must be an integer >= 3"),
    (lambda net: Bursty(net, 0.1, 1.5), "to_good must be a probability, got 1.5"),
    (lambda net: Bursty(net, 0.0, 0.5), "to_bad must be"),
    (lambda net: Activation(net), "needs a probability, a cycle or a chain: give one"),
    (lambda net: Activation(net, 0.5, cycle=(1, 1)), "needs a probability, a cycle or a chain: give one"),
    (lambda net: Activation(net, cycle=(0, 1)), "active must be an integer >= 1"),
    (lambda net: Changing(net), "needs a sequence of graphs, or the probability p"),
    (lambda net: Delayed(Delayed(net, 1), 1), "the links have delay already"),
    (lambda net: Compressed(net, "9-bits"), "written like one of 4-bit, top-10, rand-10"),
    (lambda net: Compressed(net, "1-bit"), "bits must be an integer >= 2"),
    (lambda net: Lossy(Compressed(net, "4-bit"), 0.1), "deliver every message, and these have loss: use memory=False"),
    (lambda net: Compressed(Changing(net, p=0.3), "4-bit"), "and these have changing graph"),
])  # fmt: skip
def test_refused_with_the_reason(make, message):
    with pytest.raises(dsba.InputError, match=message):
        make(Simulator(TOPOLOGY))


def test_nothing_goes_around_the_flaws():
    net = Lossy(Simulator(TOPOLOGY), 0.1)
    for ask in (lambda: net.exchange([{}] * N), lambda: net.sum(rows())):
        with pytest.raises(dsba.InputError, match="need links that deliver everything, and these have loss"):
            ask()


class Deaf(Simulator):
    def mix(self, Z):
        return Z


def test_a_network_that_somebody_changed_is_not_wrapped():
    with pytest.raises(dsba.InputError, match="wraps only networks whose rows are mixed by the mixing matrix"):
        Lossy(Deaf(TOPOLOGY), 0.1)


def test_the_table_of_the_documentation_is_what_the_methods_declare():
    text = (ROOT / "docs" / "howto" / "network.md").read_text()
    found = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0].strip("`") in METHODS:
            found[cells[0].strip("`")] = cells[1:]
    wanted = {method: ["refuses"] * len(FLAWS) for method in METHODS if refuses_flaws(method)}
    assert "newton" in wanted
    for method in METHODS:
        if proven := dsba.algorithms.REGISTRY[method].proven_on:
            assert set(proven) <= set(FLAWS)
            wanted[method] = ["yes" if flaw in proven else "–" for flaw in FLAWS]
    assert found == wanted


@pytest.mark.parametrize(("method", "most"), [("dgd", 9), ("p-extra", 2)])
def test_a_run_on_delayed_links_goes_on_as_if_it_had_never_stopped(method, most, tmp_path):
    """Of a method with several rounds in an iteration, rows of as many streams are remembered."""
    problem, topology = make_problem("ridge", 4), dsba.Topology.ring(4).chebyshev(4)

    def solved(passes, **options):
        net = Delayed(Simulator(topology), most)
        return dsba.solve(problem, topology, method, network=net, max_passes=passes, record_every=5, **options)

    solved(30, checkpoint=tmp_path / "c")
    assert (solved(41, checkpoint=tmp_path / "c").Z == solved(41).Z).all()


@pytest.mark.parametrize("wrap", [lambda n: Lossy(n, 0.1), lambda n: Delayed(n, 2), lambda n: Changing(n, p=0.5),
                                  lambda n: Bursty(n, 0.1, 0.5), lambda n: Activation(n, 0.5)])  # fmt: skip
def test_a_single_node_has_no_links_to_fail(wrap):
    problem, alone = make_problem("ridge", 1), dsba.Topology.ring(1)
    found = dsba.solve(problem, alone, "extra", network=wrap(Simulator(alone)), max_passes=5)
    assert (found.Z == dsba.solve(problem, alone, "extra", max_passes=5).Z).all()
    assert found.history["rounds"][-1] == 0


def test_auto_on_links_with_flaws_is_a_method_that_runs_there():
    problem, topology = make_problem("logistic", 4), dsba.Topology.ring(4)
    links = Lossy(Simulator(topology), 0.1)
    found = dsba.solve(problem, topology, "auto", network=links, max_passes=2)
    assert found.algorithm.name != "newton"
    assert found.algorithm.why_not(problem, links) is None
    assert dsba.solve(problem, topology, "auto", tol=1e-12, max_passes=50).algorithm.name == "newton"


# The contract -----------------------------------------------------------------------------------------


def test_nobody_outside_asks_for_the_classes_of_imperfect_links():
    """Only the experiment file makes them. All others read the attributes that every network has."""
    source, names = ROOT / "src" / "dsba", {"Lossy", "Bursty", "Activation", "Delayed", "Changing", "Compressed"}
    users = set()
    for path in source.rglob("*.py"):
        tree = ast.parse(path.read_text())
        named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        named |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        if named & names or "dsba.network.imperfect" in modules:
            users.add(path.relative_to(source).as_posix())
    assert users == {"network/__init__.py", "network/messages/compression.py", "lab/sections.py"}


def test_links_that_remember_rows_see_one_iteration_at_a_time():
    ring = dsba.Topology.ring(4)
    remembering = (
        Delayed(Simulator(ring), 1), Compressed(Simulator(ring), "4-bit"), Lossy(Delayed(Simulator(ring), 1), 0.1),
    )  # fmt: skip
    for net in remembering:
        assert len(list(net.portions((np.zeros((5, 4)),)))) == 5
    for net in (Simulator(ring), Lossy(Simulator(ring), 0.1)):
        assert len(list(net.portions((np.zeros((5, 4)),)))) == 1


def test_what_the_links_keep_is_named_by_the_wrapper_alone():
    """The engine and the methods know that links have flaws, not how a wrapper keeps what it must keep."""
    source, words = ROOT / "src" / "dsba", {"streams", "remembers", "same_rows", "STREAMS", "REMEMBERING"}
    users = set()
    for path in source.rglob("*.py"):
        tree = ast.parse(path.read_text())
        named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        named |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        if named & words and "tls" not in path.parts:  # masks have streams of random bytes there
            users.add(path.relative_to(source).as_posix())
    assert users == {"network/imperfect.py"}
