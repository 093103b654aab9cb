"""DSBA-s and DSA-s: nodes that exchange deltas have the iterates of dense ones, and every count is what moved.

Invariants 3 (replay equals dense bit by bit, lazy to rounding) and 6 (counts), with the message-level
simulator as the slow twin of the counting one, over the same samples.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
from conftest import make_problem

import dsba
from dsba.algorithms import sampling
from dsba.algorithms.dsba.nodes import NodesForm
from dsba.network import MessageSimulator, Simulator
from dsba.network.messages.routing import Routing
from dsba.network.messages.traffic import Traffic
from dsba.network.messages.wire import (
    HEADER_BYTES,
    Block,
    Header,
    WireError,
    encode_again,
    encode_dense,
    encode_vector,
    pack,
)
from dsba.storage import sealed

GRAPHS = {
    "one": dsba.Topology.complete(1),
    "pair": dsba.Topology.path(2),
    "ring": dsba.Topology.ring(5),
    "star": dsba.Topology.star(5),
    "path": dsba.Topology.path(5),
    "random": dsba.Topology.random(6, 0.4, seed=3),
    "complete": dsba.Topology.complete(4, mixing="metropolis"),
}
CACHES = {
    "sparse": {"communication": "sparse"},
    "no cache": {"communication": "cached", "cache_bytes": 0},
    "small cache": {"communication": "cached", "cache_bytes": 500},
    "tiny cache": {"communication": "cached", "cache_bytes": 100},  # holds some samples and not others
    "cached": {"communication": "cached"},
}


def problem_for(topology, operator="logistic", seed=0, **options):
    """Nodes of very unequal size."""
    small = np.arange(2, topology.n_nodes + 1)
    nodes = np.repeat(np.arange(topology.n_nodes), [*small, 60 - small.sum()])
    return make_problem(operator, topology.n_nodes, seed=seed, split=nodes, **options)


def counters(net):
    return np.stack([np.full(net.topology.n_nodes, net.rounds), net.doubles, net.index_bytes, net.bytes])


def trajectory(algorithm, problem, net, samples, z0=None):
    """Iterates and counters before the first iteration and after each one."""
    algorithm = algorithm.resolved(problem, net.topology)
    state = algorithm.init(problem, net, np.zeros(problem.dim) if z0 is None else z0)
    rows, counts = [state.Z.copy()], [counters(net)]
    for row in samples:
        state = algorithm.advance(state, problem, net, row[None])
        rows.append(state.Z.copy())
        counts.append(counters(net))
    return np.array(rows), np.array(counts)


def relative(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


# Iterates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [dsba.DSBA, dsba.DSA])
@pytest.mark.parametrize("operator", ["logistic", "auc"])
@pytest.mark.parametrize("graph", list(GRAPHS))
def test_nodes_rebuild_what_dense_communication_shows(graph, operator, method):
    """Replay bit by bit, lazy to rounding; the counting simulator counts what the messages were."""
    topology = GRAPHS[graph]
    problem = problem_for(topology, operator)
    z0 = np.linspace(-0.2, 0.3, problem.dim)
    samples = sampling.draw(7, problem.sizes, 0, 40)
    for table, cache in (("zero", "sparse"), ("full", "small cache")):
        dense, _ = trajectory(method(form="dense", table=table), problem, Simulator(topology), samples, z0)
        options = {"table": table, **CACHES[cache]}
        fast = trajectory(method(form="dense", **options), problem, Simulator(topology), samples, z0)
        replay = trajectory(method(form="dense", **options), problem, MessageSimulator(topology), samples, z0)
        lazy = trajectory(method(form="lazy", **options), problem, MessageSimulator(topology), samples, z0)
        assert (fast[0] == dense).all()
        assert (replay[0] == dense).all()
        assert relative(lazy[0], dense) < 1e-11
        assert (replay[1] == fast[1]).all()
        assert (lazy[1] == fast[1]).all()


def test_lazy_nodes_over_a_long_run():
    """alpha lam = 0.05, 1500 iterations, diameter 4: no drift."""
    topology = dsba.Topology.path(5)
    problem = problem_for(topology)
    samples = sampling.draw(2, problem.sizes, 0, 1500)
    for method in (dsba.DSBA, dsba.DSA):
        dense, _ = trajectory(method(1.0, form="dense"), problem, Simulator(topology), samples)
        algorithm, net = method(1.0, form="lazy", communication="cached"), MessageSimulator(topology)
        state = algorithm.init(problem, net, np.zeros(problem.dim))
        assert relative(algorithm.advance(state, problem, net, samples).Z, dense[-1]) < 1e-11


def test_lazy_nodes_at_the_papers_lambda():
    X, y = dsba.data.make_text_like(n_rows=400, n_columns=2000, row_length=30)
    problem = dsba.Problem.from_arrays(X, y, n_nodes=5)
    topology = dsba.Topology.ring(5)
    samples = sampling.draw(0, problem.sizes, 0, 400)
    algorithm = dsba.DSBA(form="dense").resolved(problem, topology)
    dense = algorithm.advance(algorithm.init(problem, Simulator(topology), np.zeros(problem.dim)), problem,
                              Simulator(topology), samples)  # fmt: skip
    net = MessageSimulator(topology)
    algorithm = dsba.DSBA(algorithm.step_size, form="lazy", communication="cached")
    lazy = algorithm.advance(algorithm.init(problem, net, np.zeros(problem.dim)), problem, net, samples)
    assert relative(lazy.Z, dense.Z) < 1e-8


@pytest.mark.parametrize("form", ["dense", "lazy"])
def test_a_node_sees_its_own_data_only(form):
    """Each node is made from a problem in which the data of all others is NaN."""
    topology = dsba.Topology.path(4)
    problem = problem_for(topology)
    algorithm = dsba.DSBA(form=form, communication="cached").resolved(problem, topology)
    samples = sampling.draw(1, problem.sizes, 0, 30)
    z0 = np.full(problem.dim, 0.1)
    nodes = []
    for n in range(4):
        own, poisoned = slice(problem.start[n], problem.start[n + 1]), copy.copy(problem)
        indptr, indices, data = problem.csr
        values, y = np.full(data.size, np.nan), np.full(problem.y.size, np.nan)
        part = slice(indptr[own.start], indptr[own.stop])
        values[part], y[own] = data[part], problem.y[own]
        poisoned.csr, poisoned.y = (indptr, indices, values), y
        nodes.append(algorithm.init(poisoned, MessageSimulator(topology), z0).nodes[n])
    apart = NodesForm(nodes).advance(None, None, MessageSimulator(topology), samples)
    whole, _ = trajectory(algorithm, problem, MessageSimulator(topology), samples, z0)
    assert (whole[-1] == apart.Z).all()


# Counts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cache", list(CACHES))
@pytest.mark.parametrize("operator", ["ridge", "auc"])
@pytest.mark.parametrize("graph", ["path", "random"])
def test_counts_are_what_moved(graph, operator, cache):
    """After every iteration, in every form of the counting simulator."""
    topology = GRAPHS[graph]
    problem = problem_for(topology, operator)
    samples = sampling.draw(11, problem.sizes, 0, 90)
    options = CACHES[cache]
    _, carried = trajectory(dsba.DSBA(form="dense", **options), problem, MessageSimulator(topology), samples)
    for form in ("step", "dense", "lazy"):
        _, counted = trajectory(dsba.DSBA(form=form, **options), problem, Simulator(topology), samples)
        assert (counted == carried).all()
    assert (carried[1:, 0] == np.arange(1, 91)[:, None]).all()
    assert (carried[:, 3] >= 8 * carried[:, 1] + carried[:, 2]).all()


def test_counts_in_chunks_of_any_length():
    """Longer than the counter's memory of iterations, and shorter."""
    topology = GRAPHS["path"]
    problem = problem_for(topology)
    algorithm = dsba.DSBA(communication="cached", cache_bytes=700).resolved(problem, topology)
    samples = sampling.draw(5, problem.sizes, 0, 200)
    _, wanted = trajectory(algorithm, problem, Simulator(topology), samples)
    net = Simulator(topology)
    state = algorithm.init(problem, net, np.zeros(problem.dim))
    for part in np.split(samples, [1, 3, 4, 60, 60, 137]):
        state = algorithm.advance(state, problem, net, part)
        assert (counters(net) == wanted[state.t]).all()


