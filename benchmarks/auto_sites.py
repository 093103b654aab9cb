"""Ten sites over TLS behind relays of 20 ms, Reuters, logistic loss, everything automatic, to a gap of 1e-6.

`DSBA_DATA=folder python -m benchmarks.auto_sites` prints the plan, and the seconds since all sites are connected.
Every site is a process. Kernels must be compiled: the first run compiles them, the second one counts.
"""

from __future__ import annotations

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
from dsba.network.tls.pinned import Member
from dsba.network.tls.site_network import SiteNetwork, SitePlace
from dsba.study import keys

SITES = 10


def at_site(
    rank: int, members: list[Member], key: Path, listen: tuple[str, int], star: Any, name: str, options: dict[str, Any]
) -> dict[str, Any]:
    """What one site found, and how long it took."""
    whole, topology = problem_of(name, "logistic"), dsba.Topology.random(SITES, 0.4, seed=0)
    own = slice(*whole.start[rank : rank + 2])
    shard = whole.A[own], whole.y[own]
    place = SitePlace(members, rank, key, keys.load(key).sign, STUDY, listen=listen)
    with SiteNetwork(topology, place, patience=300) as net:

        def work() -> dict[str, Any]:
            net.sum(np.ones((1, 1)))  # all are here
            begun = time.perf_counter()
            problem = dsba.Problem([shard], "logistic", lam=whole.lam, group=net)
            result = dsba.solve(problem, topology, "auto", reference=star, gap_tol=GAP, max_passes=500, **options)
            seconds = time.perf_counter() - begun
            return {"seconds": seconds, "plan": str(result.plan), "end": str(result), **result.history.last()}

        return net.run(work)


def main(name: str = "reuters-moneyfx.trn", **options: Any) -> None:
    star = dsba.optimum(problem_of(name, "logistic")).z
    with places(SITES, ONE_WAY) as where, ProcessPoolExecutor(SITES, get_context("spawn")) as pool:
        facts = [[getattr(place, part) for place in where] for part in ("members", "key", "listen")]
        same = [[thing] * SITES for thing in (star, name, options)]
        found = list(pool.map(at_site, range(SITES), *facts, *same))
    print(found[0]["plan"], found[0]["end"], sep="\n")
    print({key: value for key, value in found[0].items() if key not in ("plan", "end")})
    print(f"{max(site['seconds'] for site in found):.1f} seconds from the moment when all sites were connected")


if __name__ == "__main__":
    main(*sys.argv[1:])
