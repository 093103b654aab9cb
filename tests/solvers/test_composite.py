"""Problems with a penalty: the certified solution, the methods that take one, and scikit-learn's answers."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_data, make_problem
from sklearn.linear_model import ElasticNet, LinearRegression, LogisticRegression

import dsba
from dsba.operators.penalties import L1, Box
from dsba.operators.penalties import ElasticNet as Net

TOPOLOGY = dsba.Topology.random(4, 0.5, seed=1)
COMPOSITE = [m for m in dsba.algorithms.names() if dsba.algorithms.REGISTRY[m].composite]
PENALTIES = [L1(0.02), Net(0.1, 0.3), Box(-0.2, 0.4)]


def by_repr(penalty):
    return repr(penalty)


# The maps ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", PENALTIES, ids=by_repr)
def test_the_proximal_map_minimises(penalty):
    """Against a grid of candidates, for several steps."""
    w = np.linspace(-3, 3, 60_001)
    values = np.array([penalty.value(w[i : i + 1]) for i in range(w.size)])
    for t in (0.1, 1.0, 7.0):
        for v in (-2.0, -0.3, -0.01, 0.0, 0.05, 1.7):
            best = w[np.argmin(values + (w - v) ** 2 / (2 * t))]
            assert penalty.prox(np.array([v]), t)[0] == pytest.approx(best, abs=2e-4)


@pytest.mark.parametrize("penalty", PENALTIES, ids=by_repr)
def test_the_slope_is_the_maps_derivative(penalty):
    V = np.array([-2.0, -0.3, -0.001, 0.003, 0.05, 1.7])
    t, h = 0.7, 1e-7
    expected = (penalty.prox(V + h, t) - penalty.prox(V - h, t)) / (2 * h)
    assert np.abs(penalty.slope(V, t) - expected).max() < 1e-6


def test_bad_penalties_are_refused():
    with pytest.raises(dsba.InputError, match=r"l1_ratio must be at most 1, got 1\.5"):
        Net(1.0, 1.5)
    with pytest.raises(dsba.InputError, match=r"a box needs lower <= 0 <= upper and lower < upper, got 0\.1 and 1"):
        Box(0.1, 1.0)
    assert Box(-np.inf, 1.0).prox(np.array([-5.0, 5.0]), 0.1).tolist() == [-5.0, 1.0]
    for lower in ("low", np.nan):
        with pytest.raises(dsba.InputError, match="lower must be a number"):
            Box(lower, 1.0)
    with pytest.raises(dsba.InputError, match="strength"):
        L1(-1.0)
    with pytest.raises(dsba.InputError, match=r"penalty must be a dsba.penalties.Penalty or None, got str"):
        make_problem("ridge", penalty="l1")
    with pytest.raises(dsba.InputError, match="a penalty needs an objective, and AUC has none"):
        make_problem("auc", penalty=L1(0.1))


# The certified solution -------------------------------------------------------------------------------


def test_the_solution_is_scikit_learns_lasso_and_elastic_net():
    X, y = make_data("ridge", rows=80, columns=30)
    for l1_ratio in (0.3, 1.0):
        theirs = ElasticNet(alpha=0.05, l1_ratio=l1_ratio, fit_intercept=False, tol=1e-14, max_iter=100_000).fit(X, y)
        problem = dsba.Problem.from_arrays(
            X, y, "ridge", 4, lam=0.05 * (1 - l1_ratio), normalize=False, penalty=L1(0.05 * l1_ratio)
        )
        z, residual = dsba.optimum(problem)
        assert residual < 1e-12
        assert np.abs(z - theirs.coef_).max() < 1e-6
        assert ((z == 0) == (theirs.coef_ == 0)).all()
        assert 0 < (z == 0).sum() < z.size


def test_the_solution_is_scikit_learns_non_negative_least_squares():
    X, y = make_data("ridge", rows=80, columns=30)
    theirs = LinearRegression(positive=True, fit_intercept=False).fit(X, y)
    problem = dsba.Problem.from_arrays(X, y, "ridge", 4, lam=0.0, normalize=False, penalty=Box())
    z, residual = dsba.optimum(problem)
    assert residual < 1e-12
    assert np.abs(z - theirs.coef_).max() < 1e-9
    assert 0 < (z == 0).sum() < z.size


@pytest.mark.parametrize("operator", ["ridge", "logistic", pytest.param("poisson", marks=pytest.mark.full)])
@pytest.mark.parametrize("penalty", PENALTIES, ids=by_repr)
def test_nothing_near_the_solution_is_better(operator, penalty):
    """The objective, which the solver does not look at in its last steps, rises in every direction."""
    problem = make_problem(operator, 4, lam=0.001, penalty=penalty, intercept=True)
    z, residual = dsba.optimum(problem)
    assert residual < 1e-12
    least = problem.objective(z)
    rng = np.random.default_rng(0)
    for size in (1e-1, 1e-3):
        near = [problem.pooled.prox(z + size * rng.normal(size=z.size), 1e-9) for _ in range(50)]
        assert all(problem.objective(other) > least for other in near)


def test_a_penalty_that_leaves_nothing():
    """With an l1 term this strong zero is the solution, and known at once."""
    problem = make_problem("ridge", penalty=L1(100.0))
    assert dsba.optimum(problem) == (pytest.approx(np.zeros(problem.dim)), 0.0)


# Methods ----------------------------------------------------------------------------------------------


def test_the_methods_that_take_a_penalty():
    assert set(COMPOSITE) == {"dsba", "pg-extra", "nids", "pmgt-saga"}


@pytest.mark.parametrize("operator", ["ridge", pytest.param("logistic", marks=pytest.mark.full)])
@pytest.mark.parametrize("penalty", PENALTIES, ids=by_repr)
@pytest.mark.parametrize("method", COMPOSITE)
def test_methods_reach_the_certified_solution(method, penalty, operator, unequal):
    for topology, split in ((TOPOLOGY, unequal), (dsba.Topology.path(4), "label")):
        problem = make_problem(operator, 4, lam=0.05, split=split, penalty=penalty, intercept=True)
        z_star, residual = dsba.optimum(problem)
        assert residual < 1e-12
        near = [lambda record: record["distance"] < 1e-9]
        result = dsba.solve(
            problem, topology, method, max_passes=5000, record_every=10, reference=z_star, callbacks=near
        )
        assert result.history["distance"][-1] < 1e-9
        assert result.history["gap"][-1] < 1e-9
        assert result.history["residual"][-1] < 1e-6


@pytest.mark.parametrize("method", sorted(set(dsba.algorithms.names()) - set(COMPOSITE)))
def test_the_others_refuse_by_name(method):
    problem = make_problem("ridge", penalty=L1(0.1))
    with pytest.raises(dsba.InputError, match=rf"^{method} does not apply: .* no proximal step, .* L1\(strength=0.1"):
        dsba.solve(problem, TOPOLOGY, method)


def test_dsba_refuses_what_is_not_exact():
    with pytest.raises(dsba.InputError, match="exact for losses of one score, and Softmax has 3"):
        dsba.solve(make_problem("softmax", penalty=L1(0.1)), TOPOLOGY)
    with pytest.raises(dsba.InputError, match=r"form 'step' with dense communication, got form='lazy'"):
        dsba.solve(make_problem("ridge", penalty=L1(0.1)), TOPOLOGY, form="lazy")


@pytest.mark.parametrize("operator", ["ridge", "logistic"])
@pytest.mark.parametrize("penalty", PENALTIES, ids=by_repr)
def test_the_resolvent_with_a_penalty(operator, penalty):
    """z + t Lambda z + t c B_i(z) + t (a subgradient at z) = v: z minimises a strongly convex function."""
    problem = make_problem(operator, 4, penalty=penalty, intercept=True)
    rng = np.random.default_rng(1)
    for t in (1e-3, 1.0, 1e3):
        samples = np.array([rng.integers(q) for q in problem.sizes])
        Z, D = rng.normal(size=(2, 4, problem.dim))
        new, g = problem.components.backward(samples, Z, D, t)
        V = (1 + t * problem.lam_diag) * Z + D
        B = problem.components.spread(samples, problem.components.forward(samples, new))
        left = V - new - t * problem.lam_diag * new - t * B
        assert np.abs(g - problem.components.forward(samples, new)).max() < 1e-9
        # left / t is a subgradient exactly where one proximal step from it leads back
        assert np.abs(problem.pooled.prox(new + left, t) - new).max() < 1e-9 * (1 + np.abs(V).max() + t)


def test_a_penalty_of_zero_changes_nothing():
    whole = {"max_passes": 20, "form": "step"}
    plain = dsba.solve(make_problem("logistic"), TOPOLOGY, **whole)
    zero = dsba.solve(make_problem("logistic", penalty=L1(0.0)), TOPOLOGY, **whole)
    assert np.abs(plain.Z - zero.Z).max() < 1e-10


def test_auto_does_not_choose_a_method_without_a_proximal_step():
    from dsba.algorithms.planner import plan

    assert plan(make_problem("ridge"), dsba.Simulator(TOPOLOGY)).chosen.name == "newton"
    assert plan(make_problem("ridge", penalty=L1(0.1)), dsba.Simulator(TOPOLOGY)).chosen.name == "dsba"


# Estimators -------------------------------------------------------------------------------------------

PRECISE = {"tol": 1e-9, "max_passes": 20_000}


@pytest.mark.parametrize("algorithm", ["nids", pytest.param("dsba", marks=pytest.mark.full), "pg-extra"])
def test_regression_with_an_l1_ratio_is_the_elastic_net(algorithm):
    X, y = make_data("ridge", rows=80, columns=15)
    y = y + 3.0
    for l1_ratio in (0.5, 1.0):
        theirs = ElasticNet(alpha=0.2, l1_ratio=l1_ratio, tol=1e-14, max_iter=100_000).fit(X, y)
        model = dsba.DecentralizedRidge(0.2 * 80, l1_ratio=l1_ratio, n_nodes=4, algorithm=algorithm, **PRECISE)
        model.fit(X, y)
        assert np.abs(model.coef_ - theirs.coef_).max() < 1e-6
        assert model.intercept_ == pytest.approx(theirs.intercept_, abs=1e-6)
    assert (theirs.coef_ == 0).any()


def test_classification_with_an_l1_ratio_is_the_elastic_net():
    X, y = make_data("logistic", rows=80, columns=15)
    theirs = LogisticRegression(l1_ratio=0.5, C=0.3, solver="saga", tol=1e-12, max_iter=100_000).fit(X, y)
    model = dsba.DecentralizedLogisticRegression(0.3, l1_ratio=0.5, n_nodes=4, algorithm="nids", **PRECISE).fit(X, y)
    assert np.abs(model.coef_ - theirs.coef_).max() < 1e-6
    assert np.abs(model.intercept_ - theirs.intercept_).max() < 1e-6
    assert (theirs.coef_ == 0).any()


def test_an_l1_ratio_out_of_range_is_refused():
    X, y = make_data("ridge")
    with pytest.raises(dsba.InputError, match="l1_ratio must be between 0 and 1, got 2"):
        dsba.DecentralizedRidge(l1_ratio=2).fit(X, y)


@pytest.mark.parametrize("operator", ["logistic", "softmax", "huber"])
def test_the_optimum_without_lambda_is_one(operator):
    """More columns than rows: Newton's system is singular, and its step may lead to where everything rounds to zero."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 100))
    y = np.sign(X[:, :3].sum(axis=1) + 0.3 * rng.normal(size=40))
    y = np.digitize(X[:, 0], [-0.5, 0.5]) if operator == "softmax" else y
    problem = dsba.Problem.from_arrays(X, y, operator, n_nodes=4, lam=0.0, penalty=L1(0.01), normalize=False)
    z, _ = dsba.optimum(problem)
    other = dsba.solve(problem, dsba.Topology.ring(4), "nids", max_passes=2000)
    assert problem.objective(z) <= other.history["objective"][-1] * (1 + 1e-9)


def test_there_is_no_gap_to_a_reference_that_is_worse_than_zero():
    problem = make_problem("ridge", 4)
    far = np.full(problem.dim, 1e6)
    found = dsba.solve(problem, dsba.Topology.ring(4), "extra", reference=far, gap_tol=1e-6, max_passes=3)
    assert found.status == "budget"
    assert np.isnan(found.history["gap"]).all()
    assert np.isfinite(found.history["distance"]).all()


def test_the_optimum_of_columns_in_their_own_units():
    """By its conditions: F = -strength sign(z) where z is not zero, and no larger elsewhere."""
    X, y = dsba.data.load_breast_cancer()
    problem = dsba.Problem.from_arrays(X, y, "logistic", n_nodes=10, penalty=L1(1e-3), normalize=False)
    z, residual = dsba.optimum(problem)
    assert residual <= 1e-13
    w, F = z[problem.pooled.penalised], problem.pooled.operator(z)[problem.pooled.penalised]
    assert np.abs(F[w != 0.0] + 1e-3 * np.sign(w[w != 0.0])).max() < 1e-13
    assert np.abs(F[w == 0.0]).max() <= 1e-3
    assert 10 < (w != 0.0).sum() < 30
