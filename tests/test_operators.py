"""Component operators: resolvents (invariant 5), derivatives, constants, and compiled = Python."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from conftest import make_data
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

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
    ScaledHuber,
    Softmax,
    SquaredHinge,
)

REGISTERED = [operators.get(name) for name in operators.names()]
SCALARS = [op for op in REGISTERED if isinstance(op, ScalarOperator)] + [Huber(0.01)]
EPS = np.finfo(float).eps


@dataclass(frozen=True)
class Cubic(ScalarOperator):
    """(u - y)^4 / 4: no Lipschitz constant, and values of any size."""

    def value(self, u: float, y: float) -> float:
        return 0.25 * (u - y) * (u - y) * (u - y) * (u - y)

    def map(self, u: float, y: float) -> float:
        return (u - y) * (u - y) * (u - y)

    def slope(self, u: float, y: float) -> float:
        return 3.0 * (u - y) * (u - y)


@dataclass(frozen=True)
class Ninth(ScalarOperator):
    """(u - y)^10 / 10."""

    def map(self, u: float, y: float) -> float:
        return (u - y) ** 9

    def slope(self, u: float, y: float) -> float:
        return 9.0 * (u - y) ** 8


@dataclass(frozen=True)
class Sinh(ScalarOperator):
    """cosh(u - y): overflows beyond 710."""

    def value(self, u: float, y: float) -> float:
        return math.cosh(u - y)

    def map(self, u: float, y: float) -> float:
        return math.sinh(u - y)

    def slope(self, u: float, y: float) -> float:
        return math.cosh(u - y)


@dataclass(frozen=True)
class Jump(ScalarOperator):
    """|u - y|: g jumps, Newton alone would cycle."""

    lipschitz: ClassVar[float] = math.inf

    def value(self, u: float, y: float) -> float:
        return abs(u - y)

    def map(self, u: float, y: float) -> float:
        return 1.0 if u > y else (-1.0 if u < y else 0.0)

    def slope(self, u: float, y: float) -> float:
        return 0.0


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


def excess(op, u, b, ts, y):
    """|u - b + ts g(u)| over the size of what is added and of what rounding u alone would change.

    At a kink g' is the larger one; Poisson's g is a difference of exp(u) and y, both of size g'.
    """
    g = op.map(u, y)
    near = max(op.slope(v, y) for v in (u, u * (1 - 4 * EPS), u * (1 + 4 * EPS)))
    size = max(abs(u), 1.0) if isinstance(op, Poisson) else abs(u)
    return abs(u - b + ts * g) / max(1.0, abs(b), ts * abs(g), ts * near * size)


@njit(cache=True)
def compiled_resolvents(op, b, t, y, out):
    for i in range(b.size):
        out[i] = op.resolvent(b[i], t[i], y[i])


def compiled_resolvent(op, b, t, y):
    out = np.empty(1)
    compiled_resolvents(op, np.array([b]), np.array([t]), np.array([y]), out)
    return float(out[0])


# Resolvents ------------------------------------------------------------------------------------


@by_name
@settings(max_examples=200, deadline=None)
@given(data=st.data(), t=steps, s=norms, b=points)
def test_resolvent_solves_its_equation(op, data, t, s, b):
    y = data.draw(labels(op))
    u = np.empty(1)
    op.backward([b], t, [s], y, u)
    assert excess(op, float(u[0]), b, t * s, y) <= 1e-12
    if s == 0:
        assert u[0] == b


@by_name
@settings(max_examples=200, deadline=None)
@given(data=st.data(), t=steps, s=norms, b=points)
def test_safeguarded_newton_solves_it_too(op, data, t, s, b):
    """In Python and compiled, and it agrees with the operator's own resolvent."""
    y = data.draw(labels(op))
    ts = t * s
    newton = ScalarOperator.resolvent(op, b, ts, y)
    assert excess(op, newton, b, ts, y) <= 1e-12
    assert excess(op, compiled_resolvent(op, b, ts, y), b, ts, y) <= 1e-12
    # u -> u + ts g(u) expands, so u is at least as well determined as the equation is met
    own = op.resolvent(b, ts, y)
    terms = max(abs(b), abs(own), min(ts * abs(op.map(own, y)), abs(own) + abs(b)))
    assert newton == pytest.approx(own, rel=1e-12, abs=1e-12 * max(terms, 1.0))
    if s == 0:
        assert newton == b


