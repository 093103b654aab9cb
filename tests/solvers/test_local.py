"""The local solver in all its ways, and the four methods that call it, against independent twins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
from conftest import OPERATORS, make_data, make_problem

import dsba
from dsba.algorithms.rivals.d_admm import DADMM
from dsba.algorithms.rivals.p_extra import PExtra
from dsba.algorithms.rivals.ssda import MSDA, SSDA
from dsba.graph.mixing import chebyshev
from dsba.solvers import linear, local
from dsba.solvers.local import LocalSolver

METHODS = [PExtra, SSDA, MSDA, DADMM]
GRAPHS = ["ring", "star", "path", "random", "complete"]
WAYS = {"columns": (1000, 0), "rows": (0, 1000), "gradients": (0, 0)}
SHAPES = {"tall": (60, 12), "wide": (30, 80)}
TAUS = {"zero": 0.0, "unequal": np.array([0.01, 0.1, 1.0, 10.0]), "large": 100.0}


@pytest.fixture
def way(request, monkeypatch):
    """Forces one of the three ways to solve a Newton system."""
    columns, rows = WAYS[request.param]
    monkeypatch.setattr(linear, "SHORT_COLUMNS", columns)
    monkeypatch.setattr(linear, "SHORT_ROWS", rows)
    return request.param


@pytest.fixture
def exact(monkeypatch):
    """Inner solutions as good as rounding lets them be."""
    monkeypatch.setattr(LocalSolver.__init__, "__defaults__", (1e-13,))


all_ways = pytest.mark.parametrize("way", WAYS, indirect=True)


def shaped_problem(operator, shape, lam=0.01):
    X, y = make_data(operator, *SHAPES[shape])
    split = np.repeat([0, 1, 2, 3], [2, 5, 8, y.size - 15])
    return dsba.Problem.from_arrays(X, y, operator, lam=lam, split=split)


def local_residual(problem, tau, rhs, Z):
    """Row n: F(z_n), from the problem's own sweep."""
    return problem.local_operator(Z) + np.broadcast_to(tau, problem.n_nodes)[:, None] * Z - rhs


def solved(solver, rhs, start):
    """The solution from a start given as rows, and what was visited after the start was known."""
    solution, touched = solver.solve(rhs, solver.begin(start)[0])
    return solution.Z, touched[0]


def right_hand_side(problem, rng):
    """Of gradients somewhere, so that a solution is not far even where D is small."""
    return problem.local_operator(0.5 * rng.normal(size=(problem.n_nodes, problem.dim)))


# The solver --------------------------------------------------------------------------------------


