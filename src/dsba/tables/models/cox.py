"""Cox's proportional hazards: the partial likelihood, from sums over risk sets.

With shares s of the events (``risk_sets.py``), S0 and the mean m = S1/S0 of each,

    l = sum_D w u - sum_s w_s log S0            score = sum_D w x - sum_s w_s m
    information = sum_i w e^u h_i xx' - sum_s w_s mm'

where D are the rows with an event and h_i adds up w_s/S0 over the shares in whose risk sets row i is. So a site needs
S0 and S1 of the others, and no matrix at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dsba.algorithms.newton import solved
from dsba.errors import InputError
from dsba.fitting.measures import Figures, GridFigures, NoFigures
from dsba.fitting.spec import FitSpec
from dsba.network import Group
from dsba.tables.models.base import (
    Design,
    LikelihoodOnly,
    LikelihoodTerms,
    ModelSums,
    Outcomes,
    RowLeverage,
    TableModel,
    pooled_terms,
)
from dsba.tables.risk_sets import (
    GRID_INTERVALS,
    Deaths,
    Lives,
    candidate_ends,
    exact_times,
    grid_numbers,
    guarded_grid,
    on_grid,
    shared_out,
)
from dsba.types import Array

SAY_STRATA = (
    "a Cox model must be told its strata: strata = site gives every site a baseline hazard of its own and uses exact "
    "times; strata = none gives all sites one, and between processes rounds times to a grid."
)


@dataclass(frozen=True)
class Cox(TableModel):
    """h(t | x) = h_0(t) e^{x'b + offset}; ``strata`` "site": every site has its own h_0."""

    labels: ClassVar[str] = "survival"
    link: ClassVar[str | None] = "hazard"
    ratio: ClassVar[str | None] = "hazard ratio"
    intercept: ClassVar[bool] = False
    endless: ClassVar[str] = (
        "the likelihood rises for ever with the coefficients of {columns}: the events follow an order that these "
        "columns give; leave one out."
    )
    undetermined: ClassVar[str] = (
        "the rows do not determine the coefficients of {columns}: wherever there is an event, one of these columns is "
        "the same for all rows of the stratum that are at risk, or a weighted sum of the others; leave one out."
    )
    ties: str = "efron"
    strata: str = ""
    times: tuple[float, ...] = ()
    """Without strata: the times of events, exact ones in one process, else the ends of a grid."""
    rounded: bool = False
    """Whether times are rounded up to these."""

    def prepared(self, samples: Sequence[Design], grid: Sequence[float] | None, few: int, group: Group) -> Cox:
        """The model with its times. In one process and in strata times are exact unless a grid is given."""
        if self.strata not in ("site", "none"):
            raise InputError(SAY_STRATA)
        times, died = [s.y[:, 0] for s in samples], [s.y[:, 1] > 0 for s in samples]
        if grid is None and self.strata == "site":
            return self
        if grid is None and group.size == 1:
            return replace(self, times=tuple(exact_times(times, died).tolist()))
        ends = candidate_ends(times, group, grid)
        if group.size > 1 and self.strata == "none":
            ends = guarded_grid(times, [events[:, None] for events in died], ends, few, group)
        return replace(self, times=tuple(ends.tolist()), rounded=True)

    def sums(self, q: int, spec: FitSpec) -> ModelSums:
        """Without strata the sums at all ends of a grid, of which at most those that are proposed are left."""
        found, ends = super().sums(q, spec), GRID_INTERVALS if spec.grid is None else len(spec.grid) + 1
        if self.strata == "site":
            return found
        return found._replace(before=(grid_numbers(ends),), point=(ends * (2 * q + 4), *found.point))

    def tells(self) -> str:
        if self.strata == "site":
            return "the number of events; the sums over a site's own risk sets stay there"
        return (
            "at how many sites an interval of time has enough events; at each end of the grid the number of events, "
            "and sums of e^u and e^u x (u: the score, x: the columns) over the rows at risk and over those with "
            "an event"
        )

    def outcome_sums(self, sample: Design) -> Array:
        return np.array([sample.counts @ (sample.y[:, 1] > 0)])

    def start(self, known: Outcomes, columns: int, intercept: int | None) -> Array:
        return np.zeros(columns)

    def _lives(self, s: Design, z: Array) -> Lives:
        time = on_grid(s.y[:, 0], np.array(self.times)) if self.rounded else s.y[:, 0]
        return Lives(s, time, s.y[:, 1] > 0, s.weight * np.exp(s.X @ z + s.offset))

    def strata_of(self, samples: Sequence[Design], z: Array, group: Group) -> list[tuple[Lives, Array, Deaths]]:
        """For each site here its rows, the times of its stratum and the sums of its stratum."""
        total, times = None, np.array(self.times)
        if self.strata != "site":
            own = [self._lives(sample, z).deaths(times).flat() for sample in samples]
            total = Deaths.of(group.sum(np.array(own)), len(times))
        return self._in_strata(samples, z, total)

    def _in_strata(
        self, samples: Sequence[Design], z: Array, total: Deaths | None
    ) -> list[tuple[Lives, Array, Deaths]]:
        """The same where the sums of all sites are known; None where every site is a stratum."""
        lives = [self._lives(sample, z) for sample in samples]
        if total is not None:
            return [(one, np.array(self.times), total) for one in lives]
        own = [exact_times([one.time], [one.died]) for one in lives]
        return [(one, times, one.deaths(times)) for one, times in zip(lives, own, strict=True)]

    def terms(self, samples: Sequence[Design], z: Array, group: Group) -> LikelihoodTerms:
        return self._terms(samples, z, group, group)

    def log_likelihood_at(self, samples: Sequence[Design], z: Array, group: Group) -> float:
        """The sums over risk sets are needed for it."""
        return self._terms(samples, z, group, LikelihoodOnly(group)).llf

    def _terms(self, samples: Sequence[Design], z: Array, whole: Group, group: Group) -> LikelihoodTerms:
        """``whole`` adds up risk sets, ``group`` the terms of rows."""
        strata = self.strata_of(samples, z, whole)
        if self.strata == "site":
            return pooled_terms(group, [self._site(z, *one) for one in strata])
        deaths = strata[0][2]
        if not deaths.whole:  # all processes see this
            return _not_finite(z.size)
        rows = pooled_terms(group, [self._own(z, *one) for one in strata])
        return self._shared(deaths, rows)._replace(pooled=deaths)

    def _site(self, z: Array, lives: Lives, times: Array, deaths: Deaths) -> LikelihoodTerms:
        """The terms of a site that is a stratum. Where they are not finite, it has a part in the sum nevertheless."""
        if not np.isfinite(deaths.at_risk).all():
            return _not_finite(z.size)
        return self._shared(deaths, self._own(z, lives, times, deaths))

    def _own(self, z: Array, lives: Lives, times: Array, deaths: Deaths) -> LikelihoodTerms:
        """What the rows of a site add: the events, and the first sum of the information."""
        s, shares = lives.design, shared_out(deaths, self.ties)
        h = lives.hazards(times, shares, np.ones((len(shares.time), 1)))[:, 0]
        w = s.weight * lives.died
        H = s.X.T @ (s.X * (lives.risk * h)[:, None])
        return LikelihoodTerms(float(w @ (s.X @ z + s.offset)), w @ s.X, H, H)

    def _shared(self, deaths: Deaths, rows: LikelihoodTerms) -> LikelihoodTerms:
        """The terms of a stratum whose rows add up to ``rows``."""
        shares = shared_out(deaths, self.ties)
        H = rows.observed - shares.mean.T @ (shares.mean * shares.weight[:, None])
        llf = rows.llf - float(shares.weight @ np.log(shares.S0))
        return LikelihoodTerms(llf, rows.score - shares.weight @ shares.mean, H, H)

    def figures(self, z: Array, terms: LikelihoodTerms) -> Figures:
        """How many intervals times were grouped into, if they were."""
        return GridFigures(float(len(self.times))) if self.rounded else NoFigures()

    def survival(self, terms: LikelihoodTerms) -> tuple[tuple[float, float], ...]:
        """On a grid of all sites; exact times, and the risk sets of a single site, would show rows."""
        if not self.rounded or self.strata == "site":
            return ()
        shares = shared_out(terms.pooled, self.ties)
        hazard = np.cumsum(np.bincount(shares.time, shares.weight / shares.S0, minlength=len(self.times)))
        return tuple(zip(self.times, np.exp(-hazard).tolist(), strict=True))

    def first_weights(self, sample: Design, start: Array) -> Array:
        return sample.weight * np.exp(sample.offset)

    def row_weights(self, sample: Design, z: Array) -> Array:
        """What a row adds to the sums over risk sets."""
        return self._lives(sample, z).risk[:, None]

    def leverages(
        self, samples: Sequence[Design], z: Array, last: Array, terms: LikelihoodTerms
    ) -> list[RowLeverage] | None:
        """The trace of I^-1 sum_s (w_s e^u/S0) (x - m)(x - m)' over the shares in whose risk sets a row is."""
        inverse, found = solved(terms.observed, np.eye(z.size))[0], []
        for lives, times, deaths in self._in_strata(samples, z, terms.pooled):
            if not (np.isfinite(lives.risk).all() and np.isfinite(deaths.at_risk).all()):
                return None
            m = (shares := shared_out(deaths, self.ties)).mean
            h = lives.hazards(times, shares, np.column_stack([np.ones(len(m)), m, (m @ inverse) * m]))
            once, mean, twice = np.split(h, [1, 1 + z.size], axis=1)
            X = lives.design.X
            parts = (X @ inverse) * (once * X - mean) - (mean @ inverse) * X + twice
            at_risk = lives.risk[:, None] * (once if once.any() else 1.0)  # a stratum without events adds nothing
            found.append(RowLeverage(lives.risk[:, None] * parts, at_risk))
        return found

    def row_scores(self, samples: Sequence[Design], z: Array, terms: LikelihoodTerms) -> list[Array]:
        """Score residuals: w (x - mean) where the event is, less what the row was expected to have before."""
        found = []
        for lives, times, deaths in self._in_strata(samples, z, terms.pooled):
            s, shares = lives.design, shared_out(deaths, self.ties)
            whole = np.column_stack([np.ones(len(shares.time)), shares.mean])
            h = lives.hazards(times, shares, whole)
            means = np.zeros((len(times) + 1, z.size))
            np.add.at(means, shares.time, shares.mean / deaths.counts[shares.time, :1])
            place = np.where(lives.died, np.searchsorted(times, lives.time), len(times))
            events = (s.weight * lives.died)[:, None] * (s.X - means[place])
            found.append(events - lives.risk[:, None] * (h[:, :1] * s.X - h[:, 1:]))
        return found


def _not_finite(p: int) -> LikelihoodTerms:
    nothing = np.full((p, p), np.nan)
    return LikelihoodTerms(np.nan, nothing[0], nothing, nothing)
