"""One contract, every transport: rows, frames, questions and counters are the simulator's, bit by bit.

Invariants 10 (no fused path goes around the network it was given) and 12 (sums over nodes are the same bits in
every order, on every transport).
"""

from __future__ import annotations

import inspect
import json
import math
import sys

import numpy as np
import pytest
import queues
from conformance import TOPOLOGIES, answers, check, rows
from conftest import ROOT, make_problem
from local_sites import Sites
from mpi import mpiexec, needs_mpi

import dsba
from dsba.network import MessageSimulator, Simulator
from dsba.network.contract import ROWS_OF_DATA, Group
from dsba.network.simulator import Alone
from dsba.network.tls.site_network import SiteNetwork
from dsba.network.transport import Network

METHODS = dsba.algorithms.names()


@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_the_simulator_by_the_definitions(topology):
    """The yardstick of all others, against matrices and infinite precision."""
    found, Z = answers(Simulator(topology)), rows()
    scale = np.abs(Z).max()
    np.testing.assert_allclose(found["mix"], topology.W_tilde @ Z, atol=1e-15 * scale)
    np.testing.assert_allclose(found["differences"], Z - topology.W_tilde @ Z, atol=1e-15 * scale)
    np.testing.assert_allclose(found["laplacian"], topology.graph.laplacian @ Z, atol=1e-14 * scale)
    assert found["sum"] == [math.fsum(column) for column in Z.T]
    assert found["gather"] == Z.ravel().tolist()
    assert found["largest"] == Z.max(axis=0).tolist()
    assert found["share"] == [{"node": n, "é": None} for n in range(5)]
    degrees, rounds, depth = topology.degrees, topology.mixing.rounds, topology.graph.tree.depth
    assert found["mix counted"]["rounds"] == rounds
    assert found["mix counted"]["bytes"] == (8 * 7 * rounds * degrees).tolist()
    assert found["laplacian counted"]["rounds"] == 1
    assert found["sum counted"]["rounds"] == 4 * depth  # the largest first, then the sum: up and down each
    assert sum(found["sum counted"]["bytes"]) == 2 * 4 * (8 + 16 * 7)  # every edge of the tree, both ways


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_queues_between_threads(topology, size):
    check(topology, queues.together(topology, size, answers))


@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_the_message_simulator(topology):
    check(topology, [answers(MessageSimulator(topology))])


@needs_mpi
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_mpi(ranks, tmp_path):
    script = ROOT / "tests" / "mpi_script.py"
    code, text = mpiexec(ranks, sys.executable, "-m", "mpi4py", script, "conformance", tmp_path / "found.json")
    assert code == 0, text
    for name, everyone in json.loads((tmp_path / "found.json").read_text()).items():
        check(TOPOLOGIES[name], everyone)


def test_the_toy_transport_is_short():
    """A transport is two primitives; if this one needs more, the contract has a hole."""
    assert len(inspect.getsource(queues).splitlines()) <= 150


def test_whoever_is_silent_is_named():
    def work(net):
        return net.mix(rows()[net.nodes.start : net.nodes.stop]) if net.rank != 1 else None

    with pytest.raises(dsba.NetworkError, match=r"rank \d has heard nothing from rank 1 for 0.2 seconds"):
        queues.together(TOPOLOGIES["path"], 3, work, timeout=0.2)


# Every method on every transport ------------------------------------------------------------------

SIZES = np.repeat(np.arange(5), [5, 10, 12, 13, 20])
TOPOLOGY = TOPOLOGIES["random"]


def problem_of(operator, net=None):
    whole = make_problem(operator, 5, lam=0.05, split=SIZES)
    if net is None:
        return whole
    ends = whole.start
    X, labels = whole.A[:: whole.k], whole.y
    if whole.classes is not None:
        labels = whole.classes[(labels > 0).astype(int)] if whole.component.labels == "binary" else labels
    return dsba.Problem([(X[a:b], labels[a:b]) for a, b in zip(ends[net.nodes], ends[1:][net.nodes], strict=True)],
                        operator, lam=0.05, group=net)  # fmt: skip


def operator_for(method, n_nodes=5):
    """One that the method takes."""
    operators = ("logistic", "ridge", "auc")
    net, algorithm = dsba.Simulator(dsba.Topology.path(n_nodes)), dsba.algorithms.get(method)
    return next((o for o in operators if not algorithm.why_not(make_problem(o, n_nodes), net)), None)


@pytest.mark.parametrize("method", [m for m in METHODS if operator_for(m)])
def test_methods_between_threads_have_the_simulators_bits(method):
    """No ``network=``: the group that holds the problem is the network."""
    operator = operator_for(method)
    if operator == "auc":
        pytest.skip("needs the extra coordinates of AUC rebuilt from shards")
    one = dsba.solve(problem_of(operator), TOPOLOGY, method, max_passes=2, **forms(method))

    def work(net):
        result = dsba.solve(problem_of(operator, net), TOPOLOGY, method, max_passes=2, **forms(method))
        return result.Z, {c: result.history[c] for c in result.history if "seconds" not in c}

    everyone = queues.together(TOPOLOGY, 3, work)
    assert (np.concatenate([Z for Z, _ in everyone]) == one.Z).all()
    for _, history in everyone:
        for column, values in history.items():
            np.testing.assert_array_equal(values, one.history[column], err_msg=column)


