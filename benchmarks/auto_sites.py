"""Ten sites over TLS behind relays of 20 ms, Reuters, logistic loss, everything automatic, to a gap of 1e-6.

`DSBA_DATA=folder python -m benchmarks.auto_sites` prints the plan, and the seconds since all sites are connected.
Every site is a process. Kernels must be compiled: the first run compiles them, the second one counts.
`mpiexec -n 10 python -m benchmarks.auto_sites` does the same on the ranks of MPI, without relays.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import dsba
from benchmarks.rounds import GAP, problem_of
from benchmarks.sites import ONE_WAY, STUDY, places
from dsba.network import Network
from dsba.network.mpi import WORLD_SIZES
from dsba.network.tls.pinned import Member
from dsba.network.tls.site_network import SiteNetwork, SitePlace
from dsba.study import keys

SITES = 10
GRAPH = dsba.Topology.random(SITES, 0.4, seed=0)


def solved(net: Network, whole: dsba.Problem, star: Any, options: dict[str, Any]) -> dict[str, Any]:
    """What the process of one node found, and how long it took; cpu has the seconds of its processor."""
    own = slice(*whole.start[net.rank : net.rank + 2])
    shard = whole.A[own], whole.y[own]
    net.sum(np.ones((1, 1)))  # all are here
    begun, cpu = time.perf_counter(), time.process_time()
    problem = dsba.Problem([shard], "logistic", lam=whole.lam, group=net)
    result = dsba.solve(problem, net.topology, "auto", reference=star, gap_tol=GAP, max_passes=500, **options)
    spent = {"seconds": time.perf_counter() - begun, "cpu": time.process_time() - cpu}
    return {**result.history.last(), **spent, "plan": str(result.plan), "end": str(result)}


def at_site(
    rank: int, members: list[Member], key: Path, listen: tuple[str, int], star: Any, name: str, options: dict[str, Any]
) -> dict[str, Any]:
    """``solved`` at a site."""
    whole = problem_of(name, "logistic")
    place = SitePlace(members, rank, key, keys.load(key).sign, STUDY, listen=listen)
    with SiteNetwork(GRAPH, place, patience=300) as net:
        return net.run(lambda: solved(net, whole, star, options))


def at_rank(name: str, options: dict[str, Any]) -> None:
    """``solved`` at a rank of MPI; the first one shows what all found."""
    whole = problem_of(name, "logistic")
    net = dsba.MPINetwork(GRAPH)
    found = solved(net, whole, dsba.optimum(whole).z, options)
    seconds = net.largest(np.array([found["seconds"]]))[0]
    if net.rank == 0:
        show(found, seconds)


def show(found: dict[str, Any], seconds: float) -> None:
    print(found.pop("plan"), found.pop("end"), found, sep="\n")
    print(f"{seconds:.1f} seconds from the moment when all were connected", flush=True)


def main(name: str = "reuters-moneyfx.trn", **options: Any) -> None:
    if any(size in os.environ for size in WORLD_SIZES):
        return at_rank(name, options)
    star = dsba.optimum(problem_of(name, "logistic")).z
    with places(SITES, ONE_WAY) as where, ProcessPoolExecutor(SITES, get_context("spawn")) as pool:
        facts = [[getattr(place, part) for place in where] for part in ("members", "key", "listen")]
        same = [[thing] * SITES for thing in (star, name, options)]
        found = list(pool.map(at_site, range(SITES), *facts, *same))
    show(found[0], max(site["seconds"] for site in found))


if __name__ == "__main__":
    main(*sys.argv[1:])
