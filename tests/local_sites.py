"""Sites on this machine, in threads: real keys, real TLS on loopback."""

from __future__ import annotations

import socket

from queues import side_by_side

from dsba.network.pinned import Member
from dsba.network.sites import Place, SiteNetwork
from dsba.study import keys

STUDY = bytes(range(32))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


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
            "tell": self.said[rank].append,
            "log": lambda event, **facts: self.events[rank].append((event, facts)),
        }
        return Place(**{**facts, **other})

    def network(self, topology, rank, *, place=None, **options):
        return SiteNetwork(topology, place or self.place(rank), **{"patience": self.patience, **options})

    def together(self, topology, work, places=None, **options):
        """``work(network)`` at every site at once: their answers in order, or the first error."""

        def one(rank):
            with self.network(topology, rank, place=places and places[rank], **options) as net:
                return net.run(lambda: work(net))

        return side_by_side(len(self.members), one)
