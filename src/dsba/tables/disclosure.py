"""Checks of the design's columns, in the order in which sums over the sites are made.

    cells      of a column of zeros and ones, no site can single out fewer than k rows of the others
    dominance  (x_ij - m_j)^2 / S_j: no row makes up most of a column's spread
    leverage   h_i = w_i v_i x_i' (X'VX)^-1 x_i: no combination of columns singles out a row

The moments m and S are known when cells and dominance are checked. X'VX at the start depends on no outcome and is
summed alone. V changes at every step, so a site checks its own rows before it sends its part of a step (``StepWatch``
for the models that all methods share, ``ModelWatch`` for the others).
A complaint names the site and the columns, and no value. docs/privacy.md shows how often ordinary tables are refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dsba.algorithms.newton import DEPENDENT_SENTENCE, solved, symmetric
from dsba.errors import FitError
from dsba.fitting.disclosure import Guards
from dsba.network import Group, summed
from dsba.operators import Operator, link_of
from dsba.tables.blurred import check_blurred
from dsba.tables.columns import INTERCEPT
from dsba.tables.design import Design, Designs
from dsba.tables.families import FAMILIES
from dsba.tables.models.base import LikelihoodTerms, RowLeverage, TableModel
from dsba.tables.scaling import ScaledColumns
from dsba.tables.schema import end_together
from dsba.types import Array

DERIVED = 2.0 / 3.0  # the limit of dominance for derived columns, relative to that of columns of the table
LEVERAGE_ROUNDING = 1e-9  # a limit of 1 refuses nothing
SHOWN_COLUMNS = 2
EFFECTIVE = 0.05  # of a site's rows: fewer must not make up its part of a step
BOUND_SLACK = 1e-2  # of a matrix that X'VX must not exceed
LOST_DIGITS = 1e-20  # of the outcomes: parts of one sum share a scale, so that huge outcomes cost X'VX digits


def strictest(designs: Designs) -> Guards:
    """The limits of all sites together."""
    return Guards.strictest([part.guards for part in designs.schema.parts])


def check_design(
    designs: Designs, moments: tuple[Array, Array], ready: Sequence[Design], weights: Sequence[Array], lam: float,
    group: Group,
) -> tuple[Array, list[str]]:  # fmt: skip
    """X'VX at the start; and sentences, where a column or a combination of columns shows a row of the sites here.

    Between processes a column that shows a row ends the fit at all of them, and so does a combination that shows one
    row, before X'VX is summed. ``moments`` are the pooled means and standard deviations of the columns, ``ready`` has
    the scaled columns. The sentences of the last check are for the caller to share.
    """
    limits, names, sites = strictest(designs), designs.names, [one.site for one in designs.held]
    ceilings = [limits.dominance * (DERIVED if derived else 1.0) for derived in designs.derived]
    most = np.array(ceilings) * designs.rows * moments[1] ** 2
    columns = zip(designs.designs, sites, strict=True)
    found = [c for one, site in columns if (c := _column_complaint(one, *moments, most, designs.rows, site, limits))]

    def refuse(rows: Sequence[RowLeverage], limit: float) -> None:
        found.extend(c for site, one in zip(sites, rows, strict=True) if (c := lever(names, site, one, limits, limit)))

    X, upper = [one.X for one in ready], np.triu_indices(len(names))
    if group.size > 1 and limits.leverage < 1.0:
        # Not counted: the number of sums depends on the noise, and a model has the same rounds on every network.
        check_blurred(X, weights, limits.leverage, refuse, lambda rows: summed_unless(group.aside(), found, rows))
    own = np.array([(x.T @ (x * w[:, None]))[upper] for x, w in zip(X, weights, strict=True)])
    information = symmetric(summed_unless(group, found, own), len(names))
    inverse, flat = solved(information, np.eye(len(information)))
    if flat is not None and lam == 0.0:
        raise FitError(DEPENDENT_SENTENCE, np.flatnonzero(flat)).named(names)
    refuse([RowLeverage.of(x, w, inverse) for x, w in zip(X, weights, strict=True)], limits.leverage)
    return information, found


def summed_unless(group: Group, complaints: Sequence[str], rows: Array) -> Array:
    """The sum over all sites. A process that has a complaint sends NaN, and all processes end with its sentence."""
    held = bool(complaints) and group.size > 1
    total = group.sum(np.full_like(rows, np.nan) if held else rows)
    if group.size > 1 and not np.isfinite(total).all():
        end_together(group, complaints[0] if held else None)
    return total if np.isfinite(total).all() else summed(group, rows)


def base_weights(columns: ScaledColumns, n: int, component: Operator) -> Array:
    """The weights of a site's rows where no outcome is known: those of the model with only an intercept."""
    design = columns.designs[n]
    return design.weight * np.exp(design.offset) if component.link == "log" else design.weight


