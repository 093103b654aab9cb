"""The automatic step sizes beside the best of a grid of ratio 3: at most twice the passes, on small cases.

`python -m benchmarks.steps` is the same for 24 cases, the real sets among them.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import make_data
from sklearn.datasets import load_digits

import dsba

RANDOM = dsba.Topology.random(5, 0.5, seed=1)


def dense(operator="ridge", lam=None, n_nodes=5, split="random"):
    """400 rows of 8 columns of very different sizes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8)) * np.linspace(1, 0.1, 8) + 0.3 * rng.normal(size=(400, 1))
    score = X @ rng.normal(size=8) + 0.5 * rng.normal(size=400)
    y = score if operator == "ridge" else np.where(score > 0, 1, -1)
    return dsba.Problem.from_arrays(X, y, operator, n_nodes=n_nodes, lam=lam, split=split)


def text(operator):
    X, y = dsba.data.make_text_like(n_rows=400, n_columns=2000, row_length=20)
    return dsba.Problem.from_arrays(X, y, operator, n_nodes=5)


def many_rows():
    """So many rows of eight columns that the data is far more curved than lambda."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 8))
    return dsba.Problem.from_arrays(X, X @ rng.normal(size=8) + 0.5 * rng.normal(size=8000), "ridge", n_nodes=5)


CASES = {
    "many rows": lambda: (many_rows(), RANDOM),
    "lambda 1e-8": lambda: (dense(lam=1e-8), RANDOM),
    "lambda 0": lambda: (dense(lam=0.0), RANDOM),
    "lambda 1e-2": lambda: (dense(lam=1e-2), RANDOM),
    "path of 20": lambda: (dense(n_nodes=20), dsba.Topology.path(20)),
    "sizes 1, 1, 398": lambda: (dense(split=np.repeat([0, 1, 2], [1, 1, 398])), dsba.Topology.path(3)),
    "label split": lambda: (dense("logistic", split="label"), RANDOM),
    "text, ridge": lambda: (text("ridge"), RANDOM),
    "text, logistic": lambda: (text("logistic"), RANDOM),
}


def passes(problem, topology, algorithm, star, most):
    options = {"max_passes": most, "record_every": 0.5, "gap_tol": 1e-6, "reference": star}
    result = dsba.solve(problem, topology, algorithm, **options)
    return result.passes if result.status == "converged" else math.inf


GATE, FULL = list(CASES)[:2], list(CASES)[2:]  # each case is five runs


@pytest.mark.parametrize("method", [dsba.DSBA, dsba.DSA])
@pytest.mark.parametrize("case", [*GATE, *(pytest.param(case, marks=pytest.mark.full) for case in FULL)])
def test_auto_needs_at_most_twice_the_best(case, method):
    problem, topology = CASES[case]()
    star, auto = dsba.optimum(problem).z, method().resolved(problem, topology).alpha
    ours = passes(problem, topology, method(auto), star, 400)
    best = min(passes(problem, topology, method(f * auto), star, ours) for f in (0.1, 0.3, 3.0, 10.0))
    assert ours <= 2 * best


def test_auto_for_batches_of_dense_rows_needs_at_most_one_and_a_half_times_the_best():
    """Rows of digits have much in common; a step for rows that do not overlap took twice the passes of half of it."""
    digits = load_digits()
    problem = dsba.Problem.from_arrays(digits.data, np.where(digits.target > 4, 1, -1), "logistic", n_nodes=5)
    star, auto = dsba.optimum(problem).z, dsba.DSBA(batch_size=16).resolved(problem, RANDOM).alpha
    ours = passes(problem, RANDOM, dsba.DSBA(batch_size=16), star, 150)
    best = min(passes(problem, RANDOM, dsba.DSBA(f * auto, batch_size=16), star, 150) for f in (0.5, 1.0, 2.0))
    assert ours <= 1.5 * best


def test_the_step_does_not_jump_as_lambda_goes_to_zero():
    steps = [dsba.DSBA().resolved(dense(lam=lam), RANDOM).alpha for lam in (0.0, 1e-12, 1e-8)]
    assert steps == pytest.approx([steps[0]] * 3, rel=1e-6)


def test_the_local_smoothness_of_auc_is_its_jacobians():
    X, y = make_data("auc")
    for operator in ("auc", "auc-paper"):
        problem = dsba.Problem.from_arrays(X, y, operator, n_nodes=4)
        zero = problem.local_operator(np.zeros((4, problem.dim)))
        columns = [problem.local_operator(np.tile(unit, (4, 1))) - zero for unit in np.eye(problem.dim)]
        norms = np.linalg.norm(np.stack(columns, axis=2) - np.diag(problem.lam_diag), 2, axis=(1, 2))
        assert (problem.local_smoothness >= 0.99 * norms).all()
        assert (problem.local_smoothness <= 1.06 * norms).all()
