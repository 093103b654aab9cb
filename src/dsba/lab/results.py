"""What an experiment gave: histories, tables, figures, the page. Read from the results folder alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from dsba.engine.history import History
from dsba.errors import InputError
from dsba.graph.link import Link
from dsba.lab import latex, sweeps
from dsba.lab.curves import (  # fmt: skip
    COSTS,
    TOLERANCES,
    Curve,
    Entrant,
    Verdict,
    agree,
    costs,
    has_fallen_back,
    median_curve,
    timed,
    verdict,
)
from dsba.lab.figures import FigureSize, Panel, draw_panels, rendered
from dsba.lab.folder import Folder
from dsba.lab.index import (
    Environment,
    Index,
    Outcome,
    ShownCase,
    ShownReference,
    ShownRun,
    ShownSearch,
    written,
)

FORMULA = ("=", "+", "-", "@", "\t", "\n")  # how a cell begins that a spreadsheet may run
SUMMARY = TOLERANCES[2:]  # the tolerances of summary.csv and of the winners
TRAFFIC = ("doubles_max", "bytes_max", "index_bytes_max")
SHIP_ALL = "ship all data once"
LEAST_GAP = -1e-9  # rounding does not go below; a gap that does was measured against another problem's optimum


class ExperimentResults:
    """The finished runs of an experiment.

    ``to_frame()`` is one pandas row per record, ``plot()``, ``sweep()`` and ``map()`` are matplotlib figures,
    ``summary()`` are the costs of reaching a tolerance, ``to_latex()`` a table of them, ``winners()`` who paid least;
    ``report()`` writes all files. ``on(link)`` are the same results with another link in the axis "time".
    """

    def __init__(self, folder: Folder, index: Index, partial: Mapping[str, History] | None = None) -> None:
        """``partial``: histories of runs under way, for a look before they are finished."""
        self.folder, self.index, self.partial = folder, index, dict(partial or {})
        done = {run.id for run in index.runs if folder.run(run.id).exists()}
        self.runs = [run for run in index.runs if run.id in done or run.id in self.partial]
        self.partial = {id: history for id, history in self.partial.items() if id not in done}

    @classmethod
    def load(cls, path: str | PathLike[str], partial: Mapping[str, History] | None = None) -> ExperimentResults:
        """The results in a folder that ``run`` has written. Nothing is imported or run."""
        folder = Folder(path)
        if not folder.index.is_file():
            raise InputError(f"{folder.root} is no results folder: it has no {folder.index.name}.")
        return cls(folder, folder.read_index(), partial)

    def on(self, link: Link) -> ExperimentResults:
        """The same results on other links, for the axis "time"."""
        return ExperimentResults(self.folder, self.index.model_copy(update={"link": link}), self.partial)

    @cached_property
    def _read(self) -> dict[str, tuple[Outcome, History]]:
        """How each run ended, and its history as it was written."""
        running = {id: (Outcome(id=id, status="running", message=""), h) for id, h in self.partial.items()}
        return {run.id: running.get(run.id) or self.folder.read_run(run.id) for run in self.runs}

    @cached_property
    def outcomes(self) -> dict[str, Outcome]:
        """How each run ended, by its id."""
        return {id: outcome for id, (outcome, _) in self._read.items()}

    @cached_property
    def histories(self) -> dict[str, History]:
        """Each run's history, by its id."""
        found = {}
        for run in self.runs:
            history = self._read[run.id][1]
            if self.metric(self.case(run)) not in history:
                raise InputError(
                    f"the history of {run.id} has no {self.metric(self.case(run))}: it is of another problem."
                )
            require_sound(history, f"{run.method} on {self.case(run).data}")
            found[run.id] = timed(history, self.case(run).nodes, self.index.link)
        return found

    @property
    def environment(self) -> Environment:
        """The command, the versions and the machine."""
        return self.index.environment

    @property
    def unfinished(self) -> int:
        """How many runs of the plan are not finished."""
        return len(self.index.runs) - len(self.runs) + len(self.partial)

    @cached_property
    def _facts(self) -> dict[str, ShownReference]:
        return {id: self.folder.read_reference(id)[0] for id in {case.reference for case in self.cases}}

    def facts(self, case: ShownCase) -> ShownReference:
        """The facts of the case's data and reference."""
        return self._facts[case.reference]

    @cached_property
    def _cases(self) -> dict[str, ShownCase]:
        return {case.id: case for case in self.index.cases}

    def case(self, run: ShownRun) -> ShownCase:
        return self._cases[run.case]

    @cached_property
    def cases(self) -> list[ShownCase]:
        """The cases with at least one finished run."""
        begun = {run.case for run in self.runs}
        return [case for case in self.index.cases if case.id in begun]

    def runs_of(self, case: ShownCase) -> dict[str, list[ShownRun]]:
        """The finished runs of a case, by method."""
        found: dict[str, list[ShownRun]] = {}
        for run in self.runs:
            if run.case == case.id:
                found.setdefault(run.method, []).append(run)
        return found

    def entrants(self, case: ShownCase) -> dict[str, Entrant]:
        """The methods of a case, each with the histories of its seeds."""
        return {
            title: Entrant([self.histories[r.id] for r in runs], [self.outcomes[r.id].status for r in runs])
            for title, runs in self.runs_of(case).items()
        }

    def curves(self, case: ShownCase) -> dict[str, Curve]:
        """By method: the history, or the median of several seeds with its band."""
        band = self.index.band
        return {title: median_curve(entrant.histories, band) for title, entrant in self.entrants(case).items()}

    def to_frame(self) -> Any:
        """One row per record of every run (pandas is an optional dependency)."""
        try:
            import pandas as pd
        except ImportError:
            raise InputError("to_frame needs pandas: install dsba[frame].") from None
        frames = [self.histories[run.id].to_frame().assign(**self.describe(run)) for run in self.runs]
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

    def metric(self, case: ShownCase) -> str:
        """What the methods are judged by: the gap, or the distance where there is no objective."""
        return self.facts(case).metric

    def verdicts(self, case: ShownCase, tol: float) -> dict[str, Verdict]:
        """For each cost, the methods that reached the tolerance at the least of it."""
        entrants, metric = self.entrants(case), self.metric(case)
        return {cost: verdict(entrants, metric, tol, cost) for cost in COSTS}

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

    def searches(self, case: ShownCase) -> list[ShownSearch]:
        """The finished step-size searches of a case, as they were written."""
        planned = [s.id for s in self.index.searches if s.case == case.id]
        return [self.folder.read_search(id) for id in planned if self.folder.tuning(id).exists()]

    def warnings(self) -> list[str]:
        """What a reader must know before believing a comparison, a sentence each."""
        found = []
        for case in self.index.cases:
            where = f" ({case.problem}, {case.data}, {case.network})"
            found += [sentence + where for search in self.searches(case) for sentence in search.warnings]
        for case in self.cases:
            where, metric = f" ({case.problem}, {case.data}, {case.network})", self.metric(case)
            for title, entrant in self.entrants(case).items():
                if any(has_fallen_back(history, metric) for history in entrant.histories):
                    found.append(f"{title} ended far above the best {metric} it had reached.{where}")
        return list(dict.fromkeys(found))

    # Files ---------------------------------------------------------------------------------------

    def report(self) -> None:
        """Write summary.csv, tuning.csv, the figures and the page."""
        from dsba.lab.page import page

        if not self.runs:
            raise InputError(f"no run in {self.folder.root} is finished yet: there is nothing to report.")
        self.write_table(self.folder.summary, self.summary())
        self.write_tuning()
        figures = self.folder.inside(self.folder.root / "figures")
        figures.mkdir(exist_ok=True)
        for name, figure in self.figures():
            for kind in ("png", "pdf"):
                self.folder.write(figures / f"{name}.{kind}", rendered(figure, kind))
        self.folder.write(self.page, page(self).encode())

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
        return sweeps.draw_sweep(found, x, cost, self.labels, relative_to, FigureSize(width, font_size))

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

    @property
    def labels(self) -> list[str]:
        return [method.title for method in self.index.methods]

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


def require_sound(history: History, what: str) -> None:
    """An error where a gap is below zero by more than rounding: the optimum belongs to another problem."""
    least = float(np.nanmin(history["gap"], initial=0.0)) if "gap" in history else 0.0
    if least < LEAST_GAP:
        raise InputError(
            f"{what} has a gap of {least:.2g}, below zero: its reference solution is not the optimum of this problem; "
            "remove the results and run the comparison again."
        )


def ship_all(facts: ShownReference, case: ShownCase) -> float:
    """DOUBLEs each node receives when all data is sent to every node once: nnz (N - 1)/N."""
    return facts.nonzeros * (case.nodes - 1) / case.nodes


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