def test_doubles_by_the_papers_count():
    """Nonzeros of all deltas that arrived; with a cache, a sample's nonzeros once and k numbers each time."""
    topology = GRAPHS["path"]
    problem = problem_for(topology, "auc")
    samples = sampling.draw(3, problem.sizes, 0, 70)
    nonzeros = np.diff(problem.csr[0][:: problem.k])
    plain, cached = np.zeros(5), np.zeros(5)
    for n in range(5):
        for j in set(range(5)) - {n}:
            arrived = (problem.start[j] + samples[:, j])[: 70 - topology.distances[n, j]]
            plain[n] += nonzeros[arrived].sum()
            cached[n] += nonzeros[np.unique(arrived)].sum() + problem.k * arrived.size
    for communication, wanted in (("sparse", plain), ("cached", cached)):
        algorithm = dsba.DSA(form="lazy", communication=communication)
        _, counts = trajectory(algorithm, problem, Simulator(topology), samples)
        assert (counts[-1, 1] == wanted).all()


class Tapped(MessageSimulator):
    """Keeps all frames."""

    def exchange(self, outboxes):
        self.frames = [*getattr(self, "frames", []), copy.deepcopy(outboxes)]
        return super().exchange(outboxes)


def test_no_cache_is_the_papers_protocol_byte_by_byte():
    topology = GRAPHS["random"]
    problem = problem_for(topology, "auc")
    samples = sampling.draw(0, problem.sizes, 0, 30)
    taps = []
    for cache in ("sparse", "no cache"):
        taps.append(Tapped(topology))
        trajectory(dsba.DSBA(**CACHES[cache]), problem, taps[-1], samples)
    assert taps[0].frames == taps[1].frames
    assert (counters(taps[0]) == counters(taps[1])).all()


