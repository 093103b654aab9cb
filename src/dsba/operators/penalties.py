"""Penalties beyond lambda: convex functions of the weights that are known by their proximal map.

A problem with a penalty is composite: its solution minimises (1/Q) sum loss + lam/2 ||w||^2 + penalty(w). Intercepts
and an operator's extra coordinates are never penalised. A penalty of your own is a frozen dataclass with the three
methods of ``Penalty``; its ``repr`` distinguishes it from others.
"""

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dsba.errors import InputError, as_number, unknown_name
from dsba.types import Array

ROUNDING = 1e-12


@dataclass(frozen=True)
class Penalty:
    """A sum over the weights of a convex function of one number.

    Examples
    --------
    >>> import dsba
    >>> isinstance(dsba.penalties.L1(0.1), dsba.penalties.Penalty)
    True
    """

    def value(self, w: Array) -> float:
        """The penalty of the weights.

        Parameters
        ----------
        w : numpy.ndarray
            The weights.

        Returns
        -------
        float
            The penalty; infinite where the weights are not allowed.
        """
        raise NotImplementedError

    def prox(self, V: Array, t: Any) -> Array:
        """For every number v, the w that minimises penalty(w) + (w - v)^2/(2 t).

        Parameters
        ----------
        V : numpy.ndarray
            Numbers v.
        t : object
            The step, a number or an array.

        Returns
        -------
        numpy.ndarray
            The minimisers.
        """
        raise NotImplementedError

    def slope(self, V: Array, t: Any) -> Array:
        """The derivative of ``prox`` by v: 0 where a small change of v changes nothing.

        Parameters
        ----------
        V : numpy.ndarray
            Numbers v.
        t : object
            The step, a number or an array.

        Returns
        -------
        numpy.ndarray
            The derivatives.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class ElasticNet(Penalty):
    """Elastic net: strength (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2).

    Parameters
    ----------
    strength : float
        The weight of the penalty.
    l1_ratio : float
        The share of the l1 norm.

    Raises
    ------
    InputError
        If a number is out of range.

    Examples
    --------
    >>> import dsba, numpy as np
    >>> dsba.penalties.ElasticNet(2.0, l1_ratio=0.5).value(np.array([1.0, -1.0]))
    3.0
    """

    strength: float
    l1_ratio: float = 0.5

    def __post_init__(self) -> None:
        strength = as_number("strength", self.strength, at_least=0.0)
        if not math.isfinite(strength):
            raise InputError(f"strength must be finite, got {strength!r}.")
        if as_number("l1_ratio", self.l1_ratio, at_least=0.0) > 1.0:
            raise InputError(f"l1_ratio must be at most 1, got {self.l1_ratio!r}.")

    @property
    def _parts(self) -> tuple[float, float]:
        """The weights of ||w||_1 and of ||w||^2/2."""
        return self.strength * self.l1_ratio, self.strength * (1.0 - self.l1_ratio)

    def value(self, w: Array) -> float:
        l1, l2 = self._parts
        return float(l1 * np.abs(w).sum() + 0.5 * l2 * (w @ w))

    def prox(self, V: Array, t: Any) -> Array:
        l1, l2 = self._parts
        return np.sign(V) * np.maximum(np.abs(V) - t * l1, 0.0) / (1.0 + t * l2)

    def slope(self, V: Array, t: Any) -> Array:
        l1, l2 = self._parts
        return (np.abs(V) > t * l1) / (1.0 + t * l2)


@dataclass(frozen=True)
class L1(ElasticNet):
    """Lasso: strength ||w||_1.

    Parameters
    ----------
    strength : float
        The weight of the penalty.
    l1_ratio : float
        Always 1.

    Raises
    ------
    InputError
        If the strength is negative or not finite.

    Examples
    --------
    >>> import dsba, numpy as np
    >>> dsba.penalties.L1(0.5).prox(np.array([2.0, 0.2]), 1.0).tolist()
    [1.5, 0.0]
    """

    l1_ratio: float = 1.0


@dataclass(frozen=True)
class Box(Penalty):
    """Every weight between two bounds, which may be infinite; zero, where runs start, must be allowed.

    Parameters
    ----------
    lower : float
        The smallest weight.
    upper : float
        The largest weight.

    Raises
    ------
    InputError
        If zero is not between the bounds.

    Examples
    --------
    >>> import dsba, numpy as np
    >>> dsba.penalties.Box(0.0, 1.0).prox(np.array([-1.0, 0.5, 3.0]), 1.0).tolist()
    [0.0, 0.5, 1.0]
    """

    lower: float = 0.0
    upper: float = math.inf

    def __post_init__(self) -> None:
        lower = self.lower if self.lower == -math.inf else as_number("lower", self.lower)
        upper = as_number("upper", self.upper)
        if not (lower <= 0.0 <= upper and lower < upper):
            raise InputError(f"a box needs lower <= 0 <= upper and lower < upper, got {lower} and {upper}.")

    def value(self, w: Array) -> float:
        slack = ROUNDING * (1.0 + np.abs(w).max(initial=0.0))  # a mean of numbers on the edge is on it but for rounding
        inside = (w >= self.lower - slack).all() and (w <= self.upper + slack).all()
        return 0.0 if inside else math.inf

    def prox(self, V: Array, t: Any) -> Array:
        return np.clip(V, self.lower, self.upper)

    def slope(self, V: Array, t: Any) -> Array:
        return ((self.lower < V) & (self.upper > V)).astype(np.float64)


REGISTRY: dict[str, type[Penalty]] = {"l1": L1, "elastic-net": ElasticNet, "box": Box}


def get(name: str, **options: Any) -> Penalty:
    """A penalty from its name and its numbers.

    Parameters
    ----------
    name : str
        "l1", "elastic-net" or "box".
    **options : object
        The numbers, such as ``strength=0.01``.

    Returns
    -------
    Penalty
        The penalty.

    Raises
    ------
    InputError
        If the name or a number is not known.

    Examples
    --------
    >>> import dsba
    >>> dsba.penalties.get("l1", strength=0.01)
    L1(strength=0.01, l1_ratio=1.0)
    """
    if not isinstance(name, str) or name not in REGISTRY:
        raise unknown_name("penalty", name, REGISTRY)
    known = [f.name for f in fields(REGISTRY[name]) if (name, f.name) != ("l1", "l1_ratio")]
    for option in options:
        if option not in known:
            raise unknown_name(f"number of the penalty {name!r}", option, known)
    if "strength" in known and "strength" not in options:
        raise InputError(f"the penalty {name!r} needs a strength.")
    return REGISTRY[name](**options)


__all__ = ["L1", "REGISTRY", "Box", "ElasticNet", "Penalty", "get"]
