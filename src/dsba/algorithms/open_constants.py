"""The constants of a method that a search may choose: its step size, and what its theory leaves open."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

ConstantKind = Literal["real", "integer", "probability", "choice"]


def filled(value: float | None) -> float:
    """A constant as a number: ``resolved`` has replaced None by the automatic one."""
    assert value is not None
    return value


@dataclass(frozen=True)
class OpenConstant:
    """The declaration of one constant, by the name of its field.

    ``start`` has the values that a search begins with: multiples of the default for "real" and "probability", the
    values themselves for "integer" and "choice". ``bounds`` are multiples of the default for "real"; for "probability"
    and "integer" they are numbers. A "choice" has no bounds beyond its values.
    """

    name: str
    kind: ConstantKind = "real"
    start: tuple[Any, ...] = (1.0,)
    bounds: tuple[float, float] = (0.01, 100.0)

    def searched(self, default: Any) -> SearchRange:
        """The range to search where the method's own value is ``default``."""
        if self.kind == "choice":
            return SearchRange(self.name, self.kind, self.start, -math.inf, math.inf)
        scale = default if self.kind == "real" else 1.0
        whole = SearchRange(self.name, self.kind, (), scale * self.bounds[0], scale * self.bounds[1])
        return whole.beginning(self.start if self.kind == "integer" else [factor * default for factor in self.start])


@dataclass(frozen=True)
class SearchRange:
    """The values of one constant that a search may try: those of ``start``, and others between ``low`` and ``high``."""

    name: str
    kind: ConstantKind
    start: tuple[Any, ...]
    low: float
    high: float

    @classmethod
    def closed(cls, name: str, values: tuple[Any, ...]) -> SearchRange:
        """Nothing but these values: a search does not leave them."""
        return cls(name, "choice", values, -math.inf, math.inf)

    def beginning(self, values: Any) -> SearchRange:
        """The same with these values to begin with, each moved inside the bounds."""
        return replace(self, start=tuple(dict.fromkeys(map(self._inside, values))))

    def moved(self, value: Any, factor: float) -> Any:
        """The value times ``factor``, inside the bounds; a whole number moves by 1 at least. None if it cannot move."""
        if self.kind == "choice":
            return None
        if self.kind == "integer":
            away = max(1, round(value * abs(factor - 1.0))) if factor > 1.0 else min(-1, round(value * (factor - 1.0)))
            other = self._inside(value + away)
        else:
            other = self._inside(value * factor)
        return None if other == value else other

    def is_edge(self, value: Any) -> bool:
        """Whether values beyond this one were not allowed, though they might be better."""
        if self.kind == "probability" and self.high == 1.0:
            return bool(value == self.low)  # there is nothing beyond 1
        if self.kind != "choice":
            return bool(value in (self.low, self.high))
        numbers = [one for one in self.start if isinstance(one, float)]
        return len(numbers) > 1 and value in (min(numbers), max(numbers))

    def _inside(self, value: float) -> Any:
        value = min(max(value, self.low), self.high)
        return round(value) if self.kind == "integer" else float(value)
