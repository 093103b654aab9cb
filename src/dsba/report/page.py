"""The page: one HTML file with everything in it, which asks nobody for anything."""

from __future__ import annotations

import html
import json
import math
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from dsba.recorder import History
from dsba.report.figures import AXES, style

if TYPE_CHECKING:
    from dsba.experiments.plan import Case
    from dsba.experiments.results import Results
    from dsba.experiments.spec import Network

SYMBOLS = {
    "o": "circle", "s": "square", "^": "triangle-up", "D": "diamond",
    "P": "cross", "v": "triangle-down", "X": "x", "*": "star",
}  # fmt: skip
DASHES = ("solid", "dash", "dashdot", "dot")


def page(results: Results, live: bool = False) -> str:
    """The HTML text; ``live`` makes it ask its own server for news."""
    from plotly.offline import get_plotlyjs

    assets = files("dsba.report") / "assets"
    content = contents(results, live)
    parts = {
        "title": html.escape(content["title"]),
        "css": (assets / "page.css").read_text(encoding="utf-8"),
        "js": (assets / "page.js").read_text(encoding="utf-8"),
        "library": get_plotlyjs(),
        "data": as_json(content).replace("<", "\\u003c"),  # nothing in a name can end the script
    }
    text = (assets / "page.html").read_text(encoding="utf-8")
    head, *rest = text.split("{{")
    for piece in rest:
        name, _, tail = piece.partition("}}")
        head += parts[name] + tail
    return head


def as_json(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def contents(results: Results, live: bool = False) -> dict[str, Any]:
    """All that the page shows."""
    experiment, environment = results.plan.experiment, results.environment
    runs = len(results.plan.runs)
    return {
        "title": experiment.title,
        "lead": _lead(results),
        "command": environment["command"],
        "versions": environment["versions"],
        "config": experiment.to_toml(),
        "left_out": results.plan.left_out,
        "live": live,
        "finished": runs - results.unfinished,
        "planned": runs,
        "seeds": len(experiment.seeds),
        "axes": AXES,
        "styles": {label: _style(i) for i, label in enumerate(results.labels)},
        "networks": {network.title: _network(network) for network in experiment.network},
        "cases": [_case(results, case) for case in results.cases],
    }


def _lead(results: Results) -> str:
    e = results.plan.experiment
    counts = ((len(e.method), "method"), (len(e.problem), "problem"), (len(e.data), "data set"), (len(e.seeds), "seed"))
    parts = [f"{count} {word}{'s' if count != 1 else ''}" for count, word in counts]
    return f"{', '.join(parts)}; up to {e.stop.max_passes:g} passes over the data."


def _style(index: int) -> dict[str, str]:
    look = style(index)
    return {"color": look["color"], "symbol": SYMBOLS[look["marker"]], "dash": DASHES[index % len(DASHES)]}


def _network(network: Network) -> dict[str, Any]:
    import networkx as nx

    topology = network.topology
    graph = topology.to_networkx()
    layout = nx.circular_layout(graph) if topology.name in ("ring", "complete") else nx.kamada_kawai_layout(graph)
    points = np.array([layout[n] for n in range(topology.n_nodes)])
    span = np.maximum(np.ptp(points, axis=0), 1e-9)
    points = (points - points.min(axis=0)) / span
    return {
        "nodes": topology.n_nodes,
        "edges": [list(edge) for edge in topology.edges],
        "positions": [[_rounded(x), _rounded(y)] for x, y in points],
        "eigenvalues": [_rounded(v) for v in topology.eigenvalues],
        "gamma": _rounded(topology.gamma),
        "diameter": topology.diameter,
    }


def _case(results: Results, case: Case) -> dict[str, Any]:
    from dsba.experiments.results import ship_all

    facts, pooled = results.facts(case), case.pooled
    outcomes = {run.method.title: results.outcomes[run.id] for run in results.runs if run.case is case}
    first = next((o for o in outcomes.values() if "node_rows" in o), {})
    shown = {
        "data set": pooled.data_title,
        "rows × columns": f"{facts['rows']:,} × {facts['columns']:,}",
        "nonzeros per row": facts["nonzeros"] / facts["rows"],
        "labels": facts["binarisation"],
        "test set": facts["test_set"],
        "λ": facts["lam"],
        "split": case.split,
        "reference": f"relative residual {facts['residual']:.1e}",
    }
    return {
        "data": pooled.data_title,
        "problem": pooled.problem.title,
        "network": case.network.title,
        "split": case.split,
        "metric": facts["metric"],
        "certified": facts["certified"],
        "residual": facts["residual"],
        "ship_all": ship_all(facts, case),
        "levels": {name: facts[name] for name in ("auc", "test_auc") if name in facts},
        "facts": {key: value for key, value in shown.items() if value is not None},
        "node_rows": first.get("node_rows"),
        "node_positives": first.get("node_positives"),
        "curves": [
            {
                "method": method,
                "status": outcomes[method]["status"],
                "message": outcomes[method]["message"],
                "mid": _columns(curve.mid),
                "low": curve.low and _columns(curve.low),
                "high": curve.high and _columns(curve.high),
            }
            for method, curve in results.curves(case).items()
        ],
        "tuning": _tuning(results, case),
    }


def _tuning(results: Results, case: Case) -> list[dict[str, Any]]:
    rows = []
    for table in results.tuning_tables(case):
        tried = [f"{_variant(c)} → {_short(c[table['metric']])}" for c in table["candidates"]]
        parameters = ", ".join(f"{key} = {value:.4g}" for key, value in table["parameters"].items())
        rows.append({k: table[k] for k in ("method", "factor", "at_edge")} | {
            "parameters": parameters.replace("step_size", "step"), "candidates": ";  ".join(tried),
        })  # fmt: skip
    return rows


def _variant(candidate: dict[str, Any]) -> str:
    others = [f"{key} = {value:.2g}" for key, value in candidate["parameters"].items() if key != "step_size"]
    return " ".join([_short(candidate["factor"]), *(f"({other})" for other in others)])


def _short(value: float | None) -> str:
    return "diverged" if value is None else f"{value:.2g}"


def _columns(history: History) -> dict[str, list[float | None]]:
    return {name: [_rounded(v) for v in history[name]] for name in history if name not in ("iteration", "objective")}


def _rounded(value: float) -> float | None:
    """Six digits are more than a picture shows."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
