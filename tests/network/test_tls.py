"""Sites over pinned TLS on loopback: the contract, the simulator's bits, refusals, masks, broken lines, restarts."""

from __future__ import annotations

import random
import re
import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import mpi_script
import numpy as np
import pytest
from benchmarks.relay import Relay
from conformance import TOPOLOGIES, answers, check, rows
from conftest import make_data
from local_sites import Running, Sites, free_port
from soak import site_noise
from test_transports import METHODS, TOPOLOGY, forms, operator_for, problem_of

import dsba
from dsba.network import exact_sum
from dsba.network.tls import pinned
from dsba.network.tls.connections import MOST_STRANGERS
from dsba.network.tls.frames import Frame, encode
from dsba.network.tls.masks import Guesses, Window
from dsba.network.tls.pinned import Door, Member, RefusedError, answer, context, dialled, explained
from dsba.network.tls.site_network import SiteNetwork
from dsba.network.transport import QUESTIONS
from dsba.study import keys


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
        return result.Z, {c: result.history[c] for c in result.history if c != "seconds"}

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


# Refusals, while a run goes on -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def the_run(tmp_path_factory):
    with Running(tmp_path_factory.mktemp("running")) as run:
        yield run


@pytest.fixture
def running(the_run):
    """Without strangers: only four of an address are heard at a time."""
    while the_run.nets[0].lines.strangers.total():
        time.sleep(0.01)
    return the_run


def refused(work):
    with pytest.raises(RefusedError) as found, work:
        pass
    return str(found.value)


def test_no_certificate(running):
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
    with (
        pytest.raises(ssl.SSLError) as found,
        socket.create_connection(running.sites.members[0].address) as line,
        bare.wrap_socket(line) as secured,
    ):
        secured.recv(1)
    assert explained(found.value) == "it wants a certificate, and none was sent."
    running.wait_for("Refused a connection from 127.0.0.1: it sent no certificate")
    running.more()


def test_another_certificate_with_the_right_name(running, tmp_path):
    keys.make("site1", tmp_path / "fake.pem")
    assert "it does not know the certificate of this site" in refused(running.dial(tmp_path / "fake.pem"))
    running.wait_for("it shows another certificate than the one in the study")
    running.more()


def test_the_wrong_certificate_of_somebody_who_answers(running, tmp_path):
    """The dialling side compares as well: a certificate of the study, but of another site."""
    odd = [member._replace(certificate=running.sites.members[1].certificate) for member in running.sites.members]
    said = refused(dialled(odd[0], context(running.sites.folder / "site2.pem", running.sites.members, server=False)))
    assert "it shows another site's certificate" in said
    running.more()


@pytest.mark.parametrize(
    ("begins", "here", "there"),
    [
        (-100, "it says that the certificate of this site has expired", "its certificate has expired"),
        (+100, "does not accept the certificate of this site: is it valid yet", "its certificate is not valid yet"),
    ],
)
def test_expired_and_not_yet_valid(begins, here, there, running, tmp_path):
    key = keys.make(f"site{begins}", tmp_path / "odd.pem", begins=datetime.now(UTC) + timedelta(days=begins), days=50)
    running.nets[0].lines.server.load_verify_locations(cadata=key.certificate)  # as if the study had it
    assert here in refused(running.dial(tmp_path / "odd.pem"))
    running.wait_for(there)
    running.more()


def test_an_expired_certificate_of_somebody_who_answers(running, tmp_path):
    """Told at the dialling site, with what to do; the other side hears it by an alert of TLS."""
    key = keys.make("site0", tmp_path / "odd.pem", begins=datetime.now(UTC) - timedelta(days=100), days=50)
    late = Member("site0", ("127.0.0.1", free_port()), key.certificate)
    members = [late, *running.sites.members[1:]]
    said = []

    def answering():
        with socket.create_server(late.address) as listener:
            ready.set()
            sock, _ = listener.accept()
            try:
                answer(sock, context(tmp_path / "odd.pem", members, server=True), members, Door())
            except RefusedError as error:
                said.append(str(error))

    ready, thread = threading.Event(), threading.Thread(target=answering)
    thread.start()
    ready.wait(10)
    here = refused(dialled(late, context(running.sites.folder / "site1.pem", members, server=False)))
    thread.join()
    assert "its certificate has expired: it needs a new one" in here
    assert said == ["it says that the certificate of this site has expired: make a new one (dsba study key)."]


def test_plain_text(running):
    with socket.create_connection(running.sites.members[0].address) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: site0\r\n\r\n")
        line.settimeout(10)
        assert b"This port speaks TLS 1.3" in line.recv(1000)
    running.wait_for("it speaks plain text and not TLS")
    running.more()


