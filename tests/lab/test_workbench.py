"""A workbench that takes objects: what is computed from them, what it is keyed by, and what is drawn of it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import networkx as nx
import numpy as np
import pytest
from conftest import ROOT, make_data
from sklearn.metrics import accuracy_score, log_loss

import dsba
from dsba.engine.history import History
from dsba.errors import InputError
from dsba.lab import ExperimentResults, plan, run
from dsba.lab.curves import Entrant, fastest, median_curve, timed
from dsba.lab.figures import rendered
from dsba.lab.reading import read
from dsba.operators.compiled import operator_type
from dsba.storage.fingerprint import digest_of

X, Y = make_data("logistic", rows=80)
SMALL = {
    "stop": {"max_passes": 4},
    "data": [{"name": "mine", "X": X[:60], "y": Y[:60], "X_test": X[60:], "y_test": Y[60:]}],
    "problem": [{"operator": "logistic", "lam": 0.1}],
    "network": [{"graph": "ring", "n_nodes": 4}],
    "method": [{"algorithm": "extra", "step_size": "auto"}],
}


def made(**changes):
    return plan.make(read(SMALL | changes))


def ids(**changes):
    return {run.id for run in made(**changes).runs}


# Penalties -------------------------------------------------------------------------------------------

PENALISED = """
[stop]
max_passes = 300
gap_tol = 1e-6
[[data]]
name = "breast-cancer"
[[problem]]
operator = "logistic"
lam = 0.01
penalty = {name = "l1", strength = 0.02}
[[network]]
graph = "ring"
n_nodes = 4
[[method]]
algorithm = "nids"
step_size = "auto"
[[method]]
algorithm = "dsba"
batch_size = 4
step_size = "auto"
[[method]]
algorithm = "extra"
step_size = "auto"
"""


def test_a_penalty_in_a_file(tmp_path):
    """The solution is the composite problem's; methods without a proximal step are left out by name."""
    (tmp_path / "lasso.toml").write_text(PENALISED)
    results = run(tmp_path / "lasso.toml", tmp_path / "out", report=False, workers=1)
    (only,) = results.runs
    assert only.method == "NIDS"
    assert results.histories[only.id]["gap"][-1] <= 1e-6
    problem = plan.make(read(tmp_path / "lasso.toml")).cases[0].build(0)
    assert problem.penalty == dsba.penalties.L1(0.02)
    assert results.cases[0].problem == "logistic, penalty = l1 0.02, λ = 0.01"
    refused = " ".join(results.index.left_out)
    assert (
        "EXTRA is left out for logistic on breast cancer (real): it has no proximal step, and the problem has"
        in refused
    )
    assert (
        "DSBA is left out for logistic on breast cancer (real): batch_size=4 is for problems without a penalty"
        in refused
    )


def test_penalties_tell_experiments_apart():
    """By table and by object alike, in identifiers and in the file that is kept."""
    box = {"operator": "ridge", "penalty": {"name": "box", "lower": -float("inf"), "upper": 2.0}}
    net = {"operator": "ridge", "penalty": {"name": "elastic-net", "strength": 0.1}}
    found = [ids(method=[{"algorithm": "nids"}], problem=[p]) for p in ({"operator": "ridge"}, box, net)]
    assert len(set.union(*found)) == 3
    same = {"operator": "ridge", "penalty": dsba.penalties.ElasticNet(0.1)}
    assert ids(method=[{"algorithm": "nids"}], problem=[same]) == found[2]
    text = read(SMALL | {"problem": [box]}).to_toml()
    assert tomllib.loads(text)["problem"][0]["penalty"] == box["penalty"]


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ({"penalty": {"name": "l2", "strength": 1.0}}, "unknown penalty 'l2'"),
        ({"penalty": {"name": "l1"}}, "needs a strength"),
        ({"penalty": {"name": "l1", "strength": -1.0}}, "strength must be"),
        ({"penalty": {"name": "box", "strength": 1.0}}, "unknown number of the penalty 'box'"),
        ({"penalty": 0.1}, "an experiment's penalty must be a table"),
        ({"operator": "auc", "penalty": {"name": "l1", "strength": 1.0}}, "needs an objective, and auc has none"),
    ],
)
def test_bad_penalties_are_refused(problem, message):
    with pytest.raises(InputError, match=message):
        read(SMALL | {"problem": [problem]})