@all_ways
@pytest.mark.parametrize("tau", TAUS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("operator", OPERATORS)
def test_the_solution_satisfies_its_equation(operator, shape, tau, way):
    problem, rng = shaped_problem(operator, shape), np.random.default_rng(1)
    if operator == "auc" and tau == "zero":
        tau = "large"  # AUC's a, b, theta have no lambda
    rhs, start = right_hand_side(problem, rng), rng.normal(size=(4, problem.dim))
    Z, touched = solved(LocalSolver(problem, TAUS[tau], accuracy=1e-13), rhs, start)
    before = np.linalg.norm(local_residual(problem, TAUS[tau], rhs, start), axis=1)
    after = np.linalg.norm(local_residual(problem, TAUS[tau], rhs, Z), axis=1)
    assert (after < 1e-11 * before).all()
    assert touched >= problem.n_samples


@all_ways
@pytest.mark.parametrize("operator", ["ridge", "logistic", "huber", "auc"])
def test_a_warm_start_costs_less(operator, way):
    """The visits for a residual of 1e-9, from afar and from the solution of a nearby problem."""
    problem, rng = shaped_problem(operator, "tall"), np.random.default_rng(2)
    rhs = right_hand_side(problem, rng)
    far = 3 * rng.normal(size=rhs.shape)
    near = solved(LocalSolver(problem, 0.1, 1e-12), rhs + 1e-6 * rng.normal(size=rhs.shape), far)[0]

    def cost(start):
        size = np.linalg.norm(local_residual(problem, 0.1, rhs, start))
        Z, touched = solved(LocalSolver(problem, 0.1, accuracy=1e-9 / size), rhs, start)
        assert np.linalg.norm(local_residual(problem, 0.1, rhs, Z)) < 4e-9
        return touched

    direct = way == "rows" or (way == "columns" and operator in ("ridge", "auc"))
    assert cost(near) == cost(far) if direct else cost(near) < 0.7 * cost(far)


@pytest.mark.parametrize(
    ("operator", "way", "passes"),
    [("ridge", "columns", 1), ("ridge", "rows", 1), ("auc", "columns", 1), ("auc", "rows", 2)],
    indirect=["way"],
)
def test_a_factorised_solve_costs_the_sweeps_it_makes(operator, way, passes):
    """F is one sweep, on the samples' side the only one; a saddle's q x q system has two products of its own."""
    problem = shaped_problem(operator, "wide")
    solver = LocalSolver(problem, 1.0)
    scaling = 0.5 * problem.n_samples if way == "rows" else 0.0  # the columns' norms, to choose the way
    assert solver.touched[0] == problem.n_samples + scaling  # one sweep for the Gram matrix, once
    start = np.zeros((4, problem.dim))
    for _ in range(3):
        assert solved(solver, start + 1.0, start)[1] == passes * problem.n_samples


@pytest.mark.parametrize("way", ["rows"], indirect=True)
def test_on_samples_newton_costs_one_sweep_however_many_steps(way):
    problem, rng = shaped_problem("logistic", "wide"), np.random.default_rng(3)
    solver = LocalSolver(problem, 0.0, accuracy=1e-12)
    rhs = right_hand_side(problem, rng)
    for start in (np.zeros((4, problem.dim)), 10 * rng.normal(size=(4, problem.dim))):
        assert solved(solver, rhs, start)[1] == problem.n_samples


@pytest.mark.parametrize("way", ["gradients"], indirect=True)
def test_every_gradient_is_a_sweep(way, monkeypatch):
    problem = shaped_problem("ridge", "wide")
    start = np.zeros((4, problem.dim))
    for limit in (1, 2):  # fewer than the two samples of the smallest node need
        monkeypatch.setattr(linear, "MAX_CG", limit)
        touched = solved(LocalSolver(problem, 0.0, accuracy=1e-14), start, start + 1.0)[1]
        assert touched == (1 + limit) * problem.n_samples


def test_threads_change_nothing(monkeypatch):
    problem, rng = shaped_problem("logistic", "wide"), np.random.default_rng(4)
    rhs, start = right_hand_side(problem, rng), np.zeros((4, problem.dim))
    alone = solved(LocalSolver(problem, 0.1), rhs, start)
    monkeypatch.setattr(local, "WORTH", 0)
    together = solved(LocalSolver(problem, 0.1), rhs, start)
    assert np.array_equal(alone[0], together[0])
    assert alone[1] == together[1]


def test_solving_leaves_its_arguments_alone():
    problem, rng = shaped_problem("logistic", "tall"), np.random.default_rng(5)
    rhs, start = right_hand_side(problem, rng), np.zeros((4, problem.dim))
    solver = LocalSolver(problem, 0.1)
    last = solver.begin(start)[0]
    given = (rhs, *last)
    kept = [part.copy() for part in given]
    solver.solve(rhs, last)
    assert all(np.array_equal(part, copy) for part, copy in zip(given, kept, strict=True))


# The methods -------------------------------------------------------------------------------------


def run(method, problem, topology, z_star, iterations=4000, tol=1e-9):
    """Steps until all nodes are at z*, relative to its norm; the algorithm and its last state."""
    algorithm, net = method.resolved(problem, topology), dsba.Simulator(topology)
    s = algorithm.init(problem, net, np.zeros(problem.dim))
    for _ in range(iterations):
        s = algorithm.step(s, problem, net, np.zeros(problem.n_nodes, np.int64))
        if np.abs(s.Z - z_star).max() < tol * np.linalg.norm(z_star):
            break
    return algorithm, s


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("operator", ["ridge", "logistic", "auc", "softmax"])
@pytest.mark.parametrize("method", METHODS)
def test_reaches_the_certified_optimum(method, operator, graph, unequal):
    for split, n_nodes in (("random", 10), (unequal, 4), ("label", 2), ("random", 1)):
        problem = make_problem(operator, n_nodes, lam=0.1, split=split)
        if method().why_not(problem, dsba.Simulator(dsba.Topology.path(n_nodes))):
            pytest.skip(f"{method.name} does not apply to {operator}")
        z_star = dsba.optimum(problem).z
        algorithm, s = run(method(), problem, dsba.Topology.family(graph, n_nodes), z_star)
        assert np.linalg.norm(s.Z - z_star, axis=1).max() < 1e-8 * np.linalg.norm(z_star), (split, s.t)
        assert algorithm.nominal_passes(s, problem) == s.t
        assert algorithm.passes(s, problem) >= s.t * 0.999


@all_ways
@pytest.mark.parametrize("method", METHODS)
def test_the_inner_solver_does_not_limit_the_outer_method(method, way):
    """Wide data, every way to solve locally: 1e-10, and no more iterations than with exact solutions."""
    X, y = make_data("logistic", 40, 70)
    problem = dsba.Problem.from_arrays(X, y, "logistic", n_nodes=4, lam=0.05)
    z_star, needed = dsba.optimum(problem).z, []
    for accuracy in (local.ACCURACY, 1e-13):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LocalSolver.__init__, "__defaults__", (accuracy,))
            s = run(method(), problem, dsba.Topology.ring(4), z_star, tol=1e-10)[1]
        assert np.abs(s.Z - z_star).max() < 1e-10 * np.linalg.norm(z_star)
        needed.append(s.t)
    assert needed[0] <= 1.05 * needed[1] + 2


