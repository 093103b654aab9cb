"""Checks of the design's columns, in the order in which sums over the sites are made.

    cells      of a column of zeros and ones, no site can single out fewer than k rows of the others
    dominance  (x_ij - m_j)^2 / S_j: no row makes up most of a column's spread
    leverage   h_i = w_i v_i x_i' (X'VX)^-1 x_i: no combination of columns singles out a row

The moments m and S are known when cells and dominance are checked. X'VX at the start depends on no outcome and is
summed alone. V changes at every step, so a site checks its own rows before it sends its part of a step (``StepWatch``).
A complaint names the site and the columns, and no value. docs/privacy.md shows how often ordinary tables are refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dsba.algorithms.newton import DEPENDENT_SENTENCE, solved, symmetric
from dsba.errors import FitError
from dsba.fitting.disclosure import Guards
from dsba.network import Group, summed
from dsba.operators import Operator, link_of
from dsba.tables.columns import INTERCEPT
from dsba.tables.design import Designs
from dsba.tables.families import FAMILIES
from dsba.tables.scaling import ScaledColumns
from dsba.tables.schema import end_together, notify
from dsba.types import Array

ALONE = re.compile(r"(log|sqrt|cap)\([^-+*():]+\)|[^():]+(\[[^:]*\])?|C\([^:]*\)\[[^:]*\]")
"""Columns of the table, levels, and functions of one column that bring its values closer together."""
DERIVED = 2.0 / 3.0  # the limit of dominance for other columns, relative to that of columns of the table
LEVERAGE_ROUNDING = 1e-9  # a limit of 1 refuses nothing
SHOWN_COLUMNS = 2


def strictest(designs: Designs) -> Guards:
    """The limits of all sites together."""
    return Guards.strictest([part.guards for part in designs.schema.parts])


def check_design(
    designs: Designs, columns: ScaledColumns, component: Operator, lam: float, group: Group
) -> tuple[Array, list[str]]:
    """X'VX at the start; and the notices of one process, where a column or a combination of columns shows a row.

    Between processes such a column ends the fit at all of them.
    """
    limits, found = strictest(designs), list[str]()
    sites = [one.site for one in designs.held]
    if columns.scaling.intercept is not None:
        complaints = [_column_complaint(columns, n, site, limits) for n, site in enumerate(sites)]
        found += notify(group, complaints)
    weights = [base_weights(columns, n, component) for n in range(len(sites))]
    parts = [(one.X.T @ (one.X * w[:, None])) for one, w in zip(columns.designs, weights, strict=True)]
    upper = np.triu_indices(len(columns.names))
    total = summed(group, np.array([part[upper] for part in parts]))
    information = symmetric(total, len(columns.names))
    inverse, flat = solved(information, np.eye(len(information)))
    if flat is not None and lam == 0.0:
        raise FitError(DEPENDENT_SENTENCE, np.flatnonzero(flat)).named(columns.names)
    rows = zip(sites, columns.designs, weights, strict=True)
    found += notify(group, [lever(columns.names, s, one.X, w, inverse, limits) for s, one, w in rows])
    return information, found


def base_weights(columns: ScaledColumns, n: int, component: Operator) -> Array:
    """The weights of a site's rows where no outcome is known: those of the model with only an intercept."""
    design = columns.designs[n]
    return design.weight * np.exp(design.offset) if component.link == "log" else design.weight


def _column_complaint(columns: ScaledColumns, n: int, site: str, limits: Guards) -> str | None:
    """A sentence about a column that singles out rows of this site, or, for this site, few rows of the others."""
    X, rows = columns.designs[n].X, columns.size.rows
    for j in columns.others:
        name = columns.names[j]
        limit = limits.dominance * (1.0 if ALONE.fullmatch(name) else DERIVED)
        if (X[:, j] ** 2).max(initial=0.0) > limit * rows:
            return limits.dominated(site, name)
        if _few_elsewhere(X[:, j], columns.scaling.mean[j], columns.scaling.sd[j], rows, limits.rows_per_level):
            return limits.few_elsewhere(site, name)
    return None


