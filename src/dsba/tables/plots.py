"""Plots for papers as PDF, SVG or PNG files: forest plots, survival curves, paths of elastic nets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dsba.errors import InputError, require_package

if TYPE_CHECKING:
    import pandas as pd

    from dsba.tables.elastic_net import ElasticNetPath
    from dsba.tables.meta import MetaAnalysis
    from dsba.tables.survival import SurvivalCurves

# The same figure gives the same file: no dates.
METADATA: dict[str, dict[str, None]] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": {}}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # Okabe and Ito
INCH = 0.3  # of a line in a forest plot, and of a group under survival curves
NAMED_LINES = 10  # more lines of a path have no names
SQUARES = (3.0, 9.0)  # points of the marks of the lightest and the heaviest site
RATIO_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0)
MOST_TICKS = 8
WIDEST = 0.3  # of the range of the sites' intervals: a prediction interval is drawn so far beyond it


def forest(frame: pd.DataFrame, label: str, file: str | Path, ratios: bool) -> None:
    """A line for each row of ``frame`` (index: names; estimate, low, high), the first one at the top.

    A logarithmic axis for ``ratios``. The numbers stand beside the lines.
    """
    figure, axes = _figure(file, 0.9 + INCH * len(frame))
    at = -np.arange(len(frame))
    _intervals(axes, frame, at)
    _finish_forest(axes, frame, at, label, ratios)
    _save(figure, file)


def meta_forest(found: MetaAnalysis, label: str, file: str | Path, ratios: bool) -> None:
    """The sites, in squares that grow with their weights, and the common effect as a diamond below.

    With a variance between sites the diamond lies on the prediction interval of another site.
    """
    frame = found.to_frame().rename(columns={"lower": "low", "upper": "high"})[["estimate", "low", "high"]]
    shares = {site: f"{site} ({share:.0f} %)" for site, share in zip(found.sites, found.weights, strict=True)}
    frame.index = [*shares.values(), f"All sites ({found.method})"]
    predicted = found.prediction() if found.tau2 > 0.0 and len(found.sites) > 2 else None
    if ratios:
        frame, predicted = np.exp(frame), None if predicted is None else tuple(np.exp(predicted))
    figure, axes = _figure(file, 1.3 + INCH * len(frame))
    at = -np.arange(len(frame)) - 0.3 * (np.arange(len(frame)) == len(frame) - 1)
    _intervals(axes, frame[:-1], at[:-1], np.array(found.weights))
    middle, low, high = frame.iloc[-1]
    reach = None if predicted is None else _prediction(axes, frame, predicted, at[-1], ratios)
    axes.fill([low, middle, high, middle], at[-1] + np.array([0, 0.3, 0, -0.3]), color=COLOURS[1], zorder=3)
    axes.axvline(middle, color=COLOURS[1], linewidth=0.8, linestyle=(0, (3, 3)), zorder=0)
    axes.axhline(at[-1] + 0.65, color="0.8", linewidth=0.8)
    notes = f"I² = {found.I2:.0f} %, τ² = {found.tau2:.3g}, Q = {found.Q:.3g} (p = {found.Q_p:.2g})"
    if predicted is not None:
        notes += "\nthin line: prediction interval of another site, {:.2f} to {:.2f}".format(*predicted)
    _finish_forest(axes, frame, at, f"{label}\n{notes}", ratios, reach)
    _save(figure, file)


def _prediction(axes: Any, frame: pd.DataFrame, predicted: Sequence[float], at: float, ratios: bool) -> list[float]:
    """The line of the prediction interval, and where it ends: with few sites it is too wide, and ends in arrows."""
    shown = np.append(frame.to_numpy().ravel(), 1.0 if ratios else 0.0)
    low, high = (np.log(end) if ratios else end for end in (shown.min(), shown.max()))
    bounds = np.array([low - WIDEST * (high - low), high + WIDEST * (high - low)])
    reach = np.clip(predicted, *(np.exp(bounds) if ratios else bounds)).tolist()
    axes.plot(reach, [at] * 2, color=COLOURS[1], linewidth=1.2, solid_capstyle="butt")
    for end, whole, mark in zip(reach, predicted, "<>", strict=True):
        if end != whole:
            axes.plot([end], [at], mark, color=COLOURS[1], markersize=5)
    return reach


def _intervals(axes: Any, frame: pd.DataFrame, at: Any, weights: Any = None) -> None:
    axes.hlines(at, frame["low"].fillna(frame["estimate"]), frame["high"].fillna(frame["estimate"]), color="0.25")
    shares = np.full(len(frame), 0.5) if weights is None else np.sqrt(weights / weights.max())
    small, large = SQUARES
    axes.scatter(frame["estimate"], at, (small + (large - small) * shares) ** 2, c=COLOURS[0], marker="s", zorder=3)


def _finish_forest(
    axes: Any, frame: pd.DataFrame, at: Any, label: str, ratios: bool, reach: Sequence[float] | None = None
) -> None:  # fmt: skip
    """The line of no effect, names to the left and numbers to the right of the lines."""
    axes.axvline(1.0 if ratios else 0.0, color="0.6", linewidth=1, zorder=0)
    axes.set_yticks(at, [_plain(str(name)) for name in frame.index])
    axes.set_ylim(min(at, default=0.0) - 0.7, 0.7)
    axes.set_xlabel(_plain(label))
    if ratios:
        _ratio_axis(axes, [*frame.to_numpy().ravel(), *(reach or ())])
    rounded = frame.to_numpy().round(2) + 0.0  # no -0.00
    texts = [f"{e:.2f}" if np.isnan(low) else f"{e:.2f} ({low:.2f} to {high:.2f})" for e, low, high in rounded]
    right = axes.secondary_yaxis("right")
    right.set_yticks(at, texts)
    right.tick_params(length=0)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    right.spines["right"].set_visible(False)


def _ratio_axis(axes: Any, values: Sequence[float]) -> None:
    """A logarithmic axis whose ticks are ratios that people know."""
    from matplotlib.ticker import FixedLocator, NullLocator

    known = [value for value in values if np.isfinite(value) and value > 0.0]
    low, high = min(1.0, *known) / 1.1, max(1.0, *known) * 1.1
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    ticks = [tick for tick in RATIO_TICKS if low <= tick <= high]
    while len(ticks) > MOST_TICKS:
        ticks = [tick for k, tick in enumerate(ticks) if (k - ticks.index(1.0)) % 2 == 0]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")


def survival(found: SurvivalCurves, file: str | Path, times: Sequence[float] | None) -> None:
    """Steps with 95 % bands, and the numbers at risk at the ticks below."""
    groups = len(found.curves)
    figure, axes = _figure(file, 4.2 + INCH * groups)
    handles = {}
    for k, (group, curve) in enumerate(found.curves.items()):
        colour = COLOURS[k % len(COLOURS)]
        time, share, low, high = (
            np.concatenate([[first], curve[name]])
            for name, first in (("time", 0.0), ("survival", 1.0), ("lower", 1.0), ("upper", 1.0))
        )
        style = "-" if k < len(COLOURS) else "--"
        (handles[group],) = axes.step(time, share, where="post", color=colour, linestyle=style)
        axes.fill_between(time, low, high, step="post", color=colour, alpha=0.15, linewidth=0)
    last = max(float(curve["time"].iloc[-1]) for curve in found.curves.values())
    axes.set(xlim=(0.0, last), ylim=(0.0, 1.02), ylabel="survival", xlabel="time")
    axes.spines[["top", "right"]].set_visible(False)
    ticks = [tick for tick in (axes.get_xticks() if times is None else times) if 0.0 <= tick <= last]
    axes.set_xticks(ticks)
    if groups > 1:
        names, title = [_plain(str(group)) for group in found.curves], _plain(found.column or "")
        axes.legend(list(handles.values()), names, title=title, frameon=False)
    if found.test is not None:
        chance = "p < 0.001" if found.test.p < 0.001 else f"p = {found.test.p:.3f}"
        axes.text(0.02, 0.04, f"log-rank {chance}", transform=axes.transAxes)
    _numbers_at_risk(axes, found, ticks)
    _save(figure, file)


def _numbers_at_risk(axes: Any, found: SurvivalCurves, ticks: Sequence[float]) -> None:
    """A line of numbers for each group under the axis, in the colour of its curve."""
    height = 72.0 * INCH * 0.75
    below = {"xycoords": ("data", "axes fraction"), "textcoords": "offset points", "ha": "center", "va": "top"}
    aside = {**below, "xycoords": "axes fraction", "ha": "right"}
    axes.annotate("at risk", (0, 0), (-24, -42), **aside, annotation_clip=False)
    for k, (group, row) in enumerate(found.at_risk(list(ticks)).iterrows()):
        colour, down = COLOURS[k % len(COLOURS)], -42 - (k + 1) * height
        if len(found.curves) > 1:
            axes.annotate(_plain(str(group)), (0, 0), (-24, down), color=colour, **aside, annotation_clip=False)
        for tick, number in zip(ticks, row, strict=True):
            down_here = down if len(found.curves) > 1 else -42
            axes.annotate(f"{number:,}", (tick, 0), (0, down_here), color=colour, **below, annotation_clip=False)


def elastic_net(path: ElasticNetPath, file: str | Path) -> None:
    """The coefficients of one standard deviation against lambda; with folds the cross-validated loss above them."""
    if (path.coefficients.index > 0.0).sum() < 2:
        raise InputError("the plot of a path needs at least two lambdas above 0.")
    validated = path.cv is not None
    figure, axes = _figure(file, 6.6 if validated else 3.8, 2 if validated else 1)
    lines = path.coefficients.iloc[:, 1:] * np.array(path.sd[1:])
    lines = lines.loc[lines.index > 0.0, (lines != 0.0).any()]
    lower = axes[-1] if validated else axes
    for k, name in enumerate(lines.abs().max().sort_values(ascending=False).index):
        label = _plain(str(name)) if k < NAMED_LINES else None
        style = "-" if k < len(COLOURS) else "--"
        lower.plot(lines.index, lines[name], color=COLOURS[k % len(COLOURS)], linestyle=style, label=label)
    lower.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
    lower.set(xscale="log", xlabel="lambda", ylabel="effect of one standard deviation")
    if len(lines.columns):
        lower.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    if path.cv is not None:
        _loss(axes[0], path, path.cv)
        for panel in axes:
            _mark(panel, path, panel is axes[0])
    for panel in axes if validated else [axes]:
        panel.spines[["top", "right"]].set_visible(False)
    lower.invert_xaxis()  # as in glmnet: the largest penalty is at the left
    _save(figure, file)


def _loss(axes: Any, path: ElasticNetPath, cv: pd.DataFrame) -> None:
    """The loss with its standard error, and the number of coefficients above it."""
    kinds = {"color": COLOURS[0], "ecolor": "0.75", "markersize": 3, "linewidth": 0, "elinewidth": 1}
    cv = cv[cv.index > 0.0]
    axes.errorbar(cv.index, cv["mean"], cv["se"], fmt="o", **kinds)
    axes.set(xscale="log", ylabel="cross-validated loss")
    counts = (path.coefficients.iloc[:, 1:] != 0.0).sum(axis=1)[cv.index]
    shown = np.unique(np.linspace(0, len(cv) - 1, 9).round().astype(int))
    for k in shown:
        axes.text(cv.index[k], 1.09, str(counts.iloc[k]), transform=axes.get_xaxis_transform(), ha="center")
    axes.text(-0.02, 1.09, "coefficients", transform=axes.transAxes, ha="right")


def _mark(axes: Any, path: ElasticNetPath, named: bool) -> None:
    """A line at each chosen lambda; 0 has no place on the axis."""
    for name, lam, style in (("lambda.min", path.lambda_min, "--"), ("lambda.1se", path.lambda_1se, ":")):
        if lam > 0.0:
            axes.axvline(lam, color="0.4", linewidth=1.0, linestyle=style, zorder=0, label=name if named else None)
    if named:
        axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))


def _figure(file: str | Path, height: float, rows: int = 1) -> tuple[Any, Any]:
    """An empty figure with its axes; an error if the file's name has no known ending."""
    if Path(file).suffix.lower() not in METADATA:
        raise InputError(f"a plot is a .pdf, .svg or .png file, got {Path(file).name!r}.")
    require_package("a plot", "matplotlib", "lab")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, height), layout="constrained")
    return figure, figure.subplots(rows, sharex=True)


def _save(figure: Any, file: str | Path) -> None:
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "dsba", "pdf.fonttype": 42}):  # publishers refuse fonts of Type 3
        figure.savefig(file, dpi=160, metadata=METADATA[Path(file).suffix.lower()])


def _plain(text: str) -> str:
    """Text that matplotlib shows as it is: a dollar sign begins no formula."""
    return text.replace("$", r"\$")
