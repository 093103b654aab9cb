"""Graphs, the four conditions on W, spectra and routes."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections import deque
from dataclasses import FrozenInstanceError

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dsba
from dsba.errors import InputError
from dsba.graph.topology import GRAPH_FAMILIES, Topology

quick = settings(max_examples=50, deadline=None)


@st.composite
def topologies(draw):
    """A random spanning tree and random extra edges, so that sparse and dense graphs both occur."""
    n_nodes = draw(st.integers(1, 12))
    tree = [(draw(st.integers(0, n - 1)), n) for n in range(1, n_nodes)]
    node = st.integers(0, n_nodes - 1)
    extra = draw(st.lists(st.tuples(node, node), max_size=2 * n_nodes))
    mixing = draw(st.sampled_from(["laplacian", "half", "metropolis"]))
    if mixing != "half":
        return Topology.from_edges(tree + extra, n_nodes, mixing=mixing)
    # The smallest tau allowed: W reaches down to -I, and W_tilde is singular.
    G = Topology.from_edges(tree + extra, n_nodes).to_networkx()
    tau = max(np.linalg.eigvalsh(nx.laplacian_matrix(G).toarray().astype(float))[-1] / 2, 0.5)
    return Topology.from_edges(tree + extra, n_nodes, tau=tau)


# -------------------------------------------------------------------- constructors


@pytest.mark.parametrize(
    ("topology", "graph"),
    [
        (Topology.ring(5), nx.cycle_graph(5)),
        (Topology.path(5), nx.path_graph(5)),
        (Topology.star(5), nx.star_graph(4)),
        (Topology.complete(5), nx.complete_graph(5)),
        (Topology.grid(2, 3), nx.convert_node_labels_to_integers(nx.grid_2d_graph(2, 3), ordering="sorted")),
        (Topology.from_edges([(2, 1), (0, 1), (1, 0), (2, 2)]), nx.path_graph(3)),
        (Topology.from_networkx(nx.petersen_graph()), nx.petersen_graph()),
    ],
    ids=lambda value: value.name if isinstance(value, Topology) else "",
)
def test_constructors_build_the_graph_they_name(topology, graph):
    assert topology.n_nodes == len(graph)
    assert topology.edges == tuple(sorted((min(e), max(e)) for e in graph.edges))
    assert topology.degrees.tolist() == [graph.degree[n] for n in range(len(graph))]
    assert [nearby.tolist() for nearby in topology.neighbors] == [sorted(graph[n]) for n in range(len(graph))]
    assert topology.diameter == nx.diameter(graph)
    assert set(topology.to_networkx().edges) == set(topology.edges)


@pytest.mark.parametrize("family", GRAPH_FAMILIES)
@pytest.mark.parametrize("mixing", ["laplacian", "metropolis"])
def test_one_and_two_nodes(family, mixing):
    one = Topology.family(family, 1, mixing=mixing)
    assert one.W.tolist() == [[1.0]]
    assert one.edges == ()
    assert (one.gamma, one.kappa_g, one.diameter) == (1.0, 1.0, 0)
    assert one.eigenvalues.tolist() == [1.0]
    assert one.eigenvectors.tolist() == [[1.0]]
    assert one.parents.tolist() == [[-1]]
    assert [part.tolist() for part in one.mixing.rows] == [[0, 1], [0], [1.0]]
    assert "N=1" in repr(one)

    two = Topology.family(family, 2, mixing=mixing)
    assert two.edges == ((0, 1),)
    np.testing.assert_allclose(two.W, [[0.5, 0.5], [0.5, 0.5]], atol=1e-15)
    assert two.gamma == pytest.approx(0.5, abs=1e-15)
    assert two.parents.tolist() == [[-1, 1], [0, -1]]


def test_random_is_connected_and_deterministic_in_its_seed():
    drawn = [Topology.random(10, 0.25, seed=seed) for seed in range(20)]
    assert all(nx.is_connected(t.to_networkx()) for t in drawn)
    assert drawn[3] == Topology.random(10, 0.25, seed=3)
    assert len(set(drawn)) == 20


def test_random_has_about_the_share_p_of_all_edges():
    edges = [len(Topology.random(20, 0.4, seed=seed).edges) for seed in range(30)]
    assert np.mean(edges) == pytest.approx(0.4 * 190, rel=0.05)


@pytest.mark.parametrize(("n_nodes", "p"), [(40, 0.01), (3, 0.0)])
def test_random_says_when_p_is_too_small(n_nodes, p):
    with pytest.raises(InputError, match=rf"n_nodes = {n_nodes} and p = {p} .*p is too small"):
        Topology.random(n_nodes, p)


@pytest.mark.parametrize("p", [-0.1, 1.5, float("nan")])
def test_random_refuses_what_is_no_probability(p):
    with pytest.raises(InputError, match=r"in \[0, 1\], got"):
        Topology.random(5, p)


@pytest.mark.parametrize(("n_nodes", "shape"), [(12, (3, 4)), (9, (3, 3)), (7, (1, 7)), (8, (2, 4))])
def test_family_grid_is_as_square_as_it_can_be(n_nodes, shape):
    assert Topology.family("grid", n_nodes) == Topology.grid(*shape)


def test_family_passes_its_keywords_on():
    assert Topology.family("random", 8, p=0.5, seed=4) == Topology.random(8, 0.5, seed=4)
    for family in GRAPH_FAMILIES:
        built = Topology.family(family, 6, mixing="laplacian", tau=20.0)
        assert built.name == family
        assert built.W[0, 0] == 1 - built.degrees[0] / 20.0


def test_unknown_names_are_refused_with_a_suggestion():
    with pytest.raises(InputError, match="'rnig'; did you mean 'ring'"):
        Topology.family("rnig", 5)
    with pytest.raises(InputError, match="'metropolys'; did you mean 'metropolis'"):
        Topology.ring(5, mixing="metropolys")


@pytest.mark.parametrize("n_nodes", [0, -3, 2.5, "4"])
@pytest.mark.parametrize("family", GRAPH_FAMILIES)
def test_the_number_of_nodes_is_a_positive_integer(family, n_nodes):
    with pytest.raises(InputError, match=f"integer >= 1, got {n_nodes!r}"):
        Topology.family(family, n_nodes)


def test_networkx_labels_are_sorted_or_kept_in_order():
    assert Topology.from_networkx(nx.Graph([("c", "a"), ("b", "c")])).edges == ((0, 2), (1, 2))
    mixed = Topology.from_networkx(nx.Graph([("x", 1), (1, (2, 3)), (1, 1)]))
    assert mixed.edges == ((0, 1), (1, 2))
    doubled = Topology.from_networkx(nx.MultiGraph([(0, 1), (0, 1), (1, 2)]))
    assert doubled == Topology.path(3)


def test_only_networkx_graphs_are_taken():
    with pytest.raises(InputError, match="wanted a networkx graph, got a list"):
        Topology.from_networkx([(0, 1)])


# -------------------------------------------------------------------- edge lists


def test_edge_file_with_comments_and_blank_lines(tmp_path):
    file = tmp_path / "edges.txt"
    file.write_text("# a ring of four\n0 1\n\n1 2  # inline\n\t3   2\n3 0\n")
    assert Topology.from_edges(file) == Topology.from_edges(str(file)) == Topology.ring(4)


@pytest.mark.parametrize("line", ["1", "1 2 3", "1 x", "1.0 2", "-1 2", "1,2"])
def test_malformed_line_is_named_with_file_and_number(tmp_path, line):
    file = tmp_path / "edges.txt"
    file.write_text(f"0 1\n# fine\n{line}\n")
    with pytest.raises(InputError, match=r"edges\.txt, line 3: wanted two node numbers\."):
        Topology.from_edges(file)


def test_unreadable_files_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"missing\.txt: No such file"):
        Topology.from_edges(tmp_path / "missing.txt")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00\x01\n")
    with pytest.raises(InputError, match="binary, line 1"):
        Topology.from_edges(tmp_path / "binary")


def test_edges_must_be_pairs_of_known_nodes():
    with pytest.raises(InputError, match=r"edge \(1, 3\) leaves the node numbers 0\.\.2"):
        Topology.from_edges([(0, 1), (1, 3)], n_nodes=3)
    with pytest.raises(InputError, match=r"edge \(-1, 0\) leaves"):
        Topology.from_edges([(-1, 0)])
    with pytest.raises(InputError, match=r"pair of node numbers, got \(0, 1, 2\)"):
        Topology.from_edges([(0, 1, 2)])
    with pytest.raises(InputError, match=r"pair of node numbers, got \(0, 1.5\)"):
        Topology.from_edges([(0, 1.5)])
    with pytest.raises(InputError, match="empty and n_nodes is not given"):
        Topology.from_edges([])
    assert Topology.from_edges([], n_nodes=1).n_nodes == 1


def test_edges_may_be_a_numpy_array():
    assert Topology.from_edges(np.array([[0, 1], [1, 2]])) == Topology.path(3)


def test_disconnected_graphs_list_their_components():
    with pytest.raises(InputError, match=r"not connected; its 3 components: \{0, 1\}, \{2\}, \{3, 4\}\."):
        Topology.from_edges([(0, 1), (3, 4)])
    many = [(n, n + 1) for n in range(20)]
    expected = r"its 10 components: \{0, 1, 2, 3, 4, 5, 6, 7, \.\.\.\}, \{21\}, \{22\}, \{23\}, \{24\}, \.\.\."
    with pytest.raises(InputError, match=expected):
        Topology.from_edges(many, n_nodes=30)


# -------------------------------------------------------------------- mixing matrices


def test_laplacian_mixing_is_nonnegative_and_takes_tau():
    star = Topology.star(4)
    L = nx.laplacian_matrix(nx.star_graph(3)).toarray()
    np.testing.assert_allclose(star.W, np.eye(4) - L / 4, atol=1e-15)  # lambda_max of a star is N
    assert np.linalg.eigvalsh(star.W)[0] > -1e-14
    np.testing.assert_array_equal(Topology.star(4, tau=2.5).W, np.eye(4) - L / 2.5)


def test_metropolis_mixing():
    expected = np.array([[2 / 3, 1 / 3, 0], [1 / 3, 1 / 3, 1 / 3], [0, 1 / 3, 2 / 3]])
    np.testing.assert_allclose(Topology.path(3, mixing="metropolis").W, expected, atol=1e-15)


def test_a_matrix_of_ones_own_is_copied_and_cleaned():
    given_W = np.array(Topology.path(3, mixing="metropolis").W)
    given_W[0, 1] += 1e-12
    given_W[0, 2] = given_W[2, 0] = 1e-13
    topology = Topology.path(3, mixing=given_W)
    np.testing.assert_array_equal(topology.W, topology.W.T)
    assert topology.W[0, 2] == 0
    assert topology.mixing.name == "custom"
    kept = topology.W.copy()
    given_W[:] = 7
    np.testing.assert_array_equal(topology.W, kept)


def refusal(W, topology=Topology.path):
    with pytest.raises(InputError) as caught:
        topology(len(W), mixing=np.asarray(W, dtype=float))
    return str(caught.value)


def test_condition_1_shows_both_entries():
    message = refusal([[0.5, 0.5, 0], [0.25, 0.25, 0.5], [0, 0.5, 0.5]])
    assert "not symmetric: W[0, 1] = 0.5 but W[1, 0] = 0.25" in message


def test_condition_2_shows_the_entry_that_is_no_edge():
    message = refusal([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]])
    assert "W[0, 2] = 0.25, but (0, 2) is no edge" in message


def test_condition_3_shows_the_row_and_its_sum():
    assert "row 1 sums to 0.75 instead of 1" in refusal([[0.5, 0.5], [0.5, 0.25]])


def test_condition_3_shows_the_second_eigenvalue():
    # Node 2 has an edge, but no weight on it: the graph is connected and W is not.
    message = refusal([[0.5, 0.5, 0], [0.5, 0.5, 0], [0, 0, 1]])
    assert "must be simple, but the second largest is 1" in message


def test_condition_4_shows_the_eigenvalue_below_and_above():
    assert "not between -I and I: it has the eigenvalue -2" in refusal([[-0.5, 1.5], [1.5, -0.5]])
    assert "not between -I and I: it has the eigenvalue 3" in refusal([[2.0, -1.0], [-1.0, 2.0]])


def test_tau_below_half_of_lambda_max_violates_condition_4():
    assert np.linalg.eigvalsh(Topology.complete(4, tau=2.0).W)[0] == pytest.approx(-1)
    with pytest.raises(InputError, match=r"eigenvalue -1\.10526315789"):
        Topology.complete(4, tau=1.9)


@pytest.mark.parametrize("tau", [0.0, -3.0, float("nan"), float("inf")])
def test_tau_must_be_positive_and_finite(tau):
    with pytest.raises(InputError, match=f"positive and finite, got {tau}"):
        Topology.ring(4, tau=tau)


@pytest.mark.parametrize("mixing", ["metropolis", np.full((2, 2), 0.5)])
def test_tau_belongs_to_the_laplacian(mixing):
    with pytest.raises(InputError, match=r"tau = 3\.0 belongs to"):
        Topology.path(2, mixing=mixing, tau=3.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.eye(3), r"must be 2 x 2, got shape \(3, 3\)"),
        (np.ones(2), r"must be 2 x 2, got shape \(2,\)"),
        ([[0.5, np.nan], [0.5, 0.5]], r"finite, got W\[0, 1\] = nan"),
        ([[0.5, 0.5], [0.5]], "real numbers, got a list"),
        (np.full((2, 2), 0.5j), "real numbers, got a ndarray"),
        (None, "real numbers, got a NoneType"),
    ],
)
def test_matrices_of_wrong_shape_or_content_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        Topology.path(2, mixing=wrong)


# -------------------------------------------------------------------- spectrum


@quick
@given(topologies())
def test_mixing_matrix_has_its_four_properties(topology):
    W, N = topology.W, topology.n_nodes
    np.testing.assert_array_equal(W, W.T)
    np.testing.assert_allclose(W @ np.ones(N), 1, atol=1e-14)
    linked = nx.to_numpy_array(topology.to_networkx(), nodelist=range(N)) + np.eye(N) > 0
    assert not W[~linked].any()
    assert np.abs(np.linalg.eigvalsh(W)).max() < 1 + 1e-14
    np.testing.assert_array_equal(topology.W_tilde, (np.eye(N) + W) / 2)


@quick
@given(topologies())
def test_spectrum_is_exact_where_it_promises_and_orthonormal(topology):
    N, values, vectors = topology.n_nodes, topology.eigenvalues, topology.eigenvectors
    assert values[0] == 1.0
    assert (vectors[:, 0] == 1 / np.sqrt(N)).all()
    assert (np.diff(values) <= 0).all()
    assert values.min() >= 0
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(N), atol=5e-15)
    np.testing.assert_allclose(vectors[:, 1:].sum(axis=0), 0, atol=3e-15)
    np.testing.assert_allclose((vectors * values) @ vectors.T, topology.W_tilde, atol=1e-13)


@quick
@given(topologies())
def test_signs_do_not_hang_on_rounding(topology):
    for vector in topology.eigenvectors.T:
        largest = np.abs(vector).max()
        assert vector[np.flatnonzero(np.abs(vector) > largest - 1e-12)[0]] > 0


@quick
@given(topologies())
def test_gamma_is_the_smallest_nonzero_eigenvalue(topology):
    eigenvalues = np.linalg.svd((np.eye(topology.n_nodes) - topology.W) / 2, compute_uv=False)
    nonzero = eigenvalues[eigenvalues > 1e-12]
    expected = nonzero.min() if len(nonzero) else 1.0
    assert topology.gamma == pytest.approx(expected, abs=1e-14)
    assert topology.kappa_g == 1 / topology.gamma


def test_gamma_of_a_ring_in_closed_form():
    N = 9
    lambda_max, lambda_2 = (2 - 2 * np.cos(2 * np.pi * k / N) for k in (N // 2, 1))
    assert Topology.ring(N).gamma == pytest.approx(lambda_2 / lambda_max / 2, abs=1e-15)


@quick
@given(topologies())
def test_mixing_rows_are_the_rows_of_w_tilde(topology):
    indptr, indices, weights = topology.mixing.rows
    assert (indptr.dtype, indices.dtype, weights.dtype) == (np.int64, np.int64, np.float64)
    for n, row in enumerate(topology.W_tilde):
        columns = indices[indptr[n] : indptr[n + 1]]
        assert columns.tolist() == sorted([n, *topology.neighbors[n].tolist()])
        np.testing.assert_array_equal(weights[indptr[n] : indptr[n + 1]], row[columns])


def test_mixing_rows_keep_edges_without_weight():
    """A neighbour of weight zero is still a neighbour: its row comes, and it counts in the graph's Laplacian."""
    indptr, _, weights = Topology.complete(5, mixing=Topology.ring(5).W).mixing.rows
    assert np.diff(indptr).tolist() == [5] * 5
    assert (weights == 0).sum() == 10


