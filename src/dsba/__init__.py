"""Decentralised learning: data at N nodes, no server, one model."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dsba import algorithms, data, network, operators, penalties
from dsba._version import __version__
from dsba.algorithms import DSA, DSBA
from dsba.data import load_libsvm
from dsba.engine import Result, Status, solve
from dsba.errors import CheckpointError, InputError, NetworkError
from dsba.network import MPINetwork, Simulator
from dsba.operators import Operator, ScalarOperator
from dsba.problem import Problem
from dsba.recorder import History
from dsba.solvers.reference import optimum
from dsba.topology import Topology

if TYPE_CHECKING:
    from dsba.estimators import (
        DecentralizedAUCClassifier,
        DecentralizedClassifier,
        DecentralizedHuber,
        DecentralizedLogisticRegression,
        DecentralizedPoisson,
        DecentralizedRegressor,
        DecentralizedRidge,
        DecentralizedSVM,
    )
    from dsba.fitting.tables import fit, load

__all__ = [
    "DSA",
    "DSBA",
    "CheckpointError",
    "DecentralizedAUCClassifier",
    "DecentralizedClassifier",
    "DecentralizedHuber",
    "DecentralizedLogisticRegression",
    "DecentralizedPoisson",
    "DecentralizedRegressor",
    "DecentralizedRidge",
    "DecentralizedSVM",
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
    "experiments",
    "fit",
    "load",
    "load_libsvm",
    "network",
    "operators",
    "optimum",
    "penalties",
    "solve",
]


def __getattr__(name: str) -> Any:
    """The estimators and the experiments, when they are asked for: their libraries take longer than all the rest."""
    if name == "experiments":
        return importlib.import_module("dsba.experiments")
    if name.startswith("Decentralized") and name in __all__:
        from dsba import estimators

        return getattr(estimators, name)
    if name in ("fit", "load"):
        from dsba.fitting import tables

        return getattr(tables, name)
    raise AttributeError(f"module 'dsba' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
