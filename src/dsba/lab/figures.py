"""Figures of histories: progress against passes, against what was communicated, against time."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from textwrap import wrap
from typing import Any, TypeVar
from zlib import crc32

import numpy as np

from dsba.engine.history import History
from dsba.errors import InputError, require_package
from dsba.lab.curves import Curve

AXIS_TITLES = {
    "passes": "effective passes over the data",
    "nominal_passes": "passes, one per iteration of a full-gradient method",
    "work": "multiply-adds, as multiples of a sweep of the data",
    "rounds": "communication rounds",
    "doubles_max": "DOUBLEs received at the busiest node",
    "index_bytes_max": "bytes of indices received at the busiest node",
    "bytes_max": "bytes received at the busiest node",
    "seconds": "seconds (evaluation excluded)",
    "cpu_seconds": "CPU seconds (evaluation excluded)",
    "time": "seconds on the network",
    "gap": "relative gap  (f − f*) / (f(0) − f*)",
    "distance": "relative distance to the solution",
    "consensus": "consensus error",
    "residual": "relative residual",
}
for _name, _words in {"auc": "AUC", "accuracy": "accuracy", "log_loss": "log loss", "loss": "loss"}.items():
    AXIS_TITLES |= {_name: f"{_words} on the data", f"test_{_name}": f"{_words} on the test set"}
LOGARITHMIC = ("gap", "distance", "consensus", "residual")  # errors; all other metrics have a linear axis
# Okabe and Ito's colours can be told apart with any colour vision; markers and dashes also in print.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "P", "v", "X", "*")
DASHES: Sequence[Any] = (
    "-",
    (0, (5, 2)),
    (0, (5, 1, 1, 1)),
    (0, (1, 1)),
    (0, (9, 2)),
    (0, (8, 1.5, 1, 1.5, 1, 1.5)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (12, 3, 3, 3)),
)
LOOKS = 56  # pairs of a colour and a dash: the least common multiple of their numbers
# Methods that have looks of their own, the paper's first; others take what is free.
KNOWN_METHODS = (
    "DSBA", "DSBA-s", "DSA", "DSA-s", "EXTRA", "SSDA", "DLM", "DSBA-c", "DSA-c", "MSDA", "P-EXTRA", "D-ADMM", "DGD",
    "DUAL-AVERAGING", "POINT-SAGA", "SAGA", "SOLAM", "NIDS", "PG-EXTRA", "DIGING", "GT-SAGA", "DVR", "ACC-VR-EXTRA",
    "APAPC", "OPAPC", "VI-PAPC", "VI-PAPC-VR", "LEAD", "DUAL-RBCD", "NEWTON", "NETWORK-NEWTON", "D-BFGS",
    "GOSSIP-PAIRWISE", "PROXSKIP", "EXACT-DIFFUSION", "EXTRAGRADIENT", "PMGT-SAGA", "ACC-GT", "LT-ADMM", "ADOM-PLUS",
    "PUSH-PULL", "PUSH-DIGING",
)  # fmt: skip
FLOOR = 1e-15  # below this a relative error is rounding
CEILING = 10.0  # above this a curve has left the picture
LOG_AXIS = ", log scale"  # after the name of a logarithmic axis of costs
WIDE = 30.0  # curves which end this many times apart need a logarithmic axis


@dataclass(frozen=True)
class Panel:
    """One set of axes: curves by label, ``metric`` against ``x``, vertical marks and levels by label."""

    title: str
    x: str
    metric: str
    curves: Mapping[str, Curve]
    marks: Mapping[str, float] = field(default_factory=dict)
    levels: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class FigureSize:
    """The width of a figure in inches and the size of its font in points; None is a size for screens."""

    width: float | None = None
    font: float = 10.0

    @property
    def small(self) -> float:
        return self.font if self.width else 0.833 * self.font

    def wrapped(self, text: str, columns: int = 1) -> str:
        """A title in lines that fit over one of so many columns."""
        if self.width is None:
            return text
        letters = max(12, int(72 * (self.width / columns - 0.6) / (LETTER * self.font)))
        return "\n".join(part for line in text.splitlines() for part in wrap(line, letters))

    def legend_columns(self, names: Sequence[str], most: int, width: float) -> int:
        """How many entries of a legend stand side by side in a figure of this width in inches."""
        margins = 4.5  # letters, with the line
        entry = (LETTER * max(map(len, names), default=1) + margins) * self.small / 72
        return max(1, min(len(names), int(width / entry), most if self.width is None else len(names)))

    def inches(self, rows: int, columns: int) -> tuple[float, float]:
        if self.width is None:
            return max(3.9 * columns, 5.6), 3.1 * rows + 0.9
        return self.width, rows * (0.72 * self.width / columns + 0.35) + 0.035 * self.font


SomePanel = TypeVar("SomePanel")
LETTER = 0.56  # the width of a letter, of the size of its font
SCREEN = FigureSize()


@dataclass(frozen=True)
class Look:
    """How a method's curves look, in every figure."""

    color: str
    marker: str
    dash: int

    @property
    def pair(self) -> tuple[str, int]:
        """What tells lines apart where they have no marker."""
        return self.color, self.dash

    @classmethod
    def of(cls, number: int) -> Look:
        return cls(COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)], number % len(DASHES))


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """By label. A look belongs to the method's name: the order of the list and other methods do not change it.

    A name that is not known starts from a checksum of itself and takes the next free pair of a colour and a dash,
    if possible one whose colour is free.
    """
    found = {label: Look.of(KNOWN_METHODS.index(label)) for label in labels if label in KNOWN_METHODS}
    for label in sorted(set(labels) - set(found)):
        start = crc32(label.encode())
        pairs, colors = {look.pair for look in found.values()}, {look.color for look in found.values()}
        every = [Look.of((start + k) % LOOKS) for k in range(LOOKS)]
        free = [look for look in every if look.pair not in pairs] or every
        found[label] = next((look for look in free if look.color not in colors), free[0])
    return {label: found[label] for label in labels}


