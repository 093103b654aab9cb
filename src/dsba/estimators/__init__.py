"""scikit-learn estimators: a model of all nodes' data with the habits of scikit-learn."""

from dsba.errors import require_package

try:
    from dsba.estimators.elastic_net import DecentralizedElasticNet, DecentralizedElasticNetCV
    from dsba.estimators.linear import (
        Decentralized,
        DecentralizedAUCClassifier,
        DecentralizedClassifier,
        DecentralizedHuber,
        DecentralizedLogisticRegression,
        DecentralizedPoisson,
        DecentralizedRegressor,
        DecentralizedRidge,
        DecentralizedSVM,
    )
except ImportError:
    require_package("an estimator", "sklearn", "estimators")
    raise

__all__ = [
    "Decentralized",
    "DecentralizedAUCClassifier",
    "DecentralizedClassifier",
    "DecentralizedElasticNet",
    "DecentralizedElasticNetCV",
    "DecentralizedHuber",
    "DecentralizedLogisticRegression",
    "DecentralizedPoisson",
    "DecentralizedRegressor",
    "DecentralizedRidge",
    "DecentralizedSVM",
]
