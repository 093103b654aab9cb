"""The certified optimum: its residual is true, and independent solvers find the same point."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, PoissonRegressor

from dsba import operators
from dsba.errors import InputError
from dsba.operators import Operator, ScalarOperator
from dsba.problem.problem import Problem
from dsba.solvers import linear, reference
from dsba.solvers.reference import optimum

LINEAR = ("ridge", "auc")
SMOOTH = [name for name in operators.names() if name not in LINEAR]
# rows, columns, density: each way of solving a Newton system has one
SHAPES = {"tall": (120, 12, 1.0), "wide": (30, 80, 0.2), "dual": (60, 1600, 0.01), "cg": (2600, 1100, 0.005)}


def data(name, shape, seed=0):
    """Sparse rows and labels that fit the operator."""
    rows, columns, density = SHAPES[shape]
    rng = np.random.default_rng(seed)
    X = sp.random_array((rows, columns), density=density, rng=rng, format="csr", data_sampler=rng.standard_normal)
    u = X @ rng.standard_normal(columns) + 0.3 * rng.standard_normal(rows)
    labels = {"real": 3.0 * u, "binary": np.where(u > 0, 1, -1), "count": rng.poisson(np.exp(np.clip(u, -3, 3)))}
    labels["multiclass"] = np.digitize(u, [-0.3, 0.3])
    return X, labels[operators.get(name).labels]


def problem_of(name, shape, lam=1e-2, **keywords):
    return Problem.from_arrays(*data(name, shape), name, n_nodes=3, lam=lam, **keywords)


def true_residual(problem, z):
    """By sums without rounding, as the certificate is, so that the two are the same numbers."""
    at_z, at_zero = (problem.pooled.operator(point) for point in (z, np.zeros(problem.dim)))
    return math.sqrt(math.fsum(at_z**2)) / math.sqrt(math.fsum(at_zero**2))


def distance(z, other):
    return np.linalg.norm(z - other) / np.linalg.norm(other)


@pytest.mark.parametrize(
    ("shape", "lam"), [*((shape, lam) for shape in SHAPES for lam in (1e-2, None)), ("tall", 1e-7), ("wide", 1e-7)]
)
@pytest.mark.parametrize("name", operators.names())
def test_certificate(name, shape, lam):
    problem = problem_of(name, shape, lam)
    z, residual = optimum(problem)
    assert residual == true_residual(problem, z)
    assert residual <= (1e-13 if name in LINEAR else 1e-12)


@pytest.mark.parametrize("name", operators.names())
def test_dense_rows_not_normalised(name):
    X, y = data(name, "tall")
    problem = Problem.from_arrays(5.0 * X.toarray(), y, name, lam=1e-3, normalize=False)
    assert optimum(problem).residual <= (1e-13 if name in LINEAR else 1e-12)


# Theirs and ours ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_ridge_is_least_squares(shape):
    problem = problem_of("ridge", shape)
    Q, dim = problem.A.shape
    stacked = np.vstack([problem.A.toarray() / np.sqrt(Q), np.sqrt(problem.lam) * np.eye(dim)])
    theirs = np.linalg.lstsq(stacked, np.append(problem.y / np.sqrt(Q), np.zeros(dim)))[0]
    assert distance(optimum(problem).z, theirs) < 1e-11


@pytest.mark.parametrize("shape", ["dual", "cg"])
def test_ridge_is_kernel_ridge(shape):
    """z = A'(A A' + lam Q I)^-1 y, with a dense matrix."""
    problem = problem_of("ridge", shape)
    kernel = (problem.A @ problem.A.T).toarray() + problem.lam * problem.n_samples * np.eye(problem.n_samples)
    assert distance(optimum(problem).z, problem.A.T @ np.linalg.solve(kernel, problem.y)) < 1e-11


@pytest.mark.parametrize("shape", SHAPES)
def test_logistic_is_sklearn(shape):
    problem = problem_of("logistic", shape)
    model = LogisticRegression(C=1 / (problem.lam * problem.n_samples), fit_intercept=False, tol=1e-12, max_iter=10000)
    model.set_params(solver="newton-cg").fit(problem.A, problem.y)
    assert distance(optimum(problem).z, model.coef_[0]) < 1e-6


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("shape", ["tall", "dual"])
def test_softmax_is_sklearn(shape, intercept):
    problem = problem_of("softmax", shape, intercept=intercept)
    X = problem.A[:: problem.k, :: problem.k][:, : problem.n_features]
    model = LogisticRegression(C=1 / (problem.lam * problem.n_samples), fit_intercept=intercept, tol=1e-12)
    model.set_params(solver="newton-cg", max_iter=10000).fit(X, problem.y)
    weights, intercepts = problem.unpack(optimum(problem).z)
    assert distance(weights, model.coef_) < 1e-6
    assert np.allclose(intercepts - intercepts.mean(), model.intercept_ - np.mean(model.intercept_), atol=1e-6)


@pytest.mark.parametrize("value", [0.1, True, 7.0])
@pytest.mark.parametrize("name", [n for n in operators.names() if n != "auc"])
def test_an_intercept_is_free_and_its_scale_does_not_matter(name, value):
    """Found again by a general minimiser, with lambda on the weights written out here."""
    X, y = data(name, "tall")
    X = X.toarray() + 0.5
    problem = Problem.from_arrays(X, y, name, lam=1e-2, intercept=value, normalize=False)
    z, residual = optimum(problem)
    assert residual < 1e-11
    ones = Problem.from_arrays(np.column_stack([X, np.ones(len(y))]), y, name, lam=0.0, normalize=False)
    free = np.append(np.full(X.shape[1], 1e-2), 0.0).repeat(problem.component.copies)
    theirs = minimize(
        lambda x: ones.objective(x) + 0.5 * (free * x) @ x,
        np.zeros(ones.dim),
        jac=lambda x: ones.pooled.operator(x) + free * x,
        method="L-BFGS-B",
        options={"gtol": 1e-10, "ftol": 0.0, "maxiter": 5000, "maxfun": 10000},
    )
    best = ones.objective(theirs.x) + 0.5 * (free * theirs.x) @ theirs.x
    assert problem.objective(z) <= best + 1e-13 * abs(best)
    ours, theirs = np.column_stack(problem.unpack(z)), ones.unpack(theirs.x)[0]
    if name == "softmax":  # a shift common to all classes is free
        ours, theirs = ours - ours.mean(axis=0), theirs - theirs.mean(axis=0)
    assert distance(ours, theirs) < 2e-5


@pytest.mark.parametrize("name", operators.names())
def test_a_weight_is_as_many_copies_of_a_sample(name):
    X, y = data(name, "tall")
    times = np.random.default_rng(3).integers(0, 4, y.size)
    weighted = Problem.from_arrays(X, y, name, n_nodes=3, lam=1e-2, sample_weight=0.7 * times)
    repeated = Problem.from_arrays(
        sp.csr_array(X)[np.repeat(np.arange(y.size), times)], np.repeat(y, times), name, lam=1e-2
    )
    ours, theirs = optimum(weighted), optimum(repeated)
    assert max(ours.residual, theirs.residual) < 1e-12
    assert distance(ours.z, theirs.z) < 1e-10
    if weighted.has_objective:
        assert weighted.objective(ours.z) == pytest.approx(repeated.objective(ours.z), rel=1e-12)
    assert np.allclose(
        weighted.local_operator(np.tile(ours.z, (3, 1))).mean(axis=0), weighted.pooled.operator(ours.z), atol=1e-13
    )


@pytest.mark.parametrize("shape", ["tall", "wide", "cg"])
def test_poisson_is_sklearn(shape):
    problem = problem_of("poisson", shape)
    model = PoissonRegressor(alpha=problem.lam, fit_intercept=False, tol=1e-10, max_iter=10000)
    assert distance(optimum(problem).z, model.fit(problem.A, problem.y).coef_) < 1e-5


@pytest.mark.parametrize("shape", ["tall", "wide"])
@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_losses_are_minimised(name, shape):
    problem = problem_of(name, shape)
    options = {"gtol": 1e-10, "ftol": 0.0, "maxiter": 5000, "maxfun": 10000}
    theirs = minimize(problem.objective, np.zeros(problem.dim), jac=problem.pooled, method="L-BFGS-B", options=options)
    z = optimum(problem).z
    assert distance(z, theirs.x) < 1e-5
    assert problem.objective(z) <= theirs.fun + 1e-14 * abs(theirs.fun)


@pytest.mark.parametrize("regularize", ["weights", "all"])
@pytest.mark.parametrize("shape", ["tall", "wide", "dual"])
def test_auc_is_the_dense_solution(shape, regularize):
    problem = problem_of("auc", shape, regularize=regularize)
    offset = problem.pooled.operator(np.zeros(problem.dim))
    matrix = np.column_stack([problem.pooled.operator(e) - offset for e in np.eye(problem.dim)])
    z, residual = optimum(problem)
    assert residual <= 1e-13
    assert distance(z, np.linalg.solve(matrix, -offset)) < 1e-10


@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_auc_is_the_pairwise_problem(shape):
    """p(1-p) mean over pairs (1 - w'(x+ - x-))^2 + lam/2 ||w||^2."""
    problem = problem_of("auc", shape)
    X = problem.A[0::4].toarray()[:, : problem.n_features]
    positive, negative = X[problem.y > 0], X[problem.y < 0]
    pairs = (positive[:, None, :] - negative[None, :, :]).reshape(-1, problem.n_features)
    weight = 2 * problem.component.p * (1 - problem.component.p)
    matrix = weight * pairs.T @ pairs / len(pairs) + problem.lam * np.eye(problem.n_features)
    theirs = np.linalg.solve(matrix, weight * pairs.mean(axis=0))
    assert distance(optimum(problem).z[:-3], theirs) < 1e-10


def test_users_operator_without_loss_or_bound():
    @dataclass(frozen=True)
    class Cubic(ScalarOperator):
        """g(u) = (u - y)^3, flat at the solution of every sample."""

        def map(self, u: float, y: float) -> float:
            return (u - y) ** 3

        def slope(self, u: float, y: float) -> float:
            return 3.0 * (u - y) ** 2

    X, y = data("ridge", "tall")
    problem = Problem.from_arrays(X, y, Cubic(), lam=1e-3)
    assert optimum(problem).residual <= 1e-12


# The split, and the edges of the data ------------------------------------------------------------


@pytest.mark.parametrize("name", operators.names())
def test_split_does_not_matter(name):
    X, y = data(name, "tall")
    uneven = np.random.default_rng(1).choice(3, y.size, p=[0.1, 0.2, 0.7])
    splits = [(1, "random"), (5, "random"), (4, "label"), (3, uneven)]
    solutions = [optimum(Problem.from_arrays(X, y, name, n, lam=1e-3, split=split)).z for n, split in splits]
    for z in solutions[1:]:
        assert distance(z, solutions[0]) < 1e-10


@pytest.mark.parametrize("lam", [1e-2, 0.0])
@pytest.mark.parametrize("name", operators.names())
def test_empty_rows_and_unused_columns(name, lam):
    X, y = data(name, "tall")
    rng = np.random.default_rng(1)
    if operators.get(name).labels in ("binary", "multiclass"):  # noise: separable classes have no solution at lam = 0
        y = np.where(rng.random(y.size) < 0.3, rng.permutation(y), y)
    used = X.toarray()
    used[::7] = 0.0
    X = np.insert(used, [0, 5, 12], 0.0, axis=1)
    problem, without = (Problem.from_arrays(M, y, name, lam=lam) for M in (X, used))
    (z, residual), (expected, _) = optimum(problem), optimum(without)
    assert residual <= 1e-12
    weights, expected_weights = problem.unpack(z)[0], without.unpack(expected)[0]
    unused = [0, 6, 14]
    assert np.all(weights[:, unused] == 0.0)
    if name == "softmax" and lam == 0.0:  # a shift common to all classes is free
        weights, expected_weights = (w - w.mean(axis=0) for w in (weights, expected_weights))
    np.testing.assert_allclose(np.delete(weights, unused, axis=1), expected_weights, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("shape", ["wide", "cg"])
def test_ridge_without_lambda_and_full_rank(shape):
    """Any least-squares solution will do: the residual says that it is one."""
    assert optimum(problem_of("ridge", shape, lam=0.0)).residual <= 1e-10


def test_zero_is_the_solution_of_zero_labels():
    X, _ = data("ridge", "wide")
    z, residual = optimum(Problem.from_arrays(X, np.zeros(X.shape[0]), "ridge"))
    assert residual == 0.0
    assert not z.any()


# Hard cases --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lam", [0.0, 1e-9, 1e-3])
@pytest.mark.parametrize("shape", ["tall", "wide"])
def test_huber_far_from_the_labels(shape, lam):
    """All slopes are zero at the start, and the loss is nearly the absolute value."""
    X, y = data("huber", shape)
    y = 1e3 * (y + np.random.default_rng(1).standard_t(1, y.size))
    assert optimum(Problem.from_arrays(X, y, "huber", lam=lam)).residual <= 1e-9


def test_poisson_steps_that_would_overflow():
    X, _ = data("poisson", "tall")
    y = np.random.default_rng(1).poisson(np.geomspace(1, 1e6, X.shape[0]))
    assert optimum(Problem.from_arrays(X, y, "poisson", lam=1e-6)).residual <= 1e-12


def test_singular_newton_matrix_falls_back_to_conjugate_gradients(monkeypatch):
    problem = problem_of("logistic", "tall")
    expected = optimum(problem).z

    def refuse(*args, **keywords):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(linear.scipy.linalg, "cho_factor", refuse)
    assert distance(optimum(problem).z, expected) < 1e-10


def test_uncertified_reference_warns(monkeypatch):
    monkeypatch.setattr(reference, "MAX_STEPS", 2)
    monkeypatch.setattr(reference, "MAX_APPROACH", 0)
    problem = problem_of("logistic", "tall", lam=1e-6)
    with pytest.warns(RuntimeWarning, match="not certified"):
        z, residual = optimum(problem)
    assert residual == true_residual(problem, z) > reference.CERTIFIED


def test_unknown_vector_operator_is_refused():
    @dataclass(frozen=True)
    class Pair(Operator):
        k: ClassVar[int] = 2

        def forward(self, u: object, y: float, out: object) -> None:
            out[0], out[1] = u[1] + y, -u[0]

        def blocks(self, X, y):
            return sp.csr_array(sp.kron(X, np.ones((2, 1))))

    problem = Problem.from_arrays(*data("ridge", "tall"), Pair())
    with pytest.raises(InputError, match=r"Pair.*give it as the reference"):
        optimum(problem)


def test_rows_with_a_gap_anywhere_are_added_up_rightly():
    """Rows without a gap are read as dense ones. Here every row of up to eight entries has a gap in each place once."""
    rng = np.random.default_rng(3)
    rows = [[0.0] * before + [1.0] * first + [0.0] * gap + [1.0] * second
            for before in (0, 2) for first in range(8) for gap in range(3) for second in range(8)]  # fmt: skip
    X = np.array([row + [0.0] * (20 - len(row)) for row in rows])
    X *= rng.normal(size=X.shape)
    X = X[X.any(axis=1)]
    problem = Problem.from_arrays(X, rng.normal(size=len(X)), operator="ridge", lam=0.1, n_nodes=3, normalize=False)
    z = rng.normal(size=20)
    A, y = problem.A.toarray(), problem.y
    np.testing.assert_allclose(problem.pooled.scores(z), A @ z, atol=1e-13)
    np.testing.assert_allclose(problem.pooled.operator(z), A.T @ (A @ z - y) / len(y) + 0.1 * z, atol=1e-13)