# What is computed ------------------------------------------------------------------------------------


def share_of_ones(z, X, y):
    return float(np.mean(X @ z[: X.shape[1]] > 0))


def test_metrics_are_those_of_scikit_learn(tmp_path):
    wanted = ["test_accuracy", "test_log_loss", "test_loss", "accuracy", "loss", share_of_ones]
    results = run(
        SMALL | {"metrics": wanted, "problem": [{"operator": "logistic", "lam": 0.1, "intercept": True}]}, tmp_path
    )
    history, reference = results.histories[results.runs[0].id], results.reference(results.cases[0])
    problem = made(problem=[{"operator": "logistic", "lam": 0.1, "intercept": True}]).cases[0].build(0)
    z = dsba.solve(problem, dsba.Topology.ring(4), "extra", max_passes=4).z
    rows = X[60:] / np.linalg.norm(X[60:], axis=1, keepdims=True)
    scores = rows @ z[:12] + z[12]
    p = 1 / (1 + np.exp(-scores))
    assert history["test_accuracy"][-1] == accuracy_score(Y[60:], np.where(scores > 0, 1, -1))
    assert history["test_log_loss"][-1] == pytest.approx(log_loss(Y[60:], p), rel=1e-12)
    assert history["test_loss"][-1] == pytest.approx(np.mean(np.log1p(np.exp(-Y[60:] * scores))), rel=1e-12)
    assert history["share_of_ones"][-1] == np.mean(rows @ z[:12] > 0)
    assert history["loss"][-1] == pytest.approx(problem.objective(z) - 0.05 * z[:12] @ z[:12], rel=1e-10)
    assert reference.levels["test_accuracy"] > 0.7
    assert ExperimentResults.load(tmp_path).index.metrics[-1] == "share_of_ones"


def test_graphs_matrices_and_splits_reach_the_run():
    W = dsba.Topology.ring(4, mixing="metropolis").W
    nodes = np.repeat([0, 1, 2, 3], [6, 12, 18, 24])
    case = made(network=[{"graph": nx.cycle_graph(4), "mixing": W}], splits=[nodes]).cases[0]
    assert (case.network.topology.W == W).all()
    assert case.build(0).sizes.tolist() == [6, 12, 18, 24]
    assert case.shown().split == "own"
    given = dsba.Topology.star(4)
    assert made(network=[{"graph": given}]).cases[0].network.topology is given


def test_a_graph_for_each_seed():
    network = made(seeds=[0, 1, 2], network=[{"graph": "random", "n_nodes": 8, "seed": "each"}]).cases[0].network
    assert [network.drawn(s) == dsba.Topology.random(8, 0.4, seed=s) for s in (0, 1, 2)] == [True] * 3
    with pytest.raises(InputError, match="needs graph"):
        made(network=[{"graph": "ring", "n_nodes": 4, "seed": "each"}])


@pytest.mark.parametrize("seeds", [[5], [5, 6]])
def test_a_graph_that_no_run_has_is_not_shown(seeds):
    shown = made(seeds=seeds, network=[{"graph": "random", "n_nodes": 8, "seed": "each"}]).index().networks
    [network] = shown.values()
    if len(seeds) > 1:
        assert network is None
    else:
        assert network.gamma == pytest.approx(dsba.Topology.random(8, 0.4, seed=5).mixing.gamma)


def test_flaws_of_links_reach_the_run(tmp_path):
    networks = [{"graph": "ring", "n_nodes": 4}, {"graph": "ring", "n_nodes": 4, "drop": 0.4, "link_seed": 3}]
    methods = [{"algorithm": "extra", "step_size": "auto"}, {"algorithm": "newton", "step_size": "auto"}]
    results = run(SMALL | {"network": networks, "method": methods}, tmp_path, workers=1)
    assert [case.network for case in results.cases] == ["ring, N = 4, laplacian", "ring, N = 4, laplacian, 40% loss"]
    assert (
        "NEWTON is left out for logistic on mine, ring, N = 4, laplacian, 40% loss: it sums"
        in results.index.left_out[0]
    )
    net = dsba.network.Lossy(dsba.network.Simulator(dsba.Topology.ring(4)), 0.4, seed=3)
    problem = made().cases[0].build(0)
    wanted = dsba.solve(problem, dsba.Topology.ring(4), "extra", max_passes=4, network=net).history["residual"][-1]
    last = {
        results.case(r).network: results.histories[r.id]["residual"][-1] for r in results.runs if r.method == "EXTRA"
    }
    assert last["ring, N = 4, laplacian, 40% loss"] == wanted
    assert last["ring, N = 4, laplacian"] != wanted


