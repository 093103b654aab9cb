"""What ends a run: tolerances that are met, and budgets that are spent."""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from dsba.errors import InputError, as_number

SPENDABLE = {"passes": "max_passes", "seconds": "max_seconds", "doubles_max": "max_doubles", "rounds": "max_rounds"}
"""Columns of the history that have a budget, and its name in ``Limits``."""


@dataclass(frozen=True)
class Limits:
    """When to stop: tolerances first, budgets second; None is no limit."""

    tol: float | None = None
    gap_tol: float | None = None
    max_passes: float | None = None
    max_seconds: float | None = None
    max_doubles: float | None = None
    max_rounds: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None:
                as_number(name, value, at_least=0.0)
        if not self.budgets:
            raise InputError("a run needs a budget: give max_passes, max_seconds, max_doubles or max_rounds.")

    def tolerance_met(self, record: dict[str, float], agree: Callable[[float], bool]) -> str | None:
        """The tolerance that is met, as a sentence. For that of the residual the nodes must also ``agree``."""
        for name, limit in (("residual", self.tol), ("gap", self.gap_tol)):
            if limit is not None and record[name] <= limit and (name == "gap" or agree(limit)):
                return f"the relative {name} is {record[name]:.3g}, {limit:.3g} was wanted"
        return None

    @property
    def accuracy(self) -> float | None:
        """The relative residual that is asked for; a gap is about the square of ten times its residual."""
        return self.tol if self.tol is not None or self.gap_tol is None else 0.1 * math.sqrt(self.gap_tol)

    @property
    def budgets(self) -> dict[str, float]:
        """What may be spent, by column of the history."""
        return {column: getattr(self, name) for column, name in SPENDABLE.items() if getattr(self, name) is not None}

    def tolerance_missed(self, record: dict[str, float]) -> str:
        """How far the residual is from its tolerance, as a sentence."""
        sentence = f"the relative residual is {record['residual']:.3g}"
        if self.tol is None:
            return sentence
        if record["residual"] <= self.tol:
            return f"{sentence}, but the nodes still differ by {record['consensus']:.3g} of their mean's norm"
        return f"{sentence}, {self.tol:.3g} was wanted"

    def budget_spent(self, record: dict[str, float]) -> str | None:
        for name, limit in self.budgets.items():
            if record[name] >= limit:
                return f"the budget of {limit:g} {'DOUBLEs' if name == 'doubles_max' else name} is spent"
        return None


class Budget(NamedTuple):
    """What may be spent of one kind, how much is spent now, and how much an iteration takes at most."""

    limit: float
    spent: Callable[[], float]
    most: float

    @property
    def room(self) -> int:
        """Iterations that may be made before the budget is looked at again; 0 if it is spent.

        So a run ends with the first iteration that reaches the budget. A forecast of that iteration would depend on
        where the run was stopped before.
        """
        left = self.limit - self.spent()
        if left <= 0.0:
            return 0
        if self.most == 0.0 or math.isinf(left):
            return sys.maxsize
        return max(1, int(min(left / self.most, sys.maxsize)))
