"""The progress of the jobs of a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsba.engine.progress import Bar
from dsba.lab.jobs import Job

Report = Callable[[str, dict[str, float]], None]  # (job id, record), for every record of every job


class PlanDisplay(Bar):
    """A progress display on a terminal; plain lines elsewhere; nothing where it is not wanted."""

    def __init__(self, wanted: bool, title: str, jobs: int, on_record: Report | None = None) -> None:
        self.tasks: dict[str, Any] = {}
        self.on_record = on_record
        if wanted:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            # titles are people's own words: no markup in them
            columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
            figures = TextColumn("{task.fields[figures]}", style="dim", markup=False)
            self.bar = Progress(*columns, TimeElapsedColumn(), figures)
            self.all = self.bar.add_task(title, total=jobs, figures="")

    def begin(self, done: int) -> None:
        """So many jobs were finished earlier."""
        if self.bar is not None and done:
            self.bar.update(self.all, advance=done, figures=f"{done} finished earlier")

    def started(self, job: Job) -> None:
        if self.bar is not None:
            self.tasks[job.id] = self.bar.add_task(f"  {job.title}", total=None, figures="")

    def record(self, id: str, record: dict[str, float]) -> None:
        if id in self.tasks:
            metric = "gap" if "gap" in record else "distance"
            self.bar.update(self.tasks[id], figures=f"{record['passes']:.0f} passes, {metric} {record[metric]:.0e}")
        if self.on_record:
            self.on_record(id, record)

    def finished(self, job: Job) -> None:
        if self.bar is not None:
            self.bar.remove_task(self.tasks.pop(job.id))
            self.bar.update(self.all, advance=1)
            if not self.bar.console.is_terminal:
                self.bar.console.print(f"{job.title}: done", markup=False, highlight=False)
