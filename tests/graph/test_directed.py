"""Directed graphs: matrices and distances, the same bits on every transport, and the two methods that run there."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import queues
from conftest import make_problem
from plain_rivals import Dense

import dsba
from dsba.algorithms import sampling
from dsba.algorithms.rivals.push_pull import tracked_step
from dsba.errors import InputError
from dsba.graph.directed import column_stochastic, row_stochastic
from dsba.network import Lossy, MessageSimulator, Simulator

METHODS = ["push-pull", "push-diging"]
UNEQUAL = np.repeat(np.arange(6), [1, 2, 4, 8, 15, 30])


def random_digraph(n_nodes=6, p=0.3):
    """The first strongly connected one; not every node hears as many as hear it."""
    drawn = (nx.gnp_random_graph(n_nodes, p, seed=seed, directed=True) for seed in range(1000))
    graph = next(graph for graph in drawn if nx.is_strongly_connected(graph))
    assert any(graph.in_degree(n) != graph.out_degree(n) for n in graph)
    return graph


DRAWN, RING = random_digraph(), nx.cycle_graph(6, create_using=nx.DiGraph)
GRAPHS = {"random": dsba.Topology.from_networkx(DRAWN), "ring": dsba.Topology.from_networkx(RING)}


# The graph and its weights --------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [DRAWN, RING], ids=["random", "ring"])
def test_the_graph_is_networkxs(graph):
    topology = dsba.Topology.from_networkx(graph)
    assert topology.directed
    assert topology.edges == tuple(sorted(graph.edges))
    assert set(topology.to_networkx().edges) == set(graph.edges)
    assert [nearby.tolist() for nearby in topology.neighbors] == [sorted(graph.predecessors(n)) for n in range(6)]
    assert [them.tolist() for them in topology.graph.listeners] == [sorted(graph.successors(n)) for n in range(6)]
    ways = dict(nx.all_pairs_shortest_path_length(graph))
    assert topology.distances.tolist() == [[ways[source][n] for source in range(6)] for n in range(6)]
    assert topology.diameter == nx.diameter(graph)
    assert topology != dsba.Topology.from_networkx(graph.to_undirected())


@pytest.mark.parametrize("topology", GRAPHS.values(), ids=GRAPHS)
def test_rows_and_columns_sum_to_one(topology):
    R, C = row_stochastic(topology.graph), column_stochastic(topology.graph)
    heard = topology.graph.adjacency | np.eye(6, dtype=bool)
    assert ((R > 0) == heard).all()
    assert ((C > 0) == heard).all()
    np.testing.assert_allclose(R.sum(axis=1), 1.0, atol=1e-15)
    np.testing.assert_allclose(C.sum(axis=0), 1.0, atol=1e-15)
    np.testing.assert_allclose(topology.W_tilde, R, atol=1e-15)


def test_a_ring_by_hand():
    """The eigenvalues of R are (1 + e^it)/2, t = k pi/3: the gap is 1 - cos(pi/6), and |1 - r| is sin(pi/6)."""
    gap = 1 - np.cos(np.pi / 6)
    assert GRAPHS["ring"].gamma == pytest.approx(gap, rel=1e-12)
    bound = min(np.sqrt(gap) / 2, 3 * gap**2 / np.sin(np.pi / 6))
    assert tracked_step(row_stochastic(GRAPHS["ring"].graph)) == pytest.approx(bound, rel=1e-12)
    assert tracked_step(np.eye(1)) == 0.5


def test_refused_in_one_sentence():
    with pytest.raises(InputError, match=r"is not strongly connected: no way leads from 1 to 0\.$"):
        dsba.Topology.from_networkx(nx.DiGraph([(0, 1), (1, 2), (2, 1)]))
    with pytest.raises(InputError, match="the graph is not connected; its 2 components"):
        dsba.Topology.from_networkx(nx.DiGraph([(0, 1), (1, 0), (2, 3), (3, 2)]))
    for options in ({"mixing": "metropolis"}, {"mixing": np.eye(6)}, {"tau": 2.0}):
        with pytest.raises(InputError, match="mixing and tau are for undirected graphs"):
            dsba.Topology.from_networkx(RING, **options)
    with pytest.raises(InputError, match="the graph is directed"):
        GRAPHS["ring"].chebyshev(2)
    with pytest.raises(InputError, match="not symmetric: it has no orthogonal eigenvectors"):
        _ = GRAPHS["ring"].eigenvectors
    with pytest.raises(InputError, match="Lossy wraps networks of undirected graphs, and this graph is directed"):
        Lossy(Simulator(GRAPHS["ring"]), 0.1)


@pytest.mark.parametrize("method", [m for m in dsba.algorithms.names() if m not in METHODS])
def test_every_other_method_refuses(method):
    for operator in ("logistic", "auc"):
        problem = make_problem(operator, 6, lam=0.1)
        algorithm = dsba.algorithms.get(method)
        if not algorithm.why_not(problem, Simulator(dsba.Topology.ring(6))):
            with pytest.raises(
                InputError, match=f"{method} does not apply: it needs links in both directions, and the"
            ):
                dsba.solve(problem, GRAPHS["random"], method, max_passes=1)
            return
    assert method in ("point-saga", "saga", "solam")  # these are for one node


def test_auto_refuses_as_well():
    with pytest.raises(InputError, match="it needs links in both directions, and the graph is directed"):
        dsba.solve(make_problem("ridge", 6), GRAPHS["random"], "auto", max_passes=1)


# Rows on every transport ----------------------------------------------------------------------------


@pytest.mark.parametrize("topology", GRAPHS.values(), ids=GRAPHS)
def test_rows_go_along_the_links_only(topology):
    """The same bits in one process and in three; a node counts what it hears."""
    Z = np.random.default_rng(0).normal(size=(6, 5))
    R, heard = row_stochastic(topology.graph), np.array([len(nearby) for nearby in topology.neighbors])

    def work(net):
        own = np.ascontiguousarray(Z[net.nodes.start : net.nodes.stop])
        return net.mix(own), net.laplacian(own), net.bytes

    alone, slow = work(Simulator(topology)), work(MessageSimulator(topology))
    np.testing.assert_allclose(alone[0], R @ Z, atol=1e-15)
    np.testing.assert_allclose(alone[1], heard[:, None] * Z - topology.graph.adjacency @ Z, atol=1e-14)
    assert np.array_equal(alone[2], 2 * 8 * 5 * heard)
    everyone = queues.together(topology, 3, work)
    for k in range(3):
        assert (np.concatenate([found[k] for found in everyone]) == alone[k]).all()
        assert (slow[k] == alone[k]).all()


# The methods ----------------------------------------------------------------------------------------


def push_pull(d, R, C, alpha, X, iterations):
    """Pu, Shi, Xu and Nedic, Algorithm 1, agent by agent."""
    agents, x, y = range(d.N), [*X], [*d.gradient(X)]
    for _ in range(iterations):
        x_new = [sum(R[i, j] * (x[j] - alpha * y[j]) for j in agents) for i in agents]
        new, old = d.gradient(np.array(x_new)), d.gradient(np.array(x))
        y = [sum(C[i, j] * y[j] for j in agents) + new[i] - old[i] for i in agents]
        x = x_new
    return np.array(x)


def push_diging(d, R, C, alpha, X, iterations):
    """Nedic, Olshevsky and Shi, Algorithm 2."""
    u, v, y = X, np.ones(d.N), d.gradient(X)
    for _ in range(iterations):
        u, v = C @ (u - alpha * y), C @ v
        X, X_old = np.diag(1 / v) @ u, X
        y = C @ y + d.gradient(X) - d.gradient(X_old)
    return X


@pytest.mark.parametrize("operator", ["ridge", "logistic"])
@pytest.mark.parametrize("topology", [*GRAPHS.values(), dsba.Topology.star(6)], ids=[*GRAPHS, "undirected"])
@pytest.mark.parametrize(("method", "twin"), [("push-pull", push_pull), ("push-diging", push_diging)])
def test_equals_its_twin(method, twin, topology, operator):
    problem, net = make_problem(operator, 6, split=UNEQUAL), Simulator(topology)
    algorithm, z0 = dsba.algorithms.get(method).resolved(problem, topology), np.linspace(-0.5, 0.5, problem.dim)
    draws = sampling.draw(3, problem.sizes, 0, 50)
    state = algorithm.advance(algorithm.init(problem, net, z0), problem, net, draws)
    matrices = row_stochastic(topology.graph), column_stochastic(topology.graph)
    expected = twin(Dense(problem, topology), *matrices, algorithm.alpha, np.tile(z0, (6, 1)), 50)
    assert np.abs(state.Z - expected).max() < 1e-12 * np.abs(expected).max()
    assert net.rounds == 50  # points and trackers travel in one message


@pytest.mark.parametrize("topology", GRAPHS.values(), ids=GRAPHS)
def test_push_pull_keeps_what_its_paper_keeps(topology):
    """The trackers add up to the gradients , and R and C are stochastic by rows and by columns."""
    problem, net = make_problem("logistic", 6, split=UNEQUAL), Simulator(topology)
    algorithm = dsba.algorithms.get("push-pull").resolved(problem, topology)
    state = algorithm.init(problem, net, np.linspace(-0.5, 0.5, problem.dim))
    for _ in range(20):
        state = algorithm.step(state, problem, net, None)
        assert np.abs(state.Y.sum(axis=0) - problem.local_operator(state.Z).sum(axis=0)).max() < 1e-13
    R, C = row_stochastic(topology.graph), column_stochastic(topology.graph)
    np.testing.assert_allclose(R.sum(axis=1), 1.0)
    np.testing.assert_allclose(C.sum(axis=0), 1.0)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("method", METHODS)
def test_reaches_the_certified_optimum(method, graph):
    for split in ("random", "label", UNEQUAL):
        problem = make_problem("logistic", 6, lam=0.1, split=split)
        z_star, residual = dsba.optimum(problem)
        assert residual < 1e-12
        near = [lambda record: record["distance"] < 1e-10]
        limits = {"max_passes": 5000, "record_every": 20, "reference": z_star, "callbacks": near}
        result = dsba.solve(problem, GRAPHS[graph], method, **limits)
        assert result.history["distance"][-1] < 1e-10, (result, split)


@pytest.mark.parametrize("method", METHODS)
def test_between_threads_and_after_a_stop(method, tmp_path):
    whole, topology = make_problem("logistic", 6, lam=0.1), GRAPHS["random"]
    one = dsba.solve(whole, topology, method, max_passes=12)
    shards = [(whole.A[a:b], whole.y[a:b]) for a, b in zip(whole.start[:-1], whole.start[1:], strict=True)]

    def work(net):
        own = shards[net.nodes.start : net.nodes.stop]
        return dsba.solve(dsba.Problem(own, "logistic", lam=0.1, group=net), topology, method, max_passes=12).Z

    assert (np.concatenate(queues.together(topology, 3, work)) == one.Z).all()
    dsba.solve(whole, topology, method, max_passes=5, checkpoint=tmp_path / "run")
    assert (dsba.solve(whole, topology, method, max_passes=12, checkpoint=tmp_path / "run").Z == one.Z).all()


def test_the_laboratory_takes_directed_graphs(tmp_path):
    setting = {
        "stop": {"max_passes": 5}, "data": [{"name": "breast-cancer"}], "problem": [{"operator": "logistic"}],
        "network": [{"graph": DRAWN}],
        "method": [{"algorithm": name, "step_size": "auto"} for name in (*METHODS, "extra")],
    }  # fmt: skip
    results = dsba.lab.run(setting, tmp_path, workers=1, report=False)
    assert sorted(row["method"] for row in results.summary()) == ["PUSH-DIGING", "PUSH-PULL"]  # extra does not apply