def test_a_known_sample_costs_next_to_nothing():
    """At most 40 bytes per delta after its sample's first appearance (k = 1), frames aside."""
    topology = dsba.Topology.ring(4)
    problem = make_problem("logistic")
    samples = sampling.draw(0, problem.sizes, 0, 800)
    _, counts = trajectory(dsba.DSBA(communication="cached"), problem, Simulator(topology), samples)
    late = counts[-1] - counts[-101]  # 15 samples a node: all known by then
    assert (late[1] == 100 * 3).all()
    assert (late[3] <= 100 * (3 * 40 + 2 * HEADER_BYTES)).all()


@pytest.mark.parametrize("graph", list(GRAPHS))
def test_setup_of_a_full_table(graph):
    """The carry of every node, p numbers, to every other in as many rounds as the diameter; dense needs none."""
    topology = GRAPHS[graph]
    problem = problem_for(topology)
    N = topology.n_nodes
    net = Simulator(topology)
    algorithm = dsba.DSBA(table="full", communication="sparse").resolved(problem, topology)
    algorithm.init(problem, net, np.zeros(problem.dim))
    assert net.rounds == topology.diameter
    assert (net.doubles == (N - 1) * problem.dim).all()
    entries = (N - 1) * (8 * problem.dim + 2)
    assert (net.bytes == entries + topology.diameter * HEADER_BYTES * topology.degrees).all()
    dense = Simulator(topology)
    dsba.DSBA(algorithm.alpha, table="full").init(problem, dense, np.zeros(problem.dim))
    assert dense.rounds == dense.bytes.max() == 0


def test_routes():
    """Every node gets every source's entry once, one hop at a time, and relays what it has."""
    for topology in GRAPHS.values():
        routing, N = Routing(topology), topology.n_nodes
        for n in range(N):
            got = [j for m in topology.neighbors[n] for j in routing.handed[int(m), n]]
            assert sorted(got) == [j for j in range(N) if j != n]
            for m in map(int, topology.neighbors[n]):
                assert all(topology.distances[m, j] == topology.distances[n, j] - 1 for j in routing.handed[m, n])
                late = routing.due(m, n, topology.diameter)
                assert late == list(routing.handed[m, n]) == sorted(late)
                assert routing.due(m, n, 0) == []