@pytest.mark.parametrize("rounds", [1, 2, 3, 5])
@pytest.mark.parametrize("topology", [Topology.ring(9), Topology.path(6), Topology.star(5), Topology.complete(4)])
def test_chebyshev_mixing(topology, rounds):
    """The polynomial of formulas, its spectrum, and the same product by K rounds on the edges."""
    fast = topology.chebyshev(rounds)
    l1, l2 = topology.mixing.laplacian_range
    lap = np.eye(topology.n_nodes) - topology.W
    if l2 / l1 > 1 + 1e-9:
        c2, c3 = (l2 + l1) / (l2 - l1), 2 / (l1 + l2)
        a, x = [1.0, c2], [np.eye(len(lap)), c2 * (np.eye(len(lap)) - c3 * lap)]
        for _ in range(rounds - 1):
            a.append(2 * c2 * a[-1] - a[-2])
            x.append(2 * c2 * (np.eye(len(lap)) - c3 * lap) @ x[-1] - x[-2])
        np.testing.assert_allclose(fast.W, x[rounds] / a[rounds], atol=1e-12)
        assert fast.gamma == pytest.approx((1 - 1 / a[rounds]) / 2, abs=1e-9)
    assert fast.mixing.rounds == rounds
    assert fast.graph == topology.graph
    Z = np.random.default_rng(0).normal(size=(topology.n_nodes, 3))
    net = dsba.Simulator(fast)
    np.testing.assert_allclose(net.mix(Z), fast.W_tilde @ Z, atol=1e-12)
    assert net.rounds == rounds
    assert (net.doubles == rounds * 3 * fast.degrees).all()
    assert fast.gamma >= topology.gamma - 1e-12
    assert (fast == topology) == (rounds == 1 and np.array_equal(fast.W, topology.W))