@settings(max_examples=200, deadline=None)
@given(ts=log_uniform(-6, 12), y=st.floats(-10, 10), ulps=st.integers(-8, 8), sign=st.sampled_from([-1, 1]))
def test_huber_at_the_kink(ts, y, ulps, sign):
    """b where u is at y + delta but for rounding: b - t delta must not fall back across the kink."""
    op = Huber()
    b = y + sign * (1 + ts) * op.delta * (1 + ulps * EPS)
    assert excess(op, op.resolvent(b, ts, y), b, ts, y) <= 1e-12


@pytest.mark.parametrize("b", [1e4, -1e4, 1e300, -1e300])
@pytest.mark.parametrize("t", [1e-6, 1.0, 1e8, 1e12])
def test_poisson_does_not_overflow(b, t):
    for y in (0.0, 1.0, 1e6):
        for resolvent in (Poisson.resolvent, compiled_resolvent):
            u = resolvent(Poisson(), b, t, y)
            assert math.isfinite(u)
            if abs(b) <= 1e4:
                assert excess(Poisson(), u, b, t, y) <= 1e-12


@settings(max_examples=200, deadline=None)
@given(t=log_uniform(-6, 12), b=points, y=st.floats(-700, 700))
def test_newton_on_a_cubic(t, b, y):
    u = Cubic().resolvent(b, t, y)
    assert excess(Cubic(), u, b, t, y) <= 1e-12
    assert compiled_resolvent(Cubic(), b, t, y) == pytest.approx(u, rel=1e-13)


@settings(max_examples=200, deadline=None)
@given(t=log_uniform(-6, 12), b=points, y=st.floats(-30, 30))
def test_newton_on_sinh(t, b, y):
    """sinh(b - y) may be infinite, u is not. (In Python math.sinh raises, so compiled only.)"""
    assert excess(Sinh(), compiled_resolvent(Sinh(), b, t, y), b, t, y) <= 1e-12


@settings(max_examples=200, deadline=None)
@given(t=log_uniform(-6, 8), b=points, y=st.floats(-10, 10))
def test_newton_across_a_jump(t, b, y):
    """The resolvent of |u - y| is soft thresholding; Newton with g' = 0 needs the bracket for it."""
    exact = y + math.copysign(max(abs(b - y) - t, 0.0), b - y)
    for resolvent in (Jump.resolvent, compiled_resolvent):
        assert resolvent(Jump(), b, t, y) == pytest.approx(exact, rel=1e-12, abs=1e-12 * max(1.0, abs(b), t))


@pytest.mark.parametrize("y", [683.0, 1000.0, -1000.0])
@pytest.mark.parametrize("op", [Sinh(), Ninth()], ids=repr)
def test_newton_with_labels_far_from_zero(op, y):
    """g(0) is infinite or so large that 200 steps do not lead back from there."""
    assert compiled_resolvent(op, 0.7, 1e12, y) == pytest.approx(y, rel=1e-2)


@settings(max_examples=200, deadline=None)
@given(
    t=steps,
    s=st.tuples(norms, norms, norms, norms),
    b=st.tuples(points, points, points, points),
    p=st.floats(0.01, 0.99),
    y=st.sampled_from([-1.0, 1.0]),
)
def test_auc_resolvent(t, s, b, p, y):
    op, u, g = AUC(p), np.empty(4), np.empty(4)
    s, b = np.array(s), np.array(b)
    op.backward(b, t, s, y, u)
    op.forward(u, y, g)
    J = op.jacobians(np.array([y]))[0]
    terms = np.abs(J) @ (np.abs(u) + np.eye(4)[3])
    scale = np.maximum(np.maximum(1.0, np.abs(b)), t * s * terms)
    assert (np.abs(u - b + t * s * g) <= 1e-12 * scale).all()
    assert (u[s == 0] == b[s == 0]).all()


