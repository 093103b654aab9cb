"""What the ranks of test_mpi.py run. Rank 0 writes what all of them found as JSON."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import conformance
import numpy as np
from conftest import make_data

import dsba
from dsba.algorithms.dsba import dual
from dsba.fitting import FitSpec, train
from dsba.network import Compressed, Delayed, Lossy, Simulator
from dsba.network.messages.levels import Compression
from dsba.network.transport import FRAMES, ROWS

TOPOLOGY = dsba.Topology.random(5, 0.5, seed=1)
SIZES = (5, 10, 12, 13, 20)
OPERATORS = ("ridge", "logistic", "auc", "softmax")
COUNTS = ("rounds", "doubles", "index_bytes", "bytes")


def shards(operator):
    X, y = make_data(operator)
    ends = np.cumsum(SIZES)[:-1]
    return list(zip(np.split(X, ends), np.split(y, ends), strict=True))


def cases(operators):
    """Every algorithm with every way it communicates, on these operators; whether it applies shows later."""
    for operator in operators:
        for name in dsba.algorithms.names():
            if name not in ("dsba", "dsa"):
                yield operator, name, {}
                continue
            for form in ("dense", "step"):
                yield operator, name, {"form": form}
            for communication in ("sparse", "cached"):
                for form in ("dense", "lazy"):
                    yield operator, name, {"form": form, "communication": communication, "table": "full"}
            yield operator, name, {"form": "dense", "communication": "cached", "cache_bytes": 300}
            if operator == "logistic":  # blocks of samples, as rows and as messages
                yield operator, name, {"form": "dense", "batch_size": 4}
                yield operator, name, {"form": "dense", "batch_size": 4, "communication": "cached", "table": "full"}
                yield operator, name, {"form": "dual", "batch_size": 4}
                yield operator, name, {"communication": "compressed", "batch_size": 4}


def solve(problem, name, options, network):
    """The result's arrays, or None where the algorithm does not apply."""
    if dsba.algorithms.get(name).why_not(problem, network or dsba.Simulator(TOPOLOGY)):
        return None
    result = dsba.solve(problem, TOPOLOGY, name, max_passes=3, network=network, **options)
    history = {f"history.{column}": result.history[column] for column in result.history if "seconds" not in column}
    return {"Z": result.Z, "z": result.z, **history, **{c: np.asarray(getattr(network, c)) for c in COUNTS}}


def simulate(operators):
    """What the ranks must find: arrays by case."""
    problems = {operator: dsba.Problem(shards(operator), operator, lam=0.05) for operator in operators}
    found = {}
    for operator, name, options in cases(operators):
        arrays = solve(problems[operator], name, options, Simulator(TOPOLOGY)) or {}
        found |= {f"{label(operator, name, options)}/{key}": value for key, value in arrays.items()}
    return found


def label(operator, name, options):
    return " ".join([operator, name, *map(str, options.values())])


def compare(network, expected, operators):
    """By case: which arrays differ at any rank, by how much at most, relative to the largest number."""
    own = slice(network.nodes.start, network.nodes.stop)
    problems = {op: dsba.Problem(shards(op)[own], op, lam=0.05, group=network) for op in operators}
    found = {}
    for operator, name, options in cases(operators):
        case = label(operator, name, options)
        arrays = solve(problems[operator], name, options, network)
        differences = {}
        for key, value in (arrays or {}).items():
            wanted = expected[f"{case}/{key}"]
            wanted = wanted[own] if key in ("Z", "doubles", "index_bytes", "bytes") else wanted
            assert value.shape == wanted.shape, (case, key)
            if not (value == wanted).all():
                differences[key] = float(np.abs(value - wanted).max() / np.abs(wanted).max())
        everybody = network.share(differences, discloses="totals")
        if arrays is not None:
            worst = {key for rank in everybody for key in rank}
            found[case] = {key: max(rank.get(key, 0.0) for rank in everybody) for key in worst}
    return found


class Listener:
    """A communicator that counts what is really handed over, by kind: rows, frames, and the rest."""

    def __init__(self, comm):
        self.comm, self.sent, self.received = comm, Counter(), Counter()

    def __getattr__(self, name):
        return getattr(self.comm, name)

    def _kind(self, tag):
        return "rows" if tag == ROWS else "frames" if tag == FRAMES else "group"

    def Isend(self, buffer, to, tag):
        self.sent[self._kind(tag)] += len(buffer[0]) if isinstance(buffer, list) else buffer.nbytes
        return self.comm.Isend(buffer, to, tag)

    def Irecv(self, buffer, source, tag):
        self.received[self._kind(tag)] += buffer.nbytes
        return self.comm.Irecv(buffer, source, tag)

    def Improbe(self, source, tag, status):
        message = self.comm.Improbe(source, tag, status)
        return message and HeardMessage(message, self.received, self._kind(tag))


class HeardMessage:
    def __init__(self, message, received, kind):
        self.message, self.received, self.kind = message, received, kind

    def Recv(self, buffer):
        self.received[self.kind] += len(buffer[0])
        self.message.Recv(buffer)