def _few_elsewhere(x: Array, mean: float, sd: float, rows: int, few: int) -> bool:
    """Whether the column has zeros and ones at all sites, and the others have one of them in 1 to ``few`` - 1 rows.

    A column has no other numbers if its variance is m (1 - m), and none below 0 or above 1 is here.
    """
    own = x * sd + mean
    if abs(sd * sd - mean * (1.0 - mean)) > 1e-9 or not (np.minimum(abs(own), abs(own - 1.0)) < 1e-6).all():
        return False
    ones, mine = round(rows * mean), int((own > 0.5).sum())
    others = (ones - mine, rows - ones - (len(own) - mine))
    return any(0 < count < few for count in others)


def lever(names: Sequence[str], site: str, X: Array, weight: Array, inverse: Array, limits: Guards) -> str | None:
    """A sentence about a row of this site that a combination of columns singles out; ``inverse`` is (X'VX)^-1."""
    parts = (X @ inverse) * X * weight[:, None]
    leverage = parts.sum(axis=1)
    if leverage.max(initial=0.0) <= limits.leverage + LEVERAGE_ROUNDING:
        return None
    size = [0.0 if name == INTERCEPT else part for name, part in zip(names, abs(parts[leverage.argmax()]), strict=True)]
    most = sorted(np.argsort(size)[-SHOWN_COLUMNS:]) if len(names) > SHOWN_COLUMNS else [int(np.argmax(size))]
    return limits.singled_out(site, [names[j] for j in most if names[j] != INTERCEPT])


@dataclass
class StepWatch:
    """What a site looks at before it sends its part of a Newton step: the leverage of its own rows at the new point.

    The others' part of X'VX is taken as it was in the last total, and its own is that of the new point.
    """

    columns: ScaledColumns
    sites: Sequence[str]
    component: Operator
    limits: Guards
    group: Group
    constant: float = 0.0
    """The value of the intercept's column in the problem, the last one; 0 without an intercept."""
    complaints: list[str] = field(default_factory=list)
    """Those at the last point."""

    @classmethod
    def of(cls, designs: Designs, columns: ScaledColumns, component: Operator, group: Group) -> StepWatch:
        return cls(columns, [one.site for one in designs.held], component, strictest(designs), group)

    def __call__(self, z: Array, last: Array, information: Array) -> bool:
        """Whether the part at ``z`` must not be sent; ``information`` is X'VX at ``last``, for weights of sum 1."""
        sites = range(len(self.sites))
        X, before, now = [self._rows(n) for n in sites], [self._slopes(n, last) for n in sites], []
        own = information.copy()
        for n in sites:
            now.append(self._slopes(n, z))
            own += X[n].T @ (X[n] * (now[n] - before[n])[:, None])
        if not np.isfinite(own).all():
            return False  # the sum itself is not finite, and nothing is shown
        inverse, _ = solved(own, np.eye(len(own)))
        names = [*(self.columns.names[j] for j in self.columns.others), *[INTERCEPT] * bool(self.constant)]
        complaints = [lever(names, self.sites[n], X[n], now[n], inverse, self.limits) for n in sites]
        self.complaints = [sentence for sentence in complaints if sentence]
        return bool(self.complaints) and self.group.size > 1

    def end(self) -> None:
        """An error at all processes if one of them does not send its part."""
        end_together(self.group, next(iter(self.complaints), None))

    def _rows(self, n: int) -> Array:
        X = self.columns.designs[n].X[:, self.columns.others]
        return np.column_stack([X, np.full(len(X), self.constant)]) if self.constant else X

    def _slopes(self, n: int, z: Array) -> Array:
        weight = base_weights(self.columns, n, self.component) / self.columns.size.weight
        mean = link_of(str(self.component.link)).mean((self._rows(n) @ z)[:, None])
        with np.errstate(over="ignore", invalid="ignore"):
            return weight * FAMILIES[str(self.component.family)].variance(mean)
