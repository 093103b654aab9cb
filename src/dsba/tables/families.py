"""The distributions of tables' models. A new one is a line in ``FAMILIES`` and an operator that names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, log_expit, xlogy

from dsba.errors import InputError
from dsba.operators import link_of
from dsba.tables.design import Design
from dsba.types import Array


class Family(NamedTuple):
    """A distribution with its canonical link. Functions give one number per row."""

    link: str
    variance: Callable[[Array], Array]
    """Of the mean."""
    deviance: Callable[[Array, Array], Array]
    """Of outcomes and scores."""
    saturated: Callable[[Array], Array]
    """The log-likelihood of outcomes that are predicted perfectly."""
    dispersed: bool = False
    """Whether a variance is estimated as well."""
    one_outcome: str = ""
    """The refusal of outcomes whose mean has no variance."""
    steepest: float | None = None
    """The largest variance of any mean."""

    def mean(self, design: Design, coefficients: Array) -> Array:
        """The mean outcome of every row."""
        return link_of(self.link).mean((design.X @ coefficients + design.offset)[:, None])


FAMILIES = {
    "gaussian": Family(
        "identity", np.ones_like, lambda y, u: (y - u) ** 2, np.zeros_like, dispersed=True, steepest=1.0
    ),
    "binomial": Family(
        "logit", lambda m: m * (1.0 - m), lambda y, u: -2.0 * log_expit(np.where(y > 0, u, -u)), np.zeros_like,
        one_outcome="all rows that have a weight are of one class of {outcome!r}: a logistic model needs both.",
        steepest=0.25,
    ),
    "poisson": Family(
        "log", lambda m: m, lambda y, u: 2.0 * (xlogy(y, y) - y * u - y + np.exp(u)),
        lambda y: xlogy(y, y) - y - gammaln(y + 1.0),
        one_outcome="all counts of {outcome!r} are 0: a Poisson model needs at least one event.",
    ),
}  # fmt: skip


def null_parts(design: Design, family: str) -> tuple[Array, Array]:
    """For each row a numerator and a denominator. The quotient of their sums is the mean of the intercept's model.

    With an offset it is the mean of what remains after the offset: a difference, or a quotient of rates.
    """
    if FAMILIES[family].dispersed:
        return design.weight * (design.y - design.offset), design.weight
    return design.weight * design.y, design.weight * np.exp(design.offset)


def require_events(family: str, mean: float, outcome: str) -> None:
    """An error if the model of ``outcome`` with only an intercept, of this mean, has no finite coefficient."""
    if FAMILIES[family].one_outcome and not FAMILIES[family].variance(np.array(mean)) > 0.0:
        raise InputError(FAMILIES[family].one_outcome.format(outcome=outcome))
