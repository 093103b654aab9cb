"""Elastic nets and their cross-validation against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from queues import together
from sklearn import datasets
from sklearn.linear_model import ElasticNet, ElasticNetCV, LassoCV

import dsba
from dsba import DecentralizedElasticNet, DecentralizedElasticNetCV

X, Y = datasets.load_diabetes(return_X_y=True)
X = X / X.std(axis=0)
NODES = np.arange(len(Y)) * 5 // len(Y)
TIGHT = {"tol": 1e-14, "max_iter": 1_000_000}


def folds_of(nodes, cv):
    """Row i of a node is in fold i mod cv."""
    place = np.array([(nodes[:n] == nodes[n]).sum() for n in range(len(nodes))]) % cv
    return [(np.flatnonzero(place != fold), np.flatnonzero(place == fold)) for fold in range(cv)]


@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"l1_ratio": 1.0}, {"alpha": 0.01}])
def test_the_elastic_net_of_scikit_learn(options):
    theirs = ElasticNet(**options, **TIGHT).fit(X, Y)
    ours = DecentralizedElasticNet(n_nodes=5, tol=1e-9, max_passes=5000, **options).fit(X, Y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("ratio", [0.5, [0.1, 0.5, 0.9]])
def test_the_path_and_the_errors_of_scikit_learn(ratio, intercept):
    theirs = ElasticNetCV(l1_ratio=ratio, cv=folds_of(NODES, 4), fit_intercept=intercept, **TIGHT).fit(X, Y)
    ours = DecentralizedElasticNetCV(l1_ratio=ratio, cv=4, fit_intercept=intercept).fit(X, Y, nodes=NODES)
    at = np.flatnonzero(np.atleast_1d(ratio) == ours.l1_ratio_)[0]
    np.testing.assert_allclose(ours.alphas_, np.atleast_2d(theirs.alphas_)[at], rtol=1e-10)
    folds = len(theirs.mse_path_.reshape(-1, 4)) // np.atleast_1d(ratio).size
    np.testing.assert_allclose(ours.mse_path_, theirs.mse_path_.reshape(-1, folds, 4)[at], rtol=1e-7)
    assert ours.l1_ratio_ == theirs.l1_ratio_
    assert ours.alpha_ == ours.alpha_min_ == pytest.approx(theirs.alpha_, rel=1e-10)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-5)


def test_weights_and_given_folds():
    weight, splits = 1.0 + np.arange(len(Y)) % 3, folds_of(np.zeros(len(Y)), 3)
    theirs = LassoCV(cv=splits, **TIGHT).fit(X, Y, sample_weight=weight)
    ours = DecentralizedElasticNetCV(l1_ratio=1.0, cv=splits).fit(X, Y, sample_weight=weight)
    np.testing.assert_allclose(ours.mse_path_, theirs.mse_path_, rtol=1e-7)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)


@pytest.mark.parametrize("chosen", ["masks", "from the end", "some twice"])
def test_folds_are_given_as_to_scikit_learn(chosen):
    """A mask chose the rows 0 and 1."""
    splits = folds_of(np.zeros(len(Y)), 3)
    if chosen == "masks":
        splits = [tuple(np.isin(np.arange(len(Y)), part) for part in pair) for pair in splits]
    elif chosen == "from the end":
        splits = [(fit - len(Y), test - len(Y)) for fit, test in splits]
    else:
        splits = [(np.append(fit, fit[:50]), np.append(test, test[:20])) for fit, test in splits]
    alphas = [1.0, 0.1]
    theirs = ElasticNetCV(cv=splits, alphas=alphas, **TIGHT).fit(X, Y)
    ours = DecentralizedElasticNetCV(cv=splits, alphas=alphas).fit(X, Y)
    np.testing.assert_allclose(ours.mse_path_, theirs.mse_path_, rtol=1e-7)


def test_the_rule_of_one_standard_error():
    low = DecentralizedElasticNetCV(cv=4).fit(X, Y, nodes=NODES)
    near = DecentralizedElasticNetCV(cv=4, rule="1se").fit(X, Y, nodes=NODES)
    assert near.alpha_ == near.alpha_1se_ == low.alpha_1se_ > low.alpha_min_
    mean, error = near.mse_path_.mean(axis=1), near.mse_path_.std(axis=1, ddof=1) / 2.0
    best = mean.argmin()
    assert near.alpha_ == near.alphas_[mean <= mean[best] + error[best]].max()
    np.testing.assert_allclose(near.coef_path_[:, near.alphas_ == near.alpha_][:, 0], near.coef_, atol=1e-9)


def test_three_processes_have_the_bits_of_one():
    ring = dsba.Topology.ring(5)
    alone = DecentralizedElasticNetCV(cv=4, graph=ring, alphas=20).fit(X, Y, nodes=NODES)

    def work(net):
        own = np.isin(NODES, list(net.nodes))
        return DecentralizedElasticNetCV(cv=4, network=net, alphas=20).fit(X[own], Y[own], nodes=NODES[own])

    for one in together(ring, 3, work):
        assert one.alpha_ == alone.alpha_
        assert (one.coef_path_ == alone.coef_path_).all()
        assert (one.mse_path_ == alone.mse_path_).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rule": "best"}, "rule"),
        ({"l1_ratio": 0.0}, "l1_ratio above 0"),
        ({"l1_ratio": 1.5}, "between 0 and 1"),
        ({"cv": 1}, "cv must be"),
        ({"alphas": [-1.0]}, "alphas must be"),
        ({"cv": [(np.arange(9), np.arange(0))]}, "fewer folds"),
        ({"cv": []}, "cv must be a number of folds, or pairs"),
        ({"cv": "5"}, "cv must be a number of folds, or pairs"),
        ({"cv": [(np.arange(9), [9999])]}, "cv must be a number of folds, or pairs"),
        ({"alphas": 0.1}, "alphas must be a list"),
        ({"alphas": None}, "alphas must be a list"),
        ({"alphas": []}, "alphas must be a list"),
        ({"l1_ratio": []}, "l1_ratio must be a list"),
        ({"eps": np.inf}, "eps must be between 0 and 1"),
    ],
)
def test_what_does_not_fit_is_refused(options, sentence):
    with pytest.raises(dsba.InputError, match=sentence):
        DecentralizedElasticNetCV(**options).fit(X, Y)