def test_chebyshev_of_chebyshev_is_refused():
    with pytest.raises(dsba.InputError, match="Chebyshev mixing already"):
        Topology.ring(5).chebyshev(2).chebyshev(3)


@pytest.mark.parametrize("n_nodes", [1, 2, 7])
def test_the_tree_spans_the_graph_and_is_shallow(n_nodes):
    graph = Topology.path(n_nodes).graph
    assert graph.tree.depth == n_nodes // 2
    assert graph.tree.children.sum() == n_nodes - 1
    for n, parent in enumerate(graph.tree.parents):
        assert (parent == -1) == (n == graph.tree.root)
        assert parent == -1 or parent in graph.neighbors[n]


@pytest.mark.parametrize("seed", range(5))
def test_the_busiest_node_of_the_tree_has_few_links(seed):
    """Of all spanning trees of this depth, by trying all parents, none has two links fewer; shortest paths alone had up
    to two more."""
    graph = Topology.random(7, 0.5, seed=seed).graph
    tree = graph.tree
    assert tree.depth == graph.distances.max(axis=1).min()
    assert [n for n, parent in enumerate(tree.parents) if parent >= 0 and parent not in graph.neighbors[n]] == []
    links = tree.children + (tree.parents >= 0)
    least = min(busiest_link(graph, root, parents, tree.depth) for root in range(7) for parents in choices(graph, root))
    assert links.max() <= least + 1
    by_shortest = graph.parents[:, tree.root]
    assert links.max() <= np.bincount(by_shortest[by_shortest >= 0]).max() + 1