def _column_complaint(
    design: Design, mean: Array, sd: Array, most: Array, rows: int, site: str, limits: Guards
) -> str | None:
    """A sentence about the columns that single out rows of this site, or, for this site, few rows of the others.

    ``most`` is the largest square that one row may add to the spread of each column.
    """
    named = [j for j, name in enumerate(design.names) if name != INTERCEPT]
    largest = ((design.X - mean) ** 2).max(axis=0, initial=0.0)
    if dominated := [design.names[j] for j in named if largest[j] > most[j]]:
        return limits.dominated(site, dominated)
    few = [j for j in named if _few_elsewhere(design.X[:, j], mean[j], sd[j], rows, limits.rows_per_level)]
    return limits.few_elsewhere(site, design.names[few[0]]) if few else None


def _few_elsewhere(own: Array, mean: float, sd: float, rows: int, few: int) -> bool:
    """Whether the column has zeros and ones at all sites, and the others have one of them in 1 to ``few`` - 1 rows.

    A column has no other numbers if its variance is m (1 - m), and none below 0 or above 1 is here.
    """
    if abs(sd * sd - mean * (1.0 - mean)) > 1e-9 or not (np.minimum(abs(own), abs(own - 1.0)) < 1e-6).all():
        return False
    ones, mine = round(rows * mean), int((own > 0.5).sum())
    others = (ones - mine, rows - ones - (len(own) - mine))
    return any(0 < count < few for count in others)


def lever(names: Sequence[str], site: str, rows: RowLeverage, limits: Guards, limit: float | None = None) -> str | None:
    """A sentence about a row of this site that a combination of columns singles out."""
    leverage = rows.parts.sum(axis=1)
    if leverage.max(initial=0.0) <= (limits.leverage if limit is None else limit) + LEVERAGE_ROUNDING:
        return None
    largest = abs(rows.parts[leverage.argmax()])
    size = [0.0 if name == INTERCEPT else part for name, part in zip(names, largest, strict=True)]
    most = sorted(np.argsort(size)[-SHOWN_COLUMNS:]) if len(names) > SHOWN_COLUMNS else [int(np.argmax(size))]
    return limits.singled_out(site, [names[j] for j in most if names[j] != INTERCEPT])


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


@dataclass
class RowWatch:
    """What a site looks at before it sends its part of a Newton step: its own rows at the new point.

    The others' part of X'VX is taken as it was in the last total, and its own is that of the new point.
    """

    names: Sequence[str]
    sites: Sequence[str]
    limits: Guards
    group: Group
    complaints: list[str] = field(default_factory=list)
    """Those at the last point."""

    def judged(self, found: Sequence[RowLeverage] | None, impossible: bool = False) -> bool:
        """Whether the part must not be sent. A sum that is not finite shows nothing."""
        self.complaints = []
        if impossible:
            self.complaints.append(self.limits.impossible(self.sites[0]))
        for site, rows in zip(self.sites, found or [], strict=False):
            if any(is_steered(weight, self.limits.rows_per_level) for weight in rows.weights.T):
                self.complaints.append(self.limits.steered(site))
            elif sentence := lever(self.names, site, rows, self.limits):
                self.complaints.append(sentence)
        return self.holds

    @property
    def holds(self) -> bool:
        """Whether the part at the last point must not be sent."""
        return bool(self.complaints) and self.group.size > 1

    def end(self) -> None:
        """An error at all processes if one of them does not send its part."""
        if self.group.size > 1:
            end_together(self.group, next(iter(self.complaints), None))