def new_figure(size: FigureSize, rows: int = 1, columns: int = 1) -> Any:
    """An empty figure for a grid of panels, which shows itself in a notebook without pyplot's global state."""
    require_package("a figure", "matplotlib", "lab")
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            return rendered(self, "png")

        def savefig(self, *args: Any, **options: Any) -> None:
            """Publishers want Type 42 fonts: those of Type 3, the default, are refused by many."""
            with rc_context({"pdf.fonttype": 42, "ps.fonttype": 42}):
                super().savefig(*args, **options)

    figure = Picture(figsize=size.inches(rows, columns), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def draw_panels(
    rows: Sequence[Sequence[Panel]], labels: Sequence[str], title: str = "", size: FigureSize = SCREEN,
    constants: Mapping[str, str] | None = None,
) -> Any:  # fmt: skip
    """A matplotlib figure of a grid of panels; ``labels`` lists the methods in the order of the legend.

    The legend shows the ``constants`` of a method behind its name. Panels against the same axis have one kind of axis:
    logarithmic if the curves of one of them need it.
    """
    wide = {panel.x for row in rows for panel in row if _is_wide(panel)}
    titles = [axis_title(row[0].metric) for row in rows]
    figure = draw_grid(rows, labels, partial(_draw, wide=wide), titles, size, constants)
    if title:
        figure.suptitle(plain(title), fontsize=1.2 * size.small)
    return figure


def draw_grid(
    rows: Sequence[Sequence[Any]], labels: Sequence[str], draw: Callable[..., dict[str, Any]],
    y_titles: Sequence[str], size: FigureSize, constants: Mapping[str, str] | None = None,
) -> Any:  # fmt: skip
    """A figure of rows of panels. ``draw`` draws a panel on axes with the looks of the labels, and gives its lines."""
    columns = max(len(row) for row in rows)
    figure = new_figure(size, len(rows), columns)
    chosen, handles = looks(labels), dict[str, Any]()
    for axes_row, row, y_title in zip(figure.subplots(len(rows), columns, squeeze=False), rows, y_titles, strict=True):
        for axes, panel in zip(axes_row, row, strict=False):
            handles |= draw(axes, panel, chosen)
            axes.set_title(plain(size.wrapped(panel.title, columns)))
            finish(axes, size)
        for axes in axes_row[len(row) :]:
            axes.set_visible(False)
        axes_row[0].set_ylabel(y_title, fontsize=size.small)
    order = [label for label in labels if label in handles] + [name for name in handles if name not in labels]
    known = {name: f"{name} ({text})" for name, text in (constants or {}).items() if text}
    most = columns + 1 if known else 2 * columns + 2
    add_legend(figure, {known.get(name, name): handles[name] for name in order}, most, size)
    return figure


def in_rows(panels: Sequence[SomePanel], columns: int) -> list[Sequence[SomePanel]]:
    """The panels in rows of so many."""
    if columns < 1:
        raise InputError(f"ncols must be at least 1, got {columns}.")
    return [panels[i : i + columns] for i in range(0, len(panels), columns)]


def add_legend(figure: Any, handles: Mapping[str, Any], columns: int, size: FigureSize) -> None:
    figure.legend(
        list(handles.values()), [plain(name) for name in handles], loc="outside lower center",
        ncols=size.legend_columns(list(handles), columns, figure.get_figwidth()), frameon=False, fontsize=size.small,
    )  # fmt: skip


def axis_title(name: str) -> str:
    """What an axis is called; a user-defined metric goes by its own name."""
    return AXIS_TITLES.get(name, name.replace("_", " "))


def plain(text: str) -> str:
    """Text that matplotlib shows as it is: a dollar sign begins no formula."""
    return text.replace("$", r"\$")


def rendered(figure: Any, kind: str) -> bytes:
    """The figure as a "png" or "pdf" file; the same figure gives the same bytes."""
    stream = BytesIO()
    figure.savefig(stream, format=kind, dpi=160, metadata={"CreationDate": None} if kind == "pdf" else None)
    return stream.getvalue()


def _draw(axes: Any, panel: Panel, chosen: Mapping[str, Look], wide: Container[str]) -> dict[str, Any]:
    """The panel's lines by label, for the legend; ``wide`` are the axes that are logarithmic in this figure."""
    is_log = panel.x in wide
    handles = {label: _draw_curve(axes, panel, curve, chosen[label], is_log) for label, curve in panel.curves.items()}
    _scale(axes, panel, is_log)
    for label, position in panel.marks.items():
        handles[label] = axes.axvline(position, color="0.45", linewidth=1.2, linestyle=(0, (1, 1)))
    for label, level in panel.levels.items():
        handles[label] = axes.axhline(level, color="0.45", linewidth=1.0, linestyle=(0, (4, 2)))
    axes.set_xlabel(axis_title(panel.x) + (LOG_AXIS if is_log else ""))
    return handles


def finish(axes: Any, size: FigureSize, grid: bool = True) -> None:
    """The sizes of all fonts, and the grid."""
    axes.tick_params(labelsize=size.small)
    for text in (axes.title, axes.xaxis.label, axes.yaxis.label):
        text.set_fontsize(size.small)
    if grid:
        axes.grid(True, which="major", color="0.9", linewidth=0.7)
        axes.spines[["top", "right"]].set_visible(False)


def _scale(axes: Any, panel: Panel, wide: bool) -> None:
    from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullFormatter

    if panel.metric not in LOGARITHMIC:
        axes.set_ylim(*_range_after_start(panel))
    else:
        axes.set_yscale("log")
        axes.set_ylim(top=min(axes.get_ylim()[1], CEILING))
        axes.yaxis.set_major_locator(LogLocator(numticks=7))
        axes.yaxis.set_minor_formatter(NullFormatter())
    if wide:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(numticks=6))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(5))
    times = panel.x in ("seconds", "time")  # plain numbers: 0.8 beside 1.6, not 800 ms beside 1.6 s
    if panel.x not in ("passes", "nominal_passes") and (wide or not times):
        axes.xaxis.set_major_formatter(EngFormatter("s" if times else "", sep="\N{THIN SPACE}"))