# Through solve -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dsba", "dsa"])
def test_communication_changes_the_counts_alone(name):
    problem, topology = make_problem("logistic"), dsba.Topology.ring(4)
    for form in ("step", "dense", "lazy"):
        runs = [dsba.solve(problem, topology, name, max_passes=3, form=form, communication=c)
                for c in (None, "dense", "sparse", "cached")]  # fmt: skip
        assert all((run.Z == runs[0].Z).all() for run in runs)
        plain, dense, sparse, cached = (run.history.last() for run in runs)
        assert plain["bytes_max"] == dense["bytes_max"] == 8 * dense["doubles_max"]
        assert plain["index_bytes_max"] == 0 < cached["index_bytes_max"] < sparse["index_bytes_max"]
        assert len({record["doubles_max"] for record in (dense, sparse, cached)}) == 3


@pytest.mark.parametrize("form", ["dense", "lazy"])
@pytest.mark.parametrize("communication", ["sparse", "cached"])
def test_solve_over_messages(form, communication):
    """The whole run, record by record."""
    problem, topology = make_problem("auc"), dsba.Topology.star(4)
    options = {"max_passes": 6, "form": form, "communication": communication, "record_every": 0.7, "table": "full"}
    fast = dsba.solve(problem, topology, **options)
    slow = dsba.solve(problem, topology, network=MessageSimulator(topology), **options)
    assert relative(slow.Z, fast.Z) < 1e-11
    assert (slow.Z == fast.Z).all() or form == "lazy"
    for column in ("iteration", "rounds", "doubles_max", "index_bytes_max", "bytes_max"):
        assert (slow.history[column] == fast.history[column]).all()


def test_form_of_the_nodes_follows_the_cost_model():
    wide = dsba.Problem.from_arrays(*dsba.data.make_text_like(n_rows=60, n_columns=5000, row_length=10), n_nodes=4)
    topology = dsba.Topology.ring(4)
    for problem, memory in ((wide, "modes"), (make_problem("ridge"), "ahead")):
        algorithm = dsba.DSBA(0.1, communication="cached")
        state = algorithm.init(problem, MessageSimulator(topology), np.zeros(problem.dim))
        assert all(memory in node.replica.arrays for node in state.nodes)


def test_a_budget_of_doubles():
    """Deltas take a while to arrive; the first iterations do not tell what the later ones cost."""
    topology = dsba.Topology.path(8)
    problem = make_problem("ridge", 8)
    result = dsba.solve(problem, topology, max_passes=1e6, max_doubles=3000, communication="sparse", record_every=1e6)
    assert 3000 <= result.history["doubles_max"][-1] < 3300


# Stopped and resumed -------------------------------------------------------------------------------


@pytest.mark.parametrize("cache", ["sparse", "small cache", "cached"])
@pytest.mark.parametrize(
    ("network", "form"),
    [(Simulator, "step"), (Simulator, "dense"), (Simulator, "lazy"), (MessageSimulator, "dense"),
     (MessageSimulator, "lazy")],
)  # fmt: skip
@pytest.mark.parametrize(("name", "operator", "table"), [("dsba", "ridge", "zero"), ("dsa", "auc", "full")])
def test_resumed_bit_by_bit(tmp_path, name, operator, table, network, form, cache):
    """Iterates and counters; entries under way and what the caches hold are part of the state."""
    topology = dsba.Topology.path(4)
    problem = problem_for(topology, operator)
    options = {"algorithm": name, "form": form, "table": table, "z0": np.full(problem.dim, 0.1), **CACHES[cache]}
    path = tmp_path / "run.dsba"

    def run(max_passes, checkpoint=None):
        net = network(topology)
        return dsba.solve(problem, topology, max_passes=max_passes, checkpoint=checkpoint, network=net, **options), net

    whole, net = run(6)
    for passes in (1, 1.1, 1.2, 3.3):
        run(passes, path)
    resumed, other = run(6, path)
    assert (resumed.Z == whole.Z).all()
    assert (counters(other) == counters(net)).all()
    for column in set(whole.history) - {"seconds", "cpu_seconds"}:
        assert np.array_equal(resumed.history[column], whole.history[column]), column


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("1.Z", lambda a: a[:2]),
        ("2.mail.sizes", lambda a: a[:-1]),
        ("2.mail.sources", lambda a: a + 4),
        ("0.cache.indices", lambda a: a + 1000),
        ("0.cache.values", lambda a: a[1:]),
        ("3.phi", lambda a: a.astype(np.float32)),
        ("t", lambda a: a.astype(float)),
    ],
)
def test_a_checkpoint_whose_nodes_do_not_fit(tmp_path, name, damage):
    topology, problem, path = dsba.Topology.path(4), make_problem("ridge"), tmp_path / "run.dsba"
    options = {"form": "dense", "communication": "cached", "checkpoint": path}
    dsba.solve(problem, topology, max_passes=2, network=MessageSimulator(topology), **options)
    facts, arrays = sealed.read(path)
    arrays[f"state.{name}"] = damage(arrays[f"state.{name}"])
    with path.open("wb") as stream:
        sealed.write(stream, facts, arrays)
    with pytest.raises(dsba.CheckpointError):
        dsba.solve(problem, topology, max_passes=4, network=MessageSimulator(topology), **options)


