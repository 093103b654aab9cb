"""Time on a slow network: six ranks on three hosts, rows against sparse messages.

python -m benchmarks hosts      makes the hosts, as root
python -m benchmarks.hosts      is what the ranks run
"""

from __future__ import annotations

import json
import subprocess
import sys

import dsba
from benchmarks.measure import Row
from benchmarks.namespaces import Unavailable, hosts

RATE = "100mbit"  # out of every host
PER_HOST = 2
N_HOSTS = 3


def over_a_slow_network() -> list[Row]:
    """Seconds of the same iterations, dense over cached and over sparse, where every host may send 100 Mbit/s."""
    try:
        with hosts(N_HOSTS) as there:
            command = there.mpiexec(PER_HOST, sys.executable, "-m", "mpi4py", "-m", "benchmarks.hosts")
            free = _seconds(command)
            there.limit(RATE)
            slow = _seconds(command)
    except Unavailable as error:
        print(f"  hosts cannot be made here: {error}")
        return []
    for label, spent in (("no limit", free), (RATE, slow)):
        print(f"  {label:10}" + "".join(f"  {name} {1e3 * s:.2f} ms" for name, s in spent.items()) + " per iteration")
    name = "d = 200,000, 6 ranks on 3 hosts"
    return [
        Row(f"time of dense rows over {kind} messages at {RATE}, {name}", slow["dense"] / slow[kind], 1, at_least=True,
            note=f"{1e3 * slow['dense']:.3g} against {1e3 * slow[kind]:.3g} ms an iteration; "
            f"without the limit {1e3 * free['dense']:.3g} against {1e3 * free[kind]:.3g}")
        for kind in ("sparse", "cached")
    ]  # fmt: skip


def _seconds(command: list[str]) -> dict[str, float]:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return json.loads(done.stdout.splitlines()[-1])


def on_a_rank() -> None:
    """Half a pass in each way of communicating; rank 0 prints the seconds per iteration."""
    n_nodes = N_HOSTS * PER_HOST
    topology = dsba.Topology.ring(n_nodes)
    network = dsba.MPINetwork(topology)
    X, y = dsba.data.make_text_like(n_rows=600, n_columns=200_000, row_length=50)
    own = [(X[n::n_nodes], y[n::n_nodes]) for n in network.nodes]
    problem = dsba.Problem(own, group=network)
    spent = {}
    for kind in ("dense", "sparse", "cached"):
        result = dsba.solve(problem, topology, network=network, max_passes=0.5, communication=kind)
        spent[kind] = result.seconds / result.history["iteration"][-1]
    if network.rank == 0:
        print(json.dumps(spent))


if __name__ == "__main__":
    on_a_rank()