def test_dirichlet_and_column_splits():
    rng = np.random.default_rng(0)
    rows, labels = rng.integers(0, 3, size=(600, 2)).astype(float), rng.integers(0, 2, 600)

    def shares(split):
        problem = dsba.Problem.from_arrays(rows, labels, "logistic", 6, split=split, normalize=False)
        ends = problem.start
        assert problem.n_samples == 600
        assert problem.sizes.min() >= 1
        return np.array([np.mean(problem.y[a:b] > 0) for a, b in pairwise(ends)])

    assert np.std(shares("dirichlet:100")) < 0.08 < 0.2 < np.std(shares("dirichlet:0.1"))
    by_column = dsba.Problem.from_arrays(rows, labels, "logistic", 3, split="column:1", normalize=False)
    for a, b in pairwise(by_column.start):
        assert np.unique(by_column.A[a:b, [1]].toarray()).size == 1
    for split, message in (
        ("dirichlet:-1", "alpha must be a positive"),
        ("column:9", "the data has 2"),
        ("dirichlet", "unknown split"),
    ):
        with pytest.raises(InputError, match=message):
            shares(split)


@dataclass(frozen=True)
class Mine(dsba.algorithms.DGD):
    name: ClassVar[str] = "mine"
    shrink: float = 1.0

    def step(self, s, problem, net, samples):
        return replace(s, Z=self.shrink * net.mix(s.Z) - self.alpha * problem.local_operator(s.Z), t=s.t + 1)


def test_a_grid_of_ones_own_is_what_is_tried(tmp_path):
    method = {"algorithm": Mine(), "grid": {"step_size": [0.5, 1.0], "shrink": [0.9, 1.0]}}
    results = run(SMALL | {"method": [method]}, tmp_path, report=False)
    search = results.folder.read_search(results.index.searches[0].id)
    tried = [(c.parameters["step_size"], c.parameters["shrink"]) for c in search.candidates]
    assert tried[:4] == [(0.5, 0.9), (0.5, 1.0), (1.0, 0.9), (1.0, 1.0)]
    assert f"shrink={search.parameters['shrink']!r}" in results.outcomes[results.runs[0].id].algorithm


def no_number(z, X, y):
    return float("nan")


@pytest.mark.parametrize("metrics", [["auc"], [no_number]])
def test_metrics_that_a_problem_has_not_leave_results(metrics, tmp_path):
    """Once all runs were made, the page was refused: no panel to draw, or a level that is no number."""
    results = run(SMALL | {"metrics": metrics, "problem": [{"operator": "ridge", "lam": 0.1}]}, tmp_path)
    assert results.runs
    assert "no_number" not in results.reference(results.cases[0]).levels


# What it is keyed by ----------------------------------------------------------------------------------


def test_results_are_keyed_by_the_content_of_objects():
    base, other = ids(), X[:60].copy()
    other[3, 2] += 1e-12
    data = SMALL["data"][0]
    assert ids(data=[data | {"X": X[:60].copy()}]) == base
    assert not ids(data=[data | {"X": other}]) & base
    assert not ids(data=[data | {"y": -Y[:60]}]) & base
    own = ids(method=[{"algorithm": Mine(), "step_size": "auto"}])
    assert ids(method=[{"algorithm": Mine(), "step_size": "auto"}]) == own
    assert not ids(method=[{"algorithm": Mine(shrink=0.5), "step_size": "auto"}]) & own
    assert not ids(metrics=[share_of_ones]) & base
    assert not ids(network=[{"graph": "ring", "n_nodes": 4, "drop": 0.1}]) & base
    split = np.arange(60) % 4
    assert not ids(splits=[split]) & ids(splits=[split[::-1].copy()])


def class_from(text):
    scope = {"__name__": "__main__", "dsba": dsba, "np": np, "dataclass": dataclass}
    exec(text, scope)
    return scope["Own"]


