"""Disclosure guards: the numbers that a site asks for before its rows enter a model with others'.

Every site checks with its own numbers, and nobody else can loosen them. A guard is a function that gives a sentence, or
None if there is nothing to say. Between processes the sentence ends the fit; in one process it is only a notice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from dsba.errors import InputError, as_integer, as_number, unknown_name
from dsba.types import Array

SHARES = ("dominance", "leverage")
EFFECTIVE = 0.05  # of a site's rows: fewer must not make up its part of a sum
DERIVED = 2.0 / 3.0  # the limit of dominance for derived columns, relative to that of columns of the table


@dataclass(frozen=True)
class Guards:
    """The numbers of one site."""

    sites: int = 3
    """With two sites each can compute what the other's sum was: nothing is hidden."""
    rows: int = 10
    """The fewest rows at the site."""
    rows_per_parameter: int = 10
    """The fewest pooled rows for each coefficient."""
    rows_per_level: int = 3
    """The fewest pooled rows of a factor's level or a class, and the fewest that differ from the rest of a column."""
    dominance: float = 0.5
    """The largest share of a column's spread that one row may have; two thirds of it for functions and products."""
    leverage: float = 0.49
    """The largest leverage of a row. A direction that c rows carry gives each of them a leverage of 1/c."""

    def __post_init__(self) -> None:
        """Another site says its own: nothing that is no limit, such as NaN, may be the strictest of all."""
        for one in fields(self):
            number = getattr(self, one.name)
            if one.name not in SHARES:
                number = as_integer(one.name, number, at_least=0)
            elif not 0.0 < as_number(one.name, number) <= 1.0:
                raise InputError(f"{one.name} must be above 0 and at most 1, got {number!r}.")
            object.__setattr__(self, one.name, float(number) if one.name in SHARES else number)

    @classmethod
    def off(cls) -> Guards:
        """No guard at all: what a site may choose for itself, and what everybody is told that it chose."""
        return cls(0, 0, 0, 0, 1.0, 1.0)

    @classmethod
    def given(cls, numbers: Mapping[str, Any]) -> Guards:
        """The guards with some numbers given by name."""
        known = [one.name for one in fields(cls)]
        if strangers := [name for name in numbers if name not in known]:
            raise unknown_name("guard", strangers[0], known)
        return cls(**numbers)

    @classmethod
    def strictest(cls, several: Sequence[Guards]) -> Guards:
        """The guards that hold where each of these must hold."""
        chosen = {one.name: min if one.name in SHARES else max for one in fields(cls)}
        return cls(**{name: choose(getattr(one, name) for one in several) for name, choose in chosen.items()})

    @property
    def loosened(self) -> str | None:
        """The guards that the site has loosened, as a part of a sentence."""
        if self == Guards.off():
            return "has switched its guards off"
        return "allows two sites" if self.sites < Guards().sites else None

    def too_few_sites(self, sites: int) -> str | None:
        if sites >= self.sites:
            return None
        return (
            f"{sites} sites take part, and at least {self.sites} are wanted: with two, each site can compute the "
            "other's sums, so nothing is hidden (allow it at both, with sites = 2 among the guards of each site or "
            "among the guards of a study)."
        )

    def too_few_rows(self, site: str, rows: int) -> str | None:
        """How many rows the site has is not said."""
        if rows >= self.rows:
            return None
        return f"{site} has fewer usable rows than the {self.rows} that are wanted at a site."

    def too_many_parameters(self, parameters: int, rows: int) -> str | None:
        if rows >= self.rows_per_parameter * parameters:
            return None
        return (
            f"the model has {parameters} coefficients for {rows} pooled rows, and at least {self.rows_per_parameter} "
            "rows are wanted for each."
        )

    def rare_level(self, column: str, levels: int) -> str | None:
        """``levels`` is the number of rare levels; which ones they are is not said."""
        if not levels:
            return None
        return (
            f"{levels} level(s) of {column!r} have fewer than {self.rows_per_level} pooled rows: merge them "
            "(rare_levels = merge), or leave the column out."
        )

    def rare_values(self, what: str, rows: int) -> str | None:
        """``rows`` is the number of pooled rows with another value than the rest of a column. It is not said."""
        if not 0 < rows < self.rows_per_level:
            return None
        return (
            f"{what} has the same value in all but fewer than {self.rows_per_level} pooled rows, and a model would "
            "show these rows."
        )

    def few_known(self, column: str) -> str:
        return (
            f"fewer than {self.rows_per_level} pooled rows have a value of {column!r}, and its mean would show them: "
            "leave the column out."
        )

    def nearly_constant(self, column: str) -> str:
        return (
            f"fewer than {self.rows_per_level} pooled rows have nearly all of the spread of the column {column}, and a "
            "model would show these rows: take the logarithm, write cap() around the column, or leave it out."
        )

    def few_elsewhere(self, sites: Sequence[str], columns: Sequence[str], own: Array, total: Array) -> list[str]:
        """What sites say that could single out few rows of the others, which are those of ``total`` less their own.

        ``total`` has a count for each column; a pooled count that is too small by itself is no matter of this.
        """
        rare = (total >= self.rows_per_level) & (total > own) & (total - own < self.rows_per_level)
        found = {(site, column): None for site, one in zip(sites, rare, strict=True)
                 for column, few in zip(columns, one, strict=True) if few}  # fmt: skip
        return [
            f"{site} could single out fewer than {self.rows_per_level} rows of the other sites by the column {column}: "
            "merge it with another, or leave it out."
            for site, column in found
        ]

    def dominated(self, site: str, columns: Sequence[str]) -> str:
        which = f"the column {columns[0]}" if len(columns) == 1 else f"each of the columns {' and '.join(columns)}"
        return (
            f"one row of {site} makes up most of the spread of {which}, and a model would show this row: "
            "take the logarithm, write cap() around the column, or leave it out."
        )

    def few_weighted(self, site: str) -> str:
        return (
            f"fewer than {self.rows_per_level} rows of {site}, or very few of them, carry most of its weights, and "
            "weighted sums would show these rows: cut off large weights, or leave the weights out."
        )

    def few_left_out(self, rows: int) -> str | None:
        """``rows`` are in a table or curve and not in the model, or the other way round. How many is not said."""
        if not 0 < rows < self.rows_per_level:
            return None
        return (
            f"fewer than {self.rows_per_level} rows, at all sites or at all but one, are in the description or the "
            "curves and not in the model, or the other way round, and the difference would show them: leave these rows "
            "out of the tables, or hold out more."
        )

    def few_evaluated(self) -> str:
        return (
            f"fewer than {self.rows_per_level} rows, or rows of one class, are evaluated in all, or at all sites but "
            "one, and the measures would show these rows: evaluate more rows."
        )

    def few_predicted(self, site: str) -> str:
        return (
            f"fewer than {self.rows_per_level} rows of {site}, or very few of them, make up most of its predictions, "
            "and the measures would show these rows: evaluate more rows, or another model."
        )

    def dominated_loss(self, site: str) -> str:
        return (
            f"one row of {site} makes up most of the loss, and the measures would show this row: leave out the row, or "
            "take the logarithm of the outcome."
        )

    def singled_out(self, site: str, columns: Sequence[str]) -> str | None:
        return (
            f"the columns {' and '.join(columns)} together single out a row of {site}, and a model would show this "
            "row: take logarithms, write cap() around columns with extreme values, or leave one out."
        )

    def steered(self, site: str) -> str:
        return (
            f"at the next step fewer than {self.rows_per_level} rows of {site}, or very few of them, would make up its "
            "part of the sums, and the sums would show these rows: leave out what separates the outcomes."
        )

    def impossible(self, site: str) -> str:
        return (
            f"{site} finds that the last total cannot be a sum over rows: a member sent wrong numbers, and the next "
            "total could show single rows."
        )


def is_steered(weight: Array, few: int) -> bool:
    """Whether few rows make up a site's part of a step: by their weights (sum v)^2/sum v^2 rows, or one of a few.

    Where all weights vanish, or one has no bound, the point is so far away that other sums show which rows lie where.
    """
    if not few or not len(weight):
        return False
    largest = float(weight.max())
    if not 0.0 < largest < math.inf:
        return True
    share = weight / largest
    return bool(share.sum() ** 2 < max(few, EFFECTIVE * len(share)) * (share**2).sum() or share.sum() < few)
