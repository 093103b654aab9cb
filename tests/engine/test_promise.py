"""What "converged" promises, from every start: checked in plain NumPy against optima that dsba has no part in."""

from __future__ import annotations

import warnings
from itertools import product

import numpy as np
import pytest
import scipy.optimize
from sklearn.exceptions import ConvergenceWarning

import dsba
from dsba.errors import FitError

RING = dsba.Topology.ring(4)
CHUNK, CHUNKS = 30, 100  # the gate has the first chunk, `make full` all of them
GRAPHS = ["ring", "star", "path", "random", "complete"]
DELTA = 1.35  # of Huber's loss, the default
G = {
    "ridge": lambda u, y: u - y,
    "logistic": lambda u, y: -y * scipy.special.expit(-y * u),
    "poisson": lambda u, y: np.exp(u) - y,
    "huber": lambda u, y: np.clip(u - y, -DELTA, DELTA),
    "squared-hinge": lambda u, y: -2.0 * y * np.maximum(0.0, 1.0 - y * u),
}
SLOPES = {"ridge": 1.0, "logistic": 0.25, "huber": 1.0, "squared-hinge": 2.0}


class Plain:
    """A problem by its formulas: F, its Lipschitz constant, its solution. ``l1`` is a penalty on ridge."""

    def __init__(self, kind, X, y, lam, l1=0.0):
        self.kind, self.X, self.y, self.lam, self.l1 = kind, X, y, lam, l1
        slopes = SLOPES[kind] if kind in SLOPES else np.maximum(y, 1.0)
        self.L = np.linalg.eigvalsh((X.T * slopes) @ X / len(y))[-1] + lam
        self.step = 1.0
        self.solution = self._of_patterns() if l1 else self._of_scipy()

    def smooth(self, z):
        return self.X.T @ G[self.kind](self.X @ z, self.y) / len(self.y) + self.lam * z

    def residual(self, z):
        if not self.l1:
            return self.smooth(z)
        t, v = self.step, z - self.step * self.smooth(z)
        return (z - np.sign(v) * np.maximum(np.abs(v) - t * self.l1, 0.0)) / t

    @property
    def unit(self):
        """What tol is relative to."""
        zero = np.zeros(self.X.shape[1])
        norms = np.abs(G[self.kind](self.X @ zero, self.y)) * np.linalg.norm(self.X, axis=1)
        at_zero = np.linalg.norm(self.residual(zero))
        return at_zero if at_zero > 1e-13 * norms.mean() else norms.mean()

    def _of_scipy(self):
        zero = np.zeros(self.X.shape[1])
        if self.kind == "ridge":
            return np.linalg.solve(self.X.T @ self.X / len(self.y) + self.lam * np.eye(len(zero)), -self.smooth(zero))
        near = scipy.optimize.least_squares(self.smooth, zero, xtol=1e-15, ftol=1e-15, gtol=1e-15).x
        return scipy.optimize.root(self.smooth, near, tol=1e-14).x

    def _of_patterns(self):
        """The signs that meet the conditions of optimality; there are 3^p."""
        p = self.X.shape[1]
        H, b = self.X.T @ self.X / len(self.y) + self.lam * np.eye(p), -self.smooth(np.zeros(p))
        for signs in product((-1.0, 0.0, 1.0), repeat=p):
            on, z = np.array(signs) != 0, np.zeros(p)
            z[on] = np.linalg.solve(H[np.ix_(on, on)], (b - self.l1 * np.array(signs))[on])
            if (z * signs >= 0).all() and (np.abs(b - H @ z)[~on] <= self.l1 * (1 + 1e-12)).all():
                return z
        raise AssertionError("no pattern of signs is optimal")