OWN = """limit = 3
@dataclass(frozen=True)
class Own(dsba.algorithms.DGD):
    def step(self, s, *rest):
        return limit, s
"""


def test_an_edited_class_is_another_one():
    first = digest_of(class_from(OWN)())
    assert digest_of(class_from(OWN)()) == first
    for old, new in (("limit, s", "limit, s, 1"), ("limit = 3", "limit = 4"), ("limit = 3", "limit = np.arange(3)")):
        assert digest_of(class_from(OWN.replace(old, new))()) != first


def test_a_folder_of_objects_is_shown_without_them(tmp_path):
    run(SMALL | {"method": [{"algorithm": Mine(), "step_size": "auto", "label": "M"}]}, tmp_path / "out")
    again = subprocess.run(
        [sys.executable, "-m", "dsba", "report", str(tmp_path / "out")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert again.returncode == 0, again.stderr
    text = (tmp_path / "out" / "experiment.toml").read_text()
    assert text.startswith("# Made of Python objects")
    assert ExperimentResults.load(tmp_path / "out").index.plugins == {"M": digest_of(Mine())}


TOML = """
metrics = ["gap", "mine.py:zero"]
splits = ["nodes.npy", "dirichlet:1"]
[[data]]
name = "rows.npz"
[[problem]]
operator = "huber"
delta = 0.5
[[network]]
graph = "ring"
n_nodes = 4
mixing = "W.npy"
compress = "4-bit"
[[method]]
algorithm = "extra"
grid = {step_size = [0.1]}
"""


def test_files_of_arrays(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("rows.npz", X=X[:60], y=Y[:60], X_test=X[60:], y_test=Y[60:])
    np.save("W.npy", dsba.Topology.ring(4, mixing="metropolis").W)
    np.save("nodes.npy", np.arange(60) % 4)
    (tmp_path / "mine.py").write_text("def zero(z, X, y):\n    return 0.0\n")
    (tmp_path / "e.toml").write_text(TOML)
    experiment = read(tmp_path / "e.toml")
    assert experiment.problem[0].build().delta == 0.5
    assert not experiment.has_objects
    todo = plan.make(experiment)
    assert [c.shown().split for c in todo.cases] == ["nodes.npy", "dirichlet:1"]
    assert todo.cases[0].network.title.endswith("4-bit")
    again = read(tomllib.loads(experiment.to_toml()))
    assert {r.id for r in plan.make(again).runs} == {r.id for r in todo.runs}


FLAWED = """
graph = "ring"
n_nodes = 4
link_seed = 3
"""


@pytest.mark.parametrize(("key", "title", "wrap"), [
    ("bursts = {to_bad = 0.2, to_good = 0.5}", "bursts of loss (to_bad = 0.2, to_good = 0.5)",
     lambda net: dsba.network.Bursty(net, 0.2, 0.5, seed=3)),
    ("bursts = {to_bad = 0.2, to_good = 0.5, drop_bad = 0.9, drop_good = 0.1}",
     "bursts of loss (to_bad = 0.2, to_good = 0.5, drop_good = 0.1, drop_bad = 0.9)",
     lambda net: dsba.network.Bursty(net, 0.2, 0.5, drop_bad=0.9, drop_good=0.1, seed=3)),
    ("active = {probability = 0.7}", "resting nodes (probability = 0.7)",
     lambda net: dsba.network.Activation(net, 0.7, seed=3)),
    ("active = {cycle = [2, 1]}", "resting nodes (cycle = (2, 1))",
     lambda net: dsba.network.Activation(net, cycle=(2, 1), seed=3)),
    ("active = {chain = [0.2, 0.4]}", "resting nodes (chain = (0.2, 0.4))",
     lambda net: dsba.network.Activation(net, chain=(0.2, 0.4), seed=3)),
    ("drop = 0.1\nactive = {probability = 0.7}", "10% loss, resting nodes (probability = 0.7)",
     lambda net: dsba.network.Activation(dsba.network.Lossy(net, 0.1, seed=3), 0.7, seed=3)),
])  # fmt: skip
def test_bursts_and_resting_nodes_of_a_file(tmp_path, key, title, wrap):
    networks = [tomllib.loads(FLAWED + key)]
    methods = [{"algorithm": "diging", "step_size": "auto"}, {"algorithm": "newton", "step_size": "auto"}]
    results = run(SMALL | {"network": networks, "method": methods}, tmp_path, workers=1)
    assert [case.network for case in results.cases] == [f"ring, N = 4, laplacian, {title}"]
    assert ["NEWTON is left out" in line for line in results.index.left_out] == [True]
    ring = dsba.Topology.ring(4)
    net, problem = wrap(dsba.network.Simulator(ring)), made().cases[0].build(0)
    wanted = dsba.solve(problem, ring, "diging", max_passes=4, network=net)
    (history,) = results.histories.values()
    assert history["residual"][-1] == wanted.history["residual"][-1]
    named = read(
        {
            "data": [{"name": "breast-cancer"}],
            "problem": [{"operator": "ridge"}],
            "network": networks,
            "method": methods,
        }
    )
    assert read(tomllib.loads(named.to_toml())).network == named.network


@pytest.mark.parametrize(("changes", "message"), [
    ({"metrics": ["acuracy"]}, "unknown metric 'acuracy'; did you mean 'accuracy'"),
    ({"data": [{"name": "mine", "X": X, "y": Y[:3]}]}, "y of the data set 'mine' must be 80 numbers or strings"),
    ({"data": [{"name": "mine", "X": X, "y": Y}], "metrics": ["test_loss"]}, "'test_loss' needs a test set"),
    ({"problem": [{"operator": "huber", "dleta": 1.0}]}, "unknown key of the problem huber 'dleta'"),
    ({"method": [{"algorithm": "extra", "grid": {"stepsize": [1.0]}}]}, "unknown option in the grid of EXTRA"),
    ({"network": [{"graph": "ring", "n_nodes": 4, "compress": "zip"}]}, "written like one of"),
    ({"network": [{"bursts": {"to_bad": 1.5, "to_good": 0.5}}]}, "to_bad must be a probability, got 1.5"),
    ({"network": [{"bursts": {"to_bad": 0.5}}]}, r"bursts\.to_good: it is missing"),
    ({"network": [{"bursts": {"to_bad": 0.1, "to_good": 0.5, "drop": 0.1}}]}, r"known here: to_bad, to_good, "),
    ({"network": [{"active": {}}]}, "needs a probability, a cycle or a chain: give one"),
    ({"network": [{"active": {"probability": 0.5, "cycle": [1, 1]}}]}, "give one"),
    ({"network": [{"active": {"cycle": [0, 1]}}]}, "active must be"),
    ({"network": [{"bursts": {"to_bad": 0.1, "to_good": 0.5}, "compress": "4-bit"}]}, "these have bursty loss"),
    ({"data": [{"name": "no.npz"}]}, "cannot read the arrays of no.npz"),
])  # fmt: skip
def test_refused_with_the_reason(changes, message):
    with pytest.raises(InputError, match=message):
        made(**changes)


# What is drawn ----------------------------------------------------------------------------------------


def history(gap, seconds, rounds, total):
    columns = {"gap": gap, "seconds": seconds, "rounds": rounds, "bytes_max": total}
    zero = np.zeros(len(gap))
    return History(columns | {"passes": np.arange(len(gap)), "doubles_max": zero, "time": zero})


def test_time_on_a_network():
    one = timed(history([1, 0.1], [0, 8.0], [0, 10], [0, 4000]), 4, dsba.Link(latency=0.5, bandwidth=8000))
    assert one["time"].tolist() == [0.0, 8 / 4 + 10 * 0.5 + 4000 / 1000]


def test_the_map_of_the_fastest():
    """Few rounds win where waiting is dear, few bytes where bandwidth is; who was stopped early leaves it open."""
    rounds = Entrant([history([1, 0.1], [0, 0], [0, 1], [0, 1e6])], ["budget"])
    bytes_ = Entrant([history([1, 0.1], [0, 0], [0, 100], [0, 10])], ["budget"])
    latency, bandwidth = np.array([1e-6, 1.0]), np.array([8e3, 8e9])
    won = fastest({"rounds": rounds, "bytes": bytes_}, "gap", 0.1, 4, latency, bandwidth)
    assert won.tolist() == [[1, 1], [1, 0]]
    stopped = Entrant([history([1, 0.5], [0, 0], [0, 2], [0, 10])], ["budget"])
    won = fastest({"rounds": rounds, "stopped": stopped}, "gap", 0.1, 4, latency, bandwidth)
    assert won.tolist() == [[-1, -1], [-1, 0]]


def test_bands_of_quartiles():
    curve = median_curve([history([v, v], [0, 1], [0, 1], [0, 1]) for v in (1.0, 2.0, 3.0, 4.0, 100.0)], "quartiles")
    assert (curve.low["gap"][0], curve.mid["gap"][0], curve.high["gap"][0]) == (2.0, 3.0, 4.0)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    changes = {
        "network": [{"graph": "ring", "n_nodes": n} for n in (3, 4, 6)],
        "stop": {"max_passes": 40},
        "seeds": [0, 1],
    }
    methods = [{"algorithm": "extra", "step_size": "auto"}, {"algorithm": "dgd", "step_size": "auto", "max_passes": 60}]
    return run(SMALL | changes | {"method": methods}, tmp_path_factory.mktemp("swept"), report=False, workers=1)


def test_sweeps_and_ratios_show_the_costs(swept):
    axes = swept.sweep("N", "rounds", tol=1e-1).axes[0]
    assert [line.get_xdata().tolist() for line in axes.lines] == [[3, 4, 6]] * 2
    case = swept.cases[1]
    cost = swept.entrants(case)["EXTRA"].cost("gap", 1e-1, "rounds")
    assert axes.lines[0].get_ydata()[1] == cost
    ratio = swept.sweep("N", "rounds", tol=1e-1, relative_to="EXTRA").axes[0]
    assert any(np.array_equal(line.get_ydata(), [1.0, 1.0, 1.0]) for line in ratio.lines)
    assert "sweep-n-rounds" in dict(swept.figures())
    with pytest.raises(InputError, match="unknown setting to sweep over"):
        swept.sweep("M")


def test_a_tolerance_that_no_method_reached_is_an_empty_panel(swept):
    """Matplotlib has no logarithmic axis of no numbers: the report of a short comparison ended with its error."""
    figure = swept.sweep("N", "rounds", tol=-1.0)  # rounding may bring a gap to zero, not below
    assert rendered(figure, "png").startswith(b"\x89PNG")
    assert np.isnan(figure.axes[0].lines[0].get_ydata()).all()


def test_a_sweep_over_the_batch_size(tmp_path):
    """One line: the methods that differ in nothing but their batch size."""
    sizes = (1, 3, 15)
    methods = [{"algorithm": "dsba", "batch_size": b, "label": f"DSBA {b}", "step_size": "auto"} for b in sizes]
    results = run(SMALL | {"method": methods, "stop": {"max_passes": 30}}, tmp_path, report=False, workers=1)
    (line,) = results.sweep("batch_size", "rounds", tol=1e-4).axes[0].lines
    assert line.get_xdata().tolist() == list(sizes)
    entrants = results.entrants(results.cases[0])
    assert line.get_ydata().tolist() == [entrants[f"DSBA {b}"].cost("gap", 1e-4, "rounds") for b in sizes]
    assert line.get_ydata()[2] < line.get_ydata()[0]


def test_a_figure_of_column_width_with_fonts_for_print(swept, tmp_path):
    figure = swept.plot("time", width=3.25, font_size=8)
    assert figure.get_size_inches()[0] == 3.25
    sizes = {
        text.get_fontsize() for axes in figure.axes for text in (axes.title, axes.xaxis.label, *axes.get_xticklabels())
    }
    assert sizes == {8.0}
    figure.savefig(tmp_path / "figure.pdf")
    raw = (tmp_path / "figure.pdf").read_bytes()
    assert b"/CIDFontType2" in raw
    assert b"/Type3" not in raw


def test_a_latex_table_without_packages(swept):
    table = swept.to_latex(["rounds", "time"], ["gap"], tol=1e-1)
    assert table.count(r"\begin{tabular}{llrrr}") == 3  # the method, its constants, two costs, what was reached
    assert "% logistic, λ = 0.1; mine; ring, N = 3, laplacian; split random; 2 seeds" in table
    assert not re.search(r"toprule|midrule|usepackage|siunitx", table)
    for line in table.splitlines():
        if line.endswith(r"\\"):
            assert line.count("&") == 4
    assert r"\textbf" in table


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda found: found.to_latex(["banana"]), "unknown cost 'banana'"),
        (lambda found: found.plot("banana"), "unknown column 'banana'"),
        (lambda found: found.plot(y="auc"), "unknown column 'auc'"),
        (lambda found: found.plot(panels=[]), "has no finished run to show"),
        (lambda found: found.plot(width=-1), "width must be a number > 0"),
        (lambda found: found.sweep(width=0), "width must be a number > 0"),
        (lambda found: found.map("banana"), "unknown panel 'banana'"),
    ],
)
def test_what_results_do_not_have_is_refused(swept, ask, sentence):
    with pytest.raises(dsba.InputError, match=sentence):
        ask(swept)


