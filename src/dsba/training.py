"""One model from files at several sites: what ``dsba train`` does, in one process or on MPI ranks."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dsba import data
from dsba._version import __version__
from dsba.data.dataset import csr
from dsba.engine import Result, Status, solve
from dsba.errors import InputError
from dsba.kernels.samples import normalize_rows
from dsba.model import Model
from dsba.network import MPINetwork
from dsba.network.contract import require_agreement
from dsba.problem import Problem
from dsba.topology import FAMILIES, Topology

Callback = Callable[[dict[str, float]], object]


@dataclass(frozen=True)
class Settings:
    """Everything of a training run but the data; all ranks must have the same."""

    operator: str = "logistic"
    graph: str = "random"
    mixing: str = "laplacian"
    algorithm: str = "dsba"
    communication: str | None = None
    step_size: float | str = "auto"
    lam: float | None = None
    normalize: bool = False
    max_passes: float = 100.0
    tol: float = 1e-6
    seed: int = 0


def graph_from_text(text: str, n_nodes: int, mixing: str = "laplacian", seed: int = 0) -> Topology:
    """A family's name, "random:p" with an edge probability, or the path of an edge list."""
    name, _, parameter = text.partition(":")
    if Path(text).is_file():
        return Topology.from_edges(text, n_nodes, mixing=mixing)
    if name == "random" and parameter:
        try:
            return Topology.random(n_nodes, float(parameter), seed, mixing=mixing)
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"graph {text!r}: the edge probability must be a number, got {parameter!r}.") from None
    if parameter or (name not in FAMILIES and ("/" in text or "." in text)):
        raise InputError(f"graph {text!r} is neither a file nor one of {', '.join(FAMILIES)} or random:p.")
    return Topology.family(name, n_nodes, seed=seed, mixing=mixing)


def train(
    files: Sequence[Path],
    settings: Settings,
    *,
    network: MPINetwork | None = None,
    checkpoint: Path | None = None,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
) -> tuple[Model, Result]:
    """One node per file, in order. With a ``network``, this process opens the files of its own nodes only."""
    if network:
        require_agreement(network, asdict(settings))
    topology = network.topology if network else graph_from_text(
        settings.graph, len(files), settings.mixing, settings.seed
    )  # fmt: skip
    if len(files) != topology.n_nodes:
        raise InputError(f"the graph has {topology.n_nodes} nodes, and {len(files)} files are given: one for each.")
    problem = _problem(files, settings, network)
    result = solve(
        problem,
        topology,
        settings.algorithm,
        settings.step_size,
        settings.max_passes,
        settings.tol,
        settings.seed,
        communication=settings.communication,
        network=network,
        checkpoint=checkpoint,
        progress=progress,
        callbacks=list(callbacks),
    )
    return _model(problem, settings, result), result


def _problem(files: Sequence[Path], settings: Settings, network: MPINetwork | None) -> Problem:
    own = network.nodes if network else range(len(files))
    shards = [data.load_libsvm(files[n]) for n in own]
    width = float(max(X.shape[1] for X, _ in shards))
    if network:
        width = float(network.largest(np.array([width]))[0])
    wide = [(_widened(X, int(width), settings.normalize), y) for X, y in shards]
    return Problem(wide, settings.operator, settings.lam, group=network)


def _widened(X: sp.csr_matrix, width: int, normalize: bool) -> sp.csr_matrix:
    """A site's largest column may be smaller than another's."""
    X = csr(X.data.copy() if normalize else X.data, X.indices, X.indptr, width)
    if normalize:
        normalize_rows(X.indptr, X.data)
    return X


def _model(problem: Problem, settings: Settings, result: Result) -> Model:
    weights, intercepts = problem.unpack(result.z)
    Z = problem.group.gather(result.Z).reshape(problem.n_nodes, problem.dim)
    last = result.history.last()
    facts: dict[str, Any] = {
        **asdict(settings),
        "labels": problem.component.labels,
        "lam": problem.lam,
        "step_size": result.step_size,
        "status": str(result.status),
        "message": result.message,
        "converged": result.status is Status.CONVERGED,
        "nodes": problem.n_nodes,
        "samples": problem.n_samples,
        "features": problem.n_features,
        "processes": problem.group.size,
        "figures": last,
        "versions": {"dsba": __version__, "python": platform.python_version(), "numpy": np.__version__},
    }
    return Model(weights, intercepts, Z, problem.classes, facts)
