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

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from dsba.algorithms.newton import DEPENDENT_SENTENCE, solved, symmetric
from dsba.errors import FitError
from dsba.fitting.disclosure import DERIVED, Guards, is_steered
from dsba.network import Group, summed
from dsba.operators import Operator, link_of
from dsba.tables.blurred import check_blurred
from dsba.tables.columns import INTERCEPT
from dsba.tables.design import Design, Designs
from dsba.tables.families import FAMILIES
from dsba.tables.models.base import LikelihoodTerms, RowLeverage, TableModel, leverages_at
from dsba.tables.scaling import ScaledColumns
from dsba.tables.schema import end_together
from dsba.types import Array, Flags

LEVERAGE_ROUNDING = 1e-9  # a limit of 1 refuses nothing
SHOWN_COLUMNS = 2
NEAR_USUAL = 1e-3  # of the range of a column: values this near are the same
MOST_NEAR = 0.5  # of its standard deviation
BOUND_SLACK = 1e-2  # of a matrix that X'VX must not exceed
LOST_DIGITS = 1e-20  # of the outcomes: parts of one sum share a scale, so that huge outcomes cost X'VX digits
Folds = Sequence[Sequence[Flags]]  # of each fold the rows of each site here


def check_design(
    designs: Designs, moments: tuple[Array, Array], ready: Sequence[Design], weights: Sequence[Array], lam: float,
    group: Group, folds: Folds = (),
) -> tuple[Array, list[str]]:  # fmt: skip
    """X'VX at the start; and sentences, where a column or a combination of columns shows a row of the sites here.

    Between processes a column that shows a row ends the fit at all of them, and so does a combination that shows one
    row, before X'VX is summed. An outcome is one of these columns: X'y shows a row where y and a column differ in it
    alone. ``moments`` are the pooled means and standard deviations of columns and outcomes, ``ready`` has the scaled
    columns. ``folds`` are rows of which sums follow from sums over all rows and over those without a fold: of each fold
    the rows of each site. The sentences of the last check are for the caller to share.
    """
    check, p = _DesignCheck(designs, moments, group, folds), len(designs.names)
    check.look_at_columns()
    X, upper = [one.X for one in ready], np.triu_indices(p)
    if group.size == 1 or check.limits.leverage >= 1.0:
        check.total(np.zeros((len(X), 0)))
    else:
        for rows in check.parts:
            inside = [w * at for w, at in zip(weights, rows, strict=True)]
            check_blurred(check.beside(X), inside, check.limits.leverage, check.refuse, check.total)
    own = np.array([(x.T @ (x * w[:, None]))[upper] for x, w in zip(X, weights, strict=True)])
    information = symmetric(summed_unless(group, check.found, own), p)
    inverse, flat = solved(information, np.eye(p))
    if flat is not None and lam == 0.0:
        raise FitError(DEPENDENT_SENTENCE, np.flatnonzero(flat)).named(designs.names)
    check.refuse([RowLeverage.of(x, w, inverse) for x, w in zip(X, weights, strict=True)], check.limits.leverage)
    return information, check.found


