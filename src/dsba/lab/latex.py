"""The tables of a comparison in LaTeX, with nothing but a plain tabular: no package is needed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dsba.lab.curves import SHORT, Entrant, median_and_band, verdict
from dsba.lab.finished import FinishedRuns
from dsba.lab.index import ShownCase

SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "λ": r"$\lambda$", "γ": r"$\gamma$", "≥": r"$\ge$",
}  # fmt: skip
MISSING_CELL = "--"


def latex(results: FinishedRuns, costs: Sequence[str], metrics: Sequence[str], tol: float, together: bool) -> str:
    """A tabular for each case, or one of all: what the tolerance cost, the winners' in bold, and what was reached."""
    groups = [results.cases] if together else [[case] for case in results.cases]
    return "\n\n".join(_tabular(results, cases, costs, metrics, tol) for cases in groups) + "\n"


def _tabular(
    results: FinishedRuns, cases: Sequence[ShownCase], costs: Sequence[str], metrics: Sequence[str], tol: float
) -> str:
    columns = [column for case in cases for column in _columns(results, case, costs, metrics, tol)]
    words = ["constants"] if results.constants(results.cases) else []
    heads = [*words, *(SHORT[cost] for cost in costs), *(escaped(metric.replace("_", " ")) for metric in metrics)]
    aligned = ("l" * len(words) + "r" * (len(heads) - len(words))) * len(cases)
    titles = [title for title in results.labels if any(title in column for column in columns)]
    rows = [["method", *(heads * len(cases))]]
    rows += [[escaped(title), *(column.get(title, MISSING_CELL) for column in columns)] for title in titles]
    if len(cases) > 1:
        names = [rf"\multicolumn{{{len(heads)}}}{{c}}{{{escaped(name)}}}" for name in _differences(cases)]
        rows.insert(0, ["", *names])
    lines = [" & ".join(row) + r" \\" for row in rows]
    body = len(rows) - len(titles)
    begin, end = rf"\begin{{tabular}}{{l{aligned}}}", r"\end{tabular}"
    return "\n".join([
        *_comments(results, cases, tol), begin, r"\hline", *lines[:body], r"\hline", *lines[body:], r"\hline", end,
    ])  # fmt: skip


def _comments(results: FinishedRuns, cases: Sequence[ShownCase], tol: float) -> list[str]:
    seeds, band = len(results.index.seeds), results.index.band
    of = f"{seeds} seed{'s' if seeds > 1 else ''}"
    about = [f"% {case.problem}; {case.data}; {case.network}; split {case.split}; {of}" for case in cases]
    judged = " or ".join(dict.fromkeys(results.metric(case) for case in cases))
    spread = f" ({'quartiles' if band == 'quartiles' else 'least and largest'} of the seeds)" if seeds > 1 else ""
    costs = f"costs: median{spread} to reach a {judged} of {tol:g}"
    warned = [f"% {sentence}" for sentence in results.warnings(cases)]
    made = results.environment
    origin = [f"% {name} {text}" for name, text in (("commit", made.commit), ("made by", made.command)) if text]
    rows = [f"% {title}, {runs}" for case in cases for title, runs in results.identifiers(case).items()]
    comments = [*about, f"% {costs}; metrics: mean and standard deviation at the end", *origin, *rows, *warned]
    return [" ".join(comment.split()) for comment in comments]  # a label of two lines would end the comment


def _differences(cases: Sequence[ShownCase]) -> list[str]:
    """Of every case, the titles in which the cases differ."""
    titles = [case.titles for case in cases]
    differing = [key for key in titles[0] if len({one[key] for one in titles}) > 1]
    return [", ".join(one[key] for key in differing) for one in titles]


def _columns(
    results: FinishedRuns, case: ShownCase, costs: Sequence[str], metrics: Sequence[str], tol: float
) -> list[dict[str, str]]:
    """The cells of a case by method, a column each."""
    entrants, judged = results.entrants(case), results.metric(case)
    known = {title: escaped(text) for title, text in results.constants([case]).items()}
    columns = [known] if results.constants(results.cases) else []
    for cost in costs:
        found = verdict(entrants, judged, tol, cost)
        cells = {title: _paid(e.each(judged, tol, cost), results.index.band) for title, e in entrants.items()}
        bold = [] if found.stopped else found.first
        columns.append(cells | {title: rf"\textbf{{\boldmath {cells[title]}}}" for title in bold})
    return columns + [{title: _final(e, metric) for title, e in entrants.items()} for metric in metrics]


def escaped(text: str) -> str:
    return "".join(SPECIAL.get(letter, letter) for letter in text)


def _paid(each: Sequence[float], band: str) -> str:
    """The median over the seeds, and the band around it. It is open above if a seed did not reach the tolerance."""
    middle, low, high = median_and_band(each, band)
    high = math.inf if math.inf in each else high
    if not math.isfinite(middle) or low == high:
        return _number(middle)
    return f"{_number(middle)} ({_number(low)}--{_number(high)})"


def _number(value: float) -> str:
    if not math.isfinite(value):
        return MISSING_CELL if math.isnan(value) else r"$\infty$"
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return rf"${mantissa}\times10^{{{int(exponent)}}}$"


def _final(entrant: Entrant, metric: str) -> str:
    values = np.array([float(history[metric][-1]) for history in entrant.histories if metric in history])
    if not values.size or not np.isfinite(values).all():
        return MISSING_CELL
    if values.size == 1 or abs(values.mean()) < 1e-3:
        return _number(float(values.mean()))
    spread = float(values.std(ddof=1))
    return rf"{values.mean():.4g} $\pm$ {spread if spread > 1e-12 * abs(values.mean()) else 0:.1g}"
