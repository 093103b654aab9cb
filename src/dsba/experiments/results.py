"""What an experiment gave: histories, tables, figures, the page. Read from the results folder alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from os import PathLike
from typing import Any

import numpy as np

from dsba.errors import InputError
from dsba.experiments import jobs, plan
from dsba.experiments.folder import Folder
from dsba.experiments.plan import Case, Plan, Run
from dsba.experiments.spec import AXES, read
from dsba.recorder import History
from dsba.report.figures import Curve, Panel, draw_panels, rendered

TOLERANCES = (1e-3, 1e-6, 1e-10)
COSTS = ("passes", "rounds", "doubles_max", "bytes_max", "seconds")
TRAFFIC = ("doubles_max", "bytes_max", "index_bytes_max")
SHIP_ALL = "ship all data once"


class Results:
    """The finished runs of an experiment.

    ``to_frame()`` is one pandas row per record, ``plot()`` a matplotlib figure, ``summary()`` the costs of
    reaching a tolerance, ``winners()`` who paid least, ``report()`` writes all files.
    """

    def __init__(self, folder: Folder, plan: Plan, partial: Mapping[str, History] | None = None) -> None:
        """``partial``: histories of runs under way, for a look before they are finished."""
        self.folder, self.plan, self.partial = folder, plan, dict(partial or {})
        done = {run.id for run in plan.runs if jobs.is_done(run, folder)}
        self.runs = [run for run in plan.runs if run.id in done or run.id in self.partial]
        self.partial = {id: history for id, history in self.partial.items() if id not in done}

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Results:
        """The results in a folder that ``run`` has written."""
        folder = Folder(path)
        file = folder.root / "experiment.toml"
        if not file.is_file():
            raise InputError(f"{folder.root} is no results folder: it has no experiment.toml.")
        return cls(folder, plan.make(read(file)))

    @cached_property
    def outcomes(self) -> dict[str, dict[str, Any]]:
        """How each run ended, by its id."""
        running = {"status": "running", "message": ""}
        return {
            run.id: running if run.id in self.partial else self.folder.read_json(self.folder.outcome(run.id))
            for run in self.runs
        }

    @cached_property
    def histories(self) -> dict[str, History]:
        """Each run's history, by its id."""
        return {
            run.id: self.partial.get(run.id) or self.folder.read_history(self.folder.history(run.id))
            for run in self.runs
        }

    @cached_property
    def environment(self) -> dict[str, Any]:
        """The command and the versions."""
        return self.folder.read_json(self.folder.root / "environment.json")

    @property
    def unfinished(self) -> int:
        """How many runs of the plan are not finished."""
        return len(self.plan.runs) - len(self.runs) + len(self.partial)

    def facts(self, case: Case) -> dict[str, Any]:
        """Of the case's data and reference."""
        return self.folder.read_json(self.folder.facts(case.pooled.id))

    @property
    def cases(self) -> list[Case]:
        """Those with at least one finished run."""
        return [case for case in self.plan.cases if any(run.case is case for run in self.runs)]

    def curves(self, case: Case) -> dict[str, Curve]:
        """By method: the history, or the median of several seeds with its band."""
        found: dict[str, list[History]] = {}
        for run in self.runs:
            if run.case is case:
                found.setdefault(run.method.title, []).append(self.histories[run.id])
        return {title: median_curve(histories) for title, histories in found.items()}

    def to_frame(self) -> Any:
        """One row per record of every run (pandas is an optional dependency)."""
        try:
            import pandas as pd
        except ImportError:
            raise InputError("to_frame needs pandas: install dsba[frame].") from None
        frames = [self.histories[run.id].to_frame().assign(**describe(run)) for run in self.runs]
        frame = pd.concat(frames, ignore_index=True)
        keys = list(describe(self.runs[0]))
        return frame[[*keys, *(column for column in frame.columns if column not in keys)]]

    # Tables --------------------------------------------------------------------------------------

    def summary(self) -> list[dict[str, Any]]:
        """One row per run: what it cost to reach each tolerance, in every currency; None where it did not."""
        rows = []
        for run in self.runs:
            history, outcome = self.histories[run.id], self.outcomes[run.id]
            metric = self.metric(run.case)
            row: dict[str, Any] = describe(run) | {
                "step_size": outcome["step_size"],
                "status": outcome["status"],
                "metric": metric,
                "final": float(history[metric][-1]),
            }
            for tol in TOLERANCES:
                row |= {f"{cost}_to_{tol:g}": value for cost, value in costs(history, metric, tol).items()}
            rows.append(row)
        return rows

    def metric(self, case: Case) -> str:
        """What the methods are judged by: the gap, or the distance where there is no objective."""
        return str(self.facts(case)["metric"])

    def winners(self) -> list[dict[str, Any]]:
        """Per case: the tightest tolerance that was reached, and who reached it at the least cost."""
        rows = []
        for case in self.cases:
            metric, curves = self.metric(case), self.curves(case)
            row = describe_case(case) | {"metric": metric}
            for tol in reversed(TOLERANCES):
                spent = {title: costs(curve.mid, metric, tol) for title, curve in curves.items()}
                if any(value["passes"] is not None for value in spent.values()):
                    row |= {"tolerance": tol} | {cost: _cheapest(spent, cost) for cost in COSTS}
                    break
            else:
                nearest = min(curves, key=lambda title: _final(curves[title].mid, metric))
                row |= {"tolerance": None, "nearest": nearest, "final": _final(curves[nearest].mid, metric)}
            rows.append(row)
        return rows

    def tuning(self) -> list[dict[str, Any]]:
        """One row per candidate of every finished step-size search."""
        return [
            describe_case(case) | {
                "method": table["method"],
                "parameters": " ".join(f"{key}={value:.6g}" for key, value in candidate["parameters"].items()),
                "factor": candidate["factor"],
                "passes": candidate["passes"],
                "metric": table["metric"],
                "value": candidate[table["metric"]],
                "status": candidate["status"],
                "chosen": candidate["chosen"],
                "at_edge": candidate["chosen"] and table["at_edge"],
            }
            for case in self.plan.cases
            for table in self.tuning_tables(case)
            for candidate in table["candidates"]
        ]  # fmt: skip

    def tuning_tables(self, case: Case) -> list[dict[str, Any]]:
        """The finished step-size searches of a case, as they were written."""
        searches = [t for t in self.plan.tunings if t.case is case and jobs.is_done(t, self.folder)]
        return [self.folder.read_json(self.folder.tuning(search.id)) for search in searches]

    # Files ---------------------------------------------------------------------------------------

    def report(self) -> None:
        """Write summary.csv, tuning.csv, the figures and the page."""
        from dsba.report.page import page

        if not self.runs:
            raise InputError(f"no run in {self.folder.root} is finished yet: there is nothing to report.")
        self.write_table("summary.csv", self.summary())
        self.write_tuning()
        for name, figure in self.figures():
            for kind in ("png", "pdf"):
                path = self.folder.root / "figures" / f"{name}.{kind}"
                path.parent.mkdir(exist_ok=True)
                with self.folder.writing(path) as stream:
                    stream.write(rendered(figure, kind))
        self.folder.write_text(self.page, page(self))

    @property
    def page(self) -> Any:
        return self.folder.root / "report.html"

    def write_tuning(self) -> None:
        self.write_table("tuning.csv", self.tuning())

    def write_table(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        stream = io.StringIO()
        writer = csv.DictWriter(stream, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        self.folder.write_text(self.folder.root / name, stream.getvalue())

    # Figures -------------------------------------------------------------------------------------

    def plot(self, x: str = "passes", y: str | None = None) -> Any:
        """A matplotlib figure: a panel per case, ``y`` (by default what the methods are judged by) against ``x``."""
        panels = [self.panel(case, x, y or self.metric(case)) for case in self.cases]
        rows = [panels[i : i + 3] for i in range(0, len(panels), 3)]
        return draw_panels(rows, self.labels)

    @property
    def labels(self) -> list[str]:
        return [method.title for method in self.plan.experiment.method]

    def figures(self) -> Iterator[tuple[str, Any]]:
        """Per problem, network and split: a row of panels per metric and axis, a column per data set.

        With a single data set, its panels against the other axes stand side by side.
        """
        groups: dict[tuple[str, str, str], list[Case]] = {}
        for case in self.cases:
            groups.setdefault((case.pooled.problem.title, case.network.title, case.split), []).append(case)
        for (problem, network, split), cases in groups.items():
            operator = cases[0].pooled.problem.operator
            alone = sum(group[0].pooled.problem.operator == operator for group in groups.values()) == 1
            name = operator if alone else f"{problem} {network} {split}"
            title = f"{problem}; {network}; split {split}"
            yield slug(name), draw_panels(self._grid(cases), self.labels, title)

    def _grid(self, cases: list[Case]) -> list[list[Panel]]:
        rows = []
        for metric, axes in self._wanted(cases[0]).items():
            shown = [case for case in cases if metric in self._columns(case)]
            grid = [[self.panel(case, x, metric) for case in shown] for x in axes]
            rows += grid if len(cases) > 1 else [list(chain.from_iterable(grid))]
        return [row for row in rows if row]

    def _wanted(self, case: Case) -> dict[str, tuple[str, ...]]:
        """The metrics to draw, each with its axes; a test set's AUC against the first of them only."""
        experiment = self.plan.experiment
        if experiment.metrics:
            return dict.fromkeys(experiment.metrics, experiment.axes)
        if self.metric(case) == "gap":
            return {"gap": experiment.axes}
        return {"auc": experiment.axes, "test_auc": experiment.axes[:1], "distance": experiment.axes}

    def _columns(self, case: Case) -> set[str]:
        return set.intersection(*(set(curve.mid) for curve in self.curves(case).values()))

    def panel(self, case: Case, x: str, metric: str) -> Panel:
        """The curves of a case; methods that only communicate differently share one curve where x is the work."""
        curves, facts = self.curves(case), self.facts(case)
        if x not in TRAFFIC and x != "seconds":
            curves = {t: c for t, c in curves.items() if t in self._distinct(case)}
        marks = {SHIP_ALL: ship_all(facts, case)} if x == "doubles_max" else {}
        levels = {"the optimum's": facts[metric]} if metric in facts else {}
        return Panel(case.pooled.title, x, metric, curves, marks, levels)

    def _distinct(self, case: Case) -> list[str]:
        first: dict[str, str] = {}
        for run in self.runs:
            if run.case is case:
                key = repr(run.method.same_iterates()) + str(run.method.step_size)
                first.setdefault(key, run.method.title)
        return list(first.values())


def ship_all(facts: Mapping[str, Any], case: Case) -> float:
    """DOUBLEs each node receives when all data is sent to every node once: nnz (N - 1)/N."""
    n_nodes = case.network.topology.n_nodes
    return float(facts["nonzeros"] * (n_nodes - 1) / n_nodes)


def describe(run: Run) -> dict[str, Any]:
    """What a run is, in the columns of tables."""
    return describe_case(run.case) | {"method": run.method.title, "seed": run.seed}


def describe_case(case: Case) -> dict[str, Any]:
    return {
        "data": case.pooled.data_title,
        "problem": case.pooled.problem.title,
        "network": case.network.title,
        "split": case.split,
    }


def costs(history: History, metric: str, tol: float) -> dict[str, float | None]:
    """Every cost at the first record with ``metric`` at most ``tol``; None where there is none."""
    reached = np.flatnonzero(history[metric] <= tol)
    return {cost: float(history[cost][reached[0]]) if reached.size else None for cost in COSTS}


def _cheapest(spent: Mapping[str, Mapping[str, float | None]], cost: str) -> str:
    values = {title: value[cost] for title, value in spent.items()}
    reached = {title: value for title, value in values.items() if value is not None}
    best = min(reached.values())
    return " = ".join(title for title, value in reached.items() if value == best)


def _final(history: History, metric: str) -> float:
    value = float(history[metric][-1])
    return value if np.isfinite(value) else np.inf


def median_curve(histories: Sequence[History]) -> Curve:
    """Record by record over the seeds; one that stopped earlier keeps its last value, and costs no more."""
    if len(histories) == 1:
        return Curve(histories[0])
    length = max(len(history) for history in histories)
    bands: dict[str, list[Any]] = {}
    for name in histories[0]:
        ended = name in AXES or name == "iteration"
        rows = np.stack([_extended(history[name], length, np.nan if ended else None) for history in histories])
        pick = [np.nanmedian(rows, axis=0)] * 3 if ended else [np.median(rows, axis=0), rows.min(0), rows.max(0)]
        bands[name] = pick
    mid, low, high = (History({name: pick[i] for name, pick in bands.items()}) for i in range(3))
    return Curve(mid, low, high)


def _extended(values: Any, length: int, fill: float | None) -> Any:
    last = values[-1] if fill is None else fill
    return np.concatenate([values, np.full(length - len(values), last)])


def slug(text: str) -> str:
    words = "".join(c if c.isascii() and c.isalnum() else " " for c in text.lower()).split()
    return "-".join(words)
