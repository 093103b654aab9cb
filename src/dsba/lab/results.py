"""What an experiment gave: histories, tables, figures, the page. Read from the results folder alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from dsba.errors import InputError
from dsba.lab import latex, sweeps
from dsba.lab.curves import SHORT, TOLERANCES, Curve, agree, costs
from dsba.lab.figures import FigureSize, Panel, axis_title, draw_panels, rendered
from dsba.lab.finished import FinishedRuns, ship_all
from dsba.lab.index import ShownCase, ShownRun, written
from dsba.lab.page import contents, page

FORMULA = ("=", "+", "-", "@", "\t", "\n")  # how a cell begins that a spreadsheet may run
SUMMARY = TOLERANCES[2:]  # the tolerances of summary.csv and of the winners
TRAFFIC = ("doubles_max", "bytes_max", "index_bytes_max")
SHIP_ALL = "ship all data once"


class ExperimentResults(FinishedRuns):
    """The finished runs of an experiment.

    ``to_frame()`` is one pandas row per record, ``plot()``, ``sweep()`` and ``map()`` are matplotlib figures,
    ``summary()`` are the costs of reaching a tolerance, ``to_latex()`` a table of them, ``winners()`` who paid least;
    ``report()`` writes all files. ``on(link)`` are the same results with another link in the axis "time".
    """

    def to_frame(self) -> Any:
        """One row per record of every run (pandas is an optional dependency)."""
        frames = [self.histories[run.id].to_frame().assign(**self.describe(run)) for run in self.runs]
        import pandas as pd

        frame = pd.concat(frames, ignore_index=True)
        keys = list(self.describe(self.runs[0]))
        return frame[[*keys, *(column for column in frame.columns if column not in keys)]]

    def describe(self, run: ShownRun) -> dict[str, Any]:
        """What a run is, in the columns of tables."""
        return {**self.case(run).titles, "method": run.method, "seed": run.seed}

    # Tables --------------------------------------------------------------------------------------

    def summary(self) -> list[dict[str, Any]]:
        """One row per run: what it cost to reach each tolerance, in every currency; None where it did not."""
        rows = []
        for run in self.runs:
            history, outcome = self.histories[run.id], self.outcomes[run.id]
            metric = self.metric(self.case(run))
            row: dict[str, Any] = self.describe(run) | {
                "step_size": outcome.step_size,
                "status": outcome.status,
                "metric": metric,
                "final": float(history[metric][-1]),
            }
            for tol in SUMMARY:
                row |= {f"{cost}_to_{tol:g}": value for cost, value in costs(history, metric, tol).items()}
            rows.append(row | {"dsba": outcome.versions.get("dsba", "")})
        return rows

    def winners(self) -> list[dict[str, Any]]:
        """Per case: the tightest tolerance that two methods reached, and who reached it at the least cost.

        If fewer than two reached any, it is the loosest one: a method is not compared where it stands alone. A cost is
        "undecided" where a method that did not reach the tolerance was stopped before it had spent as much as the first
        one; ``leading`` and ``stopped`` then name them. ``reached`` are all methods that reached the tolerance.
        """
        return [case.titles | {"metric": self.metric(case)} | self._winners(case) for case in self.cases]

    def _winners(self, case: ShownCase) -> dict[str, Any]:
        entrants, metric = self.entrants(case), self.metric(case)
        costs = {tol: {title: e.cost(metric, tol, "passes") for title, e in entrants.items()} for tol in SUMMARY}
        reached = {tol: [title for title, cost in paid.items() if cost is not None] for tol, paid in costs.items()}
        wanted = min(2, len(entrants))
        tol = next((tol for tol in reversed(SUMMARY) if len(reached[tol]) >= wanted), SUMMARY[0])
        if reached[tol]:
            found = self.verdicts(case, tol)
            return {
                "tolerance": tol,
                **{cost: v.winner for cost, v in found.items()},
                "reached": reached[tol],
                "leading": {cost: " = ".join(v.first) for cost, v in found.items()},
                "stopped": {cost: v.stopped for cost, v in found.items()},
            }
        finals = {title: entrant.final(metric) for title, entrant in entrants.items()}
        nearest = min(finals, key=lambda title: finals[title])
        return {"tolerance": None, "nearest": nearest, "final": finals[nearest]}

    def to_latex(
        self,
        costs: Sequence[str] = ("passes", "rounds", "bytes_max"),
        metrics: Sequence[str] = (),
        tol: float | None = None,
    ) -> str:
        """A plain LaTeX tabular for each case: costs of reaching ``tol``, and metrics at the end.

        ``tol`` is by default the tightest tolerance that somebody reached on every case.
        """
        return latex.latex(self, costs, metrics, tol or sweeps.tolerance(self))

    def tuning(self) -> list[dict[str, Any]]:
        """One row per candidate of every finished step-size search."""
        return [
            case.titles | {
                "method": search.method,
                "parameters": " ".join(f"{key}={written(value, 6)}" for key, value in candidate.parameters.items()),
                "factor": candidate.factor,
                "passes": candidate.passes,
                "metric": search.metric,
                "value": candidate.value,
                "status": candidate.status,
                "chosen": candidate.chosen,
                "at_edge": candidate.chosen and bool(search.at_edge),
                "warning": " ".join(search.warnings) if candidate.chosen else "",
            }
            for case in self.index.cases
            for search in self.searches(case)
            for candidate in search.candidates
        ]  # fmt: skip

    # Files ---------------------------------------------------------------------------------------

    def report(self) -> None:
        """Write summary.csv, tuning.csv, the figures and the page."""
        if not self.runs:
            raise InputError(f"no run in {self.folder.root} is finished yet: there is nothing to report.")
        self.write_table(self.folder.summary, self.summary())
        self.write_tuning()
        figures = self.folder.inside(self.folder.root / "figures")
        figures.mkdir(exist_ok=True)
        for name, figure in self.figures():
            for kind in ("png", "pdf"):
                self.folder.write(figures / f"{name}.{kind}", rendered(figure, kind))
        self.folder.write(self.page, page(contents(self)).encode())

    @property
    def page(self) -> Path:
        return self.folder.page

    def write_tuning(self) -> None:
        self.write_table(self.folder.candidates, self.tuning())

    def write_table(self, path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
        stream = io.StringIO()
        writer = csv.DictWriter(stream, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows({column: as_text(value) for column, value in row.items()} for row in rows)
        self.folder.write(path, stream.getvalue().encode())

    # Figures -------------------------------------------------------------------------------------

    def plot(
        self, x: str = "passes", y: str | None = None, *, width: float | None = None, font_size: float = 10.0
    ) -> Any:
        """A matplotlib figure: a panel per case, ``y`` (by default what the methods are judged by) against ``x``.

        ``width`` in inches makes it a figure for print: 3.25 is a column of many journals, with ``font_size=8``.
        """
        panels = [self.panel(case, x, y or self.metric(case)) for case in self.cases]
        across = 3 if width is None or width > 4 else 1
        rows = [panels[i : i + across] for i in range(0, len(panels), across)]
        return draw_panels(rows, self.labels, size=FigureSize(width, font_size))

    def sweep(
        self,
        x: str = "N",
        cost: str = "passes",
        tol: float | None = None,
        *,
        relative_to: str | None = None,
        width: float | None = None,
        font_size: float = 10.0,
    ) -> Any:
        """A matplotlib figure: what reaching ``tol`` cost against ``x``.

        ``x`` is "N", "lam", "gamma", "tolerance", or an option of the methods such as "batch_size". ``relative_to``
        divides by the cost of that method.
        """
        found = sweeps.sweep(self, x, cost, tol, relative_to)
        about = axis_title(cost) if relative_to is None else f"{SHORT[cost]}, as a multiple of {relative_to}'s"
        return sweeps.draw_sweep(found, x, about, self.labels, FigureSize(width, font_size))

    def map(
        self,
        case: ShownCase | None = None,
        tol: float | None = None,
        *,
        width: float | None = None,
        font_size: float = 10.0,
    ) -> Any:
        """A matplotlib figure: which method reaches ``tol`` first, by latency and bandwidth.

        It is of one case, the first by default.
        """
        return sweeps.draw_map(self, case or self.cases[0], tol, FigureSize(width, font_size))

    def figures(self) -> Iterator[tuple[str, Any]]:
        """Per problem, network and split: a row of panels per metric and axis, a column per data set.

        With a single data set, its panels against the other axes stand side by side.
        """
        groups: dict[tuple[str, str, str], list[ShownCase]] = {}
        for case in self.cases:
            groups.setdefault((case.problem, case.network, case.split), []).append(case)
        used: list[str] = []
        for (problem, network, split), cases in groups.items():
            operator = cases[0].operator
            alone = sum(group[0].operator == operator for group in groups.values()) == 1
            name = operator if alone else f"{problem} {network} {split}"
            title = f"{problem}; split {split}"
            used.append(slug(name))
            number = f"-{used.count(used[-1])}" if used.count(used[-1]) > 1 else ""
            yield used[-1] + number, draw_panels(self._grid(cases), self.labels, title)
        for x in sweeps.varied(self):
            for cost in ("passes", "rounds", "bytes_max"):
                yield f"sweep-{slug(x)}-{slug(cost)}", self.sweep(x, cost)

    def _grid(self, cases: list[ShownCase]) -> list[list[Panel]]:
        rows = []
        for metric, axes in self._wanted(cases[0]).items():
            shown = [case for case in cases if metric in self._columns(case)]
            grid = [[self.panel(case, x, metric) for case in shown] for x in axes]
            rows += grid if len(cases) > 1 else [list(chain.from_iterable(grid))]
        return [row for row in rows if row]

    def _wanted(self, case: ShownCase) -> dict[str, list[str]]:
        """The metrics to draw, each with its axes; a test set's AUC against the first of them only."""
        axes = self.index.axes
        if self.index.metrics:
            return dict.fromkeys(self.index.metrics, axes)
        if self.metric(case) == "gap":
            return {"gap": axes}
        return {"auc": axes, "test_auc": axes[:1], "distance": axes}

    def _columns(self, case: ShownCase) -> set[str]:
        return set.intersection(*(set(curve.mid) for curve in self.curves(case).values()))

    def panel(self, case: ShownCase, x: str, metric: str) -> Panel:
        """The curves of a case. Where x is the work, methods that differ in communication share one if they agree."""
        curves, facts = self.curves(case), self.facts(case)
        if x not in TRAFFIC and x not in ("seconds", "time"):
            curves = self._distinct(curves, (x, metric))
        marks = {SHIP_ALL: ship_all(facts, case)} if x == "doubles_max" else {}
        levels = {"the optimum's": facts.levels[metric]} if metric in facts.levels else {}
        return Panel(f"{case.problem}, {case.data}\n{case.network}", x, metric, curves, marks, levels)

    def _distinct(self, curves: Mapping[str, Curve], columns: Sequence[str]) -> dict[str, Curve]:
        """Without the curves that lie on that of an earlier method with the same iterates."""
        iterates, found = {m.title: m.iterates for m in self.index.methods}, dict[str, Curve]()
        for title in (title for title in iterates if title in curves):
            same = [found[other] for other in found if iterates[other] == iterates[title]]
            if not any(agree(curves[title], other, columns) for other in same):
                found[title] = curves[title]
        return found


def as_text(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: one that would be run gets an apostrophe before it."""
    if not isinstance(cell, str):
        return cell
    cell = cell.replace("\r", "\n")  # csv quotes only the end of line that it writes
    try:
        float(cell)
    except ValueError:
        return "'" + cell if cell.startswith(FORMULA) else cell
    return cell


def slug(text: str) -> str:
    words = "".join(c if c.isascii() and c.isalnum() else " " for c in text.lower()).split()
    return "-".join(words) or "problem"