class _DesignCheck:
    """What a process finds in the columns and outcomes of its sites; ``found`` are its complaints."""

    def __init__(self, designs: Designs, moments: tuple[Array, Array], group: Group, folds: Folds) -> None:
        self.designs, self.group, self.wide, self.limits = designs, group, designs.wide, designs.schema.limits
        self.mean, self.sd = moments
        self.sites, self.found = [one.site for one in designs.held], list[str]()
        self.names = designs.wide_names
        self.parts = [[np.ones(len(one), bool) for one in self.wide], *folds]
        self.differ = np.hstack([self._rows_that_differ(rows) for rows in self.parts])

    def _rows_that_differ(self, rows: Sequence[Flags]) -> Array:
        """Of each site and column the number of these rows, up to k, that differ from the rest by a part of the range.

        If fewer than k rows make up the spread S of a column, one of them is sqrt(S/k) away from the rest. The rest is
        near the median of each site.
        """
        few = self.limits.rows_per_level
        near = self.sd * min(NEAR_USUAL * np.sqrt(self.designs.rows / max(few - 1, 1)), MOST_NEAR)
        held = [X[at] for X, at in zip(self.wide, rows, strict=True)]
        own = [np.count_nonzero(abs(X - np.median(X, axis=0)) > near, axis=0) if len(X) else 0 * near for X in held]
        return np.minimum(own, few).astype(np.float64)

    def look_at_columns(self) -> None:
        rows, share = self.designs.rows, self.limits.dominance
        spread = share * np.where(self.designs.derived, DERIVED, 1.0) * rows * self.sd**2
        most = np.where(share < 1.0, spread, np.inf)
        for one, site in zip(self.wide, self.sites, strict=True):
            largest = ((one - self.mean) ** 2).max(axis=0, initial=0.0)
            over = [name for name, far in zip(self.names, largest > most, strict=True) if far and name != INTERCEPT]
            self.found += [self.limits.dominated(site, list(dict.fromkeys(over)))] if over else []

    def look_at_counts(self, differ: Array) -> None:
        """``differ``: the pooled rows of each column that differ from the rest."""
        if self.found:
            return
        names = [*self.names, *[f"{name} in a fold" for name in self.names] * (len(self.parts) - 1)]
        few = (differ > 0.0) & (differ < self.limits.rows_per_level)
        self.found += [self.limits.nearly_constant(names[j]) for j in np.flatnonzero(few)]
        self.found += self.limits.few_elsewhere(self.sites, names, self.differ, differ)

    def beside(self, X: Sequence[Array]) -> list[Array]:
        """The scaled columns with the scaled outcomes beside them."""
        p = len(self.designs.names)
        mean, sd = self.mean[p:], np.where(self.sd > 0.0, self.sd, 1.0)[p:]
        return [np.column_stack([x, (one[:, p:] - mean) / sd]) for x, one in zip(X, self.wide, strict=True)]

    def total(self, rows: Array) -> Array:
        """The sum over all sites, each time with the same counts; how many such sums there are is up to noise."""
        total = summed_unless(self.group.aside(), self.found, np.hstack([rows, self.differ]))
        self.look_at_counts(total[rows.shape[1] :])
        return total[: rows.shape[1]]

    def refuse(self, rows: Sequence[RowLeverage], limit: float) -> None:
        """Keep sentences about rows here whose leverage is above the limit."""
        found = [lever(self.names, site, one, self.limits, limit) for site, one in zip(self.sites, rows, strict=True)]
        self.found += [sentence for sentence in found if sentence]


def summed_unless(group: Group, complaints: Sequence[str], rows: Array) -> Array:
    """The sum over all sites. A process that has a complaint sends NaN, and all processes end with its sentence."""
    held = bool(complaints) and group.size > 1
    total = group.sum(np.full_like(rows, np.nan) if held else rows)
    if group.size > 1 and not np.isfinite(total).all():
        end_together(group, complaints[0] if held else None)
    return total if np.isfinite(total).all() else summed(group, rows)


def base_weights(design: Design, component: Operator) -> Array:
    """The weights of a site's rows where no outcome is known: those of the model with only an intercept."""
    return design.weight * np.exp(design.offset) if component.link == "log" else design.weight