def transport():
    """One node per rank: by way of communicating, what the transport carried and what was counted, over all ranks."""
    from mpi4py import MPI

    found = {}
    for communication in ("dense", "sparse", "cached"):
        listener = Listener(MPI.COMM_WORLD)
        network = dsba.MPINetwork(TOPOLOGY, listener, timeout=300)
        own = slice(network.nodes.start, network.nodes.stop)
        problem = dsba.Problem(shards("logistic")[own], "logistic", lam=0.05, group=network)
        dsba.solve(problem, TOPOLOGY, network=network, max_passes=6, communication=communication, table="full")
        facts = {
            "received": {kind: listener.received[kind] for kind in ("rows", "frames")},
            "sent": {kind: listener.sent[kind] for kind in ("rows", "frames")},
            **{c: float(np.sum(getattr(network, c))) for c in COUNTS},
        }
        found[communication] = network.share(facts, discloses="totals")
    return found


def disagree(files):
    """Rank 1 is given something else; by what that is, the error of every rank."""
    from mpi4py import MPI

    odd = MPI.COMM_WORLD.Get_rank() == 1
    ring = dsba.Topology.ring(4)

    def run(**other):
        settings = FitSpec(**{"graph": "ring", "max_passes": 2.0, **(other if odd else {})})
        train(files, settings, network=dsba.MPINetwork(ring, timeout=300))

    def solve(**other):
        network = dsba.MPINetwork(ring, timeout=300)
        width = other.pop("width", 3) if odd else 3
        X = np.eye(4, width)
        problem = dsba.Problem([(X, [1, -1, 1, -1])] * 2, lam=0.1, group=network)
        dsba.solve(problem, ring, network=network, max_passes=1, **(other if odd else {}))

    def version():
        dsba.network.mpi.__version__ = "9.9" if odd else dsba.__version__
        dsba.MPINetwork(ring, timeout=300)

    attempts = {
        "topology": lambda: dsba.MPINetwork(dsba.Topology.path(4) if odd else ring, timeout=300),
        "mixing": lambda: dsba.MPINetwork(dsba.Topology.ring(4, mixing="metropolis" if odd else "laplacian")),
        "algorithm": lambda: run(algorithm="dsa"),
        "communication": lambda: run(communication="cached"),
        "lam": lambda: run(lam=0.3),
        "step_size": lambda: run(step_size=0.3),
        "normalize": lambda: run(normalize=True),
        "operator": lambda: run(operator="ridge"),
        "max_passes": lambda: run(max_passes=3.0),
        "width": lambda: solve(width=4),
        "seed": lambda: solve(seed=5),
        "z0": lambda: solve(z0=np.ones(3)),
        "reference": lambda: solve(reference=np.ones(3)),
        "limits": lambda: solve(tol=0.1),
        "program": version,
    }
    found = {}
    for what, attempt in attempts.items():
        message = "no error"
        try:
            attempt()
        except dsba.InputError as error:
            message = str(error)
        gathered = MPI.COMM_WORLD.allgather(message)
        found[what] = gathered
    return found


def flawed():
    """By wrapper: whether the rows of nids over links with flaws are the simulator's at every rank.

    And whether those of DSBA, compressed with the identity as compressor, are those of the simulator's exact ones.
    """
    network = dsba.MPINetwork(TOPOLOGY)
    own = slice(network.nodes.start, network.nodes.stop)
    whole, held = dsba.Problem(shards("ridge"), "ridge"), dsba.Problem(shards("ridge")[own], "ridge", group=network)
    wrappers = {
        "lossy": lambda net: Lossy(net, 0.3),
        "delayed": lambda net: Delayed(net, 2),
        "compressed": lambda net: Compressed(Delayed(net, 1), "4-bit"),
    }
    found = {}
    for name, wrap in wrappers.items():
        there = dsba.solve(held, TOPOLOGY, "nids", network=wrap(network), max_passes=20).Z
        here = dsba.solve(whole, TOPOLOGY, "nids", network=wrap(Simulator(TOPOLOGY)), max_passes=20).Z
        found[name] = all(network.share(bool((there == here[own]).all()), discloses="totals"))
    exact = dsba.DSBA(0.3, batch_size=4, form="dual")
    here = dsba.solve(whole, TOPOLOGY, exact, max_passes=20).Z
    with patch.object(dual, "FEW_LEVELS", Compression(half=128)):
        there = dsba.solve(held, TOPOLOGY, replace(exact, communication="compressed"), network=network, max_passes=20).Z
    found["identity"] = all(network.share(bool((there == here[own]).all()), discloses="totals"))
    return found


def conform():
    """By topology, what the contract's questions gave at each rank."""
    from mpi4py import MPI

    found = {}
    for name, topology in conformance.TOPOLOGIES.items():
        own = conformance.answers(dsba.MPINetwork(topology, timeout=300))
        found[name] = MPI.COMM_WORLD.allgather(own)
    return found


def main(task, out, *arguments):
    if task == "flawed":
        found = flawed()
    elif task == "disagree":
        found = disagree([Path(a) for a in arguments])
    elif task == "transport":
        found = transport()
    elif task == "conformance":
        found = conform()
    else:
        with np.load(arguments[0]) as file:
            expected = dict(file)
        found = compare(dsba.MPINetwork(TOPOLOGY, timeout=300), expected, arguments[1:])
    from mpi4py import MPI

    if MPI.COMM_WORLD.Get_rank() == 0:
        Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
