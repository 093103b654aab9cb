"""From the histories of several seeds to one curve, what a tolerance costs, and who paid least."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dsba.recorder import History

TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-6, 1e-10)
COSTS = ("passes", "rounds", "doubles_max", "bytes_max", "seconds")
ROUNDING = 1e-12  # below this a relative error goes up and down by itself
FALLEN_BACK = 10.0  # a run that ends this many times above its best has become unstable


@dataclass(frozen=True)
class Curve:
    """A method's history; the median of several seeds, with a band from the least to the largest."""

    mid: History
    low: History | None = None
    high: History | None = None


def median_curve(histories: Sequence[History]) -> Curve:
    """Record by record over the seeds. It ends where the first seed stops: from there on it would be of others."""
    if len(histories) == 1:
        return Curve(histories[0])
    length = min(len(history) for history in histories)
    bands = {}
    for name in histories[0]:
        rows = np.stack([history[name][:length] for history in histories])
        bands[name] = (np.median(rows, axis=0), rows.min(axis=0), rows.max(axis=0))
    mid, low, high = (History({name: band[i] for name, band in bands.items()}) for i in range(3))
    return Curve(mid, low, high)


def costs(history: History, metric: str, tol: float) -> dict[str, float | None]:
    """Every cost at the first record with ``metric`` at most ``tol``; None where there is none."""
    reached = np.flatnonzero(history[metric] <= tol)
    return {cost: float(history[cost][reached[0]]) if reached.size else None for cost in COSTS}


def final(history: History, metric: str) -> float:
    value = float(history[metric][-1])
    return value if math.isfinite(value) else math.inf


def has_fallen_back(history: History, metric: str) -> bool:
    """Whether the run ended far above the best it had reached."""
    return final(history, metric) > FALLEN_BACK * max(float(np.nanmin(history[metric])), ROUNDING)


@dataclass(frozen=True)
class Entrant:
    """A method on a case: the histories of its seeds, and how each ended."""

    histories: Sequence[History]
    statuses: Sequence[str]

    def cost(self, metric: str, tol: float, cost: str) -> float | None:
        """The median over the seeds of what the tolerance cost; None where half of them did not reach it."""
        found = [costs(history, metric, tol)[cost] for history in self.histories]
        middle = float(np.median([math.inf if value is None else value for value in found]))
        return middle if math.isfinite(middle) else None

    def final(self, metric: str) -> float:
        return float(np.median([final(history, metric) for history in self.histories]))

    def spent(self, cost: str) -> float:
        """The least that a seed had spent when it was stopped; infinite if all diverged."""
        alive = [h for h, status in zip(self.histories, self.statuses, strict=True) if status != "diverged"]
        return min((float(history[cost][-1]) for history in alive), default=math.inf)

    @property
    def status(self) -> str:
        """How the runs ended, in a word; with counts where the seeds differ."""
        counts = {status: self.statuses.count(status) for status in dict.fromkeys(self.statuses)}
        return ", ".join(f"{n} {status}" for status, n in counts.items()) if len(counts) > 1 else self.statuses[0]


@dataclass(frozen=True)
class Verdict:
    """Who reached the tolerance at the least cost, and who was stopped before it had spent as much."""

    first: list[str]
    stopped: list[str]

    @property
    def winner(self) -> str:
        return "undecided" if self.stopped else " = ".join(self.first)


def verdict(entrants: Mapping[str, Entrant], metric: str, tol: float, cost: str) -> Verdict:
    """A method is beaten only if it has spent as much as the first one without reaching the tolerance."""
    found = {title: entrant.cost(metric, tol, cost) for title, entrant in entrants.items()}
    reached = {title: value for title, value in found.items() if value is not None}
    if not reached:
        return Verdict([], [])
    least = min(reached.values())
    first = [title for title, value in reached.items() if value == least]
    stopped = [title for title in entrants if title not in reached and entrants[title].spent(cost) < least]
    return Verdict(first, stopped)