def test_plain_text_of_somebody_who_answers(running):
    def answering():
        with socket.create_server(("127.0.0.1", port)) as listener:
            ready.set()
            sock, _ = listener.accept()
            with sock:
                sock.recv(1000)
                sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    port, ready = free_port(), threading.Event()
    thread = threading.Thread(target=answering)
    thread.start()
    ready.wait(10)
    member = running.sites.members[0]._replace(address=("127.0.0.1", port))
    said = refused(dialled(member, context(running.sites.folder / "site1.pem", running.sites.members, server=False)))
    thread.join()
    assert "it answers in plain text and not with TLS: a wrong port, or a proxy in between" in said


def test_tls_1_2(running):
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError) as found, socket.create_connection(running.sites.members[0].address) as line:
        old.wrap_socket(line)
    assert "it accepts no version of TLS that was offered: TLS 1.3 is wanted" in explained(found.value)
    running.wait_for("it offers no TLS 1.3")
    running.more()


def test_not_a_neighbour(running):
    """site2 is in the study, and no neighbour of site0."""
    refusal = {"refused": "site2 and site0 are not neighbours in the study.", "kind": "site"}
    assert running.greet(2) == refusal
    running.wait_for("Refused site2: site2 and site0 are not neighbours in the study.")
    running.more()


@pytest.mark.parametrize(
    ("changed", "kind", "sentence"),
    [
        ({"study": "0" * 64}, "study", "site1 has another study file than site0: compare the hashes"),
        ({"program": "dsba 0.0.1"}, "program", "site1 has dsba 0.0.1 and site0 has dsba .*: use the same"),
        ({"format": 99}, "program", "site1 has dsba .* and site0 has dsba .*: use the same"),
        ({"data": "other"}, "data", "the data of site1 changed since the run began"),
        ({"site": "site2"}, "site", "site1 calls itself site2"),
        ({"nonce": "x"}, "message", "its first message is damaged"),
        ({"epoch": -1}, "message", "its first message is damaged"),
        ({"data": None}, "message", "its first message is damaged"),
        ({"heard": None}, "message", "its first message is damaged"),
    ],
)
def test_another_study_version_or_data(changed, kind, sentence, running):
    answer = running.greet(1, **changed)
    assert answer["kind"] == kind
    assert re.search(sentence, answer["refused"])
    running.wait_for(f"Refused site1: {sentence}")
    running.more()


@pytest.mark.parametrize(("kind", "ends"), [("data", True), ("message", False), (None, False), (["data"], False)])
def test_a_refusal_ends_the_run_by_its_kind_and_not_by_its_words(kind, ends, tmp_path):
    net = Sites(tmp_path, 2).network(dsba.Topology.path(2), 1)  # never opened
    said = {"refused": "the data of site1 changed since the run began.", "kind": kind}
    assert "site0 refused this site: the data" in str(net.lines._refused(net.links[0], said))
    assert (net.ended is not None) == ends


@pytest.mark.parametrize("place", ["tag", "crc", "cut"])
def test_frames_of_an_earlier_run_and_damaged_ones(place, running):
    """Sent by a neighbour after the handshake: refused, the line begins anew, and nothing is lost or doubled."""
    tag = running.nets[1].links[0].tag ^ (place == "tag")
    frame = encode(tag, Frame(QUESTIONS, False, 10**6, 0, b"what"))
    frame = {"tag": frame, "crc": frame[:-1] + b"x", "cut": frame[:20]}[place]
    reason = {"tag": "it belongs to an earlier run", "crc": "its checksum is wrong", "cut": "it has 20 bytes"}[place]
    running.send(frame)
    running.wait_for(f"Refused site1: refused a frame from site1: {reason}")
    running.wait_for(f"site0 refused this site: refused a frame from site1: {reason}", rank=1)
    running.more()


def test_a_line_that_is_closed_while_it_opens(running, monkeypatch):
    """A neighbour that is gone before its connection is set up is refused, and no thread ends with an error."""
    settle, failed = pinned._settle, []

    def gone(sock):
        if sock.server_side:
            sock.close()
        settle(sock)

    monkeypatch.setattr(pinned, "_settle", gone)
    monkeypatch.setattr(threading, "excepthook", failed.append)
    with pytest.raises(Exception):  # noqa: B017 - however the library says that the line is closed
        running.greet(1)
    running.wait_for("site1 opened no WebSocket")
    monkeypatch.undo()
    assert not failed
    running.more()


@pytest.mark.parametrize("noise", site_noise.NOISES, ids=lambda noise: noise.__name__)
def test_noise_does_no_harm(noise, running):
    """A small part of the soak: mutated frames of a neighbour, and half-open connections of strangers."""
    noise(running, 10, random.Random(0))
    assert running.nets[0].lines.strangers.total() <= MOST_STRANGERS
    running.more()


def test_a_site_may_close_while_a_stranger_comes(tmp_path, monkeypatch):
    """The thread that welcomes the stranger is just beginning."""
    begins = threading.Event()

    class Slow(threading.Thread):
        def start(self):
            begins.set()
            time.sleep(0.2)
            super().start()

    def visited():
        with Sites(tmp_path, 2, patience=0.1).network(dsba.Topology.complete(2), 0) as net:
            monkeypatch.setattr(threading, "Thread", Slow)
            with socket.create_connection(net.place.members[0].address):
                assert begins.wait(10)
                net.run(lambda: None)

    with pytest.raises(dsba.NetworkError, match="site0 has waited"):
        visited()


