"""From the histories of several seeds to one curve, what a tolerance costs, and who paid least."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dsba.engine.history import History
from dsba.graph.link import Link
from dsba.types import Array

TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-6, 1e-10)
COSTS = ("passes", "work", "rounds", "doubles_max", "bytes_max", "seconds", "cpu_seconds", "time")
DECIDING = ("passes", "doubles_max", "seconds")  # the costs of the table of winners
SHORT = {
    "passes": "passes", "work": "work", "rounds": "rounds", "doubles_max": "DOUBLEs", "bytes_max": "bytes",
    "seconds": "seconds", "cpu_seconds": "CPU seconds", "time": "time (s)",
}  # fmt: skip
NODE_SPEED = 1e9  # multiply-adds a second of one node, where the time is to be the same on every machine
BANDS = {"range": (0.0, 100.0), "quartiles": (25.0, 75.0)}  # percentiles of the seeds that a band goes between
LATENCIES = np.logspace(-6, 1, 71)  # of the map of the fastest method, seconds a round
BANDWIDTHS = np.logspace(4, 11, 71)  # of the map, bits a second
CURVE_ROUNDING = 1e-12  # below this a relative error goes up and down by itself
SAME = 1e-6  # relative to the values: forms of one method round differently
FALLEN_BACK = 10.0  # a run that ends this many times above its best has become unstable


@dataclass(frozen=True)
class Curve:
    """A method's history; the median of several seeds, with a band around it."""

    mid: History
    low: History | None = None
    high: History | None = None


def agree(one: Curve, other: Curve, columns: Sequence[str]) -> bool:
    """Whether two curves are the same but for rounding."""
    pairs = [(one.mid[name], other.mid[name]) for name in columns]
    return all(a.size == b.size and np.allclose(a, b, SAME, CURVE_ROUNDING, equal_nan=True) for a, b in pairs)


def timed(history: History, nodes: int, link: Link) -> History:
    """The history with a column "time": nodes compute side by side, every round waits, every byte takes its time."""
    columns = history.to_dict()
    return History(columns | {"time": seconds(columns, nodes, link.latency, link.bandwidth)})


def seconds(costs: Mapping[str, Any], nodes: int, latency: Any, bandwidth: Any) -> Any:
    """Seconds on a network: a node's share of the computing, a latency for each round, the busiest node's bits."""
    return costs["seconds"] / nodes + costs["rounds"] * latency + 8 * costs["bytes_max"] / bandwidth


def modelled_seconds(record: Mapping[str, float], sweep: float, nodes: int, link: Link) -> float:
    """Seconds on a network from counts alone: ``sweep`` is the multiply-adds of a sweep of the data."""
    return record["work"] * sweep / (nodes * NODE_SPEED) + link.seconds(record["rounds"], record["bytes_max"])


def median_curve(histories: Sequence[History], band: str = "range") -> Curve:
    """The median of the seeds, record by record. It ends where the first seed stops, because fewer remain there."""
    if len(histories) == 1:
        return Curve(histories[0])
    length = min(len(history) for history in histories)
    seeds = {name: np.stack([history[name][:length] for history in histories]) for name in histories[0]}
    percentiles = {name: np.percentile(rows, BANDS[band], axis=0) for name, rows in seeds.items()}
    mid = History({name: np.median(rows, axis=0) for name, rows in seeds.items()})
    return Curve(mid, *(History({name: pair[i] for name, pair in percentiles.items()}) for i in range(2)))


def median_and_band(each: Sequence[float], band: str) -> tuple[float, float, float]:
    """Of the seeds' costs. A seed that did not reach the tolerance counts as the worst of the others in the band."""
    values, middle = np.array(each), float(np.median(each))
    if not math.isfinite(middle):
        return math.nan, math.nan, math.nan
    low, high = np.percentile(np.minimum(values, values[np.isfinite(values)].max()), BANDS[band])
    return middle, float(low), float(high)


def costs(history: History, metric: str, tol: float) -> dict[str, float | None]:
    """Every cost of the history at the first record with ``metric`` at most ``tol``; None where there is none."""
    reached = np.flatnonzero(history[metric] <= tol)
    measured = [cost for cost in COSTS if cost in history]
    return {cost: float(history[cost][reached[0]]) if reached.size else None for cost in measured}


def final(history: History, metric: str) -> float:
    value = float(history[metric][-1])
    return value if math.isfinite(value) else math.inf


def has_fallen_back(history: History, metric: str) -> bool:
    """Whether the run ended far above the best it had reached."""
    best = float(np.nanmin(history[metric], initial=math.inf))
    return final(history, metric) > FALLEN_BACK * max(best, CURVE_ROUNDING)