# Refusals ------------------------------------------------------------------------------------------


def test_what_is_refused():
    problem, topology = make_problem("ridge"), dsba.Topology.ring(4)
    cases = [
        ({"communication": "spares"}, "did you mean 'sparse'"),
        ({"communication": 3}, "unknown communication 3"),
        ({"cache_bytes": -1}, "cache_bytes must be an integer >= 0, got -1"),
        ({"cache_bytes": 1.5}, "cache_bytes must be an integer"),
        ({"algorithm": "extra", "communication": "sparse"}, "extra sends dense rows"),
        ({"communication": "cached", "form": "step", "network": MessageSimulator(topology)}, "form 'step' sends whole"),
    ]
    for options, message in cases:
        with pytest.raises(dsba.InputError, match=message):
            dsba.solve(problem, topology, max_passes=1, **options)
    dense = dsba.solve(problem, topology, "extra", max_passes=1, communication="dense")
    assert dense.history["index_bytes_max"][-1] == 0


def two_nodes(communication="sparse", table="zero"):
    problem, topology = make_problem("ridge", 2), dsba.Topology.path(2)
    algorithm = dsba.DSBA(0.5, form="dense", communication=communication, table=table)
    return algorithm.init(problem, MessageSimulator(topology), np.zeros(problem.dim)).nodes


def test_a_node_does_not_go_on_without_its_neighbours():
    node, _ = two_nodes()
    with pytest.raises(WireError, match="node 0 has no frame from node 1 in round 0"):
        node.step(0)


def test_frames_that_are_not_due():
    node, other = two_nodes("cached")
    empty = other.outbox()[0]
    node.receive(1, empty)
    for sender in (0, 1):  # no neighbour; a second frame
        with pytest.raises(WireError, match=f"no frame due from node {sender} in round 0"):
            node.receive(sender, empty)
    node.step(0)
    with pytest.raises(WireError, match="round 0, not 1"):
        node.receive(1, empty)
    header = Header(0, 1, 0, 1)
    row = pack(header, [encode_dense(1, np.zeros(node.common.bounds.dim))])
    with pytest.raises(WireError, match="sent a dense row of source 1 in round 1"):
        node.receive(1, row)
    with pytest.raises(WireError, match="sample 3 of source 1 came without its block"):
        node.receive(1, pack(header, [encode_again(1, 3, np.ones(1))]))


def test_a_delta_during_setup_is_refused():
    problem, topology = make_problem("ridge", 2), dsba.Topology.path(2)

    class Wrong(MessageSimulator):
        def exchange(self, outboxes):
            vector = encode_vector(0, Block(np.array([1]), np.array([0]), np.ones(1)))
            outboxes[0][1] = pack(Header(0, 0, 1, 0), [vector])
            return super().exchange(outboxes)

    with pytest.raises(WireError, match="sent a delta of source 0 in round 0"):
        dsba.solve(problem, topology, network=Wrong(topology), communication="sparse", table="full")


def test_the_counter_needs_no_memory_of_samples_without_a_cache():
    topology, problem = dsba.Topology.ring(4), make_problem("ridge")
    blocks = (problem.start, *problem.csr[:2], 1)
    assert Traffic(topology, *blocks, 0).memory().size < Traffic(topology, *blocks, 100).memory().size
