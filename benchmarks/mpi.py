"""Rounds of rows between two MPI ranks, beside a bare exchange of the same bytes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.measure import Row

WIDTH = 30  # float64 values in a round
ROUNDS = 1000  # in a turn
TURNS = 15


def rounds() -> list[Row]:
    """Two ranks, one node each: ``net.mix`` over mpi4py's Sendrecv, in turns."""
    mpiexec = Path(sys.executable).parent / "mpiexec"
    if not mpiexec.exists():
        return []
    command = [mpiexec, "-n", "2", sys.executable, "-m", "benchmarks.mpi"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    median, least = json.loads(done.stdout)
    note = (
        f"{median['mix']:.1f} us against {median['bare']:.1f} us; least {least['mix']:.1f} and {least['bare']:.1f} us"
    )
    return [
        Row("round of 30 numbers on 2 MPI ranks over a bare exchange", median["mix"] / median["bare"], 4, note=note)
    ]


def main() -> None:
    """At each rank: the median and the least of all turns, in microseconds per round, printed by rank 0."""
    from mpi4py import MPI

    import dsba

    comm = MPI.COMM_WORLD
    net = dsba.MPINetwork(dsba.Topology.path(comm.size))
    Z, received = np.ones((1, WIDTH)), np.empty((1, WIDTH))
    other = 1 - comm.rank
    tasks: dict[str, Callable[[], object]] = {
        "bare": lambda: comm.Sendrecv(Z, other, 0, received, other, 0),
        "mix": lambda: net.mix(Z),
    }
    spent: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(TURNS + 1):
        for name, task in tasks.items():
            comm.Barrier()
            begun = time.perf_counter()
            for _ in range(ROUNDS):
                task()
            if turn:  # the first one compiles
                spent[name].append(1e6 * (time.perf_counter() - begun) / ROUNDS)
    if comm.rank == 0:
        print(json.dumps([{name: float(of(times)) for name, times in spent.items()} for of in (np.median, np.min)]))


if __name__ == "__main__":
    main()
