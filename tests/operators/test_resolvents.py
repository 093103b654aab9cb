"""Resolvents solve their equations (invariant 5), also at kinks, jumps and far away, compiled or not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from test_operators import EPS, by_name, labels, log_uniform, norms, points, steps

import dsba
from dsba import operators
from dsba.operators import (
    AUC,
    Huber,
    Poisson,
    ScalarOperator,
)


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
    new, g = problem.components.backward(samples, Z, D, t)
    B = problem.components.spread(samples, problem.components.forward(samples, new))
    residual = (1 + t * problem.lam_diag) * (new - Z) + t * B - D
    assert np.abs(residual).max() <= 1e-12 * step_scale(problem, new, Z, D, B, t)
    assert np.allclose(
        problem.components.forward(samples, new), g, rtol=0, atol=1e-12 * max(1.0, t) * max(1.0, np.abs(g).max())
    )


@pytest.mark.parametrize("name", ["ridge", "auc", "squared-hinge", "huber", "poisson"])
def test_backward_step_of_the_problem_at_large_steps(name):
    rng, worst = np.random.default_rng(0), 0.0
    for t in (1e4, 1e6, 1e8):
        for _ in range(10):
            problem, samples = tiny_problem(name, 0.0, rng)
            Z, D = rng.normal(size=(2, 2, problem.dim))
            new, _ = problem.components.backward(samples, Z, D, t)
            B = problem.components.spread(samples, problem.components.forward(samples, new))
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