@dataclass
class ModelWatch(RowWatch):
    """The watch of a model of ``dsba.tables.models``."""

    model: TableModel = field(kw_only=True)
    samples: Sequence[Design] = field(kw_only=True)

    @classmethod
    def of(
        cls, designs: Designs, model: TableModel, samples: Sequence[Design], found: Sequence[str], group: Group
    ) -> ModelWatch:
        """``found`` are the complaints before the first step."""
        sites = [one.site for one in designs.held]
        return cls(designs.names, sites, strictest(designs), group, list(found), model=model, samples=samples)

    def __call__(self, z: Array, last: Array, terms: LikelihoodTerms) -> bool:
        return self.judged(self.model.leverages(self.samples, z, last, terms))

    def of_rows(self, samples: Sequence[Design]) -> ModelWatch:
        """The watch of a fit to other weights of the same rows, as without a fold."""
        return replace(self, samples=samples, complaints=[])


@dataclass
class StepWatch(RowWatch):
    """The watch of a model that all methods share; its problem has the intercept's column last."""

    columns: ScaledColumns = field(kw_only=True)
    component: Operator = field(kw_only=True)
    constant: float = field(kw_only=True)
    """The value of the intercept's column in the problem; 0 without an intercept."""
    steepest: Array | None = field(kw_only=True)
    """A matrix that X'VX exceeds at no point, if there is one."""

    @classmethod
    def of(
        cls, designs: Designs, columns: ScaledColumns, component: Operator, first: Array, constant: float, group: Group
    ) -> StepWatch:
        """``first`` is X'VX at the start, for V = 1."""
        at = columns.scaling.intercept
        order, factor = [*columns.others, *([] if at is None else [at])], np.ones(len(columns.names))
        if at is not None:
            factor[-1] = constant
        most = FAMILIES[str(component.family)].steepest
        if columns.scaling.mixing is not None:
            first = columns.scaling.mixing.T @ first @ columns.scaling.mixing
        bound = first[np.ix_(order, order)] * np.outer(factor, factor) / columns.size.weight
        return cls(
            [columns.names[j] for j in order], [one.site for one in designs.held], strictest(designs), group,
            columns=columns, component=component, constant=0.0 if at is None else constant,
            steepest=None if most is None else most * bound,
        )  # fmt: skip

    def __call__(self, z: Array, last: Array, information: Array) -> bool:
        """Whether the part at ``z`` must not be sent; ``information`` is X'VX at ``last``, for weights of sum 1."""
        sites = range(len(self.sites))
        X, before, now = [self._rows(n) for n in sites], [self._slopes(n, last) for n in sites], []
        own = information.copy()
        for n in sites:
            now.append(self._slopes(n, z))
            own += X[n].T @ (X[n] * (now[n] - before[n])[:, None])
        if not np.isfinite(own).all():
            return self.judged(None)
        inverse, _ = solved(own, np.eye(len(own)))
        found = [RowLeverage.of(X[n], now[n], inverse) for n in sites]
        return self.judged(found, self._exceeds(information))

    def _exceeds(self, information: Array) -> bool:
        """Whether the last total is no X'VX of the rows: a member has sent something else."""
        if self.steepest is None or self.limits.leverage >= 1.0:
            return False
        largest = max(np.abs(design.y).max(initial=0.0) for design in self.columns.designs)
        left = np.linalg.eigvalsh(self.steepest - information)[0]
        return bool(left < -(BOUND_SLACK + LOST_DIGITS * largest) * np.abs(self.steepest).max())

    def _rows(self, n: int) -> Array:
        X = self.columns.designs[n].X[:, self.columns.others]
        return np.column_stack([X, np.full(len(X), self.constant)]) if self.constant else X

    def _slopes(self, n: int, z: Array) -> Array:
        weight = base_weights(self.columns, n, self.component) / self.columns.size.weight
        mean = link_of(str(self.component.link)).mean((self._rows(n) @ z)[:, None])
        with np.errstate(over="ignore", invalid="ignore"):
            return weight * FAMILIES[str(self.component.family)].variance(mean)