def choices(graph, root):
    return itertools.product(*([-1] if n == root else graph.neighbors[n] for n in range(graph.n_nodes)))


def busiest_link(graph, root, parents, most):
    """The most links of a node, or infinity if these parents are no tree of this depth."""
    for n in range(graph.n_nodes):
        hops = 0
        while n != root and hops <= most:
            n, hops = parents[n], hops + 1
        if hops > most:
            return math.inf
    return max(sum(p == n for p in parents) + (n != root) for n in range(graph.n_nodes))


def test_the_tree_of_ten_nodes_is_spread():
    """By shortest paths along neighbours of smallest number its root would have five children."""
    graph = Topology.random(10, 0.4, seed=0).graph
    assert (graph.tree.root, graph.tree.depth) == (4, 2)
    assert (graph.tree.children + (graph.tree.parents >= 0)).max() == 4


# -------------------------------------------------------------------- routes


def hops_from(source, topology):
    hops, queue = {source: 0}, deque([source])
    while queue:
        n = queue.popleft()
        for m in topology.neighbors[n].tolist():
            if m not in hops:
                hops[m] = hops[n] + 1
                queue.append(m)
    return [hops[n] for n in range(topology.n_nodes)]


@quick
@given(topologies())
def test_distances_are_hop_counts(topology):
    assert topology.distances.tolist() == [hops_from(n, topology) for n in range(topology.n_nodes)]
    assert topology.distances.dtype == np.int64
    assert topology.diameter == topology.distances.max()


