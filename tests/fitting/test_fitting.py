"""One road from rows to a model: files and arrays, one process and several, come to the same bits."""

from __future__ import annotations

import json
import sys

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from conftest import ROOT, also_in_full, make_data
from hospital_tables import terms
from mpi import TRAIN, mpiexec, needs_mpi, run

import dsba
from dsba.data.table_files import TableFile
from dsba.fitting import FitSpec, codec, train
from dsba.fitting.disclosure import Guards
from dsba.fitting.not_converged import EXIT_CODE
from dsba.tables.design import design_tables
from dsba.tables.terms import SiteTable

SITES = np.repeat([0, 1, 2], [10, 18, 32])


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DSBA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{ROOT / 'tests'}:{ROOT / 'tests/fitting'}")


def long_rows(operator):
    """Data whose rows are of very different length, far from the origin, with every column at every site."""
    X, y = make_data(operator, columns=5, density=0.9)
    X = (X + 0.5) * np.where(np.arange(60) % 17 == 0, 12.0, 1.0)[:, None]
    return (X / 12.0 if operator == "poisson" else X), y


def write_sites(folder, X, y, sites=SITES, base=1):
    """A LIBSVM file per site with every digit, which scikit-learn's writer does not give."""
    files = []
    for n in np.unique(sites):
        lines = [
            f"{y[i].item()!r} " + " ".join(f"{j + base}:{v!r}" for j, v in enumerate(X[i].tolist()) if v)
            for i in np.flatnonzero(sites == n)
        ]
        files.append(folder / f"site{n}.svm")
        files[-1].write_text("\n".join(lines) + "\n")
    return files


# Files and arrays ----------------------------------------------------------------------------------

ESTIMATORS = {
    "ridge": dsba.DecentralizedRidge(alpha=3.0),
    "logistic": dsba.DecentralizedLogisticRegression(C=0.5),
    "softmax": dsba.DecentralizedLogisticRegression(C=0.5),
    "poisson": dsba.DecentralizedPoisson(alpha=0.05),
}
LAMBDAS = {"ridge": 3.0 / 60, "logistic": 1.0 / (0.5 * 60), "softmax": 1.0 / (0.5 * 60), "poisson": 0.05}


def of_estimator(estimator):
    return np.atleast_2d(estimator.coef_), np.atleast_1d(estimator.intercept_)


def assert_same_bits(one, other):
    for a, b in zip(one, other, strict=True):
        assert a.shape == b.shape
        assert (a == b).all(), np.abs(a - b).max()
    assert (one[1] != 0.0).all()


def test_a_file_is_opened_to_recognise_it_and_once_to_read_it(tmp_path, opened):
    files = write_sites(tmp_path, *long_rows("ridge"))
    before = [opened(file) for file in files]
    train(files, FitSpec(operator="ridge"))
    assert [opened(file) - count for file, count in zip(files, before, strict=True)] == [2] * len(files)


@needs_mpi
@pytest.mark.parametrize("operator", also_in_full(["logistic"], ESTIMATORS))
def test_files_and_arrays_give_the_same_bits(operator, tmp_path):
    X, y = long_rows(operator)
    estimator = ESTIMATORS[operator].set_params(graph="ring", random_state=5, max_passes=30, tol=1e-9, algorithm="dsba")
    with pytest.warns(match="did not converge"):
        expected = of_estimator(estimator.fit(X, y, nodes=SITES))
    files = write_sites(tmp_path, X, y)
    settings = {"lam": LAMBDAS[operator], "seed": 5, "max_passes": 30.0, "tol": 1e-9}
    settings |= {"graph": "ring", "algorithm": "dsba"}
    model, _ = train(files, FitSpec(operator=operator, **settings))
    assert_same_bits((model.weights, model.intercepts), expected)
    options = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    command = (*TRAIN, *files, "--operator", operator, *options, "--out", tmp_path / "run")
    code, text = mpiexec(3, *command)
    assert code == EXIT_CODE, text
    found = codec.load(tmp_path / "run")
    assert_same_bits((found.weights, found.intercepts), expected)


ON_RANKS = """
import json, sys
import numpy as np
import dsba
from test_fitting import ESTIMATORS, SITES, long_rows, of_estimator

network = dsba.MPINetwork(dsba.Topology.ring(3), timeout=300)
found = {}
for operator in ESTIMATORS:
    X, y = long_rows(operator)
    own = SITES == network.rank
    options = {"max_passes": 30, "tol": 1e-9, "random_state": 5, "algorithm": "dsba"}
    estimator = ESTIMATORS[operator].set_params(network=network, **options)
    found[operator] = [part.tolist() for part in of_estimator(estimator.fit(X[own], y[own]))]
if network.rank == 0:
    open(sys.argv[1], "w").write(json.dumps(found))
"""


