"""Named step sizes are the formulas, worked out from the matrices of the components, and an own one is respected."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import make_data, make_problem
from test_engine import RING, same_run
from test_lazy_columns import LAM, UNEQUAL, normalised

import dsba
from dsba.algorithms.step_rules import planned_convexity


def component_bound(operator, X, y):
    """The largest c_n ||B_i||, from the matrices of the components themselves."""
    sizes = np.bincount(UNEQUAL)
    weight = (4 * sizes / 60)[UNEQUAL]
    if operator != "auc":
        return np.max(weight * np.sum(X**2, axis=1)) * (0.25 if operator == "logistic" else 1.0)
    p, d = np.mean(y > 0), X.shape[1]
    bound = 0.0
    for x, label, c in zip(X, y, weight, strict=True):
        a, b, theta = np.eye(d + 3)[d:]
        e, sign = (np.r_[x, 0, 0, 0] - a, 1) if label > 0 else (np.r_[x, 0, 0, 0] - b, -1)
        share = 2 * (1 - p) if label > 0 else 2 * p
        M = share * (np.outer(e, e) - sign * np.outer(e, theta) + sign * np.outer(theta, e))
        M += 2 * p * (1 - p) * (np.outer(theta, theta) + np.outer(b - a, theta) - np.outer(theta, b - a))
        bound = max(bound, c * np.linalg.norm(M, 2))
    return bound


@pytest.mark.parametrize("operator", ["ridge", "logistic", "auc"])
def test_step_size_rules(operator):
    X, y = make_data(operator)
    problem = dsba.Problem.from_arrays(X, y, operator, lam=LAM, split=UNEQUAL)
    L = component_bound(operator, normalised(X), y)
    rules = ("auto", "proved", "paper") if operator != "auc" else ("auto", "paper")  # nothing is proved for AUC
    steps = {rule: dsba.solve(problem, RING, step_size=rule, max_passes=0).step_size for rule in rules}
    assert steps.get("proved", 1 / L) == pytest.approx(1 / L, rel=1e-12)
    assert steps["paper"] == pytest.approx(1 / (24 * L), rel=1e-12)
    assert steps["auto"] == dsba.solve(problem, RING, max_passes=0).step_size
    assert 0 < steps["auto"] < np.inf
    assert dsba.solve(problem, RING, "dsa", "paper", max_passes=0).step_size == pytest.approx(1 / (24 * L), rel=1e-12)


@pytest.mark.parametrize("operator", ["ridge", "logistic"])
def test_the_automatic_step_balances_two_rates(operator):
    """min(1/sqrt(q L mu), 2 sqrt(gamma / (mu L_node))), equal nodes of 15 rows of norm 1 in R^12.

    mu is lambda, at least 1/(10 Q) and a tenth of s m sqrt(m/M): eigenvalues of the nodes' curvature have mean m and,
    in the mean over nodes, the largest M; s is the share of the steepest slope at a score of 2.
    """
    steepest, q = {"ridge": 1.0, "logistic": 0.25}[operator], 15
    share = 1.0 if operator == "ridge" else 4 / (2 + math.exp(2) + math.exp(-2))
    gamma = np.linalg.eigvalsh(np.eye(4) - RING.W)[1] / 2
    for lam in (LAM, 1e-3, 1e-9):
        problem = make_problem(operator, lam=lam)
        nodes = [problem.A[q * n : q * n + q].toarray() for n in range(4)]
        largest = [steepest * np.linalg.norm(A, 2) ** 2 / q for A in nodes]
        mean = steepest / 12
        mu = max(lam, 1 / 600, share * mean * math.sqrt(mean / np.mean(largest)) / 10)
        wanted = min(1 / math.sqrt(q * steepest * mu), 2 * math.sqrt(gamma / (mu * max(largest))))
        assert dsba.solve(problem, RING, max_passes=0).step_size == pytest.approx(wanted, rel=0.03)


@pytest.mark.parametrize(
    ("operator", "columns", "beyond"), [("ridge", 900, 1.5), ("ridge", 40, 1.0), ("logistic", 900, 1.0)]
)
def test_batches_of_squared_losses_on_wide_data_go_beyond_the_graphs_cap(operator, columns, beyond):
    """sqrt(noise x cap), between the cap and 1.5 times the cap; noise is 1/sqrt(q' (L/b) mu), nodes have 75 rows.

    With slopes that change, batches also stay within 1.5/sqrt(q' (L_node + L/b) mu).
    """
    X, y = dsba.data.make_text_like(n_rows=300, n_columns=columns, row_length=15, seed=3)
    problem, steepest = dsba.Problem.from_arrays(X, y, operator, n_nodes=4), {"ridge": 1.0, "logistic": 0.25}[operator]
    gamma = np.linalg.eigvalsh(np.eye(4) - RING.W)[1] / 2
    smooth = steepest * max(np.linalg.norm(problem.A[75 * n : 75 * n + 75].toarray(), 2) ** 2 / 75 for n in range(4))
    mu = planned_convexity(problem)
    cap, seen = 2 * math.sqrt(gamma / (mu * smooth)), []
    for b in (1, 3, 5, 25, 75):
        noise = math.sqrt(b / 75 * b / (steepest * mu))
        wanted = min(noise, max(cap, min((beyond if b > 1 else 1.0) * cap, math.sqrt(noise * cap))))
        if operator == "logistic" and b > 1:
            wanted = min(wanted, 1.5 / math.sqrt(75 / b * mu * (smooth + steepest / b)))
        assert dsba.DSBA(batch_size=b).resolved(problem, RING).alpha == pytest.approx(wanted, rel=0.05)
        seen.append(wanted / min(noise, cap))
    assert max(seen) == pytest.approx(beyond)


@pytest.mark.parametrize("operator", ["ridge", "logistic"])
def test_dsas_automatic_step_is_limited_by_overlap_and_by_its_table(operator):
    """min(1/(s L/3 + 3 s L_node + lambda), 4/(mu q)), equal nodes of 15 rows of norm 1 in R^12.

    L_node is a norm that power iterations found, and 5 %. The ring's W~ has no small eigenvalue.
    """
    steepest, q = {"ridge": 1.0, "logistic": 0.25}[operator], 15
    share = 1.0 if operator == "ridge" else 4 / (2 + math.exp(2) + math.exp(-2))
    for lam, table in ((1e-3, math.inf), (1.0, 4 / q)):
        problem = make_problem(operator, lam=lam)
        node = max(steepest * np.linalg.norm(problem.A[q * n : q * n + q].toarray(), 2) ** 2 / q for n in range(4))
        wanted = min(1 / (share * (steepest / 3 + 3 * 1.05 * node) + lam), table)
        assert dsba.DSA().resolved(problem, RING).alpha == pytest.approx(wanted, rel=0.01)


def test_an_objects_own_step_size_is_respected(ridge):
    assert dsba.solve(ridge, RING, dsba.DSBA(step_size=0.123), max_passes=1).step_size == 0.123
    assert dsba.solve(ridge, RING, dsba.DSBA(step_size=0.123), 0.5, max_passes=1).step_size == 0.5
    assert dsba.solve(ridge, RING, dsba.DSBA(step_size="paper"), max_passes=0).step_size == pytest.approx(1 / 24)
    same_run(
        dsba.solve(ridge, RING, dsba.DSA(0.2, table="full", form="step"), max_passes=3),
        dsba.solve(ridge, RING, "dsa", 0.2, max_passes=3, table="full", form="step"),
    )


def test_the_algorithm_object_is_not_changed(ridge):
    algorithm = dsba.DSBA()
    result = dsba.solve(ridge, RING, algorithm, max_passes=1)
    assert algorithm == dsba.DSBA()
    assert algorithm.step_size == "auto"
    assert result.algorithm.step_size == result.step_size


@pytest.mark.parametrize(("graph", "n_nodes"), [("path", 6), ("complete", 6), ("star", 9), ("ring", 8)])
def test_the_smallest_tau_leaves_dsa_a_step(graph, n_nodes):
    """With tau at half of the largest eigenvalue W has the eigenvalue -1, and W~ has 0."""
    make = getattr(dsba.Topology, graph)
    tau = np.linalg.eigvalsh(make(n_nodes).graph.laplacian)[-1] / 2
    topology = make(n_nodes, tau=tau)
    problem = make_problem("logistic", n_nodes, lam=0.1)
    result = dsba.solve(problem, topology, "dsa", max_passes=300, reference=True)
    assert result.history["gap"][-1] < 1e-8
    with pytest.raises(dsba.InputError, match="dgd has no stable step where W has the eigenvalue -1"):
        dsba.solve(problem, topology, "dgd", max_passes=3)