def test_a_sweep_over_what_has_no_number_is_refused(tmp_path):
    """Each seed has a graph of its own, and so a gap of its own."""
    network = {"graph": "random", "n_nodes": 4, "seed": "each"}
    found = run(SMALL | {"network": [network], "seeds": [0, 1]}, tmp_path / "out", workers=1, report=False)
    with pytest.raises(dsba.InputError, match="no finished run has a number for gamma"):
        found.sweep("gamma")


def test_the_map_of_a_case_by_its_title(swept):
    assert swept.map(swept.cases[0].data, tol=0.1)


def test_results_without_a_finished_run_say_so(tmp_path):
    method = {"algorithm": "extra", "grid": {"step_size": [1.0]}}
    results = run(SMALL | {"stop": {"max_passes": 2}, "method": [method]}, tmp_path / "out", workers=1, tune_only=True)
    for ask in (results.to_frame, results.plot, results.sweep, results.map):
        with pytest.raises(dsba.InputError, match="out has no finished run to show"):
            ask()


@pytest.mark.parametrize("workers", [-1, 1.5, "2"])
def test_a_wrong_number_of_workers_is_refused(workers, tmp_path):
    with pytest.raises(dsba.InputError, match="workers must be an integer >= 1"):
        run(SMALL, tmp_path / "out", workers=workers)