def forms(method):
    return {"form": "dense"} if method in ("dsba", "dsa") else {}


class Deaf(Simulator):
    """Every link drops what it carries."""

    def mix(self, Z):
        self.tally(1, Z.shape[1])
        return Z.copy()

    def differences(self, Z):
        self.tally(1, Z.shape[1])
        return np.zeros_like(Z)

    def laplacian(self, Z):
        self.tally(1, Z.shape[1])
        return np.zeros_like(Z)

    def exchange(self, outboxes, **discloses):
        super().exchange(outboxes, **discloses)
        return [{} for _ in outboxes]

    def sum(self, rows):
        return 0 * super().sum(rows)


@pytest.mark.parametrize("form", ["auto", "step", "dense"])
@pytest.mark.parametrize("method", [m for m in METHODS if operator_for(m)])
def test_a_changed_network_changes_the_result(method, form):
    """Invariant 10: a network whose links drop everything leaves the nodes apart, whatever the form."""
    if form != "auto" and method not in ("dsba", "dsa"):
        pytest.skip("the method has one form")
    options = {"form": form} if method in ("dsba", "dsa") else {}
    problem = problem_of(operator_for(method))
    whole = dsba.solve(problem, TOPOLOGY, method, max_passes=20, network=Simulator(TOPOLOGY), **options)
    apart = dsba.solve(problem, TOPOLOGY, method, max_passes=20, network=Deaf(TOPOLOGY), **options)
    assert np.abs(whole.Z - apart.Z).max() > 1e-3 * np.abs(whole.Z).max()


def test_a_changed_network_cannot_be_fused():
    problem = problem_of("logistic")
    with pytest.raises(dsba.InputError, match="form 'lazy' with dense communication needs all nodes in one process"):
        dsba.solve(problem, TOPOLOGY, "dsba", form="lazy", network=Deaf(TOPOLOGY))
    net = Simulator(TOPOLOGY)
    assert net.local_mixing() is not None
    net.mix = lambda Z: Z  # an attribute changes it, too
    assert net.local_mixing() is None


@pytest.mark.parametrize("method", ["dsba", "dsa", "extra", "p-extra", "dgd"])
def test_chebyshev_mixing_reaches_the_optimum_and_counts_its_rounds(method):
    problem, fast = make_problem("ridge", 8, lam=0.1), dsba.Topology.ring(8).chebyshev(3)
    result = dsba.solve(problem, fast, method, max_passes=400, tol=1e-9, reference=True)
    assert result.history["rounds"][-1] == 3 * result.history["iteration"][-1]
    if method != "dgd":  # which ends near the optimum, not at it
        assert result.history["distance"][-1] < 1e-6
    lazy = {"form": "lazy"} if method in ("dsba", "dsa") else {}
    again = dsba.solve(problem, fast, method, max_passes=20, **lazy)
    twin = dsba.solve(problem, fast, method, max_passes=20, network=MessageSimulator(fast))
    assert np.abs(again.Z - twin.Z).max() < 1e-11 * np.abs(twin.Z).max()
    assert again.history["rounds"][-1] == twin.history["rounds"][-1]


def test_chebyshev_mixing_sends_rows_only():
    problem, fast = make_problem("ridge", 8), dsba.Topology.ring(8).chebyshev(3)
    with pytest.raises(dsba.InputError, match="takes 3: use communication='dense'"):
        dsba.solve(problem, fast, "dsba", communication="sparse")


def test_the_laplacian_is_the_graphs_whatever_the_weights():
    """DLM and D-ADMM go by the graph: a weight of zero on an edge must not remove it."""
    problem, ring = make_problem("ridge", 5), dsba.Topology.ring(5)
    whole = dsba.Topology.complete(5)
    odd = dsba.Topology.complete(5, mixing=ring.W)
    for method in ("dlm", "d-admm"):
        a, b = (dsba.solve(problem, t, method, step_size=0.1, max_passes=20) for t in (whole, odd))
        assert (a.Z == b.Z).all()


@pytest.mark.parametrize("question", ["share", "gather"])
@pytest.mark.parametrize("kind", [Group, Alone, Network, SiteNetwork], ids=lambda kind: kind.__name__)
def test_a_question_that_carries_data_says_what_it_discloses(kind, question):
    asked = inspect.signature(getattr(kind, question)).parameters["discloses"]
    assert asked.kind is asked.KEYWORD_ONLY
    assert asked.default is asked.empty


@pytest.mark.parametrize("question", ["share", "gather"])
def test_a_site_that_allows_no_rows_shares_none(question, tmp_path):
    net = Sites(tmp_path, 2).network(dsba.Topology.path(2), 1)  # never opened
    with pytest.raises(dsba.InputError, match="site1 refuses it"):
        getattr(net, question)([1.0, 1.0], discloses=ROWS_OF_DATA)
