"""Decentralised learning: data at N nodes, no server, one model."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dsba._version import __version__

if TYPE_CHECKING:
    from dsba import algorithms, data, lab, network, operators
    from dsba.algorithms import DSA, DSBA
    from dsba.data import load_libsvm
    from dsba.data.sources import table_source
    from dsba.engine.history import History
    from dsba.engine.run import Result, Status
    from dsba.engine.solve import solve
    from dsba.errors import CheckpointError, DsbaError, InputError, NetworkError, StorageError
    from dsba.estimators import (
        DecentralizedAUCClassifier,
        DecentralizedClassifier,
        DecentralizedElasticNet,
        DecentralizedElasticNetCV,
        DecentralizedHuber,
        DecentralizedLogisticRegression,
        DecentralizedPoisson,
        DecentralizedRegressor,
        DecentralizedRidge,
        DecentralizedSVM,
    )
    from dsba.graph.link import Link
    from dsba.graph.topology import Topology
    from dsba.network import MPINetwork, Simulator
    from dsba.operators import Operator, ScalarOperator, penalties
    from dsba.problem.problem import Problem
    from dsba.solvers.reference import optimum
    from dsba.tables.describe import describe
    from dsba.tables.elastic_net import elastic_net
    from dsba.tables.exports import side_by_side
    from dsba.tables.fit import fit, load
    from dsba.tables.meta import meta
    from dsba.tables.survival import survival_curve

__all__ = [
    "DSA",
    "DSBA",
    "CheckpointError",
    "DecentralizedAUCClassifier",
    "DecentralizedClassifier",
    "DecentralizedElasticNet",
    "DecentralizedElasticNetCV",
    "DecentralizedHuber",
    "DecentralizedLogisticRegression",
    "DecentralizedPoisson",
    "DecentralizedRegressor",
    "DecentralizedRidge",
    "DecentralizedSVM",
    "DsbaError",
    "History",
    "InputError",
    "Link",
    "MPINetwork",
    "NetworkError",
    "Operator",
    "Problem",
    "Result",
    "ScalarOperator",
    "Simulator",
    "Status",
    "StorageError",
    "Topology",
    "__version__",
    "algorithms",
    "data",
    "describe",
    "elastic_net",
    "fit",
    "lab",
    "load",
    "load_libsvm",
    "meta",
    "network",
    "operators",
    "optimum",
    "penalties",
    "side_by_side",
    "solve",
    "survival_curve",
    "table_source",
]

_HOMES = {
    "algorithms": ("DSA", "DSBA"),
    "data": ("load_libsvm",),
    "data.sources": ("table_source",),
    "engine.history": ("History",),
    "engine.run": ("Result", "Status"),
    "engine.solve": ("solve",),
    "errors": ("CheckpointError", "DsbaError", "InputError", "NetworkError", "StorageError"),
    "estimators": tuple(name for name in __all__ if name.startswith("Decentralized")),
    "graph.link": ("Link",),
    "graph.topology": ("Topology",),
    "network": ("MPINetwork", "Simulator"),
    "operators": ("Operator", "ScalarOperator"),
    "problem.problem": ("Problem",),
    "solvers.reference": ("optimum",),
    "tables.describe": ("describe",),
    "tables.exports": ("side_by_side",),
    "tables.elastic_net": ("elastic_net",),
    "tables.fit": ("fit", "load"),
    "tables.meta": ("meta",),
    "tables.survival": ("survival_curve",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_FOLDER = {"penalties": "operators.penalties"}  # public modules that are not at the top


def __getattr__(name: str) -> Any:
    """Public names are imported when they are first asked for, because importing the libraries beneath takes long."""
    if name not in __all__:
        raise AttributeError(f"module 'dsba' has no attribute {name!r}")
    home = importlib.import_module(f"dsba.{_HOME.get(name, _FOLDER.get(name, name))}")
    value = globals()[name] = getattr(home, name) if name in _HOME else home
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
