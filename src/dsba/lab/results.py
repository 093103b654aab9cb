"""What an experiment gave: histories, tables, figures, the page. Read from the results folder alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from dsba.errors import InputError, as_number, require_known, unknown_name
from dsba.lab import latex, sweeps
from dsba.lab.curves import COSTS, SHORT, TOLERANCES, Curve, agree, comparing_tolerance, costs, reached_by
from dsba.lab.figures import FigureSize, Panel, axis_title, draw_panels, in_rows, rendered
from dsba.lab.finished import FinishedRuns, ship_all
from dsba.lab.index import ShownCase, ShownRun, written
from dsba.lab.page import contents, page

FORMULA = ("=", "+", "-", "@", "\t", "\n")  # how a cell begins that a spreadsheet may run
TRAFFIC = ("doubles_max", "bytes_max", "index_bytes_max")
SHIP_ALL = "ship all data once"


class ExperimentResults(FinishedRuns):
    """The finished runs of an experiment.

    ``to_frame()`` is one pandas row per record, ``plot()``, ``sweep()`` and ``map()`` are matplotlib figures,
    ``summary()`` are the costs of reaching a tolerance, ``to_latex()`` a table of them, ``winners()`` who paid least;
    ``report()`` writes all files. ``on(link)`` are the same results with another link in the axis "time".

    Parameters
    ----------
    folder : Folder
        The results folder.
    index : Index
        The list of runs and cases in it.
    partial : mapping of str to History, or None
        Histories of runs that are not finished.

    Raises
    ------
    InputError
        If a file of the folder is damaged.

    Examples
    --------
    >>> import dsba
    >>> results = dsba.lab.ExperimentResults.load("results")
    >>> [case.problem for case in results.cases]
    ['ridge, λ = 0.01']
    """

    def to_frame(self) -> Any:
        """One row per record of every run (pandas is an optional dependency).

        Returns
        -------
        pandas.DataFrame
            What each run is (data, problem, network, split, method, seed) and the columns of its history.

        Examples
        --------
        >>> results.to_frame()[["method", "seed", "passes", "gap"]].head(1)
          method  seed  passes  gap
        0  EXTRA     0     0.0  1.0
        """
        self._some(self.cases)
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
        """One row per run: what it spent, and what it cost to reach each tolerance; None where it did not.

        Returns
        -------
        list of dict
            The rows of ``summary.csv``.

        Examples
        --------
        >>> [(row["method"], row["seed"], row["passes_spent"]) for row in results.summary()][:2]
        [('EXTRA', 0, 3.0), ('EXTRA', 1, 3.0)]
        """
        rows, origin = [], {"commit": self.environment.commit or "", "command": self.environment.command}
        for run in self.runs:
            history, outcome, metric = self.histories[run.id], self.outcomes[run.id], self.metric(self.case(run))
            chosen = " ".join(f"{name}={written(value, 6)}" for name, value in outcome.chosen.items())
            ended = {"step_size": outcome.step_size, "chosen": chosen, "status": outcome.status, "metric": metric}
            row: dict[str, Any] = self.describe(run) | ended | {"final": float(history[metric][-1])}
            row |= {"run": run.id} | {f"{cost}_spent": float(history[cost][-1]) for cost in COSTS}
            for tol in TOLERANCES:
                row |= {f"{cost}_to_{tol:g}": value for cost, value in costs(history, metric, tol).items()}
            rows.append(row | {"dsba": outcome.versions.get("dsba", "")} | origin)
        return rows

    def winners(self) -> list[dict[str, Any]]:
        """Per case: a tolerance that two methods reached, and who reached it at the least cost.

        It is the tightest of those that leave the fewest costs of ``DECIDING`` undecided. If fewer than two methods
        reached any, it is the loosest one: a method is not compared where it stands alone. A cost is
        "undecided" where a method that did not reach the tolerance was stopped before it had spent as much as the first
        one; ``leading`` and ``stopped`` then name them. ``reached`` are all methods that reached the tolerance.

        Returns
        -------
        list of dict
            The titles of the case, the tolerance, and for each cost the method that needed the least of it.

        Examples
        --------
        >>> sorted(results.winners()[0])[:5]
        ['bytes_max', 'cpu_seconds', 'data', 'doubles_max', 'leading']
        """
        return [case.titles | {"metric": self.metric(case)} | self._winners(case) for case in self.cases]

    def _winners(self, case: ShownCase) -> dict[str, Any]:
        entrants, metric = self.entrants(case), self.metric(case)
        tol = comparing_tolerance(entrants, metric)
        reached = reached_by(entrants, metric, tol)
        if reached:
            found = self.verdicts(case, tol)
            return {
                "tolerance": tol,
                **{cost: v.winner for cost, v in found.items()},
                "reached": reached,
                "leading": {cost: " = ".join(v.first) for cost, v in found.items()},
                "stopped": {cost: v.stopped for cost, v in found.items()},
            }
        finals = {title: entrant.final(metric) for title, entrant in entrants.items()}
        nearest = min(finals, key=lambda title: finals[title])
        return {"tolerance": None, "nearest": nearest, "final": finals[nearest]}

    def to_latex(
        self, costs: Sequence[str] = ("passes", "rounds", "bytes_max"), metrics: Sequence[str] = (),
        tol: float | None = None, *, together: bool = False,
    ) -> str:  # fmt: skip
        """A plain LaTeX tabular for each case: constants, costs of reaching ``tol``, and metrics at the end.

        With several seeds costs are medians, with the band around them in brackets.

        Parameters
        ----------
        costs : sequence of str
            The costs: passes, work, rounds, doubles_max, bytes_max, seconds, cpu_seconds or time.
        metrics : sequence of str
            Columns of the history whose last values are shown.
        tol : float or None
            The tolerance; None is the tightest one that a method reached on every case.
        together : bool
            True makes one tabular with columns for every case.

        Returns
        -------
        str
            The tabular, after comments that name seeds and runs.

        Examples
        --------
        >>> print(results.to_latex(costs=["passes"], tol=0.1))
        % ridge, ...
        """
        for cost in costs:
            require_known("cost", cost, COSTS)
        return latex.latex(self, costs, metrics, tol or sweeps.tolerance(self), together)

    def tuning(self) -> list[dict[str, Any]]:
        """One row per candidate of every finished step-size search.

        Returns
        -------
        list of dict
            The rows of ``tuning.csv``.

        Examples
        --------
        >>> {row["method"] for row in results.tuning()}
        {'EXTRA'}
        """
        return [
            case.titles | {
                "method": search.method,
                "parameters": " ".join(f"{key}={written(value, 6)}" for key, value in c.parameters.items()),
                "factor": c.factor, "passes": c.passes, "by": search.by, "cost": c.cost, "metric": search.metric,
                "value": c.value, "status": c.status,
                "chosen": c.chosen, "at_edge": c.chosen and bool(search.at_edge),
                "warning": " ".join(search.warnings) if c.chosen else "",
            }
            for case in self.index.cases for search in self.searches(case) for c in search.candidates
        ]  # fmt: skip

    # Files ---------------------------------------------------------------------------------------

    def report(self) -> None:
        """Write summary.csv, tuning.csv, the figures and the page.

        Raises
        ------
        InputError
            If no run is finished yet.

        Examples
        --------
        >>> results.report()
        >>> results.page.name
        'report.html'
        """
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
        self, x: str = "passes", y: str | None = None, *, panels: Sequence[str | ShownCase] | None = None,
        ncols: int | None = None, width: float | None = None, font_size: float = 10.0,
    ) -> Any:  # fmt: skip
        """A matplotlib figure: a panel per case, ``y`` against ``x``.

        The legend has the step sizes and other open constants that were used.

        Parameters
        ----------
        x : str
            A cost: passes, work, rounds, doubles_max, bytes_max, seconds, cpu_seconds or time.
        y : str or None
            A column of the history; None is what the methods are judged by.
        panels : sequence or None
            The cases to show, in this order: entries of ``cases``, or titles of data, problems, networks or splits.
        ncols : int or None
            How many panels stand side by side.
        width : float or None
            Inches of a figure for print; a column of many journals has 3.25, with ``font_size=8``.
        font_size : float
            Points of the letters in a figure for print.

        Returns
        -------
        matplotlib.figure.Figure
            The figure; ``savefig`` writes it to a file.

        Raises
        ------
        InputError
            If a panel or a column is not known, or no run is finished.

        Examples
        --------
        >>> results.plot("rounds", width=3.25, font_size=8).savefig("rounds.pdf")
        """
        cases = self._some(self.chosen(panels))
        for case in cases:
            for name in filter(None, (x, y)):
                require_known("column", name, set.intersection(*(set(c.mid) for c in self.curves(case).values())))
        rows = in_rows([self.panel(case, x, y or self.metric(case)) for case in cases], _columns(ncols, width))
        return draw_panels(rows, self.labels, size=_size(width, font_size), constants=self.constants(cases))

    def _some(self, cases: list[ShownCase]) -> list[ShownCase]:
        if not cases:
            raise InputError(f"{self.folder.root} has no finished run to show.")
        return cases

    def chosen(self, panels: Sequence[str | ShownCase] | None) -> list[ShownCase]:
        """The cases that were named, each once: all by default, or every case that has one of these titles."""
        if panels is None:
            return self.cases
        known = {title for case in self.cases for title in case.titles.values()}
        for one in panels:
            if isinstance(one, str) and one not in known:
                raise unknown_name("panel", one, known)
        found = [case for one in panels for case in self.cases if one in (case, *case.titles.values())]
        return list({case.id: case for case in found}.values())

    def sweep(
        self, x: str = "N", cost: str = "passes", tol: float | None = None, *,
        relative_to: str | None = None, ncols: int | None = None, width: float | None = None, font_size: float = 10.0,
    ) -> Any:  # fmt: skip
        """A matplotlib figure: what reaching ``tol`` cost against ``x``.

        Parameters
        ----------
        x : str
            N, lam, kappa, gamma, tolerance, or an option of the methods such as batch_size.
        cost : str
            Any of passes, work, rounds, doubles_max, bytes_max, seconds, cpu_seconds and time.
        tol : float or None
            The tolerance; None is the tightest one that a method reached on every case.
        relative_to : str or None
            Divide by the cost of this method.
        ncols : int or None
            How many panels stand side by side.
        width : float or None
            Inches of a figure for print.
        font_size : float
            Points of the letters in a figure for print.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.

        Examples
        --------
        >>> results.sweep("tolerance", "rounds").savefig("tolerance.pdf")
        """
        self._some(self.cases)
        found = sweeps.sweep(self, x, cost, tol, relative_to)
        if not found:
            raise InputError(f"no finished run has a number for {x}.")
        about = axis_title(cost) if relative_to is None else f"{SHORT[cost]}, as a multiple of {relative_to}'s"
        return sweeps.draw_sweep(found, x, about, self.labels, _size(width, font_size), _columns(ncols, width))

    def map(
        self, case: str | ShownCase | None = None, tol: float | None = None, *,
        width: float | None = None, font_size: float = 10.0,
    ) -> Any:  # fmt: skip
        """A matplotlib figure: which method reaches ``tol`` first, by latency and bandwidth.

        Parameters
        ----------
        case : str or ShownCase or None
            One of ``cases``, or the first with this title; None is the first of all.
        tol : float or None
            The tolerance; None is the tightest of those that leave the fewest links undecided.
        width : float or None
            Inches of a figure for print.
        font_size : float
            Points of the letters in a figure for print.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.

        Examples
        --------
        >>> results.map(width=3.25, font_size=8).savefig("map.pdf")
        """
        case = self._some(self.chosen(None if case is None else [case]))[0]
        return sweeps.draw_map(self, case, tol, _size(width, font_size))

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
            used.append(slug(operator if alone else f"{problem} {network} {split}"))
            number = f"-{used.count(used[-1])}" if used.count(used[-1]) > 1 else ""
            title, constants = f"{problem}; split {split}", self.constants(cases)
            if grid := self._grid(cases):  # empty where the problem has none of the metrics that were asked for
                yield used[-1] + number, draw_panels(grid, self.labels, title, constants=constants)
        for x in sweeps.varied(self):
            for cost in ("passes", "rounds", "bytes_max"):
                yield f"sweep-{slug(x)}-{slug(cost)}", self.sweep(x, cost)

    def _grid(self, cases: list[ShownCase]) -> list[list[Panel]]:
        rows = []
        for metric, axes in self._wanted(cases[0]).items():
            shown = [case for case in cases if _have(self.curves(case).values(), metric)]
            grid = [[self.panel(case, x, metric) for case in shown] for x in axes]
            rows += grid if len(cases) > 1 else [list(chain.from_iterable(grid))]
        return [row for row in rows if row]

    def _wanted(self, case: ShownCase) -> dict[str, list[str]]:
        """The metrics to draw, each with its axes; a test set's AUC against the first of them only."""
        axes = self.index.axes
        if self.index.metrics or self.metric(case) == "gap":
            return dict.fromkeys(self.index.metrics or ["gap"], axes)
        return {"auc": axes, "test_auc": axes[:1], "distance": axes}

    def panel(self, case: ShownCase, x: str, metric: str) -> Panel:
        """The curves of a case. Where x is the work, methods that differ in communication share one if they agree."""
        curves, reference = self.curves(case), self.reference(case)
        if x not in TRAFFIC and x not in ("seconds", "cpu_seconds", "time"):
            curves = self._distinct(curves, (x, metric))
        marks = {SHIP_ALL: ship_all(reference, case)} if x == "doubles_max" else {}
        levels = {"the optimum's": reference.levels[metric]} if metric in reference.levels else {}
        return Panel(f"{case.problem}, {case.data}\n{case.network}", x, metric, curves, marks, levels)

    def _distinct(self, curves: Mapping[str, Curve], columns: Sequence[str]) -> dict[str, Curve]:
        """Without the curves that lie on that of an earlier method with the same iterates."""
        iterates, found = {m.title: m.iterates for m in self.index.methods}, dict[str, Curve]()
        for title in (title for title in iterates if title in curves):
            same = [found[other] for other in found if iterates[other] == iterates[title]]
            if not any(agree(curves[title], other, columns) for other in same):
                found[title] = curves[title]
        return found


def _columns(ncols: int | None, width: float | None) -> int:
    """How many panels stand side by side: three, or one in a narrow figure, if it was not said."""
    return (3 if width is None or width > 4 else 1) if ncols is None else ncols


def _size(width: float | None, font_size: float) -> FigureSize:
    inches = None if width is None else as_number("width", width, above=0.0)
    return FigureSize(inches, as_number("font_size", font_size, above=0.0))


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


def _have(curves: Collection[Curve], metric: str) -> bool:
    """Whether all curves have the metric, and one of them a number of it."""
    found = [curve.mid[metric] for curve in curves if metric in curve.mid]
    return len(found) == len(curves) and any(np.isfinite(values).any() for values in found)
