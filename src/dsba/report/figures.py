"""The two kinds of figure of the paper: progress against passes, and against what was communicated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dsba.recorder import History

AXES = {
    "passes": "effective passes over the data",
    "rounds": "communication rounds",
    "doubles_max": "DOUBLEs received at the hottest node",
    "index_bytes_max": "bytes of indices received at the hottest node",
    "bytes_max": "bytes received at the hottest node",
    "seconds": "seconds (evaluation excluded)",
    "gap": "relative gap  (f − f*) / (f(0) − f*)",
    "distance": "relative distance to the saddle point",
    "consensus": "consensus error",
    "residual": "relative residual",
}
# Okabe and Ito's colours can be told apart with any colour vision; markers and dashes also in print.
STYLES: Sequence[dict[str, Any]] = (
    {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    {"color": "#D55E00", "marker": "s", "linestyle": "--"},
    {"color": "#009E73", "marker": "^", "linestyle": "-."},
    {"color": "#CC79A7", "marker": "D", "linestyle": ":"},
    {"color": "#56B4E9", "marker": "v", "linestyle": "-"},
    {"color": "#E69F00", "marker": "P", "linestyle": "--"},
    {"color": "#000000", "marker": "X", "linestyle": "-."},
)
FLOOR = 1e-15  # below this a relative error is rounding


@dataclass(frozen=True)
class Panel:
    """One set of axes: curves by label, the metric shown, vertical marks by label."""

    title: str
    metric: str
    curves: Mapping[str, History]
    marks: Mapping[str, float] = field(default_factory=dict)


def draw_panels(rows: Sequence[Sequence[Panel]], x: str, path: Path, title: str = "") -> Path:
    """Draw a grid of panels against the history column ``x`` and save it at ``path``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = max(len(row) for row in rows)
    figure = Figure(figsize=(3.7 * columns, 3.1 * len(rows) + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    labels = list(dict.fromkeys(label for row in rows for panel in row for label in panel.curves))
    styles = {label: STYLES[i % len(STYLES)] for i, label in enumerate(labels)}
    for axes_row, row in zip(grid, rows, strict=True):
        for axes, panel in zip(axes_row, row, strict=True):
            _draw(axes, panel, x, styles)
    for axes in grid[-1]:
        axes.set_xlabel(AXES[x])
    handles = {h.get_label(): h for axes in grid.flat for h in axes.get_lines() if not h.get_label().startswith("_")}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), frameon=False)
    if title:
        figure.suptitle(title, fontsize="medium")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)
    return path


def _draw(axes: Any, panel: Panel, x: str, styles: Mapping[str, dict[str, Any]]) -> None:
    for label, history in panel.curves.items():
        values = np.maximum(history[panel.metric], FLOOR)
        every = max(1, len(values) // 8)
        axes.plot(history[x], values, label=label, markevery=every, markersize=4, linewidth=1.5, **styles[label])
    from matplotlib.ticker import EngFormatter

    axes.set_yscale("log")
    if x != "passes":
        axes.set_xlim(left=0)
        axes.xaxis.set_major_formatter(EngFormatter(sep=" "))
    for label, position in panel.marks.items():
        axes.axvline(position, color="0.45", linewidth=1.0, linestyle=(0, (1, 1)), label=label)
    axes.set_title(panel.title, fontsize="medium")
    axes.set_ylabel(AXES[panel.metric], fontsize="small")
    axes.grid(True, which="major", color="0.9", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
