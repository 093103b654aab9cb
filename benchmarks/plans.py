"""What the planner expects, beside what runs need: rounds, bytes into the busiest node, seconds.

`python -m benchmarks.plans rivals` (or the name of one) and `python -m benchmarks.plans candidates` add runs to
results/bench/plans, on the sets that are named or on all. A run that is there is not made again.
`python -m benchmarks.plans report` runs nothing: it keeps tables of what the files have in docs/results.

Logistic regression on ten nodes of a random graph, unit rows, lambda = 1/(10 Q), to a gap of 1e-6. Rivals are methods
that are no candidates and show no rows, each with the best of four step sizes in rounds. The time of all is that of
whole runs: rounds x latency + bytes x 8 / bandwidth + seconds of the nodes' own work, which is a tenth of the
processor's seconds that one process needed, and the time to read the compressed rows of neighbours, which the simulator
does not do. Of a run that ended before the gap, the time so far is a lower bound.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from docs.tables import record

import dsba
from benchmarks.depends import starts
from benchmarks.measure import machine
from benchmarks.rounds import TITLES, problem_of
from dsba.algorithms import Algorithm
from dsba.algorithms.costs import COMPRESSED, Configuration, Estimate
from dsba.algorithms.planner import MethodPlan, plan

GAP = 1e-6
SETS = ("rcv1-vw-small", "reuters-moneyfx.trn", "farm-ads", "a9a", "w8a", "news20")
RIVALS = ("d-admm", "lead", "msda", "ssda")
FACTORS = (1.0, 3.0, 0.3, 10.0)
SIZES = (32, 64, 128, 256, 512)
LINKS = (dsba.Link(1e-4, 1e10), dsba.Link(1e-3, 1e9), dsba.Link(0.02, 1e8))
MOST_ROUNDS, MOST_SECONDS = 2000.0, 60.0
OUT = Path("results") / "bench" / "plans"
READING = 3.5e-9  # seconds of the processor for a coordinate of a compressed row, from its bytes
STARTS = starts("benchmarks.plans", methods=("auto", "dsba", "newton", "p-extra", *RIVALS))
Runs = dict[str, dict[str, Any]]


def load(name: str) -> Runs:
    """The runs on a set that were made so far."""
    path = OUT / f"{name}.json"
    return json.loads(path.read_text())["runs"] if path.exists() else {}


class Case:
    """A set, its solution and its runs, each made when it is first asked for."""

    def __init__(self, name: str) -> None:
        self.name, self.runs = name, load(name)
        self.problem, self.topology = problem_of(name, "logistic"), dsba.Topology.random(10, 0.4, seed=0)
        self._star: Any = None

    def run(
        self, label: str, method: Algorithm, most_rounds: float = MOST_ROUNDS, gossip: int = 1, **more: Any
    ) -> dict[str, Any]:
        """What a method needs; the record of the gap every few rounds, and how it ended."""
        if label not in self.runs:
            if self._star is None:
                self._star = dsba.optimum(self.problem).z
            limits = {"max_passes": None, "max_rounds": most_rounds, "max_seconds": MOST_SECONDS, "gap_tol": GAP}
            begun, cpu = time.perf_counter(), time.process_time()
            topology = self.topology if gossip == 1 else self.topology.chebyshev(gossip)
            result = dsba.solve(self.problem, topology, method, reference=self._star, **limits, **more)
            share = (time.process_time() - cpu) / (time.perf_counter() - begun)
            names = ("rounds", "bytes_max", "seconds", "passes", "residual", "gap")
            history = {name: [float(f"{x:.4g}") for x in result.history[name]] for name in names}
            self.runs[label] = {
                "step_size": result.step_size,
                "share": min(1.0, share),
                "reached": bool(result.history["gap"][-1] <= GAP),
                **history,
            }
            OUT.mkdir(parents=True, exist_ok=True)
            (OUT / f"{self.name}.json").write_text(json.dumps({"machine": machine(), "runs": self.runs}, indent=0))
            last = {name: history[name][-1] for name in names}
            print(self.name, label, f"{result.step_size:.3g}", last, flush=True)
        return self.runs[label]


def rivals(case: Case, names: Sequence[str] = RIVALS) -> None:
    """Every rival with four step sizes; none goes on beyond the best in rounds."""
    for name in names:
        method, best = dsba.algorithms.get(name), MOST_ROUNDS
        alpha = method.resolved(case.problem, case.topology).alpha
        for factor in FACTORS:
            run = case.run(f"{name} x {factor:g}", dsba.algorithms.get(name, step_size=factor * alpha), best)
            best = min(best, run["rounds"][-1]) if run["reached"] else best


def candidates(case: Case) -> None:
    """What plans take, then Newton, P-EXTRA and DSBA with compressed rows and several batch sizes."""
    for link in LINKS:
        own(case, plan(case.problem, dsba.Simulator(case.topology), link=link).chosen)
    own(case, Configuration("newton"))
    own(case, Configuration("p-extra", None, COMPRESSED))
    for b in reversed(SIZES):
        if b <= case.problem.constants.q:
            own(case, Configuration("dsba", b, COMPRESSED))


def own(case: Case, kind: Configuration) -> None:
    """A run of a candidate with its automatic step size, as "auto" makes it."""
    estimate = Estimate(kind, 0, 0, 0, 0)
    method = dsba.algorithms.get(MethodPlan(kind, "", (estimate,)))
    most, more = MOST_ROUNDS, {}
    if kind.batch_size is not None:
        most, more = (math.inf if kind.batch_size == 1 else 40 * MOST_ROUNDS / kind.batch_size), {"record_every": 0.5}
    case.run(str(kind), method, most, kind.gossip, **more)


def seconds(case: Case, label: str, link: dsba.Link) -> float:
    """The modelled time of a whole run."""
    run = case.runs[label]
    rounds, received, spent = (run[name][-1] for name in ("rounds", "bytes_max", "seconds"))
    packed = COMPRESSED in label or label.startswith("lead")
    reading = packed * READING * rounds * float(case.topology.degrees.max()) * case.problem.dim
    return link.seconds(rounds, received) + run["share"] * spent / 10 + reading


def of_candidates(case: Case) -> Runs:
    return {label: run for label, run in case.runs.items() if label.split()[0] in ("newton", "p-extra", "dsba")}


def best(case: Case, runs: Runs, link: dsba.Link) -> tuple[str, float]:
    """The label of the fastest run, with its time; a bound of its time, and a mark, where a limit ended it."""
    found = []
    for label, run in runs.items():
        ended = run["rounds"][-1] >= MOST_ROUNDS or run["seconds"][-1] >= MOST_SECONDS
        if run["reached"] or ended:  # others were stopped, since their rounds were above those of the best
            found.append((label if run["reached"] else f"{label} (not reached)", seconds(case, label, link)))
    return min(found, key=lambda pair: pair[1])


def expectations(case: Case) -> Iterator[list[str]]:
    """What was expected beside what was needed, at the slowest link."""
    made, runs = plan(case.problem, dsba.Simulator(case.topology), link=LINKS[-1]), of_candidates(case)
    for estimate in made.estimates:
        if run := runs.get(str(estimate.configuration)):
            rounds = f"{run['rounds'][-1]:.0f}"
            needed = rounds if run["reached"] else f"gap {run['gap'][-1]:.0e} at {rounds}"
            megabytes = f"{estimate.megabytes:.3g}", f"{run['bytes_max'][-1] / 1e6:.3g}"
            title = TITLES.get(case.name, case.name)
            yield [title, str(estimate.configuration), f"{estimate.rounds:.0f}", needed, *megabytes]


def comparison(case: Case) -> Iterator[list[str]]:
    """The plan's choice beside the best rival and the best candidate."""
    runs = of_candidates(case)
    others = {label: run for label, run in case.runs.items() if label not in runs}
    for link in LINKS:
        taken = str(plan(case.problem, dsba.Simulator(case.topology), link=link).chosen)
        mine, cells = seconds(case, taken, link), []
        for group in (others, runs):
            label, least = best(case, group, link)
            cells += [label, f"{least:.3g}", f"{mine / least:.2f}"]
        yield [TITLES.get(case.name, case.name), str(link), taken, f"{mine:.3g}", *cells]


def report(names: Sequence[str]) -> None:
    """Tables of the documentation, if all sets are asked for."""
    cases = [Case(name) for name in names]
    head = ["set", "candidate", "rounds expected", "needed", "MB expected", "needed"]
    tables = {"plans-expected": [head, *(line for case in cases for line in expectations(case))]}
    head = ["set", "link", "auto takes", "s", "best rival", "s", "ratio", "best candidate", "s", "ratio"]
    tables["plans-compared"] = [head, *(line for case in cases for line in comparison(case))]
    for name, table in tables.items():
        print(name, *(" | ".join(line) for line in table), sep="\n")
        if set(names) == set(SETS):
            record(name, "python -m benchmarks.plans report", table, STARTS)


def main(what: str, names: list[str]) -> None:
    if what == "report":
        return report(names or SETS)
    for name in names or SETS:
        case = Case(name)
        candidates(case) if what == "candidates" else rivals(case, RIVALS if what == "rivals" else [what])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