@pytest.mark.parametrize("method", METHODS)
def test_one_node_is_solved_by_the_local_solver(method):
    problem = make_problem("ridge", 1, lam=0.1)
    z_star = dsba.optimum(problem).z
    s = run(method(), problem, dsba.Topology.path(1), z_star)[1]
    assert s.t == 1 or method is PExtra  # the proximal point method: alpha is finite


@pytest.mark.parametrize("method", METHODS)
def test_a_step_leaves_the_old_state_alone(method):
    problem, topology = make_problem("logistic", 4), dsba.Topology.ring(4)
    algorithm, net = method().resolved(problem, topology), dsba.Simulator(topology)
    s = algorithm.init(problem, net, np.ones(problem.dim))
    for _ in range(3):
        kept = {name: np.copy(value) for name, value in vars(s).items() if name != "solver"}
        after = algorithm.step(s, problem, net, np.zeros(4, np.int64))
        assert all(np.array_equal(vars(s)[name], value) for name, value in kept.items())
        s = after


@pytest.mark.parametrize(("method", "rounds"), [(PExtra, 1), (SSDA, 1), (DADMM, 1), (MSDA, 6)])
def test_rounds_of_communication(method, rounds):
    """On a path of ten, l2/l1 = 39.9: MSDA's polynomial has degree 6."""
    problem, topology = make_problem("ridge", 10), dsba.Topology.path(10)
    algorithm, net = method().resolved(problem, topology), dsba.Simulator(topology)
    s = algorithm.init(problem, net, np.zeros(problem.dim))
    assert net.rounds == 0
    for _ in range(2):
        s = algorithm.step(s, problem, net, np.zeros(10, np.int64))
    assert net.rounds == 2 * rounds


def test_p_extra_is_extra_with_the_operator_implicit():
    """Z+ + alpha B(Z+) = W~(2Z - Z_prev) + alpha B(Z), B := 0 at the start, by dense solves."""
    problem, topology = make_problem("ridge", 4, lam=0.1), dsba.Topology.path(4)
    algorithm, net = PExtra(step_size=2.0), dsba.Simulator(topology)
    s = algorithm.init(problem, net, np.ones(problem.dim))
    Z = Z_prev = s.Z
    B = np.zeros_like(Z)
    for _ in range(20):
        V = topology.W_tilde @ (2 * Z - Z_prev) + 2.0 * B
        Z, Z_prev = np.stack([resolvent(problem, n, V[n], 2.0) for n in range(4)]), Z
        B = problem.local_operator(Z)
        s = algorithm.step(s, problem, net, np.zeros(4, np.int64))
        assert np.abs(s.Z - Z).max() < 1e-12


def resolvent(problem, n, v, alpha):
    """z + alpha B_n(z) = v for ridge, by a dense solve."""
    A, y, weight = shard(problem, n)
    H = weight * A.T @ A + problem.lam * np.eye(problem.dim)
    return np.linalg.solve(np.eye(problem.dim) + alpha * H, v + alpha * weight * A.T @ y)


def shard(problem, n):
    rows = slice(problem.start[n], problem.start[n + 1])
    return problem.A[rows].toarray(), problem.y[rows], problem.n_nodes / problem.n_samples


