"""Operators with several numbers a sample: AUC, softmax, Huber with its scale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from test_operators import component, log_uniform, norms, points, steps

import dsba
from dsba.kernels import samples as kernel
from dsba.operators import (
    AUC,
    Logistic,
    ScaledHuber,
    Softmax,
)

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
    pooled = problem.pooled.operator(z) - problem.lam_diag * z
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


def softmax_excess(op, b, t, y, u):
    """u + t (p - e_y) - b, relative to what rounding u alone changes in it: slope times u, with the largest slope."""
    g = np.empty(len(b))
    op.forward(u, y, g)
    p = g + (np.arange(len(b)) == y)
    scale = np.maximum(max(1.0, np.abs(b).max()), t * np.maximum(np.abs(g), (p * (1 - p)).max() * np.abs(u).max()))
    return (np.abs(u - b + t * g) / scale).max()


@settings(max_examples=400, deadline=None)
@given(data=st.data(), k=st.sampled_from([2, 3, 7]), t=steps, s=norms)
def test_softmax_resolvent(data, k, t, s):
    """u + t s (p - e_y) = b, for close and far scores, in Python and compiled."""
    b = np.array(data.draw(st.lists(points, min_size=k, max_size=k)))
    y = float(data.draw(st.integers(0, k - 1)))
    op, u, compiled = Softmax(float(k)), np.empty(k), np.empty(k)
    op.backward(b, t, np.full(k, s), y, u)
    assert softmax_excess(op, b, t * s, y, u) <= 1e-12
    compiled_backward(op, b, t, np.full(k, s), y, compiled)
    assert np.allclose(compiled, u, rtol=1e-12, atol=1e-12 * max(1.0, np.abs(b).max()))
    if s == 0:
        assert (u == b).all()


@pytest.mark.parametrize("k", [2, 7, 20])
def test_softmax_resolvent_with_long_steps_and_far_scores(k):
    """Steps up to 1e9 and scores up to 1e6: a start that is off by 0.1 % of t p would send Newton's iteration away."""
    rng = np.random.default_rng(k)
    op, u = Softmax(float(k)), np.empty(k)
    for _ in range(3000):
        t, size, y = 10 ** rng.uniform(-6, 9), 10 ** rng.uniform(-3, 6), float(rng.integers(k))
        b = size * rng.normal(size=k) * (rng.random(k) < 0.7)
        compiled_backward(op, b, t, np.ones(k), y, u)
        assert softmax_excess(op, b, t, y, u) <= 1e-14


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


class InArrays(dsba.ScalarOperator):
    """Squared loss, whose methods make arrays: kernels without arrays of their own call them all the same."""

    lipschitz = 1.0

    def map(self, u: float, y: float) -> float:
        difference = np.zeros(1)
        difference[0] = u - y
        return difference[0]

    def slope(self, u: float, y: float) -> float:
        return 1.0

    def forward(self, u, y, out):
        difference = np.zeros(1)
        difference[0] = u[0] - y
        out[0] = difference[0]


@pytest.mark.parametrize("method", ["extra", "dsba"])
def test_methods_of_an_operator_may_make_arrays(method):
    rng = np.random.default_rng(0)
    X, y, ring = rng.normal(size=(60, 4)) * (rng.random((60, 4)) < 0.8), rng.normal(size=60), dsba.Topology.ring(3)
    problems = [dsba.Problem.from_arrays(X, y, operator, n_nodes=3, lam=0.1) for operator in (InArrays(), "ridge")]
    ours, plain = (dsba.solve(problem, ring, method, max_passes=5, step_size=0.1).Z for problem in problems)
    assert np.abs(ours - plain).max() < 1e-12
