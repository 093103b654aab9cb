"""What a tolerance costs against a setting that the experiment varies, and the map of the fastest method."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dsba.errors import InputError, require_known
from dsba.lab.curves import (
    BANDWIDTHS,
    COSTS,
    LATENCIES,
    TOLERANCES,
    decided_tolerance,
    fastest,
    median_and_band,
    reached_by,
)
from dsba.lab.figures import (
    LOG_AXIS,
    SCREEN,
    FigureSize,
    Look,
    add_legend,
    draw_grid,
    finish,
    in_rows,
    looks,
    new_figure,
    plain,
)
from dsba.lab.finished import FinishedRuns
from dsba.lab.index import ShownCase, ShownMethod, class_name, written
from dsba.types import Array

SWEEP_AXES = {
    "N": "nodes N", "lam": "regularisation λ", "kappa": "condition number κ of the problem",
    "gamma": "spectral gap γ of the network", "tolerance": "tolerance",
}  # fmt: skip

SweepLines = dict[str, list[tuple[float, ...]]]  # points: x, the median over the seeds, and the band


@dataclass(frozen=True)
class Swept:
    """One set of axes of a sweep."""

    title: str
    lines: SweepLines


def sweep(results: FinishedRuns, x: str, cost: str, tol: float | None, relative_to: str | None) -> list[Swept]:
    """The lines of every panel: the cost of reaching the tolerance against ``x``."""
    options = {name for method in results.index.methods for name in method.settings}
    for kind, name, known in (("cost", cost, COSTS), ("setting to sweep over", x, {*SWEEP_AXES, *options})):
        require_known(kind, name, known)
    groups: dict[str, SweepLines] = {}
    for case in results.cases:
        title = f"{case.besides.get(x, f'{case.problem}, {case.network}')}\n{case.data}, split {case.split}"
        for label, points in _lines(results, case, x, cost, tol).items():
            known_points = groups.setdefault(title, {}).setdefault(label, [])
            known_points[:] = sorted([*known_points, *points])
    return [Swept(title, _relative(lines, relative_to) if relative_to else lines) for title, lines in groups.items()]


def varied(results: FinishedRuns) -> list[str]:
    """What the cases of an experiment vary over three values or more."""
    found = [x for x in ("N", "lam", "gamma") if len({_value(results, case, x) for case in results.cases}) >= 3]
    return [x for x in found if x != "gamma" or "N" not in found]


def _lines(results: FinishedRuns, case: ShownCase, x: str, cost: str, tol: float | None) -> SweepLines:
    methods, labels = {method.title: method for method in results.index.methods}, _labels(results.index.methods, x)
    lines = SweepLines()
    for title, entrant in results.entrants(case).items():
        value = _value(results, case, x, methods[title])
        points = {tol: tol for tol in TOLERANCES} if x == "tolerance" else {value: tol or tolerance(results)}
        for place, wanted in points.items():
            if place is not None:
                each = entrant.each(results.metric(case), wanted, cost)
                lines.setdefault(labels[title], []).append((place, *median_and_band(each, results.index.band)))
    return lines


def tolerance(results: FinishedRuns) -> float:
    """The tightest tolerance that a method reached on every case."""

    judged = [(results.entrants(case), results.metric(case)) for case in results.cases]
    return next((t for t in reversed(TOLERANCES) if all(reached_by(*case, t) for case in judged)), TOLERANCES[0])


def _value(results: FinishedRuns, case: ShownCase, x: str, method: ShownMethod | None = None) -> float | None:
    network = results.index.networks[case.network]
    reference = results.reference(case)
    values = {
        "N": case.nodes, "lam": reference.lam, "kappa": reference.kappa, "gamma": network.gamma if network else None,
    }  # fmt: skip
    value = values[x] if x in values else method.settings.get(x) if method else None
    return float(value) if isinstance(value, int | float) else None


def _labels(methods: Sequence[ShownMethod], x: str) -> dict[str, str]:
    """The line of every method, by its title. Methods that differ in the swept option alone are one line."""
    swept = {m.title: _besides(m, x) for m in methods if x not in SWEEP_AXES and x in m.settings}
    labels = {method.title: method.title for method in methods}
    for method in (m for m in methods if m.title in swept):
        own, alike = swept[method.title], [swept[m.title] for m in methods if m.algorithm == method.algorithm]
        differing = [key for key in own if any(other.get(key) != own[key] for other in alike)]
        shown = [f"{key} = {written(own[key], 4)}" for key in differing]
        labels[method.title] = ", ".join([method.algorithm.upper(), *shown])
    return labels


def _besides(method: ShownMethod, x: str) -> dict[str, Any]:
    """All that a method is but the swept option: its settings, its step size, its budgets."""
    found = {**json.loads(method.iterates), **method.settings}
    own_object = class_name(found["algorithm"]) != method.algorithm  # its text also shows the option
    return {key: value for key, value in found.items() if key != x and not (key == "algorithm" and own_object)}


def _relative(lines: SweepLines, to: str) -> SweepLines:
    require_known("method", to, lines)
    base = {x: mid for x, mid, *_ in lines[to]}
    return {
        label: [(x, *(value / base.get(x, math.nan) for value in rest)) for x, *rest in points]
        for label, points in lines.items()
    }


def draw_sweep(
    panels: Sequence[Swept], x: str, about: str, labels: Sequence[str], size: FigureSize = SCREEN, columns: int = 3
) -> Any:
    """A matplotlib figure of a sweep, all axes logarithmic."""
    known = list(dict.fromkeys([*labels, *(label for panel in panels for label in panel.lines)]))
    rows = in_rows(panels, columns)
    return draw_grid(rows, known, partial(_draw, x=x), [about] * len(rows), size)


def _draw(axes: Any, panel: Swept, chosen: Mapping[str, Look], x: str) -> dict[str, Any]:
    """The panel's lines by label, for the legend."""
    handles = {label: _draw_line(axes, np.array(points), chosen[label]) for label, points in panel.lines.items()}
    if np.isfinite([point[1] for points in panel.lines.values() for point in points]).any():
        axes.set(xscale="log", yscale="log")  # of no numbers there are no logarithms
    axes.set_xlabel(SWEEP_AXES.get(x, x) + LOG_AXIS)
    _tick_values(axes, panel)
    if x == "tolerance":
        axes.invert_xaxis()
    return handles


