"""Models of tables beyond the three that all methods share. Adding one: a file here and a line in ``MODELS``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dsba.fitting.spec import FitSpec
from dsba.tables.models.base import TableModel
from dsba.tables.models.classes import Multinomial, Ordinal
from dsba.tables.models.cox import Cox
from dsba.tables.models.glm import Binomial, Cloglog, Gamma, InverseGaussian, Probit, QuasiBinomial, QuasiPoisson
from dsba.tables.models.negative_binomial import NegativeBinomial

MODELS: dict[str, Callable[[FitSpec, int], TableModel]] = {
    "probit": lambda spec, classes: Probit(),
    "cloglog": lambda spec, classes: Cloglog(),
    "quasi-binomial": lambda spec, classes: QuasiBinomial(),
    "quasi-poisson": lambda spec, classes: QuasiPoisson(),
    "negative-binomial": lambda spec, classes: NegativeBinomial(),
    "gamma": lambda spec, classes: Gamma(),
    "inverse-gaussian": lambda spec, classes: InverseGaussian(),
    "multinomial": lambda spec, classes: Multinomial(classes),
    "ordinal": lambda spec, classes: Ordinal(classes),
    "cox": lambda spec, classes: Cox(spec.ties, str(spec.strata)),
}


def of_spec(spec: FitSpec, classes: Sequence[Any] | None = None, counts: bool = False) -> TableModel | None:
    """The model that a specification names; None if it is one that all methods share.

    A logistic model with an offset, or with ``counts`` of successes, is none of these.
    """
    if spec.operator == "logistic" and (counts or spec.offset or spec.exposure):
        return Binomial()
    made = MODELS.get(spec.operator) if isinstance(spec.operator, str) else None
    return None if made is None else made(spec, len(classes or ()))
