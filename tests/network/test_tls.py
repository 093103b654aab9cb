"""Sites over pinned TLS on loopback: the contract, the simulator's bits, refusals, masks, broken lines, restarts."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from functools import partial

import mpi_script
import numpy as np
import pytest
from benchmarks.relay import Relay
from conformance import TOPOLOGIES, answers, check, rows
from conftest import make_data
from local_sites import Sites, free_port, until
from queues import side_by_side
from test_transports import METHODS, TOPOLOGY, forms, operator_for, problem_of

import dsba
from dsba.network.tls.frames import Frame, encode
from dsba.network.tls.link import SiteLink
from dsba.network.tls.site_network import _plainly
from dsba.network.transport import QUESTIONS


@pytest.fixture(autouse=True, scope="module")
def _no_thread_is_left():
    before = set(threading.enumerate())
    yield
    assert not [thread.name for thread in set(threading.enumerate()) - before]


# The contract --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "dialling"), [(2, (0,)), (3, (2,)), (5, (1, 4))])
@pytest.mark.parametrize("topology", TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_the_contract(topology, size, dialling, tmp_path):
    """Some sites only dial out. From three sites on sums are masked, and have the same bits."""
    if topology.n_nodes == size == 5 and {(1, 4)} & set(topology.edges):
        dialling = (4,)  # two neighbours cannot both only dial out
    check(topology, Sites(tmp_path, size, dialling).together(topology, answers, rows_allowed=True))


def test_every_method_has_the_simulators_bits(tmp_path):
    """The methods one after the other at three sites that stay connected, histories included.

    ``gossip-pairwise`` is for AUC, whose kernels the gate does not compile: the test of all ways, below, has it.
    """
    cases = [(method, operator) for method in METHODS if (operator := operator_for(method)) not in (None, "auc")]
    alone = {"point-saga", "saga", "solam"}  # these have one node
    assert {method for method, _ in cases} == set(METHODS) - alone - {"gossip-pairwise"}

    def solved(method, operator, own=slice(None), net=None):
        problem = dsba.Problem(mpi_script.shards(operator)[own], operator, lam=0.05, **({"group": net} if net else {}))
        result = dsba.solve(problem, TOPOLOGY, method, max_passes=2, **forms(method))
        return result.Z, {c: result.history[c] for c in result.history if "seconds" not in c}

    def work(net):
        own = slice(net.nodes.start, net.nodes.stop)
        return {method: solved(method, operator, own, net) for method, operator in cases}

    everyone = Sites(tmp_path, 3, (2,)).together(TOPOLOGY, work, rows_allowed=True)
    for method, operator in cases:
        Z, history = solved(method, operator)
        assert (np.concatenate([found[method][0] for found in everyone]) == Z).all(), method
        for found in everyone:
            for column, values in found[method][1].items():
                np.testing.assert_array_equal(values, history[column], err_msg=f"{method} {column}")


@pytest.mark.full
@pytest.mark.parametrize(("size", "dialling"), [(2, (0,)), (3, (2,)), (5, (0, 4))])
def test_every_method_in_every_way_has_the_simulators_bits(size, dialling, tmp_path):
    """All operators, forms and ways of communicating, counters included. The lazy forms differ by rounding."""
    operators, graph = mpi_script.OPERATORS, mpi_script.TOPOLOGY
    dialling = tuple(n for n in dialling if size < 5 or not set(graph.neighbors[n].tolist()) & set(dialling))
    assert dialling
    expected = mpi_script.simulate(operators)
    applicable = {key.split("/")[0] for key in expected}
    for found in Sites(tmp_path, size, dialling).together(
        graph, lambda net: mpi_script.compare(net, expected, operators), rows_allowed=True
    ):
        assert set(found) == applicable
        assert {case.split()[1] for case in found} == set(METHODS) - {"point-saga", "saga", "solam"}
        for case, differences in found.items():
            assert differences == {} or ("lazy" in case and max(differences[key] for key in ("Z", "z")) < 1e-11), case


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


@pytest.mark.parametrize("refusal", [None, "it has no column 'age'; did you mean 'agee'?"])
def test_all_sites_of_a_ring_wait_for_the_one_that_is_missing(refusal, tmp_path, monkeypatch):
    """Sites 0 and 1 have both their neighbours. They learn from these who is missing, and why."""
    for name, seconds in (("TELL_EVERY", 0.05), ("SAY_AFTER", 0.1), ("SAY_EVERY", 0.05)):
        monkeypatch.setattr(f"dsba.network.tls.site_network.{name}", seconds)
    sites, ring = Sites(tmp_path, 5), dsba.Topology.ring(5)
    others, wanted = [sites.said[rank] for rank in (0, 1, 2, 4)], f"site3 refuses: {refusal}" if refusal else "site3 ("

    def all_said():
        return all(any(line.startswith("Waiting for site3 (") and wanted in line for line in said) for said in others)

    def one(rank):
        if rank == 3:
            refusing = partial(sites.network, ring, 3, place=sites.place(3, refusal=refusal), patience=0.0)
            with refusing() if refusal else nullcontext():
                until(all_said, lambda: sites.said)
        with sites.network(ring, rank) as net:
            return net.run(lambda: net.share(rank, discloses="totals"))

    assert side_by_side(5, one) == [[0, 1, 2, 3, 4]] * 5


def test_whoever_is_missing_is_named(tmp_path):
    sites = Sites(tmp_path, 2, patience=0.5)
    with (
        pytest.raises(dsba.NetworkError, match=r"site0 has waited 0.5 seconds for site1"),
        sites.network(dsba.Topology.complete(2), 0) as net,
    ):
        net.run(lambda: net.sum(rows()[:1]))


@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (dsba.InputError("the table of site0 is missing."), "the table of site0 is missing."),
        (KeyboardInterrupt(), "it was stopped."),
        (ZeroDivisionError("a value of a row"), "it failed."),
    ],
)
def test_an_error_at_one_site_is_told_to_all(trouble, told, tmp_path):
    """Along a path the ends are no neighbours: the sentence is passed on. It shows nothing of an unforeseen error."""

    def work(net):
        own = rows()[net.nodes.start : net.nodes.stop]
        net.sum(own)  # all are at work now: a site that still waits for the others would hear of it there
        if net.rank == 0:
            raise trouble
        return net.sum(own)

    said = []

    def heard(net):
        try:
            return work(net)
        except BaseException as error:
            said.append(str(error))
            raise

    with pytest.raises((type(trouble), dsba.NetworkError)):
        Sites(tmp_path, 3).together(dsba.Topology.path(3), heard)
    assert len(said) == 3
    assert said.count(f"site0 has left the run: {told}") == 2


# Broken lines and restarts ---------------------------------------------------------------------------


def test_lines_that_break_all_the_time_change_nothing(tmp_path):
    sites, topology = Sites(tmp_path, 3, (2,)), dsba.Topology.ring(3)
    over = threading.Event()

    def work(net):
        if net.rank == 1:
            threading.Thread(target=cut, args=(net,)).start()
        answers = []
        for seed in range(60):
            Z = rows(seed)[net.rank : net.rank + 1]
            answers.append((net.sum(Z).tolist(), net.mix(Z).tolist()))
        over.set()
        return answers

    def cut(net):
        while not over.wait(0.1):
            for link in net.links.values():
                if link.connection is not None:
                    link.connection.close_socket()

    everyone = sites.together(topology, work)
    simulator = dsba.Simulator(topology)
    for seed in range(60):
        Z = rows(seed)[:3]
        mixed = simulator.mix(Z).tolist()
        assert [answers[seed] for answers in everyone] == [(simulator.sum(Z).tolist(), [row]) for row in mixed]
    assert sum("is broken" in said for said in sites.said[1]) > 0
    assert all(event != "run" or facts["epoch"] == 1 for event, facts in sites.events[0])


@pytest.mark.parametrize("seconds", [1.0, pytest.param(20.0, marks=pytest.mark.full)])
def test_a_line_that_is_cut_for_a_while_changes_nothing(seconds, tmp_path):
    """Nothing passes between site0 and the others, then the line is closed again. After 20 seconds it was given up."""
    sites, ports = Sites(tmp_path, 3), [free_port() for _ in range(3)]
    options = {"max_passes": 8, "tol": 0.0, **forms("dsba")}
    wanted = dsba.solve(problem_of("logistic"), TOPOLOGY, "dsba", **options)
    cuts = []
    with Relay(ports[0]) as relay:
        sites.members[0] = sites.members[0]._replace(address=("127.0.0.1", relay.port))
        places = [sites.place(n, listen=("127.0.0.1", ports[0]) if n == 0 else None) for n in range(3)]

        def cut(record):
            if record["passes"] >= 2 and not cuts:
                cuts.append(time.monotonic())
                relay.cut()
                threading.Timer(seconds, relay.mend).start()

        def work(net):
            callbacks = [cut] if net.rank == 1 else []
            return dsba.solve(problem_of("logistic", net), TOPOLOGY, "dsba", callbacks=callbacks, **options)

        everyone = sites.together(TOPOLOGY, work, places)
    assert time.monotonic() > cuts[0] + seconds
    assert (np.concatenate([result.Z for result in everyone]) == wanted.Z).all()
    assert all(event != "run" or facts["epoch"] == 1 for event, facts in sites.events[0])
    assert any("is broken" in said for said in sites.said[0]) == (seconds > 15.0)


class Killed(Exception):
    """Stands for kill -9: nobody is told."""


@pytest.mark.parametrize("method", ["newton", "dsba"])
def test_a_restarted_site_rejoins_and_the_bits_are_those_of_an_undisturbed_run(method, tmp_path):
    """Newton's totals and DSBA's iterates: all go on from the latest common checkpoint, the others by themselves."""
    sites, wanted, kills = Sites(tmp_path, 3), None, []
    wanted = dsba.solve(problem_of("logistic"), TOPOLOGY, method, max_passes=8, tol=0.0, **forms(method))

    def work(net):
        def stumble(record):
            if net.rank == 1 and record["passes"] >= 3 and not kills:
                kills.append(record["passes"])
                raise Killed

        result = dsba.solve(
            problem_of("logistic", net), TOPOLOGY, method, max_passes=8, tol=0.0, callbacks=[stumble],
            checkpoint=tmp_path / "checkpoint", **forms(method),
        )  # fmt: skip
        return result.Z, {c: result.history[c] for c in result.history if "seconds" not in c}

    answers, errors = [None] * 3, []

    def one(rank):
        try:
            net = sites.network(TOPOLOGY, rank)
            with net:
                try:
                    answers[rank] = net.run(lambda: work(net))
                except Killed:
                    net.lines.close()
                    net.links.clear()  # no farewell
                    one(rank)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert kills
    assert (np.concatenate([Z for Z, _ in answers]) == wanted.Z).all()
    for _, history in answers:
        for column, values in history.items():
            np.testing.assert_array_equal(values, wanted.history[column], err_msg=column)


def test_scores_and_labels_of_rows_are_declared_as_rows(tmp_path):
    """The threshold of an AUC classifier takes every row's score, label and weight: the last three questions."""
    X, y = make_data("auc")
    sites, topology = Sites(tmp_path, 3), dsba.Topology.path(3)

    def work(net):
        own = slice(20 * net.rank, 20 * (net.rank + 1))
        return dsba.DecentralizedAUCClassifier(network=net, tol=0.1).fit(X[own], y[own]).intercept_[0]

    thresholds = sites.together(topology, work, rows_allowed=True)
    assert len(set(thresholds)) == 1
    sent = [[facts["discloses"] for event, facts in events if event == "sent"] for events in sites.events]
    asked = [kinds[-3 * len(topology.neighbors[n]) :] for n, kinds in enumerate(sent)]
    assert asked == [["rows"] * 3, ["rows"] * 6, ["rows"] * 3]


