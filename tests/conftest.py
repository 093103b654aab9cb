"""Shared small problems. Compiled kernels are kept in .cache, keyed by the sources they come from.

The tiers of the suite are kept in `tests/tiers.py`.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import re
import signal
import sys
import threading
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(folder) for folder in (ROOT / "tests").glob("[a-z]*/")]  # tests share what they check with


def _key() -> str:
    digest = hashlib.sha256()
    for folder in ("kernels", "operators"):
        for path in sorted((ROOT / "src" / "dsba" / folder).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


# What a machine has set for others: colours and widths, proxies, a hook of git, a job of Slurm, bounds.
OF_OTHERS = re.compile(
    "(FORCE_|NO_|PY_|CLI)COLOR(S|_FORCE)?|COLUMNS|LINES|TERMINAL_WIDTH|TTY_.*|GITHUB_ACTIONS|PYTHONWARNINGS"
    "|(HTTPS?|ALL|NO)_PROXY|GIT_.*|(SLURM|SBATCH)_.*|DSBA_(?!DATA$|CACHE$|THREADS$).*",
    re.IGNORECASE,
)
for _name in filter(OF_OTHERS.fullmatch, list(os.environ)):
    del os.environ[_name]
os.environ |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
os.environ.setdefault("NUMBA_CACHE_DIR", str(ROOT / ".cache" / "numba" / _key()))

import numpy as np  # noqa: E402
import pytest  # noqa: E402

import dsba  # noqa: E402

OPERATORS = dsba.operators.names()
pytest_plugins = ["tiers", "pytester", "small_experiments"]


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as under `nohup make test &`: tests press Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)


main_thread_only = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread only"
)


def also_in_full(gate, everything):
    """Parameters of a test: those of the gate, and all others for `make full` alone."""
    return [pytest.param(name, marks=[] if name in gate else pytest.mark.full) for name in everything]


def make_data(operator: str, rows: int = 60, columns: int = 12, density: float = 0.5, seed: int = 0):
    """Small random data with labels of the kind the operator wants."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < density)
    score = X @ rng.normal(size=columns) + 0.3 * rng.normal(size=rows)
    kind = dsba.operators.get(operator).labels
    if kind == "binary":
        return X, np.where(score > 0.3, 1, -1)
    if kind == "multiclass":
        return X, np.digitize(score, [-1.0, 0.5])
    return X, rng.poisson(np.exp(np.clip(score, -2, 2))).astype(float) if kind == "count" else score


def make_problem(operator: str = "logistic", n_nodes: int = 4, lam: float = 0.05, seed: int = 0, **options):
    """A small well-conditioned problem."""
    X, y = make_data(operator, seed=seed)
    return dsba.Problem.from_arrays(X, y, operator, n_nodes=n_nodes, lam=lam, seed=seed, **options)


@pytest.fixture(scope="module")
def ridge():
    return make_problem("ridge")


@pytest.fixture(scope="session")
def unequal():
    """Nodes of 60 rows for four nodes: 2, 5, 10 and 43 rows."""
    return np.repeat([0, 1, 2, 3], [2, 5, 10, 43])


@pytest.fixture(scope="session", autouse=True)
def ports_of_this_worker():
    """Workers of the gate run side by side: none takes a port on which a site of another is about to listen."""
    from dsba.study import trial

    own = trial.PORT_RANGE[int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 8 :: 8]
    trial.PORTS = itertools.cycle(random.Random().sample(own, len(own)))


_opened: Counter[str] = Counter()


@pytest.fixture(scope="session")
def opened():
    """How often this process has opened a file, by its path."""

    def count(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str | os.PathLike):
            _opened[os.fspath(arguments[0])] += 1

    sys.addaudithook(count)  # which stays until the process ends
    return lambda path: _opened[str(path)]
