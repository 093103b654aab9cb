"""Newton by exact sums against independent solutions: statsmodels, scikit-learn, the certified optimum."""

from __future__ import annotations

import numpy as np
import pytest
import queues
import scipy.sparse as sp
import statsmodels.api as sm
from conftest import make_problem
from sklearn.linear_model import LogisticRegression, Ridge

import dsba
from dsba.errors import FitError

SPLITS = {
    "one": [240], "two": [90, 150], "five": [48, 48, 48, 48, 48], "unequal": [3, 7, 20, 60, 150],
}  # fmt: skip


def table(kind, seed=0, rows=240):
    """Columns of a table as people have them: of several sizes, one of them 100 +- 0.01."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([
        rng.normal(60.0, 12.0, rows), 100.0 + 0.01 * rng.normal(size=rows), rng.integers(0, 2, rows),
        rng.exponential(3.0, rows),
    ])  # fmt: skip
    score = 0.03 * (X[:, 0] - 60.0) + 20.0 * (X[:, 1] - 100.0) + 0.5 * X[:, 2] - 0.1 * X[:, 3] + 0.2
    if kind == "logistic":
        return X, (rng.random(rows) < 1 / (1 + np.exp(-score))).astype(int)
    return X, rng.poisson(np.exp(score)) if kind == "poisson" else 1000.0 * score + rng.normal(size=rows)


def shards(X, y, sizes):
    ends = np.cumsum(sizes)[:-1]
    return list(zip(np.split(X, ends), np.split(y, ends), strict=True))


def graph(family, n_nodes):
    return dsba.Topology.family(family if n_nodes > 2 else "complete", n_nodes)


def newton(problem, topology, **options):
    return dsba.solve(problem, topology, "newton", **({"max_passes": 40, "tol": 1e-14} | options))


def pooled(kind, X, y):
    """statsmodels on the pooled rows, the intercept last."""
    columns = np.column_stack([X, np.ones(len(X))])
    if kind == "ridge":
        return sm.OLS(y, columns).fit()
    family = sm.families.Binomial() if kind == "logistic" else sm.families.Poisson()
    return sm.GLM(y, columns, family=family).fit(tol=1e-14, maxiter=100)


@pytest.mark.parametrize("family", ["ring", "path"])
@pytest.mark.parametrize("sizes", SPLITS.values(), ids=SPLITS)
@pytest.mark.parametrize("kind", ["logistic", "poisson", "ridge"])
def test_generalised_linear_models_without_a_penalty(kind, sizes, family):
    X, y = table(kind)
    problem = dsba.Problem(shards(X, y, sizes), kind, lam=0.0, intercept=True)
    result = newton(problem, graph(family, len(sizes)))
    theirs = pooled(kind, X, y)
    assert np.abs((result.z - theirs.params) / theirs.bse).max() < 1e-8
    assert (result.Z[0] == result.Z).all()


@pytest.mark.parametrize(("kind", "most"), [("ridge", 2), ("logistic", 8), ("poisson", 8)])
def test_few_iterations_and_rounds(kind, most):
    """On a ring of 4 a sum takes 8 rounds: the largest up and down, then the integers up and down."""
    X, y = table(kind)
    problem = dsba.Problem(shards(X, y, [60, 60, 60, 60]), kind, lam=0.0, intercept=True)
    whole = newton(problem, dsba.Topology.ring(4), max_passes=100, tol=None)
    assert whole.status == "converged"
    assert whole.passes < 15
    assert "Newton steps, the last one no larger than rounding, the relative residual is" in whole.message
    theirs = pooled(kind, X, y)
    near = dsba.solve(problem, dsba.Topology.ring(4), "newton", max_passes=1 + most)
    assert np.abs((near.z - theirs.params) / theirs.bse).max() < 1e-8
    assert near.history["rounds"][-1] <= 8 * (1 + 2 * most)
    assert whole.history["rounds"][-1] <= 200


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_the_same_bits_for_every_split_of_the_nodes_into_processes(size):
    X, y = table("logistic")
    topology, sites = dsba.Topology.ring(5), shards(X, y, SPLITS["unequal"])
    one = newton(dsba.Problem(sites, "logistic", lam=0.0, intercept=True), topology)

    def work(net):
        own = sites[net.nodes.start : net.nodes.stop]
        result = newton(dsba.Problem(own, "logistic", lam=0.0, intercept=True, group=net), topology)
        return result.Z, result.history["rounds"], result.history["bytes_max"]

    everyone = queues.together(topology, size, work)
    assert (np.concatenate([Z for Z, _, _ in everyone]) == one.Z).all()
    for _, rounds, most_bytes in everyone:
        assert (rounds == one.history["rounds"]).all()
        assert (most_bytes == one.history["bytes_max"]).all()


def test_a_run_that_stopped_goes_on_with_the_same_bits(tmp_path):
    X, y = table("poisson")
    problem = dsba.Problem(shards(X, y, SPLITS["unequal"]), "poisson", lam=0.0, intercept=True)
    topology = dsba.Topology.ring(5)
    whole = newton(problem, topology)
    newton(problem, topology, max_passes=3, checkpoint=tmp_path / "run")
    resumed = newton(problem, topology, checkpoint=tmp_path / "run")
    assert (resumed.Z == whole.Z).all()
    assert (resumed.history["rounds"] == whole.history["rounds"]).all()


def test_an_optimum_at_the_start_is_left_alone():
    X = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    problem = dsba.Problem([(X, np.array([1, -1, 1, -1]))], "logistic", lam=0.0)
    result = newton(problem, dsba.Topology.complete(1), tol=None)
    assert (result.z == 0.0).all()
    perfect = dsba.Problem([(X, 3.0 * X[:, 0])], "ridge", lam=0.0)
    assert newton(perfect, dsba.Topology.complete(1), tol=None).z == [3.0]


@pytest.mark.parametrize("operator", ["auc", "huber", "squared-hinge", "softmax", "ridge", "logistic", "poisson"])
def test_every_operator_with_weights_and_unequal_nodes(operator, unequal):
    weights = np.random.default_rng(5).choice([0.0, 0.5, 1.0, 3.0], size=60)
    intercept = operator != "auc"  # which has one of its own for each class
    problem = make_problem(operator, 4, lam=0.1, split=unequal, intercept=intercept, sample_weight=weights)
    result = newton(problem, dsba.Topology.path(4), max_passes=30, reference=True)
    assert result.history["distance"][-1] < 1e-11


@pytest.mark.parametrize("lam", [0.0, 1e-3])
def test_huber_with_labels_a_thousand_times_its_delta(lam):
    """At the start every loss is straight, and the solution depends on the few samples whose loss is not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 5))
    y = 1000.0 * (X @ rng.normal(size=5) + rng.standard_t(1, size=200))
    problem = dsba.Problem(shards(X, y, [80, 120]), "huber", lam=lam, intercept=True)
    result = newton(problem, dsba.Topology.path(2), max_passes=300, tol=1e-10, reference=True)
    assert result.history["distance"][-1] < 1e-8


