"""A user's own loss and own algorithm, in files outside the package, in every place that takes a name."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from conftest import ROOT
from sklearn import datasets, linear_model
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import dsba
from dsba.cli import app
from dsba.fitting import codec

EXAMPLES = ROOT / "examples"
LOSS = f"{EXAMPLES / 'own_loss.py'}:LogCosh"
ALGORITHM = f"{EXAMPLES / 'own_algorithm.py'}:GradientTracking"
TIGHT = {"tol": 1e-8, "max_passes": 20_000, "random_state": 0}
MPIEXEC = Path(sys.executable).parent / "mpiexec"


def run(*args, cwd):
    done = subprocess.run([*map(str, args)], cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_by_name():
    assert type(dsba.operators.get(LOSS)).__name__ == "LogCosh"
    assert dsba.algorithms.get(ALGORITHM, step_size=0.5).step_size == 0.5
    assert type(dsba.operators.get(LOSS)) is type(dsba.operators.get(LOSS))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere.py:Loss", "no file nowhere.py"),
        (f"{EXAMPLES / 'own_loss.py'}:Missing", "cannot be loaded: .*Missing"),
        ("no_such_module:Loss", "cannot be loaded: No module named"),
        (ALGORITHM, "must be a subclass of dsba's Operator"),
    ],
)
def test_refused_with_the_reason(name, message):
    with pytest.raises(dsba.InputError, match=message):
        dsba.operators.get(name)


def scaled(load):
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@dataclass(frozen=True)
class Exponential(dsba.ScalarOperator):
    """AdaBoost's loss, capped in slope far out on the wrong side."""

    labels: ClassVar[str] = "binary"
    lipschitz: ClassVar[float] = math.e**3

    def value(self, u: float, y: float) -> float:
        return math.exp(-y * u) if y * u > -3.0 else math.e**3 * (-2.0 - y * u)

    def map(self, u: float, y: float) -> float:
        return -y * math.exp(min(-y * u, 3.0))

    def slope(self, u: float, y: float) -> float:
        return math.exp(-y * u) if y * u > -3.0 else 0.0


def test_an_own_loss_in_the_estimators():
    X, y = scaled(datasets.load_diabetes)
    y = (y - y.mean()) / y.std()
    ours = dsba.DecentralizedRegressor(operator=LOSS, **TIGHT | {"tol": 1e-10}).fit(X, y)
    assert np.abs(X.T @ np.tanh(ours.predict(X) - y) + ours.coef_).max() < 1e-6
    X, y = scaled(datasets.load_breast_cancer)
    model = dsba.DecentralizedClassifier(operator=Exponential(), C=0.01, random_state=0).fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > 0.9


def test_an_own_algorithm_in_the_estimator():
    X, y = scaled(datasets.load_diabetes)
    options = {"graph": "ring", "n_nodes": 4}
    ours = dsba.DecentralizedRidge(50.0, algorithm=ALGORITHM, **options, **TIGHT)
    theirs = linear_model.Ridge(50.0).fit(X, y)
    assert np.allclose(ours.fit(X, y).coef_, theirs.coef_, atol=1e-6)


SPEC = """
[stop]
max_passes = 6
[[data]]
name = "breast-cancer"
[[problem]]
operator = "{loss}"
lam = 0.1
[[method]]
algorithm = "extra"
step_size = "auto"
[[method]]
algorithm = "{algorithm}"
step_size = "auto"
label = "mine"
"""


