"""scikit-learn estimators: a model of all nodes' data with the habits of scikit-learn."""

from dsba.estimators.base import Decentralized
from dsba.estimators.classification import (
    DecentralizedAUCClassifier,
    DecentralizedClassifier,
    DecentralizedLogisticRegression,
    DecentralizedSVM,
)
from dsba.estimators.regression import (
    DecentralizedHuber,
    DecentralizedPoisson,
    DecentralizedRegressor,
    DecentralizedRidge,
)

__all__ = [
    "Decentralized",
    "DecentralizedAUCClassifier",
    "DecentralizedClassifier",
    "DecentralizedHuber",
    "DecentralizedLogisticRegression",
    "DecentralizedPoisson",
    "DecentralizedRegressor",
    "DecentralizedRidge",
    "DecentralizedSVM",
]