def lever(names: Sequence[str], site: str, rows: RowLeverage, limits: Guards, limit: float | None = None) -> str | None:
    """A sentence about a row of this site that a combination of columns singles out."""
    leverage = rows.parts.sum(axis=1)
    if leverage.max(initial=0.0) <= (limits.leverage if limit is None else limit) + LEVERAGE_ROUNDING:
        return None
    largest, names = abs(rows.parts[leverage.argmax()]), names[: rows.parts.shape[1]]
    size = [0.0 if name == INTERCEPT else part for name, part in zip(names, largest, strict=True)]
    most = sorted(np.argsort(size)[-SHOWN_COLUMNS:]) if len(names) > SHOWN_COLUMNS else [int(np.argmax(size))]
    return limits.singled_out(site, [names[j] for j in most if names[j] != INTERCEPT])


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

    def look(self, X: Sequence[Array], weights: Sequence[Array], information: Array) -> bool:
        """Whether sums over the rows X of the sites here must not be sent; ``information`` is X'VX of all sites."""
        inverse, _ = solved(information, np.eye(len(information)))
        return self.judged([RowLeverage.of(x, v, inverse) for x, v in zip(X, weights, strict=True)])

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
        return bool(self.complaints) and self.group.size > 1 and not self.group.replayed

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
        return cls(designs.names, sites, designs.schema.limits, group, list(found), model=model, samples=samples)

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
    first: Array = field(kw_only=True)
    """X'VX at 0."""
    asked: bool = False
    """Whether the method asks before it sends a part of a step."""

    @classmethod
    def of(
        cls, designs: Designs, columns: ScaledColumns, component: Operator, first: Array, constant: float, group: Group
    ) -> StepWatch:
        """``first`` is X'VX at the start, for V = 1."""
        at = columns.scaling.intercept
        order = [*columns.others, *([] if at is None else [at])]
        factor = np.array([constant if j == at else 1.0 for j in order])
        most = FAMILIES[str(component.family)].steepest
        if columns.scaling.mixing is not None:
            first = columns.scaling.mixing.T @ first @ columns.scaling.mixing
        bound = first[np.ix_(order, order)] * np.outer(factor, factor) / columns.size.weight
        at_zero = FAMILIES[str(component.family)].variance(link_of(str(component.link)).mean(np.zeros((1, 1))))
        return cls(
            [columns.names[j] for j in order], [one.site for one in designs.held], designs.schema.limits, group,
            columns=columns, component=component, constant=0.0 if at is None else constant,
            steepest=None if most is None else most * bound, first=at_zero * bound,
        )  # fmt: skip

    def __call__(self, z: Array, last: Array, information: Array) -> bool:
        """Whether the part at ``z`` must not be sent; ``information`` is X'VX at ``last``, for weights of sum 1."""
        self.asked = True
        found = leverages_at(self._rows, self._slopes(z), self._slopes(last), information)
        return self.judged(found, found is not None and self._exceeds(information))

    def at_solution(self, z: Array) -> RowWatch:
        """A watch of the sums at the solution, with its complaints about the rows here.

        A method that did not ask has summed no X'VX but the first. That of the others is taken to have grown as the
        weights of most rows here.
        """
        rows, zero = self._rows, np.zeros_like(z)
        before, now = self._slopes(zero), self._slopes(z)
        if self.asked:
            held = zip(rows, now, strict=True)
            self.judged([RowLeverage.of(X, v, np.zeros_like(self.first)) for X, v in held])
        else:
            own = sum(X.T @ (X * v[:, None]) for X, v in zip(rows, before, strict=True))
            then, grown = np.concatenate(before), np.concatenate(now)
            growth = float(np.median(grown[then > 0.0] / then[then > 0.0])) if (then > 0.0).any() else 1.0
            self(z, zero, growth * self.first + (1.0 - growth) * own)
        return RowWatch(self.columns.names, self.sites, self.limits, self.group, self.complaints)

    def _exceeds(self, information: Array) -> bool:
        """Whether the last total is no X'VX of the rows: a member has sent something else."""
        if self.steepest is None or self.limits.leverage >= 1.0:
            return False
        largest = max(np.abs(design.y).max(initial=0.0) for design in self.columns.designs)
        left = np.linalg.eigvalsh(self.steepest - information)[0]
        return bool(left < -(BOUND_SLACK + LOST_DIGITS * largest) * np.abs(self.steepest).max())

    @cached_property
    def _rows(self) -> list[Array]:
        """The columns of the problem, of each site here."""
        others = self.columns.others
        held = [one.X[:, others] for one in self.columns.designs]
        return [np.column_stack([X, np.full(len(X), self.constant)]) if self.constant else X for X in held]

    def _slopes(self, z: Array) -> list[Array]:
        """Of the rows of each site here."""
        weights = [base_weights(one, self.component) / self.columns.size.weight for one in self.columns.designs]
        means = [link_of(str(self.component.link)).mean((X @ z)[:, None]) for X in self._rows]
        with np.errstate(over="ignore", invalid="ignore"):
            variances = [FAMILIES[str(self.component.family)].variance(mean) for mean in means]
            return [weight * variance for weight, variance in zip(weights, variances, strict=True)]