def _draw_line(axes: Any, points: Array, look: Look) -> Any:
    x, mid, low, high = points.T
    (line,) = axes.plot(x, mid, color=look.color, marker=look.marker, markersize=4, linewidth=1.4)
    if (high > low).any():
        axes.fill_between(x, low, high, color=look.color, alpha=0.18, linewidth=0)
    return line


def _tick_values(axes: Any, panel: Swept) -> None:
    """The swept values themselves, where they are few."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    values = sorted({point[0] for points in panel.lines.values() for point in points})
    if len(values) <= 7:
        axes.xaxis.set_major_locator(FixedLocator(values))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())


# The map -------------------------------------------------------------------------------------------


def draw_map(results: FinishedRuns, case: ShownCase, tol: float | None, size: FigureSize = SCREEN) -> Any:
    """Who is the fastest, by the latency and the bandwidth of the links; white where it is undecided."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    entrants, metric = results.entrants(case), results.metric(case)
    chosen = tol or decided_tolerance(entrants, metric, case.nodes)
    won = fastest(entrants, metric, chosen, case.nodes)
    if (won < 0).all():
        raise InputError(f"no method is known to reach {chosen:g} first anywhere: give runs a larger budget.")
    titles, colors = list(entrants), looks(results.labels)
    palette = ListedColormap(["#ffffff", *(colors[title].color for title in titles)])
    figure = new_figure(size)
    axes = figure.subplots()
    axes.pcolormesh(BANDWIDTHS, LATENCIES, won, cmap=palette, vmin=-1.5, vmax=len(titles) - 0.5, shading="nearest")
    labels = {"xlabel": "bandwidth, bits a second into a node", "ylabel": "latency, seconds a round"}
    axes.set(xscale="log", yscale="log", **labels)
    heading = f"fastest to a {metric} of {chosen:g}\n{case.problem}, {case.data}\n{case.network}"
    axes.set_title(plain(size.wrapped(heading)))
    shown = {t: Patch(color=colors[t].color) for n, t in enumerate(titles) if (won == n).any()}
    finish(axes, size, grid=False)
    add_legend(figure, shown, 4, size)
    return figure
