"""Decentralised learning: data at N nodes, no server, one model."""

from __future__ import annotations

from dsba import algorithms, data, operators
from dsba._version import __version__
from dsba.algorithms import DSA, DSBA
from dsba.data import load_libsvm
from dsba.engine import Result, Status, solve
from dsba.errors import CheckpointError, InputError, NetworkError
from dsba.network import MPINetwork, Simulator
from dsba.operators import Operator, ScalarOperator
from dsba.problem import Problem
from dsba.recorder import History
from dsba.reference import optimum
from dsba.topology import Topology

__all__ = [
    "DSA",
    "DSBA",
    "CheckpointError",
    "History",
    "InputError",
    "MPINetwork",
    "NetworkError",
    "Operator",
    "Problem",
    "Result",
    "ScalarOperator",
    "Simulator",
    "Status",
    "Topology",
    "__version__",
    "algorithms",
    "data",
    "load_libsvm",
    "operators",
    "optimum",
    "solve",
]