# Secure sums -----------------------------------------------------------------------------------------


def test_masked_and_unmasked_sums_have_the_same_bits(tmp_path):
    sites, topology = Sites(tmp_path, 5), TOPOLOGIES["random"]
    parts = [rows(seed, 10.0 ** (20 * seed - 40)) for seed in range(5)] + [np.zeros((5, 3)), np.full((5, 2), 5e-324)]

    def work(net):
        return [net.sum(part[net.nodes.start : net.nodes.stop]).tolist() for part in parts]

    masked, bare = (sites.together(topology, work, masked=masked) for masked in (True, False))
    assert masked == bare == [[dsba.Simulator(topology).sum(part).tolist() for part in parts]] * 5


@pytest.mark.parametrize("lowest", [-1073, -300, -40, 0, 900])
def test_a_guessed_scale_gives_the_total_modulo_2_to_the_128_and_nothing_else(lowest):
    """Also where a number is far too large for the scale: no site's part is left out of any total."""
    parts = [rows(seed, 10.0**power) for seed, power in enumerate((-300, -12, 0, 12, 150))]
    guesses = Guesses(Window(lowest, 5), 5)
    low, high = zip(*((made.low, made.high) for made in (guesses.parts(part) for part in parts)), strict=True)
    for place, exponent in enumerate(guesses.window.exponents):
        scale = exact_sum.exponent(2.0 ** (exponent - 1), 5)
        for column in range(rows().shape[1]):
            at = place * rows().shape[1] + column
            found = sum(int(a[at]) + (int(b[at]) << 64) for a, b in zip(low, high, strict=True))
            units = Fraction(2) ** scale
            wanted = sum(round(Fraction(float(x)) / units) for part in parts for x in part[:, column])
            assert (found - wanted) % 2**128 == 0


def test_a_sum_whose_scale_is_near_the_last_one_is_one_question(tmp_path):
    """The third sum of a width is far away from the one before, and takes two more questions."""
    asked = []

    def work(net):
        found = []
        for scale in (1.0, 1e-3, 1e90, 1e89):
            before = net.masks._sums
            found.append(net.sum(scale * rows()[net.rank : net.rank + 1]).tolist())
            asked.append(net.masks._sums - before)
        return found

    everyone = Sites(tmp_path, 3).together(dsba.Topology.path(3), work)
    simulator = dsba.Simulator(dsba.Topology.path(3))
    assert everyone == [[simulator.sum(scale * rows()[:3]).tolist() for scale in (1.0, 1e-3, 1e90, 1e89)]] * 3
    assert sorted(asked) == [2] * 9 + [4] * 3


def test_nothing_that_a_site_sends_is_an_unmasked_contribution(tmp_path, monkeypatch):
    """Everything that site1 sends is read: with masks none of its parts is in there, without them they are."""
    parts = rows()[:3] * [[1.0], [1e-15], [1.0]]
    words = exact_sum.integers(parts[1:2], exact_sum.exponent(np.abs(parts).max(), 3)).low
    wanted = [word for word in (word.astype("<u8").tobytes() for word in words) if len(set(word) - {0, 255}) > 4]
    assert len(wanted) > 3

    def sent_by_site1(masked):
        messages, masks = [], []
        real_send, real_begin = SiteNetwork.send, SiteNetwork._begin

        def send(net, peer, message, purpose):
            if net.rank == 1:
                messages.append(message)
            real_send(net, peer, message, purpose)

        def begin(net):
            real_begin(net)
            if net.rank == 1 and net.masks is not None:
                net.masks.derived = lambda other, number: masks.append((net.run_id, other, number))

        def work(net):
            answers = [net.sum(parts[net.rank : net.rank + 1]).tolist() for _ in range(3)]
            if net.epoch == 1 and net.rank == 2:  # as if the site had been restarted
                with net.changed:
                    net._enter(2)
                net.lines._announce()
            return [*answers, net.sum(parts[net.rank : net.rank + 1]).tolist()]

        monkeypatch.setattr(SiteNetwork, "send", send)
        monkeypatch.setattr(SiteNetwork, "_begin", begin)
        answers = Sites(tmp_path / str(masked), 3).together(dsba.Topology.ring(3), work, masked=masked)
        monkeypatch.undo()
        assert answers[0] == answers[1] == answers[2]
        return messages, masks

    for masked in (True, False):
        (tmp_path / str(masked)).mkdir()
    hidden, masks = sent_by_site1(True)
    bare, none = sent_by_site1(False)
    for part in wanted:
        assert any(part in message for message in bare)
        assert not any(part in message for message in hidden)
    assert len({run for run, _, _ in masks}) == 2  # before and after the rejoin
    assert len(set(masks)) == len(masks) > 0
    assert not none


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
        return result.Z, {c: result.history[c] for c in result.history if c != "seconds"}

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