@pytest.mark.parametrize("name", operators.names())
@settings(max_examples=40, deadline=None)
@given(
    t=log_uniform(-3, 3),
    lam=st.sampled_from([0.0, 1e-3, 0.5]),
    seed=st.integers(0, 10**6),
    regularize=st.sampled_from(["weights", "all"]),
)
def test_backward_step_of_the_problem(name, t, lam, seed, regularize):
    """(1 + t Lambda)(z+ - z) + t c_n B_i(z+) = d, with an empty row and unequal nodes."""
    rng = np.random.default_rng(seed)
    problem, samples = tiny_problem(name, lam, rng, regularize=regularize)
    Z, D = rng.normal(size=(2, 2, problem.dim))
    new, g = problem.backward(samples, Z, D, t)
    B = problem.spread(samples, problem.forward(samples, new))
    residual = (1 + t * problem.lam_diag) * (new - Z) + t * B - D
    assert np.abs(residual).max() <= 1e-12 * step_scale(problem, new, Z, D, B, t)
    assert np.allclose(problem.forward(samples, new), g, rtol=0, atol=1e-12 * max(1.0, t) * max(1.0, np.abs(g).max()))


@pytest.mark.parametrize("name", ["ridge", "auc", "squared-hinge", "huber", "poisson"])
def test_backward_step_of_the_problem_at_large_steps(name):
    rng, worst = np.random.default_rng(0), 0.0
    for t in (1e4, 1e6, 1e8):
        for _ in range(10):
            problem, samples = tiny_problem(name, 0.0, rng)
            Z, D = rng.normal(size=(2, 2, problem.dim))
            new, _ = problem.backward(samples, Z, D, t)
            B = problem.spread(samples, problem.forward(samples, new))
            worst = max(worst, np.abs(new - Z + t * B - D).max() / step_scale(problem, new, Z, D, B, t))
    assert worst <= 1e-12


def tiny_problem(name, lam, rng, **options):
    """Two nodes of 2 and 4 rows of norm 1, row 3 empty, and a sample of each node."""
    X = rng.normal(size=(6, 4)) * (rng.random((6, 4)) < 0.7)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-3)
    X[3] = 0.0
    kind = operators.get(name).labels
    y = rng.permutation([-1, -1, -1, 1, 1, 1]) if kind == "binary" else rng.permutation([0, 0, 1, 2, 3, 4])
    problem = dsba.Problem([(X[:2], y[:2]), (X[2:], y[2:])], name, lam, **options)
    return problem, np.array([rng.integers(2), rng.integers(4)])


def step_scale(problem, new, Z, D, B, t):
    """The size of the step's terms, and of what rounding z+ alone changes in t B(z+) (L <= 6 here)."""
    plan = 6.0 if math.isinf(problem.constants.L) else problem.constants.L
    rounding = t * plan * np.abs(new).max()
    return max(1.0, np.abs(D).max(), (1 + t * problem.lam) * np.abs(Z).max(), t * np.abs(B).max(), rounding)


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


# AUC -------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_auc_components_written_out(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(7, 4)) * (rng.random((7, 4)) < 0.6)
    y = rng.permutation([0, 0, 0, 0, 0, 1, 1])
    problem = dsba.Problem([(X[:3], y[:3]), (X[3:], y[3:])], "auc")  # p is the share of ALL positives
    z, p = rng.normal(size=7), 2 / 7
    w, a, b, theta = z[:4], *z[4:]
    m, papers = 2 * p * (1 - p), []
    for i, x in enumerate(X):
        if y[i] == 1:
            f, e = 2 * (1 - p) * ((x @ w - a) - (1 + theta)), x @ w - a
            expected = [*(f * x), -f - m * (1 + theta), m * (1 + theta), m * theta + 2 * (1 - p) * e - m * (b - a)]
            papers.append([*(f * x), -2 * (1 - p) * e, 0, m * theta + 2 * (1 - p) * (x @ w)])
        else:
            f, e = 2 * p * ((x @ w - b) + (1 + theta)), x @ w - b
            expected = [*(f * x), -m * (1 + theta), -f + m * (1 + theta), m * theta - 2 * p * e - m * (b - a)]
            papers.append([*(f * x), 0, -2 * p * e, m * theta - 2 * p * (x @ w)])
        assert np.allclose(component(problem, i, z), expected, rtol=1e-13, atol=1e-13)
    pooled = problem.pooled(z) - problem.lam_diag * z
    assert np.allclose(pooled, np.mean(papers, axis=0), rtol=1e-12, atol=1e-13)  # the same problem
    assert not problem.component.has_loss


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), density=st.sampled_from([0.0, 0.3, 1.0]))
def test_auc_blocks(seed, density):
    """Four rows a sample: x, e_a, e_b, e_theta."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5, 3)) * (rng.random((5, 3)) < density)
    problem = dsba.Problem([(X, [1, 0, 1, 0, 0])], "auc")
    A = problem.A.toarray().reshape(5, 4, 6)
    assert (A[:, 0] == np.pad(X, ((0, 0), (0, 3)))).all()
    assert (A[:, 1:] == np.eye(6)[3:]).all()
    assert problem.A.nnz == np.count_nonzero(X) + 15
    assert problem.A.has_canonical_format


@pytest.mark.parametrize("y", [1.0, -1.0])
def test_auc_components_ignore_a_common_shift(y):
    """Of all scores, a and b: no sample's component changes, and none pushes along it."""
    op, u, shift = AUC(0.3), np.array([0.7, -0.2, 0.4, 1.1]), np.array([1.0, 1.0, 1.0, 0.0])
    g, shifted = np.empty(4), np.empty(4)
    op.forward(u, y, g)
    op.forward(u + 3.0 * shift, y, shifted)
    assert np.allclose(g, shifted, rtol=0, atol=1e-14)
    assert abs(shift @ g) < 1e-15


