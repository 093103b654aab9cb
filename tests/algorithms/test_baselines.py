"""The methods DSBA is compared with: EXTRA, DLM, DGD, dual averaging, and for one node Point-SAGA, SAGA, SOLAM."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from conftest import OPERATORS, also_in_full, make_problem

import dsba
from dsba.algorithms import sampling
from dsba.algorithms.rivals.dgd import DGD
from dsba.algorithms.rivals.dlm import DLM
from dsba.algorithms.rivals.dual_averaging import DualAveraging
from dsba.algorithms.rivals.extra import EXTRA
from dsba.algorithms.rivals.saga import SAGA, PointSAGA
from dsba.algorithms.rivals.solam import SOLAM
from dsba.network import Simulator

GRAPHS = ["ring", "star", "path", "random", "complete"]
PAPERS = ["ridge", "logistic", "auc"]  # the operators of the gate; `make full` has all
OBJECTIVES = [name for name in OPERATORS if name != "auc"]
FULL_GRADIENT = [EXTRA(), DGD(), DGD(diminishing=True), DLM(), DualAveraging()]
ONE_NODE = [PointSAGA(), SAGA(), SOLAM()]


def by_name(algorithm):
    return algorithm.name + ("-diminishing" if getattr(algorithm, "diminishing", False) else "")


def start(algorithm, problem, topology, z0=None):
    """The algorithm with its step size, a network and the first state."""
    algorithm, net = algorithm.resolved(problem, topology), Simulator(topology)
    return algorithm, net, algorithm.init(problem, net, np.zeros(problem.dim) if z0 is None else z0)


def run(algorithm, problem, topology, iterations, z0=None):
    algorithm, net, state = start(algorithm, problem, topology, z0)
    samples = sampling.draw(3, problem.sizes, 0, iterations)
    return algorithm.advance(state, problem, net, samples).Z, algorithm, net


# The certified optimum -----------------------------------------------------------------------------


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(
    ("algorithm", "operator"),
    [
        pytest.param(method(), name, marks=[] if name in PAPERS else pytest.mark.full)
        for method, names in ((EXTRA, OPERATORS), (DLM, OBJECTIVES))
        for name in names
    ],
)
def test_linear_methods_reach_the_certified_optimum(algorithm, operator, graph, unequal):
    for split, n_nodes in (("random", 10), ("label", 10), (unequal, 4), ("random", 2), ("label", 1)):
        problem = make_problem(operator, n_nodes, lam=0.1, split=split)
        z_star, residual = dsba.optimum(problem)
        assert residual < 1e-12
        topology = dsba.Topology.family(graph, n_nodes)
        limits = {"max_passes": 4000, "tol": 1e-11, "record_every": 20}
        result = dsba.solve(problem, topology, algorithm, reference=z_star, **limits)
        assert result.history["distance"][-1] < 1e-8, (result, split)


@pytest.mark.parametrize("algorithm", [PointSAGA(), SAGA()], ids=by_name)
@pytest.mark.parametrize("operator", OPERATORS)
def test_one_node_methods_reach_the_certified_optimum(operator, algorithm):
    problem = make_problem(operator, 1, lam=0.1)
    z_star = dsba.optimum(problem).z
    limits = {"max_passes": 1000, "tol": 1e-11, "record_every": 10}
    result = dsba.solve(problem, dsba.Topology.complete(1), algorithm, reference=z_star, **limits)
    assert result.history["distance"][-1] < 1e-8, result


@pytest.mark.parametrize("algorithm", [EXTRA(), DLM()], ids=by_name)
def test_automatic_step_sizes_at_the_papers_lambda(algorithm):
    """lam = 1/(10 Q), N = 10: the residual falls steadily."""
    problem = dsba.Problem.from_arrays(*dsba.data.load("synthetic-text"), operator="logistic")
    result = dsba.solve(problem, dsba.Topology.random(10, 0.4, seed=0), algorithm, max_passes=200, record_every=10)
    residual = result.history["residual"]
    assert (np.diff(residual) < 0).all()
    assert residual[-1] < 0.1


# Independent twins ---------------------------------------------------------------------------------


def local_operators(problem, Z):
    """Row n: the local operator at z_n from dense data, sample by sample as on paper."""
    d, k, kind = problem.n_features, problem.k, type(problem.component).__name__
    X, p = problem.A.toarray()[::k, :d], np.mean(problem.y > 0)
    out = problem.lam * np.hstack([Z[:, :d], np.zeros((len(Z), problem.dim - d))])
    for n, z in enumerate(Z):
        for i in range(problem.start[n], problem.start[n + 1]):
            x, y, scale = X[i], problem.y[i], problem.n_nodes / problem.n_samples
            if kind == "Ridge":
                out[n] += scale * (x @ z - y) * x
            elif kind == "Logistic":
                out[n] -= scale * y / (1 + np.exp(y * (x @ z))) * x
            else:
                u, (a, b, theta), m = x @ z[:d], z[d:], 2 * p * (1 - p)
                if y > 0:
                    dw, rest = 2 * (1 - p) * (u - a - 1 - theta), [-2 * (1 - p) * (u - a - 1 - theta), 0]
                    rest.append(2 * (1 - p) * (u - a))
                else:
                    dw, rest = 2 * p * (u - b + 1 + theta), [0, -2 * p * (u - b + 1 + theta)]
                    rest.append(-2 * p * (u - b))
                rest = np.array(rest) + m * np.array([-(1 + theta), 1 + theta, theta - (b - a)])
                out[n] += scale * np.concatenate([dw * x, rest])
    return out


def extra_twin(problem, topology, alpha, c, Z, iterations):
    """The form of the paper, with the sum over the past: Z+ = W Z - alpha B(Z) - sum of (W~ - W) Z."""
    past = np.zeros_like(Z)
    for _ in range(iterations):
        old, Z = Z, topology.W @ Z - alpha * local_operators(problem, Z) - past
        past += (topology.W_tilde - topology.W) @ old
    return Z


def dlm_twin(problem, topology, alpha, c, Z, iterations):
    """Node by node, every neighbour in turn."""
    phi = np.zeros_like(Z)
    for _ in range(iterations):
        B, old, Z = local_operators(problem, Z), Z, Z.copy()
        for n, neighbors in enumerate(topology.neighbors):
            pull = sum((old[n] - old[m] for m in neighbors), np.zeros(problem.dim))
            Z[n] -= (B[n] + c * pull + phi[n]) / (2 * c * len(neighbors) + 1 / alpha)
        for n, neighbors in enumerate(topology.neighbors):
            phi[n] += c * sum((Z[n] - Z[m] for m in neighbors), np.zeros(problem.dim))
    return Z


@pytest.mark.parametrize("operator", ["ridge", "logistic", "auc"])
@pytest.mark.parametrize(("algorithm", "twin"), [(EXTRA(), extra_twin), (DLM(force=True), dlm_twin)])
def test_equals_its_twin(algorithm, twin, operator, unequal):
    problem = make_problem(operator, 4, split=unequal)
    for topology in (dsba.Topology.star(4), dsba.Topology.path(4, mixing="metropolis")):
        z0 = np.linspace(-0.5, 0.5, problem.dim)
        Z, algorithm, _ = run(algorithm, problem, topology, 50, z0)
        expected = twin(problem, topology, algorithm.alpha, getattr(algorithm, "c", None), np.tile(z0, (4, 1)), 50)
        assert np.abs(Z - expected).max() < 1e-12 * np.abs(expected).max()


@pytest.mark.parametrize("operator", ["ridge", "logistic", "auc"])
@pytest.mark.parametrize(
    ("ours", "classic"), [(dsba.DSBA(form="step"), PointSAGA()), (dsba.DSA(form="step"), SAGA())], ids=by_name
)
def test_dsba_and_dsa_with_one_node(ours, classic, operator):
    """The same samples and the same automatic step size: the same iterates."""
    problem, topology = make_problem(operator, 1), dsba.Topology.complete(1)
    z0 = np.linspace(-0.5, 0.5, problem.dim)
    Z, ours, _ = run(ours, problem, topology, 500, z0)
    expected, classic, _ = run(classic, problem, topology, 500, z0)
    assert ours.alpha == pytest.approx(classic.alpha, rel=1e-12)
    assert np.abs(Z - expected).max() < 1e-11 * np.abs(expected).max()


# Neighbourhoods and rates --------------------------------------------------------------------------


@pytest.mark.parametrize("operator", also_in_full(["logistic"], ["ridge", "logistic", "auc"]))
def test_dgd_ends_at_a_distance_proportional_to_its_step(operator):
    problem, topology = make_problem(operator, 10, lam=0.1, split="label"), dsba.Topology.random(10, 0.4, seed=0)
    z_star = dsba.optimum(problem).z
    alpha = 0.1 * DGD().resolved(problem, topology).alpha
    distances = []
    for step_size in (alpha, alpha / 2, alpha / 4):
        result = dsba.solve(problem, topology, DGD(step_size), max_passes=20000, record_every=1000, reference=z_star)
        distance = result.history["distance"]
        assert distance[-1] == pytest.approx(distance[-2], rel=1e-4)  # it has come to rest
        distances.append(distance[-1])
    assert distances[-1] > 1e-3
    first, second = distances[0] / distances[1], distances[1] / distances[2]
    assert 1.8 < first < second < 2.02


def slope(history, column):
    """Of log(column) over log(iterations), in the last decade."""
    t, values = history["iteration"], history[column]
    last = t >= t[-1] / 10
    return np.polyfit(np.log(t[last]), np.log(values[last]), 1)[0]


@pytest.mark.parametrize("graph", ["star", "random", "complete"])
@pytest.mark.parametrize(
    ("algorithm", "column", "operator"),
    [(DGD(diminishing=True), "distance", name) for name in ("ridge", "logistic", "auc")]
    + [(DualAveraging(), "gap", name) for name in ("ridge", "logistic")],
)
def test_rate_of_vanishing_steps(algorithm, column, operator, graph):
    """1/sqrt(t): DGD's distance, as its neighbourhood shrinks with the step; dual averaging's gap."""
    problem, topology = make_problem(operator, 4, lam=0.2, split="label"), dsba.Topology.family(graph, 4)
    limits = {"max_passes": 4000, "record_every": 100}
    history = dsba.solve(problem, topology, algorithm, reference=dsba.optimum(problem).z, **limits).history
    assert slope(history, column) < -0.45
    assert history[column][-1] < 0.2 * history[column][1]
    assert history["distance"][-1] > 1e-3  # no linear method


def test_rate_of_solam():
    """The distance of the averaged iterate falls like 1/sqrt(t)."""
    problem, topology = make_problem("auc", 1, lam=0.1), dsba.Topology.complete(1)
    z_star = dsba.optimum(problem).z
    options = {"max_passes": 300, "record_every": 10, "reference": z_star}
    histories = [dsba.solve(problem, topology, SOLAM(), seed=seed, **options).history for seed in range(3)]
    assert np.mean([slope(h, "distance") for h in histories]) == pytest.approx(-0.5, abs=0.1)
    for h in histories:
        assert h["distance"][-1] < 0.3 * h["distance"][1]


@pytest.mark.parametrize("regularize", ["weights", "all"])
@pytest.mark.parametrize("lam", [1.0, 0.1, 1e-4])
def test_solams_balls_contain_the_solution(lam, regularize):
    problem = make_problem("auc", 1, lam=lam, regularize=regularize)
    z_star = dsba.optimum(problem).z
    _, _, state = start(SOLAM(), problem, dsba.Topology.complete(1))
    assert np.linalg.norm(z_star[: problem.n_features]) <= state.radius
    assert (np.abs(z_star[problem.n_features :]) <= state.bounds).all()


def test_solams_ball_goes_by_weights():
    """Two positives of a thousand rows, with half of the weight: the bound needs the weighted share of positives."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(1000) < 2, 1, -1)
    X = np.column_stack([np.ones(1000), 0.05 * y + 0.005 * rng.normal(size=1000)])
    weight = np.where(y > 0, 499.0, 1.0)
    problem = dsba.Problem.from_arrays(X, y, "auc", n_nodes=1, lam=1e-4, sample_weight=weight)
    _, _, state = start(SOLAM(), problem, dsba.Topology.complete(1))
    assert np.linalg.norm(dsba.optimum(problem).z[:2]) <= state.radius
    shifted = dsba.Problem.from_arrays(X, y, "auc", n_nodes=1, lam=1e-4, intercept=True)
    with pytest.raises(dsba.InputError, match="an AUC does not change with an intercept"):
        dsba.solve(shifted, dsba.Topology.complete(1), "solam", max_passes=3)