@dataclass(frozen=True)
class Entrant:
    """A method on a case: the histories of its seeds, and how each ended."""

    histories: Sequence[History]
    statuses: Sequence[str]

    def cost(self, metric: str, tol: float, cost: str) -> float | None:
        """The median over the seeds of what the tolerance cost; None where half of them did not reach it."""
        middle = float(np.median(self.each(metric, tol, cost)))
        return middle if math.isfinite(middle) else None

    def each(self, metric: str, tol: float, cost: str) -> list[float]:
        """What the tolerance cost with every seed; infinite where it was not reached."""
        found = [costs(history, metric, tol)[cost] for history in self.histories]
        return [math.inf if value is None else value for value in found]

    def final(self, metric: str) -> float:
        return float(np.median([final(history, metric) for history in self.histories]))

    def spent(self, cost: str) -> float:
        """The least that a seed had spent when it was stopped; infinite if all diverged."""
        return min((float(history[cost][-1]) for history in self.alive), default=math.inf)

    @property
    def alive(self) -> list[History]:
        """The histories of the seeds that did not diverge."""
        return [h for h, status in zip(self.histories, self.statuses, strict=True) if status != "diverged"]

    @property
    def status(self) -> str:
        """How the runs ended, in a word; with counts where the seeds differ."""
        counts = {status: self.statuses.count(status) for status in dict.fromkeys(self.statuses)}
        return ", ".join(f"{n} {status}" for status, n in counts.items()) if len(counts) > 1 else self.statuses[0]


@dataclass(frozen=True)
class Verdict:
    """Who reached the tolerance at the least cost, and which methods were stopped before they had spent as much."""

    first: list[str]
    stopped: list[str]

    @property
    def winner(self) -> str:
        return "undecided" if self.stopped else " = ".join(self.first)


def verdict(entrants: Mapping[str, Entrant], metric: str, tol: float, cost: str) -> Verdict:
    """A method is beaten only if it has spent as much as the best one and has not reached the tolerance."""
    found = {title: entrant.cost(metric, tol, cost) for title, entrant in entrants.items()}
    reached = {title: value for title, value in found.items() if value is not None}
    if not reached:
        return Verdict([], [])
    least = min(reached.values())
    first = [title for title, value in reached.items() if value == least]
    stopped = [title for title in entrants if title not in reached and entrants[title].spent(cost) < least]
    return Verdict(first, stopped)


def reached_by(entrants: Mapping[str, Entrant], metric: str, tol: float) -> list[str]:
    """The methods that reached the tolerance with half of their seeds."""
    return [title for title, entrant in entrants.items() if entrant.cost(metric, tol, "passes") is not None]


def comparing_tolerance(entrants: Mapping[str, Entrant], metric: str) -> float:
    """Where methods are compared: the tightest tolerance that two reached and that leaves the fewest undecided.

    The loosest one, where fewer than two reached any.
    """
    known = [tol for tol in TOLERANCES if len(reached_by(entrants, metric, tol)) >= min(2, len(entrants))]
    undecided = {tol: sum(bool(verdict(entrants, metric, tol, cost).stopped) for cost in DECIDING) for tol in known}
    return min(reversed(known), key=lambda tol: undecided[tol], default=TOLERANCES[0])


def decided_tolerance(entrants: Mapping[str, Entrant], metric: str, nodes: int) -> float:
    """The tolerance for the map: the tightest of those that leave the fewest links undecided.

    The loosest one, where no link is decided at any.
    """
    undecided = {tol: float((fastest(entrants, metric, tol, nodes) < 0).mean()) for tol in TOLERANCES}
    best = min(reversed(TOLERANCES), key=lambda tol: undecided[tol])
    return best if undecided[best] < 1 else TOLERANCES[0]


def fastest(
    entrants: Mapping[str, Entrant], metric: str, tol: float, nodes: int,
    latency: Array = LATENCIES, bandwidth: Array = BANDWIDTHS,
) -> npt.NDArray[np.int64]:  # fmt: skip
    """Who reaches the tolerance first, by number, for every latency (row) and bandwidth (column).

    -1: no method does, or one that was stopped by its budget might have been faster.
    """
    links = latency[:, None], bandwidth[None, :]
    least = np.full((latency.size, bandwidth.size), math.inf)
    winner, spent = np.full(least.shape, -1), np.full(least.shape, math.inf)
    for number, entrant in enumerate(entrants.values()):
        each = [costs(history, metric, tol) for history in entrant.histories]
        reached = [{name: math.inf if value is None else value for name, value in c.items()} for c in each]
        times = np.median([seconds(c, nodes, *links) for c in reached], axis=0)
        winner, least = np.where(times < least, number, winner), np.minimum(least, times)
        if not np.isfinite(times).all() and entrant.alive:
            spent = np.minimum(spent, np.min([seconds(h.last(), nodes, *links) for h in entrant.alive], axis=0))
    return np.where(np.isfinite(least) & (spent >= least), winner, -1)
