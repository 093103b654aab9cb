"""Sites over pinned TLS on loopback: the contract, the simulator's bits, refusals, masks, broken lines, restarts."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from conformance import TOPOLOGIES, answers, check, rows
from local_sites import Sites
from test_transports import METHODS, TOPOLOGY, forms, operator_for, problem_of

import dsba

pytest.importorskip("websockets")
pytest.importorskip("cryptography")


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    before = threading.active_count()
    yield
    assert threading.active_count() == before


# The contract --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "dialling"), [(2, (0,)), (3, (2,)), (5, (1, 4))])
@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_the_contract(topology, size, dialling, tmp_path):
    """Some sites only dial out. From three sites on sums are masked, and have the same bits."""
    if topology.n_nodes == size == 5 and {(1, 4)} & set(topology.edges):
        dialling = (4,)  # two neighbours cannot both only dial out
    check(topology, Sites(tmp_path, size, dialling).together(topology, answers, rows_allowed=True))


@pytest.mark.parametrize("size", [3, *(pytest.param(n, marks=pytest.mark.full) for n in (2, 5))])
def test_every_method_has_the_simulators_bits(size, tmp_path):
    """All methods one after the other at sites that stay connected, histories included."""
    cases = [(m, operator_for(m)) for m in METHODS if operator_for(m) not in (None, "auc")]

    def work(net):
        found = {}
        for method, operator in cases:
            result = dsba.solve(problem_of(operator, net), TOPOLOGY, method, max_passes=2, **forms(method))
            history = {c: result.history[c] for c in result.history if c != "seconds"}
            found[method] = result.Z, history
        return found

    everyone = Sites(tmp_path, size, (size - 1,)).together(TOPOLOGY, work)
    for method, operator in cases:
        one = dsba.solve(problem_of(operator), TOPOLOGY, method, max_passes=2, **forms(method))
        assert (np.concatenate([found[method][0] for found in everyone]) == one.Z).all(), method
        for found in everyone:
            for column, values in found[method][1].items():
                np.testing.assert_array_equal(values, one.history[column], err_msg=f"{method} {column}")


def test_a_long_message_goes_both_ways_at_once(tmp_path):
    """Far more than the buffers of a connection hold: nobody may wait in sending for the other to read."""
    Z = np.random.default_rng(0).normal(size=(2, 1_000_000))
    two = dsba.Topology.complete(2)
    mixed = Sites(tmp_path, 2).together(two, lambda net: net.mix(Z[net.nodes.start : net.nodes.stop]))
    assert (np.concatenate(mixed) == dsba.Simulator(two).mix(Z)).all()


def test_rows_of_data_leave_a_site_only_if_it_allows_them(tmp_path):
    def work(net):
        return net.exchange([{int(m): b"x" for m in net.topology.neighbors[n]} for n in net.nodes])

    sites = Sites(tmp_path, 3)
    with pytest.raises((dsba.InputError, dsba.NetworkError), match="does not allow it: choose communication='dense'"):
        sites.together(dsba.Topology.ring(3), work)


def test_whoever_is_missing_is_named(tmp_path):
    sites = Sites(tmp_path, 2, patience=0.5)
    with (
        pytest.raises(dsba.NetworkError, match=r"site0 has waited 0.5 seconds for site1"),
        sites.network(dsba.Topology.complete(2), 0) as net,
    ):
        net.run(lambda: net.sum(rows()[:1]))


def test_an_error_at_one_site_is_told_to_all(tmp_path):
    """Along a path the ends are no neighbours: the sentence is passed on."""

    def work(net):
        if net.rank == 0:
            raise dsba.InputError("the table of site0 is missing.")
        return net.sum(rows()[net.nodes.start : net.nodes.stop])

    said = []

    def heard(net):
        try:
            return work(net)
        except (dsba.InputError, dsba.NetworkError) as error:
            said.append(str(error))
            raise

    with pytest.raises((dsba.InputError, dsba.NetworkError)):
        Sites(tmp_path, 3).together(dsba.Topology.path(3), heard)
    assert len(said) == 3
    assert said.count("site0 has left the run: the table of site0 is missing.") == 2