@needs_mpi
@pytest.mark.full
def test_the_estimator_on_ranks_gives_the_same_bits(tmp_path):
    (tmp_path / "fit.py").write_text(ON_RANKS)
    code, text = mpiexec(3, sys.executable, "-W", "ignore", "-m", "mpi4py", tmp_path / "fit.py", tmp_path / "found")
    assert code == 0, text
    for operator, found in json.loads((tmp_path / "found").read_text()).items():
        X, y = long_rows(operator)
        estimator = ESTIMATORS[operator].set_params(
            graph="ring", network=None, max_passes=30, tol=1e-9, random_state=5, algorithm="dsba"
        )
        with pytest.warns(match="did not converge"):
            estimator.fit(X, y, nodes=SITES)
        assert_same_bits([np.array(part) for part in found], of_estimator(estimator))


def test_the_intercept_is_not_regularised(tmp_path):
    """With a large lambda the mean predicted risk is still the share of events."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.where(rng.random(300) < 0.11, 1, -1)
    files = write_sites(tmp_path, X, y, np.arange(300) % 3)
    model, _ = train(files, FitSpec(lam=0.1, tol=1e-9))
    assert np.mean(1 / (1 + np.exp(-model.scores(X)))) == pytest.approx(np.mean(y == 1), abs=1e-6)
    without, _ = train(files, FitSpec(lam=0.1, intercept=False, tol=1e-9))
    assert without.intercepts.tolist() == [0.0]


def test_lambda_by_default_does_not_count_the_copies_of_long_rows(tmp_path):
    X, y = long_rows("ridge")
    model, result = train(write_sites(tmp_path, X, y), FitSpec(operator="ridge", max_passes=3, algorithm="dsba"))
    assert result.history["iteration"][-1] > 60  # 3 passes over more than 60 rows on 3 nodes
    assert model.spec.lam == 1 / 600
    assert model.run.samples == 60


def test_one_set_of_defaults():
    """Command, estimators and settings."""
    code, text = run(*TRAIN, "--help", env={"COLUMNS": "200", "PYTHONPATH": str(ROOT / "src"), "PATH": ""})
    assert code == 0, text
    default = FitSpec()
    shown = " ".join(text.split())
    for name in ("seed", "operator", "algorithm", "graph"):
        assert f"[default: {getattr(default, name)}]" in shown, name
    for name in ("max_passes", "tol"):
        assert (
            f"{getattr(default, name):g} by default, {getattr(FitSpec(formula='y ~ x'), name):g} for tables" in shown
        ), name
    parameters = dsba.DecentralizedRidge().get_params()
    shared = {"graph", "algorithm", "communication", "step_size", "max_passes", "tol"}
    assert {name: parameters[name] for name in shared} == {name: getattr(default, name) for name in shared}
    assert parameters["fit_intercept"] == default.intercept
    assert parameters["random_state"] == default.seed


@pytest.mark.parametrize("algorithm", [dsba.DSBA(), dsba.DSA(), dsba.algorithms.get("extra"), "dsba", "extra"])
def test_a_warm_start_with_any_algorithm(algorithm):
    X, y = make_data("ridge")
    model = dsba.DecentralizedRidge(algorithm=algorithm, n_nodes=3, warm_start=True, random_state=0)
    first = model.fit(X, y).n_iter_
    assert model.fit(X, y).n_iter_ == 0
    assert model.set_params(alpha=1.02).fit(X, y).n_iter_ < first


# Columns of all files ----------------------------------------------------------------------------------


def test_an_empty_first_column_at_one_site_shifts_nothing(tmp_path):
    """Files written from zero: the first column is empty at two of three sites."""
    X, y = long_rows("ridge")
    X[:, 0] *= SITES == 0
    options = {"lam": 0.1, "tol": 1e-9}
    told = []
    model, _ = train(write_sites(tmp_path, X, y, base=0), FitSpec(operator="ridge", **options), notify=told.append)
    assert told[0] == "5 columns, counted from 0: site0.svm has an index 0."
    assert told[1].startswith("Newton was chosen: for at most 100 coefficients")
    assert model.run.plan[1:] == told[1][1:]
    assert model.run.method == "newton"
    expected, _ = train(write_sites(tmp_path, X, y, base=1), FitSpec(operator="ridge", **options), notify=told.append)
    assert told[2] == "5 columns, counted from 1: no file has an index 0."
    assert_same_bits((model.weights, model.intercepts), (expected.weights, expected.intercepts))
    assert model.zero_based is True


def test_an_empty_first_column_at_every_site_must_be_said(tmp_path):
    X, y = long_rows("ridge")
    X[:, 0] = 0.0
    files = write_sites(tmp_path, X, y, base=0)
    assert train(files, FitSpec(operator="ridge", max_passes=1.0))[0].n_features == 4
    model, _ = train(files, FitSpec(operator="ridge", max_passes=1.0), zero_based=True)
    assert model.n_features == 5
    assert model.weights[0, 0] == 0.0


def test_the_widest_file_has_the_number_of_columns(tmp_path):
    X, y = long_rows("ridge")
    X[:, 4] *= SITES != 1
    files = write_sites(tmp_path, X, y)
    settings = FitSpec(operator="ridge", max_passes=1.0)
    told = []
    model, _ = train(files, settings, notify=told.append)
    narrower = "site1.svm has only 4, so the last ones are taken to be empty there."
    assert told[0] == f"5 columns, counted from 1: no file has an index 0. {narrower}"
    expected, _ = train(files, settings, n_features=5, notify=told.append)
    assert_same_bits((model.weights, model.intercepts), (expected.weights, expected.intercepts))
    assert sum(narrower in sentence for sentence in told) == 1
    assert train(files, settings, n_features=7)[0].n_features == 7
    with pytest.raises(dsba.InputError, match=r"site0\.svm"):
        train(files, settings, n_features=4)


def test_columns_of_tables_go_by_their_names(tmp_path):
    """One site has them in another order, which in LIBSVM files nobody would notice."""
    frame = pd.DataFrame({"y": np.arange(24.0) % 7, "a": np.arange(24.0), "b": np.sin(np.arange(24.0))})
    usual, another = ["y", "a", "b"], ["b", "y", "a"]

    def design(*orders):
        sites = []
        for number, order in enumerate(orders):
            file = tmp_path / f"{number}.csv"
            frame[number::2][order].to_csv(file, index=False)
            sites.append(SiteTable(file.stem, TableFile(file).read(usual)))
        return design_tables(sites, terms("y ~ a + b"), guards=Guards.off()).designs

    for one, other in zip(design(usual, usual), design(usual, another), strict=True):
        assert (one.X == other.X).all()
        assert (one.y == other.y).all()


@needs_mpi
def test_the_command_agrees_on_columns_across_ranks(tmp_path):
    X, y = long_rows("ridge")
    X[:, 0] *= SITES == 2
    X[:, 4] *= SITES != 1
    files = write_sites(tmp_path, X, y, base=0)
    command = (*TRAIN, *files, "--operator", "ridge", "--graph", "path", "--max-passes", "9", "--out", tmp_path / "run")
    code, text = mpiexec(3, *command, "--n-features", "4")
    assert code == 2
    assert "beyond n_features=4" in text
    code, text = mpiexec(3, *command)
    assert code == 0, text
    assert text.count("5 columns, counted from 0: site2.svm has an index 0. site1.svm has only 4,") == 1
    code, text = run(sys.executable, "-m", "dsba", "predict", tmp_path / "run", files[0])
    assert code == 0, text
    found = codec.load(tmp_path / "run").predict(X[SITES == 0])
    assert [float(line) for line in text.split()] == found.tolist()  # the file has no index 0, the model does


# The one place where a graph's text is read ----------------------------------------------------------


def test_topology_of_everything(tmp_path):
    ring = dsba.Topology.ring(4)
    (tmp_path / "edges.txt").write_text("0 1\n1 2\n2 3\n3 0\n")
    for what in ("ring", tmp_path / "edges.txt", str(tmp_path / "edges.txt"), nx.cycle_graph(4), ring.edges, ring):
        assert dsba.Topology.of(what, 4) == ring
    assert dsba.Topology.of("random:0.7", 6, seed=3) == dsba.Topology.random(6, 0.7, seed=3)
    assert dsba.Topology.of("random", 6, p=0.7, seed=3) == dsba.Topology.random(6, 0.7, seed=3)
    metropolis = dsba.Topology.ring(4, mixing="metropolis")
    for what in ("ring", str(tmp_path / "edges.txt"), nx.cycle_graph(4), ring.edges):
        assert dsba.Topology.of(what, 4, mixing="metropolis") == metropolis
    assert dsba.Topology.of(iter(ring.edges), 9) == ring  # a graph that is given has its own size


def test_a_family_is_meant_before_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ring").write_text("0 1\n")
    assert dsba.Topology.of("ring", 4) == dsba.Topology.ring(4)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("random:much", "edge probability must be a number, got 'much'"),
        ("random:1.5", r"in \[0, 1\], got 1.5"),
        ("ring:3", "unknown graph 'ring:3'"),
        ("rings", "did you mean 'ring'"),
        ("no/such.edges", "unknown graph 'no/such.edges'"),
        (7, "a graph is a name, a file, a networkx graph or a list of edges, got 7"),
        ([(0, 1), 3], "an edge must be a pair of node numbers"),
        (nx.DiGraph([(0, 1)]), "not strongly connected"),
    ],
)
def test_graphs_that_are_none(what, message):
    with pytest.raises(dsba.InputError, match=message):
        dsba.Topology.of(what, 4)


def test_a_family_needs_a_size():
    with pytest.raises(dsba.InputError, match="'ring' is a family of graphs: give n_nodes"):
        dsba.Topology.of("ring")