def test_softmax_and_ridge_with_a_penalty_are_scikit_learns():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 5)) * [1.0, 2.0, 0.5, 1.0, 3.0]
    classes = (X @ rng.normal(size=(5, 3)) + rng.gumbel(size=(300, 3))).argmax(axis=1)
    problem = dsba.Problem(shards(X, classes, [40, 60, 200]), "softmax", lam=0.02, intercept=True)
    weights, intercepts = problem.unpack(newton(problem, dsba.Topology.path(3)).z)
    theirs = LogisticRegression(C=1 / (0.02 * 300), solver="newton-cg", tol=1e-12, max_iter=1000).fit(X, classes)
    np.testing.assert_allclose(weights, theirs.coef_, atol=1e-7)
    np.testing.assert_allclose(intercepts, theirs.intercept_ - theirs.intercept_.mean(), atol=1e-7)
    y = X @ rng.normal(size=5) + rng.normal(size=300)
    problem = dsba.Problem(shards(X, y, [40, 60, 200]), "ridge", lam=0.3, intercept=True)
    weights, intercepts = problem.unpack(newton(problem, dsba.Topology.path(3)).z)
    ridge = Ridge(alpha=0.3 * 300, solver="cholesky").fit(X, y)
    np.testing.assert_allclose([*weights[0], intercepts[0]], [*ridge.coef_, ridge.intercept_], rtol=1e-11)


