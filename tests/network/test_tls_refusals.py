"""Whom a site refuses while a run goes on, and in which words."""

from __future__ import annotations

import json
import math
import random
import re
import socket
import ssl
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from local_sites import GIVE_UP, STUDY, Running, Sites, free_port, until
from soak import site_noise
from websockets.sync.server import ServerConnection

import dsba
from dsba.network.tls import connections, handshakes, pinned
from dsba.network.tls.frames import Frame, encode
from dsba.network.tls.pinned import Member, RefusedError, context, dialled, explained
from dsba.network.transport import QUESTIONS
from dsba.study import keys


@pytest.fixture(autouse=True, scope="module")
def _no_thread_is_left():
    before = set(threading.enumerate())
    yield
    assert not [thread.name for thread in set(threading.enumerate()) - before]


# Refusals, while a run goes on -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def the_run(tmp_path_factory):
    """Every stranger is told of at once, and all that is about a member."""
    with pytest.MonkeyPatch.context() as patch, Running(tmp_path_factory.mktemp("running")) as run:
        patch.setattr(handshakes, "STRANGERS_EVERY", 0.0)
        patch.setattr(connections, "MOST_SITE_LINES", math.inf)
        yield run


@pytest.fixture
def running(the_run):
    """Without strangers."""
    until(lambda: not the_run.nets[0].lines.handshakes.unfinished)
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
    said, over = [], threading.Event()
    with socket.create_server(late.address) as listener:
        using, log = context(tmp_path / "odd.pem", members, server=True), lambda event, **facts: None
        answering = handshakes.Handshakes(listener, using, members, over, None, handshakes.Strangers(said.append, log))
        thread = threading.Thread(target=answering.run)
        thread.start()
        client = context(running.sites.folder / "site1.pem", members, server=False)
        alerted(late.address, client, lambda: said)
        here = refused(dialled(late, client))
        over.set()
        thread.join()
    assert "its certificate has expired: it needs a new one" in here
    expired = "it says that the certificate of this site has expired: make a new one (dsba study key)."
    assert said[0] == f"Refused a connection from 127.0.0.1: {expired}"


def alerted(address, using, heard):
    """A handshake that ends with an alert, on a line that stays until it was heard.

    A line that is closed with unread bytes in it may take the alert back before it is read.
    """
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secured, over = using.wrap_bio(incoming, outgoing, server_hostname="site0"), False
    with socket.create_connection(address) as line:
        line.settimeout(GIVE_UP)
        while not over:
            try:
                secured.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLCertVerificationError:
                over = True
            line.sendall(outgoing.read())
            if not over:
                incoming.write(line.recv(1 << 16))
        until(heard)


def test_plain_text(running):
    with socket.create_connection(running.sites.members[0].address) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: site0\r\n\r\n")
        line.settimeout(GIVE_UP)
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
    ready.wait(GIVE_UP)
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


def test_a_refusal_is_heard_from_a_member_that_has_closed_its_line(running, monkeypatch):
    """What it had to say may have come, with the end of the line, before this site looks at it."""
    handshake = ServerConnection.handshake

    def slow(connection, **options):
        handshake(connection, **options)
        connection.recv_events_thread.join(GIVE_UP)

    monkeypatch.setattr(ServerConnection, "handshake", slow)
    with running.dial(running.sites.folder / "site1.pem") as line:
        line.send(json.dumps({"refused": "its table is missing.", "kind": "absent"}))
        line.close()
    running.wait_for("site1 refused this site: its table is missing")
    monkeypatch.undo()
    running.more()


