"""All methods on real data: what a relative gap of 1e-6 costs, and who wins.

`DSBA_DATA=folder python -m benchmarks.methods reuters-moneyfx.trn` measures what `benchmarks.tuned` has not measured,
and keeps the table and its sentences in docs/results. `--measured` takes only what is there. benchmarks/methods.json
has what was measured of each method with the present code, so that another machine goes on where one was stopped.
Times are modelled from counts (work, rounds, bytes), so that they are the same on every machine.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from docs.tables import record

import dsba
from benchmarks import tuned
from benchmarks.depends import starts
from benchmarks.tuned import GAP, OUT, SETS, SETTINGS
from dsba import Link
from dsba.lab import plan
from dsba.lab.curves import modelled_seconds
from dsba.lab.index import written
from dsba.lab.reading import read
from dsba.lab.results import ExperimentResults

LINKS = {
    "0.1 ms, 10 Gbit/s": Link(1e-4, 1e10),
    "1 ms, 1 Gbit/s": Link(1e-3, 1e9),
    "20 ms, 100 Mbit/s": Link(2e-2, 1e8),
}
KEPT = Path(__file__).with_suffix(".json")
COUNTS = {"passes": "passes", "work": "work", "rounds": "rounds", "bytes_max": "MB into the busiest node"}
HEADS = [*COUNTS.values(), *(f"s at {link}" for link in LINKS)]


@dataclass(frozen=True)
class Measured:
    """A method: its costs at the gap, one for each head, or what it had spent when it was stopped without it."""

    method: str
    constants: str
    reached: bool
    costs: tuple[float, ...]  # infinite if the method diverged: more spending would not help
    gap: float  # at the end
    better: str = ""  # how many random settings beat the tuner's choice


def measured(results: ExperimentResults, sweep: float, nodes: int, known: dict[str, Any]) -> Measured:
    """The only run of a results folder; ``sweep`` is the multiply-adds of a sweep of the data."""
    (row,), (case,) = results.summary(), results.cases
    reached = row[f"passes_to_{GAP:g}"] is not None
    end = f"to_{GAP:g}" if reached else "spent"
    counts = {name: row[f"{name}_{end}"] for name in COUNTS}
    times = [modelled_seconds(counts, sweep, nodes, link) for link in LINKS.values()]
    costs = (*(counts[name] / (1e6 if name == "bytes_max" else 1.0) for name in COUNTS), *times)
    edge = {name for search in results.searches(case) for name in search.at_edge}
    chosen = [f"{n} {written(v, 4)}{' (edge)' * (n in edge)}" for n, v in known["chosen"].items()]
    better = "" if known["better"] is None else f"{len(known['better'])} of {SETTINGS}"
    if not reached and row["status"] == "diverged":
        costs = (float("inf"),) * len(costs)
    return Measured(row["method"], ", ".join(chosen), reached, costs, row["final"], better)


def table(found: Sequence[Measured]) -> list[list[str]]:
    """Cells, the head first; methods that reached the gap first, by passes; the least of each column in bold."""
    reached = sorted((one for one in found if one.reached), key=lambda one: one.costs)
    least = [min(one.costs[k] for one in reached) if reached else 0.0 for k in range(len(HEADS))]
    lines = [["method", *HEADS, "tuned constants", "random settings better by 10 %"]]
    for one in reached:
        cells = [f"**{_number(c)}**" if c == low else _number(c) for c, low in zip(one.costs, least, strict=True)]
        lines.append([one.method, *cells, one.constants, one.better])
    for one in sorted((one for one in found if not one.reached), key=lambda one: one.gap):
        lines.append([one.method, f"gap {one.gap:.0e}", *[""] * (len(HEADS) - 1), one.constants, one.better])
    return lines


def who_wins(found: Sequence[Measured]) -> list[str]:
    """A sentence for each cost: who paid least, who is next, and which methods were stopped too early to be beaten."""
    return [_sentence(head, k, found) for k, head in enumerate(HEADS)]


def _sentence(head: str, k: int, found: Sequence[Measured]) -> str:
    reached = sorted((one for one in found if one.reached), key=lambda one: one.costs[k])
    if not reached:
        return f"{head}: no method reached the gap."
    least = reached[0].costs[k]
    first = [one.method for one in reached if one.costs[k] == least]
    said = f"{head}: {' and '.join(first)} need{'s' * (len(first) == 1)} the least ({_number(least)})"
    if len(reached) > len(first):
        after = reached[len(first)]
        said += f", before {after.method} ({_number(after.costs[k])}, {after.costs[k] / least:.3g} times as much)"
    early = sorted(one.method for one in found if not one.reached and one.costs[k] < least)
    return said + (f"; stopped before they had spent as much: {', '.join(early)}." if early else ".")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def case_of(data: str) -> tuple[dsba.Problem, dsba.Topology]:
    """The problem that all methods solve, on its graph."""
    case = plan.make(read(tuned.experiment(data, {"algorithm": "dsba"}))).runs[0].case
    return case.build(0), case.network.topology


def keep(data: str, problem: dsba.Problem) -> None:
    """Add what the results folders of a set have to the repository's file, from which other machines go on."""
    known, found = tuned.known(), kept()
    for key in (key for name in tuned.entries() if (key := tuned.key_of(data, name)) in known):
        one = measured(ExperimentResults.load(OUT / key), problem.sweep, problem.n_nodes, known[key])
        found[key] = asdict(one) | {"costs": [cost if math.isfinite(cost) else None for cost in one.costs]}
    current = {tuned.key_of(name, entry) for name in SETS for entry in tuned.entries()}
    KEPT.write_text(json.dumps({key: found[key] for key in sorted(found.keys() & current)}, indent=1) + "\n")


def kept() -> dict[str, dict[str, Any]]:
    """What was measured so far on any machine, by set, method and the code that it depends on."""
    return dict(json.loads(KEPT.read_text())) if KEPT.exists() else {}


def missing(data: str, problem: dsba.Problem, topology: dsba.Topology) -> list[str]:
    """The methods that apply to a set and were not measured with the present code."""
    new = {n: e for n, e in tuned.entries().items() if tuned.key_of(data, n) not in kept()}
    net = dsba.network.Simulator(topology)
    return [n for n, e in new.items() if dsba.algorithms.get(e["algorithm"]).why_not(problem, net) is None]


def all_measured(data: str) -> list[Measured]:
    """What the repository's file has of a set."""
    found = [one for name in tuned.entries() if (one := kept().get(tuned.key_of(data, name)))]
    return [Measured(**one | {"costs": tuple(math.inf if c is None else c for c in one["costs"])}) for one in found]


def main(data: str, run: bool) -> None:
    """Measure what is missing, where it may ``run``, and keep the table if nothing is."""
    problem, topology = case_of(data)
    keep(data, problem)
    if run:
        tuned.measure(data, missing(data, problem, topology))
        keep(data, problem)
    if names := missing(data, problem, topology):
        raise SystemExit(f"not measured on {data} with the present code: {', '.join(names)}")
    inputs = starts("benchmarks.methods", methods={entry["algorithm"] for entry in tuned.entries().values()})
    found, name = all_measured(data), f"methods-{data.partition('-moneyfx')[0]}"
    record(name, f"python -m benchmarks.methods {data}", table(found), inputs, who_wins(found))


if __name__ == "__main__":
    for data in [name for name in sys.argv[1:] if name != "--measured"] or SETS:
        main(data, run="--measured" not in sys.argv[1:])
