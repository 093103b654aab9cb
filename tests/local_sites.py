"""Sites on this machine, in threads: real keys, real TLS on loopback; and a run that strangers may disturb."""

from __future__ import annotations

import json
import re
import threading
import time
from contextlib import suppress

import numpy as np
from conformance import rows
from queues import side_by_side

import dsba
from dsba.network.tls.link import SiteLink
from dsba.network.tls.pinned import Member, context, dialled
from dsba.network.tls.site_network import SiteNetwork, SitePlace
from dsba.study import keys, trial

STUDY = bytes(range(32))
GIVE_UP = 300.0  # seconds: for what must happen, however slow the machine is


def until(ready, told=lambda: ""):
    """Wait for an event; what was told is shown if it never happens."""
    deadline = time.monotonic() + GIVE_UP
    while not ready():
        assert time.monotonic() < deadline, told()
        time.sleep(0.005)


def free_port():
    return trial.free_ports(1)[0]


class Sites:
    """``size`` sites with keys in ``folder``; those in ``dialling`` have no address of their own."""

    def __init__(self, folder, size, dialling=(), patience=60.0):
        self.folder, self.patience = folder, patience
        self.keys = [keys.make(f"site{n}", folder / f"site{n}.pem") for n in range(size)]
        self.members = [
            Member(f"site{n}", None if n in dialling else ("127.0.0.1", free_port()), key.certificate)
            for n, key in enumerate(self.keys)
        ]
        self.said = [[] for _ in range(size)]
        self.events = [[] for _ in range(size)]

    def place(self, rank, **other):
        facts = {
            "members": self.members,
            "rank": rank,
            "key": self.folder / f"site{rank}.pem",
            "sign": self.keys[rank].sign,
            "study": STUDY,
            "notify": self.said[rank].append,
            "log": lambda event, **facts: self.events[rank].append((event, facts)),
        }
        return SitePlace(**{**facts, **other})

    def network(self, topology, rank, *, place=None, **options):
        return SiteNetwork(topology, place or self.place(rank), **{"patience": self.patience, **options})

    def together(self, topology, work, places=None, **options):
        """``work(network)`` at every site at once: their answers in order, or the first error."""

        def one(rank):
            with self.network(topology, rank, place=places and places[rank], **options) as net:
                return net.run(lambda: work(net))

        return side_by_side(len(self.members), one)


class Running:
    """Three sites on a path that sum again and again; at the end every sum was right at every site."""

    def __init__(self, folder):
        self.sites, self.nets, self.stop = Sites(folder, 3), [None] * 3, threading.Event()
        self.topology, self.sums, self.errors = dsba.Topology.path(3), [0] * 3, []
        self.wanted = dsba.Simulator(self.topology).sum(rows()[:3])
        self.threads = [threading.Thread(target=self.one, args=(rank,)) for rank in range(3)]

    def one(self, rank):
        try:
            with self.sites.network(self.topology, rank) as self.nets[rank]:
                self.nets[rank].run(lambda: self.work(self.nets[rank]))
        except BaseException as error:
            self.errors.append(error)

    def work(self, net):
        while not net.largest(np.array([float(self.stop.is_set())]))[0]:
            assert (net.sum(rows()[net.rank : net.rank + 1]) == self.wanted).all()
            self.sums[net.rank] += 1
            time.sleep(0.001)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.more()
        return self

    def more(self):
        """Until the run has gone on."""
        before = list(self.sums)
        until(lambda: all(now >= then + 3 for now, then in zip(self.sums, before, strict=True)), lambda: self.errors)

    def __exit__(self, kind, error, trace):
        try:
            if error is None:
                self.more()
        finally:
            self.stop.set()
            for thread in self.threads:
                thread.join()
        assert not self.errors, self.errors
        assert [net.epoch for net in self.nets] == [1, 1, 1], self.sites.said

    def wait_for(self, sentence, rank=0):
        """Until people at a site were told so."""
        said = self.sites.said[rank]
        until(lambda: any(re.search(sentence, line) for line in said), lambda: said)

    def send(self, frame):
        """As site1, over its line to site0; it may be just beginning anew."""
        while True:
            assert not self.errors, self.errors
            with suppress(Exception):
                self.nets[1].links[0].connection.push(frame)
                return
            time.sleep(0.01)

    def dial(self, key, to=0, members=None):
        """As a program with this key would; the sentence at its end, or None."""
        return dialled(self.sites.members[to], context(key, members or self.sites.members, server=False))

    def greet(self, rank, **changed):
        """With a site's own key, but another first message: what the other side answers."""
        with self.dial(self.sites.folder / f"site{rank}.pem") as connection:
            hello = self.nets[rank].lines.hello(SiteLink(0, "site0"))
            connection.send(json.dumps({**hello, **changed}))
            return json.loads(connection.recv(GIVE_UP))
