"""The finished runs of an experiment, read from its results folder alone: what tables, figures and the page show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import Any, Self

import numpy as np

from dsba.engine.history import History
from dsba.errors import InputError
from dsba.graph.link import Link
from dsba.lab.curves import COSTS, Curve, Entrant, Verdict, has_fallen_back, median_curve, timed, verdict
from dsba.lab.folder import Folder
from dsba.lab.index import Environment, Index, Outcome, ShownCase, ShownReference, ShownRun, ShownSearch, written

LEAST_GAP = -1e-9  # rounding does not go below; a gap that does was measured against another problem's optimum


class FinishedRuns:
    """The runs of an experiment that are finished, or under way, and what they are of."""

    def __init__(self, folder: Folder, index: Index, partial: Mapping[str, History] | None = None) -> None:
        """``partial``: histories of runs under way, for a look before they are finished."""
        self.folder, self.index, self.partial = folder, index, dict(partial or {})
        done = {run.id for run in index.runs if folder.run(run.id).exists()}
        self.runs = [run for run in index.runs if run.id in done or run.id in self.partial]
        self.partial = {id: history for id, history in self.partial.items() if id not in done}

    @classmethod
    def load(cls, path: str | PathLike[str], partial: Mapping[str, History] | None = None) -> Self:
        """Read the results in a folder that ``run`` has written. Nothing is imported or run.

        Parameters
        ----------
        path : str or path
            The results folder.
        partial : mapping of str to History, or None
            Histories of runs that are not finished.

        Returns
        -------
        ExperimentResults
            The finished runs of the folder.

        Raises
        ------
        InputError
            If the folder has no results, or a file of it is damaged.

        Examples
        --------
        >>> import dsba
        >>> results = dsba.lab.ExperimentResults.load("results")
        """
        folder = Folder(path)
        if not folder.index.is_file():
            raise InputError(f"{folder.root} is no results folder: it has no {folder.index.name}.")
        return cls(folder, folder.read_index(), partial)

    def on(self, link: Link) -> Self:
        """The same results on other links, for the axis "time".

        Parameters
        ----------
        link : Link
            The latency and the bandwidth of every link.

        Returns
        -------
        ExperimentResults
            The same runs, with other times.

        Examples
        --------
        >>> import dsba
        >>> results = dsba.lab.ExperimentResults.load("results")
        >>> slow = results.on(dsba.Link(latency=0.1))
        """
        return type(self)(self.folder, self.index.model_copy(update={"link": link}), self.partial)

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
        return {run.id: self._sound(run) for run in self.runs}

    def _sound(self, run: ShownRun) -> History:
        history, case = self._read[run.id][1], self.case(run)
        if self.metric(case) not in history:
            raise InputError(f"the history of {run.id} has no {self.metric(case)}: it is of another problem.")
        require_sound(history, f"{run.method} on {case.data}")
        return timed(history, case.nodes, self.index.link)

    @property
    def environment(self) -> Environment:
        """The command, the versions and the machine."""
        return self.index.environment

    @property
    def unfinished(self) -> int:
        """How many runs of the plan are not finished."""
        return len(self.index.runs) - len(self.runs) + len(self.partial)

    @cached_property
    def _references(self) -> dict[str, ShownReference]:
        return {id: self.folder.read_reference(id)[0] for id in {case.reference for case in self.cases}}

    def reference(self, case: ShownCase) -> ShownReference:
        """What is shown of the case's data and reference solution."""
        return self._references[case.reference]

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
        own = [run for run in self.runs if run.case == case.id]
        return {title: [run for run in own if run.method == title] for title in dict.fromkeys(r.method for r in own)}

    def identifiers(self, case: ShownCase) -> dict[str, str]:
        """By method, the seeds of a case's finished runs and their identifiers, which ``dsba verify`` takes."""
        found = self.runs_of(case).items()
        return {title: ", ".join(f"seed {run.seed}: {run.id}" for run in runs) for title, runs in found}

    def entrants(self, case: ShownCase) -> dict[str, Entrant]:
        """The methods of a case, each with the histories of its seeds."""
        return {
            title: Entrant([self.histories[r.id] for r in runs], [self.outcomes[r.id].status for r in runs])
            for title, runs in self.runs_of(case).items()
        }

    def curves(self, case: ShownCase) -> dict[str, Curve]:
        """By method: the history, or the median of several seeds with its band."""
        entrants, band = self.entrants(case), self.index.band
        return {title: median_curve(entrant.histories, band) for title, entrant in entrants.items()}

    def constants(self, cases: Sequence[ShownCase]) -> dict[str, str]:
        """By method: its step size and its other open constants in these cases, a range where they differ."""
        found: dict[str, dict[str, list[Any]]] = {}
        for title, runs in (pair for case in cases for pair in self.runs_of(case).items()):
            for name, value in (pair for run in runs for pair in self.outcomes[run.id].chosen.items()):
                found.setdefault(title, {}).setdefault(name.replace("step_size", "step"), []).append(value)
        return {title: ", ".join(f"{n} {_range(v)}" for n, v in own.items()) for title, own in found.items()}

    def metric(self, case: ShownCase) -> str:
        """What the methods are judged by: the gap, or the distance where there is no objective."""
        return self.reference(case).metric

    def verdicts(self, case: ShownCase, tol: float) -> dict[str, Verdict]:
        """For each cost, the methods that reached the tolerance at the least of it."""
        entrants, metric = self.entrants(case), self.metric(case)
        return {cost: verdict(entrants, metric, tol, cost) for cost in COSTS}

    @property
    def labels(self) -> list[str]:
        return [method.title for method in self.index.methods]

    def searches(self, case: ShownCase) -> list[ShownSearch]:
        """The finished step-size searches of a case, as they were written."""
        planned = [s.id for s in self.index.searches if s.case == case.id]
        return [self.folder.read_search(id) for id in planned if self.folder.tuning(id).exists()]

    def warnings(self, cases: Sequence[ShownCase] | None = None) -> list[str]:
        """What a reader must know before believing a comparison, a sentence each; by default of all cases."""
        planned = self.index.cases if cases is None else cases
        found = [(case, text) for case in planned for s in self.searches(case) for text in s.warnings]
        for case in (case for case in planned if case in self.cases):
            metric = self.metric(case)
            for title, entrant in self.entrants(case).items():
                if any(has_fallen_back(history, metric) for history in entrant.histories):
                    found.append((case, f"{title} ended far above the best {metric} it had reached."))
        return list(dict.fromkeys(f"{text} ({case.problem}, {case.data}, {case.network})" for case, text in found))


def _range(values: Sequence[Any]) -> str:
    """The value of all runs, or the least and the largest; words one after the other."""
    numbers = all(isinstance(value, int | float) for value in values)
    shown = list(dict.fromkeys(written(value, 3) for value in (sorted(values) if numbers else values)))
    return " to ".join(dict.fromkeys((shown[0], shown[-1]))) if numbers else " or ".join(shown)


def require_sound(history: History, what: str) -> None:
    """An error where a gap is below zero by more than rounding: the optimum belongs to another problem."""
    least = float(np.nanmin(history["gap"], initial=0.0)) if "gap" in history else 0.0
    if least < LEAST_GAP:
        cause = "its reference solution is not the optimum of this problem"
        advice = "remove the results and run the comparison again."
        raise InputError(f"{what} has a gap of {least:.2g}, below zero: {cause}; {advice}")


def ship_all(reference: ShownReference, case: ShownCase) -> float:
    """DOUBLEs each node receives when all data is sent to every node once: nnz (N - 1)/N."""
    return reference.nonzeros * (case.nodes - 1) / case.nodes