def test_solam_stays_in_its_balls():
    problem, topology = make_problem("auc", 1, lam=10.0), dsba.Topology.complete(1)
    algorithm, net, state = start(SOLAM(step_size=50.0), problem, topology)
    seen = []
    for i in range(60):
        state = algorithm.step(state, problem, net, np.array([i]))
        w, rest = state.X[0, : problem.n_features], state.X[0, problem.n_features :]
        seen.append(np.linalg.norm(w) / state.radius)
        assert (np.abs(rest) <= state.bounds).all()
    assert max(seen) == pytest.approx(1.0, abs=1e-12)


# What every method keeps to ------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", FULL_GRADIENT, ids=by_name)
def test_one_exchange_and_one_pass_per_iteration(algorithm):
    problem, topology = make_problem("ridge", 4), dsba.Topology.star(4)
    _, algorithm, net = run(algorithm, problem, topology, 7)
    assert net.rounds == 7
    assert net.doubles.tolist() == (7 * problem.dim * topology.degrees).tolist()
    assert dsba.solve(problem, topology, algorithm, max_passes=7).history["iteration"][-1] == 7


@pytest.mark.parametrize("algorithm", FULL_GRADIENT + ONE_NODE, ids=by_name)
def test_a_step_leaves_the_state_before_it_alone(algorithm):
    problem = make_problem("auc" if isinstance(algorithm, SOLAM) else "ridge", 1 if algorithm in ONE_NODE else 4)
    algorithm, net, state = start(algorithm, problem, dsba.Topology.complete(problem.n_nodes))
    for row in sampling.draw(0, problem.sizes, 0, 3):
        for field in fields(state):
            if isinstance(array := getattr(state, field.name), np.ndarray):
                array.flags.writeable = False
        state = algorithm.step(state, problem, net, row)
    assert state.t == 3


