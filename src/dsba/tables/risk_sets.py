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
import numpy.typing as npt

from dsba.errors import InputError
from dsba.network import Group, summed
from dsba.types import Array, Flags

GRID_INTERVALS = 96  # intervals of a grid that nobody chose
EARLY = 1.5  # the power of their ends: most events of most cohorts are early
RANDOM_WORDS = 1 << 40  # random words are below; sums of thousands of them are exact in a float64


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

    @classmethod
    def of(cls, flat: Array, times: int) -> Deaths:
        table = flat.reshape(times, -1)
        width = (table.shape[1] - 2) // 2
        return cls(table[:, :width], table[:, width : 2 * width], table[:, 2 * width :])


class Shares(NamedTuple):
    """Every event has a share of its time: Efron's l/d of the tied events are out of the l-th share's risk set."""

    time: npt.NDArray[np.int64]
    """The place of its time."""
    out: Array
    """l/d, or 0 for Breslow's ties."""
    weight: Array
    S0: Array
    mean: Array
    """S1/S0."""


def deaths_of(times: Array, time: Array, died: Flags, weight: Array, risk: Array, X: Array) -> Deaths:
    """The sums of one site at the given times, with the weights w of its rows and their risks w e^u."""
    rows = np.column_stack([risk, risk[:, None] * X])
    order = np.argsort(time, kind="stable")
    behind = np.vstack([np.cumsum(rows[order][::-1], axis=0)[::-1], np.zeros((1, rows.shape[1]))])
    place = np.searchsorted(times, time[died])
    events, counts = np.zeros((len(times), rows.shape[1])), np.zeros((len(times), 2))
    np.add.at(events, place, rows[died])
    np.add.at(counts, place, np.column_stack([np.ones(len(place)), weight[died]]))
    return Deaths(behind[np.searchsorted(time[order], times)], events, counts)


def shared_out(deaths: Deaths, ties: str) -> Shares:
    """The shares of all events."""
    counts = deaths.counts[:, 0].astype(np.int64)
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


def candidate_ends(times: Sequence[Array], group: Group) -> Array:
    """Intervals that are shorter near 0, up to the longest time, of which everybody is told two digits, rounded up."""
    longest = float(group.largest(np.array([max(float(time.max(initial=0.0)) for time in times)]))[0])
    if not longest > 0.0:
        raise InputError("all times are 0: a model of times needs some that are longer.")
    unit = 10.0 ** (np.floor(np.log10(longest)) - 1.0)
    return (np.arange(1, GRID_INTERVALS + 1) / GRID_INTERVALS) ** EARLY * (np.ceil(longest / unit) * unit)


def grid_numbers(ends: int) -> int:
    """How many numbers the sites add up for each kind of rows, to find a grid among so many ends."""
    return ends * (ends + 1)


def guarded_grid(
    times: Sequence[Array], marks: Sequence[Flags], candidates: Array, few: int, group: Group
) -> Array:  # fmt: skip
    """The finest grid, from the left, whose intervals show no marked row, or ``few`` of each of at least two sites.

    ``marks`` has a column for each kind of rows, such as rows with an event; the rule holds for every kind. Of all
    intervals between candidates one sum tells how many sites have at least ``few`` rows there, and, by random words,
    whether any site has one. No smaller count is told. The rest after the last interval belongs to it.
    """
    rng, m, own = np.random.default_rng(), len(candidates), []
    start, end = np.triu_indices(m + 1, 1)
    for time, marked in zip(times, marks, strict=True):
        counts = np.zeros((marked.shape[1], m + 1))
        place = np.minimum(np.searchsorted(candidates, time), m - 1)
        np.add.at(counts.T, place + 1, marked.astype(np.float64))
        before = np.cumsum(counts, axis=1)
        between = before[:, end] - before[:, start]
        words = np.where(between > 0, rng.integers(1, RANDOM_WORDS, between.shape), 0)
        own.append(np.concatenate([(between >= few).ravel(), words.ravel()]).astype(np.float64))
    many, some = summed(group, np.array(own)).reshape(2, -1, len(start))
    fits = np.zeros((m + 1, m + 1), bool)
    fits[start, end] = ((many >= 2) | (some == 0)).all(axis=0) & (many >= 2).any(axis=0)
    starts = [0]
    for last in range(1, m):
        if fits[starts[-1], last]:
            starts.append(last)
    while starts and not fits[starts[-1], m]:  # the last interval has the rest
        starts.pop()
    if not starts:
        raise InputError(
            f"no grid of times has at least {few} events of at least two sites in an interval: there are too few "
            "events for a model between processes."
        )
    return candidates[np.array([*starts[1:], m]) - 1]