def test_ssda_against_a_twin(exact):
    """grad f* by scipy's minimiser, the paper's step and momentum from kappa and chi, Lap as a matrix."""
    problem, topology = make_problem("logistic", 4, lam=0.1), dsba.Topology.path(4)
    algorithm, net = SSDA().resolved(problem, topology), dsba.Simulator(topology)
    s = algorithm.init(problem, net, np.zeros(problem.dim))
    Lap = np.eye(4) - topology.W
    eigenvalues = np.linalg.eigvalsh(Lap)
    kappa, chi = (problem.local_smoothness.max() + problem.lam) / problem.lam, eigenvalues[-1] / eigenvalues[1]
    m = (np.sqrt(kappa) - 1 / np.sqrt(chi)) / (np.sqrt(kappa) + 1 / np.sqrt(chi))
    x = y = np.zeros((4, problem.dim))
    for _ in range(10):
        theta = np.stack([gradient_of_conjugate(problem, n, x[n]) for n in range(4)])
        y_next = x - problem.lam / eigenvalues[-1] * Lap @ theta
        x, y = y_next + m * (y_next - y), y_next
        s = algorithm.step(s, problem, net, np.zeros(4, np.int64))
        assert np.abs(s.Z - theta).max() < 1e-7
        assert np.abs(s.x - x).max() < 1e-8
    assert s.momentum == pytest.approx(m, rel=1e-12)


def gradient_of_conjugate(problem, n, x):
    """argmin f_n(theta) - x'theta for the logistic loss."""
    A, y, weight = shard(problem, n)

    def objective(theta):
        margin = y * (A @ theta)
        value = weight * np.logaddexp(0, -margin).sum() + problem.lam / 2 * theta @ theta - x @ theta
        return value, weight * A.T @ (-y / (1 + np.exp(margin))) + problem.lam * theta - x

    options = {"gtol": 1e-10, "ftol": 0, "maxiter": 1000}
    return scipy.optimize.minimize(objective, np.zeros(problem.dim), jac=True, method="L-BFGS-B", options=options).x


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("n_nodes", [2, 3, 10, 30])
def test_msda_multiplies_with_the_chebyshev_polynomial(graph, n_nodes):
    """P_K(Lap) by NumPy's Chebyshev series of the eigenvalues; MSDA's own bounds hold and are sharp."""
    topology = dsba.Topology.family(graph, n_nodes)
    Lap = np.eye(n_nodes) - topology.W
    values, vectors = np.linalg.eigh(Lap)
    l1, l2 = values[1], values[-1]
    K = int(np.sqrt(l2 / l1) + 1e-9)
    if l2 - l1 < 1e-9:
        polynomial = values / l1
    else:
        c2, c3 = (l2 + l1) / (l2 - l1), 2 / (l2 + l1)
        T = np.polynomial.Chebyshev.basis(K, domain=[-1, 1])
        polynomial = 1 - T(c2 * (1 - c3 * values)) / T(c2)
    explicit = vectors @ np.diag(polynomial) @ vectors.T
    net, Z = dsba.Simulator(topology), np.random.default_rng(0).normal(size=(n_nodes, 5))
    assert np.abs(MSDA().gossip(Z, net) - explicit @ Z).max() < 1e-11
    assert net.rounds == K
    assert MSDA().spectrum(topology) == pytest.approx((polynomial[1:].min(), polynomial[1:].max()), abs=1e-9)
    assert np.abs(explicit @ np.ones(n_nodes)).max() < 1e-11
    assert polynomial[1:].max() / polynomial[1:].min() <= l2 / l1 + 1e-9


def test_chebyshev_of_degree_one_is_a_multiple():
    M = np.diag([0.0, 1.0, 3.0])
    assert np.allclose(chebyshev(lambda X: M @ X, np.eye(3), 1, 1.0, 3.0), M / 2)


