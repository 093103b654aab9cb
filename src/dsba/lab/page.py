"""The page: one HTML file with everything in it, which asks no other server for anything."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dsba.engine.history import History
from dsba.errors import require_package
from dsba.lab.curves import COSTS, TOLERANCES, Entrant, comparing_tolerance, costs, decided_tolerance, median_curve
from dsba.lab.figures import AXIS_TITLES, LOGARITHMIC, axis_title, looks
from dsba.lab.finished import FinishedRuns, ship_all
from dsba.lab.index import Candidate, ShownCase, ShownNetwork, written
from dsba.pages.templates import asset, document, filled

SYMBOLS = {
    "o": "circle", "s": "square", "^": "triangle-up", "D": "diamond",
    "P": "cross", "v": "triangle-down", "X": "x", "*": "star",
}  # fmt: skip
PLOTLY_DASHES = ("solid", "dash", "dashdot", "dot", "longdash", "longdashdot", "3px,1px,1px,1px", "12px,3px,3px,3px")
PAGE_POLICY = "script-src 'unsafe-inline'; img-src data: blob:; connect-src 'self'"  # its own server, for news


def page(content: dict[str, Any]) -> str:
    """The HTML text of what the page shows."""
    require_package("the page of a comparison", "plotly", "lab")
    from plotly.offline import get_plotlyjs

    body = filled(asset("dsba.lab", "page.html"), {
        "js": asset("dsba.lab", "page.js"),
        "library": get_plotlyjs(),
        "data": as_json(content).replace("<", "\\u003c"),  # nothing in a name can end the script
    })  # fmt: skip
    return document(html.escape(content["title"]), body, allowed=PAGE_POLICY)


def as_json(content: dict[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def contents(results: FinishedRuns, live: bool = False) -> dict[str, Any]:
    """All that the page shows; ``live`` makes it ask its own server for news."""
    index = results.index
    return {
        **index.model_dump(include={"title", "config", "left_out", "band"}),
        "lead": _lead(results),
        "warnings": results.warnings(),
        "command": index.environment.command,
        "made": _made(results),
        "live": live,
        "finished": len(index.runs) - results.unfinished,
        "planned": len(index.runs),
        "seeds": len(index.seeds),
        "link": vars(index.link),
        "axes": AXIS_TITLES | {name: axis_title(name) for name in index.metrics},
        "logarithmic": LOGARITHMIC,
        "tolerances": TOLERANCES,
        "styles": {
            label: {"color": look.color, "symbol": SYMBOLS[look.marker], "dash": PLOTLY_DASHES[look.dash]}
            for label, look in looks(results.labels).items()
        },
        "networks": {title: network and _network(network) for title, network in index.networks.items()},
        "cases": [_case(results, case) for case in results.cases],
    }


def _lead(results: FinishedRuns) -> str:
    index = results.index
    problems, data = {case.problem for case in index.cases}, {case.data for case in index.cases}
    counts = ((index.methods, "method"), (problems, "problem"), (data, "data set"), (index.seeds, "seed"))
    parts = [f"{len(things)} {word}{'s' if len(things) != 1 else ''}" for things, word in counts]
    return f"{', '.join(parts)}; up to {index.max_passes:g} passes over the data."


def _made(results: FinishedRuns) -> list[str]:
    """Versions, machine, commit, and the digests of data and plugins."""
    environment, index = results.index.environment, results.index
    used = {outcome.versions.get("dsba") for outcome in results.outcomes.values()} - {None}
    others = sorted(str(version) for version in used - {environment.versions.get("dsba")})
    lines = [" · ".join(f"{name} {value}" for name, value in environment.versions.items())]
    lines += [f"Some runs were made by dsba {', '.join(others)}."] if others else []
    lines += [" · ".join(f"{name}: {value}" for name, value in environment.machine.items())]
    lines += [f"Commit {environment.commit}"] if environment.commit else []
    lines += [f"{name}: SHA-256 {digest}" for name, digest in (index.data | index.plugins).items()]
    return [line for line in lines if line]


def _network(network: ShownNetwork) -> dict[str, Any]:
    require_package("the page of a comparison", "networkx", "lab")
    import networkx as nx

    graph = nx.Graph(network.edges)
    graph.add_nodes_from(range(network.nodes))
    layout = nx.circular_layout(sorted(graph)) if network.on_circle else nx.kamada_kawai_layout(graph)
    points = np.array([layout[n] for n in range(network.nodes)])
    points = (points - points.min(axis=0)) / np.maximum(np.ptp(points, axis=0), 1e-9)
    return network.model_dump(include={"nodes", "edges", "diameter"}) | {
        "positions": [[_rounded(x), _rounded(y)] for x, y in points],
        "eigenvalues": [_rounded(v) for v in network.eigenvalues],
        "gamma": _rounded(network.gamma),
    }


def _case(results: FinishedRuns, case: ShownCase) -> dict[str, Any]:
    reference, entrants = results.reference(case), results.entrants(case)
    outcomes = [results.outcomes[run.id] for runs in results.runs_of(case).values() for run in runs]
    first = next((outcome for outcome in outcomes if outcome.node_rows), None)
    shown = {
        "data set": case.data,
        "rows × columns": f"{reference.rows:,} × {reference.columns:,}",
        "nonzeros per row": reference.nonzeros / max(1, reference.rows),
        "labels": reference.binarisation,
        "test set": reference.test_set,
        "λ": reference.lam,
        "split": case.split,
        "reference": f"relative residual {reference.residual:.1e}",
    }
    return {
        **case.titles,
        "nodes": case.nodes,
        **reference.model_dump(include={"metric", "certified", "residual"}),
        "ship_all": ship_all(reference, case),
        "tolerance": TOLERANCES.index(comparing_tolerance(entrants, reference.metric)),
        "map_tolerance": TOLERANCES.index(decided_tolerance(entrants, reference.metric, case.nodes)),
        "levels": reference.levels,
        "facts": {key: value for key, value in shown.items() if value is not None},
        "node_rows": first and first.node_rows,
        "node_positives": first and first.node_positives,
        "curves": [_curve(results, case, title, entrant) for title, entrant in entrants.items()],
        "verdicts": [{c: vars(v) for c, v in results.verdicts(case, tol).items()} for tol in TOLERANCES],
        "tuning": _tuning(results, case),
    }


def _curve(results: FinishedRuns, case: ShownCase, title: str, entrant: Entrant) -> dict[str, Any]:
    curve, metric = median_curve(entrant.histories, results.index.band), results.metric(case)
    messages = [results.outcomes[run.id].message for run in results.runs_of(case)[title]]
    return {
        "method": title,
        "status": entrant.status,
        "message": " / ".join(dict.fromkeys(messages)),
        "constants": results.constants([case]).get(title, ""),
        "runs": results.identifiers(case)[title],
        "costs": [{cost: _rounded(entrant.cost(metric, tol, cost)) for cost in COSTS} for tol in TOLERANCES],
        "reached": [[_parts(costs(history, metric, tol)) for history in entrant.histories] for tol in TOLERANCES],
        "spent": [_parts(history.last()) for history in entrant.alive],
        **{name: one and _columns(one) for name, one in vars(curve).items()},
    }


def _parts(record: Mapping[str, float | None]) -> list[float | None] | None:
    """What the time on a network is made of: seconds, rounds, bytes; None where a tolerance was not reached."""
    return None if record["passes"] is None else [_rounded(record[name]) for name in ("seconds", "rounds", "bytes_max")]


def _tuning(results: FinishedRuns, case: ShownCase) -> list[dict[str, Any]]:
    rows = []
    for search in results.searches(case):
        parameters = ", ".join(f"{key} = {written(value, 4)}" for key, value in search.parameters.items())
        rows.append(search.model_dump(include={"method", "factor", "warnings"}) | {
            "parameters": parameters.replace("step_size", "step"),
            "candidates": [*map(_tried, search.candidates)],
        })  # fmt: skip
    return rows


def _tried(candidate: Candidate) -> str:
    others = [f"({key} = {written(value, 2)})" for key, value in candidate.parameters.items() if key != "step_size"]
    reached = "diverged" if candidate.value is None else f"{candidate.value:.2g}"
    return " ".join([f"{candidate.factor:.2g}", *others, "→", reached])


def _columns(history: History) -> dict[str, list[float | None]]:
    hidden = ("iteration", "objective", "time")  # the page makes the time itself, for any link
    return {name: list(map(_rounded, history[name])) for name in history if name not in hidden}


def _rounded(value: float | None) -> float | None:
    """Six digits are more than a picture shows."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")