@quick
@given(topologies())
def test_parents_are_the_smallest_neighbours_one_hop_nearer(topology):
    distances = topology.distances
    for n in range(topology.n_nodes):
        assert topology.parents[n, n] == -1
        for j in set(range(topology.n_nodes)) - {n}:
            nearer = [m for m in topology.neighbors[n] if distances[m, j] == distances[n, j] - 1]
            assert topology.parents[n, j] == min(nearer)


def test_parents_on_a_ring_of_four_break_the_tie_downwards():
    assert Topology.ring(4).parents.tolist() == [[-1, 1, 1, 3], [0, -1, 2, 0], [1, 1, -1, 3], [0, 0, 2, -1]]


# -------------------------------------------------------------------- identity


def test_digest_tells_graphs_and_weights_apart():
    ring = Topology.ring(5)
    assert ring.digest() == Topology.from_edges(ring.edges).digest()
    assert len(ring.digest()) == 64
    others = [
        Topology.ring(6),
        Topology.path(5),
        Topology.ring(5, mixing="metropolis"),
        Topology.ring(5, tau=4.0),
        Topology.complete(5, mixing=ring.W),  # the same W on a graph with more edges
    ]
    assert len({t.digest() for t in [ring, *others]}) == 6
    assert all(ring != other for other in others)
    assert ring != "ring"


