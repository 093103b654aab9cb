"""Hashes of the iterates of small runs, so that a rebuilt joint can be shown to move no bit.

`python tests/bits.py` prints them as JSON. They belong to one kind of processor and one set of versions, which are
recorded with them; `test_bits.py` compares where both are the same.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import llvmlite
import numba
import numpy as np
import scipy
from conftest import make_data, make_problem
from llvmlite import binding

import dsba
from dsba.network import MessageSimulator, Simulator

TOPOLOGY = dsba.Topology.random(5, 0.5, seed=1)
SIZES = np.repeat(np.arange(5), [5, 10, 12, 13, 20])

# (operator, algorithm, options, network)
CASES = [
    ("logistic", "dsba", {"form": "step"}, Simulator),
    ("logistic", "dsba", {"form": "dense"}, Simulator),
    ("logistic", "dsba", {"form": "lazy"}, Simulator),
    ("ridge", "dsba", {"form": "lazy", "communication": "cached"}, Simulator),
    ("auc", "dsba", {"form": "dense", "communication": "sparse", "table": "full"}, MessageSimulator),
    ("softmax", "dsba", {"form": "lazy", "communication": "cached"}, MessageSimulator),
    ("logistic", "dsa", {"form": "dense"}, Simulator),
    ("auc", "dsa", {"form": "lazy"}, Simulator),
    ("poisson", "extra", {}, Simulator),
    ("logistic", "extra", {}, MessageSimulator),
    ("huber", "dlm", {}, Simulator),
    ("ridge", "ssda", {}, Simulator),
    ("logistic", "msda", {}, Simulator),
    ("auc", "p-extra", {}, Simulator),
    ("squared-hinge", "d-admm", {}, Simulator),
    ("logistic", "dgd", {}, Simulator),
    ("ridge", "dual-averaging", {}, Simulator),
]

# Step sizes of DSBA and DSA in these cases. They are numbers, so that a better rule moves no recorded bit.
STEPS = {
    ("logistic", "dsba"): 0.783434428307864,
    ("ridge", "dsba"): 0.540363556258695,
    ("auc", "dsba"): 0.1799308990935416,
    ("softmax", "dsba"): 0.664868414042565,
    ("logistic", "dsa"): 1.0,
    ("auc", "dsa"): 0.19485296844411862,
}


def name(case) -> str:
    operator, algorithm, options, network = case
    return " ".join([operator, algorithm, *map(str, options.values()), network.__name__])


def bits(case) -> str:
    """A hash of Z after three passes, and of what was counted."""
    operator, algorithm, options, network = case
    problem = make_problem(operator, 5, lam=0.05, split=SIZES)
    net = network(TOPOLOGY)
    if step_size := STEPS.get((operator, algorithm)):
        options = options | {"sampling": "independent", "step_size": step_size}
    result = dsba.solve(problem, TOPOLOGY, algorithm, max_passes=3, network=net, **options)
    digest = hashlib.sha256(result.Z.tobytes())
    digest.update(np.array([net.rounds, *net.doubles, *net.index_bytes, *net.bytes], np.float64).tobytes())
    return digest.hexdigest()[:16]


def environment() -> dict[str, str]:
    """What bits depend on besides the code."""
    versions = {m.__name__: str(m.__version__) for m in (np, scipy, numba, llvmlite)}
    return {"processor": binding.get_host_cpu_name(), **versions, "data": hashlib.sha256(_data()).hexdigest()[:16]}


def _data() -> bytes:
    return b"".join(part.tobytes() for operator in dsba.operators.names() for part in make_data(operator))


if __name__ == "__main__":
    print(json.dumps({"environment": environment(), "bits": {name(case): bits(case) for case in CASES}}, indent=1))