def drawn(index):
    """A problem in both forms, a method, a graph, a start and a tolerance."""
    rng = np.random.default_rng([28, index])
    kind, method = rng.choice([*G]), rng.choice(dsba.algorithms.names())
    composite = kind == "ridge" and dsba.algorithms.REGISTRY[method].composite and rng.random() < 0.5
    rows, columns, n_nodes = int(rng.integers(12, 40)), int(rng.integers(1, 5)), int(rng.integers(1, 6))
    X = rng.normal(size=(rows, columns)) * 10.0 ** rng.uniform(-1, 0.5)
    score = X @ rng.normal(size=columns) + rng.normal(size=rows)
    if kind == "poisson":
        y = rng.poisson(np.exp(np.clip(score, -3, 2))).astype(float)
    else:
        y = np.where(score > 0, 1.0, -1.0) if kind in ("logistic", "squared-hinge") else score
    if rng.random() < 0.1 and kind != "poisson":
        X, y = np.vstack([X, X]), np.concatenate([y, -y])  # 0 is the solution
    lam, l1 = 10.0 ** rng.uniform(-2, -0.5), 10.0 ** rng.uniform(-2, 0.5) if composite else 0.0
    plain, penalty = Plain(kind, X, y, lam, l1), dsba.penalties.L1(l1) if l1 else None
    split = rng.choice(["random", "label"])
    problem = dsba.Problem.from_arrays(X, y, kind, n_nodes, lam, split, False, penalty=penalty)
    plain.step = problem.pooled.forward_step
    reach = rng.choice([0.0, 1e-3, 1.0, 30.0, 1e4, 1e8, np.nan])
    z0 = plain.solution if np.isnan(reach) else reach * rng.normal(size=columns)
    topology = dsba.Topology.family(rng.choice(GRAPHS), n_nodes)
    return plain, problem, topology, method, z0, 10.0 ** rng.uniform(-9, -1)


def held(index):
    """None if the method does not apply, otherwise whether it converged; an error if it did and is not near."""
    plain, problem, topology, method, z0, tol = drawn(index)
    if dsba.algorithms.get(method).why_not(problem, dsba.Simulator(topology)) is not None:
        return None
    try:
        result = dsba.solve(problem, topology, method, z0=z0, tol=tol, max_passes=150, record_every=3.0)
    except dsba.InputError:
        if method == "network-newton" and plain.kind == "poisson":
            return False  # where e^u is huge, its systems lose lambda to rounding, and it refuses to go on
        raise
    if result.status != "converged":
        return False
    residual, mean = np.linalg.norm(plain.residual(result.z)), result.Z.mean(axis=0)
    case = (index, method, plain.kind, tol, result)
    assert residual <= tol * plain.unit * (1 + 1e-6) + 1e-13, case
    spread = np.sqrt(np.mean(np.sum((result.Z - mean) ** 2, axis=1)))
    assert spread <= tol * max(np.linalg.norm(mean), plain.unit / plain.L) * (1 + 1e-6), case
    left = np.linalg.norm(plain.residual(plain.solution))
    assert left <= 1e-9 * plain.unit, (left, case)
    reach = 2.0 / plain.lam + plain.step if plain.l1 else 1.0 / plain.lam  # by strong convexity
    assert np.linalg.norm(result.z - plain.solution) <= reach * (residual + left) * (1 + 1e-6) + 1e-13, case
    return True


@pytest.mark.parametrize("chunk", [pytest.param(k, marks=[] if k == 0 else pytest.mark.full) for k in range(CHUNKS)])
def test_nothing_called_converged_is_outside_its_promise(chunk):
    answers, index = [], 10 * CHUNK * chunk
    while len(answers) < CHUNK:
        if (answer := held(index)) is not None:
            answers.append(answer)
        index += 1
    assert sum(answers) > CHUNK / 4  # and enough of them are


