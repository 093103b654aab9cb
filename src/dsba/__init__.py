"""Decentralised learning: data at N nodes, no server, one model."""

from __future__ import annotations

import importlib
from typing import Any

from dsba import algorithms, data, operators
from dsba._version import __version__
from dsba.algorithms import DSA, DSBA
from dsba.data import load_libsvm
from dsba.engine import Result, Status, solve
from dsba.errors import CheckpointError, InputError
from dsba.network import Simulator
from dsba.operators import Operator, ScalarOperator
from dsba.problem import Problem
from dsba.recorder import History
from dsba.reference import optimum
from dsba.topology import Topology


def __getattr__(name: str) -> Any:
    """``dsba.experiments`` is imported when it is first asked for: it brings libraries that solving needs not."""
    if name == "experiments":
        return importlib.import_module("dsba.experiments")
    raise AttributeError(f"module 'dsba' has no attribute {name!r}")


__all__ = [
    "DSA",
    "DSBA",
    "CheckpointError",
    "History",
    "InputError",
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
    "experiments",
    "load_libsvm",
    "operators",
    "optimum",
    "solve",
]