def test_d_admm_minimises_what_its_docstring_says(exact):
    """One step from unequal rows, against scipy's minimiser of the augmented objective."""
    problem, topology = make_problem("logistic", 4, lam=0.1), dsba.Topology.path(4)
    algorithm, net = DADMM(step_size=0.3), dsba.Simulator(topology)
    s = algorithm.init(problem, net, np.zeros(problem.dim))
    rng = np.random.default_rng(0)
    Z, phi = rng.normal(size=(2, 4, problem.dim))
    rows = s.solver.begin(Z)[0]._asdict()
    after = algorithm.step(replace(s, **rows, LZ=net.laplacian(Z), phi=phi), problem, net, np.zeros(4, np.int64))
    for n in range(4):
        A, y, weight = shard(problem, n)

        def objective(z, n=n, A=A, y=y, weight=weight):
            loss = weight * np.logaddexp(0, -y * (A @ z)).sum() + problem.lam / 2 * z @ z + phi[n] @ z
            return loss + 0.3 * sum(np.sum((z - (Z[n] + Z[m]) / 2) ** 2) for m in topology.neighbors[n])

        assert objective(after.Z[n]) <= scipy.optimize.minimize(objective, Z[n]).fun + 1e-10
    differences = [sum(after.Z[n] - after.Z[m] for m in topology.neighbors[n]) for n in range(4)]
    assert np.allclose(after.phi, phi + 0.3 * np.stack(differences), atol=1e-14)


# Refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [SSDA, MSDA, DADMM])
def test_no_objective_is_refused(method):
    with pytest.raises(dsba.InputError, match=rf"{method.name} does not apply: .* AUC has none"):
        dsba.solve(make_problem("auc"), dsba.Topology.ring(4), method())


@pytest.mark.parametrize("method", [SSDA, MSDA, DADMM])
def test_no_strong_convexity_is_refused(method):
    alone = make_problem("ridge", 1, lam=0.0)
    with pytest.raises(dsba.InputError, match=rf"{method.name} does not apply: .*Ridge's .* lam is 0"):
        dsba.solve(alone, dsba.Topology.path(1), method())


def test_without_lambda_ssda_is_refused_and_the_proximal_methods_are_not():
    problem = make_problem("ridge", 4, lam=0.0)
    with pytest.raises(dsba.InputError, match="lam is 0"):
        dsba.solve(problem, dsba.Topology.ring(4), SSDA())
    z_star = dsba.optimum(problem).z
    for method in (PExtra, DADMM):
        s = run(method(), problem, dsba.Topology.complete(4), z_star, iterations=20_000)[1]
        assert np.abs(s.Z - z_star).max() < 1e-8 * np.linalg.norm(z_star)


def test_an_operator_without_curvature_is_refused():
    class Pair(dsba.Operator):
        k = 2

        def loss(self, u, y):
            return 0.0

        def blocks(self, X, y):
            return X[np.repeat(np.arange(y.size), 2)]

    X, y = make_data("ridge")
    problem = dsba.Problem.from_arrays(X, y, Pair(), n_nodes=4, lam=0.1)
    for method in METHODS:
        with pytest.raises(dsba.InputError, match="Pair gives no curvature"):
            dsba.solve(problem, dsba.Topology.ring(4), method())


def test_a_node_whose_rows_are_zero():
    """Its system is lambda alone."""
    rng = np.random.default_rng(0)
    shards = [(X * (n != 1), X @ [1, -1, 0.5, 0]) for n, X in enumerate(rng.normal(size=(4, 15, 4)))]
    problem = dsba.Problem(shards, "ridge", lam=0.05)
    found = dsba.solve(problem, dsba.Topology.ring(4), "ssda", max_passes=2000, tol=1e-8)
    assert found.status == "converged"


def test_multiply_adds_are_those_of_the_nonzeros():
    """Against loops over pairs of nonzeros; a factor of n rows is n^3/6, a solution by it n^2."""
    dense = (np.random.default_rng(4).random((7, 30)) < 0.1).astype(float)
    tally = linear.Tally()
    rows = linear.CountedRows(sp.csr_array(dense), tally)
    for product, wanted in (
        (lambda: rows.times(np.ones(30)), dense.sum()),
        (lambda: rows.spread(np.ones(7)), dense.sum()),
        (lambda: rows.gram_of_columns(np.ones(7)), sum(a * b for x in dense for a in x for b in x)),
        (lambda: rows.gram_of_rows(np.ones(30)), sum(a * b for x in dense.T for a in x for b in x)),
        (lambda: linear.short_side(np.eye(7), np.ones(7), tally)(np.ones(7)), 7**3 / 6 + 7**2),
    ):
        before = tally.multiply_adds
        product()
        assert tally.multiply_adds - before == pytest.approx(wanted)