@pytest.mark.full
def test_in_the_comparison_command(tmp_path, monkeypatch):
    """Paths are relative to the TOML file; the folder is shown without the plugins, and runs from its own copies."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("own_loss.py", "own_algorithm.py"):
        shutil.copy(EXAMPLES / name, home)
    (home / "mine.toml").write_text(
        SPEC.format(loss="own_loss.py:LogCosh", algorithm="own_algorithm.py:GradientTracking")
    )
    monkeypatch.chdir(tmp_path)
    command = ("compare", "home/mine.toml", "--out", "out", "--workers", "1")
    refused = CliRunner().invoke(app, command)
    assert isinstance(refused.exception, dsba.InputError)
    assert "say --plugin home/own_loss.py" in str(refused.exception)
    assert not (tmp_path / "out").exists()
    plugins = ("--plugin", "home/own_loss.py", "--plugin", "home/own_algorithm.py")
    run(sys.executable, "-m", "dsba", *command, *plugins, cwd=tmp_path)

    (tmp_path / "out").rename(tmp_path / "moved")
    shutil.rmtree(home)  # as on another machine
    assert "LogCosh" in CliRunner().invoke(app, ["report", "moved"]).output
    results = dsba.lab.ExperimentResults.load(tmp_path / "moved")
    assert {"mine", "EXTRA"} == set(results.to_frame()["method"])
    loaded = [str(getattr(module, "__file__", "")) for module in sys.modules.values()]
    assert not [file for file in loaded if file.startswith(str(tmp_path))]  # shown without a line of their code
    kept = [name.rpartition(":")[0] for name in results.index.plugins]
    texts = {(tmp_path / "moved" / name).read_bytes() for name in kept}
    assert texts == {(EXAMPLES / name).read_bytes() for name in ("own_loss.py", "own_algorithm.py")}

    plugins = [argument for name in kept for argument in ("--plugin", f"moved/{name}")]
    again = CliRunner().invoke(app, ["compare", "moved/experiment.toml", "--out", "moved", *plugins])
    assert again.exit_code == 0
    assert "done" not in again.output  # the same sources, so nothing is repeated


@pytest.mark.skipif(not MPIEXEC.exists(), reason="no mpiexec beside this Python")
@pytest.mark.parametrize("algorithm", [ALGORITHM, pytest.param("dsba", marks=pytest.mark.full)])
def test_on_mpi(algorithm, tmp_path):
    """The same bits as in one process: the own loss by the own algorithm, and by DSBA."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 5))
    y = X @ rng.normal(size=5) + 0.1 * rng.normal(size=30)
    files = []
    for n, rows in enumerate(np.array_split(np.arange(30), 3)):
        lines = [f"{y[i]:.17g} " + " ".join(f"{j + 1}:{X[i, j]:.17g}" for j in range(5)) for i in rows]
        files.append(tmp_path / f"site{n}.svm")
        files[-1].write_text("\n".join(lines) + "\n")
    command = ("train", *map(str, files), "--operator", LOSS, "--algorithm", algorithm, "--lam", "0.1")
    options = ("--graph", "path", "--max-passes", "20", "--tol", "0.5", "--communication", "dense", "--out")
    alone = CliRunner().invoke(app, [*command, *options, str(tmp_path / "one")])
    assert "Model of 3 nodes" in alone.output
    run(MPIEXEC, "-n", 2, sys.executable, "-m", "dsba", *command, *options, "two", cwd=tmp_path)
    one, two = (codec.load(tmp_path / name) for name in ("one", "two"))
    assert (one.Z == two.Z).all()
    assert json.loads((tmp_path / "two" / "model.json").read_text())["processes"] == 2


ESTIMATOR = """
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import dsba

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
network = dsba.MPINetwork(dsba.Topology.path(2), timeout=300)
own = np.arange(len(y)) % 2 == network.rank
model = dsba.DecentralizedLogisticRegression(C=0.1, tol=1e-7, max_passes=400, network=network)
model = clone(model).fit(X[own], y[own])
pooled = LogisticRegression(C=0.1, tol=1e-10, max_iter=10_000).fit(X, y)
assert np.abs(model.coef_ - pooled.coef_).max() < 1e-5 * np.abs(pooled.coef_).max(), model.coef_ - pooled.coef_
assert model.classes_.tolist() == [0, 1]
"""


@pytest.mark.skipif(not MPIEXEC.exists(), reason="no mpiexec beside this Python")
def test_an_estimator_on_mpi_is_the_pooled_one(tmp_path):
    """Every rank fits with its own rows."""
    (tmp_path / "fit.py").write_text(ESTIMATOR)
    run(MPIEXEC, "-n", 2, sys.executable, "-m", "mpi4py", "fit.py", cwd=tmp_path)