def test_auc_jacobian_is_that_of_forward():
    op, rng = AUC(0.3), np.random.default_rng(0)
    for y, J in zip((1.0, -1.0), op.jacobians(np.array([1.0, -1.0])), strict=True):
        u, v, gu, gv = *rng.normal(size=(2, 4)), np.empty(4), np.empty(4)
        op.forward(u, y, gu)
        op.forward(v, y, gv)
        assert np.allclose(gu - gv, J @ (u - v), rtol=0, atol=1e-14)
        assert np.linalg.eigvalsh(J + J.T).min() >= -1e-15  # monotone


# Softmax ---------------------------------------------------------------------------------------


@njit(cache=True)
def compiled_backward(op, b, t, s, y, u):
    op.backward(b, t, s, y, u)


@settings(max_examples=400, deadline=None)
@given(data=st.data(), k=st.sampled_from([2, 3, 7]), t=steps, s=norms)
def test_softmax_resolvent(data, k, t, s):
    """u + t s (p - e_y) = b, for close and far scores, in Python and compiled."""
    b = np.array(data.draw(st.lists(points, min_size=k, max_size=k)))
    y = float(data.draw(st.integers(0, k - 1)))
    op, u, g, compiled = Softmax(float(k)), np.empty(k), np.empty(k), np.empty(k)
    op.backward(b, t, np.full(k, s), y, u)
    op.forward(u, y, g)
    p = g + (np.arange(k) == y)
    # what rounding u alone changes in g is slope times u, here with the largest slope of the sample
    scale = np.maximum(max(1.0, np.abs(b).max()), t * s * np.maximum(np.abs(g), (p * (1 - p)).max() * np.abs(u).max()))
    assert (np.abs(u - b + t * s * g) <= 1e-12 * scale).all()
    compiled_backward(op, b, t, np.full(k, s), y, compiled)
    assert np.allclose(compiled, u, rtol=1e-12, atol=1e-12 * max(1.0, np.abs(b).max()))
    if s == 0:
        assert (u == b).all()


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**6), k=st.sampled_from([2, 4]), size=log_uniform(-2, 2))
def test_softmax_derivatives(seed, k, size):
    """forward is the derivative of loss, curvature that of forward, and neither sees a common shift."""
    rng = np.random.default_rng(seed)
    u, v, h = size * rng.normal(size=k), rng.normal(size=k), 1e-6
    op, y, g, ahead, behind = Softmax(float(k)), float(rng.integers(k)), *np.empty((3, k))
    op.forward(u, y, g)
    assert op.loss(u + h * v, y) - op.loss(u - h * v, y) == pytest.approx(2 * h * (g @ v), abs=1e-12 * (1 + size))
    op.forward(u + h * v, y, ahead)
    op.forward(u - h * v, y, behind)
    curvature = op.curvature(u[None], v[None], np.array([y]))[0]
    assert np.allclose(ahead - behind, 2 * h * curvature, rtol=0, atol=1e-12)
    assert g.sum() == pytest.approx(0.0, abs=1e-15)
    assert curvature.sum() == pytest.approx(0.0, abs=1e-14)
    assert op.loss(u + 1000.0, y) == pytest.approx(op.loss(u, y), abs=1e-11)


