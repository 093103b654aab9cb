"""What the planner expects, beside what runs need: rounds, bytes into the busiest node, seconds.

`python -m benchmarks.plans rivals` (or the name of one) and `python -m benchmarks.plans candidates` add runs to
results/bench/plans, on the sets that are named or on all. A run that is there is not made again.
`python -m benchmarks.plans report` runs nothing: it prints tables of what the files have.

Logistic regression on ten nodes of a random graph, unit rows, lambda = 1/(10 Q), to a gap of 1e-6. Rivals are methods
that are no candidates and show no rows, each with the best of four step sizes in rounds. The time of all is
rounds x latency + bytes x 8 / bandwidth + seconds of the nodes' own work, which is a tenth of what one process needed.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dsba
from benchmarks.measure import machine
from benchmarks.rounds import problem_of
from dsba.algorithms import Algorithm
from dsba.algorithms.costs import Configuration, Estimate
from dsba.algorithms.planner import plan

GAP = 1e-6
SETS = ("rcv1-vw-small", "reuters-moneyfx.trn", "farm-ads", "a9a", "w8a", "news20")
RIVALS = ("d-admm", "lead", "msda", "ssda")
FACTORS = (1.0, 3.0, 0.3, 10.0)
SIZES = (1, 8, 32, 64, 128, 256, 512)
LINKS = (dsba.Link(1e-4, 1e10), dsba.Link(1e-3, 1e9), dsba.Link(0.02, 1e8))
MOST_ROUNDS, MOST_SECONDS = 2000.0, 100.0
OUT = Path("results") / "bench" / "plans"
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

    def run(self, label: str, method: Algorithm, most_rounds: float = MOST_ROUNDS, **more: Any) -> dict[str, Any]:
        """What a method needs; the record of the gap every few rounds, and how it ended."""
        if label not in self.runs:
            if self._star is None:
                self._star = dsba.optimum(self.problem).z
            limits = {"max_passes": None, "max_rounds": most_rounds, "max_seconds": MOST_SECONDS, "gap_tol": GAP}
            result = dsba.solve(self.problem, self.topology, method, reference=self._star, **limits, **more)
            names = ("rounds", "bytes_max", "seconds", "passes", "residual", "gap")
            history = {name: [float(f"{x:.4g}") for x in result.history[name]] for name in names}
            self.runs[label] = {
                "step_size": result.step_size,
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
    """Newton, P-EXTRA and DSBA with compressed rows and several batch sizes, all with automatic step sizes."""
    case.run("newton", dsba.algorithms.Newton())
    case.run("p-extra", dsba.algorithms.get("p-extra", communication="compressed"))
    for b in reversed(SIZES):
        if b <= case.problem.constants.q:
            method = dsba.DSBA(batch_size=b, communication="compressed")
            case.run(f"dsba {b}", method, math.inf if b == 1 else 40 * MOST_ROUNDS / b, record_every=0.5)


def seconds(run: dict[str, Any], link: dsba.Link) -> float:
    """The modelled time of a run to the gap; infinite where it was not reached."""
    if not run["reached"]:
        return math.inf
    return link.seconds(run["rounds"][-1], run["bytes_max"][-1]) + run["seconds"][-1] / 10


def labelled(configuration: Configuration) -> str:
    """The name of the run that a plan's choice stands for."""
    batch = configuration.batch_size
    return configuration.name if batch is None else f"{configuration.name} {batch}"


def of_candidates(case: Case) -> Runs:
    return {label: run for label, run in case.runs.items() if label.split()[0] in ("newton", "p-extra", "dsba")}


def expected(case: Case, link: dsba.Link) -> list[Estimate]:
    """The plan's estimates, the fastest first, of what was run: rows are compressed, and mixings take one round."""
    made, own = plan(case.problem, dsba.Simulator(case.topology), link=link), of_candidates(case)
    kinds = [(estimate.configuration, estimate) for estimate in made.estimates]
    return [e for kind, e in kinds if kind.communication != "dense" and kind.gossip == 1 and labelled(kind) in own]


def expectations(case: Case) -> Iterator[str]:
    """What was expected beside what was needed."""
    for e in expected(case, LINKS[-1]):
        run = of_candidates(case)[labelled(e.configuration)]
        needed = (
            f"{run['rounds'][-1]:.0f}" if run["reached"] else f"gap {run['gap'][-1]:.0e} at {run['rounds'][-1]:.0f}"
        )
        megabytes = f"{e.megabytes:.3g} | {run['bytes_max'][-1] / 1e6:.3g}"
        yield f"| {case.name} | {labelled(e.configuration)} | {e.rounds:.0f} | {needed} | {megabytes} |"


def comparison(case: Case) -> Iterator[str]:
    """The plan's choice beside the best rival and the best candidate."""
    own = of_candidates(case)
    others = {label: run for label, run in case.runs.items() if label not in own}
    for link in LINKS:
        taken = labelled(expected(case, link)[0].configuration)
        mine, cells = seconds(own[taken], link), ""
        for runs in (others, own):
            label, best = min(((x, seconds(run, link)) for x, run in runs.items()), key=lambda pair: pair[1])
            cells += f" {label} | {best:.3g} | {mine / best:.2f} |"
        yield f"| {case.name} | {link} | {taken} | {mine:.3g} |{cells}"


def report(names: Sequence[str]) -> None:
    cases = [Case(name) for name in names]
    print("| set | candidate | rounds expected | needed | MB expected | needed |", "| --- " * 6 + "|", sep="\n")
    print(*(line for case in cases for line in expectations(case)), sep="\n")
    print("\n| set | link | auto takes | s | best rival | s | ratio | best candidate | s | ratio |")
    print("| --- " * 10 + "|", *(line for case in cases for line in comparison(case)), sep="\n")


def main(what: str, names: list[str]) -> None:
    if what == "report":
        return report(names or SETS)
    for name in names or SETS:
        case = Case(name)
        candidates(case) if what == "candidates" else rivals(case, RIVALS if what == "rivals" else [what])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
