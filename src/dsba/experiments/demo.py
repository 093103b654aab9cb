"""DSBA against DSA, three problems, embedded data, and the paper's two kinds of figure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dsba import data
from dsba.engine import Result, solve
from dsba.problem import Problem
from dsba.reference import optimum
from dsba.report.figures import Panel, draw_panels
from dsba.topology import Topology

PROBLEMS = ("ridge", "logistic", "auc")
METHODS = {"DSBA": "dsba", "DSA": "dsa"}
DATA = {"breast-cancer": "breast cancer (real)", "synthetic-text": "text-like (synthetic)"}


def run_demo(out: Path, max_passes: float = 60, say: Callable[[str], None] = print) -> list[Path]:
    """Run the comparison, write the figures into ``out`` and return their paths."""
    topology = Topology.random(10, 0.4, seed=0)
    panels = [[_panel(dataset, name, topology, max_passes, say) for name in PROBLEMS] for dataset in DATA]
    title = "N = 10 nodes, random graph (p = 0.4), λ = 1/(10 Q)"
    return [
        draw_panels(panels, "passes", out / "gap-against-passes.png", title),
        draw_panels(panels, "doubles_max", out / "gap-against-doubles.png", title),
    ]


def _panel(dataset: str, operator: str, topology: Topology, max_passes: float, say: Callable[[str], None]) -> Panel:
    problem = Problem.from_arrays(*data.load(dataset), operator=operator, n_nodes=topology.n_nodes)
    z_star, residual = optimum(problem)
    metric = "gap" if problem.has_objective else "distance"
    curves = {}
    for label, algorithm in METHODS.items():
        result = solve(problem, topology, algorithm, max_passes=max_passes, reference=z_star)
        curves[label] = result.history
        say(_line(DATA[dataset], operator, label, metric, result))
    say(f"  reference certified to a relative residual of {residual:.1e}")
    return Panel(f"{operator}, {DATA[dataset]}", metric, curves)


def _line(dataset: str, operator: str, label: str, metric: str, result: Result) -> str:
    return (
        f"{dataset:22s} {operator:9s} {label:5s} {metric} {result.history[metric][-1]:.1e} "
        f"after {result.passes:.0f} passes, {result.seconds:.2f} s"
    )