# Conjugate gradients ------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", ["huber", "squared-hinge", "softmax", "ridge", "logistic", "poisson"])
def test_conjugate_gradients_come_to_the_same(operator, unequal, monkeypatch):
    monkeypatch.setattr("dsba.algorithms.newton.MOST_COLUMNS", 5)
    problem = make_problem(operator, 4, lam=0.1, split=unequal, intercept=True)
    result = newton(problem, dsba.Topology.path(4), max_passes=1000, reference=True)
    assert result.history["distance"][-1] < 1e-10
    assert result.passes > result.history["iteration"][-1] + 1  # the products of conjugate gradients are counted
    assert (result.Z[0] == result.Z).all()


def test_more_columns_than_a_hessian_is_summed_for():
    rng = np.random.default_rng(0)
    X = sp.random_array((300, 1500), density=0.02, rng=rng, format="csr")
    problem = dsba.Problem.from_arrays(X, rng.choice([-1, 1], 300), n_nodes=3)
    topology = dsba.Topology.path(3)
    result = newton(problem, topology, max_passes=5000, tol=1e-11, reference=True)
    assert result.history["distance"][-1] < 1e-9
    assert result.history["doubles_max"][-1] < 1500**2  # no Hessian went over a line
    ends = problem.start

    def work(net):
        own = [(problem.A[ends[n] : ends[n + 1]], problem.y[ends[n] : ends[n + 1]]) for n in net.nodes]
        return newton(dsba.Problem(own, group=net), topology, max_passes=5000, tol=1e-11).Z

    assert (np.concatenate(queues.together(topology, 3, work)) == result.Z).all()


def test_conjugate_gradients_find_separation(monkeypatch):
    monkeypatch.setattr("dsba.algorithms.newton.MOST_COLUMNS", 2)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(200, 2)), np.arange(200) % 5 == 0])
    y = np.where(X[:, 2] == 1.0, 0, rng.integers(0, 2, 200))
    problem = dsba.Problem(shards(X, y, [80, 120]), "logistic", lam=0.0, intercept=True)
    with pytest.raises(FitError, match="separated perfectly by column 2, and"):
        newton(problem, graph("path", 2), max_passes=1000)


def test_a_wide_saddle_is_refused(monkeypatch):
    monkeypatch.setattr("dsba.algorithms.newton.MOST_COLUMNS", 5)
    with pytest.raises(dsba.InputError, match="newton does not apply: AUC with more than 5 coeff"):
        newton(make_problem("auc", 4), dsba.Topology.ring(4))


# What the data does not determine -----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["logistic", "poisson", "ridge", "huber"])
def test_columns_that_depend_on_each_other_are_named(kind):
    X, y = table("ridge" if kind == "huber" else kind)
    X = np.column_stack([X, X[:, 0] - 2.0 * X[:, 3]])
    problem = dsba.Problem(shards(X, y, [100, 140]), kind, lam=0.0, intercept=True)
    with pytest.raises(FitError, match="the coefficients of column 0, column 3 and column 4: one of") as caught:
        newton(problem, graph("path", 2))
    assert caught.value.columns == (0, 3, 4)
    names = ["age", "oxygen", "sex", "crp", "sum", "Intercept"]
    assert "the coefficients of age, crp and sum: one of" in str(caught.value.named(names))


def test_a_constant_column_beside_the_intercept_is_named():
    X, y = table("logistic")
    X[:, 2] = 3.0
    problem = dsba.Problem(shards(X, y, [100, 140]), "logistic", lam=0.0, intercept=True)
    with pytest.raises(FitError, match="the coefficients of column 2 and the intercept: one of") as caught:
        newton(problem, graph("path", 2))
    assert caught.value.columns == (2, 4)


@pytest.mark.parametrize("tol", [None, 1e-4])
@pytest.mark.parametrize("kind", ["logistic", "poisson"])
def test_separation_names_the_columns_that_separate(kind, tol):
    """In one level of a factor there is no event at all: its coefficient has no finite best value."""
    X, y = table(kind)
    X[:, 2] = np.arange(len(y)) % 10 == 0
    y = np.where(X[:, 2] == 1.0, 0, y)
    problem = dsba.Problem(shards(X, y, [100, 140]), kind, lam=0.0, intercept=True)
    with pytest.raises(FitError, match="separated perfectly by column 2, and") as caught:
        newton(problem, graph("path", 2), max_passes=100, tol=tol)
    assert caught.value.columns == (2,)
    assert newton(dsba.Problem(shards(X, y, [100, 140]), kind, lam=0.01, intercept=True), graph("path", 2), tol=1e-10
                  ).status == "converged"  # fmt: skip


