"""One model from LIBSVM files at several sites: what ``dsba train`` does, in one process or in several."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dsba import data
from dsba._version import __version__
from dsba.data.dataset import csr
from dsba.engine import Result, Status
from dsba.errors import InputError
from dsba.fitting.fit import Callback, Fit, fit
from dsba.fitting.model import Model
from dsba.fitting.rows import Rows, as_rows
from dsba.fitting.settings import Settings
from dsba.topology import Topology


def train(
    files: Sequence[Path],
    settings: Settings,
    *,
    network: Any = None,
    checkpoint: Path | None = None,
    progress: bool = False,
    callbacks: Sequence[Callback] = (),
) -> tuple[Model, Result]:
    """One node per file, in order. With a ``network``, this process opens the files of its own nodes only."""
    topology = network.topology if network else Topology.of(
        settings.graph, len(files), seed=settings.seed, mixing=settings.mixing
    )  # fmt: skip
    if len(files) != topology.n_nodes:
        raise InputError(f"the graph has {topology.n_nodes} nodes, and {len(files)} files are given: one for each.")
    rows = _read(files, network)
    done = fit(rows, settings, network=network, checkpoint=checkpoint, progress=progress, callbacks=callbacks)
    return _model(done, settings), done.result


def _read(files: Sequence[Path], network: Any) -> Rows:
    own = network.nodes if network else range(len(files))
    shards = [data.load_libsvm(files[n]) for n in own]
    width = float(max(X.shape[1] for X, _ in shards))
    if network:
        width = float(network.largest(np.array([width]))[0])
    X = sp.vstack([csr(X.data, X.indices, X.indptr, int(width)) for X, _ in shards], format="csr")
    nodes = np.repeat(np.arange(len(shards)), [len(y) for _, y in shards])
    return as_rows(X, np.concatenate([y for _, y in shards]), nodes=nodes)


def _model(done: Fit, settings: Settings) -> Model:
    problem, result = done.problem, done.result
    weights, intercepts = done.mean
    Z = problem.group.gather(result.Z).reshape(problem.n_nodes, problem.dim)
    facts: dict[str, Any] = {
        **settings.facts(),
        "labels": problem.component.labels,
        "decision": problem.component.decision,
        "link": problem.component.link,
        "lam": problem.lam,
        "step_size": result.step_size,
        "status": str(result.status),
        "message": result.message,
        "converged": result.status is Status.CONVERGED,
        "nodes": problem.n_nodes,
        "samples": done.n_rows,
        "features": problem.n_features,
        "processes": problem.group.size,
        "figures": result.history.last(),
        "versions": {"dsba": __version__, "python": platform.python_version(), "numpy": np.__version__},
    }
    return Model(weights, intercepts, Z, problem.classes, facts)