def test_softmax_of_two_classes_is_logistic():
    """log(e^u0 + e^u1) - u_y is the logistic loss of u1 - u0."""
    op, g = Softmax(2.0), np.empty(2)
    for u in ([0.3, -2.0], [40.0, 1.0], [-1.0, 700.0]):
        for y, sign in ((0.0, -1.0), (1.0, 1.0)):
            assert op.loss(u, y) == pytest.approx(Logistic().value(u[1] - u[0], sign), rel=1e-12, abs=1e-15)
            op.forward(np.array(u), y, g)
            assert g[1] == pytest.approx(Logistic().map(u[1] - u[0], sign), rel=1e-12)


def test_softmax_blocks():
    """C rows a sample, x in the columns j C + c; the intercepts are the last C coordinates and free."""
    X = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 0.0], [0.0, 3.0, 4.0]])
    problem = dsba.Problem([(X, ["a", "b", "c"])], "softmax", intercept=0.5)
    with_constant = np.column_stack([X, np.full(3, 0.5)])
    assert (problem.A.toarray() == np.kron(with_constant, np.eye(3))).all()
    assert problem.A.has_canonical_format
    assert (problem.dim, problem.n_regular, problem.k, list(problem.classes)) == (12, 9, 3, ["a", "b", "c"])
    weights, intercepts = problem.unpack(np.arange(12.0))
    assert (weights == np.arange(9.0).reshape(3, 3).T).all()
    assert (intercepts == 0.5 * np.array([9.0, 10.0, 11.0])).all()


# Huber with its scale --------------------------------------------------------------------------


@njit(cache=True)
def compiled_resolve(op, b, t, s, y, u, g):
    kernel.resolve(op, b, t, s, y, u, g)


@settings(max_examples=400, deadline=None)
@given(t=log_uniform(-6, 4), s=norms, b=st.tuples(points, points), y=st.floats(-10, 10), epsilon=st.floats(1.0, 3.0))
def test_scaled_huber_resolvent(t, s, b, y, epsilon):
    """u + t diag(s, 1) c = b with c a gradient at u: the only one, or at the kink one between arc and chord."""
    op, u, g, c = ScaledHuber(epsilon), np.empty(2), np.empty(2), np.empty(2)
    b = np.array(b)
    compiled_resolve(op, b, t, np.array([s, 1.0]), y, u, c)
    size = max(1.0, np.abs(b).max(), abs(y), t * max(s, 1.0) * np.abs(c).max())
    assert np.abs(u + t * np.array([s, 1.0]) * c - b).max() <= 1e-12 * size
    if s == 0.0:
        return  # an empty row has no say in c[0]
    assert abs(c[0]) <= 2 * epsilon * (1 + 1e-9)
    slack = 1e-6 + 1e-10 * size / t  # what rounding of u leaves in c
    assert 1 - epsilon**2 - slack <= c[1] <= 1 - 0.25 * c[0] ** 2 + slack
    if u[1] > 1e-3 * size:  # not at the kink: c is the gradient
        op.forward(u, y, g)
        assert np.allclose(c, g, atol=1e-10 * size / min(u[1], t))


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**6), epsilon=st.floats(1.0, 3.0))
def test_scaled_huber_derivatives(seed, epsilon):
    rng = np.random.default_rng(seed)
    u, v, y, h = np.array([rng.normal(), rng.uniform(0.3, 2)]), rng.normal(size=2), rng.normal(), 1e-6
    op, g, ahead, behind = ScaledHuber(epsilon), *np.empty((3, 2))
    if abs(abs(u[0] - y) - epsilon * u[1]) < 1e-4:
        return  # across the border of the quadratic part the second derivative jumps
    op.forward(u, y, g)
    assert op.loss(u + h * v, y) - op.loss(u - h * v, y) == pytest.approx(2 * h * (g @ v), abs=1e-13)
    op.forward(u + h * v, y, ahead)
    op.forward(u - h * v, y, behind)
    assert np.allclose(ahead - behind, 2 * h * op.curvature(u[None], v[None], np.array([y]))[0], rtol=1e-4, atol=1e-12)


def test_scaled_huber_blocks():
    X = np.array([[1.0, 0.0], [0.0, 0.0]])
    problem = dsba.Problem([(X, [0.5, -0.5])], ScaledHuber(), intercept=True)
    assert (problem.A.toarray() == [[1, 0, 1, 0], [0, 0, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]]).all()
    assert (problem.lam_diag > 0).tolist() == [True, True, False, False]
    with pytest.raises(dsba.InputError, match="epsilon >= 1"):
        ScaledHuber(0.9)


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