def data(rows=60, columns=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    return X, X @ np.ones(columns) + rng.normal(size=rows), rng


def test_a_start_far_away_is_no_excuse():
    X, y, _ = data()
    plain, problem = Plain("ridge", X, y, 0.05), dsba.Problem.from_arrays(X, y, "ridge", 4, 0.05, normalize=False)
    result = dsba.solve(problem, RING, z0=np.full(4, 1e8), tol=1e-4, max_passes=2000)
    assert result.status == "converged"
    assert np.linalg.norm(result.z - plain.solution) < 1e-3 * np.linalg.norm(plain.solution)


@pytest.mark.parametrize("method", ["dsba", "extra", "newton"])
def test_a_start_at_the_solution_converges_at_once(method):
    X, y, _ = data()
    problem = dsba.Problem.from_arrays(X, y, "ridge", 4, 0.05)
    result = dsba.solve(problem, RING, method, z0=dsba.optimum(problem).z, tol=1e-8)
    assert (result.status, result.history["iteration"][-1]) == ("converged", 0)


@pytest.mark.parametrize("mirrored", [True, False])
def test_where_zero_is_the_solution_the_components_give_the_unit(mirrored):
    """Exactly, and but for rounding."""
    X, y, _ = data()
    if mirrored:
        X, y = np.vstack([X, X]), np.concatenate([y, -y])
    else:
        y = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
    problem = dsba.Problem.from_arrays(X, y, "ridge", 4, 0.05, normalize=False)
    unit = np.mean(np.abs(y) * np.linalg.norm(X, axis=1))
    assert problem.residual_unit == pytest.approx(unit, rel=1e-12)
    assert dsba.solve(problem, RING, tol=1e-8).history["iteration"][-1] == 0
    result = dsba.solve(problem, RING, z0=np.ones(4), tol=1e-6, max_passes=1000)
    assert result.status == "converged"
    assert np.linalg.norm(problem.pooled.operator(result.z)) <= 1e-6 * unit
    assert dsba.optimum(problem).residual < 1e-12


def test_nodes_that_differ_have_not_converged():
    """With so long a step the nodes of DGD end apart, around a mean that is near the solution."""
    X, y, _ = data()
    problem = dsba.Problem.from_arrays(X, y, "ridge", 4, 0.05)
    result = dsba.solve(problem, RING, "dgd", step_size=1.0, tol=0.03, max_passes=200)
    assert result.history["residual"][-1] < 0.03 < result.history["consensus"][-1]
    assert result.status == "budget"
    assert "the nodes still differ by" in result.message


@pytest.mark.parametrize("operator", ["logistic", "poisson", "softmax"])
@pytest.mark.parametrize("far", [5.0, 50.0, 1e3, 1e8])
def test_newton_blames_no_labels_for_its_start(operator, far):
    X, score, rng = data()
    score = score + 2.0 * rng.normal(size=60)
    y = {"logistic": score > 0, "poisson": rng.poisson(np.exp(score / 4)), "softmax": np.digitize(score, [-1, 1])}
    problem = dsba.Problem.from_arrays(X, y[operator].astype(float), operator, 4, 0.0, normalize=False)
    z0 = far * np.random.default_rng(1).normal(size=problem.dim)
    result = dsba.solve(problem, RING, "newton", z0=z0, tol=1e-10, max_passes=200)
    assert result.status == "converged"
    assert problem.objective(result.z) <= problem.objective(dsba.optimum(problem).z) * (1 + 1e-12)


@pytest.mark.parametrize("far", [-50.0, 0.0, 1.0, 50.0])
def test_newton_finds_separated_labels_from_every_start(far):
    X, *_ = data()
    problem = dsba.Problem.from_arrays(X, np.where(X[:, 0] > 0, 1, -1), "logistic", 4, 0.0, normalize=False)
    with pytest.raises(FitError, match="separated"):
        dsba.solve(problem, RING, "newton", z0=far * np.eye(4)[0], tol=1e-4, max_passes=200)


def test_a_method_that_ended_above_its_tolerance_has_not_converged():
    X, y, _ = data()
    problem = dsba.Problem.from_arrays(X, y, "ridge", 4, 0.05)
    result = dsba.solve(problem, RING, "newton", tol=1e-30)
    assert result.status == "budget"
    assert "1e-30 was wanted" in result.message
    assert dsba.solve(problem, RING, "newton").status == "converged"


def test_a_fit_keeps_its_tolerance_wherever_its_labels_lie():
    """Relative to the residual at 0, which labels far from 0 make large, the model of the intercept would do."""
    X, y, _ = data(200)
    near, far = (
        dsba.DecentralizedRidge(n_nodes=4, algorithm="dsba", tol=1e-6, random_state=0).fit(X, y + shift)
        for shift in (0.0, 1e6)
    )
    np.testing.assert_allclose(far.coef_, near.coef_, rtol=1e-4)
    constant = dsba.DecentralizedRidge(n_nodes=4, algorithm="dsba", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        assert np.abs(constant.fit(X, np.full(200, 1e6 / 3)).coef_).max() < 1e-6