def test_a_label_of_two_lines_stays_in_the_comment(tmp_path):
    method = {"algorithm": "extra", "step_size": "auto", "label": "one\n\\input{two}"}
    results = run(SMALL | {"stop": {"max_passes": 2}, "method": [method]}, tmp_path / "out", workers=1, report=False)
    comments = results.to_latex().partition(r"\begin")[0].splitlines()
    assert all(line.startswith("% ") for line in comments)


def test_another_link_is_another_time(swept):
    fast, slow = swept.on(dsba.Link(0.0, 8e12)), swept.on(dsba.Link(1.0, 8e12))
    id = swept.runs[0].id
    assert slow.histories[id]["time"][-1] == pytest.approx(
        fast.histories[id]["time"][-1] + fast.histories[id]["rounds"][-1]
    )


# The whole ----------------------------------------------------------------------------------------------


def test_the_experiment_of_a_paper_is_short():
    """It runs with all other blocks of the documentation (test_docs)."""
    block = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/howto/paper.md").read_text(), re.MULTILINE | re.DOTALL)[
        0
    ]
    assert len(block.splitlines()) < 80
    for part in (
        "phi",
        "SmoothHinge(width=0.5)",
        "nx.cycle_graph(6)",
        "dirichlet",
        "test_accuracy",
        "[0, 1, 2]",
        "width=3.25",
        "to_latex",
    ):
        assert part in block


def class_with(fields):
    """A loss of one's own; all have the same methods."""
    scope = {"dsba": dsba, "dataclass": dataclass}
    text = "@dataclass(frozen=True)\nclass Loss(dsba.ScalarOperator):\n" + fields
    exec(text + "    def map(self, u, y):\n        return self.a * (u - y)\n", scope)
    return scope["Loss"]


def test_other_fields_are_another_type_to_kernels():
    """Their order is the layout of the struct: code that was compiled for another one would read the wrong numbers."""
    names = [
        operator_type(class_with(f)).name for f in ("    a: float = 1.0\n", "    b: float = 2.0\n    a: float = 1.0\n")
    ]
    assert names[0].partition("<")[0] == names[1].partition("<")[0]
    assert names[0] != names[1]