def test_a_neighbour_that_has_not_heard_a_refusal_was_not_told(tmp_path):
    sites = Sites(tmp_path, 2)
    place = sites.place(0, refusal="site0 has no column 'age'.")
    with sites.network(dsba.Topology.path(2), 0, place=place, patience=0.0) as net:
        using = context(tmp_path / "site1.pem", sites.members, server=False)
        with dialled(sites.members[0], using) as line:
            line.close_socket()
        until(lambda: sites.said[0])
        assert not net.lines.declined
        with dialled(sites.members[0], using) as line:
            line.send("{}")
            assert json.loads(line.recv(GIVE_UP)) == {"refused": place.refusal, "kind": "absent"}
            line.close()
        until(lambda: net.lines.declined)
        assert net.lines.declined == {1}


def test_a_site_dials_again_when_its_line_breaks_at_once(tmp_path, monkeypatch):
    """Between the end of the handshake and the first message: the thread that dials goes on."""
    settle, broken = pinned._settle, []

    def once(sock):
        if not sock.server_side and not broken:
            broken.append(sock)
            sock.close()
        settle(sock)

    monkeypatch.setattr(pinned, "_settle", once)
    shared = Sites(tmp_path, 2).together(dsba.Topology.path(2), lambda net: net.share(net.rank, discloses="totals"))
    assert (shared, len(broken)) == ([[0, 1]] * 2, 1)


def test_a_member_that_dials_all_the_time_fills_no_log(tmp_path, monkeypatch):
    """With another complaint every time."""
    monkeypatch.setattr(connections, "MOST_SITE_LINES", 5)
    monkeypatch.setattr(connections, "SITE_LINE_EVERY", math.inf)
    sites = Sites(tmp_path, 2, patience=0.1)
    using = context(tmp_path / "site1.pem", sites.members, server=False)

    def greeted(name):
        with dialled(sites.members[0], using) as line:
            line.send(json.dumps(connections.greeting(STUDY, name)))
            assert f"site1 calls itself {name}" in json.loads(line.recv(GIVE_UP))["refused"]

    with sites.network(dsba.Topology.path(2), 0) as net:
        for number in range(12):
            greeted(f"name{number}")
        allowance = net.lines.allowed["site1"]
        until(lambda: allowance.withheld == 7)
        assert len(sites.events[0]) == len(sites.said[0]) == 5
        allowance.lines = 1.0
        greeted("last")
        until(lambda: len(sites.events[0]) == 6)
    assert sites.events[0][-1][1]["withheld"] == 7


def test_a_member_has_so_many_connections_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "MOST_ANSWERED", 2)
    sites = Sites(tmp_path, 2, patience=0.1)
    using = context(tmp_path / "site1.pem", sites.members, server=False)
    with sites.network(dsba.Topology.path(2), 0) as net:
        with dialled(sites.members[0], using), dialled(sites.members[0], using):
            assert "no connection to site0" in refused(dialled(sites.members[0], using))
        until(lambda: not net.lines.answered[1])
        with dialled(sites.members[0], using):
            pass


@pytest.mark.parametrize("noise", site_noise.NOISES, ids=lambda noise: noise.__name__)
def test_noise_does_no_harm(noise, running):
    """A small part of the soak: mutated frames of a neighbour, and half-open connections of strangers."""
    noise(running, 10, random.Random(0))
    assert running.nets[0].lines.handshakes.unfinished <= 2 * handshakes.MOST_UNFINISHED
    running.more()


def test_a_site_may_close_while_a_member_comes(tmp_path, monkeypatch):
    """The thread that welcomes the member is just beginning."""
    begins = threading.Event()

    class Slow(threading.Thread):
        def start(self):
            begins.set()
            time.sleep(0.2)
            super().start()

    def visited():
        with Sites(tmp_path, 2, patience=0.1).network(dsba.Topology.complete(2), 0) as net:
            monkeypatch.setattr(threading, "Thread", Slow)
            using = context(tmp_path / "site1.pem", net.place.members, server=False)
            with socket.create_connection(net.place.members[0].address) as line, using.wrap_socket(line):
                assert begins.wait(GIVE_UP)
                net.run(lambda: None)

    with pytest.raises(dsba.NetworkError, match="site0 has waited"):
        visited()
