"""What a tolerance costs against a setting that the experiment varies, and the map of the fastest method."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dsba.errors import InputError, unknown_name
from dsba.lab.curves import BANDS, COSTS, TOLERANCES, Entrant, fastest
from dsba.lab.figures import SCREEN, FigureSize, add_legend, finish, looks, new_figure, plain
from dsba.lab.finished import FinishedRuns
from dsba.lab.index import ShownCase, ShownMethod, class_name, written

SWEEP_AXES = {
    "N": "nodes N",
    "lam": "regularisation λ",
    "gamma": "spectral gap γ of the network",
    "tolerance": "tolerance",
}
LATENCIES = np.logspace(-6, 1, 71)  # seconds a round
BANDWIDTHS = np.logspace(4, 11, 71)  # bits a second

SweepPoint = tuple[float, float, float, float]  # x, the median over the seeds, and the band
SweepLines = dict[str, list[SweepPoint]]


@dataclass(frozen=True)
class Swept:
    """One set of axes of a sweep."""

    title: str
    lines: SweepLines


def sweep(results: FinishedRuns, x: str, cost: str, tol: float | None, relative_to: str | None) -> list[Swept]:
    """The lines of every panel: the cost of reaching the tolerance against ``x``."""
    if cost not in COSTS:
        raise unknown_name("cost", cost, COSTS)
    options = {name for method in results.index.methods for name in method.settings}
    if x not in SWEEP_AXES and x not in options:
        raise unknown_name("setting to sweep over", x, {*SWEEP_AXES, *options})
    groups: dict[str, SweepLines] = {}
    for case in results.cases:
        title, lines = _title(case, x), _lines(results, case, x, cost, tol)
        for label, points in lines.items():
            groups.setdefault(title, {}).setdefault(label, []).extend(points)
    found = [
        Swept(title, {label: sorted(points) for label, points in lines.items()}) for title, lines in groups.items()
    ]
    return [_relative(panel, relative_to) for panel in found] if relative_to else found


def varied(results: FinishedRuns) -> list[str]:
    """What the cases of an experiment vary over three values or more."""
    values = {x: {_value(results, case, x) for case in results.cases} for x in ("N", "lam", "gamma")}
    return [x for x in ("N", "lam", "gamma") if len(values[x]) >= 3 and not (x == "gamma" and len(values["N"]) >= 3)]


def _lines(results: FinishedRuns, case: ShownCase, x: str, cost: str, tol: float | None) -> SweepLines:
    methods = {method.title: method for method in results.index.methods}
    labels, band = _labels(results.index.methods, x), results.index.band
    metric, lines = results.metric(case), SweepLines()
    for title, entrant in results.entrants(case).items():
        label = labels[title]
        if x == "tolerance":
            lines[label] = [_point(entrant, metric, t, cost, t, band) for t in TOLERANCES]
        elif (value := _value(results, case, x, methods[title])) is not None:
            chosen = tol or tolerance(results)
            lines.setdefault(label, []).append(_point(entrant, metric, chosen, cost, value, band))
    return lines


def tolerance(results: FinishedRuns) -> float:
    """The tightest tolerance that somebody reached on every case."""

    def reached(case: ShownCase, tol: float) -> bool:
        metric = results.metric(case)
        return any(e.cost(metric, tol, "passes") is not None for e in results.entrants(case).values())

    return next((t for t in reversed(TOLERANCES) if all(reached(case, t) for case in results.cases)), TOLERANCES[0])


def _point(entrant: Entrant, metric: str, tol: float, cost: str, x: float, band: str) -> SweepPoint:
    each = np.array(entrant.each(metric, tol, cost))
    if not math.isfinite(float(np.median(each))):
        return x, math.nan, math.nan, math.nan
    low, high = np.percentile(np.where(np.isfinite(each), each, np.nanmax(each[np.isfinite(each)])), BANDS[band])
    return x, float(np.median(each)), float(low), float(high)


def _value(results: FinishedRuns, case: ShownCase, x: str, method: ShownMethod | None = None) -> float | None:
    if x == "N":
        return float(case.nodes)
    if x == "lam":
        return results.facts(case).lam
    if x == "gamma":
        network = results.index.networks[case.network]
        return network.gamma if network else None
    value = method.settings.get(x) if method else None
    return float(value) if isinstance(value, int | float) else None


def _labels(methods: Sequence[ShownMethod], x: str) -> dict[str, str]:
    """The line of every method, by its title. Methods that differ in the swept option alone are one line."""
    swept = {m.title: _besides(m, x) for m in methods if x not in SWEEP_AXES and x in m.settings}
    labels = {method.title: method.title for method in methods}
    for method in (m for m in methods if m.title in swept):
        own, alike = swept[method.title], [swept[m.title] for m in methods if m.algorithm == method.algorithm]
        told = [f"{key} = {written(own[key], 4)}" for key in own if any(other.get(key) != own[key] for other in alike)]
        labels[method.title] = ", ".join([method.algorithm.upper(), *told])
    return labels


def _besides(method: ShownMethod, x: str) -> dict[str, Any]:
    """All that a method is but the swept option: its settings, its step size, its budgets."""
    found = {**json.loads(method.iterates), **method.settings}
    own_object = class_name(found["algorithm"]) != method.algorithm  # its text shows the option, too
    return {key: value for key, value in found.items() if key != x and not (key == "algorithm" and own_object)}


def _title(case: ShownCase, x: str) -> str:
    return f"{case.besides.get(x, f'{case.problem}, {case.network}')}\n{case.data}, split {case.split}"


def _relative(panel: Swept, to: str) -> Swept:
    if to not in panel.lines:
        raise unknown_name("method", to, panel.lines)
    base = {x: mid for x, mid, _, _ in panel.lines[to]}
    lines = {
        label: [(x, *(value / base.get(x, math.nan) for value in rest)) for x, *rest in points]
        for label, points in panel.lines.items()
    }
    return Swept(panel.title, lines)  # type: ignore[arg-type]


def draw_sweep(panels: Sequence[Swept], x: str, about: str, labels: Sequence[str], size: FigureSize = SCREEN) -> Any:
    """A matplotlib figure of a sweep, all axes logarithmic."""
    columns = min(3, len(panels))
    figure = new_figure(size, -(-len(panels) // columns), columns)
    known = list(dict.fromkeys([*labels, *(label for panel in panels for label in panel.lines)]))
    chosen, handles = looks(known), dict[str, Any]()
    grid = figure.subplots(-(-len(panels) // columns), columns, squeeze=False).ravel()
    for axes, panel in zip(grid, panels, strict=False):
        for label, points in panel.lines.items():
            handles[label] = _draw_line(axes, np.array(points, dtype=float), chosen[label])
        axes.set(xscale="log", yscale="log")
        axes.set_title(plain(size.wrapped(panel.title, columns)), fontsize=size.small)
        axes.set_xlabel(SWEEP_AXES.get(x, x), fontsize=size.small)
        _tick_values(axes, panel)
        if x == "tolerance":
            axes.invert_xaxis()
        finish(axes, size)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    grid[0].set_ylabel(about, fontsize=size.small)
    add_legend(figure, {label: handles[label] for label in known if label in handles}, 2 * columns + 1, size)
    return figure


def _draw_line(axes: Any, points: np.ndarray[Any, np.dtype[np.float64]], look: Any) -> Any:
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

    entrants = results.entrants(case)
    chosen = tol or tolerance(results)
    won = fastest(entrants, results.metric(case), chosen, case.nodes, LATENCIES, BANDWIDTHS)
    if (won < 0).all():
        raise InputError(f"nobody is known to be the fastest to reach {chosen:g} anywhere: give runs a larger budget.")
    titles, colors = list(entrants), looks(results.labels)
    palette = ListedColormap(["#ffffff", *(colors[title].color for title in titles)])
    figure = new_figure(size)
    axes = figure.subplots()
    axes.pcolormesh(BANDWIDTHS, LATENCIES, won, cmap=palette, vmin=-1.5, vmax=len(titles) - 0.5, shading="nearest")
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel("bandwidth, bits a second into a node", fontsize=size.small)
    axes.set_ylabel("latency, seconds a round", fontsize=size.small)
    metric = results.metric(case)
    heading = f"fastest to a {metric} of {chosen:g}\n{case.problem}, {case.data}\n{case.network}"
    axes.set_title(plain(size.wrapped(heading)), fontsize=size.small)
    axes.tick_params(labelsize=size.small)
    shown: Mapping[str, Any] = {t: Patch(color=colors[t].color) for n, t in enumerate(titles) if (won == n).any()}
    add_legend(figure, shown, 4, size)
    return figure
