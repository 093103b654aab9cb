"""Decentralised learning: data at N nodes, no server, one model."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from dsba._version import __version__

if TYPE_CHECKING:
    from dsba import algorithms, data, experiments, network, operators, penalties
    from dsba.algorithms import DSA, DSBA
    from dsba.data import load_libsvm
    from dsba.engine import solve
    from dsba.errors import CheckpointError, InputError, NetworkError
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
    from dsba.network import MPINetwork, Simulator
    from dsba.operators import Operator, ScalarOperator
    from dsba.problem import Problem
    from dsba.recorder import History
    from dsba.run import Result, Status
    from dsba.solvers.reference import optimum
    from dsba.topology import Topology

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

_HOMES = {
    "algorithms": ("DSA", "DSBA"),
    "data": ("load_libsvm",),
    "engine": ("solve",),
    "errors": ("CheckpointError", "InputError", "NetworkError"),
    "estimators": tuple(name for name in __all__ if name.startswith("Decentralized")),
    "fitting.tables": ("fit", "load"),
    "network": ("MPINetwork", "Simulator"),
    "operators": ("Operator", "ScalarOperator"),
    "problem": ("Problem",),
    "recorder": ("History",),
    "run": ("Result", "Status"),
    "solvers.reference": ("optimum",),
    "topology": ("Topology",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first asked for, because importing the libraries beneath takes long."""
    if name in _HOME:
        value = globals()[name] = getattr(importlib.import_module(f"dsba.{_HOME[name]}"), name)
        return value
    if not name.startswith("_") and importlib.util.find_spec(f"dsba.{name}"):
        return importlib.import_module(f"dsba.{name}")
    raise AttributeError(f"module 'dsba' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
