"""scikit-learn estimators: a model of all nodes' data with the habits of scikit-learn."""

from dsba._system.docstrings import inherit_parameters
from dsba.errors import require_package

try:
    from dsba.estimators.base import Decentralized
    from dsba.estimators.classification import (
        DecentralizedAUCClassifier,
        DecentralizedClassifier,
        DecentralizedLogisticRegression,
        DecentralizedSVM,
    )
    from dsba.estimators.elastic_net import DecentralizedElasticNet, DecentralizedElasticNetCV
    from dsba.estimators.regression import (
        DecentralizedHuber,
        DecentralizedPoisson,
        DecentralizedRegressor,
        DecentralizedRidge,
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

for _name in __all__[1:]:
    inherit_parameters(globals()[_name])
