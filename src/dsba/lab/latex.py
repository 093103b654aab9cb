"""The table of a comparison in LaTeX, with nothing but a plain tabular: no package is needed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dsba.lab.curves import SHORT, Entrant, verdict
from dsba.lab.finished import FinishedRuns
from dsba.lab.index import ShownCase

SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "λ": r"$\lambda$", "γ": r"$\gamma$", "≥": r"$\ge$",
}  # fmt: skip


def latex(results: FinishedRuns, costs: Sequence[str], metrics: Sequence[str], tol: float) -> str:
    """A tabular for each case: what the tolerance cost, the winners' in bold, and what was reached at the end."""
    return "\n\n".join(_tabular(results, case, costs, metrics, tol) for case in results.cases) + "\n"


def _tabular(results: FinishedRuns, case: ShownCase, costs: Sequence[str], metrics: Sequence[str], tol: float) -> str:
    judged, seeds = results.metric(case), len(results.index.seeds)
    entrants = results.entrants(case)
    columns = [[_cost(e.cost(judged, tol, cost)) for e in entrants.values()] for cost in costs]
    for column, cost in zip(columns, costs, strict=True):
        found = verdict(entrants, judged, tol, cost)
        for row, title in enumerate(entrants):
            if title in found.first and not found.stopped:
                column[row] = rf"\textbf{{\boldmath {column[row]}}}"
    columns += [[_final(e, metric) for e in entrants.values()] for metric in metrics]
    heads = [SHORT[cost] for cost in costs] + [escaped(metric.replace("_", " ")) for metric in metrics]
    names = [escaped(title) for title in entrants]
    about = f"{case.problem}; {case.data}; {case.network}; split {case.split}; {seeds} seed{'s' if seeds > 1 else ''}"
    what = f"costs: median to reach a {judged} of {tol:g}; metrics: mean and standard deviation at the end"
    rows = [" & ".join([name, *cells]) + r" \\" for name, *cells in zip(names, *columns, strict=True)]
    head = " & ".join(["method", *heads]) + r" \\"
    body = [
        rf"\begin{{tabular}}{{l{'r' * len(columns)}}}",
        r"\hline",
        head,
        r"\hline",
        *rows,
        r"\hline",
        r"\end{tabular}",
    ]
    return "\n".join([f"% {about}", f"% {what}", *body])


def escaped(text: str) -> str:
    return "".join(SPECIAL.get(letter, letter) for letter in text)


def _cost(value: float | None) -> str:
    return "--" if value is None else _number(value)


def _number(value: float) -> str:
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return rf"${mantissa}\times10^{{{int(exponent)}}}$"


def _final(entrant: Entrant, metric: str) -> str:
    values = np.array([float(history[metric][-1]) for history in entrant.histories if metric in history])
    if not values.size or not np.isfinite(values).all():
        return "--"
    if values.size == 1 or abs(values.mean()) < 1e-3:
        return _number(float(values.mean()))
    spread = float(values.std(ddof=1))
    return rf"{values.mean():.4g} $\pm$ {spread if spread > 1e-12 * abs(values.mean()) else 0:.1g}"