@pytest.mark.parametrize("algorithm", FULL_GRADIENT + ONE_NODE, ids=by_name)
def test_stopped_and_resumed(algorithm, tmp_path):
    problem = make_problem("auc" if isinstance(algorithm, SOLAM) else "ridge", 1 if algorithm in ONE_NODE else 4)
    topology, z0 = dsba.Topology.complete(problem.n_nodes), np.full(problem.dim, 0.5)
    whole = dsba.solve(problem, topology, algorithm, max_passes=9, z0=z0)
    for passes in (4, 9):
        parts = dsba.solve(problem, topology, algorithm, max_passes=passes, z0=z0, checkpoint=tmp_path / "run.dsba")
    assert (whole.Z == parts.Z).all()


def test_dlm_chooses_and_varies_both_parameters():
    problem, topology = make_problem("ridge", 4), dsba.Topology.star(4)
    auto = DLM().resolved(problem, topology)
    grid = DLM().grid(problem, topology)
    assert auto.c == pytest.approx(1 / (4 * auto.alpha * 3))
    assert len({(a.step_size, a.c) for a in grid}) == len(DLM.factors) * len(DLM.opens[0].start) == len(grid)
    assert any(a.step_size == auto.alpha and a.c == auto.c for a in grid)
    assert DLM(c=0.5).resolved(problem, topology).c == 0.5
    for bad in (0.0, -1.0, float("nan"), "auto"):
        with pytest.raises(dsba.InputError, match="c must be"):
            DLM(c=bad).resolved(problem, topology)


# Refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "operator", "n_nodes", "reason"),
    [
        (DLM(), "auc", 4, "dlm .* AUC is not the gradient of an objective"),
        (DualAveraging(), "auc", 4, "dual-averaging .* minimises an objective, and AUC has none"),
        (PointSAGA(), "ridge", 4, "point-saga .* for one node, and this Ridge problem has 4"),
        (SAGA(), "logistic", 2, "saga .* for one node, and this Logistic problem has 2"),
        (SOLAM(), "auc", 4, "solam .* for one node, and this AUC problem has 4"),
        (SOLAM(), "ridge", 1, "solam .* maximises the AUC .*, and the problem is Ridge"),
    ],
)
def test_refused_before_any_work(algorithm, operator, n_nodes, reason, monkeypatch):
    problem, topology = make_problem(operator, n_nodes), dsba.Topology.complete(n_nodes)
    for work in ("local", "components", "pooled", "squared_norms"):
        monkeypatch.setattr(dsba.Problem, work, property(lambda _: pytest.fail("work was done")))
    with pytest.raises(dsba.InputError, match=f"{reason}.*\\.$"):
        dsba.solve(problem, topology, algorithm, reference=True)


def test_dvr_is_refused_where_slopes_have_no_bound():
    """It starts far away, where Poisson's table overflows at every step size."""
    with pytest.raises(dsba.InputError, match=r"dvr .* for gradients with a Lipschitz constant, and Poisson has none"):
        dsba.solve(make_problem("poisson", 4), dsba.Topology.ring(4), "dvr", max_passes=1)


def test_dlm_forced_on_auc():
    problem, topology = make_problem("auc", 4, lam=0.1, split="label"), dsba.Topology.ring(4)
    result = dsba.solve(problem, topology, DLM(force=True), max_passes=2000, record_every=20, reference=True, tol=1e-11)
    assert result.history["distance"][-1] < 1e-8
