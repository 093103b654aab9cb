"""Component operators: derivatives, constants, compiled = Python, and what they declare."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from conftest import make_data
from hypothesis import given, settings
from hypothesis import strategies as st

import dsba
from dsba import operators
from dsba.kernels import samples as kernel
from dsba.operators import (
    AUC,
    Huber,
    Logistic,
    Operator,
    Poisson,
    Ridge,
    ScalarOperator,
    Softmax,
    SquaredHinge,
)

REGISTERED = [operators.get(name) for name in operators.names()]
SCALARS = [op for op in REGISTERED if isinstance(op, ScalarOperator)] + [Huber(0.01)]
EPS = np.finfo(float).eps


by_name = pytest.mark.parametrize("op", SCALARS, ids=repr)


def log_uniform(low, high):
    return st.floats(low, high).map(lambda e: 10.0**e)


steps = log_uniform(-6, 8)
norms = st.one_of(st.just(0.0), st.just(1.0), log_uniform(-8, 4))
points = st.one_of(
    st.just(0.0),
    st.floats(-10, 10),
    st.builds(lambda sign, size: sign * size, st.sampled_from([-1.0, 1.0]), log_uniform(-10, 6)),
)


def labels(op):
    if op.labels == "binary":
        return st.sampled_from([-1.0, 1.0])
    if op.labels == "count":
        return st.sampled_from([0.0, 1.0, 2.0, 7.0, 100.0, 1e5])
    return st.one_of(st.sampled_from([0.0, -1.0, 1e5]), st.floats(-10, 10))


# Derivatives and constants ---------------------------------------------------------------------


@by_name
@settings(max_examples=200, deadline=None)
@given(data=st.data(), u=st.floats(-8, 8))
def test_map_is_the_derivative_of_value(op, data, u):
    y, h = data.draw(labels(op)), 1e-5
    g = (op.value(u + h, y) - op.value(u - h, y)) / (2 * h)
    rounding = EPS * (abs(op.value(u, y)) + abs(op.map(u, y)) * abs(u) + y * y) / h
    assert op.map(u, y) == pytest.approx(g, rel=1e-6, abs=2 * h + 10 * rounding)


def test_poisson_is_continued_by_its_tangent():
    op, y = Poisson(), 3.0
    for u in (700.5, 750.0, 1000.0):
        assert op.value(u + 0.25, y) - op.value(u - 0.25, y) == pytest.approx(0.5 * op.map(u, y), rel=1e-9)


@by_name
@settings(max_examples=200, deadline=None)
@given(data=st.data(), u=st.floats(-8, 8))
def test_slope_is_the_derivative_of_map(op, data, u):
    y, h = data.draw(labels(op)), 1e-5
    ends = [op.slope(v, y) for v in (u - h, u, u + h)]
    between = (op.map(u + h, y) - op.map(u - h, y)) / (2 * h)
    rounding = 10 * EPS * (abs(op.map(u, y)) + abs(y) + abs(u)) / h
    # across a kink the difference lies between the two slopes, elsewhere it is the slope
    assert min(ends) * (1 - 1e-6) - rounding <= between <= max(ends) * (1 + 1e-6) + rounding


@by_name
@settings(max_examples=200, deadline=None)
@given(data=st.data(), u=points, v=points)
def test_constants_bound_the_map(op, data, u, v):
    """monotonicity |u - v|^2 <= (g(u) - g(v)) (u - v) <= lipschitz |u - v|^2."""
    y = data.draw(labels(op))
    gu, gv, d = op.map(u, y), op.map(v, y), u - v
    rounding = 4 * EPS * max(abs(gu), abs(gv), abs(y), abs(u), abs(v)) * abs(d)
    assert (gu - gv) * d >= op.monotonicity * d * d * (1 - 1e-12) - rounding
    if math.isfinite(op.lipschitz):
        assert (gu - gv) * d <= op.lipschitz * d * d * (1 + 1e-12) + rounding


@by_name
def test_values_are_finite_far_out(op):
    """In Python, where math.exp raises on overflow: nothing raises, nothing is infinite."""
    for u in (-1e3, -750.0, -710.0, 0.0, 710.0, 750.0, 1e3):
        for y in (-1.0, 1.0) if op.labels == "binary" else (0.0, 1.0, 1e5):
            assert all(map(math.isfinite, (op.value(u, y), op.map(u, y), op.slope(u, y))))
            assert op.slope(u, y) >= 0


def test_logistic_keeps_small_values():
    """log(1 + exp(-100)) is not 0, nor is its derivative."""
    assert Logistic().value(100.0, 1.0) == pytest.approx(math.exp(-100), rel=1e-12)
    assert Logistic().map(100.0, 1.0) == pytest.approx(-math.exp(-100), rel=1e-12)
    assert Logistic().map(-100.0, 1.0) == -1.0


@pytest.mark.parametrize("name", operators.names())
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), size=log_uniform(-3, 2))
def test_components_are_monotone_and_lipschitz(name, seed, size):
    rng = np.random.default_rng(seed)
    X, y = make_data(name, rows=8, columns=5, seed=seed % 50)
    y[:2] = (-1, 1) if operators.get(name).labels == "binary" else (0, 1)
    problem = dsba.Problem([(X, y)], name)
    L = problem.component.lipschitz_constants(problem.squared_norms(), problem.y)
    plan = problem.component.planning_constants(problem.squared_norms(), problem.y)
    assert np.isfinite(plan).all()
    assert (plan >= 0).all()
    for i in range(8):
        u, v = size * rng.normal(size=(2, problem.dim))
        change = component(problem, i, u) - component(problem, i, v)
        if not np.abs(change).max() < 1e100:
            continue  # Poisson far out: squares of it overflow
        rounding = 1e-13 * (np.abs(component(problem, i, u)).max() + size) * size
        assert change @ (u - v) >= -rounding
        if L[i] > 0:
            assert np.linalg.norm(change) <= L[i] * np.linalg.norm(u - v) * (1 + 1e-12) + rounding


def component(problem, i, z):
    """B_i(z) = A_i' g(A_i z), with the operator's Python methods."""
    A = problem.A[[*range(i * problem.k, (i + 1) * problem.k)]].toarray()
    g = np.empty(problem.k)
    problem.component.forward(A @ z, problem.y[i], g)
    return A.T @ g


# Compiled kernels ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", operators.names())
def test_compiled_equals_python(name):
    rng = np.random.default_rng(0)
    X, y = make_data(name)
    problem = dsba.Problem([(X, y)], name, lam=0.1)
    op, k, Q = problem.component, problem.k, problem.n_samples
    U = rng.normal(size=(Q, k)) * 10.0 ** rng.integers(-3, 3, size=(Q, 1))
    U = np.minimum(U, 50.0)
    fast, slow = np.empty((2, Q, k))
    kernel.forward_all(op, U, problem.y, fast)
    for u, label, out in zip(U, problem.y, slow, strict=True):
        op.forward(u, label, out)
    assert np.allclose(fast, slow, rtol=1e-14, atol=0)
    if op.has_loss:
        losses = [2.0 * op.loss(u, label) for u, label in zip(U, problem.y, strict=True)]
        kernel.loss_all(op, U, problem.y, np.full(Q, 2.0), found := np.empty(Q))
        assert found == pytest.approx(losses, rel=1e-13)
    if isinstance(op, ScalarOperator):
        slopes = [op.slope(u[0], label) for u, label in zip(U, problem.y, strict=True)]
        kernel.slope_all(op, U[:, 0].copy(), problem.y, fast[:, 0])
        assert np.allclose(fast[:, 0], slopes, rtol=1e-14, atol=0)


@pytest.mark.parametrize("name", operators.names())
def test_compiled_backward_equals_python(name):
    rng = np.random.default_rng(0)
    X, y = make_data(name)
    problem = dsba.Problem([(X, y)], name, lam=0.1)
    op, k, Q = problem.component, problem.k, problem.n_samples
    r = np.repeat(rng.uniform(0.5, 1.0, size=problem.dim // op.copies), op.copies)
    t = 10.0 ** rng.uniform(-3, 1, size=Q)
    V, G = rng.normal(size=(Q, problem.dim)), np.empty((Q, k))
    new = V.copy()
    kernel.backward_samples(op, problem.csr, problem.y, np.arange(Q), t, r, new, G)
    for i in range(Q):
        A, u, g = problem.A[[*range(i * k, (i + 1) * k)]].toarray(), np.empty(k), np.empty(k)
        op.backward(A @ V[i], t[i], A**2 @ r, problem.y[i], u)
        op.forward(u, problem.y[i], g)
        assert np.allclose(G[i], g, rtol=1e-12, atol=1e-12)
        assert np.allclose(new[i], V[i] - t[i] * r * (A.T @ g), rtol=1e-12, atol=1e-12)
        assert np.allclose(new[i] + t[i] * r * component(problem, i, new[i]), V[i], rtol=1e-12, atol=1e-12)


# The door --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("got", "nearest"), [("logisitc", "logistic"), ("Ridge", "ridge"), ("squared_hinge", "squared-hinge")]
)
def test_unknown_name_suggests_the_nearest(got, nearest):
    with pytest.raises(dsba.InputError, match=f"unknown operator '{got}'; did you mean '{nearest}'"):
        operators.get(got)


@pytest.mark.parametrize("got", ["zzz", None, 3])
def test_unknown_name_lists_the_known(got):
    with pytest.raises(dsba.InputError, match=r"unknown operator .* Known: auc, auc-paper, huber, "):
        dsba.Problem([(np.eye(2), [0, 1])], got)


def test_a_class_is_not_an_object():
    with pytest.raises(dsba.InputError, match=r"got the class Ridge: write Ridge\(\)"):
        dsba.Problem([(np.eye(2), [0, 1])], Ridge)


@pytest.mark.parametrize("delta", [0.0, -1.0, math.nan])
def test_huber_needs_a_positive_delta(delta):
    with pytest.raises(dsba.InputError, match="delta > 0"):
        Huber(delta)


def test_registry_gives_what_it_names():
    assert all(isinstance(op, Operator) for op in REGISTERED)
    assert operators.get("squared-hinge") == SquaredHinge()
    op = Huber(0.5)
    assert operators.get(op) is op


# What operators declare --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ridge", "logistic", "poisson", "softmax"])
def test_the_mean_response_is_what_the_gradient_compares_with_the_label(name):
    """With a canonical link g(u) is the mean response minus the label (or its indicator), whatever u."""
    op = operators.get(name)
    rng = np.random.default_rng(0)
    if name == "softmax":
        op, labels = Softmax(classes=4.0), rng.integers(0, 4, 50).astype(float)
        expected = np.eye(4)[labels.astype(int)]
    else:
        labels = {"ridge": rng.normal(size=50), "logistic": rng.choice([-1.0, 1.0], 50), "poisson": 3.0 * np.ones(50)}[
            name
        ]
        expected = (labels > 0) if name == "logistic" else labels
    U = 3.0 * rng.normal(size=(50, op.k))
    G = np.empty_like(U)
    kernel.forward_all(op, U, labels, G)
    mean = op.mean(U)
    assert np.allclose(G, (mean - expected).reshape(G.shape), atol=1e-14)
    link = operators.link_of(op.link)
    assert np.allclose(op.mean(np.asarray(link.score(mean)).reshape(U.shape)), mean, rtol=1e-12)


@pytest.mark.parametrize("name", operators.names())
def test_decisions(name):
    scores, classes = np.array([[-1.0], [0.0], [2.0]]), np.array(["no", "yes"])
    decided = operators.get(name).decide
    expected = {
        "ridge": [-1.0, 0.0, 2.0],
        "huber": [-1.0, 0.0, 2.0],
        "poisson": np.exp([-1.0, 0.0, 2.0]).tolist(),
        "logistic": ["no", "no", "yes"],
        "squared-hinge": ["no", "no", "yes"],
        "auc": [-1.0, 0.0, 2.0],
    }
    if name == "softmax":
        assert decided(np.array([[1.0, 2.0], [3.0, 0.0]]), classes).tolist() == ["yes", "no"]
        return
    assert decided(scores, classes).tolist() == expected[name]


def test_only_auc_ranks_and_only_the_linear_ones_are_affine():
    assert [name for name in operators.names() if operators.get(name).ranks] == ["auc"]
    assert [name for name in operators.names() if operators.get(name).affine] == ["ridge", "auc"]
    assert [name for name in operators.names() if not operators.get(name).has_curvature] == ["auc"]


@pytest.mark.parametrize("op", [AUC(), SquaredHinge()], ids=repr)
def test_scores_without_a_mean_response(op):
    with pytest.raises(dsba.InputError, match=f"{type(op).__name__} has no mean response"):
        op.mean(np.ones((2, 1)))


def test_names_of_decisions_and_links_are_checked():
    with pytest.raises(dsba.InputError, match="unknown decision 'signs'; did you mean 'sign'"):
        operators.decide("signs", None, np.ones((1, 1)), None)
    with pytest.raises(dsba.InputError, match="unknown link 'logti'; did you mean 'logit'"):
        operators.link_of("logti")
    with pytest.raises(dsba.InputError, match="the decision 'sign' needs the classes"):
        Logistic().decide(np.ones((1, 1)))


def test_an_operator_of_ones_own_that_ranks_is_measured_by_the_area_under_the_curve():
    @dataclass(frozen=True)
    class Ranking(Logistic):
        decision: ClassVar[str] = "rank"

    X, y = make_data("logistic")
    problem = dsba.Problem.from_arrays(X, y, Ranking(), n_nodes=4, lam=0.1)
    history = dsba.solve(problem, dsba.Topology.ring(4), max_passes=3).history
    assert history["auc"][0] == 0.5
    assert history["auc"][-1] > 0.8
