"""The tables of docs/reproduction.md about the paper's experiments, made of their results folders.

`DSBA_DATA=folder python -m benchmarks.paper` runs the experiments, or goes on where they were stopped, in
results/bench/paper, and keeps the tables in docs/results. After an edit of code that their numbers depend on they begin
anew. News20-binary has one seed, the other sets have three, and cells are their medians.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

import numpy as np
from docs.tables import record

import dsba
from benchmarks.communication import all_data_once
from benchmarks.depends import code_of, starts
from benchmarks.measure import machine
from benchmarks.rounds import OUT
from dsba.engine.history import History
from dsba.lab import paper, plan, run
from dsba.lab.jobs import Case
from dsba.lab.spec import Experiment

GAP = 1e-6
NEAR = 1e-3
EXPERIMENTS = {"binary": (["news20.binary"], [1]), "text": (["news20", "reuters-moneyfx.trn"], [1, 2, 3])}
TITLES = {"news20.binary": "News20-binary", "news20": "News20", "reuters-moneyfx.trn": "Reuters money-fx"}
FORMS = {"auc": "centred", "auc-paper": "the paper's own"}
METHODS = {"objective": ("DSBA", "DSA", "SSDA", "DLM", "EXTRA"), "auc": ("DSBA", "DSA", "EXTRA")}
FEW_PASSES, MANY_PASSES, HIGH = (1, 2, 5, 60), (20, 40, 60), 0.999
COMMAND = "python -m benchmarks.paper"
Cells = list[list[str]]


def experiment(name: str) -> Experiment:
    """Every method tuned; each run to the gap or 60 passes."""
    data, seeds = EXPERIMENTS[name]
    return paper(data, max_passes=60, gap_tol=GAP, tune_passes=40, seeds=seeds)


class Finished:
    """The histories of finished experiments by data, operator and method, in the order of their seeds."""

    def __init__(self) -> None:
        self.histories: dict[tuple[str, str, str], list[History]] = {}
        self.cases: dict[tuple[str, str], Case] = {}

    def add(self, spec: Experiment, histories: dict[str, History]) -> None:
        for one in plan.make(spec).runs:
            if one.id not in histories:
                continue  # the method does not apply
            key = one.case.pooled.data.name, one.case.pooled.problem.operator
            self.histories.setdefault((*key, one.method.title), []).append(histories[one.id])
            self.cases[key] = one.case

    @property
    def data(self) -> list[str]:
        return list(dict.fromkeys(name for name, _, _ in self.histories))

    def middle(self, key: tuple[str, str, str], of: Callable[[History], float]) -> float:
        """The median over the seeds; infinite where most runs never came there."""
        return median(of(history) for history in self.histories[key])


def until(column: str, metric: str, goal: float) -> Callable[[History], float]:
    """What a history had spent when its metric first was as small as the goal (AUC: as large)."""

    def spent(history: History) -> float:
        values = history[metric]
        there = np.flatnonzero(values >= goal if metric == "auc" else values <= goal)
        return float(history[column][there[0]]) if there.size else float("inf")

    return spent


def after(passes: float, metric: str) -> Callable[[History], float]:
    """A metric at the first record from some passes on, or at the end."""

    def value(history: History) -> float:
        place = min(int(np.searchsorted(history["passes"], passes - 1e-9)), len(history[metric]) - 1)
        return float(history[metric][place])

    return value


def of_passes(found: Finished) -> Cells:
    """Passes to the two gaps, or the gap at the end."""

    def cell(key: tuple[str, str, str]) -> str:
        near, there = (found.middle(key, until("passes", "gap", goal)) for goal in (NEAR, GAP))
        end = f"{found.middle(key, after(np.inf, 'gap')):.1e}"
        if np.isinf(near):
            return end
        return f"{near:.0f}, then {end}" if np.isinf(there) else f"{near:.0f}, {there:.0f}"

    methods = METHODS["objective"]
    return [["", *methods]] + [
        [f"{operator}, {TITLES.get(name, name)}", *(cell((name, operator, method)) for method in methods)]
        for operator in ("ridge", "logistic")
        for name in found.data
    ]


def of_auc(found: Finished) -> Cells:
    """AUC on the data after a few passes, centred components."""
    lines = [["AUC on the data after", "1 pass", *map(str, FEW_PASSES[1:]), f"passes to {HIGH}"]]
    for name in found.data:
        for method in METHODS["auc"]:
            key = name, "auc", method
            high = found.middle(key, until("passes", "auc", HIGH))
            cells = [f"{found.middle(key, after(passes, 'auc')):.4f}" for passes in FEW_PASSES]
            lines.append([f"{TITLES.get(name, name)}, {method}", *cells, "" if np.isinf(high) else f"{high:.0f}"])
    return lines


def of_distances(found: Finished) -> Cells:
    """Relative distances to the saddle point, with both forms of the components."""
    lines = [["passes", *map(str, MANY_PASSES)]]
    for name in found.data:
        for operator, form in FORMS.items():
            for method in ("DSBA", "DSA"):
                key = name, operator, method
                cells = [f"{found.middle(key, after(passes, 'distance')):.2g}" for passes in MANY_PASSES]
                lines.append([f"{TITLES.get(name, name)}, {form}, {method}", *cells])
    return lines


def of_doubles(found: Finished) -> Cells:
    """DOUBLEs received at the busiest node until the gap."""
    lines = [["until the gap is", "DSBA", "DSBA-s", "ratio", "all data shipped once"]]
    for operator in ("logistic", "ridge"):
        for name in found.data:
            dense, sparse = (
                found.middle((name, operator, method), until("doubles_max", "gap", GAP))
                for method in ("DSBA", "DSBA-s")
            )
            counts = [f"{dense:.1e}", f"{sparse:.1e}", f"{dense / sparse:.3g}"]
            cells = ["not reached", "", ""] if np.isinf(dense) or np.isinf(sparse) else counts
            shipped = f"{all_data_once(found.cases[name, operator].build(0))[0]:.1e}"
            lines.append([f"{GAP:g}, {operator}, {TITLES.get(name, name)}", *cells, shipped])
    return lines


TABLES: dict[str, tuple[Callable[[Finished], Cells], Sequence[str], Sequence[str]]] = {
    "paper-passes": (of_passes, ("dsba", "dsa", "ssda", "dlm", "extra"), ("ridge", "logistic")),
    "paper-auc": (of_auc, ("dsba", "dsa", "extra"), ("auc",)),
    "paper-auc-distance": (of_distances, ("dsba", "dsa"), ("auc",)),
    "paper-doubles": (of_doubles, ("dsba",), ("ridge", "logistic")),
}


def inputs(methods: Sequence[str], losses: Sequence[str]) -> list[str]:
    return starts("benchmarks.paper", methods=methods, losses=losses)


def keep(found: Finished) -> None:
    for name, (made, methods, losses) in TABLES.items():
        record(name, COMMAND, made(found), inputs(methods, losses))


if __name__ == "__main__":
    finished = Finished()
    print(machine(), f"dsba {dsba.__version__}")
    code = code_of(inputs(("dsba", "dsa", "ssda", "dlm", "extra"), ("ridge", "logistic", "auc")))
    for one in EXPERIMENTS:
        finished.add(experiment(one), run(experiment(one), OUT / "paper" / f"{one}-{code}").histories)
    keep(finished)
