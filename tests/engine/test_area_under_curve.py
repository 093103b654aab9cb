"""The area under the ROC curve of a record, beside scikit-learn's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dsba.engine.recorder import area_under_curve


@pytest.mark.parametrize("levels", [2, 7, 10**6])  # few levels: most scores are equal
def test_ours_is_theirs(levels):
    rng = np.random.default_rng(levels)
    for size in (2, 3, 50, 1000):
        y = np.where(np.arange(size) % 3 == 0, 1.0, -1.0)
        scores = rng.integers(levels, size=size) / 3 + 0.1 * y
        assert area_under_curve(y, scores) == pytest.approx(roc_auc_score(y, scores), abs=1e-14)


def test_without_two_classes_or_finite_scores_it_is_not_a_number():
    assert math.isnan(area_under_curve(np.ones(3), np.arange(3.0)))
    assert math.isnan(area_under_curve(np.array([-1.0, 1.0]), np.array([0.0, np.inf])))
