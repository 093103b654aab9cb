"""The sums over the samples of nodes, as dense rows of narrow data and as the entries that samples touch."""

import numpy as np
import pytest
from conftest import OPERATORS

import dsba
from dsba.network.exact_sum import SparseRows


@pytest.mark.parametrize("operator", OPERATORS)
def test_dense_and_sparse_sums_have_the_same_bits(operator):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 7)) * (rng.random((40, 7)) < 0.6)
    y = rng.integers(0, 3, 40) if operator == "softmax" else np.where(X[:, 0] + rng.standard_normal(40) > 0, 1, 0)
    problem = dsba.Problem.from_arrays(X, y, operator, 3, 0.1)
    z = rng.standard_normal(problem.dim)
    images = np.empty((2, problem.y.size, problem.k))
    dense, entries = problem.pooled._dense_rows(z, images[0]), problem.pooled._sparse_rows(z, images[1])
    assert isinstance(entries, SparseRows)
    np.testing.assert_array_equal(images[0], images[1])
    np.testing.assert_array_equal(problem.group.sum(dense), problem.group.sum(entries))
    assert dense.any()
