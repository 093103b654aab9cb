"""Several hosts on one machine: network namespaces on a bridge, each with its own name and shared memory.

For tests and benchmarks of MPI and of sites, as root, where the kernel allows it. Everything made is named after this
process and removed by that name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NETWORK = "10.213.77"
# Stands in for ssh, whose options come before the host's name.
STAND_IN = """#!/bin/sh
while [ "${1#%(prefix)s}" = "$1" ]; do shift; done
host=$1; shift
exec ip netns exec "$host" unshare --uts --ipc --mount sh -c \\
    'hostname "$1" && mount -t tmpfs -o size=512m tmpfs /dev/shm && shift && exec sh -c "$*"' sh "$host" "$@"
"""


class Unavailable(Exception):
    """Namespaces cannot be made here; the message says why."""


def _do(*command: str, check: bool = True) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    if check and done.returncode:
        raise Unavailable(f"{' '.join(command[:4])} ...: {done.stderr.strip() or done.returncode}")


class Hosts:
    """Hosts that reach each other over a bridge, and how mpiexec is started on the first of them."""

    def __init__(self, names: list[str], stand_in: Path) -> None:
        self.names, self.stand_in = names, stand_in

    def address(self, place: int) -> str:
        return f"{NETWORK}.{place + 1}"

    def inside(self, place: int, *command: str) -> list[str]:
        """The command as a process of one of the hosts."""
        return ["ip", "netns", "exec", self.names[place], *command]

    def mpiexec(self, per_host: int, *command: object) -> list[str]:
        launcher = Path(sys.executable).parent / "mpiexec"
        where = ",".join(f"{name}:{per_host}" for name in self.names)
        ssh = ["-launcher", "ssh", "-launcher-exec", str(self.stand_in), "-iface", "eth0", "-hosts", where]
        inside = ["ip", "netns", "exec", self.names[0], "unshare", "--uts", "--ipc", "--mount", "sh", "-c"]
        inside += ['hostname "$0" && mount -t tmpfs -o size=512m tmpfs /dev/shm && exec "$@"', self.names[0]]
        return [*inside, str(launcher), *ssh, "-n", str(per_host * len(self.names)), *map(str, command)]

    def limit(self, rate: str) -> None:
        """The bandwidth out of every host, like "20mbit"; "" is no limit."""
        for name in self.names:
            _do("ip", "netns", "exec", name, "tc", "qdisc", "del", "dev", "eth0", "root", check=False)
            if rate:
                bucket = ["rate", rate, "burst", "64kb", "latency", "400ms"]
                _do("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", *bucket)


@contextmanager
def hosts(count: int) -> Iterator[Hosts]:
    """``count`` hosts, which are gone afterwards; Unavailable where they cannot be made."""
    if os.geteuid() != 0:
        raise Unavailable("network namespaces need root")
    for tool in ("ip", "unshare"):
        if shutil.which(tool) is None:
            raise Unavailable(f"there is no command {tool}")
    prefix = f"dsba{os.getpid()}"
    bridge, names = f"br{os.getpid()}", [f"{prefix}h{i}" for i in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        stand_in = Path(folder) / "ssh"
        stand_in.write_text(STAND_IN % {"prefix": prefix})
        stand_in.chmod(0o755)
        try:
            _connect(bridge, names)
            yield Hosts(names, stand_in)
        finally:
            _disconnect(bridge, names)


def _connect(bridge: str, names: list[str]) -> None:
    _do("ip", "link", "add", bridge, "type", "bridge")
    _do("ip", "link", "set", bridge, "up")
    lines = [f"{NETWORK}.{i + 1} {name}\n" for i, name in enumerate(names)]
    for i, name in enumerate(names):
        _do("ip", "netns", "add", name)
        own = Path("/etc/netns") / name
        own.mkdir(parents=True)
        (own / "hosts").write_text("127.0.0.1 localhost\n" + "".join(lines))
        outside = f"v{i}x{bridge}"[:15]
        _do("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", name)
        _do("ip", "link", "set", outside, "master", bridge, "up")
        for words in (f"addr add {NETWORK}.{i + 1}/24 dev eth0", "link set eth0 up", "link set lo up"):
            _do("ip", "-n", name, *words.split())


def _disconnect(bridge: str, names: list[str]) -> None:
    for name in names:
        pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split()
        if pids:
            _do("kill", "-9", *pids, check=False)
        _do("ip", "netns", "del", name, check=False)
        shutil.rmtree(Path("/etc/netns") / name, ignore_errors=True)
    _do("ip", "link", "del", bridge, check=False)
