"""What every transport must do, as one function of a network: its answers are compared with the simulator's.

A new transport runs ``answers`` in each of its processes and hands the results to ``check``.
"""

from __future__ import annotations

import numpy as np

import dsba
from dsba.network import COUNTERS, Simulator

TOPOLOGIES = {
    "random": dsba.Topology.random(5, 0.5, seed=1),
    "path": dsba.Topology.path(5),
    "zero weight": dsba.Topology.complete(5, mixing=dsba.Topology.ring(5).W),
    "chebyshev": dsba.Topology.ring(5).chebyshev(2),
}
WIDTH = 7


def rows(seed=0, scale=1.0):
    """One row for each of the five nodes, of very different sizes."""
    rng = np.random.default_rng(seed)
    return scale * rng.normal(size=(5, WIDTH)) * 10.0 ** rng.integers(-9, 9, size=(5, WIDTH))


def answers(net):
    """All that the contract offers, asked of one process's part of a network: arrays and plain values by name."""
    own = slice(net.nodes.start, net.nodes.stop)
    found = {"nodes": list(net.nodes), "degrees": net.degrees.tolist()}

    def ask(name, question):
        net.reset()
        answer = question()
        found[name] = answer.tolist() if isinstance(answer, np.ndarray) else answer
        found[f"{name} counted"] = {c: np.asarray(getattr(net, c)).tolist() for c in COUNTERS}

    Z = rows()[own]
    for name in ("mix", "differences", "laplacian"):
        ask(name, lambda name=name: getattr(net, name)(Z))
    ask("one column", lambda: net.mix(Z[:, :1]))
    ask("sum", lambda: net.sum(Z))
    ask("sum of zeros", lambda: net.sum(0 * Z))
    ask("sum of infinities", lambda: net.sum(np.where(np.arange(len(Z))[:, None] == 0, np.inf, Z)))
    ask("largest", lambda: net.largest(np.max(Z, axis=0)))
    ask("gather", lambda: net.gather(Z, discloses="iterates"))
    ask(
        "share",
        lambda: [
            n for part in net.share([{"node": n, "é": None} for n in net.nodes], discloses="totals") for n in part
        ],
    )
    boxes = [{int(m): _frame(n, int(m)) for m in net.topology.neighbors[n]} for n in net.nodes]
    ask("frames", lambda: [sorted([m, frame.hex()] for m, frame in box.items()) for box in net.exchange(boxes)])
    net.reset()
    net.tally(3, WIDTH)
    found["tally"] = {c: np.asarray(getattr(net, c)).tolist() for c in COUNTERS}
    return found


def _frame(sender, receiver):
    """Bytes of another length for every link, none among them."""
    return bytes([sender, receiver]) * ((sender * receiver) % 4)


def check(topology, everyone):
    """The processes' answers are the simulator's: bits, and counters of everything whose size is a matter of nodes."""
    wanted = answers(Simulator(topology))
    assert [n for found in everyone for n in found["nodes"]] == list(range(5))
    for found in everyone:
        own = slice(found["nodes"][0], found["nodes"][-1] + 1)
        for name, value in found.items():
            if name in ("share counted", "gather counted"):  # one value a process: its size is the processes' matter
                assert value["rounds"] == wanted[name]["rounds"]
            elif name.endswith("counted") or name == "tally":
                assert value["rounds"] == wanted[name]["rounds"], name
                for counter in COUNTERS[1:]:
                    assert value[counter] == wanted[name][counter][own], (name, counter)
            elif name in ("mix", "differences", "laplacian", "one column", "degrees", "nodes", "frames"):
                assert value == wanted[name][own], name
            elif name == "sum of infinities":
                assert np.isnan(value).all()
            else:
                assert value == wanted[name], name
