"""Sums over risk sets at the times of events, and the grids of times on which several processes may make them.

A row leaves the risk set at its time. At every time t with events

    S0 = sum w e^u,  S1 = sum w e^u x   over the rows that are at risk,      E0, E1   over those with the event at t

are the whole of what Cox's likelihood needs from other sites. **On exact times they publish people**: the difference of
S1 at two times with one leaver between them is that person's x. So between processes times are rounded up to a grid on
which, in every interval, no site has an event, or at least two sites have k events each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dsba.errors import InputError
from dsba.fitting.rows import finite_largest
from dsba.network import Group, summed
from dsba.network.contract import require_counts
from dsba.tables.intervals import finest_starts, interval_numbers
from dsba.tables.models.base import Design
from dsba.tables.together import FAR
from dsba.types import Array, Flags, Integers

GRID_INTERVALS = 96  # intervals of a grid that nobody chose
MOST_EVENTS = 10**8  # their shares must fit into memory
EARLY = 1.5  # the power of their ends: most events of most cohorts are early


class Deaths(NamedTuple):
    """Sums at the times of events, one row a time: of one site, of a stratum or of all sites."""

    at_risk: Array
    """S0 and S1."""
    events: Array
    """E0 and E1."""
    counts: Array
    """The number of events, and the sum of their weights."""

    def flat(self) -> Array:
        return np.column_stack(self).ravel()

    @property
    def whole(self) -> bool:
        """Whether all are finite, and neither counts nor S0 at events lost digits beside the largest number."""
        largest = max(abs(part).max(initial=0.0) for part in self)
        least = self.at_risk[self.counts[:, 0] > 0.0, 0].min(initial=1.0)
        return bool(np.isfinite(largest) and least >= FAR * largest)

    @classmethod
    def of(cls, flat: Array, times: int) -> Deaths:
        table = flat.reshape(times, -1)
        width = (table.shape[1] - 2) // 2
        return cls(table[:, :width], table[:, width : 2 * width], table[:, 2 * width :])


class Shares(NamedTuple):
    """Every event has a share of its time: Efron's l/d of the tied events are out of the l-th share's risk set."""

    time: Integers
    """The place of its time."""
    out: Array
    """l/d, or 0 for Breslow's ties."""
    weight: Array
    S0: Array
    mean: Array
    """S1/S0."""


class Lives(NamedTuple):
    """The rows of one site."""

    design: Design
    time: Array
    """On the grid, if there is one."""
    died: Flags
    risk: Array
    """w e^u."""

    def deaths(self, times: Array) -> Deaths:
        """The sums at the given times."""
        rows = np.column_stack([self.risk, self.risk[:, None] * self.design.X])
        order = np.argsort(self.time, kind="stable")
        behind = np.vstack([np.cumsum(rows[order][::-1], axis=0)[::-1], np.zeros((1, rows.shape[1]))])
        place = np.searchsorted(times, self.time[self.died])
        events, counts = np.zeros((len(times), rows.shape[1])), np.zeros((len(times), 2))
        np.add.at(events, place, rows[self.died])
        np.add.at(counts, place, np.column_stack([self.design.counts, self.design.weight])[self.died])
        return Deaths(events=events, counts=counts, at_risk=behind[np.searchsorted(self.time[order], times)])

    def hazards(self, times: Array, shares: Shares, values: Array) -> Array:
        """For each row the sum of w_s ``values``/S0 over the shares in whose risk sets it is."""
        parts = (shares.weight / shares.S0)[:, None] * values
        whole, out = np.zeros((2, len(times) + 1, values.shape[1]))
        np.add.at(whole, shares.time + 1, parts)
        np.add.at(out, shares.time + 1, shares.out[:, None] * parts)
        place = np.searchsorted(times, self.time, side="right")
        return np.cumsum(whole, axis=0)[place] - self.died[:, None] * out[place]


def shared_out(deaths: Deaths, ties: str) -> Shares:
    """The shares of all events."""
    counts = np.array(require_counts(deaths.counts[:, 0]), np.int64)
    if counts.sum() > MOST_EVENTS:  # before as many shares are made
        raise InputError(f"all sites together have more than {MOST_EVENTS:,} events.")
    time = np.repeat(np.arange(len(counts)), counts)
    first = np.cumsum(counts) - counts
    out = (np.arange(len(time)) - first[time]) / counts[time] if ties == "efron" else np.zeros(len(time))
    sums = deaths.at_risk[time] - out[:, None] * deaths.events[time]
    mean_weight = deaths.counts[time, 1] / counts[time]
    return Shares(time, out, mean_weight, sums[:, 0], sums[:, 1:] / sums[:, :1])


# Grids -------------------------------------------------------------------------------------------


def exact_times(times: Sequence[Array], died: Sequence[Flags]) -> Array:
    """The times of all events of the sites here."""
    return np.unique(np.concatenate([time[events] for time, events in zip(times, died, strict=True)]))


def on_grid(time: Array, ends: Array) -> Array:
    """Times rounded up to the ends of their intervals; those beyond the last end are that end."""
    return ends[np.minimum(np.searchsorted(ends, time, side="left"), len(ends) - 1)]


def candidate_ends(times: Sequence[Array], group: Group, grid: Sequence[float] | None = None) -> Array:
    """Intervals that are shorter near 0, up to the longest time, of which a site tells two digits, rounded up.

    Where a ``grid`` is given, its ends. Times beyond the last one get one more, so that none is rounded down.
    """
    last = grid[-1] if grid else 0.0
    own = max(_two_digits(far) if (far := float(time.max(initial=0.0))) > last else last for time in times)
    longest = float(finite_largest(group, np.array([own]))[0])
    if grid is not None:
        return np.array([*grid, longest][: len(grid) + (longest > last)])
    if not longest > 0.0:
        raise InputError("all times are 0: a model of times needs some that are longer.")
    return (np.arange(1, GRID_INTERVALS + 1) / GRID_INTERVALS) ** EARLY * longest


def _two_digits(time: float) -> float:
    """The first two digits, rounded up."""
    unit = 10.0 ** (np.floor(np.log10(time)) - 1.0) if time > 0.0 else 1.0
    return float(np.ceil(time / unit) * unit)


def grid_numbers(ends: int) -> int:
    """How many numbers the sites add up for each kind of rows, to find a grid among so many ends."""
    return ends * (ends + 1)


def guarded_grid(times: Sequence[Array], marks: Sequence[Flags], candidates: Array, few: int, group: Group) -> Array:
    """The finest grid, from the left, whose intervals show no marked row, or ``few`` of each of at least two sites.

    ``marks`` has a column for each kind of rows, such as rows with an event; the rule holds for every kind.
    """
    m = len(candidates)
    places = [np.minimum(np.searchsorted(candidates, time), m - 1) for time in times]
    own = [interval_numbers(at, marked, m, few) for at, marked in zip(places, marks, strict=True)]
    starts = finest_starts(summed(group, np.array(own)), m)
    if not starts:
        raise InputError(
            f"no grid of times has at least {few} events of at least two sites in an interval: there are too few "
            "events for a model between processes."
        )
    return candidates[np.array([*starts[1:], m]) - 1]