def _draw_curve(axes: Any, panel: Panel, curve: Curve, look: Look, wide: bool) -> Any:
    x, y = curve.mid[panel.x], _shown(curve.mid, panel.metric)
    if wide:  # zero has no place on a logarithmic axis
        x = np.where(x > 0, x, np.nan)
    style: dict[str, Any] = {"color": look.color, "marker": look.marker, "linestyle": DASHES[look.dash]}
    (line,) = axes.plot(x, y, markevery=(0, max(1, len(y) // 8)), markersize=4, linewidth=1.5, **style)
    if curve.low is not None and curve.high is not None:
        low, high = _shown(curve.low, panel.metric), _shown(curve.high, panel.metric)
        axes.fill_between(x, low, high, color=look.color, alpha=0.18, linewidth=0)
    return line


def _shown(history: History, metric: str) -> Any:
    """Values for the axis: errors no smaller than rounding; what diverged ends where it left."""
    values = history[metric]
    if metric not in LOGARITHMIC:
        return values
    hidden = (metric == "consensus") & (values == 0.0)  # all nodes start at one point, and zero has no logarithm
    return np.where(np.isfinite(values) & ~hidden, np.maximum(values, FLOOR), np.nan)


def _range_after_start(panel: Panel) -> tuple[float, float]:
    """The range of the axis without the first record, which would hide the rest: AUC starts at one half."""
    values = np.concatenate([curve.mid[panel.metric][1:] for curve in panel.curves.values()])
    values = np.append(values[np.isfinite(values)], list(panel.levels.values()))
    margin = max(0.06 * float(np.ptp(values)), 1e-4)
    return float(values.min()) - margin, float(values.max()) + margin


def _is_wide(panel: Panel) -> bool:
    if panel.x in ("passes", "nominal_passes"):
        return False
    ends = [end for curve in panel.curves.values() if (end := float(np.nanmax(curve.mid[panel.x]))) > 0]
    return bool(ends) and max(ends) > WIDE * min(ends)