def test_a_value_that_is_too_long_is_not_read(tmp_path, monkeypatch):
    """What Python makes of JSON takes far more memory than its bytes; and the sentence of an error stays short."""
    monkeypatch.setattr("dsba.network.tls.site_network.MOST_SHARED", 1000)
    sites = Sites(tmp_path, 3)

    def work(net):
        assert net.share("short", discloses="totals") == ["short"] * 3
        net.share([[]] * (300 if net.rank == 2 else 2), discloses="totals")

    with pytest.raises(dsba.NetworkError, match="site2 sent 1200 bytes where 1000 are allowed"):
        sites.together(dsba.Topology.path(3), work)


def test_what_other_sites_are_told_of_an_error_is_one_short_line():
    assert _plainly(dsba.InputError("\x1b[2J" + "x" * 5000)) == "[2J" + "x" * 994 + "..."


def test_a_member_cannot_fill_disks_and_queues(tmp_path):
    """What is written down in every epoch is short; notices and empty frames are not piled up."""
    sites = Sites(tmp_path, 3)
    places = [sites.place(0), sites.place(1), sites.place(2, data="x" * 20_000)]
    with pytest.raises(dsba.NetworkError, match="what site2 sent to agree on a run is damaged"):
        sites.together(dsba.Topology.path(3), lambda net: None, places)
    link = SiteLink(0, "site0")
    link.meet(bytes(32), bytes(32))
    for _ in range(10):
        link.wake()
    assert {inbox.qsize() for inbox in link.inbox.values()} == {1}
    for number in range(10):
        link.take(encode(link.tag, Frame(QUESTIONS, True, number, 0, b"")))
    assert link.come == 10