@pytest.mark.parametrize("kind", ["logistic", "softmax"])
@pytest.mark.parametrize("seed", range(4))
def test_a_threshold_among_many_rows_is_separation(kind, seed):
    """Rows on both sides come so near to it that coefficients are in the thousands before the gradient is small."""
    rng = np.random.default_rng(seed)
    X = np.exp(rng.normal(size=(2000, 2)))
    y = (X[:, 0] < 1.0).astype(int)
    plain = shards(X, y, [1000, 1000])
    for parts in (plain, [(*part, rng.uniform(0.1, 2.0, 1000)) for part in plain]):
        problem = dsba.Problem(parts, kind, lam=0.0, intercept=True)
        with pytest.raises(FitError, match="separated perfectly by column 0"):
            newton(problem, graph("path", 2), max_passes=100)


def test_values_that_are_too_large_are_named():
    X, y = table("ridge")
    X[5, 3] = 1e200
    problem = dsba.Problem(shards(X, y, [100, 140]), "ridge", lam=0.0, intercept=True)
    with pytest.raises(FitError, match="too large values in column 3; rescale") as caught:
        newton(problem, graph("path", 2))
    assert caught.value.columns == (3,)


def test_a_rare_level_is_not_separation():
    """One event among 20,000 rows of a level: ten Newton steps of length 1, and a finite coefficient."""
    rows = 40_000
    level = np.arange(rows) % 2
    y = np.where(level == 1, 0, np.arange(rows) % 3 == 0)
    y[1] = 1
    problem = dsba.Problem(
        shards(level[:, None].astype(float), y, [15_000, 25_000]), "logistic", lam=0.0, intercept=True
    )
    result = newton(problem, graph("path", 2), tol=1e-13)
    rate = y[level == 0].mean()
    wanted = [np.log(1 / 19_999) - np.log(rate / (1 - rate)), np.log(rate / (1 - rate))]
    np.testing.assert_allclose(result.z, wanted, rtol=1e-10)


def test_an_operator_without_a_loss_is_refused():
    class Sloped(dsba.operators.ScalarOperator):
        lipschitz = 2.0

        def map(self, u, y):
            return u - y if u > y else 2.0 * (u - y)

        def slope(self, u, y):
            return 1.0 if u > y else 2.0

    X, y = table("ridge")
    with pytest.raises(dsba.InputError, match=r"newton does not apply.*it shortens steps by the objective, and Sloped"):
        newton(dsba.Problem(shards(X, y, [240]), Sloped()), graph("path", 1))


class Listening(dsba.Simulator):
    """Keeps the kind and the width of every sum."""

    kind = ""

    def about(self, kind, point):
        self.kind = kind

    def sum(self, rows):
        self.sums.append((self.kind, rows.shape[1]))
        self.kind = ""
        return super().sum(rows)


def test_a_shortened_step_sums_a_matrix_only_where_it_is_taken():
    """From a bad start steps are halved many times: a matrix after a full step, and where one was taken."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X @ [1, 2, -1] + rng.normal(size=60) > 0, 1, -1)
    problem = dsba.Problem.from_arrays(X, y, "logistic", n_nodes=4, lam=1e-6, split=np.arange(60) % 4)
    net = Listening(graph("ring", 4))
    net.sums = []
    result = dsba.solve(problem, net.topology, "newton", network=net, tol=1e-12, z0=np.full(3, -6.0))
    steps, tried = int(result.history.last()["iteration"]), int(result.history.last()["passes"])
    matrices = net.sums.count(("information", 10))
    assert tried > 2 * steps  # many lengths were too long
    assert matrices <= 2 * steps  # the full step, and the one that was taken
    np.testing.assert_allclose(result.Z[0], newton(problem, net.topology, tol=1e-12).z, rtol=1e-9)