def test_a_topology_cannot_be_changed():
    topology = Topology.ring(4)
    with pytest.raises(FrozenInstanceError):
        topology.W = np.eye(4)
    arrays = ["W", "W_tilde", "degrees", "distances", "parents", "eigenvalues", "eigenvectors"]
    held = [getattr(topology, name) for name in arrays] + [*topology.neighbors, *topology.mixing.rows]
    assert not any(array.flags.writeable for array in held)


def test_repr_tells_what_matters():
    assert repr(Topology.ring(4)) == "Topology(ring, N=4, 4 edges, laplacian, gamma=0.25, diameter=2)"


def test_importing_does_not_pull_networkx_in():
    script = "import sys, dsba.graph.topology as t; t.Topology.random(10); print('networkx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    "make",
    [
        lambda: Topology.random(10**9),
        lambda: Topology.ring(10**9),
        lambda: Topology.path(10**9),
        lambda: Topology.star(10**9),
        lambda: Topology.complete(10**9),
        lambda: Topology.grid(10**5, 10**5),
        lambda: Topology.from_edges([(0, 10**18)]),
    ],
)
def test_a_graph_too_large_for_memory_is_refused_at_once(make):
    with pytest.raises(InputError, match="at most 10000 nodes"):
        make()


def test_an_edge_list_is_not_shown(tmp_path):
    (tmp_path / "edges").write_text("0 1\nroot:secret 2\n")
    with pytest.raises(InputError, match="line 2: wanted two node numbers") as error:
        Topology.from_edges(tmp_path / "edges")
    assert "secret" not in str(error.value)
